//! The index of verified objects of a partition: a scan skips objects that did not change since.
//!
//! The index is only a hint. An object counts as unchanged only if its sizes, times and the inode of its description
//! are what they were. Nothing is synced: a scan reads the descriptions again where the index is lost or damaged. Drawn
//! in `spec/object.md` §9.

use crate::object::partition::Shared;
use base::{Adler32, Checksums, Crc32c, FileId, ObjectId};
use rustix::{
    fs::{AtFlags, CWD, Stat, statat},
    io::Errno,
};
use std::{
    fs::{self, DirBuilder, OpenOptions},
    io,
    os::{
        fd::BorrowedFd,
        unix::fs::{DirBuilderExt, FileExt},
    },
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};
use tracing::debug;
use wire::media::object::ObjectInfo;

/// Bytes of a record.
const RECORD_BYTES: usize = 64;
/// Those before its own sum.
const SUMMED_BYTES: usize = 60;
/// Objects of a file follow each other: as many as this power of two, 4 MiB if all are on the partition.
const RANGE_BITS: u32 = 16;
/// A file with more is not read but begun anew: objects that are noted again and again.
const FILE_BYTES_MAX: u64 = 64 << 20;
/// Records without use that are not worth to write a file anew.
const SLACK: u64 = 1024;

/// Size and times of an object: its stamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    /// Bytes of its data.
    pub(crate) size: u64,
    /// When its data was changed, in nanoseconds since 1970.
    modified_ns: i64,
    /// When its description was changed, renamed or linked.
    described_ns: i64,
    /// The inode of its description.
    description: u64,
}

/// An object as it was last verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) object: ObjectId,
    pub(crate) file: FileId,
    pub(crate) checksums: Checksums,
    pub(crate) stamp: Stamp,
}

fn nanoseconds(seconds: i64, rest: i64) -> i64 {
    seconds.saturating_mul(1_000_000_000).saturating_add(rest)
}

impl Stamp {
    /// Of an object below `objects`. Two names are looked up; the medium is asked for two inodes at most.
    pub(crate) fn look(objects: BorrowedFd<'_>, object: ObjectId) -> Result<Self, Errno> {
        let home = object.0 & 0xff;
        let look = |name: String| statat(objects, name, AtFlags::SYMLINK_NOFOLLOW);
        let description = look(format!("{home:02x}/{object}.json"))?;
        Ok(Self::new(&description, &look(format!("{home:02x}/{object}"))?))
    }

    fn new(description: &Stat, data: &Stat) -> Self {
        Self {
            size: data.st_size.unsigned_abs(),
            modified_ns: nanoseconds(data.st_mtime, data.st_mtime_nsec as i64),
            described_ns: nanoseconds(description.st_ctime, description.st_ctime_nsec as i64),
            description: description.st_ino,
        }
    }

    /// Whether only the data was changed since, and not its size.
    pub(crate) fn is_touched(&self, now: &Self) -> bool {
        self.modified_ns != now.modified_ns && *self == Self { modified_ns: self.modified_ns, ..*now }
    }
}

impl Record {
    fn encode(&self) -> [u8; RECORD_BYTES] {
        let Self { object, file, checksums, stamp } = self;
        let mut record = [0; RECORD_BYTES];
        let words = [
            object.0,
            file.0,
            stamp.size,
            stamp.modified_ns.cast_unsigned(),
            stamp.described_ns.cast_unsigned(),
            stamp.description,
        ];
        for (place, word) in record.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        record[48..52].copy_from_slice(&checksums.adler32.0.to_le_bytes());
        record[52..56].copy_from_slice(&checksums.crc32c.0.to_le_bytes());
        let sum = Crc32c::of(&record[..SUMMED_BYTES]);
        record[SUMMED_BYTES..].copy_from_slice(&sum.0.to_le_bytes());
        record
    }

    /// `None` if it is damaged.
    fn decode(record: &[u8; RECORD_BYTES]) -> Option<Self> {
        let half =
            |at: usize| u32::from_le_bytes(record[at..at + 4].try_into().expect("the slice has four bytes"));
        let word =
            |at: usize| u64::from_le_bytes(record[at..at + 8].try_into().expect("the slice has eight bytes"));
        (Crc32c::of(&record[..SUMMED_BYTES]).0 == half(SUMMED_BYTES)).then(|| Self {
            object: ObjectId(word(0)),
            file: FileId(word(8)),
            stamp: Stamp {
                size: word(16),
                modified_ns: word(24).cast_signed(),
                described_ns: word(32).cast_signed(),
                description: word(40),
            },
            checksums: Checksums { adler32: Adler32(half(48)), crc32c: Crc32c(half(52)) },
        })
    }
}

