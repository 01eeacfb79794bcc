//! Where calls are carried out: by the head's thread in groups, each committed once, or by a caller when nobody else is there.

use crate::{
    Core,
    service::{Clock, Pending, Watched},
    steps::Steps,
    store::{StoreError, StoreResult},
};
use base::{Failure, Timestamp, limits::HEAD_BATCH_LEN_MAX};
use std::{
    hint::spin_loop,
    sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, atomic::Ordering, mpsc},
    time::{Duration, Instant},
};
use tracing::{debug, error};

/// Uses of files that are written when the head stops: what takes a moment.
const LAST_USES_LEN: usize = 10_000;

/// How long a caller looks for a free place: nine of ten calls into a catalogue in memory take less. Who would sleep until it
/// is free would be overtaken again and again: measured, the slowest hundredth then takes half as long again.
const PATIENCE: Duration = Duration::from_micros(20);

type Group = Vec<Box<dyn Pending>>;

/// Has room for one at a time.
pub(crate) struct Seat {
    /// `None` while somebody sits there, and for ever if that one panicked: the catalogue is closed then.
    place: Mutex<Option<Box<Taken>>>,
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
        Self { place: Mutex::new(Some(taken)), is_near, clock, watched }
    }

    /// The head's thread: takes what has queued up, carries it out, commits once, answers everybody.
    pub(crate) fn run(&self, calls: &mpsc::Receiver<Box<dyn Pending>>) {
        while let Ok(first) = calls.recv() {
            let mut place = self.place.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(mut taken) = place.take() else {
                return error!("the head cannot go on after a panic");
            };
            let mut group = vec![first];
            group.extend(calls.try_iter().take(HEAD_BATCH_LEN_MAX - 1));
            let len = group.len();
            self.carry_out(&mut taken, group);
            *place = Some(taken);
            self.watched.waiting.fetch_sub(len, Ordering::AcqRel);
        }
        let place = self.place.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(mut taken) = place {
            end(&mut taken.core);
        }
    }

    /// Carries out one call on this thread, if nobody else sits here.
    pub(crate) fn try_carry_out(&self, ask: Box<dyn Pending>) -> Option<()> {
        if !self.is_near {
            return None;
        }
        let mut place = self.find_free()?;
        let mut taken = place.take()?;
        self.carry_out(&mut taken, vec![ask]);
        *place = Some(taken);
        Some(())
    }

    /// Waits a moment for whoever sits here: a look into the catalogue takes less.
    fn find_free(&self) -> Option<MutexGuard<'_, Option<Box<Taken>>>> {
        let began = Instant::now();
        loop {
            match self.place.try_lock() {
                Ok(place) => return Some(place),
                Err(TryLockError::WouldBlock) if began.elapsed() < PATIENCE => spin_loop(),
                Err(_) => return None,
            }
        }
    }

    /// Carries out a group of calls, answers them, and says what has changed.
    fn carry_out(&self, taken: &mut Taken, mut group: Group) {
        let Taken { core, steps, begun } = taken;
        let now = (self.clock)();
        if let Some(by) = steps.look(now, begun.elapsed()) {
            core.clock_was_set(by);
        }
        let committed = commit(core, &mut group, now);
        if committed.as_ref().is_err_and(|cause| matches!(cause, StoreError::Superseded)) {
            self.watched.superseded.send_replace(true);
        }
        let committed = committed.map_err(Failure::from);
        for ask in group.iter_mut().filter(|_| committed.is_ok()) {
            ask.follow(core, now);
        }
        let touched = core.take_touched();
        for ask in group {
            ask.answer(&committed);
        }
        if committed.is_ok() {
            let changes = self.watched.changes.iter().zip(touched);
            for (change, _) in changes.filter(|(_, touched)| *touched) {
                change.send_modify(|count| *count += 1);
            }
        }
    }
}

/// Writes what nobody was promised, but would be missed a little.
fn end(core: &mut Core) {
    core.store.begin();
    let written = core.store.write_uses(LAST_USES_LEN).and_then(|()| core.store.commit());
    if let Err(cause) = written {
        debug!(%cause, "the last uses of files are not noted");
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
            debug!(%cause, "nothing was read ahead");
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
    error!(%cause, calls, "commit failed; nothing of this group happened");
    if let Err(cause) = core.store.rollback() {
        error!(%cause, "rollback failed");
    }
    cause
}
