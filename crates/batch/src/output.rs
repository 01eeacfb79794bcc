//! Opens outputs in the scratch directory of a job without following links out of it.
//!
//! The room may read more than the job may: on a worker that runs as root, everything. So the kernel itself keeps the lookup below
//! the directory, whatever the job changes meanwhile, and only plain files of the job's own user are taken: a hard link to the
//! file of somebody else is not one.

use base::{ErrorKind, Failure, Result};
use rustix::{
    fs::{Mode, OFlags, ResolveFlags, open, openat, openat2},
    io::Errno,
};
use std::{
    fs::File,
    io,
    os::{fd::OwnedFd, unix::fs::MetadataExt},
    path::Path,
};

/// Opens the output `name`: a plain file of user `uid` in `scratch`, or a link to one there.
pub(crate) fn open_output(scratch: &Path, name: &str, uid: u32) -> Result<File> {
    let failed = |cause: io::Error| Failure::io(format!("open output {name:?}"), &cause);
    let file = File::from(open_beneath(scratch, name).map_err(|cause| match cause {
        Errno::XDEV => {
            Failure::permission(format!("output {name:?} is a link that leaves the scratch directory"))
        }
        Errno::NOENT => {
            failed(cause.into()).hint("the job must leave the file in its working directory, BP_SCRATCH")
        }
        // Of a pipe or a socket.
        Errno::NXIO => Failure::invalid(format!("output {name:?} is not a plain file")),
        cause => failed(cause.into()),
    })?);
    let about = file.metadata().map_err(failed)?;
    if !about.is_file() {
        return Err(Failure::invalid(format!("output {name:?} is not a plain file")));
    }
    if about.uid() != uid {
        return Err(Failure::new(
            ErrorKind::Permission,
            format!("output {name:?} belongs to uid {}, not to the job's user {uid}", about.uid()),
        ));
    }
    Ok(file)
}

fn open_beneath(scratch: &Path, name: &str) -> std::result::Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let scratch = open(scratch, flags, Mode::empty())?;
    // A pipe would keep us waiting for ever.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let rules = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    match openat2(&scratch, name, flags, Mode::empty(), rules) {
        // A kernel before 5.6, or a container that forbids it: no links at all then. The name has no directories.
        Err(Errno::NOSYS | Errno::PERM) => openat(&scratch, name, flags | OFlags::NOFOLLOW, Mode::empty()),
        opened => opened,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::getuid;

    #[test]
    fn outputs_are_plain_files_of_the_scratch_directory() {
        let root = tempfile::tempdir().unwrap();
        let scratch = root.path().join("scratch");
        std::fs::create_dir_all(scratch.join("sub")).unwrap();
        std::fs::write(root.path().join("secret"), "x").unwrap();
        std::fs::write(scratch.join("real"), "x").unwrap();
        let link = |to: &str, name: &str| std::os::unix::fs::symlink(to, scratch.join(name)).unwrap();
        link("real", "link");
        link("../secret", "escape");
        link("/etc/passwd", "absolute");
        link("..", "parent");
        link("parent/secret", "by_parent");
        link("loop", "loop");
        link("/proc/self/environ", "magic");
        rustix::fs::mkfifoat(rustix::fs::CWD, scratch.join("pipe"), Mode::RWXU).unwrap();
        let me = getuid().as_raw();
        let kind = |name| open_output(&scratch, name, me).map(|_| ()).map_err(|failure| failure.kind);
        assert_eq!(kind("real"), Ok(()));
        assert_eq!(kind("link"), Ok(()));
        for escape in ["escape", "absolute", "by_parent", "magic"] {
            assert_eq!(kind(escape), Err(ErrorKind::Permission), "{escape}");
        }
        assert!(kind("loop").is_err() && kind("parent").is_err());
        assert_eq!(kind("sub"), Err(ErrorKind::Invalid));
        assert_eq!(kind("pipe"), Err(ErrorKind::Invalid));
        assert_eq!(kind("missing"), Err(ErrorKind::NotFound));
        let refused = open_output(&scratch, "real", me + 1).unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Permission);
    }

    #[test]
    fn a_scratch_directory_that_is_a_link_is_not_followed() {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join("f"), "x").unwrap();
        let link = root.path().join("scratch");
        std::os::unix::fs::symlink(root.path(), &link).unwrap();
        assert!(open_output(&link, "f", getuid().as_raw()).is_err());
    }
}
