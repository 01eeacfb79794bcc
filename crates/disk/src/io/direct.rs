//! Reads and writes past the page cache.
//!
//! The kernel demands that offset, length and memory are whole blocks; callers use any bytes. Each thread has a buffer
//! between them, which costs one copy within the cache of a core.

use crate::io::ring::{self, Wanted};
use base::PageBuffer;
use rustix::fs::OFlags;
use std::{
    cell::RefCell,
    fs::{File, OpenOptions},
    io,
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::Path,
};

/// What the largest sectors and every page size divide.
const BLOCK_BYTES: usize = 4096;
/// Bytes of one read or write: enough for the rate of a disk, and for its cache.
const BUFFER_BYTES: usize = 1 << 20;

thread_local! {
    static BUFFER: RefCell<PageBuffer> = RefCell::default();
}

/// A second descriptor of a file, for whole blocks.
#[derive(Debug)]
pub(crate) struct DirectFile(File);

impl DirectFile {
    /// Opens an existing file; `None` where the file system cannot do it.
    pub(crate) fn open(path: &Path, for_writing: bool) -> io::Result<Option<Self>> {
        let flags = OFlags::DIRECT.bits().cast_signed();
        let file = OpenOptions::new().read(true).write(for_writing).custom_flags(flags).open(path);
        match file {
            Ok(file) => Ok(Some(Self(file))),
            Err(cause) if cause.kind() == io::ErrorKind::InvalidInput => {
                tracing::debug!(path = %path.display(), "this file system does not support direct I/O");
                Ok(None)
            }
            Err(cause) => Err(cause),
        }
    }

    /// Fills `buffer` from `offset` unless the file ends before.
    pub(crate) fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        Self::read_of(&self.0, buffer, offset)
    }

    fn read_of(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut done = 0;
        while done < buffer.len() {
            let at = offset + done as u64;
            let lead = (at % BLOCK_BYTES as u64) as usize;
            let wanted = (lead + buffer.len() - done).next_multiple_of(BLOCK_BYTES).min(BUFFER_BYTES);
            let count = with_buffer(|blocks| {
                let count = file.read_at(&mut blocks[..wanted], at - lead as u64)?;
                let useful = count.saturating_sub(lead).min(buffer.len() - done);
                buffer[done..done + useful].copy_from_slice(&blocks[lead..lead + useful]);
                io::Result::Ok(useful)
            });
            match count {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
                Err(cause) => return Err(cause),
            }
        }
        Ok(done)
    }

    /// Fills all buffers, many at once. The end of the file before that is an error.
    pub(crate) fn read_many(&self, wanted: &mut [Wanted<'_>]) -> io::Result<()> {
        for group in groups(wanted) {
            read_group(&self.0, group)?;
        }
        Ok(())
    }

    /// Writes the whole blocks at the start of `bytes`; yields how many bytes those are. `offset` must be that of a
    /// block, else nothing is written.
    pub(crate) fn write_blocks(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        if !offset.is_multiple_of(BLOCK_BYTES as u64) {
            return Ok(0);
        }
        let whole = bytes.len() - bytes.len() % BLOCK_BYTES;
        let mut at = offset;
        for piece in bytes[..whole].chunks(BUFFER_BYTES) {
            with_buffer(|blocks| {
                blocks[..piece.len()].copy_from_slice(piece);
                self.0.write_all_at(&blocks[..piece.len()], at)
            })?;
            at += piece.len() as u64;
        }
        Ok(whole)
    }
}

/// The whole blocks around a range: where they begin, what lies before the range, and their length.
fn blocks_around(offset: u64, length: usize) -> (u64, usize, usize) {
    let lead = (offset % BLOCK_BYTES as u64) as usize;
    (offset - lead as u64, lead, (lead + length).next_multiple_of(BLOCK_BYTES))
}

