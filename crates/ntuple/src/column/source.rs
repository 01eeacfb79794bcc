//! Where bytes come from.

use base::{Failure, Result};
use bytes::Bytes;
use std::fmt::Write as _;
use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

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

    /// Equal for equal content: path and version. The key of the column cache.
    fn identity(&self) -> String;

    /// What error messages call it.
    fn name(&self) -> &str;
}

/// A file of this host.
#[derive(Debug)]
pub struct FileSource {
    file: File,
    name: String,
    identity: String,
    length: u64,
}

impl FileSource {
    /// Opens `path`. The version is made of inode, size and time of modification.
    pub fn open(path: &Path) -> Result<Self> {
        let name = path.display().to_string();
        let failed = |cause: &std::io::Error| Failure::io(format!("open {name}"), cause);
        let file = File::open(path).map_err(|cause| failed(&cause))?;
        let about = file.metadata().map_err(|cause| failed(&cause))?;
        if about.is_dir() {
            return Err(Failure::new(base::ErrorKind::IsDirectory, format!("open {name}: is a directory"))
                .hint(format!("name its files, as in {name}/*.parquet")));
        }
        let mut identity = format!("file:{}:{}:{}", about.dev(), about.ino(), about.len());
        // Writing to a String cannot fail.
        let _ = write!(identity, ":{}.{:09}", about.mtime(), about.mtime_nsec());
        Ok(Self { file, name, identity, length: about.len() })
    }
}

impl Source for FileSource {
    fn len(&self) -> u64 {
        self.length
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.file
            .read_exact_at(buffer, offset)
            .map_err(|cause| Failure::io(format!("read {} at {offset}", self.name), &cause))
    }

    fn identity(&self) -> String {
        self.identity.clone()
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
        format!("memory:{}:{}", self.name, self.bytes.len())
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
    fn a_changed_file_has_another_identity() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("f");
        std::fs::write(&path, b"0123456789").unwrap();
        let source = FileSource::open(&path).unwrap();
        let mut bytes = [0; 3];
        source.read_at(7, &mut bytes).unwrap();
        assert_eq!(&bytes, b"789");
        assert!(source.read_at(8, &mut bytes).is_err());
        std::fs::write(&path, b"01234567890").unwrap();
        assert_ne!(FileSource::open(&path).unwrap().identity(), source.identity());
        assert_eq!(FileSource::open(directory.path()).unwrap_err().kind, ErrorKind::IsDirectory);
        assert_eq!(FileSource::open(&directory.path().join("g")).unwrap_err().kind, ErrorKind::NotFound);
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
