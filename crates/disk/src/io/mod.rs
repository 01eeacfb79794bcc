//! Ways to the bytes: direct, mapped, many at once.

pub(crate) mod direct;
pub(crate) mod map;
pub(crate) mod ring;

use std::{fs::File, io, os::unix::fs::FileExt};

/// Fills `buffer` unless the file ends before.
pub(crate) fn read_full(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut done = 0;
    while done < buffer.len() {
        match file.read_at(&mut buffer[done..], offset.saturating_add(done as u64)) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
            Err(cause) => return Err(cause),
        }
    }
    Ok(done)
}
