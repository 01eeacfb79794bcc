//! A running job: its process tree is watched, ended and measured.

mod deliver;
mod limits;

use super::{LOOK_EVERY, Stage, cgroup_name, files::Outputs, job_mount::JobMount, stage_command, who_am_i};
use crate::{
    cgroup::{self, Cgroup, Enforced, GroupLimits},
    run_dir::{ExitRecord, RunDir, RunOrder, Started},
    sandbox::{Confinement, Plan, Report, StageFile},
    tree,
};
use base::{Failure, Millis, Result, Timestamp};
use deliver::Deliveries;
use limits::MEASURE_EVERY;
use nix::sys::{
    resource::{UsageWho, getrusage},
    signal::{SigSet, Signal as Blocked},
    signalfd::{SfdFlags, SignalFd},
    time::TimeValLike,
};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, Signal, WaitOptions, getpid, set_child_subreaper, wait},
};
use std::{
    fs::File,
    io,
    time::{Duration, Instant, SystemTime},
};
use wire::control::{JobExit, Usage};

/// How long processes may resist the final signal: those in the kernel's hands come back late or never.
const KILL_PATIENCE: Duration = Duration::from_secs(30);
/// How long they may, where they wait for the mount of the job: then its server is ended, and so is their wait.
const MOUNT_PATIENCE: Duration = Duration::from_secs(5);
/// How long the server of the mount may take to commit what the job has written, when the job is over.
const MOUNT_END_PATIENCE: Duration = Duration::from_secs(20);
/// Pause between two looks at a tree that is being ended.
const KILL_LOOK_EVERY: Duration = Duration::from_millis(10);
/// Runs the job to its end. A failure means that it never ran.
pub(super) fn supervise(dir: &RunDir, order: &RunOrder) -> Result<ExitRecord> {
    let system = |what: &str, cause: rustix::io::Errno| dir.failed(what, &cause.into());
    let confinement = order.confinement.clone();
    let confinement =
        confinement.ok_or_else(|| Failure::internal("the order does not name the user to run it as"))?;
    set_child_subreaper(Some(getpid())).map_err(|cause| system("become subreaper", cause))?;
    let signals = block_signals().map_err(|cause| dir.failed("block signals", &cause.into()))?;
    let group = make_group(dir, order, &confinement);
    let enforced = group.as_ref().map_or_else(Enforced::default, Cgroup::enforced);
    let (me, start_ticks) = who_am_i();
    let Outputs { files, on_host } = Outputs::open(dir, &order.files, &confinement.identity)?;
    dir.set_started(&Started {
        pid: me,
        start_ticks,
        at: Timestamp::from_system(SystemTime::now()),
        holds_memory: enforced.memory,
        outputs: on_host,
    })?;
    let mount = order.mount.is_some().then(|| JobMount::start(dir)).transpose()?;
    let plan = Plan {
        mount: mount.as_ref().and_then(JobMount::number),
        order: order.clone(),
        confinement: confinement.clone(),
        run_dir: dir.path().to_owned(),
        shepherd: me,
        enforced,
    };
    let stages = StageFile::make(dir, &plan)?;
    let main = spawn_job(dir, &stages, &files)?;
    let mut supervisor = Supervisor {
        dir,
        order,
        mount,
        group,
        signals,
        me,
        main,
        has_ended: false,
        is_signalled: false,
        began: Instant::now(),
        confinement,
        stages,
        outputs: files,
        measure_at: Instant::now() + MEASURE_EVERY,
        deliveries: Deliveries::default(),
        wall: order.wall,
    };
    let ended_by = supervisor.watch();
    supervisor.end(ended_by, enforced)
}

