//! Reading committed objects.

use crate::{
    io::{
        direct::DirectFile,
        map::Map,
        read_full,
        ring::{self, Wanted},
    },
    object::{description::Description, partition::Shared},
};
use base::{ByteRange, Checksums, Failure, ObjectId, PageSums, Result, units::counted};
use rustix::{
    fs::{Advice, fadvise, fstatfs},
    io::{Errno, ReadWriteFlags, preadv, preadv2},
};
use std::{
    fs::File,
    io::{self, IoSliceMut},
    num::NonZeroU64,
    os::fd::{AsFd, BorrowedFd},
    sync::{Arc, OnceLock},
};
use wire::media::object::ObjectInfo;

/// Bytes read at once when a whole object is summed: large enough to stream from a disk, small enough for its cache.
const SUM_BUFFER_BYTES: usize = 1 << 20;
/// Slices of one read: as many as the kernel takes.
const SLICES_MAX: usize = 1024;
/// Ranges this close are read as one: a disk that seeks loses more than it gains.
const MERGE_GAP_BYTES: u64 = 64 << 10;
/// Ranges that are looked at to tell whether a vector is in memory.
const SAMPLES_MAX: usize = 4;
/// A committed object. Several threads may read it at once; it stays readable when it is removed.
#[derive(Debug)]
pub struct ObjectReader {
    shared: Arc<Shared>,
    file: File,
    /// For reads past the page cache, if the partition wants them.
    direct: Option<DirectFile>,
    info: ObjectInfo,
    /// Made when it is first asked for; `None` if it cannot be made.
    map: OnceLock<Option<Map>>,
    page_sums: PageSums,
}

impl ObjectReader {
    pub(crate) fn open(shared: &Arc<Shared>, object: ObjectId) -> Result<Self> {
        let info = Description::read(Description::open(shared, object), shared, object)?;
        let file = File::open(shared.data(object)).map_err(|cause| shared.failed("open", object, &cause))?;
        let size = file.metadata().map_err(|cause| shared.failed("open", object, &cause))?.len();
        if size != info.size {
            return Err(Failure::corrupt(format!(
                "object {object} on {} has {}, its description says {}",
                shared.name(),
                counted(size, "byte", "bytes"),
                info.size
            )));
        }
        let direct = if shared.is_direct() {
            DirectFile::open(&shared.data(object), false)
                .map_err(|cause| shared.failed("open", object, &cause))?
        } else {
            None
        };
        Ok(Self {
            shared: Arc::clone(shared),
            file,
            direct,
            info,
            map: OnceLock::new(),
            page_sums: PageSums::default(),
        })
    }

