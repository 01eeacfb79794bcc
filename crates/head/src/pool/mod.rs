//! Replicas: where new objects go, opens, commits, pins and evictions.

mod act;
mod calls;
pub mod decide;
mod live;
#[cfg(test)]
mod testing;

pub(crate) use act::{
    allocation::FileReservation,
    balance::{Imbalance, uneven},
    bounds::{refuse_oversize, require_size},
    collection::collecting_bytes,
    copies::source,
    maintenance::MaintenanceState,
    out_of_reach::{AwayPartitions, away_hosts, away_words, notice as notice_away, out_of_reach, state_of},
    policy::is_sweep_due,
    reach_count::ReachCount,
    removed_hosts::host_removed,
    reservation::Reservations,
    run_maintenance::mend,
    scrub::{drop_damaged, is_running, note_verified},
    snapshot::domain,
    sources::Sources,
    space::{Claims, SpaceWait, came_online, incoming_bytes, space_wait},
};

pub(crate) use calls::partition_of;
pub(crate) use live::{LiveWish, is_away, live_partitions, live_promise, pool_of_live, whole_replicas};

use crate::{
    Core, Topic,
    store::{Replica, ReplicaState},
    tape::{StageEnd, stage_ended},
};
use act::snapshot::snapshot;
use base::{Failure, FileId, ObjectId, Result, Timestamp, units::human_bytes};
use decide::{
    placement::{PlacementRequest, Purpose, place},
    view::{PartitionState, PartitionView, Snapshot},
};
use std::cmp::Reverse;
use wire::control::RequestKind;

/// Partitions that take new objects, those with the most room first.
fn writable(snapshot: &Snapshot) -> Vec<&PartitionView> {
    let all = snapshot.partitions().iter();
    let mut writable: Vec<_> = all
        .filter(|partition| partition.state == PartitionState::InUse && snapshot.answers(partition))
        .collect();
    writable.sort_by_key(|partition| Reverse(partition.room_bytes()));
    writable
}

/// Room that one partition can give: what is free or, if that is less than `wanted`, what eviction would free too.
pub(crate) fn obtainable_bytes(core: &Core, wanted: u64, now: Timestamp) -> Result<u64> {
    let snapshot = snapshot(core, &core.config.pool, now)?;
    let writable = writable(&snapshot);
    let kept = snapshot.pool.reserved_bytes;
    let mut most = 0;
    for partition in &writable {
        most = most.max(act::space::coming_bytes(core, partition, now)?.saturating_sub(kept));
    }
    if wanted < most {
        return Ok(most);
    }
    for partition in writable {
        let room = act::space::obtainable_bytes(core, partition, now)?;
        most = most.max(room.saturating_sub(kept));
    }
    Ok(most)
}

/// Reserves an object for a file.
pub(crate) fn reserve(core: &mut Core, reserve: &Reserve<'_>, now: Timestamp) -> Result<Replica> {
    let partition = choose_partition(core, reserve, now)?;
    let replica = Replica {
        object: ObjectId(0),
        file: reserve.file,
        partition,
        state: reserve.state,
        owner: reserve.owner.to_owned(),
        size: reserve.bytes,
        created: now,
        used: now,
        piece: None,
    };
    Ok(core.store.insert_replica(replica)?)
}

/// The partition on which an object is made, and has the space that it needs.
pub(crate) fn choose_partition(core: &mut Core, reserve: &Reserve<'_>, now: Timestamp) -> Result<String> {
    match reserve.on {
        Some(on) => beside(core, on, reserve.bytes, now),
        None => anywhere(core, reserve, now),
    }
}

/// The partition of the pool on which an object is made; what can be evicted there makes room.
fn anywhere(core: &mut Core, reserve: &Reserve<'_>, now: Timestamp) -> Result<String> {
    let snapshot = snapshot(core, reserve.pool.unwrap_or(&core.config.pool), now)?;
    let bytes =
        if reserve.bytes > 0 { reserve.bytes } else { act::space::unknown_bytes(snapshot.partitions()) };
    let random = reserve.file.0 ^ now.0.unsigned_abs();
    let wish =
        |bytes| PlacementRequest { pieces: 1, pieces_min: 1, bytes, beside: &[], purpose: Purpose::Write };
    if let Ok(placed) = place(&snapshot, &wish(bytes), random) {
        return Ok(placed.partitions[0].to_string());
    }
    if let Some(partition) = make_room(core, &snapshot, &writable(&snapshot), bytes)? {
        return Ok(partition);
    }
    if reserve.bytes == 0
        && let Some(partition) = roomiest(core, &snapshot)?
    {
        return Ok(partition);
    }
    // As it is now: something may have been evicted in vain.
    place(&snapshot, &wish(reserve.bytes), random)
        .map(|placed| placed.partitions[0].to_string())
        .inspect_err(|_| core.live.reservations.note_wanted(&snapshot.pool.name, now))
}

/// The partition that can give most, for a write of unknown length that has little anywhere.
fn roomiest(core: &mut Core, snapshot: &Snapshot) -> Result<Option<String>> {
    let mut best: Option<(u64, &PartitionView)> = None;
    for partition in writable(snapshot) {
        let bytes = act::space::obtainable_bytes(core, partition, snapshot.now)?;
        if bytes > best.map_or(snapshot.pool.reserved_bytes, |(most, _)| most) {
            best = Some((bytes, partition));
        }
    }
    // One byte is asked for: the write asks for the others as it grows.
    best.map_or(Ok(None), |(_, partition)| make_room(core, snapshot, &[partition], 0))
}

