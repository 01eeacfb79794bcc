//! Finds where this process may make control groups.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::{Kind, V1Parents, kind};

/// Controllers that jobs are limited by, as version 2 calls them.
const CONTROLLERS: [&str; 4] = ["memory", "cpuset", "cpu", "pids"];

/// Finds a directory where this process may make groups that limit memory; `None` if there is none.
///
/// Below a group that was delegated to us it switches the controllers on that jobs need: systemd does so for its own groups only.
#[must_use]
pub fn find() -> Option<PathBuf> {
    let (mounts, groups) = tables()?;
    candidates(&mounts, &groups).into_iter().find(|path| {
        if !can_make_groups(path) {
            return false;
        }
        enable_controllers(path);
        matches!(kind(path), Kind::Unified { has_memory: true, .. } | Kind::OldMemory)
    })
}

/// Finds where groups of the other hierarchies of version 1 may be made; a controller that version 2 has is not among them.
#[must_use]
pub fn find_v1() -> V1Parents {
    let Some((mounts, groups)) = tables() else { return V1Parents::default() };
    let parent = |controller: &str| {
        let root = mount_of(&mounts, "cgroup", controller)?;
        Some(below(&root, group_of(&groups, controller)?)).filter(|path| can_make_groups(path))
    };
    V1Parents { cpu: parent("cpu"), cpuset: parent("cpuset"), pids: parent("pids") }
}

fn tables() -> Option<(String, String)> {
    let read = |name: &str| fs::read_to_string(name).ok();
    Some((read("/proc/self/mountinfo")?, read("/proc/self/cgroup")?))
}

fn can_make_groups(path: &Path) -> bool {
    rustix::fs::access(path, rustix::fs::Access::WRITE_OK).is_ok()
}

/// Refused where processes are in the group itself, and where somebody else decides: what is on afterwards counts.
fn enable_controllers(path: &Path) {
    for controller in CONTROLLERS {
        let _ = fs::write(path.join("cgroup.subtree_control"), format!("+{controller}"));
    }
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