/// Makes the control group of the job, where the host allows it.
fn make_group(dir: &RunDir, order: &RunOrder, confinement: &Confinement) -> Option<Cgroup> {
    let limits = GroupLimits {
        memory_bytes: order.memory_bytes,
        processes: confinement.limits.processes,
        processors: &order.processors,
    };
    Cgroup::make(order.cgroup_parents(), &cgroup_name(dir), &limits)
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

/// Starts the stages that become the job; returns the process id of the first.
fn spawn_job(dir: &RunDir, stages: &StageFile, outputs: &[File; 2]) -> Result<Pid> {
    let failed = |cause: io::Error| dir.failed("start the job", &cause);
    let [stdout, stderr] = outputs;
    let child = stage_command(dir.path(), Stage::Sandbox)
        .env_clear()
        .stdin(stages.try_clone().map_err(failed)?)
        .stdout(stdout.try_clone().map_err(failed)?)
        .stderr(stderr.try_clone().map_err(failed)?)
        .current_dir("/")
        .spawn()
        .map_err(failed)?;
    // Reaped by `Supervisor::reap`, with everything else that the job leaves to us.
    Pid::from_raw(child.id().cast_signed())
        .ok_or_else(|| Failure::internal("a process without an id was started"))
}

/// What the tree used. The largest resident set includes the few megabytes of our own stage `job`.
pub(super) fn usage(wall: Duration) -> Usage {
    let (cpu_ms, memory_bytes_max) = getrusage(UsageWho::RUSAGE_CHILDREN).map_or((0, 0), |used| {
        let cpu = used.user_time() + used.system_time();
        (cpu.num_milliseconds(), used.max_rss().unsigned_abs() << 10)
    });
    Usage { cpu: Millis(cpu_ms), wall: Millis(wall.as_millis() as i64), memory_bytes_max }
}

/// Why a job was ended before it ended itself.
#[derive(Debug, Clone, PartialEq, Eq)]
enum EndedBy {
    Wall,
    Cancel,
    /// It used more than it may.
    Limit(String),
    /// Somebody told the shepherd to end, for example the host that goes down.
    Signal,
}

/// A running job.
struct Supervisor<'a> {
    dir: &'a RunDir,
    order: &'a RunOrder,
    /// The facility as the job sees it.
    mount: Option<JobMount>,
    group: Option<Cgroup>,
    signals: SignalFd,
    me: i32,
    main: Pid,
    has_ended: bool,
    is_signalled: bool,
    began: Instant,
    confinement: Confinement,
    stages: StageFile,
    outputs: [File; 2],
    measure_at: Instant,
    deliveries: Deliveries,
    /// Longest run; it may change while the job runs.
    wall: Millis,
}

