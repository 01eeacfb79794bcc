//! A file whose content may not change while it is read, for readers that keep parts of it.

use super::{File, FileSystem, Options, XrdUrl};
use base::{Failure, Result};
use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
};
use wire::xrd::StatInfo;

/// Connections that are kept open for the next read: a program may have more files than a server takes connections.
const IDLE_MAX: usize = 32;

/// Open files that nobody reads now, the longest unused first. Held for a look only, never while reading.
static IDLE: Mutex<VecDeque<(String, File)>> = Mutex::new(VecDeque::new());

/// What tells one content of a file from another: the servers of the field show no number of the version.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Version {
    id: u64,
    size: u64,
    modified_s: i64,
    /// Empty if the server keeps none. It is what differs when a file is replaced twice within a second.
    sum: String,
}

impl Version {
    fn new(stat: &StatInfo, sum: String) -> Self {
        Self { id: stat.id, size: stat.size, modified_s: stat.modified_s, sum }
    }
}

/// A file that is read only as long as it has the content with which it was opened. Threads that read at the same time use
/// a connection each.
pub struct PinnedFile {
    url: XrdUrl,
    name: String,
    options: Options,
    version: Version,
    identity: String,
}

impl PinnedFile {
    /// Opens `url`.
    pub fn open(url: XrdUrl, options: Options) -> Result<Self> {
        let file = File::open_read(&url, &options)?;
        let version = Version::new(&file.stat()?, sum(&url, &options));
        let name = url.to_string();
        let mut pinned = Self { identity: String::new(), url, name, options, version };
        pinned.identity = format!("{}:{}", pinned.name, pinned.version());
        pinned.put_back(file);
        Ok(pinned)
    }

    /// Length in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.version.size
    }

    /// Its URL, without what proves who asks.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Equal for equal content only: which file, and which version of it.
    #[must_use]
    pub fn identity(&self) -> &str {
        &self.identity
    }

    /// Which version of the file; equal through every door of a facility.
    #[must_use]
    pub fn version(&self) -> String {
        let Version { id, size, modified_s, sum } = &self.version;
        format!("{id}:{size}:{modified_s}:{sum}")
    }

    /// Whether the name leads to the content with which it was opened.
    pub fn is_unchanged(&self) -> Result<bool> {
        self.is_same(&FileSystem::new(&self.url, &self.options).stat(&self.url.path)?)
    }

    /// Fills all of `buffer` from `offset`; `false` if the file was replaced meanwhile. Fewer bytes are an error.
    pub fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<bool> {
        let Some(file) = self.take()? else { return Ok(false) };
        // A connection that failed is dropped: the next read makes a new one.
        let read = file.read_at(offset, buffer)?;
        if read < buffer.len() {
            let what = format!("{}: ends before {offset} + {}", self.name, buffer.len());
            return Err(Failure::corrupt(what).hint("the file changed while it was read; open it again"));
        }
        self.put_back(file);
        Ok(true)
    }

    fn take(&self) -> Result<Option<File>> {
        let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
        let found = idle.iter().position(|(identity, _)| *identity == self.identity);
        if let Some((_, file)) = found.and_then(|index| idle.remove(index)) {
            return Ok(Some(file));
        }
        drop(idle);
        let file = File::open_read(&self.url, &self.options)?;
        Ok(if self.is_same(&file.stat()?)? { Some(file) } else { None })
    }

    fn is_same(&self, now: &StatInfo) -> Result<bool> {
        let sum = if self.version.sum.is_empty() { String::new() } else { sum(&self.url, &self.options) };
        Ok(Version::new(now, sum) == self.version)
    }

    fn put_back(&self, file: File) {
        let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
        idle.push_back((self.identity.clone(), file));
        let surplus = if idle.len() > IDLE_MAX { idle.pop_front() } else { None };
        drop(idle);
        // Closing talks to the server: not under the lock. A reader loses nothing if it fails.
        if let Some((_, file)) = surplus {
            let _ = file.close();
        }
    }
}

/// The checksum that the catalogue of the server has.
fn sum(url: &XrdUrl, options: &Options) -> String {
    FileSystem::new(url, options).checksum(&url.path, None).map(|(_, sum)| sum).unwrap_or_default()
}