/// The records of a file, in the order of their objects: of several of one object the last.
fn decode(bytes: &[u8]) -> Vec<Record> {
    let (records, _) = bytes.as_chunks::<RECORD_BYTES>();
    let mut records: Vec<_> = records.iter().rev().filter_map(Record::decode).collect();
    // Stable: the last of an object was put first.
    records.sort_by_key(|record| record.object);
    records.dedup_by_key(|record| record.object);
    records
}

/// The records of a partition.
#[derive(Debug)]
pub(crate) struct Index {
    directory: PathBuf,
    /// Guards the files, also while one is read or written: that takes a few milliseconds at most. None stays open: a file system
    /// that somebody wants to mount read-only must have no writers.
    files: Mutex<()>,
}

/// Number of the file in which an object is.
pub(crate) fn range_of(object: ObjectId) -> u64 {
    object.0 >> RANGE_BITS
}

impl Index {
    pub(crate) fn new(partition: &Path) -> Self {
        Self { directory: partition.join("index"), files: Mutex::default() }
    }

    fn path(&self, range: u64) -> PathBuf {
        self.directory.join(range.to_string())
    }

    fn lock(&self) -> MutexGuard<'_, ()> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes an object that was just put in place.
    pub(crate) fn note_new(&self, shared: &Shared, info: &ObjectInfo) {
        let look = |path: PathBuf| statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW);
        let description = look(shared.description(info.object));
        if let (Ok(description), Ok(data)) = (description, look(shared.data(info.object))) {
            let ObjectInfo { object, file, checksums, .. } = *info;
            self.note(&Record { object, file, checksums, stamp: Stamp::new(&description, &data) });
        }
    }

    /// Notes an object. If that fails it is read again by the next scan.
    pub(crate) fn note(&self, record: &Record) {
        let _files = self.lock();
        if let Err(cause) = self.append(record) {
            debug!(object = %record.object, %cause, directory = %self.directory.display(), "cannot record an \
                object in the partition's index");
        }
    }

    fn append(&self, record: &Record) -> io::Result<()> {
        let path = self.path(range_of(record.object));
        let open = || OpenOptions::new().write(true).create(true).truncate(false).open(&path);
        let file = match open() {
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => {
                // Users of the host have no business with it.
                DirBuilder::new().mode(0o750).create(&self.directory)?;
                open()?
            }
            file => file?,
        };
        // What a full disk has cut short is written over.
        let end = file.metadata()?.len() / RECORD_BYTES as u64 * RECORD_BYTES as u64;
        file.write_all_at(&record.encode(), end)
    }

    /// The records of a range of objects, in their order, of those that `is_here` knows. A file that has much else is written
    /// anew.
    pub(crate) fn read(&self, range: u64, is_here: impl Fn(ObjectId) -> bool) -> Vec<Record> {
        let _files = self.lock();
        let path = self.path(range);
        let length = fs::metadata(&path).map_or(0, |file| file.len());
        let bytes = if length <= FILE_BYTES_MAX { fs::read(&path).unwrap_or_default() } else { Vec::new() };
        let mut records = decode(&bytes);
        records.retain(|record| range_of(record.object) == range && is_here(record.object));
        if length / RECORD_BYTES as u64 > 2 * records.len() as u64 + SLACK
            && let Err(cause) = write_anew(&path, &records)
        {
            debug!(%cause, path = %path.display(), "cannot rewrite the partition's index");
        }
        records
    }

    /// Deletes the files of ranges before `range` of which `is_any_here` knows nothing.
    pub(crate) fn forget_before(&self, range: u64, is_any_here: impl Fn(u64) -> bool) {
        let Ok(entries) = fs::read_dir(&self.directory) else { return };
        let _files = self.lock();
        for entry in entries.flatten() {
            let number: Option<u64> = entry.file_name().to_str().and_then(|name| name.parse().ok());
            if let Some(number) = number.filter(|number| *number < range && !is_any_here(*number)) {
                // It is in nobody's way if it stays.
                let _ = fs::remove_file(self.path(number));
            }
        }
    }
}

