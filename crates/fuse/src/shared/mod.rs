//! Files that a program changes in place without a mount.
//!
//! **Problem.** A program wants to change a file that other hosts read and change at the same time, and cannot mount, or wants no
//! kernel between itself and the disk servers.
//!
//! **Idea.** It has a session as a mount has, with the same grants, buffers and locks; only the kernel is missing, so there is nothing
//! that it could have cached. What holds for programs in a mount holds here (docs/mount.md).
//!
//! **Start reading** with [`SharedSession::open`].

mod file;

pub use file::{LockWait, SharedFile};

use crate::{
    Parts, begin,
    caller::Caller,
    errno::Refusal,
    files::OpenFile,
    head::Head,
    host_name,
    kernel::device::Device,
    mount::Mount,
    ops::{opens, tree},
};
use base::{ErrorKind, Failure, FilePath, Result};
use client::{Control, Stop, xrd};
use rustix::io::Errno;
use share::Mode;
use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, Ordering},
};
use wire::control::{Entry, GetEntry, NodeKind};

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