/// Cuts a list so that the blocks of each part fit the buffer; what does not fit alone stands alone.
fn groups<'a, 'b>(mut wanted: &'a mut [Wanted<'b>]) -> Vec<&'a mut [Wanted<'b>]> {
    let mut groups = Vec::new();
    while !wanted.is_empty() {
        let mut bytes = 0;
        let fits = |(offset, buffer): &&Wanted<'b>| {
            bytes += blocks_around(*offset, buffer.len()).2;
            bytes <= BUFFER_BYTES
        };
        let count = wanted.iter().take_while(fits).count().max(1);
        let (group, rest) = wanted.split_at_mut(count);
        groups.push(group);
        wanted = rest;
    }
    groups
}

fn read_group(file: &File, group: &mut [Wanted<'_>]) -> io::Result<()> {
    if let [(offset, buffer)] = group {
        let whole = DirectFile::read_of(file, buffer, *offset)? == buffer.len();
        return if whole { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) };
    }
    with_buffer(|memory| {
        let mut rest = memory;
        let mut blocks = Vec::with_capacity(group.len());
        for (offset, buffer) in &*group {
            let (start, _, length) = blocks_around(*offset, buffer.len());
            let (room, after) = rest.split_at_mut(length);
            blocks.push((start, room));
            rest = after;
        }
        ring::read_some(file, &mut blocks, |index| {
            let (offset, buffer) = &group[index];
            blocks_around(*offset, 0).1 + buffer.len()
        })?;
        for ((offset, buffer), (_, room)) in group.iter_mut().zip(blocks) {
            let lead = blocks_around(*offset, 0).1;
            buffer.copy_from_slice(&room[lead..lead + buffer.len()]);
        }
        Ok(())
    })
}

/// Lends the aligned buffer of this thread.
fn with_buffer<T>(work: impl FnOnce(&mut [u8]) -> T) -> T {
    BUFFER.with_borrow_mut(|memory| {
        if memory.is_empty() {
            *memory = PageBuffer::new(BUFFER_BYTES);
        }
        work(memory)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::rng::Rng;

    #[test]
    fn bytes_come_and_go_as_through_the_page_cache() {
        // A file system in memory has no direct path: the sources lie on a disk, mostly.
        let directory = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let path = directory.path().join("f");
        let mut rng = Rng::new(3);
        let bytes: Vec<u8> = (0..3_000_001).map(|_| rng.below(256) as u8).collect();
        let file = File::create(&path).unwrap();
        let Some(direct) = DirectFile::open(&path, true).unwrap() else { return };
        let whole = direct.write_blocks(&bytes, 0).unwrap();
        assert_eq!(whole, bytes.len() / BLOCK_BYTES * BLOCK_BYTES);
        assert_eq!(direct.write_blocks(&bytes, 7).unwrap(), 0);
        file.write_all_at(&bytes[whole..], whole as u64).unwrap();
        for (offset, length) in
            [(0, 10), (4095, 2), (5, 2_000_000), (2_999_000, 5000), (3_000_001, 1), (9, 0)]
        {
            let mut buffer = vec![0; length];
            let count = direct.read_at(&mut buffer, offset as u64).unwrap();
            assert_eq!(&buffer[..count], &bytes[offset..(offset + length).min(bytes.len())]);
        }
        let ranges: Vec<_> = (0..300).map(|_| rng.below(2_900_000) as usize).collect();
        let mut buffers = vec![vec![0; 7000]; ranges.len()];
        let mut wanted: Vec<_> =
            ranges.iter().zip(&mut buffers).map(|(at, b)| (*at as u64, &mut b[..])).collect();
        direct.read_many(&mut wanted).unwrap();
        for (at, buffer) in ranges.iter().zip(&buffers) {
            assert!(buffer[..] == bytes[*at..at + 7000]);
        }
        let mut beyond = [0; 2];
        assert!(direct.read_many(&mut [(5, &mut [0; 3][..]), (3_000_000, &mut beyond[..])]).is_err());
    }
}
