//! The locks of one file: byte ranges as POSIX has them. A whole-file lock is one with the range of everything.

use crate::ClientId;
use base::ByteRange;
use serde::{Deserialize, Serialize};

/// Whose a lock is, among those of one client: a number that its kernel gives.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LockOwner(pub u64);

/// What a lock keeps others from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LockMode {
    /// Others may have it shared, too.
    Shared,
    /// Nobody else has any.
    Exclusive,
}

/// A lock on a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Lock {
    /// Whose mount.
    pub client: ClientId,
    /// Whose there.
    pub owner: LockOwner,
    /// The process there, for people.
    pub pid: u32,
    /// Where.
    pub range: ByteRange,
    /// Shared or exclusive.
    pub mode: LockMode,
}

impl Lock {
    fn is_of(&self, other: &Self) -> bool {
        (self.client, self.owner) == (other.client, other.owner)
    }

    fn overlaps(&self, range: ByteRange) -> bool {
        self.range.offset < range.end && range.offset < self.range.end
    }
}

/// The locks of one kind on one file. All of it is durable.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FileLocks {
    locks: Vec<Lock>,
}

impl FileLocks {
    /// Ranges that are locked at most: a file that has more is used by a program that went wrong.
    pub const LEN_MAX: usize = 10_000;

    /// All locks.
    #[must_use]
    pub fn locks(&self) -> &[Lock] {
        &self.locks
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.locks.is_empty()
    }

    /// A lock of somebody else that is in the way of `wanted`.
    #[must_use]
    pub fn conflict(&self, wanted: &Lock) -> Option<&Lock> {
        self.conflicts(wanted).next()
    }

    /// All locks of others that are in the way of `wanted`.
    pub fn conflicts(&self, wanted: &Lock) -> impl Iterator<Item = &Lock> {
        self.locks.iter().filter(move |lock| {
            !lock.is_of(wanted)
                && lock.overlaps(wanted.range)
                && (lock.mode == LockMode::Exclusive || wanted.mode == LockMode::Exclusive)
        })
    }

    /// Sets a lock, in place of what its owner has there.
    ///
    /// # Errors
    /// The conflicting lock; nothing has changed then.
    pub fn set(&mut self, wanted: Lock) -> Result<(), Lock> {
        if let Some(other) = self.conflict(&wanted) {
            return Err(*other);
        }
        self.clear(&wanted);
        self.locks.push(wanted);
        self.join();
        Ok(())
    }

    /// Gives back what the owner of `lock` has in its range.
    pub fn clear(&mut self, lock: &Lock) {
        let mut left = Vec::with_capacity(self.locks.len() + 1);
        for old in self.locks.drain(..) {
            if !old.is_of(lock) || !old.overlaps(lock.range) {
                left.push(old);
                continue;
            }
            let before = ByteRange { offset: old.range.offset, end: lock.range.offset };
            let behind = ByteRange { offset: lock.range.end, end: old.range.end };
            left.extend(
                [before, behind]
                    .into_iter()
                    .filter(|range| range.offset < range.end)
                    .map(|range| Lock { range, ..old }),
            );
        }
        self.locks = left;
    }

    /// A client is gone.
    pub fn forget_client(&mut self, client: ClientId) {
        self.locks.retain(|lock| lock.client != client);
    }

    /// Neighbours of one owner and mode become one: a program that locks byte after byte has one lock.
    fn join(&mut self) {
        self.locks.sort_by_key(|lock| (lock.client, lock.owner, lock.range.offset));
        self.locks.dedup_by(|next, before| {
            let is_next =
                before.is_of(next) && before.mode == next.mode && before.range.end == next.range.offset;
            if is_next {
                before.range.end = next.range.end;
            }
            is_next
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn lock(owner: u64, offset: u64, end: u64, mode: LockMode) -> Lock {
        Lock {
            client: ClientId(owner % 2),
            owner: LockOwner(owner),
            pid: 1,
            range: ByteRange { offset, end },
            mode,
        }
    }

    #[test]
    fn giving_back_the_middle_leaves_both_ends() {
        let mut file = FileLocks::default();
        file.set(lock(1, 0, 30, LockMode::Exclusive)).unwrap();
        file.clear(&lock(1, 10, 20, LockMode::Exclusive));
        assert_eq!(file.locks().len(), 2);
        file.set(lock(2, 10, 20, LockMode::Exclusive)).unwrap();
        assert!(file.set(lock(2, 9, 20, LockMode::Shared)).is_err());
        file.forget_client(ClientId(1));
        file.set(lock(2, 9, 20, LockMode::Shared)).unwrap();
    }

    #[test]
    fn neighbours_of_one_owner_are_one_lock() {
        let mut file = FileLocks::default();
        for byte in 0..1000 {
            file.set(lock(1, byte, byte + 1, LockMode::Shared)).unwrap();
        }
        assert_eq!(file.locks().len(), 1);
        file.set(lock(1, 5, 6, LockMode::Exclusive)).unwrap();
        assert_eq!(file.locks().len(), 3, "one byte became exclusive");
    }

    proptest! {
        /// Byte by byte, locks are what was asked for last and not refused.
        #[test]
        fn locks_are_those_of_each_byte(asked in prop::collection::vec((0_u64..3, 0_u64..20, 1_u64..8, 0..3), 0..30)) {
            let mut file = FileLocks::default();
            let mut bytes = [[None; 3]; 30];
            for (owner, offset, len, what) in asked {
                let mode = if what == 1 { LockMode::Shared } else { LockMode::Exclusive };
                let wanted = lock(owner, offset, offset + len, mode);
                let own = owner as usize;
                let range = offset as usize..(offset + len) as usize;
                if what == 0 {
                    file.clear(&wanted);
                    bytes[range].iter_mut().for_each(|byte| byte[own] = None);
                    continue;
                }
                let is_free = bytes[range.clone()].iter().all(|byte| byte.iter().enumerate().all(|(other, held)| {
                    other == own || held.is_none_or(|held| held == LockMode::Shared && mode == LockMode::Shared)
                }));
                prop_assert_eq!(file.set(wanted).is_ok(), is_free);
                if is_free {
                    bytes[range].iter_mut().for_each(|byte| byte[own] = Some(mode));
                }
            }
            for (at, byte) in bytes.iter().enumerate() {
                for (owner, held) in byte.iter().enumerate() {
                    let found = file.locks().iter().find(|lock| {
                        lock.owner.0 == owner as u64 && lock.overlaps(ByteRange { offset: at as u64, end: at as u64 + 1 })
                    });
                    prop_assert_eq!(found.map(|lock| lock.mode), *held);
                }
            }
        }
    }
}
