//! Where bytes come from.

use super::{VOLATILE, files::OpenFiles};
use base::{Failure, Result};
use bytes::Bytes;
use std::{
    fs::{File, Metadata},
    os::unix::fs::{FileExt, MetadataExt},
    path::{Path, PathBuf},
    sync::Arc,
};

/// A file that can be read at any place by several threads.
pub trait Source: Send + Sync {
    /// Length in bytes.
    fn len(&self) -> u64;

    /// Whether there is no byte.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Fills all of `buffer` from `offset`; fewer bytes are an error.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()>;

    /// Fails if the name leads to other content now than when it was opened; asked in every pass, because cached columns
    /// would otherwise answer for a file that is no longer there.
    fn check(&self) -> Result<()> {
        Ok(())
    }

    /// Whether [`Source::check`] waits for an answer from elsewhere.
    fn is_remote(&self) -> bool {
        false
    }

    /// Equal for equal content only: which file, and which version of it. The key of the column cache.
    fn identity(&self) -> String;

    /// Equal on every host that sees the same content under this name.
    fn version(&self) -> String {
        self.identity()
    }

    /// What error messages call it.
    fn name(&self) -> &str;
}

/// A file of this host. It is open only while it is read, and for as long as few others are.
#[derive(Debug)]
pub struct FileSource {
    /// Absolute, so that it stays right when the program changes its directory.
    path: PathBuf,
    name: String,
    identity: Arc<str>,
    length: u64,
}

/// Device, inode, size, and the times of the last change of content and of attributes: the kernel sets the latter, and
/// no program can set it back.
fn identity(about: &Metadata) -> String {
    let (dev, ino, size) = (about.dev(), about.ino(), about.len());
    let (modified, changed) = ((about.mtime(), about.mtime_nsec()), (about.ctime(), about.ctime_nsec()));
    format!("file:{dev}:{ino}:{size}:{}.{:09}:{}.{:09}", modified.0, modified.1, changed.0, changed.1)
}

impl FileSource {
    /// Opens `path`.
    pub fn open(path: &Path) -> Result<Self> {
        let name = path.display().to_string();
        let failed = |cause: &std::io::Error| Failure::io(format!("open {name}"), cause);
        let path = std::path::absolute(path).map_err(|cause| failed(&cause))?;
        // Looked at before it is opened: opening a pipe would wait for its other end.
        let about = std::fs::metadata(&path).map_err(|cause| failed(&cause))?;
        if about.is_dir() {
            return Err(Failure::new(base::ErrorKind::IsDirectory, format!("open {name}: is a directory"))
                .hint(format!("name its files, as in {name}/*.parquet")));
        }
        if !about.is_file() {
            return Err(Failure::invalid(format!("open {name}: is not a regular file")));
        }
        let identity = identity(&about).into();
        let source = Self { path, name, identity, length: about.len() };
        source.read_with(|_| Ok(()))?;
        Ok(source)
    }

    fn read_with<T>(&self, read: impl FnOnce(&File) -> Result<T>) -> Result<T> {
        let failed = |cause: &std::io::Error| Failure::io(format!("open {}", self.name), cause);
        OpenFiles::shared().with(
            &self.identity,
            || File::open(&self.path),
            failed,
            |file| {
                let value = read(file)?;
                // Looked at afterwards, so that what was read is of the version that it counts as.
                self.expect(&file.metadata().map_err(|cause| failed(&cause))?)?;
                Ok(value)
            },
        )
    }

    fn expect(&self, about: &Metadata) -> Result<()> {
        if identity(about) == *self.identity { Ok(()) } else { Err(changed(&self.name)) }
    }
}

/// The failure of reading a file whose content is no longer that which was opened.
#[must_use]
pub fn changed(name: &str) -> Failure {
    Failure::invalid(format!("{name}: changed since the n-tuple was opened")).hint("open the n-tuple again")
}

impl Source for FileSource {
    fn len(&self) -> u64 {
        self.length
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.read_with(|file| {
            file.read_exact_at(buffer, offset).map_err(|cause| match file.metadata() {
                // It is shorter because it was written anew.
                Ok(about) if identity(&about) != *self.identity => changed(&self.name),
                _ => Failure::io(format!("read {} at {offset}", self.name), &cause),
            })
        })
    }

