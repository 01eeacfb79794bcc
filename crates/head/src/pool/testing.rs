//! Pools for tests.

use super::{
    policy::{Coding, Pool},
    view::{FileView, Layout, PartitionState, PartitionView, PieceState, PieceView, Snapshot},
};
use base::{FileId, ObjectId, Timestamp};

pub(crate) const NOW: Timestamp = Timestamp(1_700_000_000_000);
const GB: u64 = 1_000_000_000;

/// Partition `pN` on server `sN` in one of `racks` racks, half full.
pub(crate) fn partition(number: usize, racks: usize) -> PartitionView {
    PartitionView {
        name: format!("p{number}").into(),
        server: format!("s{number}").into(),
        domain: format!("rack{}", number % racks).into(),
        pool: "main".into(),
        capacity_bytes: 1000 * GB,
        free_bytes: 500 * GB,
        incoming_bytes: 0,
        leaving_bytes: 0,
        busy: 0,
        state: PartitionState::InUse,
        heard: NOW,
        is_given_up: false,
    }
}

/// A pool of two copies on `partitions` servers; the label is what copies do not share.
pub(crate) fn snapshot(partitions: usize, racks: usize) -> Snapshot {
    let pool = Pool {
        copies: 2,
        acknowledged_copies: 2,
        failure_domain: super::policy::FailureDomain::Label,
        ..Pool::default()
    };
    Snapshot::new(pool, (0..partitions).map(|number| partition(number, racks)).collect(), NOW)
}

pub(crate) fn piece(object: u64, partition: &str) -> PieceView {
    PieceView {
        object: ObjectId(object),
        partition: partition.into(),
        index: 0,
        state: PieceState::Verified,
        size_bytes: GB,
        since: NOW,
        verified: NOW,
        is_pinned: false,
    }
}

/// A file with good pieces on these partitions.
pub(crate) fn file(id: u64, copies: u8, partitions: &[&str]) -> FileView {
    let pieces = partitions.iter().zip(0..).map(|(partition, number)| piece(100 * id + number, partition));
    FileView {
        file: FileId(id),
        layout: Layout::Copies(copies),
        pieces: pieces.collect(),
        since: NOW,
        created: Timestamp(NOW.0 - 86_400_000),
        used: Timestamp(NOW.0 - 86_400_000),
        is_pinned: false,
        tape_copies: 0,
    }
}

/// A coded file with one piece on each partition.
pub(crate) fn coded(id: u64, coding: Coding, partitions: &[&str]) -> FileView {
    let mut view = file(id, 1, partitions);
    view.layout = Layout::Coded(coding);
    for (piece, index) in view.pieces.iter_mut().zip(0..) {
        piece.index = index;
    }
    view
}
