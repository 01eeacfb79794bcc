//! The same files and names for async code. The futures need no particular runtime and may be dropped at any time.
//!
//! While a future waits, a thread of the connection receives for it. Sums and sinks run in the task.

use super::{
    CreateOptions, Options, ReadMode, XrdUrl,
    file::{Core, Upload},
    mux::Wait,
    names::Names,
};
use base::{ByteRange, FilePath, Result};
use std::sync::Arc;
use wire::xrd::{ListEntry, Location, OpenFlags, SpaceInfo, StatInfo};

/// An open file; see [`super::File`].
#[derive(Debug)]
pub struct File {
    core: Arc<Core>,
}

impl File {
    /// Opens for reading; waits while the file is recalled from tape.
    pub async fn open_read(url: &XrdUrl, options: &Options) -> Result<Self> {
        Ok(Self { core: Core::open(url, options, OpenFlags::READ, 0, Wait::Task).await? })
    }

    /// Makes a file for writing.
    pub async fn create(url: &XrdUrl, options: &Options, create: CreateOptions) -> Result<Self> {
        let url = create.url(url);
        Ok(Self { core: Core::open(&url, options, create.flags(), create.mode, Wait::Task).await? })
    }

    /// Opens an existing file for reading and writing.
    pub async fn open_update(url: &XrdUrl, options: &Options) -> Result<Self> {
        Ok(Self { core: Core::open(url, options, OpenFlags::UPDATE, 0, Wait::Task).await? })
    }

    /// Size in bytes when the file was opened.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.core.size()
    }

    /// `host:port` of the server that holds the file.
    #[must_use]
    pub fn server(&self) -> &str {
        self.core.server()
    }

    /// Attributes now.
    pub async fn stat(&self) -> Result<StatInfo> {
        self.core.stat(Wait::Task).await
    }

    /// Reads from `offset`; fewer bytes than the buffer holds only at the end of the file.
    pub async fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        self.core.read_at(offset, buffer, Wait::Task).await
    }

    /// Hands the whole file to `sink`, in order. Fewer bytes than [`File::size`] are a failure.
    pub async fn copy_to<S: FnMut(&[u8]) -> Result<()>>(&self, sink: S) -> Result<()> {
        self.copy_range(ByteRange { offset: 0, end: self.size() }, sink).await
    }

    /// Hands the bytes of `range` to `sink`, in order. Fewer bytes are a failure.
    pub async fn copy_range<S: FnMut(&[u8]) -> Result<()>>(
        &self,
        range: ByteRange,
        mut sink: S,
    ) -> Result<()> {
        self.core.copy_range(range, &mut sink, Wait::Task).await
    }

    /// Reads many ranges, in few requests; reading past the end is a failure.
    pub async fn read_vector(&self, ranges: &[ByteRange]) -> Result<Vec<Vec<u8>>> {
        self.core.read_vector(ranges, Wait::Task).await
    }

    /// Reads many ranges into `buffers`, which must have their lengths; reading past the end is a failure.
    pub async fn read_vector_into(&self, ranges: &[ByteRange], buffers: &mut [&mut [u8]]) -> Result<()> {
        self.core.read_vector_into(ranges, buffers, Wait::Task).await
    }

    /// Says how the file will be read: a hint, which changes speed and never results.
    pub fn advise(&self, mode: ReadMode) -> Result<()> {
        self.core.advise(mode);
        Ok(())
    }

    /// Announces what will be read; see [`super::File::preseek`].
    pub async fn preseek(&self, ranges: &[ByteRange]) -> Result<()> {
        self.core.preseek(ranges, Wait::Task).await
    }

    /// Writes all of `data` at `offset` and waits for the answers.
    pub async fn write_at(&self, offset: u64, data: &[u8]) -> Result<()> {
        self.core.write_at(offset, data, Wait::Task).await
    }

    /// A writer from the start of the file.
    pub fn writer(&self) -> Writer<'_> {
        Writer { core: &self.core, upload: Upload::new(0) }
    }

    /// Sets the size.
    pub async fn truncate(&self, size: u64) -> Result<()> {
        self.core.truncate(size, Wait::Task).await
    }

    /// Returns when the bytes are on stable storage.
    pub async fn sync(&self) -> Result<()> {
        self.core.sync(Wait::Task).await
    }

    /// Closes; what was written is committed, or the failure tells why not.
    pub async fn close(self) -> Result<()> {
        self.core.close(Wait::Task).await
    }
}