    fn check(&self) -> Result<()> {
        let about = std::fs::metadata(&self.path);
        self.expect(&about.map_err(|cause| Failure::io(format!("open {}", self.name), &cause))?)
    }

    fn identity(&self) -> String {
        self.identity.to_string()
    }

    fn version(&self) -> String {
        // Each host numbers its devices itself; the rest is that of the file system they share.
        self.identity.splitn(3, ':').last().unwrap_or_default().to_owned()
    }

    fn name(&self) -> &str {
        &self.name
    }
}

/// Bytes in memory, for tests and small downloads.
#[derive(Debug, Clone)]
pub struct MemorySource {
    name: String,
    bytes: Bytes,
}

impl MemorySource {
    /// `bytes` under a name that must be unique to this content.
    pub fn new(name: impl Into<String>, bytes: impl Into<Bytes>) -> Self {
        Self { name: name.into(), bytes: bytes.into() }
    }
}

impl Source for MemorySource {
    fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let wanted = start.checked_add(buffer.len()).and_then(|end| self.bytes.get(start..end));
        let Some(bytes) = wanted else {
            return Err(Failure::corrupt(format!("{}: ends before {offset} + {}", self.name, buffer.len())));
        };
        buffer.copy_from_slice(bytes);
        Ok(())
    }

    fn identity(&self) -> String {
        format!("{VOLATILE}{}:{}", self.name, self.bytes.len())
    }

    fn name(&self) -> &str {
        &self.name
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::ErrorKind;

    #[test]
    fn bytes_are_read_at_any_place() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("f");
        std::fs::write(&path, b"0123456789").unwrap();
        let source = FileSource::open(&path).unwrap();
        let mut bytes = [0; 3];
        source.read_at(7, &mut bytes).unwrap();
        assert_eq!(&bytes, b"789");
        assert!(source.read_at(8, &mut bytes).is_err());
        assert_eq!(FileSource::open(directory.path()).unwrap_err().kind, ErrorKind::IsDirectory);
        assert_eq!(FileSource::open(&directory.path().join("g")).unwrap_err().kind, ErrorKind::NotFound);
        assert_eq!(FileSource::open(Path::new("/dev/null")).unwrap_err().kind, ErrorKind::Invalid);
    }

    /// A file of the same name, size and time of modification as one before it, by each way that leads there.
    #[test]
    fn a_changed_file_has_another_identity_and_is_not_read() {
        type Change = fn(&Path);
        let changes: [Change; 3] = [
            |path| {
                let other = path.with_extension("new");
                std::fs::write(&other, b"9876543210").unwrap();
                std::fs::rename(other, path).unwrap();
            },
            |path| std::fs::write(path, b"9876543210").unwrap(),
            |path| std::fs::write(path, b"98765").unwrap(),
        ];
        for change in changes {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("f");
            std::fs::write(&path, b"0123456789").unwrap();
            let times = std::fs::FileTimes::new().set_modified(std::time::UNIX_EPOCH);
            File::options().write(true).open(&path).unwrap().set_times(times).unwrap();
            let source = FileSource::open(&path).unwrap();
            source.check().unwrap();
            // What is changed in place within one step of the file system's clock cannot be told apart.
            while FileSource::open(&path).unwrap().identity() == source.identity() {
                change(&path);
                File::options().write(true).open(&path).unwrap().set_times(times).unwrap();
            }
            assert!(source.check().unwrap_err().what.ends_with("changed since the n-tuple was opened"));
            let mut bytes = [0; 10];
            match source.read_at(0, &mut bytes) {
                Ok(()) => assert_eq!(&bytes, b"0123456789"),
                Err(failure) => assert!(failure.what.contains("changed"), "{failure}"),
            }
        }
    }

    #[test]
    fn memory_ends_where_it_ends() {
        let source = MemorySource::new("m", vec![1, 2, 3]);
        let mut bytes = [0; 2];
        source.read_at(1, &mut bytes).unwrap();
        assert_eq!(bytes, [2, 3]);
        assert!(source.read_at(2, &mut bytes).is_err());
        assert!(source.read_at(u64::MAX, &mut bytes).is_err());
    }
}
