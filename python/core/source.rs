//! N-tuple files in a facility, read over XRootD.

use base::Result;
use client::xrd::{File, FileSystem, Options, XrdUrl};
use ntuple::{FileSource, Source, changed};
use std::{
    collections::VecDeque,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};
use wire::xrd::StatInfo;

/// Connections that are kept open for the next read: a chain may have more files than a server takes connections.
const IDLE_MAX: usize = 32;

/// Opens a local path, or a `root://` URL as `user`.
pub(crate) fn open(place: &str, user: &str) -> Result<Arc<dyn Source>> {
    if ["root://", "roots://", "xroot://", "xroots://"].iter().any(|scheme| place.starts_with(scheme)) {
        return Ok(Arc::new(RemoteSource::open(place, user)?));
    }
    Ok(Arc::new(FileSource::open(Path::new(place))?))
}

/// How this package talks to data servers.
pub(crate) fn options(user: &str) -> Options {
    Options { username: user.to_owned(), ..Options::default() }
}

/// A file in a facility. Threads that read at the same time use a connection each.
struct RemoteSource {
    url: XrdUrl,
    name: String,
    options: Options,
    version: Version,
    identity: String,
}

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

/// Open files that nobody reads now, the longest unused first. Held for a look only, never while reading.
static IDLE: Mutex<VecDeque<(String, File)>> = Mutex::new(VecDeque::new());

impl RemoteSource {
    fn open(place: &str, user: &str) -> Result<Self> {
        let url: XrdUrl = place.parse()?;
        let options = options(user);
        let file = File::open_read(&url, &options)?;
        let version = Version::new(&file.stat()?, sum(&url, &options));
        let name = url.to_string();
        let Version { id, size, modified_s, sum } = &version;
        let identity = format!("{name}:{id}:{size}:{modified_s}:{sum}");
        let source = Self { url, name, options, version, identity };
        source.put_back(file);
        Ok(source)
    }

    fn take(&self) -> Result<File> {
        let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
        let found = idle.iter().position(|(identity, _)| *identity == self.identity);
        if let Some((_, file)) = found.and_then(|index| idle.remove(index)) {
            return Ok(file);
        }
        drop(idle);
        let file = File::open_read(&self.url, &self.options)?;
        self.expect(&file.stat()?)?;
        Ok(file)
    }

    /// Fails unless `now` is of the version that was opened.
    fn expect(&self, now: &StatInfo) -> Result<()> {
        let sum = if self.version.sum.is_empty() { String::new() } else { sum(&self.url, &self.options) };
        if Version::new(now, sum) == self.version { Ok(()) } else { Err(changed(&self.name)) }
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

impl Source for RemoteSource {
    fn len(&self) -> u64 {
        self.version.size
    }

    fn is_remote(&self) -> bool {
        true
    }

    fn check(&self) -> Result<()> {
        self.expect(&FileSystem::new(&self.url, &self.options).stat(&self.url.path)?)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let file = self.take()?;
        // A connection that failed is dropped: the next read makes a new one.
        let read = file.read_at(offset, buffer)?;
        if read < buffer.len() {
            let what = format!("{}: ends before {offset} + {}", self.name, buffer.len());
            return Err(
                base::Failure::corrupt(what).hint("the file changed while it was read; open it again")
            );
        }
        self.put_back(file);
        Ok(())
    }

    fn identity(&self) -> String {
        self.identity.clone()
    }

    fn version(&self) -> String {
        let Version { id, size, modified_s, sum } = &self.version;
        format!("{id}:{size}:{modified_s}:{sum}")
    }

    fn name(&self) -> &str {
        &self.name
    }
}
