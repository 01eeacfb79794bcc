//! What the tests of this crate share.

#![allow(dead_code, reason = "each test program uses its part")]

pub(crate) mod door;
pub(crate) mod head;
pub(crate) mod run;

use batch::{identity::UserPolicy, sandbox::Namespaces};
use std::{
    process::Command,
    thread,
    time::{Duration, Instant},
};

/// The program that is a shepherd.
pub(crate) const SHEPHERD: &str = env!("CARGO_BIN_EXE_shepherd-for-tests");

/// Nothing here takes that long; a test that waits longer has failed.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

/// Waits for an event.
#[track_caller]
pub(crate) fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let since = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(since.elapsed() < DEADLINE, "{what} never came");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Whether a process runs; a zombie does not.
pub(crate) fn is_alive(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit(") ").next().and_then(|rest| rest.chars().next());
    !matches!(state, None | Some('Z' | 'X'))
}

/// The process that is called `inner` in the PID namespace of a job, as this test sees it.
pub(crate) fn outside(shepherd: i32, inner: i32) -> i32 {
    let status = |pid: i32, field: &str| -> Vec<i32> {
        let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix(field)).unwrap_or_default();
        line.split_ascii_whitespace().filter_map(|number| number.parse().ok()).collect()
    };
    let is_below = |pid: i32| {
        let parents = std::iter::successors(Some(pid), |pid| status(*pid, "PPid:").first().copied());
        parents.take(100).any(|parent| parent == shepherd)
    };
    until("the process", || {
        let pids = std::fs::read_dir("/proc")
            .ok()?
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        pids.into_iter().find(|pid| status(*pid, "NSpid:").last() == Some(&inner) && is_below(*pid))
    })
}

/// What the kernel lets this user leave.
pub(crate) fn namespaces() -> Namespaces {
    Namespaces::all(rustix::process::geteuid().is_root())
}

/// A policy for a worker beside the head: the facility's owner is who runs the test.
pub(crate) fn policy() -> UserPolicy {
    UserPolicy { is_beside_head: true, uid_min: 1000, slot_uids: None, others_as_me: false }
}

/// Sends a signal to one process.
pub(crate) fn send(pid: i32, signal: &str) {
    let sent = Command::new("kill").args([&format!("-{signal}"), &pid.to_string()]).status();
    assert!(sent.is_ok_and(|status| status.success()));
}
