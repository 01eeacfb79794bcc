//! Open files by number, wherever they are.

use crate::{
    attributes::Attributes,
    calls::RFIO_SHARED,
    fault::{Fault, Result},
    fork,
    local::LocalFile,
    place::{self, FileLocation},
    remote::RemoteFile,
    shared::SharedChannel,
    table::{OPEN_MAX, Table},
};
use base::ByteRange;
use client::xrd::ReadMode;
use libc::{c_int, mode_t};
use share::LockMode;
use std::{
    ffi::CStr,
    io::SeekFrom,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// What can be done with an open file. Threads may do it at the same time.
pub(crate) trait Channel {
    /// Reads at the position, and moves it.
    fn read(&self, buffer: &mut [u8]) -> Result<usize>;
    /// Reads elsewhere.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize>;
    /// Reads many ranges; each must lie in the file.
    fn read_ranges(&self, ranges: &[ByteRange], buffers: &mut [&mut [u8]]) -> Result<()>;
    /// Writes at the position, and moves it.
    fn write(&self, data: &[u8]) -> Result<usize>;
    /// Writes elsewhere.
    fn write_at(&self, offset: u64, data: &[u8]) -> Result<usize>;
    /// Moves the position; returns the new one.
    fn seek(&self, to: SeekFrom) -> Result<u64>;
    /// Announces what will be read.
    fn preseek(&self, ranges: &[ByteRange]) -> Result<()>;
    /// Says how the file will be read.
    fn advise(&self, mode: ReadMode) -> Result<()>;
    /// Sets the size.
    fn truncate(&self, size: u64) -> Result<()>;
    /// Returns when what was written is on stable storage.
    fn sync(&self) -> Result<()>;
    /// Attributes now.
    fn attributes(&self) -> Result<Attributes>;
    /// Takes a lock on a range, or with no mode gives it back; tells whether it is set.
    fn lock(&self, range: ByteRange, mode: Option<LockMode>, is_patient: bool) -> Result<bool>;
}

/// An open file.
#[derive(Debug)]
pub(crate) enum Descriptor {
    /// On this host.
    Local(LocalFile),
    /// On a server.
    Remote(RemoteFile),
    /// In the facility, and changed in place.
    Shared(SharedChannel),
}

impl Descriptor {
    /// Returns the operations on it.
    pub(crate) fn channel(&self) -> &dyn Channel {
        match self {
            Self::Local(file) => file,
            Self::Remote(file) => file,
            Self::Shared(file) => file,
        }
    }
}

static OPEN: Mutex<Table<Descriptor>> = Mutex::new(Table::new());

/// All open files.
pub(crate) fn table() -> MutexGuard<'static, Table<Descriptor>> {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn full() -> Fault {
    Fault::new(libc::EMFILE, format!("{OPEN_MAX} files are open, the maximum")).hint("close some")
}

/// Opens a file.
pub(crate) fn open(path: &CStr, flags: c_int, mode: mode_t) -> Result<c_int> {
    fork::watch();
    // A full table must not leave a file behind that nobody asked for.
    if table().is_full() {
        return Err(full());
    }
    let is_shared = flags & RFIO_SHARED != 0;
    let flags = flags & !RFIO_SHARED;
    if is_shared && let Some(path) = place::shared(path)? {
        let descriptor = Descriptor::Shared(SharedChannel::open(&path, flags, mode)?);
        return table().insert(descriptor).ok_or_else(full);
    }
    let descriptor = match FileLocation::parse(path)? {
        FileLocation::Local(path) => Descriptor::Local(LocalFile::open(path, flags, mode)?),
        FileLocation::Remote(url) => Descriptor::Remote(RemoteFile::open(&url, flags, mode)?),
    };
    table().insert(descriptor).ok_or_else(full)
}

fn bad(fd: c_int) -> Fault {
    Fault::new(libc::EBADF, format!("{fd} is not a file opened by rfio_open"))
}

/// The open file of this number.
pub(crate) fn get(fd: c_int) -> Result<Arc<Descriptor>> {
    table().get(fd).ok_or_else(|| bad(fd))
}

/// Closes; what was written becomes the file, or the fault tells why not.
pub(crate) fn close(fd: c_int) -> Result<()> {
    let descriptor = table().remove(fd).ok_or_else(|| bad(fd))?;
    match &*descriptor {
        Descriptor::Remote(file) => file.close(),
        Descriptor::Shared(file) => file.close(),
        // Whoever is still in a call with it closes it behind that.
        Descriptor::Local(_) => match Arc::into_inner(descriptor) {
            Some(Descriptor::Local(file)) => file.close(),
            _ => Ok(()),
        },
    }
}
