//! Control groups, where the host gives us one: a limit of memory for the whole tree, and an end that none escapes.
//!
//! We make groups only below a directory that we were given. Under systemd that is the group of the service with
//! `Delegate=memory` and `DelegateSubgroup=daemon`; [`find`] knows that place.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// A group of one run.
#[derive(Debug)]
pub(crate) struct Cgroup {
    path: PathBuf,
    holds_memory: bool,
    holds_processes: bool,
    /// What the kernel had killed in a group that was there before.
    killed_before: u64,
}

/// What a parent directory is good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Version 2; controllers may be missing, as on hybrid hosts.
    Unified {
        has_memory: bool,
        has_processes: bool,
    },
    /// The memory hierarchy of version 1.
    OldMemory,
    Nothing,
}

fn kind(parent: &Path) -> Kind {
    let read = |name: &str| fs::read_to_string(parent.join(name));
    if let Ok(controllers) = read("cgroup.subtree_control") {
        let has = |wanted: &str| controllers.split_ascii_whitespace().any(|name| name == wanted);
        return Kind::Unified { has_memory: has("memory"), has_processes: has("pids") };
    }
    if parent.join("memory.limit_in_bytes").exists() {
        return Kind::OldMemory;
    }
    Kind::Nothing
}

impl Cgroup {
    /// Makes the group `name` below `parent`, for so many bytes of memory (0: no limit) and so many processes. `Err` means that
    /// the host does not allow it.
    pub(crate) fn make(parent: &Path, name: &str, (memory_bytes, processes): (u64, u64)) -> io::Result<Self> {
        let kind = kind(parent);
        if kind == Kind::Nothing {
            return Err(io::Error::from(io::ErrorKind::Unsupported));
        }
        let path = parent.join(name);
        match fs::create_dir(&path) {
            Err(cause) if cause.kind() != io::ErrorKind::AlreadyExists => return Err(cause),
            _ => {}
        }
        let limit =
            |file: &str| memory_bytes == 0 || fs::write(path.join(file), memory_bytes.to_string()).is_ok();
        let holds_memory = match kind {
            Kind::Unified { has_memory, .. } => {
                // Swapping instead of ending would only make everybody slow. Not every kernel accounts swap.
                let _ = fs::write(path.join("memory.swap.max"), "0");
                // One process of the job over the limit ends the job, not a random part of it.
                let _ = fs::write(path.join("memory.oom.group"), "1");
                has_memory && limit("memory.max")
            }
            Kind::OldMemory => limit("memory.limit_in_bytes"),
            Kind::Nothing => false,
        };
        let has_processes = matches!(kind, Kind::Unified { has_processes: true, .. });
        let holds_processes =
            has_processes && fs::write(path.join("pids.max"), processes.to_string()).is_ok();
        let killed_before = kills(&path);
        Ok(Self { path, holds_memory, holds_processes, killed_before })
    }

    /// Whether the memory limit holds for the whole tree.
    pub(crate) fn holds_memory(&self) -> bool {
        self.holds_memory
    }

    /// Whether the limit of processes holds for the whole tree.
    pub(crate) fn holds_processes(&self) -> bool {
        self.holds_processes
    }

    /// Ends all processes at once, where the kernel can.
    pub(crate) fn kill(&self) {
        let _ = fs::write(self.path.join("cgroup.kill"), "1");
    }

    /// Processes in it; without a `cgroup.kill` they are ended one by one.
    pub(crate) fn processes(&self) -> Vec<i32> {
        let text = fs::read_to_string(self.path.join("cgroup.procs")).unwrap_or_default();
        // Those of other namespaces are shown as 0.
        text.lines().filter_map(|line| line.trim().parse().ok()).filter(|pid| *pid > 0).collect()
    }

    /// How many of its processes the kernel has killed for memory.
    pub(crate) fn killed_for_memory(&self) -> u64 {
        kills(&self.path).saturating_sub(self.killed_before)
    }
}

/// How many processes of a group the kernel has killed for memory, ever.
fn kills(path: &Path) -> u64 {
    // `memory.events` is of version 2; `memory.oom_control` of version 1 has the same line since Linux 4.13.
    let texts = ["memory.events", "memory.oom_control"].map(|name| fs::read_to_string(path.join(name)));
    let lines = texts.iter().flatten().flat_map(|text| text.lines());
    let counts = lines.filter_map(|line| line.strip_prefix("oom_kill "));
    counts.filter_map(|count| count.trim().parse::<u64>().ok()).sum()
}

/// Moves this process into the group `name` below `parent`, if there is one.
pub(crate) fn join(parent: &Path, name: &str) -> io::Result<()> {
    let procs = parent.join(name).join("cgroup.procs");
    if procs.exists() { fs::write(procs, "0") } else { Ok(()) }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // Fails only while a process that cannot be ended is in it.
        let _ = fs::remove_dir(&self.path);
    }
}

/// Finds a directory where this process may make groups that limit memory; `None` if there is none.
#[must_use]
pub fn find() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    candidates(&mounts, &groups).into_iter().find(|path| {
        let can_make = rustix::fs::access(path, rustix::fs::Access::WRITE_OK).is_ok();
        can_make && matches!(kind(path), Kind::Unified { has_memory: true, .. } | Kind::OldMemory)
    })
}

/// Directories to look at, best first: version 2 (ours, and what was delegated with us in a subgroup), then version 1.
fn candidates(mounts: &str, groups: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    if let (Some(root), Some(group)) = (mount_of(mounts, "cgroup2", ""), group_of(groups, "")) {
        let ours = below(&root, group);
        if let Some(service) = ours.parent().filter(|_| group.ends_with("/daemon")) {
            found.push(service.to_owned());
        }
        found.push(ours);
    }
    if let (Some(root), Some(group)) = (mount_of(mounts, "cgroup", "memory"), group_of(groups, "memory")) {
        found.push(below(&root, group));
    }
    found
}

