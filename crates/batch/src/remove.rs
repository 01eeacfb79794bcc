//! Deletes the directory tree of a job, whatever depth, modes or names it has.
//!
//! A job decides how deep its directories are, so nothing here recurses or holds a file open for each level: a directory that is
//! found below another one is moved up beside it and deleted in its turn. Nothing is ever looked up through a link.

use rustix::{
    fs::{AtFlags, Dir, Mode, OFlags, chmod, openat, renameat, unlinkat},
    io::Errno,
};
use std::{
    ffi::{CStr, CString},
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
    path::Path,
};

/// Passes over one directory: while entries are removed from it, a file system may leave some out of a listing.
const PASSES_MAX: u32 = 100;

/// Deletes the entry `name` of `directory`, with all that is below it. What is not there is deleted.
pub(crate) fn remove_tree(directory: &Path, name: &str) -> io::Result<()> {
    let root = openat(rustix::fs::CWD, directory, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let mut work = RemovalQueue { root, prefix: name.to_owned(), made: 0 };
    let mut pending = vec![CString::new(name)?];
    while let Some(name) = pending.pop() {
        work.empty(&name, &mut pending)?;
    }
    Ok(())
}

/// Directories that are being deleted, all beside each other in `root`.
struct RemovalQueue {
    root: OwnedFd,
    prefix: String,
    made: u64,
}

impl RemovalQueue {
    /// Deletes one entry of the root; directories that it has are moved beside it and become pending.
    fn empty(&mut self, name: &CStr, pending: &mut Vec<CString>) -> io::Result<()> {
        let directory = match open_directory(self.root.as_fd(), name) {
            Ok(directory) => directory,
            Err(Errno::NOENT) => return Ok(()),
            Err(Errno::NOTDIR | Errno::LOOP) => {
                return Ok(unlinkat(&self.root, name, AtFlags::empty())?);
            }
            Err(cause) => return Err(cause.into()),
        };
        for _ in 0..PASSES_MAX {
            self.empty_open(&directory, pending)?;
            match unlinkat(&self.root, name, AtFlags::REMOVEDIR) {
                Ok(()) => return Ok(()),
                Err(Errno::NOTEMPTY | Errno::EXIST) => {}
                Err(cause) => return Err(cause.into()),
            }
        }
        Err(io::Error::from(io::ErrorKind::DirectoryNotEmpty))
    }

    fn empty_open(&mut self, directory: &OwnedFd, pending: &mut Vec<CString>) -> io::Result<()> {
        for entry in Dir::read_from(directory)? {
            let entry = entry?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            match unlinkat(directory, name, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(Errno::ISDIR | Errno::PERM) => pending.push(self.move_up(directory, name)?),
                Err(cause) => return Err(cause.into()),
            }
        }
        Ok(())
    }

    fn move_up(&mut self, directory: &OwnedFd, name: &CStr) -> io::Result<CString> {
        self.made += 1;
        let moved = CString::new(format!("{}.{}", self.prefix, self.made))?;
        let rename = || renameat(directory, name, &self.root, &moved);
        match rename() {
            // Its `..` changes, which its owner may have forbidden.
            Err(Errno::ACCESS) => {
                allow(directory.as_fd(), name)?;
                rename()?;
            }
            done => done?,
        }
        Ok(moved)
    }
}

/// Opens a directory so that it can be listed and emptied, even if its owner has forbidden that.
fn open_directory(parent: BorrowedFd<'_>, name: &CStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = match openat(parent, name, flags, Mode::empty()) {
        Err(Errno::ACCESS) => {
            allow(parent, name)?;
            openat(parent, name, flags, Mode::empty())?
        }
        opened => opened?,
    };
    // Of those that cannot be changed `unlinkat` speaks, with the better reason.
    let _ = rustix::fs::fchmod(&opened, Mode::RWXU);
    Ok(opened)
}

/// Gives its owner all rights on a directory. A link is refused, not followed.
fn allow(parent: BorrowedFd<'_>, name: &CStr) -> Result<(), Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let handle = openat(parent, name, flags, Mode::empty())?;
    chmod(format!("/proc/self/fd/{}", handle.as_raw_fd()), Mode::RWXU)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, mkdirat};
    use std::{fs, os::unix::fs::PermissionsExt};

    /// More levels than a path may name and than a stack may hold frames.
    const DEEP: usize = 10_000;

    #[test]
    fn a_tree_deeper_than_any_path_is_deleted() {
        let trash = tempfile::tempdir().unwrap();
        mkdirat(CWD, trash.path().join("t"), Mode::RWXU).unwrap();
        let open = |parent: BorrowedFd<'_>, name: &str| {
            openat(parent, name, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).unwrap()
        };
        let mut at = open(CWD, trash.path().join("t").to_str().unwrap());
        for _ in 0..DEEP {
            mkdirat(&at, "d", Mode::RWXU).unwrap();
            at = open(at.as_fd(), "d");
        }
        drop(at);
        remove_tree(trash.path(), "t").unwrap();
        assert_eq!(fs::read_dir(trash.path()).unwrap().count(), 0);
    }

    #[test]
    fn links_are_deleted_and_not_followed() {
        let root = tempfile::tempdir().unwrap();
        let (trash, other) = (root.path().join("trash"), root.path().join("other"));
        fs::create_dir_all(trash.join("t/sub")).unwrap();
        fs::create_dir(&other).unwrap();
        fs::write(other.join("kept"), "x").unwrap();
        std::os::unix::fs::symlink(&other, trash.join("t/link")).unwrap();
        std::os::unix::fs::symlink(&other, trash.join("t/sub/link")).unwrap();
        std::os::unix::fs::symlink(&other, trash.join("l")).unwrap();
        remove_tree(&trash, "t").unwrap();
        remove_tree(&trash, "l").unwrap();
        remove_tree(&trash, "missing").unwrap();
        assert_eq!(fs::read_dir(&trash).unwrap().count(), 0);
        assert!(other.join("kept").exists());
        let mode = other.metadata().unwrap().permissions().mode() & 0o777;
        assert_ne!(mode, 0o700, "what a link leads to is left as it is");
    }

    #[test]
    fn directories_that_their_owner_has_closed_are_deleted() {
        let trash = tempfile::tempdir().unwrap();
        let closed = trash.path().join("t/a/b");
        fs::create_dir_all(closed.join("c")).unwrap();
        fs::write(closed.join("f"), "x").unwrap();
        for directory in [closed.join("c"), closed.clone(), trash.path().join("t/a")] {
            fs::set_permissions(directory, fs::Permissions::from_mode(0o000)).unwrap();
        }
        remove_tree(trash.path(), "t").unwrap();
        assert_eq!(fs::read_dir(trash.path()).unwrap().count(), 0);
    }
}
