//! Objects that change in place (`docs/design/0008-live-files.md`): plain files in `live/`, each beside its fences.
//!
//! **Problem.** A mount may stop for an hour and then send a write, long after the head has given the range to another
//! mount.
//!
//! **Idea.** Each write shows the generation of its grant. The disk server compares it with the fences of the object
//! and writes under the same lock. To raise a fence takes that lock exclusively. So when a fence is acknowledged, no
//! write that it refuses is still in progress.
//!
//! All users of an object share one [`LiveObject`]. `seal.rs` begins, seals and removes it.

mod fences;
mod labels;
mod memory;
mod ranges;
mod seal;
mod state;
#[cfg(test)]
mod tests;

use crate::object::{
    durable,
    partition::{Partition, Shared, check_end},
};
use base::{ByteRange, ErrorKind, Failure, ObjectId, Result};
pub use fences::fuzz_fences;
use memory::MemoryFences;
pub(crate) use ranges::find;
pub use seal::Seal;
use share::{Fence, Generation, Refusal};
use state::{Room, State};
use std::{
    collections::HashMap,
    fs::{File, Permissions},
    io,
    os::unix::fs::{FileExt, MetadataExt, PermissionsExt},
    sync::{
        Arc, Mutex, OnceLock, PoisonError, RwLock, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::SystemTime,
};

/// This bit of the mode of a live object says that it has fences, so that their loss is noticed.
const FENCED_BIT: u32 = 0o1000;

/// Live objects that somebody has open. A short lock, never held during I/O; nobody drops an object while holding it.
pub(crate) type LiveObjects = Mutex<HashMap<ObjectId, Weak<LiveObject>>>;

/// An object that changes in place. Shared by all who have it open, and by whoever fences, seals or removes it.
///
/// Lock order: `making`, `state`, `room`.
#[derive(Debug)]
pub struct LiveObject {
    shared: Arc<Shared>,
    object: ObjectId,
    /// Writers share it; whoever cuts, fences, seals or removes the object has it alone.
    state: RwLock<State>,
    /// None as long as nobody has begun it.
    file: OnceLock<File>,
    room: Mutex<Room>,
    /// Held by whoever makes the file, which may be a long copy.
    making: Mutex<()>,
    /// Fences that are in force and not durable.
    memory: MemoryFences,
    /// Its name is durable, as far as this process knows.
    is_named: AtomicBool,
    /// A sync has failed, and no later one may say that all is well: the kernel may have dropped what was to be synced. Held
    /// during a sync.
    has_failed: Mutex<bool>,
}

impl Partition {
    /// An object that changes in place, whether it was begun or not. All who ask for it have the same.
    pub fn live(&self, object: ObjectId) -> Result<Arc<LiveObject>> {
        let live = LiveObject::of(&self.shared, object);
        live.ready().map(drop)?;
        Ok(live)
    }
}

impl LiveObject {
    fn of(shared: &Arc<Shared>, object: ObjectId) -> Arc<Self> {
        let mut open = shared.live.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(live) = open.get(&object).and_then(Weak::upgrade) {
            return live;
        }
        let live = Arc::new(Self {
            shared: Arc::clone(shared),
            object,
            state: RwLock::new(State::Unread),
            file: OnceLock::new(),
            room: Mutex::default(),
            making: Mutex::default(),
            memory: MemoryFences::default(),
            is_named: AtomicBool::new(false),
            has_failed: Mutex::default(),
        });
        open.insert(object, Arc::downgrade(&live));
        live
    }

    /// Its number.
    #[must_use]
    pub fn object(&self) -> ObjectId {
        self.object
    }

    /// Whether there is a file of it.
    #[must_use]
    pub fn is_begun(&self) -> bool {
        self.file.get().is_some()
    }

    /// Refuses who comes to write if nobody may any more.
    pub fn check_open(&self) -> Result<()> {
        let state = self.ready()?;
        self.writable(&state).map(drop)
    }

    /// Its bytes now; 0 if nobody has begun it.
    pub fn size(&self) -> Result<u64> {
        self.file.get().map_or(Ok(0), |file| self.size_of(file))
    }

    /// When its bytes changed last.
    pub fn modified(&self) -> Option<SystemTime> {
        self.file.get()?.metadata().and_then(|metadata| metadata.modified()).ok()
    }

    fn size_of(&self, file: &File) -> Result<u64> {
        Ok(file.metadata().map_err(|cause| self.failed("stat", &cause))?.len())
    }

    /// Fills `buffer` from `offset` on; fewer bytes only at the end.
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        if matches!(*self.ready()?, State::Removed) {
            return Err(self.gone());
        }
        let Some(file) = self.file.get() else { return Ok(0) };
        crate::io::read_full(file, buffer, offset).map_err(|cause| self.failed("read", &cause))
    }

    /// Writes all of `bytes` at `offset` under a grant.
    ///
    /// # Errors
    /// [`ErrorKind::Locked`] if the grant was fenced there or the object is sealed: it is final. [`ErrorKind::NotFound`] if the
    /// object was removed, [`ErrorKind::Corrupt`] if its fences are damaged, [`ErrorKind::NoSpace`].
    pub fn write_at(&self, generation: Generation, offset: u64, bytes: &[u8]) -> Result<()> {
        let range = ByteRange { offset, end: check_end(self.object, offset, bytes.len() as u64)? };
        let state = self.ready()?;
        self.admit(&state, generation, range)?;
        let file = self.begun()?;
        self.take_room(file, bytes.len() as u64, range)?;
        file.write_all_at(bytes, offset).map_err(|cause| self.failed("write", &cause))
    }

    /// Cuts or extends the object to `size` bytes under a grant, which must not be fenced from there on. New bytes are
    /// zero. They take space only when they are written, unless the partition has a share.
    ///
    /// # Errors
    /// As [`Self::write_at`].
    pub fn truncate(&self, generation: Generation, size: u64) -> Result<()> {
        check_end(self.object, 0, size)?;
        self.ready().map(drop)?;
        // Alone: what was claimed for a write that is under way must not be given back.
        let state = self.alone();
        let file = self.begun()?;
        let offset = self.size_of(file)?.min(size);
        self.admit(&state, generation, ByteRange { offset, end: u64::MAX })?;
        self.resize(file, size)
    }

    /// Sets the size; the caller has the object alone.
    fn resize(&self, file: &File, size: u64) -> Result<()> {
        let mut room = self.room();
        self.shared.account.take_share(size.saturating_sub(room.claimed))?;
        room.claimed = room.claimed.max(size);
        file.set_len(size).map_err(|cause| self.failed("truncate", &cause))?;
        self.shared.account.release(room.claimed - size);
        (room.claimed, room.promised) = (size, None);
        Ok(())
    }

    /// Makes everything durable that anybody has written so far. `range` is that of the grant.
    ///
    /// # Errors
    /// As [`Self::write_at`]: a fenced client does not get a success. Everybody who syncs the object gets a failure of
    /// the disk, until nobody has it open.
    pub fn sync(&self, generation: Generation, range: ByteRange) -> Result<()> {
        let state = self.ready()?;
        self.admit(&state, generation, range)?;
        // A fence need not wait for a slow disk: nothing is written here.
        drop(state);
        self.sync_file(self.begun()?)
    }

    fn sync_file(&self, file: &File) -> Result<()> {
        match self.flush(file, durable::sync_data) {
            Ok(false) => Ok(()),
            Ok(true) => {
                let what =
                    format!("object {} on {} could not be synced before", self.object, self.shared.name());
                Err(Failure::new(ErrorKind::Io, what).hint(
                    "what was written lately may be lost: close the file everywhere, and write it again",
                ))
            }
            Err(cause) => Err(self.failed("sync", &cause)),
        }
    }

    /// Makes bytes and name durable; yields whether that has failed before.
    fn flush(&self, file: &File, sync: impl FnOnce(&File) -> io::Result<()>) -> io::Result<bool> {
        // The kernel tells a failure once: who syncs meanwhile waits for it here.
        let mut has_failed = self.has_failed.lock().unwrap_or_else(PoisonError::into_inner);
        let had_failed = *has_failed;
        let done = sync(file).and_then(|()| self.sync_name());
        *has_failed |= done.is_err();
        done.map(|()| had_failed)
    }

    /// Makes its name durable, once.
    fn sync_name(&self) -> io::Result<()> {
        if !self.is_named.load(Ordering::Acquire) {
            durable::sync_directory(&self.shared.live_directory())?;
            self.is_named.store(true, Ordering::Release);
        }
        Ok(())
    }

    /// Refuses from now on what `fence` says, durably; no such write is under way when it returns. An object that is sealed or removed
    /// refuses everything already. The same order again changes nothing.
    pub fn fence(&self, fence: &Fence) -> Result<()> {
        self.ready().map(drop)?;
        let mut state = self.alone();
        let fences = match &mut *state {
            State::Open(fences) => fences,
            State::Sealed | State::Removed => return Ok(()),
            State::Damaged(failure) => return Err(failure.clone()),
            State::Unread => return Err(self.unread()),
        };
        fences.fences.raise(fence).map_err(|refusal| self.not_fenced(refusal))?;
        // Also if it was raised before: a daemon that was killed may not have synced it.
        fences.write(&self.shared)?;
        self.file.get().map_or(Ok(()), |file| self.mark_fenced(file))
    }

    /// Notes in its mode that an object has fences.
    fn mark_fenced(&self, file: &File) -> Result<()> {
        let mark = || {
            let mode = file.metadata()?.mode();
            if mode & FENCED_BIT == 0 {
                file.set_permissions(Permissions::from_mode(mode | FENCED_BIT))?;
            }
            self.flush(file, durable::sync_all).map(drop)
        };
        mark().map_err(|cause| self.failed("mark", &cause))
    }

    fn not_fenced(&self, refusal: Refusal) -> Failure {
        let Self { object, .. } = self;
        match refusal {
            Refusal::Replaced(newer) => Failure::invalid(format!(
                "a fence of object {object} was ordered by a head that start {newer} has replaced"
            )),
            Refusal::Full => Failure::busy(format!(
                "object {object} on {} has too many ranges with fences",
                self.shared.name()
            ))
            .hint("the oldest grants of its file have to end first"),
            Refusal::Fenced(_) => Failure::internal("a fence was refused as a write"),
        }
    }
}

impl Drop for LiveObject {
    fn drop(&mut self) {
        // What was claimed for a write that failed.
        let size = self.size().unwrap_or(u64::MAX);
        let claimed = self.room.get_mut().unwrap_or_else(PoisonError::into_inner).claimed;
        self.shared.account.release(claimed.saturating_sub(size));
        let mut open = self.shared.live.lock().unwrap_or_else(PoisonError::into_inner);
        if open.get(&self.object).is_some_and(|live| live.strong_count() == 0) {
            open.remove(&self.object);
        }
    }
}
