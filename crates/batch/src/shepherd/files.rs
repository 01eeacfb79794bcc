//! Opens what a job prints to: files of its run directory, or files of the host that it names.

use super::append;
use crate::{
    as_user::as_user,
    identity::{Identity, Kind},
    run_dir::{OpenedFile, OutputFiles, RunDir},
    sandbox::JOB_UMASK,
};
use base::{Failure, Result};
use nix::sys::stat::umask;
use rustix::fs::{Mode, OFlags, fcntl_getfl, fcntl_setfl, open};
use std::{fs::File, io, os::unix::fs::MetadataExt, path::Path};

/// Permission bits of a file of the host that is made, before the umask of jobs.
const MODE: Mode = Mode::from_raw_mode(0o666);

/// Standard output and standard error of a job.
pub(super) struct Outputs {
    pub(super) files: [File; 2],
    /// Which of them are files of the host; if both are in one, the second is none.
    pub(super) on_host: [Option<OpenedFile>; 2],
}

impl Outputs {
    /// Opens both. Files of the host are opened with the rights of the job's user, and before the job has its own view of the host.
    pub(super) fn open(dir: &RunDir, wish: &OutputFiles, identity: &Identity) -> Result<Self> {
        let one = |path: Option<&Path>, name: &str, shown: &str| match path {
            Some(path) => open_on_host(path, wish.truncate, identity)
                .map(|(file, opened)| (file, Some(opened)))
                .map_err(|cause| explain(path, shown, identity, &cause)),
            None => {
                let file = append(dir, name)?;
                // A program may open /dev/stderr once more, as itself.
                identity
                    .give(&file)
                    .map_err(|cause| dir.failed(&format!("give {name} to the job"), &cause))?;
                Ok((file, None))
            }
        };
        let (stdout, stdout_on_host) = one(wish.stdout.as_deref(), "stdout", "standard output")?;
        let (stderr, stderr_on_host) = if wish.stdout.is_some() && wish.stderr == wish.stdout {
            // The same open file: each line lands behind the one before, whichever stream it is of.
            let both = stdout.try_clone().map_err(|cause| dir.failed("merge the outputs", &cause))?;
            (both, None)
        } else {
            one(wish.stderr.as_deref(), "stderr", "standard error")?
        };
        Ok(Self { files: [stdout, stderr], on_host: [stdout_on_host, stderr_on_host] })
    }
}

fn open_on_host(path: &Path, truncate: bool, identity: &Identity) -> io::Result<(File, OpenedFile)> {
    if identity.kind == Kind::Slot {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "the job's user is not known on this host, and may leave nothing there",
        ));
    }
    // A pipe without a reader must not keep us waiting, and a terminal must not become ours.
    let mut flags = OFlags::CREATE | OFlags::APPEND | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    if truncate {
        flags |= OFlags::TRUNC;
    }
    // That of the daemon is for its own files.
    let umask_before = umask(nix::sys::stat::Mode::from_bits_truncate(JOB_UMASK));
    let opened = as_user(identity, || match open(path, flags | OFlags::RDWR, MODE) {
        Ok(file) => Ok((File::from(file), true)),
        Err(_) => Ok((File::from(open(path, flags | OFlags::WRONLY, MODE)?), false)),
    });
    umask(umask_before);
    let (file, can_read) = opened?;
    fcntl_setfl(&file, fcntl_getfl(&file)? - OFlags::NONBLOCK)?;
    let about = file.metadata()?;
    let opened = OpenedFile {
        path: path.to_owned(),
        inode: (about.dev(), about.ino()),
        start: about.len(),
        is_readable: can_read && about.is_file(),
    };
    Ok((file, opened))
}

fn explain(path: &Path, shown: &str, identity: &Identity, cause: &io::Error) -> Failure {
    Failure::io(format!("open {} for {shown} as user {}", path.display(), identity.name), cause).hint(
        "its directory must exist on the worker's host, and the job's user must be allowed to write there",
    )
}
