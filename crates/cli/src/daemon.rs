//! Starting and stopping `bpd`.

use base::{Failure, Result, Timestamp};
use client::{Control, facility::read_endpoints};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::FlockOperation,
    io::Errno,
    process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal},
};
use std::{
    ffi::OsString,
    fs,
    io::{Read, Seek, SeekFrom},
    os::{
        fd::OwnedFd,
        unix::{ffi::OsStringExt, process::CommandExt},
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant, SystemTime},
};
use wire::control::{Endpoints, GetStatus};

/// How long a facility may take to start: its store is checked, its library is scanned.
pub(crate) const START_DEADLINE: Duration = Duration::from_secs(60);
/// How long a facility may take to stop: drives flush what they write.
pub(crate) const STOP_DEADLINE: Duration = Duration::from_secs(120);
/// How often a starting daemon is asked whether it is there.
const START_POLL: Duration = Duration::from_millis(50);
/// Bytes of the log shown when it dies early.
const LOG_TAIL_BYTES: u64 = 16 << 10;
/// Lines of the log shown when it dies early.
const LOG_TAIL_LINES: usize = 15;

/// The daemon's program: beside this one, else wherever the search path has it.
pub(crate) fn program() -> PathBuf {
    let beside = std::env::current_exe().ok().map(|own| own.with_file_name("bpd"));
    beside.filter(|path| path.is_file()).unwrap_or_else(|| PathBuf::from("bpd"))
}

fn start_failure(program: &Path, cause: &std::io::Error) -> Failure {
    Failure::io(format!("start {}", program.display()), cause)
        .hint("install bpd beside bp, or add it to PATH")
}

/// Becomes the daemon; returns only if that fails.
pub(crate) fn become_daemon(arguments: &[OsString]) -> Failure {
    let program = program();
    start_failure(&program, &Command::new(&program).args(arguments).exec())
}

/// Runs the daemon's program to its end.
pub(crate) fn run(arguments: &[OsString]) -> Result<()> {
    let program = program();
    let status =
        Command::new(&program).args(arguments).status().map_err(|cause| start_failure(&program, &cause))?;
    if status.success() {
        return Ok(());
    }
    Err(Failure::unavailable(format!("{} {} ended with {status}", program.display(), arguments[0].display())))
}

/// Leaves the session of the terminal, so that closing it does not end the daemon.
pub(crate) fn leave_session() -> Result<()> {
    rustix::process::setsid()
        .map(|_| ())
        .map_err(|cause| Failure::io("start a new session", &std::io::Error::from(cause)))
}

/// Starts the daemon in the background and waits until it answers.
///
/// The child is this program with `--in-session`. It starts the new session itself and then becomes the daemon, so its
/// process id does not change.
pub(crate) fn detach(directory: &Path, arguments: &[OsString]) -> Result<Endpoints> {
    let failed = |what: &str| {
        let what = what.to_owned();
        move |cause: std::io::Error| Failure::io(what, &cause)
    };
    let logs = directory.join("log");
    fs::create_dir_all(&logs).map_err(failed(&format!("make {}", logs.display())))?;
    let log_path = logs.join("bpd.log");
    let log = fs::OpenOptions::new().create(true).append(true).open(&log_path);
    let log = log.map_err(failed(&format!("open {}", log_path.display())))?;
    let log_start = log.metadata().map_err(failed("size of the log"))?.len();
    let own = std::env::current_exe().map_err(failed("find bp itself"))?;
    let child = Command::new(own)
        .arg("up")
        .arg("--in-session")
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(log.try_clone().map_err(failed("open the log"))?)
        .stderr(log)
        .spawn()
        .map_err(failed("start bp in the background"))?;
    await_answer(directory, child, &log_path, log_start)
}

fn await_answer(directory: &Path, mut child: Child, log: &Path, log_start: u64) -> Result<Endpoints> {
    let deadline = Instant::now() + START_DEADLINE;
    loop {
        let died = child.try_wait().map_err(|cause| Failure::io("watch bpd", &cause))?;
        if let Some(status) = died {
            let tail = log_tail(log, log_start);
            let tail = if tail.is_empty() { String::new() } else { format!(":\n{tail}") };
            return Err(Failure::unavailable(format!("bpd ended early with {status}{tail}"))
                .hint(format!("the whole log is {}", log.display())));
        }
        if let Some(endpoints) = answer_of(directory, child.id()) {
            return Ok(endpoints);
        }
        if Instant::now() >= deadline {
            return Err(Failure::timeout(format!(
                "bpd does not answer after {} s",
                START_DEADLINE.as_secs()
            ))
            .hint(format!(
                "read the log {}; `bp down {}` stops it",
                log.display(),
                directory.display()
            )));
        }
        thread::sleep(START_POLL);
    }
}

