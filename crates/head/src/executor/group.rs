//! Where calls are carried out: by the head's thread in groups, each committed once, or by a caller when nobody else is there.

use crate::{
    Core,
    executor::{
        clock_steps::Steps,
        service::{Pending, Watched},
    },
    store::{StoreError, StoreResult},
    waiters::Changes,
};
use base::{Clock, Failure, Result, Timestamp, limits::HEAD_BATCH_LEN_MAX};
use std::{
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, atomic::Ordering, mpsc},
    thread,
    time::Instant,
};
use tracing::{debug, error};

/// Uses of files that are written when the head stops: what takes a moment.
const LAST_USES_LEN: usize = 10_000;

type Group = Vec<Box<dyn Pending>>;

/// Has room for one at a time.
pub(crate) struct Seat {
    /// `None` while somebody sits there, and for ever if that one panicked: the catalogue is closed then.
    place: Mutex<Option<Box<Taken>>>,
    /// Calls that their own threads would carry out. Whoever sits down next takes all of them along: who waits needs to be
    /// woken once, and neither needs the head's thread. `None` once somebody panicked: nobody would come any more.
    beside: Mutex<Option<Group>>,
    /// Calls look into a file of this host, not into a database far away.
    is_near: bool,
    clock: Clock,
    watched: Arc<Watched>,
}

/// What belongs to whoever sits there.
struct Taken {
    core: Core,
    steps: Steps,
    begun: Instant,
}

impl Seat {
    pub(crate) fn new(core: Core, clock: Clock, watched: Arc<Watched>) -> Self {
        let is_near = !core.store.looks_ahead();
        let taken = Box::new(Taken { core, steps: Steps::default(), begun: Instant::now() });
        Self {
            place: Mutex::new(Some(taken)),
            beside: Mutex::new(Some(Group::new())),
            is_near,
            clock,
            watched,
        }
    }

    /// The head's thread: takes what has queued up, carries it out, commits once, answers everybody.
    pub(crate) fn run(&self, calls: &mpsc::Receiver<Box<dyn Pending>>) {
        while let Ok(first) = calls.recv() {
            let mut sitting = Sitting::new(self, self.place.lock().unwrap_or_else(PoisonError::into_inner));
            let Some(mut taken) = sitting.place.take() else {
                return error!("an earlier call panicked; the head stops");
            };
            let mut group = vec![first];
            group.extend(calls.try_iter().take(HEAD_BATCH_LEN_MAX - 1));
            let len = group.len();
            group.append(&mut self.take_along());
            let outcome = self.carry_out(&mut taken, group);
            *sitting.place = Some(taken);
            self.watched.waiting.fetch_sub(len, Ordering::AcqRel);
            drop(sitting);
            outcome.tell(&self.watched);
        }
        let place = self.place.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(mut taken) = place {
            end(&mut taken.core);
        }
    }

    /// Whether a call is a look into a file of this host, and nobody waits for the head's thread, who is served before.
    pub(crate) fn is_open(&self) -> bool {
        self.is_near && self.watched.waiting.load(Ordering::Acquire) == 0
    }

    /// Puts a call beside the seat, or drops it if nobody can sit there any more. Its thread calls [`Seat::serve`] then, and
    /// again whenever it is woken without an answer.
    pub(crate) fn put_beside(&self, ask: Box<dyn Pending>) {
        if let Some(group) = self.beside().as_mut() {
            group.push(ask);
        }
    }

    /// Carries out what lies beside the seat on this thread, unless somebody sits here. Whoever leaves wakes the next, so that
    /// nothing is forgotten and nobody works for others for long.
    pub(crate) fn serve(&self) {
        let place = match self.place.try_lock() {
            Ok(place) => place,
            Err(TryLockError::WouldBlock) => return,
            Err(TryLockError::Poisoned(dead)) => dead.into_inner(),
        };
        let mut sitting = Sitting::new(self, place);
        let Some(mut taken) = sitting.place.take() else { return };
        let group = self.take_along();
        let outcome = (!group.is_empty()).then(|| self.carry_out(&mut taken, group));
        *sitting.place = Some(taken);
        drop(sitting);
        if let Some(outcome) = outcome {
            outcome.tell(&self.watched);
        }
    }

