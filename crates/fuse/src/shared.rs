//! Files that a program changes in place without a mount.
//!
//! **Problem.** A program wants to change a file that other hosts read and change at the same time, and cannot mount, or wants no
//! kernel between itself and the disk servers.
//!
//! **Idea.** It has a session as a mount has, with the same grants, buffers and locks; only the kernel is missing, so there is nothing
//! that it could have cached. What holds for programs in a mount holds here (docs/mount.md).
//!
//! **Start reading** with [`SharedSession::open`].

use crate::{
    Parts, begin,
    caller::Caller,
    content::Target,
    errno::Refusal,
    files::OpenFile,
    grants::Need,
    head::Head,
    host_name,
    kernel::device::Device,
    locks::Wanted,
    mount::Mount,
    ops::{opens, tree},
};
use base::{ByteRange, ErrorKind, Failure, FilePath, Result};
use client::{Control, Stop, xrd};
use rustix::io::Errno;
use share::{LockMode, LockOwner, Mode};
use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicBool, Ordering},
};
use wire::control::{Entry, GetEntry, GetNode, LockKind, NodeKind};

/// Bytes that are read at once: enough for several requests to a disk server.
const PIECE_BYTES: usize = 8 << 20;
/// Writes of this length go past the buffer: they are large pieces already.
const DIRECT_BYTES: usize = 4 << 20;
/// How often a file that is to be made or opened may come and go meanwhile.
const RACES_MAX: u32 = 16;

/// The session of a program. Its files are seen by all mounts, and theirs by it.
pub struct SharedSession {
    /// `None` while it is dropped.
    mount: Option<Arc<Mount>>,
    is_ended: AtomicBool,
    /// The process that began it: a fork has none of its threads.
    process: u32,
}

impl std::fmt::Debug for SharedSession {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SharedSession").field("process", &self.process).finish_non_exhaustive()
    }
}

/// What a file is opened for, and what is done if it is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct How {
    /// To read.
    pub is_read: bool,
    /// To write.
    pub is_write: bool,
    /// Each write goes to the end, wherever that is then.
    pub is_append: bool,
    /// It is emptied.
    pub is_emptied: bool,
    /// Whether it is made.
    pub make: Make,
    /// Permission bits of one that is made.
    pub mode: u32,
}

/// Whether a file is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Make {
    /// It must be there.
    Never,
    /// If it is not there.
    Missing,
    /// It must not be there.
    New,
}

impl SharedSession {
    /// Begins a session on behalf of `user`. `program` is what `bp lease` shows beside the host.
    ///
    /// # Errors
    /// Those of the head, which has to answer.
    pub fn begin(control: Control, user: String, options: xrd::Options, program: &str) -> Result<Self> {
        let process = std::process::id();
        let host = format!("{}:{program}[{process}]", host_name());
        // Soft: a program is told by an error that the facility is away, and need not be killed.
        let (head, session) = Head::open(control, (FilePath::root(), host), true, Stop::default())?;
        let (root, device) = (session.root.id, Device::none());
        let parts = Parts { head, device, user, no_recall: false, root, options, acts_for_others: false };
        Ok(Self { mount: Some(begin(parts)?), is_ended: AtomicBool::new(false), process })
    }

    fn mount(&self) -> Result<&Arc<Mount>> {
        if std::process::id() != self.process {
            return Err(Failure::invalid("the session belongs to the process that this one was forked from")
                .hint("open the file after the fork"));
        }
        let mount = self.mount.as_ref().filter(|_| !self.is_ended.load(Ordering::SeqCst));
        mount.ok_or_else(|| Failure::invalid("the session has ended"))
    }

    /// Commits what was written and ends the session. Files that are still open are of no use then.
    pub fn end(&self) {
        if let Ok(mount) = self.mount()
            && !self.is_ended.swap(true, Ordering::SeqCst)
        {
            mount.end();
            mount.head.stop().set();
        }
    }

    /// Whether this process may use it: a fork of the one that began it may not.
    #[must_use]
    pub fn is_own(&self) -> bool {
        std::process::id() == self.process
    }

