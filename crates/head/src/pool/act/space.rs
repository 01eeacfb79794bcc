//! Free space for objects that are being written.
//!
//! A pool whose files are safe on tape is not full: the head evicts them when a client writes. It counts their space as free at
//! once. The disk server deletes them a moment later, waits for that with a deadline, and asks again ([`FreeSpace`]). A write that
//! grows asks for more space in the same way.

use crate::{
    Apply, Context, Core,
    account::{Growth, refuse_excess},
    pool::{
        act::snapshot::snapshot,
        calls::partition_of,
        decide::{
            collection,
            view::{PartitionView, Snapshot},
        },
        evict,
    },
    store::{Node, Partition, Replica, ReplicaState},
    trash,
};
use base::{
    Failure, Millis, ObjectId, Result, Timestamp,
    units::{Span, human_bytes},
};
use std::collections::BTreeMap;
use wire::control::{Done, FreeSpace};

/// Most replicas dropped to free space for one object.
pub(in crate::pool) const VICTIMS_MAX: usize = 1000;
/// A write of unknown length goes where so much can be had at least, if there is such a partition ...
const UNKNOWN_BYTES: u64 = 64 << 20;
/// ... or this part of the largest partition, if that is less.
const UNKNOWN_PART: u64 = 64;
/// Freed at once for a write that grows: so many bytes more than it wants, or as many as it has, if that is less.
const AHEAD_BYTES_MAX: u64 = 1 << 30;
/// A disk server asks again at least once a second: who was not heard for so long waits no more.
const HEARD_WITHIN: Millis = Millis::from_seconds(5);

/// Space that objects under way have taken on their partition already: it is missing in what the disk server calls free, and must not
/// be subtracted a second time as promised. Told with each report; lost when the head stops.
#[derive(Debug, Default)]
pub(crate) struct Claims(BTreeMap<String, BTreeMap<ObjectId, u64>>);

impl Claims {
    /// Bytes of all objects on a partition.
    pub(crate) fn total(&self, partition: &str) -> u64 {
        self.0
            .get(partition)
            .map_or(0, |claims| claims.values().fold(0, |sum, bytes| sum.saturating_add(*bytes)))
    }

    fn of(&self, replica: &Replica) -> u64 {
        let claims = self.0.get(&replica.partition);
        claims.and_then(|claims| claims.get(&replica.object)).copied().unwrap_or(0)
    }

    /// An object is complete or gone. Yields what it had.
    pub(in crate::pool) fn end(&mut self, partition: &str, object: ObjectId) -> u64 {
        self.0.get_mut(partition).and_then(|claims| claims.remove(&object)).unwrap_or(0)
    }

    /// The disk server has started anew.
    pub(in crate::pool) fn forget(&mut self, partition: &str) {
        self.0.remove(partition);
    }
}

/// Takes what a disk server says of the objects that are being made on it. More than was promised is nobody's promise.
pub(in crate::pool) fn note_claims(
    core: &mut Core,
    partition: &str,
    claimed: &[(ObjectId, u64)],
) -> Result<()> {
    let mut claims = BTreeMap::new();
    for (object, bytes) in claimed {
        let Some(replica) = core.store.replica(*object)? else { continue };
        if replica.partition == partition && !replica.state.is_settled() && *bytes > 0 {
            claims.insert(*object, replica.size.min(*bytes));
        }
    }
    core.live.claims.0.insert(partition.to_owned(), claims);
    Ok(())
}

/// Makes a replica readable. What it had taken before is missing in the free space already.
pub(crate) fn came_online(core: &mut Core, object: ObjectId, size: u64, now: Timestamp) -> Result<()> {
    let replica = core.store.replica(object)?;
    core.store.set_replica_online(object, size, now)?;
    let Some(Replica { partition, .. }) = replica else { return Ok(()) };
    let claimed = core.live.claims.end(&partition, object).min(size);
    if let Some(row) = core.store.partition(&partition)?.filter(|_| claimed > 0) {
        core.store.set_space(&partition, row.total, row.free.saturating_add(claimed))?;
    }
    core.live.maintenance.note_taken(&partition, size);
    core.live.space_waits.remove(&object);
    Ok(())
}

/// Promised to what is under way on a partition and not yet taken from its free space.
pub(crate) fn incoming_bytes(core: &Core, name: &str, row: &Partition) -> u64 {
    row.promised.saturating_sub(core.live.claims.total(name))
}

