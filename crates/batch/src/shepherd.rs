//! The process that owns a job and outlives the daemon.
//!
//! Three stages of one program, each started by the one before:
//!
//! ```text
//! outer   started by the room; starts inner in the background and exits, so that inner is a child of init
//! inner   the shepherd: own session, holds the lock, subreaper of everything the job starts, writes exit.json
//! job     sets limits on itself and becomes the job
//! ```
//!
//! No stage needs `fork` or code between fork and exec: each is a fresh process that changes only itself.

use crate::{
    cgroup::{self, Cgroup},
    durable::Lock,
    run_dir::{ExitRecord, Phase, RunDir, RunOrder, Started},
    tree,
};
use base::{ErrorKind, Failure, Millis, Result, Timestamp};
use nix::sys::{
    resource::{UsageWho, getrusage},
    signal::{SigSet, Signal as Blocked},
    signalfd::{SfdFlags, SignalFd},
    time::TimeValLike,
};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{
        Pid, Resource, Rlimit, Signal, WaitOptions, WaitStatus, getpid, getppid, getrlimit,
        set_child_subreaper, set_parent_process_death_signal, setrlimit, setsid, wait,
    },
};
use std::{
    ffi::OsStr,
    fmt,
    fs::{File, OpenOptions},
    io::{self, Write},
    os::unix::process::CommandExt,
    path::Path,
    process::{Command, Stdio},
    str::FromStr,
    thread,
    time::{Duration, Instant, SystemTime},
};
use wire::control::{JobExit, Usage};

/// Our own image, even after the file was replaced by a newer release.
const SELF: &str = "/proc/self/exe";
/// Files that a job may have open unless it raises its limit itself: what programs are used to.
const JOB_FILES: u64 = 1024;
/// How often a shepherd looks for a request to cancel when nothing else happens.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How long a shepherd waits for its lock: the room holds it for moments only.
const LOCK_PATIENCE: Duration = Duration::from_secs(10);
/// How long processes may resist the final signal: those in the kernel's hands come back late or never.
const KILL_PATIENCE: Duration = Duration::from_secs(30);
/// Pause between two looks at a tree that is being ended.
const KILL_LOOK_EVERY: Duration = Duration::from_millis(10);
/// The exit record is all that matters: a full disk is waited out for an hour.
const RECORD_TRIES_MAX: u32 = 720;
const RECORD_PAUSE: Duration = Duration::from_secs(5);
/// Exit code of the stage `job` if the program could not be executed, as of a shell.
const NOT_EXECUTED: i32 = 127;

/// What a shepherd process is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Stage {
    /// Started by the room.
    #[default]
    Outer,
    /// The shepherd.
    Inner,
    /// About to become the job.
    Job,
}

impl Stage {
    /// The word on the command line.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Outer => "outer",
            Self::Inner => "inner",
            Self::Job => "job",
        }
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Stage {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Self> {
        [Self::Outer, Self::Inner, Self::Job]
            .into_iter()
            .find(|stage| stage.as_str() == text)
            .ok_or_else(|| Failure::invalid(format!("{text:?} is not a stage of a shepherd")))
    }
}