/// The endpoints, if process `pid` wrote them and its door answers: that at its Unix socket, which a host that joined does not have.
fn answer_of(directory: &Path, pid: u32) -> Option<Endpoints> {
    let endpoints = read_endpoints(directory).ok().filter(|endpoints| endpoints.pid == pid)?;
    let is_member = endpoints.http.starts_with("https:");
    let control =
        if is_member { Control::new(&endpoints.http, "bp") } else { Control::at_socket(directory, "bp") };
    control.call(&GetStatus {}).ok()?;
    Some(endpoints)
}

/// The last lines that were written to the log after `start`.
fn log_tail(log: &Path, start: u64) -> String {
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = fs::File::open(log)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(start.max(length.saturating_sub(LOG_TAIL_BYTES))))?;
        let mut text = Vec::new();
        file.take(LOG_TAIL_BYTES).read_to_end(&mut text)?;
        Ok(text)
    };
    let text = read().unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LOG_TAIL_LINES)..].join("\n")
}

/// How stopping ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stopped {
    /// It was running and is gone.
    Now,
    /// It was not running.
    Before,
}

/// Asks the daemon of `directory` to end, and waits until it has.
pub(crate) fn stop(directory: &Path) -> Result<Stopped> {
    let directory = directory
        .canonicalize()
        .map_err(|cause| Failure::io(format!("facility {}", directory.display()), &cause))?;
    if !is_locked(&directory)? {
        return Ok(Stopped::Before);
    }
    let endpoints = read_endpoints(&directory)?;
    let process = open_process(endpoints.pid, &directory)?;
    match pidfd_send_signal(&process, Signal::TERM) {
        // It ended by itself in between.
        Ok(()) | Err(Errno::SRCH) => {}
        Err(cause) => {
            let context = format!("end process {}", endpoints.pid);
            return Err(Failure::io(context, &std::io::Error::from(cause)));
        }
    }
    await_end(&process, endpoints.pid, &directory)?;
    Ok(Stopped::Now)
}

/// Whether a daemon serves the directory: it holds a lock as long as it lives.
fn is_locked(directory: &Path) -> Result<bool> {
    let path = directory.join("lock");
    let lock = match fs::File::open(&path) {
        Ok(lock) => lock,
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => return Ok(false),
        Err(cause) => return Err(Failure::io(format!("open {}", path.display()), &cause)),
    };
    match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockShared) {
        Ok(()) => Ok(false),
        Err(Errno::WOULDBLOCK) => Ok(true),
        Err(cause) => Err(Failure::io(format!("lock {}", path.display()), &std::io::Error::from(cause))),
    }
}

/// A handle on process `pid`, which is a `bpd` that serves `directory`.
///
/// The handle comes first: it keeps meaning this process even if the number is given to another one.
fn open_process(pid: u32, directory: &Path) -> Result<OwnedFd> {
    let refuse = |why: &str| {
        Failure::busy(format!("facility {} is locked, but process {pid} {why}", directory.display()))
            .hint(format!("see who holds {}/lock, for example with `fuser`", directory.display()))
    };
    let raw = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or_else(|| refuse("cannot be one"))?;
    let process = pidfd_open(raw, PidfdFlags::empty()).map_err(|_| refuse("is not there"))?;
    if serves(Path::new(&format!("/proc/{pid}")), directory) {
        Ok(process)
    } else {
        Err(refuse("is not its bpd"))
    }
}

