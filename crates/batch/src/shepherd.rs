//! The process that owns a job and outlives the daemon.
//!
//! Stages of one program, each started by the one before:
//!
//! ```text
//! outer     started by the room; starts inner in the background and exits, so that inner is a child of init
//! inner     the shepherd: own session, holds the lock, subreaper of everything the job starts, writes exit.json
//! sandbox, init, job    keep the job from everything that is not its own, and become it: see [`crate::sandbox`]
//! mount     serves the facility to a job that wants it as a file system: see [`job_mount`]
//! ```
//!
//! No stage needs `fork` or code between fork and exec: each is a fresh process that changes only itself.

mod files;
pub(crate) mod job_mount;
mod stage;
mod supervise;

use crate::{
    descriptors::close_inherited,
    durable::Lock,
    outputs,
    run_dir::{ExitRecord, Phase, RunDir},
    sandbox, tree,
};
use base::{Failure, Result};
use rustix::process::{DumpableBehavior, getpid, set_dumpable_behavior, setsid};
pub use stage::Stage;
pub(crate) use stage::stage_command;
use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    os::unix::{ffi::OsStrExt, fs::OpenOptionsExt},
    path::Path,
    process::Stdio,
    thread,
    time::{Duration, Instant},
};
use supervise::supervise;
use wire::control::{JobExit, Usage};

/// How often a shepherd looks for a request to cancel when nothing else happens.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How long a shepherd waits for its lock: the room holds it for moments only.
const LOCK_PATIENCE: Duration = Duration::from_secs(10);
/// The exit record is all that matters: a full disk is waited out for an hour.
const RECORD_TRIES_MAX: u32 = 720;
const RECORD_PAUSE: Duration = Duration::from_secs(5);

/// Runs one stage; the process is to end with the code that is returned.
///
/// The program must call this for the command line `shepherd RUN_DIR [--stage STAGE]`, before it starts any thread.
pub fn shepherd_main(run_dir: &Path, stage: Stage) -> i32 {
    close_inherited();
    let done = match stage {
        Stage::Outer => outer(run_dir),
        Stage::Inner => inner(run_dir),
        Stage::Mount => job_mount::serve(run_dir),
        Stage::Sandbox => return sandbox::sandbox(),
        Stage::Init => return sandbox::init(),
        Stage::Job => return sandbox::become_job(),
    };
    match done {
        Ok(()) => 0,
        Err(failure) => {
            // Standard error is shepherd.log, or a person at a terminal. If it is gone there is nobody to tell.
            let _ = writeln!(io::stderr(), "shepherd ({stage}) of {}: {failure}", run_dir.display());
            i32::from(failure.kind.exit_code())
        }
    }
}

/// A file of the run directory that output is added to.
pub(crate) fn append(dir: &RunDir, name: &str) -> Result<File> {
    OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .open(dir.file(name))
        .map_err(|cause| dir.failed(&format!("open {name}"), &cause))
}

fn outer(run_dir: &Path) -> Result<()> {
    let run_dir = run_dir
        .canonicalize()
        .map_err(|cause| Failure::io(format!("find {}", base::tail(run_dir)), &cause))?;
    let dir = RunDir::at(&run_dir)?;
    stage_command(&run_dir, Stage::Inner)
        .stdout(Stdio::null())
        .stderr(append(&dir, "shepherd.log")?)
        .current_dir("/")
        .spawn()
        .map_err(|cause| dir.failed("start the shepherd", &cause))?;
    Ok(())
}

fn inner(run_dir: &Path) -> Result<()> {
    // Refused only if we lead a session already, which is what we want.
    let _ = setsid();
    let dir = RunDir::at(run_dir)?;
    // No job of the same user may look into this process or change it.
    set_dumpable_behavior(DumpableBehavior::NotDumpable)
        .map_err(|cause| dir.failed("forbid to be traced", &cause.into()))?;
    let Some(_alive) = lock(&dir)? else {
        return Ok(());
    };
    // Another shepherd was faster, or the room gave the run up.
    if dir.phase() != Phase::Staged {
        return Ok(());
    }
    let order = dir
        .run_order()?
        .ok_or_else(|| Failure::not_found(format!("{} has no run.json", base::tail(run_dir))))?;
    let mut record = if dir.is_cancelled() {
        plain_record(JobExit::Cancelled)
    } else {
        supervise(&dir, &order).unwrap_or_else(|failure| plain_record(JobExit::NotStarted(failure)))
    };
    record.by = Some(who_am_i());
    // Before the record: what says that the job ended well must not outlive what it wrote.
    if record.exit == JobExit::Code(0)
        && let Err(failure) = sync_outputs(&dir)
    {
        record.exit = JobExit::OutputFailed(failure);
    }
    record_exit(&dir, &record)
}

fn sync_outputs(dir: &RunDir) -> Result<()> {
    let (Some(order), Some(identity)) = (dir.order()?, dir.identity()?) else { return Ok(()) };
    outputs::sync(&dir.scratch(), &order.spec.outputs, identity.uid)
}

/// Names this process for good.
fn who_am_i() -> (i32, u64) {
    let me = getpid().as_raw_nonzero().get();
    (me, tree::process(me).map_or(0, |process| process.start_ticks))
}

fn plain_record(exit: JobExit) -> ExitRecord {
    ExitRecord { exit, usage: Usage::default(), not_enforced: Vec::new(), left_behind: Vec::new(), by: None }
}

fn lock(dir: &RunDir) -> Result<Option<Lock>> {
    let since = Instant::now();
    loop {
        let lock = dir.try_lock()?;
        if lock.is_some() || since.elapsed() > LOCK_PATIENCE {
            return Ok(lock);
        }
        thread::sleep(LOOK_EVERY);
    }
}

fn record_exit(dir: &RunDir, record: &ExitRecord) -> Result<()> {
    let mut last = Ok(());
    for _ in 0..RECORD_TRIES_MAX {
        last = dir.set_exit(record);
        // Without its directory nobody reads it: the room knows the run to be lost.
        if last.is_ok() || !dir.is_there() {
            break;
        }
        thread::sleep(RECORD_PAUSE);
    }
    last
}

/// The name of a run's control group: of this run directory alone, for other facilities of the host have jobs of the same numbers.
pub(crate) fn cgroup_name(dir: &RunDir) -> String {
    let hash = base::Crc32c::of(dir.path().as_os_str().as_bytes());
    format!("bp-{}.{}-{hash}", dir.id().job, dir.id().attempt)
}
