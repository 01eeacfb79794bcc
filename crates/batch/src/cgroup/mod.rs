//! Control groups, where the host gives us one: limits for the whole tree of a job, and an end that none escapes.
//!
//! We make groups only below a directory that we were given. Under systemd that is the group of the service with
//! `Delegate=yes` and `DelegateSubgroup=daemon`; [`find`] knows it. Version 1 has a hierarchy for each controller: a run then
//! has a group of the same name in each of them.

mod find;

pub use find::{find, find_v1, fuzz_tables};
use serde::{Deserialize, Serialize};
use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// Microseconds in which a job may use its processor time: the kernel's own default.
const CPU_PERIOD_US: u64 = 100_000;

/// Where groups of version 1 may be made beside the one that limits memory.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct V1Parents {
    /// Processor time.
    pub cpu: Option<PathBuf>,
    /// Which processors.
    pub cpuset: Option<PathBuf>,
    /// The number of processes.
    pub pids: Option<PathBuf>,
}

/// Where the groups of runs are made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Parents<'a> {
    /// A group of version 2, or one of the memory hierarchy of version 1.
    pub(crate) main: Option<&'a Path>,
    pub(crate) v1: &'a V1Parents,
}

impl Parents<'_> {
    fn all(&self) -> impl Iterator<Item = &Path> {
        let v1 = [&self.v1.cpu, &self.v1.cpuset, &self.v1.pids];
        self.main.into_iter().chain(v1.into_iter().filter_map(|parent| parent.as_deref()))
    }

    /// Which limits groups that are made here can enforce.
    pub(crate) fn can_enforce(&self) -> Enforced {
        let (mut enforced, v1) = (Enforced::default(), self.v1);
        match self.main.map_or(Kind::Nothing, kind) {
            Kind::Unified { has_memory, has_processes, has_cpu, has_cpuset } => {
                enforced =
                    Enforced { memory: has_memory, processes: has_processes, cpus: has_cpu || has_cpuset };
            }
            Kind::OldMemory => enforced.memory = true,
            Kind::Nothing => {}
        }
        enforced.processes |= v1.pids.is_some();
        enforced.cpus |= v1.cpu.is_some() || v1.cpuset.is_some();
        enforced
    }
}

/// What the group of a run is to hold it to.
#[derive(Debug, Clone, Default)]
pub(crate) struct GroupLimits<'a> {
    /// Bytes; 0: no limit.
    pub(crate) memory_bytes: u64,
    /// Processes and threads; 0: no limit.
    pub(crate) processes: u64,
    /// Processors by number; none: no limit.
    pub(crate) processors: &'a [u32],
}

/// Which limits hold for the whole tree of a job.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Enforced {
    pub(crate) memory: bool,
    pub(crate) processes: bool,
    pub(crate) cpus: bool,
}

/// The groups of one run, one in each hierarchy.
#[derive(Debug)]
pub(crate) struct Cgroup {
    paths: Vec<PathBuf>,
    enforced: Enforced,
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
        has_cpu: bool,
        has_cpuset: bool,
    },
    /// The memory hierarchy of version 1.
    OldMemory,
    Nothing,
}

fn kind(parent: &Path) -> Kind {
    let read = |name: &str| fs::read_to_string(parent.join(name));
    if let Ok(controllers) = read("cgroup.subtree_control") {
        let has = |wanted: &str| controllers.split_ascii_whitespace().any(|name| name == wanted);
        return Kind::Unified {
            has_memory: has("memory"),
            has_processes: has("pids"),
            has_cpu: has("cpu"),
            has_cpuset: has("cpuset"),
        };
    }
    if parent.join("memory.limit_in_bytes").exists() {
        return Kind::OldMemory;
    }
    Kind::Nothing
}

