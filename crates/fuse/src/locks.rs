//! Locks of programs: `fcntl` and `flock`, between all mounts.

mod certain;

use crate::{caller::Caller, errno::Refusal, files::OpenFile, kernel::answers::Answer, mount::Mount};
use base::{ByteRange, FileId};
use rustix::io::Errno;
use share::{Assurance, ClientId, RequestId, Verdict};
use share::{LockMode, LockOwner};
use std::sync::Arc;
use wire::control::{CancelLock, LockHolder, LockKind, LockPatience, SetLock, TestLock};

/// The end of a range that has none, as the kernel has it.
const END: u64 = i64::MAX as u64;
/// Kinds of locks on Linux.
const READ: u32 = 0;
const WRITE: u32 = 1;
const UNLOCK: u32 = 2;

/// A lock as a program wants it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) kind: LockKind,
    pub(crate) owner: LockOwner,
    pub(crate) pid: u32,
    pub(crate) range: ByteRange,
    /// `None`: it is given back.
    pub(crate) mode: Option<LockMode>,
}

/// The bytes `start..=last` of the kernel.
pub(crate) fn range(start: u64, last: u64) -> Result<ByteRange, Errno> {
    let end = if last >= END { u64::MAX } else { last + 1 };
    if start >= end { Err(Errno::INVAL) } else { Ok(ByteRange { offset: start, end }) }
}

/// What the kernel wants; `None`: to give it back.
pub(crate) fn mode(kind: u32) -> Result<Option<LockMode>, Errno> {
    match kind {
        READ => Ok(Some(LockMode::Shared)),
        WRITE => Ok(Some(LockMode::Exclusive)),
        UNLOCK => Ok(None),
        _ => Err(Errno::INVAL),
    }
}

/// A lock that is in the way, as the kernel has it; none: the one that was asked for could be had.
fn shown(holder: Option<&LockHolder>) -> Answer {
    let mut answer = Answer::default();
    let Some(holder) = holder else {
        answer.u64(0).u64(END).u32(UNLOCK).u32(0);
        return answer;
    };
    let last = if holder.range.end > END { END } else { holder.range.end.saturating_sub(1) };
    let kind = if holder.mode == LockMode::Shared { READ } else { WRITE };
    answer.u64(holder.range.offset).u64(last).u32(kind).u32(holder.pid);
    answer
}

impl Mount {
    /// Takes, changes or gives back a lock; `is_patient`: waits until it can be had.
    pub(crate) fn set_lock(
        &self,
        caller: &Caller,
        file: &OpenFile,
        wanted: &Wanted,
        is_patient: bool,
    ) -> Result<(), Refusal> {
        {
            let mut state = file.lock();
            self.follow_session(file, &mut state)?;
            if wanted.mode.is_some() {
                state.lockers.insert((wanted.kind, wanted.owner));
            }
        }
        if wanted.mode.is_none() {
            self.flush(file);
        }
        if wanted.mode.is_none() || !is_patient {
            let is_set = self.head.call(caller, |client| call(file.id, client, wanted))?.is_set;
            return if is_set { Ok(()) } else { Err(Errno::AGAIN.into()) };
        }
        let request = self.next_request();
        caller.set_wait(request.0);
        let outcome = self.wait_for_lock(caller, file, wanted, request);
        if outcome.is_err() && !caller.is_there() {
            // It may have been set after its program was killed.
            let unset = Wanted { mode: None, ..*wanted };
            self.head.call(&Caller::nobody(), |client| call(file.id, client, &unset))?;
        }
        outcome
    }

    /// Waits for a lock. A wait that ends without one is known at the head to have ended before its program is told.
    fn wait_for_lock(
        &self,
        caller: &Caller,
        file: &OpenFile,
        wanted: &Wanted,
        request: RequestId,
    ) -> Result<(), Refusal> {
        let mut doubt = None;
        loop {
            // Each time that it asks: a program that was busy when it was looked at may wait now.
            let assurance =
                || doubt.map(|doubt| Assurance { doubt, is_certain: certain::waits_alone(caller.pid()) });
            let set = |client| SetLock {
                patience: Some(LockPatience { request, assurance: assurance() }),
                ..call(file.id, client, wanted)
            };
            match self.head.call_until(caller, set) {
                Ok(answer) if answer.is_set => return Ok(()),
                Ok(answer) => match answer.verdict {
                    Some(Verdict::Doubt(newest)) => doubt = Some(newest),
                    Some(Verdict::Deadlock) => return Err(Errno::DEADLK.into()),
                    _ => return Err(Errno::INTR.into()),
                },
                Err(refusal) => {
                    let cancel = |client| CancelLock { client, request };
                    let is_told = self.head.call(&caller.until_killed(), cancel).is_ok();
                    tracing::debug!(file = %file.id, is_told, "a wait for a lock was given up");
                    return Err(refusal);
                }
            }
        }
    }

