//! Locks: `fcntl` and `flock`, between all mounts. Those of an evicted mount are given back; its writes were fenced first.

use super::{put, reach, session, sessions, shared_file, waits};
use crate::{Apply, Context, Core, store::SharedFile, waiters::Awaited};
use ::share::{Asked, FileLocks, Lock, LockMode, LockWait, Owner, Verdict};
use base::{Failure, Result};
use wire::control::{CancelLock, Done, LockAnswer, LockHolder, LockKind, SetLock, TestLock};

/// The lock that is asked for; of one that is given back only its range counts.
fn lock_of(asked: &SetLock) -> Lock {
    let mode = asked.mode.unwrap_or(LockMode::Exclusive);
    Lock { client: asked.client, owner: asked.owner, pid: asked.pid, range: asked.range, mode }
}

fn of_kind(shared: &mut SharedFile, kind: LockKind) -> &mut FileLocks {
    match kind {
        LockKind::Posix => &mut shared.posix,
        LockKind::Flock => &mut shared.flock,
    }
}

fn holder(lock: &Lock) -> LockHolder {
    LockHolder { client: lock.client, pid: lock.pid, mode: lock.mode, range: lock.range }
}

fn is_set() -> LockAnswer {
    LockAnswer { is_set: true, holder: None, verdict: None }
}

impl Apply for SetLock {
    fn apply(self, core: &mut Core, context: &Context) -> Result<LockAnswer> {
        session(core, context, self.client)?;
        let wanted = lock_of(&self);
        let Some(_) = self.mode else {
            let mut shared = shared_file(core, self.file)?;
            let before = shared.clone();
            of_kind(&mut shared, self.kind).clear(&wanted);
            if shared != before {
                put(core, self.file, &shared, context.now)?;
            }
            return Ok(is_set());
        };
        reach(core, context, self.client, self.file)?;
        let wait = self.patience.map(|patience| (self.client, patience.request));
        if wait.is_some_and(|id| core.live.share.waiting.locks.is_cancelled(id)) {
            return Ok(LockAnswer { is_set: false, holder: None, verdict: Some(Verdict::Cancelled) });
        }
        let mut shared = shared_file(core, self.file)?;
        if of_kind(&mut shared, self.kind).conflict(&wanted).is_some() {
            let next = sessions::evict_silent(core, (self.file, self.client), context)?;
            if let Some(span) = next {
                core.look_again_in(span);
            }
            shared = shared_file(core, self.file)?;
        }
        let locks = of_kind(&mut shared, self.kind);
        if locks.locks().len() >= FileLocks::LEN_MAX {
            let most = FileLocks::LEN_MAX;
            return Err(Failure::busy(format!("file {} has {most} locks, and no more are taken", self.file)));
        }
        if let Err(other) = locks.set(wanted) {
            core.awaits(Awaited::File(self.file));
            let verdict = wait_for(core, &self, wanted, context);
            return Ok(LockAnswer { is_set: false, holder: Some(holder(&other)), verdict });
        }
        if let Some(id) = wait {
            core.live.share.waiting.locks.end(id);
        }
        put(core, self.file, &shared, context.now)?;
        Ok(is_set())
    }
}

/// Notes that a lock is waited for. Yields what its program is told, unless it is to wait.
fn wait_for(core: &mut Core, asked: &SetLock, lock: Lock, context: &Context) -> Option<Verdict> {
    let patience = asked.patience?;
    let asked = Asked {
        id: (asked.client, patience.request),
        file: asked.file,
        lock,
        is_posix: asked.kind == LockKind::Posix,
        assurance: patience.assurance,
    };
    let mut waits = std::mem::take(&mut core.live.share.waiting.locks);
    let (verdict, wake) = waits.blocked(&asked, context.now, |wait| blockers(core, wait));
    core.live.share.waiting.locks = waits;
    for file in wake {
        core.store.note_changed(Awaited::File(file));
    }
    (verdict != Verdict::Wait).then_some(verdict)
}

/// Whose locks are in the way of one that is waited for. A row that cannot be read now shows none: then no cycle is found.
fn blockers(core: &Core, wait: &LockWait) -> Vec<Owner> {
    let Ok(shared) = shared_file(core, wait.file) else { return Vec::new() };
    shared.posix.conflicts(&wait.lock).map(|lock| (lock.client, lock.owner)).collect()
}

impl Apply for CancelLock {
    fn apply(self, core: &mut Core, context: &Context) -> Result<Done> {
        session(core, context, self.client)?;
        if let Some(file) = core.live.share.waiting.locks.cancel((self.client, self.request), context.now) {
            // The call that waits is answered.
            core.store.note_changed(Awaited::File(file));
        }
        Ok(Done {})
    }
}

impl Apply for TestLock {
    fn apply(self, core: &mut Core, context: &Context) -> Result<LockAnswer> {
        let Self { lock } = self;
        session(core, context, lock.client)?;
        reach(core, context, lock.client, lock.file)?;
        let mut shared = shared_file(core, lock.file)?;
        let other = of_kind(&mut shared, lock.kind).conflict(&lock_of(&lock)).map(holder);
        Ok(LockAnswer { is_set: other.is_none(), holder: other, verdict: None })
    }
}

/// A lock that is waited for, in words.
pub(super) fn words(lock: &Lock) -> String {
    let mode = if lock.mode == LockMode::Shared { "a shared" } else { "an exclusive" };
    format!("{mode} lock for its process {}", lock.pid)
}

/// Who has the lock that is in the way.
pub(super) fn blocker(core: &Core, shared: &SharedFile, wait: &LockWait) -> Result<String> {
    let locks = if wait.is_posix { &shared.posix } else { &shared.flock };
    let Some(other) = locks.conflict(&wait.lock) else {
        return Ok("nobody has it any more".to_owned());
    };
    let mode = if other.mode == LockMode::Shared { "shared" } else { "exclusively" };
    let who = waits::mount_words(core, other.client)?;
    Ok(format!("process {} of {who} has it {mode}", other.pid))
}
