//! Process trees, read from `/proc`.

use rustix::{
    io::Errno,
    process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal},
};
use std::{collections::HashMap, fs, os::unix::ffi::OsStrExt, path::Path};

/// A process at the time we looked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) pid: i32,
    pub(crate) parent: i32,
    /// Clock ticks since boot; with the pid it names a process for good.
    pub(crate) start_ticks: u64,
    /// The leader of its session.
    session: i32,
    is_zombie: bool,
}

/// Reads `/proc/PID/stat` (proc_pid_stat(5)). The name in it may hold anything, also `)` and newlines.
fn parse_stat(text: &[u8]) -> Option<Process> {
    let open = text.iter().position(|byte| *byte == b'(')?;
    let close = text.iter().rposition(|byte| *byte == b')')?;
    let pid = std::str::from_utf8(text.get(..open)?).ok()?.trim().parse().ok()?;
    let rest = std::str::from_utf8(text.get(close + 1..)?).ok()?;
    // The first field behind the name is the third of the line.
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let field = |number: usize| fields.get(number - 3);
    Some(Process {
        pid,
        is_zombie: matches!(*field(3)?, "Z" | "X"),
        parent: field(4)?.parse().ok()?,
        session: field(6)?.parse().ok()?,
        start_ticks: field(22)?.parse().ok()?,
    })
}

/// The process `pid`, if it is there.
pub(crate) fn process(pid: i32) -> Option<Process> {
    parse_stat(&fs::read(format!("/proc/{pid}/stat")).ok()?)
}

fn all() -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(process).collect()
}

/// Living descendants of `root`, itself left out.
pub(crate) fn descendants(root: i32) -> Vec<Process> {
    let mut children: HashMap<i32, Vec<Process>> = HashMap::new();
    for process in all() {
        children.entry(process.parent).or_default().push(process);
    }
    let mut found = Vec::new();
    let mut next = vec![root];
    while let Some(pid) = next.pop() {
        // Taken out, so that no loop is possible whatever changed while we looked.
        for process in children.remove(&pid).unwrap_or_default() {
            next.push(process.pid);
            if !process.is_zombie {
                found.push(process);
            }
        }
    }
    found
}

/// Living processes that a dead shepherd left: those that were started with `scratch` as their `BP_SCRATCH` or that print to the
/// files in `control`, with all that share a session with them or descend from them.
///
/// A process can clear its environment, leave its session and close its files; few do all of it. A control group finds those, too.
pub(crate) fn of_run(control: &Path, scratch: &Path) -> Vec<Process> {
    let marker = format!("BP_SCRATCH={}", scratch.display()).into_bytes();
    let has_marker = |pid: i32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|entry| entry == marker)
    };
    // Those that the room and the shepherd give; an operator who looks at a run has others.
    let streams = ["stages.jsonl", "stdout", "stderr", "shepherd.log"].map(|name| control.join(name));
    let leads_there = |pid: i32| {
        let mut targets = (0..3).filter_map(|fd| fs::read_link(format!("/proc/{pid}/fd/{fd}")).ok());
        targets.any(|target| {
            let text = target.as_os_str().as_bytes();
            let target = text.strip_suffix(b" (deleted)").unwrap_or(text);
            streams.iter().any(|stream| stream.as_os_str().as_bytes() == target)
        })
    };
    let me = std::process::id().cast_signed();
    let everybody = all();
    let own_session = everybody.iter().find(|process| process.pid == me).map_or(0, |process| process.session);
    let mut found: Vec<Process> = Vec::new();
    let mut rest = everybody;
    rest.retain(|process| process.pid != me && process.pid != 1);
    let is_known = |process: &Process| has_marker(process.pid) || leads_there(process.pid);
    found.extend(rest.extract_if(.., |process| is_known(process)));
    loop {
        let related = |process: &mut Process| {
            found.iter().any(|known| {
                known.pid == process.parent
                    || (known.session == process.session && known.session > 1 && known.session != own_session)
            })
        };
        let more: Vec<_> = rest.extract_if(.., related).collect();
        if more.is_empty() {
            break;
        }
        found.extend(more);
    }
    found.retain(|process| !process.is_zombie);
    found
}

/// Living processes whose standard error is `file`.
pub(crate) fn printing_to(file: &Path) -> Vec<Process> {
    let is_there = |pid: i32| fs::read_link(format!("/proc/{pid}/fd/2")).is_ok_and(|target| target == file);
    all().into_iter().filter(|process| !process.is_zombie && is_there(process.pid)).collect()
}

/// Whether a process has not ended.
pub(crate) fn is_living(process: &Process) -> bool {
    !process.is_zombie
}

/// Processes of a user, with that uid in whatever role; also those that have ended and nobody has waited for.
pub(crate) fn of_user(uid: u32) -> Vec<Process> {
    let wanted = uid.to_string();
    let is_its = |process: &Process| {
        let status = fs::read_to_string(format!("/proc/{}/status", process.pid)).unwrap_or_default();
        let uids = status.lines().find_map(|line| line.strip_prefix("Uid:"));
        uids.is_some_and(|uids| uids.split_ascii_whitespace().any(|uid| uid == wanted))
    };
    let mut found = all();
    found.retain(is_its);
    found
}

/// Sends `signal` to exactly this process, never to a later one of the same id.
pub(crate) fn send(process: Process, signal: Signal) -> Result<(), Errno> {
    let pid = Pid::from_raw(process.pid).ok_or(Errno::SRCH)?;
    let handle = pidfd_open(pid, PidfdFlags::empty())?;
    // The handle holds the id: if the start time is right now, it stays right.
    match self::process(process.pid) {
        Some(now) if now.start_ticks == process.start_ticks => pidfd_send_signal(&handle, signal),
        _ => Err(Errno::SRCH),
    }
}

/// Fuzz body: whatever the kernel shows us, it is read or refused.
pub fn fuzz_stat(data: &[u8]) {
    let _ = parse_stat(data);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LINE: &str = "42 (a) b) (c) S 7 42 42 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 987654 0 0";

    #[test]
    fn a_name_with_parentheses_confuses_nobody() {
        let process = parse_stat(LINE.as_bytes()).unwrap();
        assert_eq!((process.pid, process.parent, process.start_ticks), (42, 7, 987_654));
        assert!(!process.is_zombie);
    }

    #[test]
    fn we_are_there() {
        let me = process(std::process::id() as i32).unwrap();
        assert!(me.start_ticks > 0);
        assert!(descendants(1).iter().any(|process| process.pid == me.pid) || me.pid == 1);
    }

    proptest! {
        #[test]
        fn damaged_lines_never_panic(at in 0usize..100, byte: u8, cut in 0usize..100) {
            let mut line = LINE.as_bytes().to_vec();
            let at = at % line.len();
            line[at] = byte;
            line.truncate(line.len().min(cut));
            fuzz_stat(&line);
        }

        #[test]
        fn noise_never_panics(data in prop::collection::vec(any::<u8>(), 0..200)) {
            fuzz_stat(&data);
            crate::run_dir::fuzz_names(&data);
        }
    }
}