/// Writes one piece after the other with many requests in flight; see [`super::Writer`].
#[derive(Debug)]
pub struct Writer<'a> {
    core: &'a Core,
    upload: Upload,
}

impl Writer<'_> {
    /// Takes all of `data`; large pieces are best.
    pub async fn push(&mut self, data: &[u8]) -> Result<()> {
        for chunk in data.chunks(self.core.chunk()) {
            let sent = self.upload.send(self.core, chunk, Wait::Task).await;
            sent.map_err(|trouble| self.core.write_failed(trouble))?;
        }
        Ok(())
    }

    /// Waits for every answer; returns the bytes written.
    pub async fn finish(mut self) -> Result<u64> {
        let finished = self.upload.finish(self.core, Wait::Task).await;
        finished.map_err(|trouble| self.core.write_failed(trouble))?;
        Ok(self.upload.written)
    }
}

impl Drop for Writer<'_> {
    fn drop(&mut self) {
        if self.upload.is_open() {
            self.core.spoil(&base::Failure::unavailable("a writer was dropped before it had finished"));
        }
    }
}

/// The names of one server; see [`super::FileSystem`].
#[derive(Debug, Clone)]
pub struct FileSystem {
    names: Arc<Names>,
}

macro_rules! calls {
    ($($(#[$doc:meta])* $name:ident($($argument:ident: $of:ty),*) -> $answer:ty;)*) => {
        impl FileSystem {
            $($(#[$doc])* pub async fn $name(&self, $($argument: $of),*) -> Result<$answer> {
                self.names.$name($($argument,)* Wait::Task).await
            })*
        }
    };
}

impl FileSystem {
    /// The names of the server of `url`; opaque parts of `url` go with every request.
    #[must_use]
    pub fn new(url: &XrdUrl, options: &Options) -> Self {
        Self { names: Arc::new(Names { url: url.clone(), options: options.clone() }) }
    }
}

calls! {
    /// Attributes of a path.
    stat(path: &FilePath) -> StatInfo;
    /// Names of a directory with their attributes.
    list(path: &FilePath) -> Vec<ListEntry>;
    /// Makes a directory; with `make_path` its parents too, and then an existing one is no failure.
    mkdir(path: &FilePath, mode: u16, make_path: bool) -> ();
    /// Removes a file.
    remove(path: &FilePath) -> ();
    /// Removes an empty directory.
    rmdir(path: &FilePath) -> ();
    /// Renames.
    rename(from: &FilePath, to: &FilePath) -> ();
    /// Sets the size of a file.
    truncate(path: &FilePath, size: u64) -> ();
    /// Changes permission bits.
    chmod(path: &FilePath, mode: u16) -> ();
    /// Checksum of a file: its type and value in hex. Without `kind` the server chooses.
    checksum(path: &FilePath, kind: Option<&str>) -> (String, String);
    /// The locations of a file.
    locate(path: &FilePath) -> Vec<Location>;
    /// Asks that files be brought online; returns the request id.
    stage(paths: &[FilePath], priority: u8) -> String;
    /// Answer to `query config` for one key.
    config(key: &str) -> String;
    /// User attributes of a path with their values.
    attributes(path: &FilePath) -> Vec<(String, Vec<u8>)>;
    /// Sets a user attribute.
    set_attribute(path: &FilePath, name: &str, value: &[u8]) -> ();
    /// Removes a user attribute.
    remove_attribute(path: &FilePath, name: &str) -> ();
    /// Space of the storage that holds `path`.
    space(path: &FilePath) -> SpaceInfo;
}
