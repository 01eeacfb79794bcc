//! Does something with the rights of a job's user, in a thread that comes back from it.

use crate::identity::{Identity, Kind};
use rustix::{
    process::{
        DumpableBehavior, dumpable_behavior, getegid, geteuid, getgroups, parent_process_death_signal,
        set_dumpable_behavior, set_parent_process_death_signal,
    },
    thread::{Gid, Uid, set_thread_groups, set_thread_res_gid, set_thread_res_uid},
};
use std::io;

/// Runs `act` as the job's user: the kernel then refuses what that user may not do.
///
/// Only this thread changes, which the C library would not allow; its real and saved user stay what they are. If the way back fails, so
/// does this, and the caller must not go on.
pub(crate) fn as_user<T>(identity: &Identity, act: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    if identity.kind == Kind::Own {
        return act();
    }
    let (uid, gid, groups) = (geteuid(), getegid(), getgroups()?);
    let (dumpable, death_signal) = (dumpable_behavior(), parent_process_death_signal()?);
    let theirs: Vec<Gid> = identity.groups.iter().copied().map(Gid::from_raw).collect();
    let done = set_thread_groups(&theirs)
        .and_then(|()| set_thread_res_gid(None, Gid::from_raw(identity.gid), None))
        .and_then(|()| set_thread_res_uid(None, Uid::from_raw(identity.uid), None))
        .map_err(io::Error::from)
        .and_then(|()| act());
    set_thread_res_uid(None, uid, None)
        .and_then(|()| set_thread_res_gid(None, gid, None))
        .and_then(|()| set_thread_groups(&groups))?;
    // A change of the user undoes both (prctl(2)).
    if dumpable == Ok(DumpableBehavior::NotDumpable) {
        set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    }
    if death_signal.is_some() {
        set_parent_process_death_signal(death_signal)?;
    }
    done
}