impl Cgroup {
    /// Makes the group `name` below each parent. `None`: the host does not allow any.
    pub(crate) fn make(parents: Parents<'_>, name: &str, limits: &GroupLimits<'_>) -> Option<Self> {
        let mut group = Self { paths: Vec::new(), enforced: Enforced::default(), killed_before: 0 };
        if let Some(parent) = parents.main {
            group.add(parent, name, |path| Ok(limit_main(path, kind(parent), limits)));
        }
        let v1 = parents.v1;
        if let Some(parent) = &v1.pids {
            group.add(parent, name, |path| {
                let processes = limit_processes(path, limits)?;
                Ok(Enforced { processes, ..Enforced::default() })
            });
        }
        if let Some(parent) = &v1.cpuset {
            group.add(parent, name, |path| {
                // Nobody may join a group that has no memory nodes; which of them is not our concern.
                fs::write(path.join("cpuset.mems"), fs::read(parent.join("cpuset.mems"))?)?;
                let cpus = limit_cpuset(path, limits)?;
                if !cpus {
                    fs::write(path.join("cpuset.cpus"), fs::read(parent.join("cpuset.cpus"))?)?;
                }
                Ok(Enforced { cpus, ..Enforced::default() })
            });
        }
        if let Some(parent) = v1.cpu.as_ref().filter(|_| !group.enforced.cpus) {
            group.add(parent, name, |path| {
                let quota = CPU_PERIOD_US * limits.processors.len() as u64;
                fs::write(path.join("cpu.cfs_period_us"), CPU_PERIOD_US.to_string())?;
                let cpus = quota > 0;
                let quota = if cpus { quota.to_string() } else { "-1".to_owned() };
                fs::write(path.join("cpu.cfs_quota_us"), quota)?;
                Ok(Enforced { cpus, ..Enforced::default() })
            });
        }
        group.killed_before = group.kills();
        (!group.paths.is_empty()).then_some(group)
    }

    /// Makes one group and sets its limits; without them it is none.
    fn add(&mut self, parent: &Path, name: &str, limit: impl FnOnce(&Path) -> io::Result<Enforced>) {
        let path = parent.join(name);
        match fs::create_dir(&path) {
            Err(cause) if cause.kind() != io::ErrorKind::AlreadyExists => return,
            _ => {}
        }
        match limit(&path) {
            Ok(enforced) => {
                self.enforced.memory |= enforced.memory;
                self.enforced.processes |= enforced.processes;
                self.enforced.cpus |= enforced.cpus;
                self.paths.push(path);
            }
            Err(_) => drop(fs::remove_dir(&path)),
        }
    }

    /// Which limits hold for the whole tree.
    pub(crate) fn enforced(&self) -> Enforced {
        self.enforced
    }

    /// Ends all processes at once, where the kernel can.
    pub(crate) fn kill(&self) {
        for path in &self.paths {
            let control = path.join("cgroup.kill");
            if control.exists() {
                let _ = fs::write(control, "1");
            }
        }
    }

    /// Processes in it; without a `cgroup.kill` they are ended one by one.
    pub(crate) fn processes(&self) -> Vec<i32> {
        let Some(path) = self.paths.first() else { return Vec::new() };
        let text = fs::read_to_string(path.join("cgroup.procs")).unwrap_or_default();
        // Those of other namespaces are shown as 0.
        text.lines().filter_map(|line| line.trim().parse().ok()).filter(|pid| *pid > 0).collect()
    }

    /// How many of its processes the kernel has killed for memory.
    pub(crate) fn killed_for_memory(&self) -> u64 {
        self.kills().saturating_sub(self.killed_before)
    }

    fn kills(&self) -> u64 {
        self.paths.first().map_or(0, |path| kills(path))
    }
}

