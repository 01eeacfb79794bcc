//! Unmounts a directory, and waits for the process that served it: it ends its session with the facility.

use crate::kernel::device;
use base::Result;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, PidfdFlags, pidfd_open},
};
use std::{os::fd::OwnedFd, path::Path, time::Duration};

/// The attribute of the mounted directory that tells the number of the process that serves it.
pub(crate) const SERVED_BY: &str = "user.bp.pid";
/// How long the process has to end. A facility that does not answer is given up then.
const DEADLINE: Duration = Duration::from_secs(10);

/// The process that serves a mount.
struct Server {
    pid: u32,
    process: OwnedFd,
}

impl Server {
    /// That of a directory; none: it is gone, or it is in a container and cannot be seen from here.
    fn of(directory: &Path) -> Option<Self> {
        let mut number = [0; 16];
        let length = rustix::fs::getxattr(directory, SERVED_BY, &mut number[..]).ok()?;
        let pid: u32 = std::str::from_utf8(number.get(..length)?).ok()?.parse().ok()?;
        let process = pidfd_open(Pid::from_raw(pid.try_into().ok()?)?, PidfdFlags::empty()).ok()?;
        Some(Self { pid, process })
    }

    fn has_ended(&self) -> bool {
        let deadline = Timespec { tv_sec: DEADLINE.as_secs().cast_signed(), tv_nsec: 0 };
        poll(&mut [PollFd::new(&self.process, PollFlags::IN)], Some(&deadline)).is_ok_and(|ready| ready > 0)
    }
}

/// Unmounts a directory. `is_lazy`: also if programs have files open there, and without waiting for them.
///
/// Yields the number of the process that served it, if that has not ended after 10 s: another mount namespace has the
/// directory, too, or the facility does not answer. What programs have closed is durable all the same.
pub fn unmount(directory: &Path, is_lazy: bool) -> Result<Option<u32>> {
    let server = Server::of(directory);
    device::unmount(directory, is_lazy)?;
    Ok(server.filter(|server| !is_lazy && !server.has_ended()).map(|server| server.pid))
}
