//! From staged inputs to a shepherd that owns the job.

use super::{LOOK_PAUSE, Next, Run};
use crate::{room::Shared, run_dir::Phase, shepherd};
use base::{ErrorKind, Failure, Result};
use std::{
    process::{Command, Stdio},
    time::{Duration, Instant},
};
use tracing::{error, warn};
use wire::control::{JobExit, JobStarted, Usage};

/// How long a shepherd may take to start on a busy host before another one is tried.
const START_PATIENCE: Duration = Duration::from_secs(30);
const START_TRIES_MAX: u32 = 3;

pub(super) fn launch(shared: &Shared, run: &Run) -> Result<Next> {
    // The head first: what it does not know to have begun it may give to another worker.
    if !run.is_cancelled() && !report_start(shared, run)? {
        return Ok(Next::Step);
    }
    let mut why = String::new();
    let is_settled = || run.dir.phase() != Phase::Staged || run.is_cancelled();
    for _ in 0..START_TRIES_MAX {
        if is_settled() {
            break;
        }
        if let Err(failure) = start_shepherd(shared, run) {
            why = failure.what;
            continue;
        }
        let since = Instant::now();
        while !is_settled() && since.elapsed() < START_PATIENCE {
            if shared.is_stopping() {
                return Ok(Next::Stop);
            }
            // Shepherds are quick: a fixed short pause costs less than a start seen late.
            shared.pause(LOOK_PAUSE.0, &|| false);
        }
    }
    if run.dir.phase() != Phase::Staged || run.is_dropped() {
        return Ok(Next::Step);
    }
    not_launched(shared, run, &why)
}

/// Tells the head that a run begins now; `false` if it must not, because the head gave it up or the room stops.
pub(super) fn report_start(shared: &Shared, run: &Run) -> Result<bool> {
    let id = run.id();
    let identity = run.identity()?;
    let kind = identity.as_ref().map(|identity| identity.kind);
    let start = JobStarted {
        run: id,
        run_as: identity.map(|identity| identity.name),
        not_enforced: shared.not_enforced(kind),
    };
    match shared.ask(move |control| control.call(&start)) {
        Some(Ok(_)) => Ok(true),
        Some(Err(failure)) if failure.kind == ErrorKind::NotFound => {
            warn!(job = %id.job, attempt = id.attempt, %failure, "the run was abandoned before it started");
            run.abandon();
            Ok(false)
        }
        Some(Err(failure)) => Err(failure.during("tell that the run begins")),
        None => Ok(false),
    }
}

/// Ends a run that has no shepherd, unless one is starting at this moment.
fn not_launched(shared: &Shared, run: &Run, why: &str) -> Result<Next> {
    // With the lock in hand no shepherd can begin: it would find the run ended.
    let Some(_alive) = run.dir.try_lock()? else {
        shared.pause(LOOK_PAUSE.0, &|| false);
        return Ok(Next::Step);
    };
    if run.dir.phase() != Phase::Staged {
        return Ok(Next::Step);
    }
    if run.is_cancelled() {
        return run.end(JobExit::Cancelled, Usage::default());
    }
    let log = run.dir.tail("shepherd.log");
    let failure = Failure::internal(format!("no shepherd started: {why} {log}").trim_end().to_owned());
    error!(job = %run.id().job, %failure, "cannot start a run");
    run.end(JobExit::NotStarted(failure), Usage::default())
}

/// Starts the stage `outer` and waits for it; the shepherd itself is in the background then.
fn start_shepherd(shared: &Shared, run: &Run) -> Result<()> {
    let program = &shared.config.shepherd;
    let failed = |cause: &std::io::Error| Failure::io(format!("run {} shepherd", base::tail(program)), cause);
    let mut outer = Command::new(program)
        .arg("shepherd")
        .arg(run.dir.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(shepherd::append(&run.dir, "shepherd.log")?)
        .spawn()
        .map_err(|cause| failed(&cause))?;
    let since = Instant::now();
    loop {
        match outer.try_wait().map_err(|cause| failed(&cause))? {
            Some(status) if status.success() => return Ok(()),
            Some(status) => {
                return Err(Failure::internal(format!("{} shepherd ended: {status}", base::tail(program))));
            }
            None if since.elapsed() > START_PATIENCE => {
                let _ = outer.kill();
                let _ = outer.wait();
                return Err(Failure::timeout(format!("{} shepherd hangs", base::tail(program))));
            }
            None => std::thread::sleep(LOOK_PAUSE.0),
        }
    }
}
