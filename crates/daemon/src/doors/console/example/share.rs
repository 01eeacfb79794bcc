//! Mounts, one of which keeps another one waiting.

use super::{NOW, ago, path};
use base::ByteRange;
use share::{ClientId, Generation, LockMode, Mode};
use wire::control::{LockHolder, MountInfo, Mounts, OpenInfo, ShareGrantInfo, ShareWait, SharedFileInfo};

/// Two sessions, and who waits.
pub(crate) fn mounts() -> Mounts {
    let mount = |client: u64, user: &str, host: &str, is_live| MountInfo {
        client: ClientId(client),
        user: user.into(),
        host: host.into(),
        path: path("/data"),
        since: ago(86_400),
        renewed: ago(if is_live { 3 } else { 40 }),
        is_live,
    };
    let wait = |client: u64, what: &str, why: &str| ShareWait {
        client: ClientId(client),
        what: what.into(),
        since: ago(12),
        why: why.into(),
    };
    let file = SharedFileInfo {
        path: path("/data/run/calibration.db"),
        grants: vec![ShareGrantInfo {
            client: ClientId(3),
            generation: Generation(17),
            mode: Mode::Write,
            is_recalled: true,
        }],
        locks: vec![LockHolder {
            client: ClientId(3),
            pid: 99,
            mode: LockMode::Exclusive,
            range: ByteRange { offset: 0, end: u64::MAX },
        }],
        opens: vec![OpenInfo { client: ClientId(3), readers: 1, writers: 2 }],
        waits: vec![
            wait(2, "an exclusive lock for its process 4711", "process 99 of mount 3 has it exclusively"),
            wait(0, "the file to be sealed", "mount 3 of carol on node02:/mnt has to return its grant"),
        ],
    };
    let mounts = vec![mount(2, "bob", "node01:/mnt", true), mount(3, "carol", "node02:/mnt", false)];
    Mounts { now: NOW, mounts, files: vec![file] }
}
