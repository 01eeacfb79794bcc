//! The steps of a run that Slurm starts: submitted and held, released when its inputs are there, watched by Slurm's states.

use super::{Next, Run, launch::report_start, watch::ended};
use crate::{
    identity::Identity,
    room::Shared,
    run_dir::Phase,
    slurm::{self, Slurm, SlurmJob, State},
};
use base::{ErrorKind, Failure, Result};
use std::{
    ops::ControlFlow,
    time::{Duration, Instant},
};
use tracing::warn;
use wire::control::{JobExit, Usage};

/// How old a state may be once the exit record is there: the shepherd ends in that moment.
const END_AGE: Duration = Duration::from_secs(1);
/// How long an exit record may take to be seen on a shared file system after Slurm says that the job is over.
const RECORD_PATIENCE: Duration = Duration::from_secs(15);
/// Between two cancellations of a job that the head gave up: the first pause, and the longest.
pub(super) const FORGET_PAUSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(5));
/// How long a shepherd has to end a job that was cancelled before Slurm does it.
const CANCEL_PATIENCE: Duration = Duration::from_secs(60);

/// Submits the Slurm job, so that it gains age there while its inputs are fetched. Breaks with what comes next if Slurm will never
/// take it.
pub(super) fn submit(shared: &Shared, slurm: &Slurm, run: &Run) -> Result<ControlFlow<Next, SlurmJob>> {
    match slurm.submit(&run.dir, &run.order, &shared.config.shepherd) {
        Ok(job) => Ok(ControlFlow::Continue(job)),
        Err(refused) if refused.kind == ErrorKind::Invalid => {
            run.end(JobExit::NotStarted(refused), Usage::default()).map(ControlFlow::Break)
        }
        Err(failure) => Err(failure),
    }
}

/// Inputs are there: the Slurm job may start.
pub(super) fn launch(shared: &Shared, slurm: &Slurm, run: &Run) -> Result<Next> {
    // The head first: what it does not know to have begun it may give to another worker.
    if !run.is_cancelled() && !report_start(shared, run)? {
        return Ok(Next::Step);
    }
    let job = match submit(shared, slurm, run)? {
        ControlFlow::Continue(job) => job,
        ControlFlow::Break(next) => return Ok(next),
    };
    if !run.is_cancelled() && job.state == State::Pending {
        // It may have been lost or cancelled in Slurm while its inputs were fetched.
        slurm::release(job).inspect_err(|_| slurm.doubt(&run.dir))?;
    }
    watch(shared, slurm, run)
}

/// Waits until the Slurm job is over; the shepherd's record then says how the run ended.
pub(super) fn watch(shared: &Shared, slurm: &Slurm, run: &Run) -> Result<Next> {
    let identity = run.identity()?.unwrap_or_else(Identity::own);
    let mut token = super::token::RenewedToken::new(shared, identity);
    let mut look = Look::default();
    while !shared.is_stopping() {
        if run.is_dropped() || !run.is_there() || run.dir.phase() == Phase::Ended {
            return Ok(Next::Step);
        }
        token.renew_if_due(shared, run);
        let has_record = run.dir.phase() == Phase::Exited;
        let was_cancelled = run.is_cancelled();
        let is_soon = has_record || was_cancelled || look.over.is_some();
        let every = if is_soon { END_AGE } else { slurm.poll_every() };
        let verdict = match slurm.job(&run.dir, every)? {
            Some(job) => look.at(run, job, has_record)?,
            None => forgotten(run, has_record)?,
        };
        match verdict {
            Verdict::Wait => {}
            Verdict::Ended => return ended(shared, run, &token.identity),
            Verdict::Next(next) => return Ok(next),
        }
        let has_news = || (run.dir.phase() == Phase::Exited) != has_record;
        shared.pause(every, &|| run.is_dropped() || run.is_cancelled() != was_cancelled || has_news());
    }
    Ok(Next::Stop)
}

/// What follows from a look at the Slurm job of a run.
enum Verdict {
    Wait,
    /// The shepherd has ended; its record counts.
    Ended,
    Next(Next),
}

/// What the looks at a Slurm job have come to.
#[derive(Default)]
struct Look {
    /// Since when Slurm says that the job is over, while there is no record.
    over: Option<Instant>,
    /// Since when the run is cancelled.
    cancelled: Option<Instant>,
    is_cancel_sent: bool,
}

