//! The steps of a run that Slurm starts: submitted and held, released when its inputs are there, watched by Slurm's states.

use super::{Next, Run, launch::report_start, watch};
use crate::{
    identity::Identity,
    room::Shared,
    run_dir::Phase,
    slurm::{Slurm, SlurmJob, State},
};
use base::{Failure, Result};
use std::time::{Duration, Instant};
use tracing::{info, warn};
use wire::control::{JobExit, Usage};

/// How old a state may be once the exit record is there: the shepherd ends in that moment.
const END_AGE: Duration = Duration::from_secs(1);
/// How long an exit record may take to be seen on a shared file system after Slurm says that the job is over.
const RECORD_PATIENCE: Duration = Duration::from_secs(15);
/// How long a shepherd has to end a job that was cancelled before Slurm does it.
const CANCEL_PATIENCE: Duration = Duration::from_secs(60);

/// Submits the Slurm job, so that it gains age there while its inputs are fetched.
pub(super) fn submit(shared: &Shared, slurm: &Slurm, run: &Run) -> Result<()> {
    let job = slurm.submit(&run.dir, &run.order, &shared.config.shepherd)?;
    info!(job = %run.id().job, attempt = run.id().attempt, slurm_job = job.id, "submitted to Slurm, held");
    Ok(())
}

/// Inputs are there: the Slurm job may start.
pub(super) fn launch(shared: &Shared, slurm: &Slurm, run: &Run) -> Result<Next> {
    // The head first: what it does not know to have begun it may give to another worker.
    if !run.is_cancelled() && !report_start(shared, run)? {
        return Ok(Next::Step);
    }
    let job = slurm.submit(&run.dir, &run.order, &shared.config.shepherd)?;
    if !run.is_cancelled() && job.state == State::Pending {
        slurm.release(job)?;
    }
    watch(shared, slurm, run)
}

/// Waits until the Slurm job is over; the shepherd's record then says how the run ended.
pub(super) fn watch(shared: &Shared, slurm: &Slurm, run: &Run) -> Result<Next> {
    let identity = run.identity()?.unwrap_or_else(Identity::own);
    let mut token = super::token::RenewedToken::new(shared, identity);
    let mut cancel = Cancel::default();
    let mut over: Option<(Instant, SlurmJob)> = None;
    while !shared.is_stopping() {
        if run.is_dropped() || !run.is_there() || run.dir.phase() == Phase::Ended {
            return Ok(Next::Step);
        }
        token.renew_if_due(shared, run);
        let has_record = run.dir.phase() == Phase::Exited;
        let age = if has_record { END_AGE } else { slurm.poll_every() };
        let job = slurm.job(&run.dir, age)?;
        match job {
            Some(job) if has_record && (job.state.is_over() || job.state == State::Completing) => {
                return watch::ended(shared, run, &token.identity);
            }
            Some(job) if job.state.is_over() => {
                let (since, _) = *over.get_or_insert_with(|| (Instant::now(), job));
                if since.elapsed() > RECORD_PATIENCE {
                    return without_record(slurm, run, job);
                }
            }
            Some(job) => cancel.look(slurm, run, job)?,
            // Slurm has forgotten it: it was purged after its end, or lost before it was on the controller's disk.
            None if has_record => return watch::ended(shared, run, &token.identity),
            None if run.is_cancelled() => return run.end(JobExit::Cancelled, Usage::default()),
            None if run.dir.phase() == Phase::Launched => return lose(run),
            None => {
                warn!(job = %run.id().job, attempt = run.id().attempt, "Slurm does not know the job any more; \
                    submitting it again");
                return Ok(Next::Step);
            }
        }
        let pause = if has_record || over.is_some() { END_AGE } else { slurm.poll_every() };
        let was_cancelled = run.is_cancelled();
        shared.pause(pause, &|| {
            run.is_dropped()
                || run.is_cancelled() != was_cancelled
                || (run.dir.phase() == Phase::Exited) != has_record
        });
    }
    Ok(Next::Stop)
}

/// A cancelled run: one that waits is cancelled in Slurm, one that runs is ended by its shepherd, and by Slurm if that takes too long.
#[derive(Default)]
struct Cancel {
    since: Option<Instant>,
    is_sent: bool,
}

impl Cancel {
    fn look(&mut self, slurm: &Slurm, run: &Run, job: SlurmJob) -> Result<()> {
        if !run.is_cancelled() || self.is_sent {
            return Ok(());
        }
        let since = *self.since.get_or_insert_with(Instant::now);
        if job.state == State::Pending || since.elapsed() > CANCEL_PATIENCE {
            slurm.cancel(job)?;
            self.is_sent = true;
        }
        Ok(())
    }
}

/// The job is over in Slurm, and its shepherd has left no record: Slurm says why, and success is never assumed.
fn without_record(slurm: &Slurm, run: &Run, job: SlurmJob) -> Result<Next> {
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
    run.end(exit, slurm.usage(job))
}

fn lose(run: &Run) -> Result<Next> {
    warn!(job = %run.id().job, attempt = run.id().attempt, "Slurm does not know a job that has begun; the run is lost");
    run.end(JobExit::Lost, Usage::default())
}

/// The head gave the run up: ends its Slurm job. Yields whether it is over.
pub(super) fn forget(slurm: &Slurm, run: &Run) -> Result<bool> {
    match slurm.job(&run.dir, END_AGE)? {
        Some(job) if !job.state.is_over() => slurm.cancel(job).map(|()| false),
        _ => Ok(true),
    }
}
