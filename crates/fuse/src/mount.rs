//! What a mount knows: the head, the files that are open, and what the kernel waits for.

use crate::{
    cache::Cache,
    caller::{Caller, Callers, Identity},
    errno::Refusal,
    files::OpenFiles,
    head::Head,
    kernel::{
        abi::{self, opcode},
        answers::Answer,
        device::Device,
        request::{Fields, Request},
    },
    known::Known,
    names::Names,
    ops,
    pool::Pool,
    session::Recalling,
};
use base::{FileId, Result};
use client::xrd;
use rustix::io::Errno;
use std::sync::{
    Arc, Mutex, Weak,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

/// The number that the kernel has for the mounted directory.
pub(crate) const ROOT: u64 = 1;

/// A mount.
pub(crate) struct Mount {
    pub(crate) head: Head,
    pub(crate) device: Device,
    /// Whose files new ones are.
    pub(crate) user: String,
    /// Files that are on tape only are not opened for reading.
    pub(crate) no_recall: bool,
    /// The mounted directory.
    pub(crate) root: FileId,
    pub(crate) options: xrd::Options,
    pub(crate) files: OpenFiles,
    /// Listings of directories that are open, by handle.
    pub(crate) listings: Mutex<ops::directories::Listings>,
    pub(crate) handles: AtomicU64,
    /// Requests for grants so far.
    pub(crate) requests: AtomicU64,
    pub(crate) names: Arc<Names>,
    /// Calls are made on behalf of whoever makes a request, not of whoever mounted.
    pub(crate) acts_for_others: bool,
    /// Names and attributes that need not be asked for.
    pub(crate) cache: Cache,
    /// What the kernel knows.
    pub(crate) in_kernel: Known,
    /// The kernel can be told to forget all names.
    pub(crate) has_epoch: AtomicBool,
    pub(crate) callers: Callers,
    /// Threads that answer the kernel.
    pub(crate) pool: Pool,
    /// Threads that return grants: they wait for no grant themselves, so that one of them is always free after a while.
    pub(crate) recallers: Pool,
    pub(crate) recalling: Recalling,
    /// Threads that send what programs have written. They wait for disk servers only.
    pub(crate) senders: Pool,
    /// Itself, for what is done after an answer.
    pub(crate) own: Weak<Self>,
}

impl Mount {
    /// The file that the kernel names.
    pub(crate) fn file_id(&self, node: u64) -> FileId {
        if node == ROOT { self.root } else { FileId(node) }
    }

    /// The number that the kernel is given for a file.
    pub(crate) fn node(&self, file: FileId) -> u64 {
        if file == self.root { ROOT } else { file.0 }
    }

    /// Answers the kernel until it is unmounted.
    pub(crate) fn serve(self: &Arc<Self>) -> Result<()> {
        let mut buffer = Vec::new();
        while let Some(request) = self.device.receive(&mut buffer)? {
            self.take(request);
        }
        Ok(())
    }

    /// Takes one message.
    fn take(self: &Arc<Self>, request: Request) {
        match request.opcode {
            // These have no answer.
            opcode::FORGET => {
                if let Ok(count) = request.fields().u64() {
                    self.in_kernel.remove(request.node, count);
                }
            }
            opcode::BATCH_FORGET => self.forgotten(request.fields()),
            opcode::INTERRUPT => {
                if let Ok(unique) = request.fields().u64() {
                    if self.callers.interrupt(unique) {
                        let _ = self.device.answer(unique, Err(Errno::INTR));
                    }
                    self.give_up_lock(unique);
                }
            }
            opcode::INIT => {
                self.has_epoch.store(abi::has_epoch(&request), Ordering::Relaxed);
                let _ = self.device.answer(request.unique, abi::greet(&request));
            }
            _ => self.dispatch(request),
        }
    }

    /// The kernel has forgotten several nodes.
    fn forgotten(&self, mut fields: Fields<'_>) {
        let (Ok(count), Ok(_)) = (fields.u32(), fields.u32()) else { return };
        for _ in 0..count {
            let (Ok(node), Ok(count)) = (fields.u64(), fields.u64()) else { return };
            self.in_kernel.remove(node, count);
        }
    }

    /// Has a thread answer.
    fn dispatch(self: &Arc<Self>, request: Request) {
        let is_lock_wait = request.opcode == opcode::SETLKW;
        let unique = request.unique;
        let caller = Caller::new(unique, request.pid, is_lock_wait).with_silence(self.head.silence());
        let caller = Arc::new(if self.acts_for_others {
            caller.with_identity(Identity::of(&request, &self.names))
        } else {
            caller
        });
        self.callers.add(&caller);
        let own = Arc::clone(self);
        let job = move || {
            let outcome = ops::answer(&own, &caller, &request);
            own.callers.remove(unique);
            if caller.is_there() {
                match outcome {
                    Ok(answer) => own.deliver(unique, answer),
                    Err(refusal) => drop(own.device.answer(unique, Err(told(&request, &refusal)))),
                }
            }
        };
        let is_taken = if is_lock_wait { self.pool.sleep(job) } else { self.pool.run(job) };
        if !is_taken {
            self.callers.remove(unique);
            let _ = self.device.answer(unique, Err(if is_lock_wait { Errno::NOLCK } else { Errno::BUSY }));
        }
    }

    /// Commits what was written, returns all grants and ends the session. Yields whether nothing that was written is lost untold.
    pub(crate) fn end(&self) -> bool {
        let files = self.files.all();
        for file in &files {
            let generation = file.lock().grant.as_ref().map(|held| held.generation);
            if let Some(generation) = generation {
                self.give_back(file, generation, false);
            }
        }
        if let Err(failure) = self.head.end() {
            tracing::warn!(%failure, "the session was not ended; the head evicts it when somebody waits for it");
        }
        files.iter().all(|file| {
            let state = file.lock();
            !state.is_dirty() && state.lost.untold().is_none()
        })
    }

    /// Lets a caller go that gives up, though there is still something to be done for it.
    pub(crate) fn let_go(&self, caller: &Caller) {
        if caller.give_up() {
            let _ = self.device.answer(caller.unique, Err(Errno::INTR));
        }
    }

    /// An answer without content.
    pub(crate) fn nothing() -> Result<Answer, Refusal> {
        Ok(Answer::default())
    }
}

/// What the program is told; what a person should look at is logged.
fn told(request: &Request, refusal: &Refusal) -> Errno {
    if refusal.is_trouble() {
        tracing::error!(opcode = request.opcode, node = request.node, %refusal, "a request failed");
    }
    match refusal.errno() {
        // It was there when the kernel looked its name up. Another one may have taken that, so that the kernel is to look again.
        Errno::NOENT if is_of_node(request.opcode) => Errno::STALE,
        errno => errno,
    }
}

/// Whether a request is about a node only, not about a name.
fn is_of_node(opcode: u32) -> bool {
    matches!(
        opcode,
        opcode::GETATTR
            | opcode::SETATTR
            | opcode::ACCESS
            | opcode::OPEN
            | opcode::OPENDIR
            | opcode::READLINK
            | opcode::GETXATTR
            | opcode::SETXATTR
            | opcode::LISTXATTR
            | opcode::REMOVEXATTR
    )
}