    /// A signal came for whoever waits for a lock: the head ends the wait, and so answers the call that waits. If it does not hear of
    /// it, that call ends by itself soon.
    pub(crate) fn give_up_lock(self: &Arc<Self>, unique: u64) {
        let Some(request) = self.callers.wait_of(unique) else { return };
        let own = Arc::clone(self);
        let cancel = move || {
            let cancel = CancelLock { client: own.head.client(), request: RequestId(request) };
            if let Err(failure) = own.head.call_once(&cancel, base::Millis(0)) {
                tracing::debug!(%failure, "a wait for a lock was not given up yet");
            }
        };
        // If all are busy, the call that waits ends by itself soon.
        let _ = self.recallers.run(cancel);
    }

    /// Whether a lock could be had, and what is in its way.
    pub(crate) fn test_lock(
        &self,
        caller: &Caller,
        file: FileId,
        wanted: &Wanted,
    ) -> Result<Answer, Refusal> {
        let answer = self.head.call(caller, |client| TestLock { lock: call(file, client, wanted) })?;
        let holder = answer.holder.map(|holder| {
            // A process of another host has no number here.
            let pid = if holder.client == self.head.client() { holder.pid } else { 0 };
            LockHolder { pid, ..holder }
        });
        Ok(shown(holder.as_ref()))
    }

    /// Gives back all locks of an owner, if it may have some.
    pub(crate) fn unlock_all(&self, caller: &Caller, file: &OpenFile, kind: LockKind, owner: LockOwner) {
        if !file.lock().lockers.remove(&(kind, owner)) {
            return;
        }
        self.flush(file);
        let range = ByteRange { offset: 0, end: u64::MAX };
        let all = Wanted { kind, owner, pid: 0, range, mode: None };
        let unlock = |client| call(file.id, client, &all);
        let mut outcome = self.head.call(caller, unlock);
        if caller.is_dying() && outcome.is_err() {
            // Others wait for the locks, and nobody else gives them back.
            self.let_go(caller);
            outcome = self.head.call(&Caller::nobody(), unlock);
        }
        if let Err(refusal) = outcome {
            tracing::warn!(file = %file.id, %refusal, "locks were not given back");
        }
    }
}

fn call(file: FileId, client: ClientId, wanted: &Wanted) -> SetLock {
    let Wanted { kind, owner, pid, range, mode } = *wanted;
    SetLock { client, file, kind, owner, pid, range, mode, patience: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_the_kernel_include_their_last_byte() {
        assert_eq!(range(20, 29), Ok(ByteRange { offset: 20, end: 30 }));
        assert_eq!(range(5, END), Ok(ByteRange { offset: 5, end: u64::MAX }));
        assert_eq!(range(0, u64::MAX), Ok(ByteRange { offset: 0, end: u64::MAX }));
        assert_eq!(range(5, 4), Err(Errno::INVAL));
    }

    #[test]
    fn a_lock_in_the_way_is_shown_as_it_was_set() {
        let bytes = |range| {
            let holder = LockHolder { client: share::ClientId(1), pid: 7, mode: LockMode::Shared, range };
            shown(Some(&holder)).into_bytes()
        };
        let mut expected = Answer::default();
        expected.u64(20).u64(29).u32(READ).u32(7);
        assert_eq!(bytes(range(20, 29).unwrap()), expected.into_bytes());
        assert_eq!(bytes(range(0, END).unwrap())[8..16], shown(None).into_bytes()[8..16], "without an end");
        assert_eq!((mode(READ), mode(UNLOCK)), (Ok(Some(LockMode::Shared)), Ok(None)));
        assert!(mode(3).is_err());
    }
}