/// Runs one stage; the process is to end with the code that is returned.
///
/// The program must call this for the command line `shepherd RUN_DIR [--stage STAGE]`, before it starts any thread.
pub fn shepherd_main(run_dir: &Path, stage: Stage) -> i32 {
    let done = match stage {
        Stage::Outer => outer(run_dir),
        Stage::Inner => inner(run_dir),
        Stage::Job => return job(run_dir),
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

/// Our own program as another stage.
fn stage_command(run_dir: &Path, stage: Stage) -> Command {
    let mut command = Command::new(SELF);
    command
        .args([OsStr::new("shepherd"), run_dir.as_os_str(), OsStr::new("--stage")])
        .arg(stage.as_str())
        .stdin(Stdio::null());
    command
}

/// A file of the run directory that output is added to.
pub(crate) fn append(dir: &RunDir, name: &str) -> Result<File> {
    OpenOptions::new()
        .append(true)
        .create(true)
        .open(dir.file(name))
        .map_err(|cause| dir.failed(&format!("open {name}"), &cause))
}

fn outer(run_dir: &Path) -> Result<()> {
    let run_dir =
        run_dir.canonicalize().map_err(|cause| Failure::io(format!("find {}", run_dir.display()), &cause))?;
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
    let Some(_alive) = lock(&dir)? else {
        return Ok(());
    };
    // Another shepherd was faster, or the room gave the run up.
    if dir.phase() != Phase::Staged {
        return Ok(());
    }
    let order = dir
        .run_order()?
        .ok_or_else(|| Failure::not_found(format!("{} has no run.json", run_dir.display())))?;
    let record = if dir.is_cancelled() {
        plain_record(JobExit::Cancelled)
    } else {
        tend(&dir, &order).unwrap_or_else(|failure| plain_record(JobExit::NotStarted(failure)))
    };
    record_exit(&dir, &record)
}

fn plain_record(exit: JobExit) -> ExitRecord {
    ExitRecord { exit, usage: Usage::default(), not_enforced: Vec::new(), left_behind: Vec::new() }
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
        if last.is_ok() {
            break;
        }
        thread::sleep(RECORD_PAUSE);
    }
    last
}

/// Runs the job to its end. A failure means that it never ran.
fn tend(dir: &RunDir, order: &RunOrder) -> Result<ExitRecord> {
    let system = |what: &str, cause: rustix::io::Errno| dir.failed(what, &cause.into());
    set_child_subreaper(Some(getpid())).map_err(|cause| system("become subreaper", cause))?;
    let signals = block_signals().map_err(|cause| dir.failed("block signals", &cause.into()))?;
    let name = cgroup_name(dir);
    let group =
        order.cgroup.as_deref().and_then(|parent| Cgroup::make(parent, &name, order.memory_bytes).ok());
    let holds_memory = group.as_ref().is_some_and(Cgroup::holds_memory);
    let me = getpid().as_raw_nonzero().get();
    dir.set_started(&Started {
        pid: me,
        start_ticks: tree::process(me).map_or(0, |process| process.start_ticks),
        at: Timestamp::from_system(SystemTime::now()),
        holds_memory,
    })?;
    let main = spawn_job(dir)?;
    let mut tending = Tending {
        dir,
        order,
        group,
        signals,
        me,
        main,
        status: None,
        is_told_to_end: false,
        began: Instant::now(),
    };
    let ended_by = tending.watch();
    let wall = tending.began.elapsed();
    let left_behind = tending.end_the_rest();
    Ok(ExitRecord {
        exit: tending.exit(ended_by)?,
        usage: usage(wall),
        not_enforced: if order.memory_bytes > 0 && !holds_memory {
            vec![cgroup::NO_MEMORY.to_owned()]
        } else {
            Vec::new()
        },
        left_behind,
    })
}

/// The name of a run's control group.
pub(crate) fn cgroup_name(dir: &RunDir) -> String {
    format!("bp-{}.{}", dir.id().job, dir.id().attempt)
}

/// From here on these signals are read, not delivered. The stage `job` inherits that and undoes it.
fn block_signals() -> nix::Result<SignalFd> {
    let mut set = SigSet::empty();
    for signal in [Blocked::SIGCHLD, Blocked::SIGTERM, Blocked::SIGINT, Blocked::SIGHUP] {
        set.add(signal);
    }
    set.thread_block()?;
    SignalFd::with_flags(&set, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)
}

/// Starts the stage that becomes the job; returns its process id.
fn spawn_job(dir: &RunDir) -> Result<Pid> {
    let child = stage_command(dir.path(), Stage::Job)
        .stdout(append(dir, "stdout")?)
        .stderr(append(dir, "stderr")?)
        .current_dir(dir.scratch())
        .spawn()
        .map_err(|cause| dir.failed("start the job", &cause))?;
    // Reaped by `Tending::reap`, with everything else that the job leaves to us.
    Pid::from_raw(child.id().cast_signed())
        .ok_or_else(|| Failure::internal("a process without an id was started"))
}

/// What the tree used. The largest resident set includes the few megabytes of our own stage `job`.
fn usage(wall: Duration) -> Usage {
    let (cpu_ms, memory_bytes_max) = getrusage(UsageWho::RUSAGE_CHILDREN).map_or((0, 0), |used| {
        let cpu = used.user_time() + used.system_time();
        (cpu.num_milliseconds(), used.max_rss().unsigned_abs() << 10)
    });
    Usage { cpu: Millis(cpu_ms), wall: Millis(wall.as_millis() as i64), memory_bytes_max }
}

/// Why a job was ended before it ended itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EndedBy {
    Wall,
    Cancel,
    /// Somebody told the shepherd to end, for example the host that goes down.
    Signal,
}