fn write_anew(path: &Path, records: &[Record]) -> io::Result<()> {
    let new = path.with_extension("new");
    let bytes: Vec<u8> = records.iter().flat_map(Record::encode).collect();
    fs::write(&new, bytes)?;
    fs::rename(&new, path)
}

/// Fuzz body: whatever a file of records holds, what is read of it is what was written.
pub fn fuzz_index(data: &[u8]) {
    for record in decode(data) {
        let bytes = record.encode();
        assert_eq!(Record::decode(&bytes), Some(record));
        assert!(data.chunks_exact(RECORD_BYTES).any(|written| written[..56] == bytes[..56]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(object: u64, size: u64) -> Record {
        let stamp = Stamp { size, modified_ns: -1, described_ns: i64::MAX, description: 7 };
        let checksums = Checksums::of(&object.to_le_bytes());
        Record { object: ObjectId(object), file: FileId(object + 1), checksums, stamp }
    }

    fn index() -> (tempfile::TempDir, Index) {
        let home = tempfile::tempdir().unwrap();
        let index = Index::new(home.path());
        (home, index)
    }

    #[test]
    fn the_last_note_of_an_object_counts_and_damage_is_passed_over() {
        let (_home, index) = index();
        for (object, size) in [(3, 1), (1, 2), (3, 4), (2, 5), (0x1_0000, 6)] {
            index.note(&record(object, size));
        }
        let all = |_: ObjectId| true;
        assert_eq!(index.read(0, all), [record(1, 2), record(2, 5), record(3, 4)]);
        assert_eq!(index.read(1, all), [record(0x1_0000, 6)]);
        assert_eq!(index.read(2, all), []);
        // The second is damaged, and half a record is at the end: written over by the next one.
        let mut bytes = fs::read(index.path(0)).unwrap();
        bytes[70] ^= 1;
        bytes.extend([9; 20]);
        fs::write(index.path(0), bytes).unwrap();
        let index = Index::new(index.directory.parent().unwrap());
        index.note(&record(9, 9));
        assert_eq!(index.read(0, all), [record(2, 5), record(3, 4), record(9, 9)]);
        assert_eq!(index.read(0, |object| object == ObjectId(9)), [record(9, 9)]);
    }

    #[test]
    fn what_is_not_there_any_more_leaves_no_files_behind() {
        let (_home, index) = index();
        for object in (0..2 * SLACK).chain([0x1_0000, 0x2_0000]) {
            index.note(&record(object, 1));
        }
        let length = |range| fs::metadata(index.path(range)).map_or(0, |file| file.len());
        let few = |object: ObjectId| object.0 < 10;
        assert_eq!(index.read(0, few).len(), 10);
        assert_eq!(length(0), 10 * RECORD_BYTES as u64, "it was written anew");
        index.note(&record(11, 1));
        assert_eq!(length(0), 11 * RECORD_BYTES as u64, "and goes on there");
        // One that is too long for anything is begun anew.
        fs::File::options().write(true).open(index.path(0)).unwrap().set_len(FILE_BYTES_MAX + 1).unwrap();
        assert_eq!((index.read(0, few).len(), length(0)), (0, 0));
        index.note(&record(11, 1));
        index.forget_before(2, |range| range == 0);
        assert_eq!((length(0) > 0, length(1), length(2) > 0), (true, 0, true));
        index.note(&record(0x1_0001, 1));
        assert_eq!(length(1), RECORD_BYTES as u64);
    }

    #[test]
    fn a_touch_is_told_from_another_description() {
        let before = record(1, 5).stamp;
        assert!(before.is_touched(&Stamp { modified_ns: 3, ..before }));
        assert!(!before.is_touched(&before));
        assert!(!before.is_touched(&Stamp { modified_ns: 3, size: 6, ..before }));
        assert!(!before.is_touched(&Stamp { modified_ns: 3, described_ns: 4, ..before }));
    }

    #[test]
    fn where_nothing_can_be_written_nothing_is_noted() {
        let (home, index) = index();
        fs::write(home.path().join("index"), b"in the way").unwrap();
        index.note(&record(1, 1));
        assert_eq!(index.read(0, |_| true), []);
    }
}
