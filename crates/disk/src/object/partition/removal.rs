//! Removes objects: their files, their descriptions, and what is remembered of them.

use super::{Partition, Shared};
use crate::object::durable;
use base::{Failure, ObjectId, Result};
use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};
use tracing::warn;

impl Partition {
    /// Forgets the reader that is kept open of an object.
    pub(crate) fn forget_reader(&self, object: ObjectId) {
        self.readers.remove(&object);
    }

    /// Deletes an object and the files that an earlier daemon left of it. A missing object is no error. Open readers
    /// keep their bytes.
    ///
    /// The data goes first: a crash in between leaves a description without data, which holds no bytes and cannot be
    /// taken for damage. The other order would leave bytes that nobody can identify.
    ///
    /// # Errors
    /// [`ErrorKind::Busy`](base::ErrorKind::Busy) while the object is being written.
    pub fn remove(&self, object: ObjectId) -> Result<()> {
        let _claim = self.shared.begin_writing(object)?;
        self.in_place(|| {
            let deleted = self.shared.delete(object);
            self.readers.remove(&object);
            deleted.map_err(|cause| {
                Failure::io(format!("remove object {object} from {}", self.shared.name()), &cause)
            })
        })
    }

    /// Deletes many objects as [`Partition::remove`] does one, and syncs each directory only once. Returns the objects
    /// that were deleted: not those that are being written or that the disk refuses to delete.
    ///
    /// Several threads work on the directories: file systems commit waiting changes together, and on a busy host one
    /// thread alone would fall behind the many that write.
    pub fn remove_all(&self, objects: &[ObjectId]) -> Vec<ObjectId> {
        let mut homes: BTreeMap<PathBuf, Vec<ObjectId>> = BTreeMap::new();
        for object in objects {
            homes.entry(self.shared.home(*object)).or_default().push(*object);
        }
        let homes: Vec<_> = homes.into_iter().collect();
        self.in_place(|| Ok(self.remove_at(&homes))).unwrap_or_default()
    }

    fn remove_at(&self, homes: &[(PathBuf, Vec<ObjectId>)]) -> Vec<ObjectId> {
        let share = homes.len().div_ceil(REMOVERS).max(1);
        std::thread::scope(|scope| {
            let removers = homes.chunks(share).map(|some| {
                let remove = |(home, objects): &(PathBuf, Vec<ObjectId>)| self.remove_in(home, objects);
                scope.spawn(move || some.iter().flat_map(remove).collect::<Vec<_>>())
            });
            let removers: Vec<_> = removers.collect();
            // Of what a thread did that panicked nobody knows.
            removers.into_iter().flat_map(|remover| remover.join().unwrap_or_default()).collect()
        })
    }

    /// Deletes objects of one directory.
    fn remove_in(&self, home: &Path, objects: &[ObjectId]) -> Vec<ObjectId> {
        let (mut claims, mut gone) = (Vec::with_capacity(objects.len()), Vec::with_capacity(objects.len()));
        let mut is_synced = true;
        for object in objects {
            let Ok(claim) = self.shared.begin_writing(*object) else { continue };
            let deleted = self.shared.unlink(*object);
            self.readers.remove(object);
            match deleted {
                Ok(had_any) => {
                    is_synced &= !had_any;
                    gone.push(*object);
                }
                Err(cause) => {
                    warn!(%object, %cause, partition = self.shared.name(), "cannot delete an object");
                }
            }
            claims.push(claim);
        }
        if !is_synced && let Err(cause) = durable::sync_directory(home) {
            warn!(directory = %home.display(), %cause, "cannot sync a directory; deletions are not durable yet");
            gone.clear();
        }
        gone
    }
}

/// Threads that delete many objects.
const REMOVERS: usize = 16;

impl Shared {
    /// Deletes every trace of `object`, data before description.
    pub(crate) fn delete(&self, object: ObjectId) -> io::Result<()> {
        if self.unlink(object)? {
            durable::sync_directory(&self.home(object))?;
        }
        Ok(())
    }

    /// The same, but for the sync of its directory; tells whether that is needed.
    fn unlink(&self, object: ObjectId) -> io::Result<bool> {
        let size = fs::metadata(self.data(object)).map_or(0, |data| data.len());
        let had_data = durable::unlink(&self.data(object))?;
        if had_data {
            self.account.release(size);
        }
        let was_described = durable::unlink(&self.description(object))?;
        self.delete_incoming(object)?;
        self.delete_live(object)?;
        Ok(had_data || was_described)
    }

    /// Deletes what was being written. Not synced: if it comes back after a power cut it is a leftover as before.
    pub(crate) fn delete_incoming(&self, object: ObjectId) -> io::Result<()> {
        durable::unlink(&self.incoming_data(object))?;
        durable::unlink(&self.incoming_description(object))?;
        Ok(())
    }
}
