//! Executes calls in groups, each committed once: on the head's thread, or on the thread of a caller when no other is executing.
//!
//! The technique is *flat combining* (Hendler, Incze, Shavit, Tzafrir, 2010). Callers publish their calls in a list, and the thread
//! that gets the lock executes all of them as one group. One commit for the whole group is the *group commit* of databases.

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

/// Holds the head's state for the one thread that executes, and the calls that wait for it.
pub(crate) struct GroupExecutor {
    /// `None` while a thread executes, and for ever if that thread panicked: the catalogue is closed then.
    state: Mutex<Option<Box<ExecutorState>>>,
    /// Calls that their callers' threads may execute. The next thread that executes drains all of them into its group: each
    /// caller is woken once, without the head's thread. `None` once a thread panicked: no thread would drain it any more.
    pending: Mutex<Option<Group>>,
    /// The catalogue is a file of this host, not a remote database.
    is_local: bool,
    clock: Clock,
    watched: Arc<Watched>,
}

/// What the executing thread owns.
struct ExecutorState {
    core: Core,
    steps: Steps,
    begun: Instant,
}

impl GroupExecutor {
    pub(crate) fn new(core: Core, clock: Clock, watched: Arc<Watched>) -> Self {
        let is_local = !core.store.looks_ahead();
        let state = Box::new(ExecutorState { core, steps: Steps::default(), begun: Instant::now() });
        Self {
            state: Mutex::new(Some(state)),
            pending: Mutex::new(Some(Group::new())),
            is_local,
            clock,
            watched,
        }
    }

    /// The head's thread: takes what has queued up, carries it out, commits once, answers everybody.
    pub(crate) fn run(&self, calls: &mpsc::Receiver<Box<dyn Pending>>) {
        while let Ok(first) = calls.recv() {
            let mut guard =
                ExecutorGuard::new(self, self.state.lock().unwrap_or_else(PoisonError::into_inner));
            let Some(mut state) = guard.cell.take() else {
                return error!("an earlier call panicked; the head stops");
            };
            let mut group = vec![first];
            group.extend(calls.try_iter().take(HEAD_BATCH_LEN_MAX - 1));
            let len = group.len();
            group.append(&mut self.drain());
            let outcome = self.execute(&mut state, group);
            *guard.cell = Some(state);
            self.watched.waiting.fetch_sub(len, Ordering::AcqRel);
            drop(guard);
            outcome.tell(&self.watched);
        }
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(mut state) = state {
            end(&mut state.core);
        }
    }

    /// Whether callers may execute: the catalogue is local, and no call waits for the head's thread, which comes first.
    pub(crate) fn may_execute_inline(&self) -> bool {
        self.is_local && self.watched.waiting.load(Ordering::Acquire) == 0
    }

    /// Adds a call to the pending list, or drops it if the executor has failed. The caller's thread then calls
    /// [`GroupExecutor::serve`], and again whenever it is woken without an answer.
    pub(crate) fn enqueue(&self, call: Box<dyn Pending>) {
        if let Some(group) = self.pending().as_mut() {
            group.push(call);
        }
    }

    /// Executes the pending calls on this thread, unless another thread executes: that one wakes the first pending caller when
    /// it ends, so that no call is forgotten and no thread works for others for long.
    pub(crate) fn serve(&self) {
        let cell = match self.state.try_lock() {
            Ok(cell) => cell,
            Err(TryLockError::WouldBlock) => return,
            Err(TryLockError::Poisoned(dead)) => dead.into_inner(),
        };
        let mut guard = ExecutorGuard::new(self, cell);
        let Some(mut state) = guard.cell.take() else { return };
        let group = self.drain();
        let outcome = (!group.is_empty()).then(|| self.execute(&mut state, group));
        *guard.cell = Some(state);
        drop(guard);
        if let Some(outcome) = outcome {
            outcome.tell(&self.watched);
        }
    }

    fn drain(&self) -> Group {
        self.pending().as_mut().map(mem::take).unwrap_or_default()
    }

    fn pending(&self) -> MutexGuard<'_, Option<Group>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Executes a group of calls and commits them.
    fn execute(&self, state: &mut ExecutorState, mut group: Group) -> Outcome {
        let ExecutorState { core, steps, begun } = state;
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
        for call in group.iter_mut().filter(|_| committed.is_ok()) {
            call.follow(core, now);
        }
        Outcome { group, committed, changes: core.take_changes() }
    }
}

/// An executed group. Its callers are answered when the lock is free again: a thread that wakes another one may have
/// to make room for it at once.
struct Outcome {
    group: Group,
    committed: Result<()>,
    changes: Changes,
}

impl Outcome {
    /// Answers the group, and says what has changed.
    fn tell(self, watched: &Watched) {
        for call in self.group {
            call.answer(&self.committed);
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

/// The right to execute. Dropping it frees the lock before the next caller is woken.
struct ExecutorGuard<'a> {
    cell: MutexGuard<'a, Option<Box<ExecutorState>>>,
    _wake_next: WakeNextOnDrop<'a>,
}

impl<'a> ExecutorGuard<'a> {
    fn new(executor: &'a GroupExecutor, cell: MutexGuard<'a, Option<Box<ExecutorState>>>) -> Self {
        Self { cell, _wake_next: WakeNextOnDrop(executor) }
    }
}

struct WakeNextOnDrop<'a>(&'a GroupExecutor);

impl Drop for WakeNextOnDrop<'_> {
    fn drop(&mut self) {
        let mut pending = self.0.pending();
        if thread::panicking() {
            // Callers learn it when their calls are dropped.
            *pending = None;
        } else if let Some(next) = pending.as_ref().and_then(|group| group.first()) {
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
        let paths: Vec<_> = group.iter().flat_map(|call| call.paths()).collect();
        if let Err(cause) = core.store.look_ahead(&paths) {
            // The calls will meet the same, each with what it was for.
            debug!(%cause, "could not read rows ahead");
        }
    }
    for call in group.iter_mut() {
        call.apply(core, now);
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
