//! Waits for the end of the shepherd, whose record says how the job ended; ends a shepherd that is overdue.

use super::{LOOK_PAUSE, Next, Run, sweep, token::RenewedToken};
use crate::{
    identity::Identity,
    room::Shared,
    run_dir::{ExitRecord, Phase},
    store, tree,
};
use base::{ErrorKind, Result};
use rustix::process::Signal;
use std::time::{Duration, Instant};
use tracing::error;
use wire::control::{JobExit, Usage};

/// From the order to end, or the wall limit, to the end of the shepherd: the grace, the time that processes may resist and that their
/// mount needs, and some.
const END_PATIENCE: Duration = Duration::from_secs(90);

/// Waits for the end of the shepherd; its record then says how the job ended.
///
/// While the shepherd lives no record counts, whoever wrote it: the job may run on, and can be cancelled.
pub(super) fn watch(shared: &Shared, run: &Run) -> Result<Next> {
    let identity = run.identity()?.unwrap_or_else(Identity::own);
    let mut token = RenewedToken::new(shared, identity);
    let mut pause = LOOK_PAUSE.0;
    let mut overdue = Overdue::new();
    while !shared.is_stopping() {
        if run.is_dropped() || !run.is_there() {
            return Ok(Next::Step);
        }
        token.renew_if_due(shared, run);
        if run.dir.phase() == Phase::Ended {
            return Ok(Next::Step);
        }
        if let Some(_alive) = run.dir.try_lock()? {
            return ended(shared, run, &token.identity);
        }
        if overdue.is_now(run) {
            kill_shepherd(run)?;
        }
        shared.pause(pause, &|| run.is_dropped());
        pause = (pause * 2).min(LOOK_PAUSE.1);
    }
    Ok(Next::Stop)
}

/// When a shepherd has had all the time that it needs to end its job: it hangs, or the job has stopped it.
struct Overdue {
    since: Instant,
    cancelled: Option<Instant>,
}

impl Overdue {
    fn new() -> Self {
        Self { since: Instant::now(), cancelled: None }
    }

    fn is_now(&mut self, run: &Run) -> bool {
        if run.is_cancelled() {
            self.cancelled.get_or_insert_with(Instant::now);
        }
        self.cancelled.is_some_and(|since| since.elapsed() > END_PATIENCE)
            || self.since.elapsed() > run.wall().saturating_add(END_PATIENCE)
    }
}

/// Ends a shepherd that does not end its job, with all that it has started. The run is lost then.
fn kill_shepherd(run: &Run) -> Result<()> {
    let Some(started) = run.dir.started()? else {
        return Ok(());
    };
    let shepherd = tree::process(started.pid).filter(|process| process.start_ticks == started.start_ticks);
    let Some(shepherd) = shepherd else {
        return Ok(());
    };
    error!(job = %run.id().job, pid = started.pid, "the shepherd does not end its job; killing both");
    for process in tree::descendants(started.pid).into_iter().chain([shepherd]) {
        let _ = tree::send(process, Signal::KILL);
    }
    Ok(())
}

/// The shepherd has ended.
pub(super) fn ended(shared: &Shared, run: &Run, identity: &Identity) -> Result<Next> {
    match run.dir.exit() {
        Ok(Some(record)) if !is_of_shepherd(run, &record)? => {
            error!(job = %run.id().job, "the exit record was not written by the run's shepherd; the run is lost");
            sweep(shared, run)?;
            run.end(JobExit::Lost, Usage::default())
        }
        Ok(Some(record)) => {
            if !shared.users.finding().namespaces.processes {
                // A job of our own user can end its shepherd and outlive it.
                sweep(shared, run)?;
            }
            store_outputs(shared, run, record, identity.uid)
        }
        Ok(None) => lose(shared, run),
        Err(failure) if failure.kind == ErrorKind::Corrupt => {
            error!(job = %run.id().job, %failure, "the exit record is damaged; the run is lost");
            sweep(shared, run)?;
            run.end(JobExit::Lost, Usage::default())
        }
        Err(failure) => Err(failure),
    }
}

/// Whether the shepherd that ran the job wrote the record. Those of older releases do not say who wrote them.
fn is_of_shepherd(run: &Run, record: &ExitRecord) -> Result<bool> {
    let Some(started) = run.dir.started()? else {
        // It never ran: there is nothing to be forged.
        return Ok(record.exit != JobExit::Code(0));
    };
    Ok(record.by.map_or(run.dir.is_of_older_release(), |by| by == (started.pid, started.start_ticks)))
}

/// The shepherd died without a record: nobody knows whether the job went well.
fn lose(shared: &Shared, run: &Run) -> Result<Next> {
    error!(job = %run.id().job, attempt = run.id().attempt, "the shepherd died; the run is lost");
    sweep(shared, run)?;
    run.end(JobExit::Lost, Usage::default())
}

fn store_outputs(shared: &Shared, run: &Run, record: ExitRecord, uid: u32) -> Result<Next> {
    if !record.left_behind.is_empty() {
        error!(job = %run.id().job, pids = ?record.left_behind, "cannot kill the processes of a job; check this host");
    }
    let (mut exit, mut stored) = (record.exit, Vec::new());
    if exit == JobExit::Code(0) && !run.order.spec.outputs.is_empty() {
        match store::store_all(shared, run, uid) {
            Some(Ok(paths)) => stored = paths,
            Some(Err(failure)) => exit = JobExit::OutputFailed(failure),
            None if run.is_dropped() => return Ok(Next::Step),
            None if run.is_cancelled() => exit = JobExit::Cancelled,
            None => return Ok(Next::Stop),
        }
    }
    run.end_with(exit, record.usage, stored)
}