/// A running job.
struct Tending<'a> {
    dir: &'a RunDir,
    order: &'a RunOrder,
    group: Option<Cgroup>,
    signals: SignalFd,
    me: i32,
    main: Pid,
    status: Option<WaitStatus>,
    is_told_to_end: bool,
    began: Instant,
}

impl Tending<'_> {
    /// Waits until the job has ended, or has had its grace after it was asked to.
    fn watch(&mut self) -> Option<EndedBy> {
        while self.status.is_none() {
            self.sleep(LOOK_EVERY.min(self.wall().saturating_sub(self.began.elapsed())));
            if self.status.is_none()
                && let Some(why) = self.reason_to_end()
            {
                self.end_politely();
                return Some(why);
            }
        }
        None
    }

    fn wall(&self) -> Duration {
        Duration::from_millis(self.order.wall.0.max(0).unsigned_abs())
    }

    fn reason_to_end(&self) -> Option<EndedBy> {
        if self.began.elapsed() >= self.wall() {
            Some(EndedBy::Wall)
        } else if self.dir.is_cancelled() {
            Some(EndedBy::Cancel)
        } else if self.is_told_to_end {
            Some(EndedBy::Signal)
        } else {
            None
        }
    }

    /// Asks every process to end and waits until all have or the grace is over.
    fn end_politely(&mut self) {
        let grace = Duration::from_millis(self.order.grace.0.max(0).unsigned_abs());
        let since = Instant::now();
        for process in tree::descendants(self.me) {
            let _ = tree::send(process, Signal::TERM);
        }
        while since.elapsed() < grace && !tree::descendants(self.me).is_empty() {
            self.sleep(KILL_LOOK_EVERY);
        }
    }

    /// Ends whatever still runs, wherever in the tree; returns what could not be ended.
    ///
    /// Nothing leaves the tree: we are the subreaper, so that whoever loses its parent becomes our child.
    fn end_the_rest(&mut self) -> Vec<i32> {
        let since = Instant::now();
        // Without a child there is no descendant either: the usual case costs no look through all processes.
        while self.reap() || self.status.is_none() {
            let rest = tree::descendants(self.me);
            if since.elapsed() > KILL_PATIENCE {
                return rest.iter().map(|process| process.pid).collect();
            }
            if let Some(group) = &self.group {
                group.kill();
            }
            for process in rest {
                let _ = tree::send(process, Signal::KILL);
            }
            self.sleep(KILL_LOOK_EVERY);
        }
        Vec::new()
    }

    /// Sleeps until a child changes, a signal comes or `time` is over; then reaps.
    fn sleep(&mut self, time: Duration) {
        let timeout = Timespec { tv_sec: time.as_secs() as i64, tv_nsec: i64::from(time.subsec_nanos()) };
        // A failed poll only means an early look.
        let _ = poll(&mut [PollFd::new(&self.signals, PollFlags::IN)], Some(&timeout));
        while let Ok(Some(signal)) = self.signals.read_signal() {
            self.is_told_to_end |= signal.ssi_signo != Blocked::SIGCHLD as u32;
        }
        self.reap();
    }

    /// Takes the status of every process that ended; what was waited for is what usage counts.
    ///
    /// Returns whether children are left.
    fn reap(&mut self) -> bool {
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) if pid == self.main => self.status = Some(status),
                Ok(Some(_)) => {}
                Ok(None) => return true,
                Err(_) => return false,
            }
        }
    }

    fn exit(&self, ended_by: Option<EndedBy>) -> Result<JobExit> {
        match ended_by {
            Some(EndedBy::Wall) => return Ok(JobExit::WallLimit),
            Some(EndedBy::Cancel) => return Ok(JobExit::Cancelled),
            Some(EndedBy::Signal) | None => {}
        }
        let Some(status) = self.status else {
            // Only after the patience of `end_the_rest`: the final signal was sent, its effect is not visible.
            return Ok(JobExit::Signal(Signal::KILL.as_raw()));
        };
        match (status.exit_status(), status.terminating_signal()) {
            (Some(NOT_EXECUTED), _) if let Some(failure) = self.dir.not_started()? => Err(failure),
            (Some(code), _) => Ok(JobExit::Code(code)),
            (None, Some(signal)) => Ok(JobExit::Signal(signal)),
            (None, None) => Ok(JobExit::Lost),
        }
    }
}

