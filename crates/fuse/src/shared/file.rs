//! A file that is changed in place.

use super::{SharedSession, told};
use crate::{
    caller::Caller, content::Target, errno::Refusal, files::OpenFile, grants::Need, locks::Wanted,
    mount::Mount, ops::opens::Access,
};
use base::{ByteRange, Failure, FilePath, Result};
use rustix::io::Errno;
use share::{LockMode, LockOwner, Mode};
use std::sync::{Arc, Mutex, PoisonError, atomic::Ordering};
use wire::control::{Entry, GetNode, LockKind};

/// Bytes that are read at once: enough for several requests to a disk server.
const PIECE_BYTES: usize = 8 << 20;
/// Writes of this length go past the buffer: they are large pieces already.
const DIRECT_BYTES: usize = 4 << 20;

/// A file that is open. Threads may use it at the same time.
#[derive(Debug)]
pub struct SharedFile {
    pub(super) session: Arc<SharedSession>,
    /// `None` once closed. Held for a look only.
    pub(super) file: Mutex<Option<Arc<OpenFile>>>,
    pub(super) path: FilePath,
    pub(super) access: Access,
    pub(super) handle: u64,
    pub(super) is_append: bool,
}

impl SharedFile {
    fn with<T>(&self, work: impl FnOnce(&Arc<Mount>, &OpenFile, &Caller) -> Result<T, Refusal>) -> Result<T> {
        let done = work(self.session.mount()?, &*self.file()?, &Caller::nobody());
        done.map_err(|refusal| told(refusal, &self.path))
    }

    fn file(&self) -> Result<Arc<OpenFile>> {
        let file = self.file.lock().unwrap_or_else(PoisonError::into_inner).clone();
        file.ok_or_else(|| Failure::invalid(format!("{} is closed", self.path)))
    }

    fn require(&self, is_allowed: bool, what: &str) -> Result<()> {
        if is_allowed {
            return Ok(());
        }
        Err(Failure::invalid(format!("{} was not opened to be {what}", self.path)))
    }

    /// Waits until it may be read, or written: until others have returned what they have, and until it is on disk.
    ///
    /// # Errors
    /// Those of the head.
    pub fn prepare(&self, is_write: bool) -> Result<()> {
        let need = if is_write { Need::Write } else { Need::Read };
        self.with(|mount, file, caller| mount.with_turn(caller, file, need, |_| Ok(())))
    }

    /// Whether [`Self::prepare`] has nothing to wait for.
    #[must_use]
    pub fn is_ready(&self, is_write: bool) -> bool {
        let mode = if is_write { Mode::Write } else { Mode::Read };
        self.file().is_ok_and(|file| file.lock().allows(mode))
    }

    /// Bytes of the file now.
    ///
    /// # Errors
    /// Those of the head.
    pub fn size(&self) -> Result<u64> {
        self.with(|mount, file, caller| {
            mount.with_turn(caller, file, Need::Read, |turn| Ok(turn.file.lock().size))
        })
    }

    /// Attributes of the file now.
    ///
    /// # Errors
    /// Those of the head.
    pub fn entry(&self) -> Result<Entry> {
        let size = self.size()?;
        self.with(|mount, file, caller| {
            let get = |client| GetNode { client, file: file.id };
            let entry = mount.head.call_until(caller, get)?.entry.ok_or(Errno::NOENT)?;
            Ok(Entry { size, ..entry })
        })
    }

