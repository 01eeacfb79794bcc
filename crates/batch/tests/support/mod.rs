//! What the tests of this crate share.

#![allow(dead_code, reason = "each test program uses its part")]

pub(crate) mod door;
pub(crate) mod head;

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

/// Sends a signal to one process.
pub(crate) fn send(pid: i32, signal: &str) {
    let sent = Command::new("kill").args([&format!("-{signal}"), &pid.to_string()]).status();
    assert!(sent.is_ok_and(|status| status.success()));
}
