//! Small documents that survive a power cut: written beside, synced, renamed, and the directory synced.

use base::{Failure, Result};
use rustix::{
    fs::{FlockOperation, flock},
    io::Errno,
};
use serde::{Serialize, de::DeserializeOwned};
use std::{
    fs::{self, File},
    io::{self, Read, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

/// Documents are far smaller: the largest is an order with ten thousand inputs.
const DOCUMENT_BYTES_MAX: u64 = 64 << 20;

/// Replaces `path` by `document`; on return it is durable.
pub(crate) fn write_json<T: Serialize>(path: &Path, document: &T) -> Result<()> {
    let failed = |cause: io::Error| Failure::io(format!("write {}", base::tail(path)), &cause);
    let mut text = serde_json::to_vec_pretty(document).map_err(|cause| failed(cause.into()))?;
    text.push(b'\n');
    let new = path.with_extension("new");
    let write = || -> io::Result<()> {
        let mut file = File::options().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        file.write_all(&text)?;
        file.sync_all()?;
        fs::rename(&new, path)?;
        path.parent().map_or(Ok(()), sync_directory)
    };
    write().map_err(failed)
}

/// Reads a document; `None` if it is not there.
pub(crate) fn read_json<T: DeserializeOwned>(path: &Path) -> Result<Option<T>> {
    let failed = |cause: io::Error| Failure::io(format!("read {}", base::tail(path)), &cause);
    let file = match File::open(path) {
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file.map_err(failed)?,
    };
    let mut text = Vec::new();
    file.take(DOCUMENT_BYTES_MAX).read_to_end(&mut text).map_err(failed)?;
    serde_json::from_slice(&text)
        .map(Some)
        .map_err(|cause| Failure::corrupt(format!("{} is damaged: {cause}", base::tail(path))))
}

/// Makes a directory and those above it that are missing; on return they are durable.
pub(crate) fn make_directory(path: &Path) -> io::Result<()> {
    let missing: Vec<_> = path.ancestors().take_while(|directory| !directory.exists()).collect();
    fs::create_dir_all(path)?;
    let parents = missing.iter().rev().filter_map(|made| made.parent());
    parents.filter(|parent| !parent.as_os_str().is_empty()).try_for_each(sync_directory)
}

/// Makes the entries of `directory` durable.
pub(crate) fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

/// An advisory lock, held until it is dropped.
///
/// Given back by name, not by closing the file: a process that another thread is just starting has a copy of every
/// open file for a moment, and the lock would live as long as that.
#[derive(Debug)]
pub(crate) struct Lock(File);

impl Lock {
    /// Takes the lock of `path`, a file that is made if it is missing; `None` while somebody else has it.
    pub(crate) fn try_take(path: &Path) -> io::Result<Option<Self>> {
        let file = File::options().write(true).create(true).truncate(false).mode(0o600).open(path)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Self(file))),
            Err(Errno::WOULDBLOCK) => Ok(None),
            Err(cause) => Err(cause.into()),
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // If this fails the lock goes with the file.
        let _ = flock(&self.0, FlockOperation::Unlock);
    }
}