/// The partition `on`, where an update finds its old content, if there is room.
fn beside(core: &mut Core, on: &str, bytes: u64, now: Timestamp) -> Result<String> {
    let pool = core.store.partition(on)?.map(|partition| partition.pool).unwrap_or_default();
    let snapshot = snapshot(core, &pool, now)?;
    let takes = |partition: &&PartitionView| {
        matches!(partition.state, PartitionState::InUse | PartitionState::Draining)
            && snapshot.answers(partition)
    };
    let partition = snapshot.partition(on).filter(takes).ok_or_else(|| {
        Failure::unavailable(format!("partition {on} takes no writes now"))
            .hint("write the whole file again: it goes elsewhere then")
    })?;
    let room = partition.room_bytes().saturating_sub(snapshot.pool.reserved_bytes);
    if room > bytes {
        return Ok(on.to_owned());
    }
    let (need, free) = (human_bytes(bytes), human_bytes(room));
    make_room(core, &snapshot, &[partition], bytes)?.ok_or_else(|| {
        Failure::no_space(format!("partition {on} has {free} free; {need} are needed"))
            .hint("write the whole file again: it goes elsewhere then")
    })
}

/// The purpose of a reserved object.
pub(crate) struct Reserve<'a> {
    pub(crate) file: FileId,
    pub(crate) owner: &'a str,
    /// Expected size.
    pub(crate) bytes: u64,
    pub(crate) state: ReplicaState,
    /// The partition on which it must be; `None`: the best one.
    pub(crate) on: Option<&'a str>,
    /// The pool for it; `None`: the one for new files.
    pub(crate) pool: Option<&'a str>,
}

/// Empties the trash and evicts archived, unpinned replicas, least recently used first, until `bytes` fit on one
/// partition beside the space that the pool reserves for repairs.
///
/// The space is free once the disk server has deleted the objects. Until then the write waits.
fn make_room(
    core: &mut Core,
    snapshot: &Snapshot,
    partitions: &[&PartitionView],
    bytes: u64,
) -> Result<Option<String>> {
    let needed = bytes.saturating_add(snapshot.pool.reserved_bytes).saturating_add(1);
    for partition in partitions {
        if act::space::free_up(core, partition, needed, snapshot.now)? {
            return Ok(Some(partition.name.to_string()));
        }
    }
    Ok(None)
}

/// A file has so many replicas that were made elsewhere than by a write: what its pool promises beyond that is made next.
pub(crate) fn note_sealed(
    core: &mut Core,
    file: FileId,
    partition: &str,
    replicas: usize,
    now: Timestamp,
) -> Result<()> {
    let pool = act::mirror::pool_of_partition(core, partition)?;
    if usize::from(pool.copies) > replicas || pool.pieces().is_some() {
        core.store.put_shortage(file, &pool.name, replicas, now)?;
    }
    Ok(())
}

/// Drops what a file has on disk, and what is being made of it; it is safe on tape. What a drive brings comes all the same.
pub(crate) fn evict(core: &mut Core, file: FileId) -> Result<()> {
    let node = core.store.node(file)?;
    for replica in node.iter().flat_map(|node| &node.replicas).filter(|replica| replica.state.is_of_pool()) {
        retire(core, replica)?;
    }
    Ok(())
}

/// Gives a replica to the disk server for deletion; with it ends what its owner pays for it.
pub(crate) fn retire(core: &mut Core, replica: &Replica) -> Result<()> {
    if replica.state.is_settled() || core.unsettled()?.is_none() {
        core.store.remove_replica(replica)?;
    } else {
        // Half written as far as a restored catalogue knows: it may have been acknowledged since.
        core.store.drop_replica(replica)?;
    }
    core.live.maintenance.forget_copy(replica.object);
    core.live.claims.end(&replica.partition, replica.object);
    core.live.space_waits.remove(&replica.object);
    core.touch(Topic::Removals);
    core.touch(Topic::Files);
    Ok(())
}

/// Drops replicas and copies of a file, because it is removed or has new content, which is in the objects `keep`.
///
/// Its recall ends with them. Its archive request stays: it means the file, whatever is in it.
pub(crate) fn drop_content(core: &mut Core, file: FileId, keep: &[ObjectId]) -> Result<()> {
    let Some(node) = core.store.node(file)? else { return Ok(()) };
    for replica in node.replicas.iter().filter(|replica| !keep.contains(&replica.object)) {
        retire(core, replica)?;
    }
    if !node.is_archived {
        // Without a copy nobody can have asked for a recall.
        return Ok(());
    }
    core.store.delete_copies(file)?;
    if let Some(recall) = core.store.request_of(RequestKind::Recall, file)? {
        core.store.delete_request(recall.id)?;
        let end =
            if keep.is_empty() { StageEnd::Failed("its content was removed") } else { StageEnd::Online };
        let now = core.store.time();
        stage_ended(core, file, end, now)?;
        core.touch(Topic::Tape);
    }
    Ok(())
}
