//! N-tuple files in a facility, read over XRootD.

use base::Result;
use client::xrd::{File, FileSystem, Options, XrdUrl};
use ntuple::{FileSource, Source};
use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

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
    identity: String,
    length: u64,
}

/// Open files that nobody reads now, the longest unused first. Held for a look only, never while reading.
static IDLE: Mutex<VecDeque<(String, File)>> = Mutex::new(VecDeque::new());

impl RemoteSource {
    fn open(place: &str, user: &str) -> Result<Self> {
        let url: XrdUrl = place.parse()?;
        let options = options(user);
        let file = File::open_read(&url, &options)?;
        let stat = file.stat()?;
        // The catalogue's checksum makes the cache safe against a rewrite within one second; without it the rest must do.
        let sum =
            FileSystem::new(&url, &options).checksum(&url.path, None).map(|(_, sum)| sum).unwrap_or_default();
        let name = url.to_string();
        let identity = format!("{name}:{}:{}:{}:{sum}", stat.id, stat.size, stat.modified_s);
        let source = Self { url, name, options, identity, length: stat.size };
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
        File::open_read(&self.url, &self.options)
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

impl Source for RemoteSource {
    fn len(&self) -> u64 {
        self.length
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

    fn name(&self) -> &str {
        &self.name
    }
}
