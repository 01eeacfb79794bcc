//! Volatile state of pool maintenance. It is lost when the head stops; the next start finds the remaining work again.

use crate::pool::{
    act::{
        balance::BalanceCursor,
        collection::{CollectionPause, Plan, Purpose},
    },
    decide::budget::CopyOrder,
};
use base::{Millis, ObjectId, Timestamp};
use std::collections::BTreeMap;

/// File systems give room back some time after they were told to: so long, or until it is seen, what was deleted counts as
/// still leaving, or else more would be evicted in its place.
const GIVEN_BACK_WITHIN: Millis = Millis::from_seconds(5);
/// A writer waits no longer than this for space that was deleted and is not seen: others may have taken it meanwhile.
const AWAITED_WITHIN: Millis = Millis::from_seconds(1);
/// Orders that are kept in mind: more than any pool lets run.
const COPIES_MAX: usize = 100_000;

/// Plans, walks, copies under way.
#[derive(Debug, Default)]
pub(crate) struct MaintenanceState {
    /// What is being collected, by partition.
    pub(in crate::pool) plans: BTreeMap<(String, Purpose), Plan>,
    /// Partitions of which nothing could go.
    pub(in crate::pool) rests: BTreeMap<String, CollectionPause>,
    /// How far partitions that are too full were looked through.
    pub(in crate::pool) walks: BTreeMap<String, BalanceCursor>,
    /// Why copies under way are made, and from what.
    copies: BTreeMap<ObjectId, CopyOrder>,
    freed: BTreeMap<String, RecentlyDeleted>,
    /// When somebody looked which partitions are to be verified.
    pub(in crate::pool) scrubs_looked: Option<Timestamp>,
}

/// Bytes that were deleted lately, in two spans of time.
#[derive(Debug, Default)]
struct RecentlyDeleted {
    since: Timestamp,
    /// When something was deleted last.
    last: Timestamp,
    bytes: u64,
    before: u64,
    /// So much is free, or taken by what is being made, once all of it is given back. Writes that wait take it at once.
    expected: u64,
}

impl MaintenanceState {
    /// The clock was set: rests and walks begin anew.
    pub(crate) fn forget_times(&mut self) {
        self.rests.clear();
        self.walks.clear();
        self.freed.clear();
        self.scrubs_looked = None;
    }

    /// A copy begins.
    pub(in crate::pool) fn note_copy(&mut self, object: ObjectId, order: &CopyOrder) {
        if self.copies.len() >= COPIES_MAX {
            // What is not known is guessed.
            self.copies.clear();
        }
        self.copies.insert(object, order.clone());
    }

    /// A copy in progress.
    pub(in crate::pool) fn copy(&self, object: ObjectId) -> Option<&CopyOrder> {
        self.copies.get(&object)
    }

    /// It has ended, well or not.
    pub(in crate::pool) fn forget_copy(&mut self, object: ObjectId) {
        self.copies.remove(&object);
    }

    /// A disk server has deleted something on a partition; before that `free` bytes were free, or taken by what is being made.
    pub(in crate::pool) fn note_freed(&mut self, partition: &str, (bytes, free): (u64, u64), now: Timestamp) {
        if bytes == 0 {
            return;
        }
        let is_first = self.freed_bytes(partition, now) == 0;
        let freed = self.freed.entry(partition.to_owned()).or_default();
        freed.turn(now);
        freed.bytes += bytes;
        freed.last = now;
        freed.expected = if is_first { free } else { freed.expected }.saturating_add(bytes);
    }

    /// What was being made is complete: its bytes come back to nobody.
    pub(in crate::pool) fn note_taken(&mut self, partition: &str, bytes: u64) {
        if let Some(freed) = self.freed.get_mut(partition) {
            freed.expected = freed.expected.saturating_sub(bytes);
        }
    }

    /// A disk server says what is free, or taken by what is being made.
    pub(in crate::pool) fn note_free(&mut self, partition: &str, free: u64) {
        if self.freed.get(partition).is_some_and(|freed| free >= freed.expected) {
            self.freed.remove(partition);
        }
    }

    /// Bytes that were deleted so lately that the file system may not have given them back.
    pub(in crate::pool) fn freed_bytes(&self, partition: &str, now: Timestamp) -> u64 {
        let Some(freed) = self.freed.get(partition) else { return 0 };
        let spans = (now - freed.since).0 / GIVEN_BACK_WITHIN.0;
        match spans {
            0 => freed.bytes + freed.before,
            1 => freed.bytes,
            _ => 0,
        }
    }

    /// The same, as long as it is worth a writer's waiting.
    pub(in crate::pool) fn awaited_bytes(&self, partition: &str, now: Timestamp) -> u64 {
        let is_new = |freed: &&RecentlyDeleted| now - freed.last < AWAITED_WITHIN;
        self.freed.get(partition).filter(is_new).map_or(0, |_| self.freed_bytes(partition, now))
    }

    /// The policies have changed: what could not be done may be possible now.
    pub(crate) fn look_again(&mut self) {
        self.plans.retain(|(_, purpose), _| *purpose != Purpose::Water);
        self.rests.clear();
        self.walks.clear();
        self.scrubs_looked = None;
    }
}

impl RecentlyDeleted {
    fn turn(&mut self, now: Timestamp) {
        match (now - self.since).0 / GIVEN_BACK_WITHIN.0 {
            0 => return,
            1 => self.before = self.bytes,
            _ => self.before = 0,
        }
        (self.bytes, self.since) = (0, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_deleted_counts_for_a_while() {
        let mut maintenance = MaintenanceState::default();
        let at = |seconds: i64| Timestamp(1_700_000_000_000 + 1000 * seconds);
        maintenance.note_freed("p", (100, 50), at(0));
        maintenance.note_freed("p", (10, 50), at(3));
        assert_eq!((maintenance.freed_bytes("p", at(4)), maintenance.freed_bytes("q", at(4))), (110, 0));
        maintenance.note_freed("p", (1, 50), at(6));
        assert_eq!(maintenance.freed_bytes("p", at(7)), 111);
        assert_eq!((maintenance.awaited_bytes("p", at(6)), maintenance.awaited_bytes("p", at(7))), (111, 0));
        assert_eq!(maintenance.freed_bytes("p", at(11)), 1);
        assert_eq!(maintenance.freed_bytes("p", at(20)), 0);
        maintenance.note_freed("p", (5, 70), at(40));
        assert_eq!(maintenance.freed_bytes("p", at(40)), 5);
        maintenance.note_free("p", 74);
        assert_eq!(maintenance.freed_bytes("p", at(40)), 5);
        maintenance.note_free("p", 75);
        assert_eq!(maintenance.freed_bytes("p", at(40)), 0, "the file system has given it back");
        maintenance.note_freed("p", (5, 70), at(60));
        maintenance.note_taken("p", 3);
        maintenance.note_free("p", 71);
        assert_eq!(maintenance.freed_bytes("p", at(60)), 5);
        maintenance.note_free("p", 72);
        assert_eq!(maintenance.freed_bytes("p", at(60)), 0, "what was written since is not waited for");
    }
}