/// Bytes that come free without another eviction: those of objects that are to be deleted, or were deleted a moment ago.
fn leaving_bytes(core: &Core, partition: &PartitionView, now: Timestamp) -> Result<u64> {
    if core.unsettled()?.is_some() {
        // Nothing is deleted now.
        return Ok(0);
    }
    let freed = core.live.maintenance.awaited_bytes(&partition.name, now);
    Ok(partition.leaving_bytes.saturating_add(freed))
}

/// Bytes that a partition has free, or will have by and by if nothing else is evicted.
pub(in crate::pool) fn coming_bytes(core: &Core, partition: &PartitionView, now: Timestamp) -> Result<u64> {
    // Added first: more may be promised than is free now.
    let free = partition.free_bytes.saturating_add(leaving_bytes(core, partition, now)?);
    Ok(free.saturating_sub(taken_bytes(partition)))
}

/// Bytes of the free space that somebody else was promised, or that are to become free because the partition was made smaller.
fn taken_bytes(partition: &PartitionView) -> u64 {
    partition.incoming_bytes.saturating_add(partition.over_bytes)
}

/// Bytes that a partition has free, or could have if all went that may.
pub(in crate::pool) fn obtainable_bytes(
    core: &Core,
    partition: &PartitionView,
    now: Timestamp,
) -> Result<u64> {
    let mut bytes = partition.free_bytes.saturating_add(leaving_bytes(core, partition, now)?);
    if core.unsettled()?.is_none() {
        for victim in evictable(core, &partition.name, now)? {
            bytes = bytes.saturating_add(victim.size);
        }
        bytes = bytes.saturating_add(trash::bytes_on(core, &partition.name)?);
    }
    Ok(bytes.saturating_sub(taken_bytes(partition)))
}

/// A pool as it will be once all has gone that may, for pieces of `bytes`: where there is space already nothing goes.
pub(in crate::pool) fn as_if_freed(core: &Core, snapshot: &Snapshot, bytes: u64) -> Result<Snapshot> {
    let needed = bytes.saturating_add(snapshot.pool.reserved_bytes);
    let mut freed = snapshot.clone();
    for partition in crate::pool::writable(snapshot) {
        if partition.room_bytes() <= needed {
            let free = obtainable_bytes(core, partition, snapshot.now)?;
            if let Some(partition) = freed.partition_mut(&partition.name) {
                partition.free_bytes = free.saturating_add(partition.incoming_bytes);
            }
        }
    }
    Ok(freed)
}

/// Gives up trash and evicts archived, unpinned replicas, least recently used first, until `needed` bytes are free on a partition or on their way. Yields
/// whether that could be; if not, nothing is evicted.
pub(in crate::pool) fn free_up(
    core: &mut Core,
    partition: &PartitionView,
    needed: u64,
    now: Timestamp,
) -> Result<bool> {
    let free = partition.free_bytes.saturating_add(leaving_bytes(core, partition, now)?);
    let missing = needed.saturating_add(taken_bytes(partition)).saturating_sub(free);
    evict_for(core, &partition.name, missing, now)
}

/// Replicas that may be evicted, without those in the trash: these are counted by themselves.
fn evictable(core: &Core, partition: &str, now: Timestamp) -> Result<Vec<Replica>> {
    let mut victims = core.store.evictable(partition, now, VICTIMS_MAX)?;
    let in_trash = trash::on_partition(core, partition)?;
    victims.retain(|victim| in_trash.iter().all(|(file, _)| *file != victim.file));
    Ok(victims)
}

fn evict_for(core: &mut Core, partition: &str, missing: u64, now: Timestamp) -> Result<bool> {
    let Some(below) = missing.checked_sub(1) else { return Ok(true) };
    if core.unsettled()?.is_some() {
        return Ok(false);
    }
    // What somebody removed goes before what somebody may want.
    let in_trash = trash::bytes_on(core, partition)?;
    if in_trash > below {
        trash::make_room(core, partition, below)?;
        return Ok(true);
    }
    let candidates = evictable(core, partition, now)?;
    let Some(victims) = collection::enough(&candidates, below - in_trash) else { return Ok(false) };
    trash::make_room(core, partition, below)?;
    for victim in victims {
        evict(core, victim.file)?;
    }
    Ok(true)
}

/// For how many bytes a write of unknown length is placed.
pub(in crate::pool) fn unknown_bytes(partitions: &[PartitionView]) -> u64 {
    let largest = partitions.iter().map(|partition| partition.capacity_bytes).max().unwrap_or(0);
    UNKNOWN_BYTES.min(largest / UNKNOWN_PART)
}

