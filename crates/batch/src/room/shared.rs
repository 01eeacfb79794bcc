//! What the room and its runs share, and how long they wait.

use super::config::WorkerConfig;
use crate::{
    identity::Kind, processors::Processors, run::Run, run_dir::RunStore, slurm::Slurm, users::Users,
};
use base::{Failure, Result};
use client::{Control, Stop};
use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};
use wire::control::{GetJobToken, JobOrder, JobRun, JobToken, MOUNT_LABEL};

/// A thread that pauses looks this often whether it has a reason to go on, though it is woken when there is one.
const PAUSE_LOOK_EVERY: Duration = Duration::from_secs(1);
/// First and longest pause between two tries to reach the head.
const RETRY_PAUSE: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(30));

/// The state that the threads of a worker share.
pub(crate) struct Shared {
    pub(crate) config: WorkerConfig,
    pub(crate) control: Control,
    pub(crate) store: RunStore,
    pub(crate) users: Users,
    pub(crate) processors: Processors,
    /// The cluster that starts the runs; `None`: this host does.
    pub(crate) slurm: Option<Slurm>,
    pub(super) stop: Stop,
    /// A short lock, never held during I/O.
    pub(super) runs: Mutex<BTreeMap<JobRun, Arc<Run>>>,
    /// The data door as the head named it last; a short lock.
    pub(super) door: Mutex<Option<String>>,
    /// Which state of the facility's keys signs tokens, as the head said last.
    pub(super) keys: AtomicU64,
    /// The facility can be mounted for jobs.
    pub(super) can_mount: bool,
    /// The last delivery that was carried out.
    pub(super) delivered: AtomicU64,
}

impl Shared {
    /// What jobs can ask for that only some workers have.
    pub(super) fn labels(&self) -> Vec<String> {
        let mount = self.can_mount.then(|| MOUNT_LABEL.to_owned());
        self.config.labels.iter().cloned().chain(mount).collect()
    }

    /// Limits that are not enforced for jobs of `kind`, in words; for those of any kind without it.
    pub(crate) fn not_enforced(&self, kind: Option<Kind>) -> Vec<String> {
        if self.slurm.is_some() {
            return vec!["memory and processors: as the Slurm cluster enforces them".to_owned()];
        }
        self.users.not_enforced(self.config.cgroup_parents().can_enforce(), kind)
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stop.is_set()
    }

    /// Waits for `time`, or less if the room stops or `is_enough` says so.
    pub(crate) fn pause(&self, time: Duration, is_enough: &dyn Fn() -> bool) {
        let since = Instant::now();
        let mut is_over = false;
        while !is_over {
            let Some(left) = time.checked_sub(since.elapsed()).filter(|left| !left.is_zero()) else {
                return;
            };
            is_over = self.stop.wait_until(left.min(PAUSE_LOOK_EVERY), is_enough) || is_enough();
        }
    }

    /// Makes a call to the head; `None` if the room stops before the answer is there.
    ///
    /// The call has a thread of its own: it may wait for half a minute, a stop may not.
    pub(crate) fn ask<T: Send + 'static>(
        &self,
        call: impl FnOnce(&Control) -> Result<T> + Send + 'static,
    ) -> Option<Result<T>> {
        let control = self.control.clone();
        self.stop.ask("batch-call", move || call(&control))
    }

    /// The data door, `root://host:port`: as the head named it last, otherwise as it stood in the order.
    pub(crate) fn door(&self, order: &JobOrder) -> String {
        let door = self.door.lock().unwrap_or_else(PoisonError::into_inner);
        door.clone().unwrap_or_else(|| order.outputs.clone())
    }

    /// Which state of the facility's keys signs tokens.
    pub(crate) fn keys(&self) -> u64 {
        self.keys.load(Ordering::Acquire)
    }

    /// What shows that a run acts for the owner of its job.
    pub(crate) fn token(&self, id: JobRun) -> Result<JobToken> {
        let answer = self.ask(move |control| control.call(&GetJobToken { run: id }));
        answer.unwrap_or_else(|| Err(Failure::unavailable("the worker is stopping")))
    }

    /// Whether this worker has the run.
    pub(crate) fn has_run(&self, id: JobRun) -> bool {
        self.runs().contains_key(&id)
    }

    pub(super) fn runs(&self) -> MutexGuard<'_, BTreeMap<JobRun, Arc<Run>>> {
        // A map of shared pointers is sound after any panic.
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Pauses that double up to a bound.
pub(crate) struct Backoff(pub(super) Duration);

impl Backoff {
    pub(crate) fn new() -> Self {
        Self(RETRY_PAUSE.0)
    }

    /// The next pause.
    pub(crate) fn next(&mut self) -> Duration {
        let pause = self.0;
        self.0 = (pause * 2).min(RETRY_PAUSE.1);
        pause
    }
}