impl Look {
    fn at(&mut self, run: &Run, job: SlurmJob, has_record: bool) -> Result<Verdict> {
        if has_record && (job.state.is_over() || job.state == State::Completing) {
            return Ok(Verdict::Ended);
        }
        if !job.state.is_over() {
            return self.cancel(run, job).map(|()| Verdict::Wait);
        }
        // A shepherd that lives is waited for, whatever Slurm says, and none begins before the run has ended.
        let Some(_nobody_begins) = run.dir.try_lock()? else { return Ok(Verdict::Wait) };
        if run.is_cancelled() && run.dir.phase() == Phase::Staged {
            return run.end(JobExit::Cancelled, Usage::default()).map(Verdict::Next);
        }
        if self.over.get_or_insert_with(Instant::now).elapsed() < RECORD_PATIENCE {
            return Ok(Verdict::Wait);
        }
        without_record(run, job).map(Verdict::Next)
    }

    /// A cancelled job that waits is cancelled in Slurm; one that runs is ended by its shepherd, and by Slurm if that takes too long.
    fn cancel(&mut self, run: &Run, job: SlurmJob) -> Result<()> {
        if !run.is_cancelled() || self.is_cancel_sent {
            return Ok(());
        }
        let since = *self.cancelled.get_or_insert_with(Instant::now);
        if job.state == State::Pending {
            return slurm::cancel_waiting(job);
        }
        if since.elapsed() > CANCEL_PATIENCE {
            slurm::cancel(job)?;
            self.is_cancel_sent = true;
        }
        Ok(())
    }
}

/// Slurm does not know the job: it was purged after its end, or lost before it was on the controller's disk.
fn forgotten(run: &Run, has_record: bool) -> Result<Verdict> {
    if has_record {
        return Ok(Verdict::Ended);
    }
    let Some(_nobody_begins) = run.dir.try_lock()? else {
        // Its shepherd lives, whatever Slurm says.
        return Ok(Verdict::Wait);
    };
    let (job, attempt) = (run.id().job, run.id().attempt);
    match run.dir.phase() {
        Phase::Staged if run.is_cancelled() => {
            run.end(JobExit::Cancelled, Usage::default()).map(Verdict::Next)
        }
        Phase::Staged => {
            warn!(%job, attempt, "Slurm does not know the job any more; submitting it again");
            Ok(Verdict::Next(Next::Step))
        }
        Phase::Launched => {
            warn!(%job, attempt, "Slurm does not know a job that has begun; the run is lost");
            run.end(JobExit::Lost, Usage::default()).map(Verdict::Next)
        }
        // It has left its record at this moment.
        _ => Ok(Verdict::Wait),
    }
}

/// The job is over in Slurm, and its shepherd has left no record: Slurm says why, and success is never assumed.
fn without_record(run: &Run, job: SlurmJob) -> Result<Next> {
    let has_begun = run.dir.phase() != Phase::Staged;
    let exit = match job.state {
        _ if run.is_cancelled() => JobExit::Cancelled,
        State::Timeout => JobExit::WallLimit,
        State::OutOfMemory => JobExit::Limit("more memory than Slurm gave it".to_owned()),
        _ if has_begun => JobExit::Lost,
        state => {
            let log = run.dir.tail("shepherd.log");
            let what = format!("Slurm job {} ended without running it ({state:?}): {log}", job.id);
            JobExit::NotStarted(Failure::unavailable(what.trim_end_matches(": ").to_owned()))
        }
    };
    warn!(job = %run.id().job, slurm_job = job.id, state = ?job.state, "a Slurm job ended without an exit record");
    run.end(exit, slurm::usage(job))
}

/// The run has ended here: takes its Slurm job out of Slurm if it was never released.
pub(super) fn withdraw(slurm: &Slurm, run: &Run) -> Result<()> {
    if !Slurm::may_have(&run.dir) {
        return Ok(());
    }
    match slurm.job(&run.dir, slurm.poll_every())? {
        Some(job) if job.state == State::Pending => slurm::cancel_waiting(job),
        _ => Ok(()),
    }
}

/// The head gave the run up, or its directory is gone: ends its Slurm job. Yields whether it is over.
pub(super) fn forget(slurm: &Slurm, run: &Run) -> Result<bool> {
    match slurm.job(&run.dir, END_AGE)? {
        Some(job) if !job.state.is_over() => slurm::cancel(job).map(|()| false),
        _ => Ok(true),
    }
}
