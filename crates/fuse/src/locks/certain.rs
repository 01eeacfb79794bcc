//! Whether a process that waits for a lock can do nothing else meanwhile.
//!
//! Only then a cycle of waits is a deadlock. Another thread could give back what the others wait for. So could whoever
//! shares the open file whose lock it is, if that is the owner (`F_OFD_SETLKW`). The kernel tells which call a thread is
//! in. What it does not tell is not certain, and then no deadlock is found.

use std::{
    fs,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

/// The number of `fcntl`, by architecture.
#[cfg(target_arch = "x86_64")]
const FCNTL: &str = "72";
#[cfg(target_arch = "aarch64")]
const FCNTL: &str = "25";
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const FCNTL: &str = "unknown";
/// `F_SETLKW`; that of open files has another number.
const SETLKW: &str = "0x7";
/// A thread has asked, and is about to fall asleep: how often it is looked at, and with which pause.
const LOOKS_MAX: u32 = 50;
const PAUSE: Duration = Duration::from_millis(1);

/// Whether a thread is the only one of its process, and waits for a lock of that process.
pub(super) fn waits_alone(thread: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{thread}/status"));
    if thread == 0 || !status.is_ok_and(|status| is_alone(&status)) {
        tracing::info!(thread, "a program with several threads waits for a lock: no deadlock is claimed");
        return false;
    }
    for _ in 0..LOOKS_MAX {
        match fs::read_to_string(format!("/proc/{thread}/syscall")) {
            Ok(call) if call.trim() == "running" => thread::sleep(PAUSE),
            Ok(call) => return is_wait(&call),
            Err(cause) => {
                warn_once(thread, &cause);
                return false;
            }
        }
    }
    tracing::info!(thread, "a thread that asked for a lock is still running: no deadlock is claimed");
    false
}

/// Says that no deadlock will be found: some kernels show calls of threads only to who may trace them (`CAP_SYS_PTRACE`).
fn warn_once(thread: u32, cause: &std::io::Error) {
    static IS_SAID: AtomicBool = AtomicBool::new(false);
    if cause.kind() == std::io::ErrorKind::NotFound || IS_SAID.swap(true, Ordering::Relaxed) {
        return;
    }
    tracing::warn!(
        "/proc/{thread}/syscall cannot be read: {cause}; deadlocks of fcntl locks are not found, their programs wait; \
         give this process CAP_SYS_PTRACE"
    );
}

fn is_alone(status: &str) -> bool {
    status.lines().any(|line| line.split_ascii_whitespace().eq(["Threads:", "1"]))
}

/// Number of the call, then its arguments: a descriptor, what to do with it.
fn is_wait(call: &str) -> bool {
    let mut words = call.split_ascii_whitespace();
    let is_wait = words.next() == Some(FCNTL) && words.nth(1) == Some(SETLKW);
    if !is_wait {
        tracing::info!(%call, "a thread waits for a lock of an open file: no deadlock is claimed");
    }
    is_wait
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_thread_in_a_wait_for_a_lock_of_its_process_is_certain() {
        assert!(is_alone("Name:\tx\nThreads:\t1\n") && !is_alone("Threads:\t12\n") && !is_alone(""));
        let call =
            |number: &str, what: &str| is_wait(&format!("{number} 0x3 {what} 0x7ffd 0x0 0x0 0x0 0x1 0x2\n"));
        assert!(call(FCNTL, "0x7") && !call(FCNTL, "0x26") && !call("1", "0x7") && !is_wait("-1 0x7ffd 0x1"));
        assert!(!waits_alone(0) && !waits_alone(std::process::id()));
    }
}