/// Sets the limits of a group of version 2, or of the memory hierarchy of version 1.
fn limit_main(path: &Path, kind: Kind, limits: &GroupLimits<'_>) -> Enforced {
    let memory = |file: &str| {
        limits.memory_bytes == 0 || fs::write(path.join(file), limits.memory_bytes.to_string()).is_ok()
    };
    match kind {
        Kind::Unified { has_memory, has_processes, has_cpu, has_cpuset } => {
            // Swapping instead of ending would only make everybody slow. Not every kernel accounts swap.
            let _ = fs::write(path.join("memory.swap.max"), "0");
            // One process of the job over the limit ends the job, not a random part of it.
            let _ = fs::write(path.join("memory.oom.group"), "1");
            let is_bound = has_cpuset && limit_cpuset(path, limits).unwrap_or(false);
            Enforced {
                memory: has_memory && memory("memory.max"),
                processes: has_processes && limit_processes(path, limits).unwrap_or(false),
                cpus: is_bound || has_cpu && limit_cpu_time(path, limits).unwrap_or(false),
            }
        }
        Kind::OldMemory => Enforced { memory: memory("memory.limit_in_bytes"), ..Enforced::default() },
        Kind::Nothing => Enforced::default(),
    }
}

fn limit_processes(path: &Path, limits: &GroupLimits<'_>) -> io::Result<bool> {
    if limits.processes > 0 {
        fs::write(path.join("pids.max"), limits.processes.to_string())?;
    }
    Ok(limits.processes > 0)
}

fn limit_cpuset(path: &Path, limits: &GroupLimits<'_>) -> io::Result<bool> {
    let numbers: Vec<String> = limits.processors.iter().map(u32::to_string).collect();
    if !numbers.is_empty() {
        fs::write(path.join("cpuset.cpus"), numbers.join(","))?;
    }
    Ok(!numbers.is_empty())
}

fn limit_cpu_time(path: &Path, limits: &GroupLimits<'_>) -> io::Result<bool> {
    let quota = CPU_PERIOD_US * limits.processors.len() as u64;
    if quota > 0 {
        fs::write(path.join("cpu.max"), format!("{quota} {CPU_PERIOD_US}"))?;
    }
    Ok(quota > 0)
}

/// How many processes of a group the kernel has killed for memory, ever.
fn kills(path: &Path) -> u64 {
    // `memory.events` is of version 2; `memory.oom_control` of version 1 has the same line since Linux 4.13.
    let texts = ["memory.events", "memory.oom_control"].map(|name| fs::read_to_string(path.join(name)));
    let lines = texts.iter().flatten().flat_map(|text| text.lines());
    let counts = lines.filter_map(|line| line.strip_prefix("oom_kill "));
    counts.filter_map(|count| count.trim().parse::<u64>().ok()).sum()
}

/// Moves this process into the group `name` below each parent that has one.
pub(crate) fn join(parents: Parents<'_>, name: &str) -> io::Result<()> {
    for parent in parents.all() {
        let procs = parent.join(name).join("cgroup.procs");
        if procs.exists() {
            fs::write(procs, "0")?;
        }
    }
    Ok(())
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        for path in &self.paths {
            // Fails only while a process that cannot be ended is in it.
            let _ = fs::remove_dir(path);
        }
    }
}

/// Limits that a worker with these parents for its groups cannot hold, in words.
#[must_use]
pub(crate) fn not_enforced(enforced: Enforced) -> Vec<String> {
    let mut found = Vec::new();
    if !enforced.cpus {
        found.push(NO_CPUS.to_owned());
    }
    if !enforced.memory {
        found.push(NO_MEMORY.to_owned());
    }
    found
}

/// Said where no group limits processors.
pub(crate) const NO_CPUS: &str = "cpus: there is no cpuset or cpu cgroup; a job is bound to as many processors as it asked \
    for, and can undo that";

/// Said where no group limits memory.
pub(crate) const NO_MEMORY: &str =
    "memory of the whole job: there is no memory cgroup, each process alone is enforced to the limit";

#[cfg(test)]
mod tests {
    use super::*;

    fn make(parent: &Path, name: &str, limits: &GroupLimits<'_>) -> Option<Cgroup> {
        Cgroup::make(Parents { main: Some(parent), v1: &V1Parents::default() }, name, limits)
    }

