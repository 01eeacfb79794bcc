//! One run, from the order to the acknowledged end. Every step begins and ends with the run directory.
//!
//! Its steps in order: `inputs` and the `order` for the shepherd, `launch`, `watch`, then the report from here.

mod dialect;
mod environment;
mod file_name;
mod in_slurm;
mod inputs;
mod launch;
mod order;
mod retry;
mod sweep;
mod token;
mod watch;

use crate::{
    identity::Identity,
    output_report,
    room::{Backoff, Shared},
    run_dir::{Phase, RunDir},
    stage::TransferContext,
};
use base::{ErrorKind, FilePath, Result};
use inputs::fetch_inputs;
use launch::launch;
pub(crate) use retry::{can_pass, can_pass_for_output, with_retries};
use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering},
    },
    time::Duration,
};
use sweep::sweep;
use tracing::{error, info, warn};
use watch::watch;
use wire::control::{Delivered, JobEnded, JobExit, JobOrder, JobRun, JobText, RunDelivery, Usage};

/// First and longest pause between two looks for an exit record: a short job must not wait, a long one costs nothing.
const LOOK_PAUSE: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(200));

/// A run that this worker has, driven by a thread of its own.
pub(crate) struct Run {
    pub(crate) dir: RunDir,
    pub(crate) order: JobOrder,
    /// Device and inode number of `dir`; `None` of a run that an older release began.
    inode: Option<(u64, u64)>,
    /// As it was read last: what is needed when the directory is gone.
    identity: Mutex<Option<Identity>>,
    /// Bytes of each output of the job that are sent to the head at its end.
    log_bytes: u64,
    /// How many bytes of standard output and error the head has; `None` while nobody follows it. Locked during a report.
    pub(crate) reported: Mutex<Option<[u64; 2]>>,
    /// The last delivery that is in its directory.
    delivered: AtomicU64,
    /// Longest run in milliseconds; it may change while the job runs.
    wall_ms: AtomicI64,
    is_cancelled: AtomicBool,
    is_dropped: AtomicBool,
}

/// What comes after a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    /// The next phase.
    Step,
    /// Nothing: the run is forgotten.
    Gone,
    /// The room stops.
    Stop,
}

impl Run {
    pub(crate) fn new(dir: RunDir, order: JobOrder, log_bytes: u64) -> Self {
        let (delivered, wall) = dir.delivered();
        let wall = wall.unwrap_or(order.spec.resources.wall);
        Self {
            delivered: AtomicU64::new(delivered),
            wall_ms: AtomicI64::new(wall.0),
            is_cancelled: AtomicBool::new(dir.is_cancelled()),
            inode: dir.inode(),
            identity: Mutex::default(),
            reported: Mutex::default(),
            log_bytes,
            dir,
            order,
            is_dropped: AtomicBool::new(false),
        }
    }

    pub(crate) fn id(&self) -> JobRun {
        self.order.run
    }

    /// Asks for the end of the run; returns whether that was new.
    pub(crate) fn cancel(&self) -> bool {
        if self.is_cancelled.swap(true, Ordering::Relaxed) {
            return false;
        }
        if let Err(failure) = self.dir.cancel() {
            if failure.kind == ErrorKind::NotFound {
                // The run was reported and removed while the head's order was on its way.
                return false;
            }
            warn!(job = %self.id().job, %failure, "cannot tell the shepherd to end");
            // The head repeats its order.
            self.is_cancelled.store(false, Ordering::Relaxed);
        }
        true
    }

