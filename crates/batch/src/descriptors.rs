//! File descriptors that a process inherited from its parent.

use nix::unistd::close;
use std::fs;

/// The first descriptor that has no meaning of its own.
const FIRST: i32 = 3;

/// Closes every descriptor from 3 up: a lock or a pipe of whoever started us must not live as long as we and our jobs do.
///
/// To be called before the process opens anything itself, or starts a thread.
pub fn close_inherited() {
    let Ok(entries) = fs::read_dir("/proc/self/fd") else {
        // Without /proc nothing is known; what we open ourselves is not inherited.
        return;
    };
    let numbers = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let inherited: Vec<i32> = numbers.filter(|number| *number >= FIRST).collect();
    for number in inherited {
        // The listing itself was among them, and is closed by now.
        let _ = close(number);
    }
}