    /// Its size in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.info.size
    }

    /// Whether the file still has the size of the object.
    pub(crate) fn is_whole(&self) -> bool {
        self.file.metadata().is_ok_and(|metadata| metadata.len() == self.info.size)
    }

    /// Its description.
    #[must_use]
    pub fn info(&self) -> &ObjectInfo {
        &self.info
    }

    /// Fills `buffer` from `offset` on; returns fewer bytes only at the end of the object.
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        let read = match &self.direct {
            Some(direct) => direct.read_at(buffer, offset),
            None => read_full(&self.file, buffer, offset),
        };
        read.map_err(|cause| self.shared.failed("read", self.info.object, &cause))
    }

    /// Whether its bytes come from the page cache, where the kernel can take them.
    #[must_use]
    pub fn is_cached(&self) -> bool {
        self.direct.is_none()
    }

    /// Fills all buffers, many at once; the end of the object before that is a failure.
    pub fn read_many(&self, wanted: &mut [Wanted<'_>]) -> Result<()> {
        let read = match &self.direct {
            Some(direct) => direct.read_many(wanted),
            None => ring::read_many(&self.file, wanted),
        };
        read.map_err(|cause| self.shared.failed("read", self.info.object, &cause))
    }

    /// Fills all of `buffers`, one after the other, from `offset` on; the end of the object before that is a failure.
    pub fn read_vectored_at(&self, buffers: &mut [IoSliceMut<'_>], offset: u64) -> Result<()> {
        let mut rest = buffers;
        let mut at = offset;
        if self.direct.is_some() {
            return self.read_each_at(rest, at);
        }
        while !rest.is_empty() {
            let some = rest.len().min(SLICES_MAX);
            match preadv(&self.file, &mut rest[..some], at) {
                Ok(0) => {
                    let end = self.size();
                    return Err(Failure::corrupt(format!(
                        "object {} ended at {at} of {end}",
                        self.info.object
                    )));
                }
                Ok(count) => {
                    IoSliceMut::advance_slices(&mut rest, count);
                    at += count as u64;
                }
                Err(Errno::INTR) => {}
                Err(cause) => return Err(self.shared.failed("read", self.info.object, &cause.into())),
            }
        }
        Ok(())
    }

    fn read_each_at(&self, buffers: &mut [IoSliceMut<'_>], offset: u64) -> Result<()> {
        let bytes = buffers.iter().map(|buffer| buffer.len()).sum();
        let mut all = vec![0; bytes];
        if self.read_at(&mut all, offset)? < bytes {
            return Err(self.ended(offset));
        }
        let mut rest = all.as_slice();
        for buffer in buffers {
            let (of_buffer, after) = rest.split_at(buffer.len());
            buffer.copy_from_slice(of_buffer);
            rest = after;
        }
        Ok(())
    }

    fn ended(&self, at: u64) -> Failure {
        Failure::corrupt(format!("object {} has no byte {at} of {}", self.info.object, self.size()))
    }

    /// The object in memory; `None` if it is empty or cannot be mapped. Only the kernel may touch it, as the source of
    /// a `write` or `send`: it reports a page that cannot be read, everybody else would be killed.
    pub fn mapped(&self) -> Option<&[u8]> {
        if self.info.size == 0 || !self.is_cached() {
            return None;
        }
        let map = self.map.get_or_init(|| {
            Map::new(&self.file, self.info.size)
                .inspect_err(|cause| {
                    tracing::debug!(object = %self.info.object, %cause, "cannot map an object; \
                    it is read by other means");
                })
                .ok()
        });
        map.as_ref().map(Map::bytes)
    }

    /// Sums of its pages, as far as somebody has computed them.
    #[must_use]
    pub fn page_sums(&self) -> &PageSums {
        &self.page_sums
    }

    /// Tells the kernel that `ranges` will be read, merged where they are close, if they are not in memory already.
    pub fn will_read(&self, ranges: &[ByteRange]) {
        if !self.is_cached() || self.is_in_memory(ranges) {
            return;
        }
        let mut sorted = ranges.to_vec();
        sorted.sort_unstable_by_key(|range| range.offset);
        let mut rest = sorted.into_iter();
        let Some(mut merged) = rest.next() else { return };
        for range in rest {
            if range.offset <= merged.end.saturating_add(MERGE_GAP_BYTES) {
                merged.end = merged.end.max(range.end);
                continue;
            }
            self.advise(merged);
            merged = range;
        }
        self.advise(merged);
    }

    fn advise(&self, range: ByteRange) {
        // Advice only: errors do not matter.
        let _ = fadvise(&self.file, range.offset, NonZeroU64::new(range.length()), Advice::WillNeed);
    }

    /// Looks at a few of `ranges`: what is hot is hot as a whole, mostly.
    fn is_in_memory(&self, ranges: &[ByteRange]) -> bool {
        let step = ranges.len().div_ceil(SAMPLES_MAX).max(1);
        ranges.iter().step_by(step).all(|range| {
            let mut byte = [0];
            let room = &mut [IoSliceMut::new(&mut byte)];
            match preadv2(&self.file, room, range.offset, ReadWriteFlags::NOWAIT) {
                Err(Errno::OPNOTSUPP) => is_on_tmpfs(&self.file),
                looked => looked.is_ok(),
            }
        })
    }

    /// Reads the object from the medium, not from memory, and compares it with its description.
    pub(crate) fn verify(&self) -> Result<()> {
        let object = self.info.object;
        // A scrub that is answered by the page cache proves nothing about the disk. Advice only: errors do not matter.
        let _ = fadvise(&self.file, 0, None, Advice::DontNeed);
        let (size, found) =
            sum_file(&self.file).map_err(|cause| self.shared.failed("verify", object, &cause))?;
        let _ = fadvise(&self.file, 0, None, Advice::DontNeed);
        compare(object, self.shared.name(), (self.info.size, self.info.checksums), (size, found))
    }

    pub(crate) fn file(&self) -> &File {
        &self.file
    }
}

/// Whether there is no disk below: such a file system knows no reads that do not wait.
fn is_on_tmpfs(file: &File) -> bool {
    const TMPFS_MAGIC: i64 = 0x0102_1994;
    fstatfs(file).is_ok_and(|of| of.f_type == TMPFS_MAGIC)
}

/// For the data path, which sends from the file without copying.
impl AsFd for ObjectReader {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Fails as corrupt unless size and sums are as expected.
pub(crate) fn compare(
    object: ObjectId,
    partition: &str,
    expected: (u64, Checksums),
    found: (u64, Checksums),
) -> Result<()> {
    if expected == found {
        return Ok(());
    }
    let text = |(size, sums): (u64, Checksums)| {
        format!("{}, adler32 {}, crc32c {}", counted(size, "byte", "bytes"), sums.adler32, sums.crc32c)
    };
    Err(Failure::corrupt(format!(
        "object {object} on {partition}: expected {}; found {}",
        text(expected),
        text(found)
    )))
}

/// Size and sums of everything that is in `file`.
pub(crate) fn sum_file(file: &File) -> io::Result<(u64, Checksums)> {
    let _ = fadvise(file, 0, None, Advice::Sequential);
    let mut buffer = vec![0; SUM_BUFFER_BYTES];
    let (mut size, mut sums) = (0, Checksums::EMPTY);
    loop {
        let count = read_full(file, &mut buffer, size)?;
        if count == 0 {
            return Ok((size, sums));
        }
        sums = sums.extend(&buffer[..count]);
        size += count as u64;
    }
}