fn below(root: &Path, group: &str) -> PathBuf {
    root.join(group.trim_start_matches('/'))
}

/// Mount point of a file system of `kind` with `controller` among its options (proc_pid_mountinfo(5)).
fn mount_of(mounts: &str, kind: &str, controller: &str) -> Option<PathBuf> {
    mounts.lines().find_map(|line| {
        let (mount, system) = line.split_once(" - ")?;
        let mut system = system.split(' ');
        let is_kind = system.next()? == kind;
        let options = system.nth(1)?;
        let has_controller = controller.is_empty() || options.split(',').any(|option| option == controller);
        (is_kind && has_controller).then(|| mount.split(' ').nth(4).map(PathBuf::from))?
    })
}

/// Our group in the hierarchy of `controller`, empty for version 2 (cgroups(7)).
fn group_of<'a>(groups: &'a str, controller: &str) -> Option<&'a str> {
    groups.lines().find_map(|line| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, group) = rest.split_once(':')?;
        controllers.split(',').any(|name| name == controller).then_some(group)
    })
}

/// Limits that a worker with `parent` for its groups cannot hold, in words.
#[must_use]
pub fn not_enforced(parent: Option<&Path>) -> Vec<String> {
    let mut found = vec!["cpus: a job may use more processors than it asked for".to_owned()];
    let holds = parent.is_some_and(|parent| {
        matches!(kind(parent), Kind::Unified { has_memory: true, .. } | Kind::OldMemory)
    });
    if !holds {
        found.push(NO_MEMORY.to_owned());
    }
    found
}

/// Whether a worker with `parent` for its groups can hold the number of processes of a job.
pub(crate) fn can_hold_processes(parent: Option<&Path>) -> bool {
    parent.is_some_and(|parent| matches!(kind(parent), Kind::Unified { has_processes: true, .. }))
}

/// Said where no group limits memory.
pub(crate) const NO_MEMORY: &str =
    "memory of the whole job: there is no memory cgroup, each process alone is held to the limit";

/// Fuzz body: odd tables give odd directories, never a panic.
pub fn fuzz_tables(data: &[u8]) {
    let (mounts, groups) = data.split_at(data.len() / 2);
    let _ = candidates(&String::from_utf8_lossy(mounts), &String::from_utf8_lossy(groups));
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HYBRID: &str = "30 25 0:26 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory\n\
        31 25 0:27 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";

    #[test]
    fn the_delegated_group_comes_first_and_the_old_memory_hierarchy_last() {
        let groups = "4:memory:/jobs\n3:cpu,cpuacct:/\n0::/system.slice/bpd.service/daemon\n";
        let expected = [
            "/sys/fs/cgroup/unified/system.slice/bpd.service",
            "/sys/fs/cgroup/unified/system.slice/bpd.service/daemon",
            "/sys/fs/cgroup/memory/jobs",
        ];
        assert_eq!(candidates(HYBRID, groups), expected.map(PathBuf::from));
        assert!(candidates("", groups).is_empty());
    }

    #[test]
    fn a_group_holds_memory_where_the_controller_is() {
        let root = tempfile::tempdir().unwrap();
        assert!(Cgroup::make(root.path(), "7.1", (1 << 20, 9)).is_err());
        fs::write(root.path().join("cgroup.subtree_control"), "cpu\n").unwrap();
        assert!(!Cgroup::make(root.path(), "7.1", (1 << 20, 9)).unwrap().holds_memory());
        assert_eq!(not_enforced(Some(root.path())).len(), 2);
        fs::write(root.path().join("cgroup.subtree_control"), "cpu memory\n").unwrap();
        let group = Cgroup::make(root.path(), "7.2", (1 << 20, 9)).unwrap();
        assert!(group.holds_memory());
        assert_eq!(fs::read_to_string(root.path().join("7.2/memory.max")).unwrap(), "1048576");
        assert!(!group.holds_processes());
        assert_eq!(not_enforced(Some(root.path())).len(), 1);
        fs::write(root.path().join("cgroup.subtree_control"), "memory pids\n").unwrap();
        assert!(Cgroup::make(root.path(), "7.3", (0, 9)).unwrap().holds_processes());
        assert_eq!(fs::read_to_string(root.path().join("7.3/pids.max")).unwrap(), "9");
        assert!(can_hold_processes(Some(root.path())));
        assert_eq!(group.killed_for_memory(), 0);
        fs::write(root.path().join("7.2/memory.events"), "low 0\noom 1\noom_kill 2\noom_group_kill 0\n")
            .unwrap();
        assert_eq!(group.killed_for_memory(), 2);
        let again = Cgroup::make(root.path(), "7.2", (1 << 20, 9)).unwrap();
        assert_eq!(again.killed_for_memory(), 0, "what was killed before is not of this run");
        fs::write(root.path().join("7.2/cgroup.procs"), "0\n12\n13\n").unwrap();
        assert_eq!(group.processes(), [12, 13]);
    }

    proptest! {
        #[test]
        fn damaged_tables_never_panic(at in 0usize..200, byte in 0u8..128, data in prop::collection::vec(any::<u8>(), 0..100)) {
            fuzz_tables(&data);
            let mut text = format!("{HYBRID}0::/a\n4:memory:/b\n").into_bytes();
            let at = at % text.len();
            text[at] = byte;
            fuzz_tables(&text);
        }
    }
}