/// Becomes the job; returns only if that is not possible.
fn job(run_dir: &Path) -> i32 {
    let told = RunDir::at(run_dir).and_then(|dir| {
        let Err(failure) = become_job(&dir);
        dir.set_not_started(&failure)
    });
    if told.is_err() { i32::from(ErrorKind::Internal.exit_code()) } else { NOT_EXECUTED }
}

fn become_job(dir: &RunDir) -> Result<std::convert::Infallible> {
    let order = dir.run_order()?;
    let order = order.ok_or_else(|| Failure::internal("the job's order is gone"))?;
    let started = dir.started()?;
    let started = started.ok_or_else(|| Failure::internal("the job has no shepherd"))?;
    let system = |what: &str, cause: rustix::io::Errno| dir.failed(what, &cause.into());
    // Refused only if we lead a session already.
    let _ = setsid();
    // A job without its shepherd is lost: it must not go on using the host.
    set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|cause| system("bind to the shepherd", cause))?;
    if getppid().map(|pid| pid.as_raw_nonzero().get()) != Some(started.pid) {
        return Err(Failure::unavailable("the shepherd died before the job started"));
    }
    SigSet::empty().thread_set_mask().map_err(|cause| dir.failed("unblock signals", &cause.into()))?;
    if let Some(parent) = &order.cgroup {
        cgroup::join(parent, &cgroup_name(dir)).map_err(|cause| {
            dir.failed("join its control group", &cause)
                .hint(format!("the worker must be allowed to make groups in {}", parent.display()))
        })?;
    }
    if order.memory_bytes > 0 && !started.holds_memory {
        let limit = Rlimit { current: Some(order.memory_bytes), maximum: Some(order.memory_bytes) };
        // Data, not address space: what is reserved and never touched does no harm.
        setrlimit(Resource::Data, limit).map_err(|cause| system("limit memory", cause))?;
    }
    // The daemon has raised its own; programs that use `select` break with numbers beyond this.
    let files = getrlimit(Resource::Nofile);
    let soft = files.maximum.map_or(JOB_FILES, |maximum| maximum.min(JOB_FILES));
    setrlimit(Resource::Nofile, Rlimit { current: Some(soft), ..files })
        .map_err(|cause| system("limit open files", cause))?;
    let (program, arguments) =
        order.command.split_first().ok_or_else(|| Failure::invalid("the job has no command"))?;
    let mut command = Command::new(program);
    command.args(arguments).env_clear().envs(&order.environment).current_dir(dir.scratch());
    let since = Instant::now();
    let mut cause = command.exec();
    // A program that was just staged: a process that the room was starting has a copy of the open file for a moment.
    while cause.kind() == io::ErrorKind::ExecutableFileBusy && since.elapsed() < LOCK_PATIENCE {
        thread::sleep(KILL_LOOK_EVERY);
        cause = command.exec();
    }
    Err(Failure::io(format!("run {program:?}"), &cause)
        .hint("is the program installed on the worker, and executable?"))
}