    /// Puts a delivery where the shepherd finds it, once.
    pub(crate) fn deliver(&self, delivery: &RunDelivery) -> Result<()> {
        if delivery.number <= self.delivered.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.dir.deliver(delivery)?;
        self.delivered.store(delivery.number, Ordering::Relaxed);
        if let Delivered::Wall(wall) = delivery.what {
            self.wall_ms.store(wall.0, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Longest run.
    fn wall(&self) -> Duration {
        Duration::from_millis(self.wall_ms.load(Ordering::Relaxed).max(0).unsigned_abs())
    }

    /// Ends the run without a report.
    pub(crate) fn abandon(&self) {
        self.is_dropped.store(true, Ordering::Relaxed);
        self.cancel();
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.is_cancelled.load(Ordering::Relaxed)
    }

    fn is_dropped(&self) -> bool {
        self.is_dropped.load(Ordering::Relaxed)
    }

    /// Whether its directory is the one that was made for it.
    fn is_there(&self) -> bool {
        self.dir.is_there() && self.dir.inode() == self.inode
    }

    /// Whom it runs as, if that is decided.
    fn identity(&self) -> Result<Option<Identity>> {
        let mut known = self.identity.lock().unwrap_or_else(PoisonError::into_inner);
        if known.is_none() {
            *known = self.dir.identity()?;
        }
        Ok(known.clone())
    }

    fn end(&self, exit: JobExit, usage: Usage) -> Result<Next> {
        self.end_with(exit, usage, Vec::new())
    }

    fn end_with(&self, exit: JobExit, usage: Usage, stored: Vec<FilePath>) -> Result<Next> {
        info!(job = %self.id().job, attempt = self.id().attempt, ?exit, "run ended");
        let excerpt = |name| self.dir.excerpt(name, self.log_bytes);
        let text = JobText { stdout: excerpt("stdout"), stderr: excerpt("stderr") };
        let id = self.id();
        self.dir.set_ended(&JobEnded { run: id, exit, usage, text, stored })?;
        Ok(Next::Step)
    }
}

/// Drives a run until it is acknowledged or the room stops. Trouble of this host is tried again, never fatal.
pub(crate) fn drive(shared: &Shared, run: &Run) {
    let mut backoff = Backoff::new();
    while !shared.is_stopping() {
        match step(shared, run) {
            Ok(Next::Step) => backoff = Backoff::new(),
            Ok(Next::Gone | Next::Stop) => return,
            Err(failure) => {
                let pause = backoff.next();
                warn!(job = %run.id().job, attempt = run.id().attempt, %failure, "a step of a run failed; retrying");
                shared.pause(pause, &|| run.is_dropped());
            }
        }
    }
}

fn step(shared: &Shared, run: &Run) -> Result<Next> {
    if !run.is_there() {
        return vanished(shared, run);
    }
    if run.is_dropped() {
        return forget(shared, run);
    }
    match run.dir.phase() {
        Phase::Ordered => fetch_inputs(shared, run),
        Phase::Staged => match &shared.slurm {
            Some(slurm) => in_slurm::launch(shared, slurm, run),
            None => launch(shared, run),
        },
        Phase::Launched | Phase::Exited => match &shared.slurm {
            Some(slurm) => in_slurm::watch(shared, slurm, run),
            None => watch(shared, run),
        },
        Phase::Ended => report(shared, run),
    }
}

/// Ends what the head gave up: when the shepherd is gone, so is the run.
fn forget(shared: &Shared, run: &Run) -> Result<Next> {
    run.dir.cancel()?;
    let (mut pause, longest) = if shared.slurm.is_some() { in_slurm::FORGET_PAUSE } else { LOOK_PAUSE };
    while !shared.is_stopping() {
        let is_over = shared.slurm.as_ref().map_or(Ok(true), |slurm| in_slurm::forget(slurm, run))?;
        if is_over && let Some(_alive) = run.dir.try_lock()? {
            if matches!(run.dir.phase(), Phase::Launched | Phase::Exited) {
                sweep(shared, run)?;
            }
            remove(shared, run)?;
            info!(job = %run.id().job, attempt = run.id().attempt, "the head gave up this run; it was ended \
                and removed");
            return Ok(Next::Gone);
        }
        shared.pause(pause, &|| false);
        pause = (pause * 2).min(longest);
    }
    Ok(Next::Stop)
}

/// The directory of a run was removed, or another one is in its place: whatever it says is not from us. The run is lost.
fn vanished(shared: &Shared, run: &Run) -> Result<Next> {
    error!(job = %run.id().job, attempt = run.id().attempt, "the directory of a run is missing or was \
        replaced; the run is lost");
    sweep(shared, run)?;
    if let Some(slurm) = &shared.slurm {
        in_slurm::forget(slurm, run)?;
    }
    if run.is_dropped() {
        return remove(shared, run).map(|()| Next::Gone);
    }
    let exit = JobExit::Lost;
    let ended = JobEnded::without_text(run.id(), exit);
    match shared.ask(move |control| control.call(&ended)) {
        Some(Ok(_)) => {
            remove(shared, run)?;
            Ok(Next::Gone)
        }
        Some(Err(failure)) => Err(failure.during("report a lost run")),
        None => Ok(Next::Stop),
    }
}

/// Deletes what a run has left and gives its user back.
fn remove(shared: &Shared, run: &Run) -> Result<()> {
    let identity = run.identity()?;
    shared.store.remove(&run.dir)?;
    shared.processors.release(run.id());
    if let Some(identity) = identity {
        shared.users.release(&identity);
    }
    Ok(())
}

pub(crate) fn transfer_context<'a>(shared: &'a Shared, run: &'a Run, token: &'a str) -> TransferContext<'a> {
    TransferContext { user: &run.order.owner, token, ca_file: shared.config.ca_file.as_ref() }
}

/// Reports the end of the run; its directory is removed when the head has acknowledged it.
fn report(shared: &Shared, run: &Run) -> Result<Next> {
    let Some(ended) = run.dir.ended()? else {
        return Ok(Next::Step);
    };
    output_report::report_rest(shared, run);
    match shared.ask(move |control| control.call(&ended)) {
        Some(Ok(_)) => {
            if let Some(slurm) = &shared.slurm {
                in_slurm::withdraw(slurm, run)?;
            }
            remove(shared, run)?;
            Ok(Next::Gone)
        }
        Some(Err(failure)) => Err(failure.during("report the end")),
        None => Ok(Next::Stop),
    }
}
