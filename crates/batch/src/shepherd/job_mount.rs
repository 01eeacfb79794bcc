//! The facility as a file system of one job.
//!
//! The shepherd makes a mount that lies in no directory, starts a process that serves it, and the job's own mount namespace attaches
//! it. So nobody else sees it, and it is gone when the last process of the job is, however that ended: then its server commits what
//! was written, ends its session and ends itself. It is no process of the job: what ends the job's processes leaves it alone.

use super::{LOOK_EVERY, Stage, append, stage_command};
use crate::run_dir::{MountOrder, RunDir};
use base::{ErrorKind, Failure, FilePath, Result};
use client::{
    Control,
    control::{Bearer, ControlTls},
    xrd,
};
use fuse::{
    Settings, Target,
    kernel::device::{Access, Detached, detached},
};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{DumpableBehavior, Pid, Signal, WaitStatus, kill_process, set_dumpable_behavior, setsid},
};
use std::{
    io::{self, Read, Write},
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
    path::Path,
    process::{ChildStdout, Stdio},
    thread,
    time::{Duration, Instant},
};

/// What the server says when it has its session. Else it says why not.
const MOUNTED: &str = "mounted";
/// How long a mount may take: the head has just ordered the run.
const START_PATIENCE: Duration = Duration::from_secs(60);
/// The longest thing that it says is a failure.
const SAID_BYTES_MAX: u64 = 64 << 10;
/// Pause before the head is asked again that does not answer: it may just be starting again.
const RETRY_PAUSE: Duration = Duration::from_millis(300);
/// What the mount is called in the job's table of mounts.
const SOURCE: &str = "backplane:/";
/// The log of the server in the run directory.
pub(crate) const LOG: &str = "mount.log";

/// Whether this process may mount, and the host can.
pub(crate) fn can_mount() -> Result<()> {
    detached(SOURCE, Access { others: true, checks: false }).map(drop)
}

/// The mount of a job that is about to run, or runs.
pub(super) struct JobMount {
    server: Pid,
    /// Keeps the mount until the job has attached it, and while it runs.
    mount: Option<OwnedFd>,
    status: Option<WaitStatus>,
}

impl JobMount {
    /// Mounts, and waits until the server has its session with the head.
    pub(super) fn start(dir: &RunDir) -> Result<Self> {
        let Detached { device, mount } = detached(SOURCE, Access { others: true, checks: false })?;
        let mut child = stage_command(dir.path(), Stage::Mount)
            .stdin(Stdio::from(device))
            .stdout(Stdio::piped())
            .stderr(append(dir, LOG)?)
            .current_dir("/")
            .spawn()
            .map_err(|cause| dir.failed("start the mount", &cause))?;
        let server = Pid::from_raw(child.id().cast_signed())
            .ok_or_else(|| Failure::internal("a process without an id was started"))?;
        let said = child.stdout.take().map(|output| hear(dir, output));
        match said.unwrap_or_else(|| Err(Failure::internal("the mount has no output"))) {
            Ok(()) => Ok(Self { server, mount: Some(mount), status: None }),
            Err(failure) => {
                let _ = child.kill();
                let _ = child.wait();
                Err(failure.during("mount the facility for the job"))
            }
        }
    }

    /// The number of the mount's file descriptor, by which the stage `init` finds it.
    pub(super) fn number(&self) -> Option<i32> {
        self.mount.as_ref().map(AsRawFd::as_raw_fd)
    }

    /// Whether `pid` is the server, which is no process of the job.
    pub(super) fn is(&self, pid: i32) -> bool {
        self.server.as_raw_nonzero().get() == pid
    }

    /// A child has ended.
    pub(super) fn note_end(&mut self, pid: Pid, status: WaitStatus) {
        if pid == self.server {
            self.status = Some(status);
        }
    }

    /// Ends the server: whatever waits for an answer of it fails.
    pub(super) fn kill(&self) {
        if self.status.is_none() {
            let _ = kill_process(self.server, Signal::KILL);
        }
    }

    /// Lets the mount go. Once no process of the job is left, its server ends.
    pub(super) fn release(&mut self) {
        self.mount = None;
    }

    /// How the server ended; `None`: it has not.
    pub(super) fn outcome(&self, dir: &RunDir) -> Option<Result<()>> {
        let status = self.status?;
        if status.exit_status() == Some(0) {
            return Some(Ok(()));
        }
        let what = "the mount of the job ended early or could not store all that was written through it";
        Some(Err(Failure::new(ErrorKind::Io, format!("{what}: {}", dir.tail(LOG)).trim_end().to_owned())))
    }
}

