//! Waits for the end of the shepherd, whose record says how the job ended; ends a shepherd that is overdue.

use super::{Held, LOOK_PAUSE, Next, sweep, token::KeptToken};
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
use wire::control::{JobExit, JobOrder, Usage};

/// From the order to end, or the wall limit, to the end of the shepherd: the grace, the time that processes may resist, and some.
const END_PATIENCE: Duration = Duration::from_secs(60);

/// Waits for the end of the shepherd; its record then says how the job ended.
///
/// While the shepherd lives no record counts, whoever wrote it: the job may run on, and can be cancelled.
pub(super) fn watch(shared: &Shared, held: &Held) -> Result<Next> {
    let identity = held.identity()?.unwrap_or_else(Identity::own);
    let mut token = KeptToken::new(shared, identity);
    let mut pause = LOOK_PAUSE.0;
    let mut overdue = Overdue::new(&held.order);
    while !shared.is_stopping() {
        if held.is_dropped() || !held.is_there() {
            return Ok(Next::Step);
        }
        token.keep(shared, held);
        if held.dir.phase() == Phase::Ended {
            return Ok(Next::Step);
        }
        if let Some(_alive) = held.dir.try_lock()? {
            return ended(shared, held, &token.identity);
        }
        if overdue.is_now(held.is_cancelled()) {
            kill_shepherd(held)?;
        }
        shared.pause(pause, &|| held.is_dropped());
        pause = (pause * 2).min(LOOK_PAUSE.1);
    }
    Ok(Next::Stop)
}

/// When a shepherd has had all the time that it needs to end its job: it hangs, or the job has stopped it.
struct Overdue {
    since: Instant,
    wall: Duration,
    cancelled: Option<Instant>,
}

impl Overdue {
    fn new(order: &JobOrder) -> Self {
        let wall = Duration::from_millis(order.spec.resources.wall.0.max(0).unsigned_abs());
        Self { since: Instant::now(), wall, cancelled: None }
    }

    fn is_now(&mut self, is_cancelled: bool) -> bool {
        if is_cancelled {
            self.cancelled.get_or_insert_with(Instant::now);
        }
        self.cancelled.is_some_and(|since| since.elapsed() > END_PATIENCE)
            || self.since.elapsed() > self.wall.saturating_add(END_PATIENCE)
    }
}

/// Ends a shepherd that does not end its job, with all that it has started. The run is lost then.
fn kill_shepherd(held: &Held) -> Result<()> {
    let Some(started) = held.dir.started()? else {
        return Ok(());
    };
    let shepherd = tree::process(started.pid).filter(|process| process.start_ticks == started.start_ticks);
    let Some(shepherd) = shepherd else {
        return Ok(());
    };
    error!(job = %held.id().job, pid = started.pid, "the shepherd does not end its job; killing both");
    for process in tree::descendants(started.pid).into_iter().chain([shepherd]) {
        let _ = tree::send(process, Signal::KILL);
    }
    Ok(())
}

/// The shepherd has ended.
pub(super) fn ended(shared: &Shared, held: &Held, identity: &Identity) -> Result<Next> {
    match held.dir.exit() {
        Ok(Some(record)) if !is_of_shepherd(held, &record)? => {
            error!(job = %held.id().job, "the exit record was not written by the run's shepherd; the run is lost");
            sweep(shared, held)?;
            held.end(JobExit::Lost, Usage::default())
        }
        Ok(Some(record)) => {
            if !shared.users.finding().namespaces.processes {
                // A job of our own user can end its shepherd and outlive it.
                sweep(shared, held)?;
            }
            store_outputs(shared, held, record, identity.uid)
        }
        Ok(None) => lose(shared, held),
        Err(failure) if failure.kind == ErrorKind::Corrupt => {
            error!(job = %held.id().job, %failure, "the exit record is damaged; the run is lost");
            sweep(shared, held)?;
            held.end(JobExit::Lost, Usage::default())
        }
        Err(failure) => Err(failure),
    }
}

/// Whether the shepherd that ran the job wrote the record. Those of older releases do not say who wrote them.
fn is_of_shepherd(held: &Held, record: &ExitRecord) -> Result<bool> {
    let Some(started) = held.dir.started()? else {
        // It never ran: there is nothing to be forged.
        return Ok(record.exit != JobExit::Code(0));
    };
    Ok(record.by.map_or(held.dir.is_of_older_release(), |by| by == (started.pid, started.start_ticks)))
}

/// The shepherd died without a record: nobody knows whether the job went well.
fn lose(shared: &Shared, held: &Held) -> Result<Next> {
    error!(job = %held.id().job, attempt = held.id().attempt, "the shepherd died; the run is lost");
    sweep(shared, held)?;
    held.end(JobExit::Lost, Usage::default())
}

fn store_outputs(shared: &Shared, held: &Held, record: ExitRecord, uid: u32) -> Result<Next> {
    if !record.left_behind.is_empty() {
        error!(job = %held.id().job, pids = ?record.left_behind, "cannot kill the processes of a job; check this host");
    }
    let (mut exit, mut stored) = (record.exit, Vec::new());
    if exit == JobExit::Code(0) && !held.order.spec.outputs.is_empty() {
        match store::store_all(shared, held, uid) {
            Some(Ok(paths)) => stored = paths,
            Some(Err(failure)) => exit = JobExit::OutputFailed(failure),
            None if held.is_dropped() => return Ok(Next::Step),
            None if held.is_cancelled() => exit = JobExit::Cancelled,
            None => return Ok(Next::Stop),
        }
    }
    held.end_with(exit, record.usage, stored)
}