    #[test]
    fn a_group_enforces_what_it_has_controllers_for() {
        let root = tempfile::tempdir().unwrap();
        let control = |text: &str| fs::write(root.path().join("cgroup.subtree_control"), text).unwrap();
        let file = |name: &str| fs::read_to_string(root.path().join(name)).unwrap();
        let limits = GroupLimits { memory_bytes: 1 << 20, processes: 9, processors: &[1, 3] };
        let enforced = |name: &str| make(root.path(), name, &limits).unwrap().enforced();
        control("\n");
        assert_eq!(enforced("7.1"), Enforced::default());
        control("cpu memory\n");
        assert_eq!(enforced("7.2"), Enforced { memory: true, processes: false, cpus: true });
        assert_eq!((file("7.2/memory.max"), file("7.2/cpu.max")), ("1048576".into(), "200000 100000".into()));
        control("cpuset pids\n");
        assert_eq!(enforced("7.3"), Enforced { memory: false, processes: true, cpus: true });
        assert_eq!((file("7.3/pids.max"), file("7.3/cpuset.cpus")), ("9".into(), "1,3".into()));
        let parents = Parents { main: Some(root.path()), v1: &V1Parents::default() };
        assert_eq!(not_enforced(parents.can_enforce()), [NO_MEMORY]);
        assert_eq!(not_enforced(Enforced::default()).len(), 2);
    }

    #[test]
    fn version_1_has_a_group_in_each_hierarchy() {
        let root = tempfile::tempdir().unwrap();
        let [memory, cpu, cpuset, pids] =
            ["memory", "cpu", "cpuset", "pids"].map(|name| root.path().join(name));
        for path in [&memory, &cpu, &cpuset, &pids] {
            fs::create_dir(path).unwrap();
        }
        fs::write(memory.join("memory.limit_in_bytes"), "").unwrap();
        for (name, text) in [("cpuset.mems", "0-1\n"), ("cpuset.cpus", "0-7\n")] {
            fs::write(cpuset.join(name), text).unwrap();
        }
        let mut v1 = V1Parents { cpu: Some(cpu.clone()), cpuset: Some(cpuset.clone()), pids: Some(pids) };
        let limits = GroupLimits { memory_bytes: 5 << 20, processes: 9, processors: &[2] };
        let group = Cgroup::make(Parents { main: Some(&memory), v1: &v1 }, "7.1", &limits).unwrap();
        assert_eq!(group.enforced(), Enforced { memory: true, processes: true, cpus: true });
        assert_eq!(fs::read_to_string(cpuset.join("7.1/cpuset.cpus")).unwrap(), "2");
        assert_eq!(fs::read_to_string(cpuset.join("7.1/cpuset.mems")).unwrap(), "0-1\n");
        assert!(!cpu.join("7.1").exists(), "its processors are bound already");
        v1.cpuset = None;
        let group = Cgroup::make(Parents { main: Some(&memory), v1: &v1 }, "7.2", &limits).unwrap();
        assert!(group.enforced().cpus);
        assert_eq!(fs::read_to_string(cpu.join("7.2/cpu.cfs_quota_us")).unwrap(), "100000");
    }

    #[test]
    fn what_the_kernel_killed_before_is_not_of_this_run() {
        let root = tempfile::tempdir().unwrap();
        let limits = GroupLimits::default();
        fs::write(root.path().join("cgroup.subtree_control"), "memory\n").unwrap();
        let group = make(root.path(), "7.2", &limits).unwrap();
        assert_eq!(group.killed_for_memory(), 0);
        fs::write(root.path().join("7.2/memory.events"), "low 0\noom 1\noom_kill 2\noom_group_kill 0\n")
            .unwrap();
        assert_eq!(group.killed_for_memory(), 2);
        let again = make(root.path(), "7.2", &limits).unwrap();
        assert_eq!(again.killed_for_memory(), 0);
        fs::write(root.path().join("7.2/cgroup.procs"), "0\n12\n13\n").unwrap();
        assert_eq!(group.processes(), [12, 13]);
    }
}