/// Whether the process under `proc` is a `bpd` with `directory` among its arguments.
fn serves(proc: &Path, directory: &Path) -> bool {
    let Ok(line) = fs::read(proc.join("cmdline")) else {
        return false;
    };
    let mut arguments =
        line.split(|byte| *byte == 0).map(|one| PathBuf::from(OsString::from_vec(one.to_vec())));
    let is_bpd =
        arguments.next().is_some_and(|program| program.file_name().is_some_and(|name| name == "bpd"));
    let home = fs::read_link(proc.join("cwd")).unwrap_or_default();
    let mut is_directory = |argument: PathBuf| {
        let value = argument.as_os_str().to_string_lossy();
        let value = value
            .split_once('=')
            .filter(|(name, _)| name.starts_with("--"))
            .map(|(_, value)| value.to_owned());
        let argument = value.map_or(argument, PathBuf::from);
        !argument.as_os_str().is_empty()
            && home.join(argument).canonicalize().is_ok_and(|found| found == directory)
    };
    is_bpd && arguments.any(&mut is_directory)
}

fn await_end(process: &OwnedFd, pid: u32, directory: &Path) -> Result<()> {
    let deadline = Instant::now() + STOP_DEADLINE;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
        match poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&timeout)) {
            Ok(1..) => return Ok(()),
            Ok(0) => break,
            Err(Errno::INTR) => {}
            Err(cause) => {
                return Err(Failure::io(format!("watch process {pid}"), &std::io::Error::from(cause)));
            }
        }
    }
    Err(Failure::timeout(format!("process {pid} is still there after {} s", STOP_DEADLINE.as_secs())).hint(
        format!(
            "it may be flushing a tape: see {}/log/bpd.log (now {})",
            directory.display(),
            crate::words::exact_time(Timestamp::from_system(SystemTime::now()))
        ),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_bpd_of_this_directory_is_ours() {
        let scratch = tempfile::tempdir().unwrap();
        fs::create_dir(scratch.path().join("facility")).unwrap();
        let directory = scratch.path().join("facility").canonicalize().unwrap();
        let proc = scratch.path().join("proc");
        fs::create_dir(&proc).unwrap();
        std::os::unix::fs::symlink(scratch.path(), proc.join("cwd")).unwrap();
        let line = |words: &[&str]| fs::write(proc.join("cmdline"), words.join("\0") + "\0").unwrap();
        for (words, expected) in [
            (vec!["/usr/bin/bpd", "run", "facility"], true),
            (vec!["bpd", "run", "--directory=facility"], true),
            (vec!["bpd", "run", directory.to_str().unwrap()], true),
            (vec!["bpd", "run", "other"], false),
            (vec!["vim", "facility"], false),
            (vec!["bpd"], false),
        ] {
            line(&words);
            assert_eq!(serves(&proc, &directory), expected, "{words:?}");
        }
    }

    #[test]
    fn the_tail_begins_after_the_start() {
        let scratch = tempfile::tempdir().unwrap();
        let log = scratch.path().join("log");
        let lines: String = (0..40).map(|n| format!("line {n}\n")).collect();
        fs::write(&log, format!("old\n{lines}")).unwrap();
        assert_eq!(log_tail(&log, 4).lines().count(), LOG_TAIL_LINES);
        assert!(log_tail(&log, 4).ends_with("line 39"));
        assert_eq!(log_tail(&log, 4 + lines.len() as u64), "");
        assert_eq!(log_tail(&scratch.path().join("none"), 0), "");
    }

    #[test]
    fn a_directory_without_a_lock_is_not_running() {
        let scratch = tempfile::tempdir().unwrap();
        assert_eq!(stop(scratch.path()).unwrap(), Stopped::Before);
        fs::write(scratch.path().join("lock"), "").unwrap();
        assert_eq!(stop(scratch.path()).unwrap(), Stopped::Before);
        assert!(stop(&scratch.path().join("none")).is_err());
    }

    #[test]
    fn a_lock_of_somebody_else_is_respected() {
        let scratch = tempfile::tempdir().unwrap();
        let lock = fs::File::create(scratch.path().join("lock")).unwrap();
        rustix::fs::flock(&lock, FlockOperation::LockExclusive).unwrap();
        let endpoints = Endpoints {
            root: String::new(),
            http: String::new(),
            roots: None,
            https: None,
            is_token_required: false,
            pid: std::process::id(),
            facility: String::new(),
        };
        fs::write(scratch.path().join("endpoints.json"), serde_json::to_vec(&endpoints).unwrap()).unwrap();
        let failure = stop(scratch.path()).unwrap_err();
        assert!(failure.what.contains("is not its bpd"), "{failure}");
    }
}