impl Apply for FreeSpace {
    fn apply(self, core: &mut Core, context: &Context) -> Result<Done> {
        let Self { object, bytes } = self;
        let replica = core.store.replica(object)?.filter(|row| !row.state.is_settled());
        let replica =
            replica.ok_or_else(|| Failure::not_found(format!("object {object} is not being written")))?;
        let row = partition_of(core, context, &replica.partition)?;
        if !is_coming(core, (&replica, &row.pool), bytes, context.now)? {
            core.live.space_waits.remove(&object);
            core.live.reservations.note_wanted(&row.pool, context.now);
            return Err(full(core, &replica, bytes)?);
        }
        if replica.state == ReplicaState::Writing && bytes > replica.size {
            promise(core, &replica, bytes)?;
        }
        note_wait(core, &replica, bytes, context.now);
        Ok(Done {})
    }
}

/// Whether the space for an object of `bytes` is there or on its way; evicts for it, and for what comes after it where that can be.
fn is_coming(core: &mut Core, (replica, pool): (&Replica, &str), bytes: u64, now: Timestamp) -> Result<bool> {
    let snapshot = snapshot(core, pool, now)?;
    let Some(partition) = snapshot.partition(&replica.partition) else { return Ok(false) };
    let claimed = core.live.claims.of(replica);
    // What was promised to this very object, and was not taken, keeps it from nothing.
    let own = replica.size.saturating_sub(claimed);
    let incoming_bytes = partition.incoming_bytes.saturating_sub(own);
    let partition = PartitionView { incoming_bytes, ..partition.clone() };
    let is_write = replica.state == ReplicaState::Writing;
    let kept = if is_write { snapshot.pool.reserved_bytes } else { 0 };
    let needed = bytes.saturating_sub(claimed).saturating_add(kept);
    let ahead = if is_write && bytes > replica.size { bytes.min(AHEAD_BYTES_MAX) } else { 0 };
    Ok(free_up(core, &partition, needed.saturating_add(ahead), now)?
        || free_up(core, &partition, needed, now)?)
}

/// Promises a growing write what it is about to take, so that nobody else gets it meanwhile.
fn promise(core: &mut Core, replica: &Replica, bytes: u64) -> Result<()> {
    core.store.put_replica(&Replica { size: bytes, ..replica.clone() })?;
    let Some(node) = core.store.node(replica.file)? else { return Ok(()) };
    let begun = replica.size.max(node.size);
    refuse_excess(core, &node, Growth { is_new: false, bytes: bytes.saturating_sub(begun) })
}

fn full(core: &Core, replica: &Replica, bytes: u64) -> Result<Failure> {
    let (partition, need) = (&replica.partition, human_bytes(bytes));
    let free = core.store.partition(partition)?.map_or(0, |row| row.free_bytes());
    let what = format!(
        "partition {partition} is full: the file needs {need} there, {} are free, and too few other files may \
            be evicted",
        human_bytes(free)
    );
    Ok(Failure::no_space(what)
        .hint("archive files so that they may be evicted, or add a partition to the pool"))
}

/// A write that waits for space, for those who ask why.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SpaceWait {
    bytes: u64,
    since: Timestamp,
    heard: Timestamp,
}

fn note_wait(core: &mut Core, replica: &Replica, bytes: u64, now: Timestamp) {
    let waits = &mut core.live.space_waits;
    waits.retain(|_, wait| now - wait.heard <= HEARD_WITHIN);
    let wait = SpaceWait { bytes, since: now, heard: now };
    waits.entry(replica.object).and_modify(|known| (known.bytes, known.heard) = (bytes, now)).or_insert(wait);
}

/// What a file that is being written waits for, if it waits for space.
pub(crate) fn space_wait(core: &Core, node: &Node, now: Timestamp) -> Result<Option<String>> {
    let waits = node.replicas.iter().filter_map(|replica| {
        let wait = core.live.space_waits.get(&replica.object)?;
        (now - wait.heard <= HEARD_WITHIN).then_some((replica, wait))
    });
    let Some((replica, wait)) = waits.min_by_key(|(_, wait)| wait.since) else { return Ok(None) };
    let leaving = core.store.partition(&replica.partition)?.map_or(0, |row| row.leaving);
    let (partition, need) = (&replica.partition, human_bytes(wait.bytes));
    let (leaving, waited) = (human_bytes(leaving), Span(now - wait.since));
    Ok(Some(format!(
        "its writer has waited {waited} for space on partition {partition}: {need} are needed, {leaving} of \
            evicted files are being deleted"
    )))
}
