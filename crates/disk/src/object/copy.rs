//! Copies between objects: shared blocks, a copy in the kernel, or a plain copy.

use base::ByteRange;
use rustix::{
    fs::{SeekFrom, copy_file_range, ftruncate, ioctl_ficlone, seek},
    io::Errno,
};
use std::{fs::File, io, os::unix::fs::FileExt};

use crate::io::read_full;

/// Bytes moved by one plain read and write.
const COPY_BUFFER_BYTES: usize = 1 << 20;
/// Bytes asked of one `copy_file_range`: the kernel cuts it to less than 2 GiB anyway.
const KERNEL_COPY_BYTES: usize = 1 << 30;

/// Makes `to`, which is empty, hold the `size` bytes of `from`.
pub(crate) fn copy_content(from: &File, to: &File, size: u64) -> io::Result<()> {
    // A file system without shared blocks refuses at once and changes nothing.
    if ioctl_ficlone(to, from).is_ok() {
        return Ok(());
    }
    let mut at = 0;
    while let Some(data) = next_data(from, at, size)? {
        copy_range(from, data, to, data.offset)?;
        at = data.end;
    }
    // What is left is a hole.
    if from.metadata()?.len() < size {
        return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
    }
    Ok(ftruncate(to, size)?)
}

/// The next bytes from `at` on that are no hole; all of them where the file system knows no holes.
fn next_data(file: &File, at: u64, size: u64) -> io::Result<Option<ByteRange>> {
    if at >= size {
        return Ok(None);
    }
    let offset = match seek(file, SeekFrom::Data(at)) {
        Ok(offset) if offset < size => offset,
        Ok(_) | Err(Errno::NXIO) => return Ok(None),
        Err(_) => return Ok(Some(ByteRange { offset: at, end: size })),
    };
    let end = seek(file, SeekFrom::Hole(offset)).map_or(size, |end| end.min(size));
    Ok(Some(ByteRange { offset, end }))
}

/// Copies the range `from` to `at`; the same file may be both if they do not overlap.
pub(crate) fn copy_range(source: &File, from: ByteRange, sink: &File, at: u64) -> io::Result<()> {
    let done = copy_in_kernel((source, from.offset), (sink, at), from.length())?;
    copy_plainly((source, from.offset), (sink, at), done, from.length())
}

/// Copies as much of `size` bytes as the kernel will; returns how far it came.
fn copy_in_kernel((from, at): (&File, u64), (to, place): (&File, u64), size: u64) -> io::Result<u64> {
    let mut done = 0;
    while done < size {
        let (mut source, mut sink) = (at + done, place + done);
        let ask = KERNEL_COPY_BYTES.min((size - done) as usize);
        match copy_file_range(from, Some(&mut source), to, Some(&mut sink), ask) {
            Ok(0) => break,
            Ok(count) => done += count as u64,
            Err(Errno::INTR) => {}
            Err(Errno::NOSYS | Errno::OPNOTSUPP | Errno::INVAL | Errno::XDEV | Errno::PERM) => break,
            Err(cause) => return Err(cause.into()),
        }
    }
    Ok(done)
}

/// Copies from `done` to `size`, both counted from the two places on.
fn copy_plainly(
    (from, at): (&File, u64),
    (to, place): (&File, u64),
    mut done: u64,
    size: u64,
) -> io::Result<()> {
    if done == size {
        return Ok(());
    }
    let mut buffer = vec![0; COPY_BUFFER_BYTES];
    while done < size {
        let most = buffer.len().min((size - done) as usize);
        let count = read_full(from, &mut buffer[..most], at + done)?;
        if count == 0 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
        }
        to.write_all_at(&buffer[..count], place + done)?;
        done += count as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_gives_the_same_bytes() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let content: Vec<u8> = (0..3_000_000u32).map(|i| ((i * 7) >> 3) as u8).collect();
        std::fs::write(path("from"), &content).unwrap();
        let from = File::open(path("from")).unwrap();
        let size = content.len() as u64;
        type CopyMethod = fn(&File, &File, u64) -> io::Result<()>;
        let methods: [(&str, CopyMethod); 3] = [
            ("best", copy_content),
            ("kernel then plain", |from, to, size| {
                copy_in_kernel((from, 0), (to, 0), size / 2)?;
                copy_plainly((from, 0), (to, 0), size / 2, size)
            }),
            ("plain", |from, to, size| copy_plainly((from, 0), (to, 0), 0, size)),
        ];
        for (name, method) in methods {
            let to = File::create(path(name)).unwrap();
            method(&from, &to, size).unwrap();
            assert!(std::fs::read(path(name)).unwrap() == content, "{name}");
        }
        let to = File::create(path("short")).unwrap();
        assert!(copy_plainly((&from, 0), (&to, 0), 0, size + 1).is_err());
        assert!(copy_content(&from, &to, size + 1).is_err());
    }
}
