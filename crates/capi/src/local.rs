//! Files of this host, by the calls of the system.

use crate::{
    attributes::Attributes,
    descriptor::Channel,
    fault::{Fault, Result},
    foreign,
};
use base::ByteRange;
use client::xrd::ReadMode;
use libc::{c_int, mode_t};
use rustix::{
    fs::{Advice, Mode, OFlags},
    io::Errno,
};
use share::LockMode;
use std::{
    fs::File,
    io::{self, SeekFrom},
    os::unix::fs::FileExt,
    path::PathBuf,
};

/// An open file of this host. Its position is the system's: after a fork parent and child share it, as ever.
#[derive(Debug)]
pub(crate) struct LocalFile {
    file: File,
    path: PathBuf,
}

impl LocalFile {
    /// Opens as the system does.
    pub(crate) fn open(path: PathBuf, flags: c_int, mode: mode_t) -> Result<Self> {
        let bits = OFlags::from_bits_retain(flags.cast_unsigned()) | OFlags::CLOEXEC;
        match rustix::fs::open(&path, bits, Mode::from_raw_mode(mode)) {
            Ok(fd) => Ok(Self { file: File::from(fd), path }),
            Err(cause) => Err(Fault::local(format!("open {}", path.display()), cause)),
        }
    }

    /// Closes, with the error that some file systems have kept until then.
    pub(crate) fn close(self) -> Result<()> {
        let path = self.path;
        foreign::close(self.file.into())
            .map_err(|cause| Fault::local(format!("close {}", path.display()), cause))
    }

    fn told<T>(&self, operation: &str, outcome: Result<T, impl Into<io::Error>>) -> Result<T> {
        outcome.map_err(|cause| Fault::local(format!("{operation} {}", self.path.display()), cause))
    }

    /// Gives a hint; that it means nothing to a pipe is no failure.
    fn hint(&self, range: ByteRange, advice: Advice) -> Result<()> {
        let length = std::num::NonZeroU64::new(range.length());
        match rustix::fs::fadvise(&self.file, range.offset, length, advice) {
            Ok(()) | Err(Errno::SPIPE | Errno::INVAL | Errno::OPNOTSUPP) => Ok(()),
            Err(cause) => self.told("advise", Err(cause)),
        }
    }
}

impl Channel for LocalFile {
    fn read(&self, buffer: &mut [u8]) -> Result<usize> {
        self.told("read", rustix::io::read(&self.file, buffer))
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        self.told("read", rustix::io::pread(&self.file, buffer, offset))
    }

    fn read_ranges(&self, ranges: &[ByteRange], buffers: &mut [&mut [u8]]) -> Result<()> {
        for (range, buffer) in ranges.iter().zip(buffers) {
            match self.file.read_exact_at(buffer, range.offset) {
                Err(cause) if cause.kind() == io::ErrorKind::UnexpectedEof => {
                    return Err(past_the_end(*range, &self.path.display().to_string()));
                }
                outcome => self.told("read", outcome)?,
            }
        }
        Ok(())
    }

    fn write(&self, data: &[u8]) -> Result<usize> {
        self.told("write", rustix::io::write(&self.file, data))
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<usize> {
        self.told("write", rustix::io::pwrite(&self.file, data, offset))
    }

    fn seek(&self, to: SeekFrom) -> Result<u64> {
        let to = match to {
            SeekFrom::Start(offset) => rustix::fs::SeekFrom::Start(offset),
            SeekFrom::Current(offset) => rustix::fs::SeekFrom::Current(offset),
            SeekFrom::End(offset) => rustix::fs::SeekFrom::End(offset),
        };
        self.told("seek in", rustix::fs::seek(&self.file, to))
    }

    fn preseek(&self, ranges: &[ByteRange]) -> Result<()> {
        let mut ranges = ranges.iter().filter(|range| !range.is_empty());
        ranges.try_for_each(|range| self.hint(*range, Advice::WillNeed))
    }

    fn advise(&self, mode: ReadMode) -> Result<()> {
        let advice = match mode {
            ReadMode::Automatic => Advice::Normal,
            ReadMode::Sequential => Advice::Sequential,
            ReadMode::Random => Advice::Random,
        };
        self.hint(ByteRange { offset: 0, end: 0 }, advice)
    }

    fn truncate(&self, size: u64) -> Result<()> {
        self.told("truncate", rustix::fs::ftruncate(&self.file, size))
    }

    fn sync(&self) -> Result<()> {
        self.told("sync", rustix::fs::fsync(&self.file))
    }

    fn attributes(&self) -> Result<Attributes> {
        self.told("stat", self.file.metadata()).map(|metadata| Attributes::local(&metadata))
    }

    fn lock(&self, range: ByteRange, mode: Option<LockMode>, is_patient: bool) -> Result<bool> {
        match foreign::lock(&self.file, range, mode, is_patient) {
            Err(cause) if matches!(cause.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => Ok(false),
            outcome => self.told("lock", outcome).map(|()| true),
        }
    }
}

/// A range of a vector read that the file does not have.
pub(crate) fn past_the_end(range: ByteRange, name: &str) -> Fault {
    let (length, offset) = (range.length(), range.offset);
    Fault::invalid(format!("read {length} bytes at {offset} of {name}: the range reaches past the end"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use libc::{O_CREAT, O_EXCL, O_RDONLY, O_RDWR};

    #[test]
    fn calls_go_to_the_system() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x");
        let file = LocalFile::open(path.clone(), O_RDWR | O_CREAT | O_EXCL, 0o600).unwrap();
        assert_eq!(file.write(b"0123456789").unwrap(), 10);
        assert_eq!(file.seek(SeekFrom::End(-4)).unwrap(), 6);
        let mut four = [0; 4];
        assert_eq!(file.read(&mut four).unwrap(), 4);
        assert_eq!(&four, b"6789");
        let ranges = [ByteRange { offset: 1, end: 3 }, ByteRange { offset: 0, end: 1 }];
        let (mut two, mut one) = ([0; 2], [0; 1]);
        file.read_ranges(&ranges, &mut [&mut two, &mut one]).unwrap();
        assert_eq!((&two, &one), (b"12", b"0"));
        let late = [ByteRange { offset: 9, end: 11 }];
        assert_eq!(file.read_ranges(&late, &mut [&mut two]).unwrap_err().errno, libc::EINVAL);
        for mode in [ReadMode::Automatic, ReadMode::Sequential, ReadMode::Random] {
            file.advise(mode).unwrap();
        }
        file.preseek(&ranges).unwrap();
        file.truncate(3).unwrap();
        file.sync().unwrap();
        assert_eq!(file.attributes().unwrap().size, 3);
        file.close().unwrap();
        let again = LocalFile::open(path.clone(), O_RDWR | O_CREAT | O_EXCL, 0o600).unwrap_err();
        assert_eq!(again.errno, libc::EEXIST);
        let read_only = LocalFile::open(path, O_RDONLY, 0).unwrap();
        assert_eq!(read_only.write(b"x").unwrap_err().errno, libc::EBADF);
        assert_eq!(read_only.seek(SeekFrom::Current(-1)).unwrap_err().errno, libc::EINVAL);
        let missing = LocalFile::open(directory.path().join("y"), O_RDONLY, 0).unwrap_err();
        assert_eq!(missing.errno, libc::ENOENT);
    }
}
