//! How busy this host is.

use std::{fs, path::Path};
use wire::control::WorkerLoad;

/// What the kernel says now, and of the file system of `directory`. `None` without `/proc`.
pub(crate) fn of_this_host(directory: &Path) -> Option<WorkerLoad> {
    let running_permille = parse_load(&fs::read_to_string("/proc/loadavg").ok()?)?;
    let memory_free_bytes = parse_memory(&fs::read_to_string("/proc/meminfo").ok()?)?;
    let space = rustix::fs::statvfs(directory).ok();
    let scratch_free_bytes = space.map_or(0, |space| space.f_bavail.saturating_mul(space.f_frsize));
    Some(WorkerLoad { running_permille, memory_free_bytes, scratch_free_bytes })
}

/// The first number of `/proc/loadavg` (proc_loadavg(5)), in thousandths.
fn parse_load(text: &str) -> Option<u64> {
    let load: f64 = text.split_ascii_whitespace().next()?.parse().ok()?;
    (load.is_finite() && load >= 0.0).then_some((load * 1000.0) as u64)
}

/// `MemAvailable` of `/proc/meminfo` (proc_meminfo(5)), in bytes.
fn parse_memory(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_of_the_kernel_are_read() {
        assert_eq!(parse_load("0.52 1.00 2.00 1/100 4\n"), Some(520));
        assert_eq!(parse_memory("MemTotal: 9 kB\nMemAvailable:     2048 kB\n"), Some(2 << 20));
        for odd in ["", "x", "-1 0 0", "inf", "MemAvailable: x kB"] {
            assert_eq!((parse_load(odd), parse_memory(odd)), (None, None), "{odd:?}");
        }
        assert!(of_this_host(Path::new("/")).is_some_and(|load| load.scratch_free_bytes > 0));
    }
}
