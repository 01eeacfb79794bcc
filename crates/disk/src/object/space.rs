//! The writable space of a partition: free space of its file system, less the reserve, within the configured size.

use base::{Failure, Result};
use rustix::fs::{StatVfsMountFlags, statvfs};
use std::{
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

/// Growth of one object between two looks at the file system: the call is cheap, but not per write.
pub(crate) const LOOK_EVERY_BYTES: u64 = 16 << 20;

/// What a partition may use of its file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Limits {
    /// Largest sum of object sizes in bytes; `None` for the whole file system.
    pub share_bytes: Option<u64>,
    /// Bytes of the file system that are left free, whatever the share.
    pub reserved_bytes: u64,
}

/// Room on a partition.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Space {
    /// Bytes of the file system less the reserve, or of the configured share if that is smaller.
    pub total_bytes: u64,
    /// Bytes that can still be written.
    pub free_bytes: u64,
    /// The file system takes nothing and gives nothing back.
    pub is_read_only: bool,
}

/// Counts what the objects of a partition use.
#[derive(Debug)]
pub(crate) struct Account {
    directory: PathBuf,
    limits: Limits,
    /// Sum of the sizes of committed objects and the claims of writers. Meaningful only with a share.
    used_bytes: AtomicU64,
}

impl Account {
    pub(crate) fn new(directory: &Path, limits: Limits, used_bytes: u64) -> Self {
        Self { directory: directory.to_owned(), limits, used_bytes: AtomicU64::new(used_bytes) }
    }

    /// Total and free bytes of the file system, less the reserve.
    fn file_system(&self) -> Result<Space> {
        let stat = statvfs(&self.directory).map_err(|cause| {
            Failure::io(format!("read the free space of {}", base::tail(&self.directory)), &cause.into())
        })?;
        let bytes = |blocks: u64| blocks.saturating_mul(stat.f_frsize);
        Ok(Space {
            total_bytes: bytes(stat.f_blocks).saturating_sub(self.limits.reserved_bytes),
            free_bytes: bytes(stat.f_bavail).saturating_sub(self.limits.reserved_bytes),
            is_read_only: stat.f_flag.contains(StatVfsMountFlags::RDONLY),
        })
    }

    pub(crate) fn space(&self) -> Result<Space> {
        let all = self.file_system()?;
        let Some(share) = self.limits.share_bytes else {
            return Ok(all);
        };
        let left = share.saturating_sub(self.used_bytes.load(Ordering::Relaxed));
        Ok(Space { total_bytes: all.total_bytes.min(share), free_bytes: all.free_bytes.min(left), ..all })
    }

    /// Takes room for an object that grows from `claimed` bytes to `end`; all or nothing.
    pub(crate) fn claim(&self, claimed: u64, end: u64) -> Result<()> {
        let more = end.saturating_sub(claimed);
        // Looked at when the growth enters a new step, and for every large piece.
        let is_new_step = claimed == 0 || claimed / LOOK_EVERY_BYTES != end / LOOK_EVERY_BYTES;
        if is_new_step {
            self.check_free(more)?;
        }
        self.take_share(more)
    }

    /// Refuses if the file system does not have `more` bytes above the reserve.
    pub(crate) fn check_free(&self, more: u64) -> Result<()> {
        let free = self.file_system()?.free_bytes;
        if free < more { Err(self.full(more, free)) } else { Ok(()) }
    }

    /// Takes of the share what lies on the file system already; all or nothing.
    pub(crate) fn take_share(&self, more: u64) -> Result<()> {
        let Some(share) = self.limits.share_bytes else {
            return Ok(());
        };
        self.used_bytes
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
                used.checked_add(more).filter(|sum| *sum <= share)
            })
            .map(|_| ())
            .map_err(|used| self.full(more, share.saturating_sub(used)))
    }

    /// Whether what is claimed is missing in the free space at once, and not only when it was written.
    pub(crate) fn has_share(&self) -> bool {
        self.limits.share_bytes.is_some()
    }

    /// Gives room back.
    pub(crate) fn release(&self, bytes: u64) {
        let given = self
            .used_bytes
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| Some(used.saturating_sub(bytes)));
        debug_assert!(given.is_ok(), "the update above never refuses");
    }

    fn full(&self, wanted: u64, free: u64) -> Failure {
        Failure::no_space(format!(
            "partition {} has {free} bytes free, {wanted} more are needed",
            base::tail(&self.directory)
        ))
        .hint(FULL_HINT)
    }
}

/// What to do about a full partition.
pub(crate) const FULL_HINT: &str = "remove or archive files, or add a partition to the pool";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_bounds_the_sum_of_claims() {
        let directory = tempfile::tempdir().unwrap();
        let limits = Limits { share_bytes: Some(100), reserved_bytes: 0 };
        let account = Account::new(directory.path(), limits, 30);
        assert_eq!(account.space().unwrap().free_bytes, 70);
        account.claim(0, 60).unwrap();
        assert_eq!(account.claim(60, 71).unwrap_err().kind, base::ErrorKind::NoSpace);
        account.claim(60, 70).unwrap();
        assert_eq!(account.space().unwrap().free_bytes, 0);
        account.release(70);
        assert_eq!(account.space().unwrap(), Space { total_bytes: 100, free_bytes: 70, is_read_only: false });
    }

    #[test]
    fn a_reserve_is_never_given_away() {
        let directory = tempfile::tempdir().unwrap();
        let limits = Limits { share_bytes: None, reserved_bytes: u64::MAX };
        let account = Account::new(directory.path(), limits, 0);
        assert_eq!(account.space().unwrap().free_bytes, 0);
        assert_eq!(account.claim(0, 1).unwrap_err().kind, base::ErrorKind::NoSpace);
    }
}