    /// Reads from `offset`; yields how many bytes there were.
    ///
    /// # Errors
    /// If it was not opened to be read; those of the head and of disk servers.
    pub fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        self.require(self.access.0, "read")?;
        let mut done = 0;
        for piece in buffer.chunks_mut(PIECE_BYTES) {
            let range = (offset.saturating_add(done as u64), piece.len() as u32);
            let bytes = self.with(|mount, file, caller| mount.read(caller, file, range))?;
            piece[..bytes.len()].copy_from_slice(&bytes);
            done += bytes.len();
            if bytes.len() < piece.len() {
                break;
            }
        }
        Ok(done)
    }

    /// Writes at `offset`, or at the end if it was opened for that. All see it when this returns.
    ///
    /// # Errors
    /// If it was not opened to be written; those of the head and of disk servers.
    pub fn write_at(&self, offset: u64, data: &[u8]) -> Result<()> {
        self.require(self.access.1, "written")?;
        let target = Target { offset, is_append: self.is_append, is_direct: data.len() >= DIRECT_BYTES };
        self.with(|mount, file, caller| mount.write(caller, file, target, data))
    }

    /// Sets the size.
    ///
    /// # Errors
    /// As [`Self::write_at`].
    pub fn truncate(&self, size: u64) -> Result<()> {
        self.require(self.access.1, "written")?;
        self.with(|mount, file, caller| mount.truncate(caller, file, size))
    }

    /// Returns when all that was written is durable.
    ///
    /// # Errors
    /// If something that was written is lost; it is told once.
    pub fn sync(&self) -> Result<()> {
        self.with(|mount, file, caller| mount.sync(caller, file, |lost| lost.at_sync(self.handle)))
    }

    /// Takes a lock on a range, changes it, or with no `mode` gives it back; it holds against those of programs in mounts, too. Yields
    /// whether it is set. With patience it waits until it can be had, or until `interrupted` says so.
    ///
    /// # Errors
    /// Those of the head; `Busy` if it was interrupted.
    pub fn lock(
        &self,
        range: ByteRange,
        mode: Option<LockMode>,
        patience: Option<&LockWait>,
    ) -> Result<bool> {
        let (kind, owner, pid) = (LockKind::Posix, LockOwner(self.handle), std::process::id());
        let wanted = Wanted { kind, owner, pid, range, mode };
        let (mount, file) = (self.session.mount()?, self.file()?);
        let outcome = match patience {
            None => mount.set_lock(&Caller::nobody(), &file, &wanted, false),
            Some(LockWait { caller, .. }) => {
                mount.callers.add(caller);
                let outcome = mount.set_lock(caller, &file, &wanted, true);
                mount.callers.remove(caller.unique);
                outcome
            }
        };
        match outcome {
            Ok(()) => Ok(true),
            Err(Refusal::Errno(Errno::AGAIN)) => Ok(false),
            Err(refusal) => Err(told(refusal, &self.path)),
        }
    }

    /// For [`Self::lock`] with patience.
    ///
    /// # Errors
    /// If the session has ended.
    pub fn lock_wait(&self) -> Result<LockWait> {
        let mount = self.session.mount()?;
        let unique = mount.handles.fetch_add(1, Ordering::Relaxed);
        Ok(LockWait { mount: Arc::clone(mount), caller: Arc::new(Caller::new(unique, 0, true)) })
    }

    /// Closes: what was written is durable then, and locks are given back.
    ///
    /// # Errors
    /// If something that was written is lost.
    pub fn close(&self) -> Result<()> {
        if !self.session.is_own() {
            return Ok(());
        }
        let Some(file) = self.file.lock().unwrap_or_else(PoisonError::into_inner).take() else {
            return Ok(());
        };
        let mount = self.session.mount()?;
        let caller = Caller::nobody();
        let outcome = mount.sync(&caller, &file, |lost| lost.at_close(self.handle));
        mount.unlock_all(&caller, &file, LockKind::Posix, LockOwner(self.handle));
        file.lock().lost.closed(self.handle);
        mount.end_open(&file, self.access);
        outcome.map_err(|refusal| told(refusal, &self.path))
    }
}

impl Drop for SharedFile {
    fn drop(&mut self) {
        if !self.session.is_own() {
            // Locks in it may be held by threads that this process does not have.
            std::mem::forget(self.file.try_lock().ok().and_then(|mut file| file.take()));
            return;
        }
        if let Err(failure) = self.close() {
            tracing::warn!(path = %self.path, %failure, "a file was not closed");
        }
    }
}

/// A wait for a lock, which can be given up.
pub struct LockWait {
    mount: Arc<Mount>,
    caller: Arc<Caller>,
}

impl LockWait {
    /// Ends the wait: whoever waits is told that it was interrupted. Nothing is set later.
    pub fn give_up(&self) {
        let _ = self.mount.callers.interrupt(self.caller.unique);
        self.mount.give_up_lock(self.caller.unique);
    }
}
