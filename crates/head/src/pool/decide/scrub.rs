//! Chooses the pieces to verify next.

use crate::pool::decide::view::{PartitionState, PartitionView, PieceState, PieceView, Snapshot};
use base::{Millis, Timestamp};
use std::sync::Arc;

/// Pieces to verify now, at most `pieces_max`: first suspect pieces, then those that were verified longest ago.
///
/// Only pieces whose server answers are chosen; a verified piece only after the pool's interval. Give the pieces of one
/// partition that were verified longest ago: the catalogue has them in that order.
#[must_use]
pub fn due<'a>(snapshot: &Snapshot, pieces: &'a [PieceView], pieces_max: usize) -> Vec<&'a PieceView> {
    let answers = |piece: &&PieceView| {
        snapshot
            .partition(&piece.partition)
            .is_some_and(|at| at.state != PartitionState::Retired && snapshot.answers(at))
    };
    let is_due = |piece: &&PieceView| match piece.state {
        PieceState::Suspect => true,
        PieceState::Verified => snapshot.now - piece.verified >= snapshot.pool.verify_interval,
        PieceState::Coming | PieceState::Lost => false,
    };
    let mut due: Vec<_> = pieces.iter().filter(answers).filter(is_due).collect();
    due.sort_by_key(|piece| (piece.state != PieceState::Suspect, piece.verified, piece.object));
    due.truncate(pieces_max);
    due
}

/// Partitions whose verification is to begin now, by name. `begun` returns when the last one began. It returns `None`
/// if one is in progress or the partition is new.
///
/// The interval counts from beginning to beginning: the pace is such that a verification ends before the next one
/// begins.
#[must_use]
pub fn partitions_due(snapshot: &Snapshot, begun: impl Fn(&str) -> Option<Timestamp>) -> Vec<Arc<str>> {
    let is_due = |at: &&PartitionView| {
        begun(&at.name).is_some_and(|begun| snapshot.now - begun >= snapshot.pool.verify_interval)
    };
    let used = snapshot.partitions().iter().filter(|at| at.state != PartitionState::Retired);
    used.filter(|at| snapshot.answers(at)).filter(is_due).map(|at| at.name.clone()).collect()
}

/// Bytes per second at which `used_bytes` are looked at once in the pool's interval, with a fifth to spare.
#[must_use]
pub fn pace_bytes_per_s(used_bytes: u64, interval: Millis) -> u64 {
    let seconds = u64::try_from(interval.0 / 1000).unwrap_or(0).max(1);
    (used_bytes / seconds).saturating_mul(6) / 5 + 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::testing::{piece, snapshot};

    #[test]
    fn suspects_go_first_then_the_oldest_and_only_what_is_due() {
        let mut snapshot = snapshot(2, 2);
        let interval = snapshot.pool.verify_interval.0;
        let looked = |id, age: i64, at: &str| {
            let mut piece = piece(id, at);
            piece.verified = Timestamp(snapshot.now.0 - age);
            piece
        };
        let mut pieces = vec![
            looked(1, interval - 1, "p0"),
            looked(2, interval, "p0"),
            looked(3, interval + 5, "p0"),
            looked(4, 0, "p0"),
            looked(5, 9 * interval, "p1"),
            looked(6, 9 * interval, "p0"),
        ];
        pieces[3].state = PieceState::Suspect;
        pieces[5].state = PieceState::Lost;
        let silent = snapshot.pool.heard_bound.0 + 1;
        snapshot.partition_mut("p1").unwrap().heard.0 -= silent;
        let ids = |max| due(&snapshot, &pieces, max).iter().map(|piece| piece.object.0).collect::<Vec<_>>();
        assert_eq!(ids(10), [4, 3, 2]);
        assert_eq!(ids(2), [4, 3]);
        pieces.reverse();
        let again = due(&snapshot, &pieces, 10);
        assert_eq!(again.iter().map(|piece| piece.object.0).collect::<Vec<_>>(), [4, 3, 2]);
    }

    #[test]
    fn partitions_are_verified_again_after_the_interval() {
        let mut snapshot = snapshot(6, 6);
        let (now, interval) = (snapshot.now.0, snapshot.pool.verify_interval.0);
        let silent = snapshot.pool.heard_bound.0 + 1;
        snapshot.partition_mut("p2").unwrap().heard.0 -= silent;
        snapshot.partition_mut("p3").unwrap().state = PartitionState::Retired;
        snapshot.partition_mut("p4").unwrap().state = PartitionState::ReadOnly;
        let begun = |name: &str| match name {
            // Not yet; or one is under way.
            "p0" => Some(Timestamp(now - interval + 1)),
            "p5" => None,
            _ => Some(Timestamp(now - interval)),
        };
        assert_eq!(partitions_due(&snapshot, begun), ["p1".into(), "p4".into()]);
    }

    #[test]
    fn the_pace_is_enough_for_the_interval() {
        let (used, interval) = (100_000_000_000, Millis::from_seconds(30 * 86_400));
        let pace = pace_bytes_per_s(used, interval);
        assert!(pace * 30 * 86_400 >= used && pace * 30 * 86_400 < used * 5 / 4, "{pace}");
    }
}
