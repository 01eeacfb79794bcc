//! Locks: `fcntl` and `flock`, between all mounts. Those of an evicted mount are given back; its writes were fenced first.

use super::{put, reach, session, sessions, shared_file};
use crate::{Apply, Context, Core, waiters::Awaited};
use ::share::{FileLocks, Lock, LockMode};
use base::{Failure, Result};
use wire::control::{LockAnswer, LockHolder, LockKind, SetLock, TestLock};

/// The lock that is asked for; of one that is given back only its range counts.
fn lock_of(asked: &SetLock) -> Lock {
    let mode = asked.mode.unwrap_or(LockMode::Exclusive);
    Lock { client: asked.client, owner: asked.owner, pid: asked.pid, range: asked.range, mode }
}

fn of_kind(shared: &mut crate::store::SharedFile, kind: LockKind) -> &mut FileLocks {
    match kind {
        LockKind::Posix => &mut shared.posix,
        LockKind::Flock => &mut shared.flock,
    }
}

fn holder(lock: &Lock) -> LockHolder {
    LockHolder { client: lock.client, pid: lock.pid, mode: lock.mode, range: lock.range }
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
            return Ok(LockAnswer { is_set: true, holder: None });
        };
        reach(core, context, self.client, self.file)?;
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
            return Ok(LockAnswer { is_set: false, holder: Some(holder(&other)) });
        }
        put(core, self.file, &shared, context.now)?;
        Ok(LockAnswer { is_set: true, holder: None })
    }
}

impl Apply for TestLock {
    fn apply(self, core: &mut Core, context: &Context) -> Result<LockAnswer> {
        let Self { lock } = self;
        session(core, context, lock.client)?;
        reach(core, context, lock.client, lock.file)?;
        let mut shared = shared_file(core, lock.file)?;
        let other = of_kind(&mut shared, lock.kind).conflict(&lock_of(&lock)).map(holder);
        Ok(LockAnswer { is_set: other.is_none(), holder: other })
    }
}
