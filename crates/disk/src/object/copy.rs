//! Beginning an object with the content of another: shared blocks, a copy in the kernel, or a plain copy.

use rustix::{
    fs::{copy_file_range, ioctl_ficlone},
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
    let done = copy_in_kernel(from, to, size)?;
    copy_plainly(from, to, done, size)
}

/// Copies as much as the kernel will; returns how far it came.
fn copy_in_kernel(from: &File, to: &File, size: u64) -> io::Result<u64> {
    let mut done = 0;
    while done < size {
        let (mut source, mut sink) = (done, done);
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

/// Copies from `done` to `size`.
pub(crate) fn copy_plainly(from: &File, to: &File, mut done: u64, size: u64) -> io::Result<()> {
    if done == size {
        return Ok(());
    }
    let mut buffer = vec![0; COPY_BUFFER_BYTES];
    while done < size {
        let count = read_full(from, &mut buffer, done)?;
        if count == 0 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
        }
        to.write_all_at(&buffer[..count], done)?;
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
                copy_in_kernel(from, to, size / 2)?;
                copy_plainly(from, to, size / 2, size)
            }),
            ("plain", |from, to, size| copy_plainly(from, to, 0, size)),
        ];
        for (name, method) in methods {
            let to = File::create(path(name)).unwrap();
            method(&from, &to, size).unwrap();
            assert!(std::fs::read(path(name)).unwrap() == content, "{name}");
        }
        let to = File::create(path("short")).unwrap();
        assert!(copy_plainly(&from, &to, 0, size + 1).is_err());
    }
}
