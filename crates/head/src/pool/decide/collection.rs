//! Garbage collection: which files leave the disks of a pool because they are safe on tape.

use crate::{
    pool::decide::{
        policy::CollectionOrder,
        view::{FileView, PartitionState, PartitionView, PieceState, Snapshot},
    },
    store::Replica,
};
use base::{ErrorKind, Failure, FileId, Millis, Result, Timestamp};
use std::{cmp::Reverse, collections::BTreeMap, sync::Arc};

/// Bytes to free on a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shortage {
    /// The partition.
    pub partition: Arc<str>,
    /// Bytes.
    pub bytes: u64,
}

/// Partitions below the low water of free space, and what brings them to the high water; by name.
#[must_use]
pub fn shortages(snapshot: &Snapshot) -> Vec<Shortage> {
    snapshot.pool.collection.map(|waters| below(snapshot, waters.begin_free_permille)).unwrap_or_default()
}

/// The same for a person who does not wait for the low water: all partitions below the high one.
#[must_use]
pub fn shortages_now(snapshot: &Snapshot) -> Vec<Shortage> {
    snapshot.pool.collection.map(|waters| below(snapshot, waters.end_free_permille)).unwrap_or_default()
}

/// What brings the partitions of which less is free to the high water.
fn below(snapshot: &Snapshot, begin_free_permille: u16) -> Vec<Shortage> {
    let end_free_permille = snapshot.pool.collection.unwrap_or_default().end_free_permille;
    let share = |capacity: u64, permille: u16| capacity / 1000 * u64::from(permille);
    let mut found = Vec::new();
    for partition in snapshot.partitions() {
        if partition.state != PartitionState::InUse || !snapshot.answers(partition) {
            continue;
        }
        let free = free_bytes(partition);
        if free < share(partition.capacity_bytes, begin_free_permille).saturating_add(partition.over_bytes) {
            let end = share(partition.capacity_bytes, end_free_permille).saturating_add(partition.over_bytes);
            found.push(Shortage { partition: partition.name.clone(), bytes: end.saturating_sub(free) });
        }
    }
    found
}

/// What is to be deleted counts as free.
fn free_bytes(partition: &PartitionView) -> u64 {
    partition.room_bytes().saturating_add(partition.leaving_bytes)
}

/// What `bytes` more on one partition want, for a write that found no room or for a person who asks.
///
/// The partition that has to free least for it; `None` if none in use answers, or one has the room already.
#[must_use]
pub fn shortage_for(snapshot: &Snapshot, bytes: u64) -> Option<Shortage> {
    let needed = bytes.saturating_add(snapshot.pool.reserved_bytes).saturating_add(1);
    let open = snapshot
        .partitions()
        .iter()
        .filter(|at| at.state == PartitionState::InUse && snapshot.answers(at) && at.capacity_bytes > needed);
    let missing = |at: &PartitionView| needed.saturating_add(at.over_bytes).saturating_sub(free_bytes(at));
    let rank = |at: &PartitionView| i128::from(free_bytes(at)) - i128::from(at.over_bytes);
    let best = open.max_by(|a, b| rank(a).cmp(&rank(b)).then_with(|| b.name.cmp(&a.name)))?;
    let bytes = missing(best);
    (bytes > 0).then(|| Shortage { partition: best.name.clone(), bytes })
}

/// Chooses files to evict until each partition has the space that it lacks: in the pool's order, ties by id.
///
/// Evicting a file deletes all its pieces in the pool. Each of `files` has a piece on a partition of `shortages`. If
/// they are not enough, all that may be evicted are returned.
#[must_use]
pub fn collect(snapshot: &Snapshot, files: &[FileView], shortages: &[Shortage]) -> Vec<FileId> {
    let policy = snapshot.pool.collection.unwrap_or_default();
    let mut wanted: BTreeMap<&str, u64> =
        shortages.iter().map(|shortage| (&*shortage.partition, shortage.bytes)).collect();
    let mut candidates: Vec<_> =
        files.iter().filter(|file| may_evict(snapshot, file, policy.age_min).is_ok()).collect();
    candidates.sort_by_key(|file| (rank_of(policy.order, file), file.file));
    candidates.dedup_by_key(|file| file.file);
    let mut evicted = Vec::new();
    for file in candidates {
        let helps =
            file.pieces.iter().any(|piece| wanted.get(&*piece.partition).is_some_and(|bytes| *bytes > 0));
        if !helps {
            continue;
        }
        for piece in &file.pieces {
            if let Some(bytes) = wanted.get_mut(&*piece.partition) {
                *bytes = bytes.saturating_sub(piece.size_bytes);
            }
        }
        evicted.push(file.file);
    }
    evicted
}

/// The order of eviction: the smallest goes first.
pub(crate) type Rank = (Reverse<u64>, i64);

fn rank_of(order: CollectionOrder, file: &FileView) -> Rank {
    let bytes = file.pieces.iter().map(|piece| piece.size_bytes).sum();
    rank(order, bytes, (file.created, file.used.max(file.created)))
}

/// Of something that has so many bytes, was made and was used last at these times.
pub(crate) fn rank(order: CollectionOrder, bytes: u64, (created, used): (Timestamp, Timestamp)) -> Rank {
    match order {
        CollectionOrder::LeastRecentlyUsed => (Reverse(0), used.0),
        CollectionOrder::Age => (Reverse(0), created.0),
        CollectionOrder::Size => (Reverse(bytes), used.0),
    }
}

/// Refuses to evict what is not safe elsewhere, is wanted here, or was made or used within `age_min`.
///
/// A person who asks for one file gives an age of zero.
pub fn may_evict(snapshot: &Snapshot, file: &FileView, age_min: Millis) -> Result<()> {
    let id = file.file;
    if file.tape_copies == 0 {
        return Err(Failure::busy(format!("file {id} has no tape copy")).hint("archive it first"));
    }
    if file.is_pinned || file.pieces.iter().any(|piece| piece.is_pinned) {
        return Err(
            Failure::busy(format!("file {id} is pinned, or being read")).hint("wait until it is released")
        );
    }
    if file.pieces.iter().any(|piece| piece.state == PieceState::Coming) {
        return Err(Failure::busy(format!("file {id} is being written, copied or recalled"))
            .hint("wait until that ends"));
    }
    if file.pieces.is_empty() {
        let pool = &snapshot.pool.name;
        return Err(Failure::new(ErrorKind::NotFound, format!("file {id} has nothing in pool {pool}")));
    }
    if snapshot.now - file.used.max(file.created) < age_min {
        return Err(Failure::busy(format!("file {id} was made or used recently")));
    }
    Ok(())
}

/// The first candidates whose sizes add up to more than `missing` bytes; `None` if all of them are not enough.
pub(crate) fn enough(candidates: &[Replica], missing: u64) -> Option<&[Replica]> {
    let mut freed = 0;
    for (index, candidate) in candidates.iter().enumerate() {
        freed += candidate.size;
        if freed > missing {
            return Some(&candidates[..=index]);
        }
    }
    None
}

#[cfg(test)]
#[path = "collection_tests.rs"]
mod tests;