impl Supervisor<'_> {
    /// Waits until the job has ended, or has had its grace after it was asked to.
    fn watch(&mut self) -> Option<EndedBy> {
        while !self.has_ended {
            self.sleep(LOOK_EVERY.min(self.wall().saturating_sub(self.began.elapsed())));
            self.deliver();
            if !self.has_ended
                && let Some(why) = self.reason_to_end()
            {
                // Who takes too much must not take more while it says goodbye.
                if !matches!(why, EndedBy::Limit(_)) {
                    self.terminate();
                }
                return Some(why);
            }
        }
        None
    }

    /// Ends what is left, and says how the job ended.
    fn end(mut self, ended_by: Option<EndedBy>, enforced: Enforced) -> Result<ExitRecord> {
        let wall = self.began.elapsed();
        let left_behind = self.kill_rest();
        let usage = usage(wall);
        let unmounted = self.end_mount();
        Ok(ExitRecord {
            exit: match (self.exit(ended_by)?, unmounted) {
                (JobExit::Code(0), Err(failure)) => JobExit::OutputFailed(failure),
                (exit, _) => exit,
            },
            usage,
            not_enforced: if self.order.memory_bytes > 0 && !enforced.memory {
                vec![cgroup::NO_MEMORY.to_owned()]
            } else {
                Vec::new()
            },
            left_behind,
            by: None,
        })
    }

    fn wall(&self) -> Duration {
        Duration::from_millis(self.wall.0.max(0).unsigned_abs())
    }

    fn reason_to_end(&mut self) -> Option<EndedBy> {
        if self.began.elapsed() >= self.wall() {
            Some(EndedBy::Wall)
        } else if self.dir.is_cancelled() {
            Some(EndedBy::Cancel)
        } else if self.is_signalled || !self.dir.is_there() {
            // Without its directory nobody learns how it ends, and nobody can cancel it.
            Some(EndedBy::Signal)
        } else {
            self.exceeded().map(EndedBy::Limit)
        }
    }

    /// Asks every process to end and waits until all have or the grace is over.
    fn terminate(&mut self) {
        let grace = Duration::from_millis(self.order.grace.0.max(0).unsigned_abs());
        let since = Instant::now();
        for process in self.processes() {
            let _ = tree::send(process, Signal::TERM);
        }
        while since.elapsed() < grace && !self.processes().is_empty() {
            self.sleep(KILL_LOOK_EVERY);
        }
    }

    /// Ends whatever still runs, wherever in the tree; returns what could not be ended.
    ///
    /// Nothing leaves the tree: we are the subreaper, so that whoever loses its parent becomes our child.
    fn kill_rest(&mut self) -> Vec<i32> {
        let since = Instant::now();
        // Without a child there is no descendant either: the usual case costs no look through all processes.
        while self.has_children() || !self.has_ended {
            let rest = self.processes();
            if since.elapsed() > MOUNT_PATIENCE
                && let Some(mount) = &self.mount
            {
                mount.kill();
            }
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

    /// Whether processes of the job are left; the server of its mount is none. Reaps before.
    fn has_children(&mut self) -> bool {
        self.reap() && (self.mount.is_none() || !self.processes().is_empty())
    }

    /// Waits until the server of the mount has committed what the job has written, and ended.
    fn end_mount(&mut self) -> Result<()> {
        let since = Instant::now();
        let Some(mount) = &mut self.mount else { return Ok(()) };
        mount.release();
        loop {
            self.reap();
            let Some(mount) = &self.mount else { return Ok(()) };
            if let Some(outcome) = mount.outcome(self.dir) {
                return outcome;
            }
            if since.elapsed() > MOUNT_END_PATIENCE {
                mount.kill();
                let what = "the facility did not take in time what the job has written through its mount";
                return Err(Failure::timeout(what));
            }
            self.sleep(KILL_LOOK_EVERY);
        }
    }

    /// Living processes of the job.
    fn processes(&self) -> Vec<tree::Process> {
        let mut processes = tree::descendants(self.me);
        processes.retain(|process| !self.mount.as_ref().is_some_and(|mount| mount.is(process.pid)));
        processes
    }

    /// Sleeps until a child changes, a signal comes or `time` is over; then reaps.
    fn sleep(&mut self, time: Duration) {
        let timeout = Timespec { tv_sec: time.as_secs() as i64, tv_nsec: i64::from(time.subsec_nanos()) };
        // A failed poll only means an early look.
        let _ = poll(&mut [PollFd::new(&self.signals, PollFlags::IN)], Some(&timeout));
        while let Ok(Some(signal)) = self.signals.read_signal() {
            self.is_signalled |= signal.ssi_signo != Blocked::SIGCHLD as u32;
        }
        self.reap();
    }

    /// Takes the status of every process that ended; what was waited for is what usage counts.
    ///
    /// Returns whether children are left.
    fn reap(&mut self) -> bool {
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, _))) if pid == self.main => self.has_ended = true,
                Ok(Some((pid, status))) => {
                    if let Some(mount) = &mut self.mount {
                        mount.note_end(pid, status);
                    }
                }
                Ok(None) => return true,
                Err(_) => return false,
            }
        }
    }

    fn exit(&self, ended_by: Option<EndedBy>) -> Result<JobExit> {
        match ended_by {
            Some(EndedBy::Wall) => return Ok(JobExit::WallLimit),
            Some(EndedBy::Cancel) => return Ok(JobExit::Cancelled),
            Some(EndedBy::Limit(limit)) => return Ok(JobExit::Limit(limit)),
            Some(EndedBy::Signal) | None => {}
        }
        if let Some(limit) = self.out_of_memory() {
            return Ok(JobExit::Limit(limit));
        }
        match self.stages.outcome()? {
            Some(Report::NotStarted(failure)) => Err(failure),
            Some(Report::Code(0)) => Ok(JobExit::Code(0)),
            // The kernel may have been faster than we: no file is longer than all of scratch may be.
            Some(_) if let Some(limit) = self.long_output() => Ok(JobExit::Limit(limit)),
            Some(Report::Code(code)) => Ok(JobExit::Code(code)),
            Some(Report::Signal(signal)) => Ok(JobExit::Signal(signal)),
            // The stages themselves were ended: by us, by the kernel for the memory of the whole group, or by an operator.
            None => Ok(JobExit::Signal(Signal::KILL.as_raw())),
        }
    }
}