    /// Opens a file.
    ///
    /// # Errors
    /// As `open` of POSIX; and those of the head.
    pub fn open(self: &Arc<Self>, path: &FilePath, how: How) -> Result<SharedFile> {
        let mount = self.mount()?;
        let caller = Caller::nobody();
        let access = (how.is_read || !how.is_write, how.is_write);
        let file = opened(mount, &caller, path, (access, how)).map_err(|refusal| told(refusal, path))?;
        let handle = mount.handles.fetch_add(1, Ordering::Relaxed);
        file.lock().lost.opened(handle);
        let (session, path) = (Arc::clone(self), path.clone());
        let file = Mutex::new(Some(file));
        let shared = SharedFile { session, file, path, access, handle, is_append: how.is_append };
        if how.is_emptied && how.make != Make::New {
            shared.truncate(0)?;
        }
        Ok(shared)
    }
}

impl Drop for SharedSession {
    fn drop(&mut self) {
        self.end();
        if !self.is_own() {
            // Locks in it may be held by threads that this process does not have.
            std::mem::forget(self.mount.take());
        }
    }
}

/// Opens or makes a file at the head.
fn opened(
    mount: &Mount,
    caller: &Caller,
    path: &FilePath,
    (access, How { make, mode, .. }): (opens::Access, How),
) -> Result<Arc<OpenFile>, Refusal> {
    for _ in 0..RACES_MAX {
        if make != Make::New {
            match entry(mount, caller, path) {
                Ok(entry) => return opens::begin(mount, caller, entry.id, (access, false)),
                Err(refusal) if make == Make::Never || refusal.errno() != Errno::NOENT => {
                    return Err(refusal);
                }
                Err(_) => {}
            }
        }
        match made(mount, caller, path, (access, mode)) {
            // Another one has made it since.
            Err(refusal) if make == Make::Missing && refusal.errno() == Errno::EXIST => {}
            outcome => return outcome,
        }
    }
    Err(Errno::BUSY.into())
}

/// What lies at a path.
fn entry(mount: &Mount, caller: &Caller, path: &FilePath) -> Result<Entry, Refusal> {
    mount.head.call(caller, |_| GetEntry { path: path.clone() })
}

/// Makes a file and opens it.
fn made(
    mount: &Mount,
    caller: &Caller,
    path: &FilePath,
    (access, mode): (opens::Access, u32),
) -> Result<Arc<OpenFile>, Refusal> {
    let parent = path.parent().ok_or(Errno::ISDIR)?;
    let parent = mount.node(entry(mount, caller, &parent)?.id);
    let new = tree::NewNode { is_opened: true, ..tree::NewNode::of(NodeKind::File, mode) };
    let session = mount.head.client();
    let made = tree::make(mount, caller, (parent, path.name().to_owned()), new)?;
    let offered = made.grant.map(|grant| (Mode::Write, grant));
    Ok(opens::keep(mount, made.entry.id, access, (session, offered)))
}

/// A file that is open. Threads may use it at the same time.
#[derive(Debug)]
pub struct SharedFile {
    session: Arc<SharedSession>,
    /// `None` once closed. Held for a look only.
    file: Mutex<Option<Arc<OpenFile>>>,
    path: FilePath,
    access: opens::Access,
    handle: u64,
    is_append: bool,
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

/// A refusal in words.
fn told(refusal: Refusal, path: &FilePath) -> Failure {
    let errno = match refusal {
        Refusal::Failure(failure) => return failure,
        Refusal::Errno(errno) => errno,
    };
    let (kind, what) = match errno {
        Errno::NOENT => (ErrorKind::NotFound, "does not exist"),
        Errno::ISDIR => (ErrorKind::IsDirectory, "is a directory"),
        Errno::NAMETOOLONG => (ErrorKind::Invalid, "has a name that is too long"),
        Errno::FBIG => (ErrorKind::Invalid, "would be too long"),
        Errno::INTR => (ErrorKind::Busy, "was waited for, which was interrupted"),
        Errno::BUSY => (ErrorKind::Busy, "is made and removed by others all the time"),
        _ => return Failure::io(format!("use {path}"), &std::io::Error::from(errno)),
    };
    Failure::new(kind, format!("{path} {what}"))
}
