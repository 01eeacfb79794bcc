//! An open file: reads and writes with many requests in flight.

mod ahead;
mod announced;
mod copy;
mod core;
mod flight;
mod lane;
mod pattern;
mod read;
mod together;
mod vector;
mod write;

pub(super) use self::core::Core;
pub use pattern::ReadMode;
pub use together::{WritePieces, write_at_once};
pub(super) use write::Upload;
pub use write::Writer;

use super::{Options, XrdUrl, mux::Wait, task::now};
use base::{ByteRange, Result};
use std::sync::Arc;
use wire::xrd::{OpenFlags, RangeChange, RangeKind, RangeQuery, StatInfo};

/// How a new file is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CreateOptions {
    /// Replace what is there; otherwise the file must not exist.
    pub replace: bool,
    /// Make missing directories.
    pub make_path: bool,
    /// Permission bits.
    pub mode: u16,
    /// Bytes to come, if known: the server makes room for them, or refuses at once.
    pub size: Option<u64>,
}

impl Default for CreateOptions {
    fn default() -> Self {
        Self { replace: false, make_path: true, mode: 0o644, size: None }
    }
}

impl CreateOptions {
    pub(super) fn flags(&self) -> OpenFlags {
        OpenFlags::UPDATE
            .with(if self.replace { OpenFlags::DELETE } else { OpenFlags::NEW })
            .with_if(self.make_path, OpenFlags::MAKE_PATH)
    }

    /// `url` with what the server must know beforehand.
    pub(super) fn url(&self, url: &XrdUrl) -> XrdUrl {
        let mut url = url.clone();
        if let Some(size) = self.size {
            url.opaque = url.opaque.with("oss.asize", size.to_string());
        }
        url
    }
}

/// An open file. Threads may use it at the same time.
///
/// Reading continues after broken connections and restarts of the server: the file is opened again, and the transfer goes
/// on where it stopped, as long as the file has not changed. Writing does not continue, because the server discards a file
/// that was not closed. If it is dropped without [`File::close`], a file that is being written is discarded.
///
/// After a fork the child can go on reading, on connections of its own.
#[derive(Debug)]
pub struct File {
    core: Arc<Core>,
}

impl File {
    /// Opens for reading; waits while the file is recalled from tape.
    pub fn open_read(url: &XrdUrl, options: &Options) -> Result<Self> {
        Ok(Self { core: now(Core::open(url, options, OpenFlags::READ, 0, Wait::Thread))? })
    }

    /// Makes a file for writing.
    pub fn create(url: &XrdUrl, options: &Options, create: CreateOptions) -> Result<Self> {
        let url = create.url(url);
        Ok(Self { core: now(Core::open(&url, options, create.flags(), create.mode, Wait::Thread))? })
    }

    /// Opens an existing file for reading and writing.
    pub fn open_update(url: &XrdUrl, options: &Options) -> Result<Self> {
        Ok(Self { core: now(Core::open(url, options, OpenFlags::UPDATE, 0, Wait::Thread))? })
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

    /// Attributes when the file was opened.
    #[must_use]
    pub fn opened(&self) -> &StatInfo {
        self.core.opened()
    }

    /// Whether the server compares what was sent in order from the start with what it stored, before it commits the file.
    #[must_use]
    pub fn is_checked_on_close(&self) -> bool {
        now(self.core.is_checked_on_close(Wait::Thread))
    }

    /// Attributes now.
    pub fn stat(&self) -> Result<StatInfo> {
        now(self.core.stat(Wait::Thread))
    }

    /// Reads from `offset`; fewer bytes than the buffer holds only at the end of the file.
    pub fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        now(self.core.read_at(offset, buffer, Wait::Thread))
    }

    /// Hands the whole file to `sink`, in order. Fewer bytes than [`File::size`] are a failure.
    pub fn copy_to(&self, sink: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        self.copy_range(ByteRange { offset: 0, end: self.size() }, sink)
    }

    /// Hands the bytes of `range` to `sink`, in order. Fewer bytes are a failure.
    pub fn copy_range(&self, range: ByteRange, sink: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        now(self.core.copy_range(range, sink, Wait::Thread))
    }

    /// Reads many ranges, in few requests; reading past the end is a failure.
    pub fn read_vector(&self, ranges: &[ByteRange]) -> Result<Vec<Vec<u8>>> {
        now(self.core.read_vector(ranges, Wait::Thread))
    }

    /// Reads many ranges into `buffers`, which must have their lengths; reading past the end is a failure.
    pub fn read_vector_into(&self, ranges: &[ByteRange], buffers: &mut [&mut [u8]]) -> Result<()> {
        now(self.core.read_vector_into(ranges, buffers, Wait::Thread))
    }

    /// Says how the file will be read: a hint, which changes speed and never results.
    pub fn advise(&self, mode: ReadMode) -> Result<()> {
        self.core.advise(mode);
        Ok(())
    }

    /// Announces what will be read, in this order: the server sends it ahead, and [`File::read_at`] inside these ranges is
    /// answered from what has come. A hint, which changes speed and never results.
    pub fn preseek(&self, ranges: &[ByteRange]) -> Result<()> {
        now(self.core.preseek(ranges, Wait::Thread))
    }

    /// Writes all of `data` at `offset` and waits for the answers.
    pub fn write_at(&self, offset: u64, data: &[u8]) -> Result<()> {
        now(self.core.write_at(offset, data, Wait::Thread))
    }

    /// A writer from the start of the file.
    pub fn writer(&self) -> Writer<'_> {
        self.writer_at(0)
    }

    /// A writer from `offset`.
    pub fn writer_at(&self, offset: u64) -> Writer<'_> {
        Writer::new(&self.core, offset)
    }

    /// Sets the size.
    pub fn truncate(&self, size: u64) -> Result<()> {
        now(self.core.truncate(size, Wait::Thread))
    }

    /// Takes space for a range, or makes zeros of it: in files that change in place.
    pub fn change_range(&self, range: ByteRange, change: RangeChange) -> Result<()> {
        now(self.core.change_range(&RangeQuery::Change(change, range), Wait::Thread))
    }

    /// Finds the next data or hole from `offset` on; there is a hole where the file ends, and nothing behind.
    pub fn find(&self, kind: RangeKind, offset: u64) -> Result<Option<u64>> {
        now(self.core.find(kind, offset, Wait::Thread))
    }

    /// Has the server copy the range `from` of `source`, or of this file, to `to`, at most [`wire::xrd::RANGE_COPY_BYTES_MAX`] bytes.
    ///
    /// # Errors
    /// [`base::ErrorKind::Unsupported`] if both are not open in one session.
    pub fn copy_from(&self, source: &Self, from: ByteRange, to: u64) -> Result<()> {
        now(self.core.copy_from(&source.core, (from, to), Wait::Thread))
    }

    /// Has the server refuse the grant under which a file that changes in place is open. Yields the start of the object that does.
    pub fn fence(&self) -> Result<u64> {
        now(self.core.fence(Wait::Thread))
    }

    /// Returns when the bytes are on stable storage.
    pub fn sync(&self) -> Result<()> {
        now(self.core.sync(Wait::Thread))
    }

    /// As a child of this process sees it, for tests.
    #[cfg(test)]
    pub(super) fn disown(&mut self) {
        Arc::get_mut(&mut self.core).expect("nobody else has this file").disown();
    }

    /// Closes; what was written is committed, or the failure tells why not.
    pub fn close(self) -> Result<()> {
        now(self.core.close(Wait::Thread))
    }
}
