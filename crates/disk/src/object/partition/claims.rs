//! Who may write an object now, and which process has the partition.

use super::Shared;
use base::{Failure, ObjectId, Result};
use rustix::{
    fs::{FlockOperation, flock},
    io::Errno,
};
use std::{
    fs::File,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

/// The lock of a partition.
///
/// It is released explicitly, not by closing the file. A process that another thread is just starting has a copy of
/// every open file for a moment, and would hold the lock for that long.
#[derive(Debug)]
pub(super) struct Lock(File);

impl Drop for Lock {
    fn drop(&mut self) {
        // If this fails the lock goes with the file.
        let _ = flock(&self.0, FlockOperation::Unlock);
    }
}

impl Shared {
    pub(crate) fn is_writing(&self, object: ObjectId) -> bool {
        self.writing().contains_key(&object)
    }

    /// Keeps everybody else from writing or removing `object` until the claim is dropped.
    pub(crate) fn begin_writing(self: &Arc<Self>, object: ObjectId) -> Result<WriteClaim> {
        let taken = Arc::default();
        let mut writing = self.writing();
        if writing.contains_key(&object) {
            return Err(Failure::busy(format!("object {object} on {} is being written", self.name())));
        }
        writing.insert(object, Arc::clone(&taken));
        drop(writing);
        Ok(WriteClaim { shared: Arc::clone(self), object, taken })
    }
}

/// The right to write or remove one object.
#[derive(Debug)]
pub(crate) struct WriteClaim {
    shared: Arc<Shared>,
    object: ObjectId,
    /// Bytes that are missing in what the partition calls free, because of this object.
    taken: Arc<AtomicU64>,
}

impl WriteClaim {
    /// The object has so many bytes on the file system, or of its share, if that is more than before.
    pub(crate) fn takes(&self, bytes: u64) {
        self.taken.fetch_max(bytes, Ordering::Relaxed);
    }

    /// Some of it was given back.
    pub(crate) fn keeps(&self, bytes: u64) {
        self.taken.store(bytes, Ordering::Relaxed);
    }
}

impl Drop for WriteClaim {
    fn drop(&mut self) {
        self.shared.writing().remove(&self.object);
    }
}

pub(super) fn take_lock(file: File, directory: &Path) -> Result<Lock> {
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Lock(file)),
        Err(Errno::WOULDBLOCK) => {
            Err(Failure::busy(format!("partition {} is served by another process", directory.display()))
                .hint("stop the other daemon first"))
        }
        Err(cause) => Err(Failure::io(format!("lock partition {}", directory.display()), &cause.into())),
    }
}