    fn take_along(&self) -> Group {
        self.beside().as_mut().map(mem::take).unwrap_or_default()
    }

    fn beside(&self) -> MutexGuard<'_, Option<Group>> {
        self.beside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Carries out a group of calls and commits them.
    fn carry_out(&self, taken: &mut Taken, mut group: Group) -> Outcome {
        let Taken { core, steps, begun } = taken;
        let now = (self.clock)();
        if let Some(by) = steps.look(now, begun.elapsed()) {
            core.clock_was_set(by, now);
        }
        let committed = commit(core, &mut group, now);
        if committed.as_ref().is_err_and(|cause| matches!(cause, StoreError::Superseded)) {
            self.watched.superseded.send_replace(true);
        }
        let committed = committed.map_err(Failure::from);
        match committed {
            Ok(()) => core.live.events.publish(),
            Err(_) => core.live.events.take_back(0),
        }
        for ask in group.iter_mut().filter(|_| committed.is_ok()) {
            ask.follow(core, now);
        }
        Outcome { group, committed, changes: core.take_changes() }
    }
}

/// A group that was carried out. Its callers are told when the place is free again: a thread that wakes another one may have
/// to make room for it at once.
struct Outcome {
    group: Group,
    committed: Result<()>,
    changes: Changes,
}

impl Outcome {
    /// Answers the group, and says what has changed.
    fn tell(self, watched: &Watched) {
        for ask in self.group {
            ask.answer(&self.committed);
        }
        if self.committed.is_ok() {
            let changes = watched.changes.iter().zip(self.changes.topics);
            for (change, _) in changes.filter(|(_, touched)| *touched) {
                change.send_modify(|count| *count += 1);
            }
            watched.waiters.wake(&self.changes.awaited);
        }
    }
}

/// Somebody sits there. The place is free again before the next one is woken.
struct Sitting<'a> {
    place: MutexGuard<'a, Option<Box<Taken>>>,
    _leaving: Leaving<'a>,
}

impl<'a> Sitting<'a> {
    fn new(seat: &'a Seat, place: MutexGuard<'a, Option<Box<Taken>>>) -> Self {
        Self { place, _leaving: Leaving(seat) }
    }
}

struct Leaving<'a>(&'a Seat);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        let mut beside = self.0.beside();
        if thread::panicking() {
            // Callers learn it when their calls are dropped.
            *beside = None;
        } else if let Some(next) = beside.as_ref().and_then(|group| group.first()) {
            next.wake();
        }
    }
}

/// Writes what nobody was promised, but would be missed a little.
fn end(core: &mut Core) {
    core.store.begin();
    let written = core.store.write_uses(LAST_USES_LEN).and_then(|()| core.store.commit());
    if let Err(cause) = written {
        debug!(%cause, "could not record when files were last used");
    }
}

fn commit(core: &mut Core, group: &mut Group, now: Timestamp) -> StoreResult<()> {
    core.store.begin();
    if let Err(cause) = core.beat(now) {
        // A head that may have been replaced answers nobody, not even from memory.
        return Err(give_up(core, cause, group.len()));
    }
    if core.store.looks_ahead() {
        let paths: Vec<_> = group.iter().flat_map(|ask| ask.paths()).collect();
        if let Err(cause) = core.store.look_ahead(&paths) {
            // The calls will meet the same, each with what it was for.
            debug!(%cause, "could not read rows ahead");
        }
    }
    for ask in group.iter_mut() {
        ask.apply(core, now);
    }
    core.store.commit().map_err(|cause| give_up(core, cause, group.len()))?;
    core.has_beaten();
    Ok(())
}

fn give_up(core: &mut Core, cause: StoreError, calls: usize) -> StoreError {
    let cause = if core.store.is_fenced() { StoreError::Superseded } else { cause };
    error!(%cause, calls, "commit failed; all calls of this group were refused and changed nothing");
    if let Err(cause) = core.store.rollback() {
        error!(%cause, "rollback failed");
    }
    cause
}
