//! Measures the disk usage of a running job.
//!
//! The job changes its directories meanwhile, and may have made them to lead us astray: each is opened below its root by the kernel,
//! without links, and nothing recurses.

use rustix::{
    fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, open, openat2, statat},
    io::Errno,
};
use std::{
    ffi::{CString, OsStr},
    os::{
        fd::{AsFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::{Path, PathBuf},
};

/// Entries that a job may have: file systems run out of these before they run out of bytes.
const ENTRIES_MAX: u64 = 1_000_000;
/// What an entry costs at least, as an empty file does.
const ENTRY_BYTES: u64 = 4096;
/// Unit of `st_blocks`.
const BLOCK_BYTES: u64 = 512;

/// The result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scratch {
    Within,
    TooLarge,
    /// More entries than this.
    TooMany(u64),
    /// A path that is longer than the kernel takes.
    TooDeep,
}

/// Measures `roots` until it is known that they hold more than `bytes_max`. What cannot be read is not counted.
pub(crate) fn measure(roots: &[PathBuf], bytes_max: u64) -> Scratch {
    let mut tally = Tally { entries: 0, bytes: 0, bytes_max };
    for root in roots {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let Ok(handle) = open(root, flags, Mode::empty()) else {
            continue;
        };
        let mut pending = vec![PathBuf::from(".")];
        while let Some(path) = pending.pop() {
            if let Err(found) = tally.count(&handle, &path, &mut pending) {
                return found;
            }
        }
    }
    Scratch::Within
}

struct Tally {
    entries: u64,
    bytes: u64,
    bytes_max: u64,
}

impl Tally {
    /// Counts what is in one directory; those that it has become pending.
    fn count(&mut self, root: &OwnedFd, path: &Path, pending: &mut Vec<PathBuf>) -> Result<(), Scratch> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let rules = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        let directory = match openat2(root, path, flags, Mode::empty(), rules) {
            Err(Errno::NAMETOOLONG) => return Err(Scratch::TooDeep),
            Err(_) => return Ok(()),
            Ok(directory) => directory,
        };
        let Ok(entries) = Dir::read_from(&directory) else {
            return Ok(());
        };
        for entry in entries.flatten() {
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            if self.add(directory.as_fd(), &name.to_owned())? {
                pending.push(path.join(OsStr::from_bytes(name.to_bytes())));
            }
        }
        Ok(())
    }

    /// Adds one entry; returns whether it is a directory.
    fn add(&mut self, directory: std::os::fd::BorrowedFd<'_>, name: &CString) -> Result<bool, Scratch> {
        let Ok(about) = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) else {
            return Ok(false);
        };
        self.entries += 1;
        self.bytes += (about.st_blocks.unsigned_abs() * BLOCK_BYTES).max(ENTRY_BYTES);
        if self.entries > ENTRIES_MAX {
            return Err(Scratch::TooMany(ENTRIES_MAX));
        }
        if self.bytes > self.bytes_max {
            return Err(Scratch::TooLarge);
        }
        Ok(FileType::from_raw_mode(about.st_mode) == FileType::Directory)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn what_lies_in_all_directories_counts_and_links_lead_nowhere() {
        let root = tempfile::tempdir().unwrap();
        let [scratch, other, outside] = ["scratch", "other", "outside"].map(|name| root.path().join(name));
        for directory in [&scratch.join("a/b"), &other, &outside] {
            fs::create_dir_all(directory).unwrap();
        }
        fs::write(scratch.join("a/b/f"), vec![1; 100_000]).unwrap();
        fs::write(other.join("g"), vec![1; 100_000]).unwrap();
        fs::write(outside.join("big"), vec![1; 10_000_000]).unwrap();
        std::os::unix::fs::symlink(&outside, scratch.join("link")).unwrap();
        let roots = [scratch, other, root.path().join("missing")];
        assert_eq!(measure(&roots, 1_000_000), Scratch::Within);
        assert_eq!(measure(&roots, 150_000), Scratch::TooLarge);
    }

    #[test]
    fn empty_files_cost_something_and_holes_nothing() {
        let root = tempfile::tempdir().unwrap();
        for number in 0..100 {
            fs::write(root.path().join(number.to_string()), "").unwrap();
        }
        let roots = [root.path().to_owned()];
        assert_eq!(measure(&roots, 100 * 4096), Scratch::Within);
        assert_eq!(measure(&roots, 99 * 4096), Scratch::TooLarge);
        fs::File::create(root.path().join("0")).unwrap().set_len(1 << 40).unwrap();
        assert_eq!(measure(&roots, 100 * 4096), Scratch::Within);
    }

    #[test]
    fn directories_that_are_nested_too_deeply_are_noticed() {
        let root = tempfile::tempdir().unwrap();
        let mut at = open(root.path(), OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).unwrap();
        for _ in 0..3000 {
            rustix::fs::mkdirat(&at, "d", Mode::RWXU).unwrap();
            at = rustix::fs::openat(&at, "d", OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).unwrap();
        }
        assert_eq!(measure(&[root.path().to_owned()], u64::MAX), Scratch::TooDeep);
        // The library that makes the directory deletes it by recursion.
        crate::remove::remove_tree(root.path(), "d").unwrap();
    }
}