/// Waits until the server has mounted, is to be given up, or says why it cannot.
fn hear(dir: &RunDir, mut output: ChildStdout) -> Result<()> {
    let since = Instant::now();
    while !is_readable(output.as_fd()) {
        if dir.is_cancelled() || !dir.is_there() {
            return Err(Failure::unavailable("the job was cancelled"));
        }
        if since.elapsed() > START_PATIENCE {
            let what = format!("the facility did not answer in {} s", START_PATIENCE.as_secs());
            return Err(Failure::timeout(what));
        }
    }
    let mut said = String::new();
    // What is mounted goes on, and keeps its output open: it says one short line, in one piece.
    let mut piece = [0; 4096];
    while !said.ends_with('\n') && (said.len() as u64) < SAID_BYTES_MAX {
        match output.read(&mut piece).map_err(|cause| dir.failed("hear of the mount", &cause))? {
            0 => break,
            count => said.push_str(&String::from_utf8_lossy(&piece[..count])),
        }
    }
    if said.trim_end() == MOUNTED {
        return Ok(());
    }
    Err(serde_json::from_str::<Failure>(&said)
        .unwrap_or_else(|_| Failure::unavailable(format!("the mount ended early: {}", dir.tail(LOG)))))
}

fn is_readable(output: BorrowedFd<'_>) -> bool {
    let timeout = Timespec { tv_sec: 0, tv_nsec: i64::from(LOOK_EVERY.subsec_nanos()) };
    // Also when its other end was closed.
    poll(&mut [PollFd::new(&output, PollFlags::IN)], Some(&timeout)).is_ok_and(|count| count > 0)
}

/// The process that serves the mount of a job; its standard input is the device.
pub(super) fn serve(run_dir: &Path) -> Result<()> {
    // Not in the session of the shepherd: whoever ends what a dead shepherd has left is to give it time to commit.
    let _ = setsid();
    let answer = |text: &str| {
        let mut output = io::stdout().lock();
        writeln!(output, "{text}").and_then(|()| output.flush())
    };
    let mounted = match mount(run_dir) {
        Ok(mounted) => mounted,
        Err(failure) => {
            let text = serde_json::to_string(&failure).unwrap_or_default();
            answer(&text).map_err(|cause| Failure::io("tell the shepherd", &cause))?;
            return Err(failure);
        }
    };
    answer(MOUNTED).map_err(|cause| Failure::io("tell the shepherd", &cause))?;
    if mounted.wait() {
        Ok(())
    } else {
        Err(Failure::new(ErrorKind::Io, "what programs have written is not stored"))
    }
}

fn mount(run_dir: &Path) -> Result<fuse::Mounted> {
    let dir = RunDir::at(run_dir)?;
    set_dumpable_behavior(DumpableBehavior::NotDumpable)
        .map_err(|cause| dir.failed("forbid to be traced", &cause.into()))?;
    let order = dir.run_order()?.and_then(|order| order.mount);
    let order = order.ok_or_else(|| Failure::not_found("the order names no mount"))?;
    let MountOrder { facility, owner, token_file, ca_file, name, .. } = order;
    let stdin = io::stdin();
    let device = stdin.as_fd().try_clone_to_owned();
    let device = device.map_err(|cause| dir.failed("take the device", &cause))?;
    // The device is closed when this process ends or gives it up, and by nobody else.
    let nothing = std::fs::File::open("/dev/null").map_err(|cause| dir.failed("open /dev/null", &cause))?;
    rustix::stdio::dup2_stdin(&nothing).map_err(|cause| dir.failed("let the device go", &cause.into()))?;
    let tls = ControlTls { authorities: ca_file.clone(), ..ControlTls::default() };
    let token = Bearer::in_file(token_file);
    let control =
        Control::new(facility, &*owner).with_tls(tls).with_token_elsewhere(token.clone()).with_token(token);
    let tls = xrd::TlsOptions { ca_file, ..xrd::TlsOptions::default() };
    let options = xrd::Options { username: owner.clone(), tls, ..xrd::Options::default() };
    loop {
        let device = device.try_clone().map_err(|cause| dir.failed("take the device", &cause))?;
        let mounted = fuse::mount(Settings {
            control: control.clone(),
            options: options.clone(),
            user: owner.clone(),
            path: FilePath::root(),
            target: Target::Detached { device, name: name.clone() },
            is_soft: false,
            no_recall: false,
            is_read_only: false,
            is_no_exec: false,
            source: Some(SOURCE.to_owned()),
            allow_other: true,
        });
        match mounted {
            // The shepherd ends this process when that takes too long, or the job is cancelled.
            Err(failure) if matches!(failure.kind, ErrorKind::Unavailable | ErrorKind::Timeout) => {
                thread::sleep(RETRY_PAUSE);
            }
            outcome => return outcome,
        }
    }
}
