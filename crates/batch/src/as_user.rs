//! Does something with the rights of a job's user, in a process that comes back from it.
//!
//! For processes with one thread only: the C library changes the user of all threads.

use crate::identity::{Identity, Kind};
use nix::unistd::{Gid, Uid, getegid, geteuid, getgroups, setegid, seteuid, setgroups};
use std::io;

/// Runs `act` as the job's user: the kernel then refuses what that user may not do.
///
/// The real and saved user stay what they are. If the way back fails, so does this, and the caller must not go on.
pub(crate) fn as_user<T>(identity: &Identity, act: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    if identity.kind == Kind::Own {
        return act();
    }
    let (uid, gid, groups) = (geteuid(), getegid(), getgroups()?);
    let theirs: Vec<Gid> = identity.groups.iter().copied().map(Gid::from_raw).collect();
    let done = setgroups(&theirs)
        .and_then(|()| setegid(Gid::from_raw(identity.gid)))
        .and_then(|()| seteuid(Uid::from_raw(identity.uid)))
        .map_err(io::Error::from)
        .and_then(|()| act());
    seteuid(uid).and_then(|()| setegid(gid)).and_then(|()| setgroups(&groups))?;
    done
}
