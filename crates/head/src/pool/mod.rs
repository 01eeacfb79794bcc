//! Replicas: where new objects go, opens, commits, pins and evictions.

mod calls;
mod place;

pub(crate) use place::{PartitionView, choose};

use crate::{
    Core, Topic,
    store::{Replica, ReplicaState},
};
use base::{FileId, ObjectId, Result, Timestamp};
use wire::control::RequestKind;

/// Partitions that can take objects now.
pub(crate) fn partitions(core: &Core) -> Result<Vec<PartitionView>> {
    let rows = core.store.partition_space()?;
    let views = rows.into_iter().map(|(name, row)| PartitionView {
        is_available: core.live.partitions.contains(&name),
        free_bytes: row.free.saturating_sub(row.promised),
        name,
        pool: row.pool,
    });
    Ok(views.collect())
}

/// Room that one partition can give: what is free or, if that is less than `wanted`, what eviction would free too.
pub(crate) fn obtainable_bytes(core: &Core, wanted: u64, now: Timestamp) -> Result<u64> {
    let mut views = partitions(core)?;
    views.retain(|view| view.is_available && view.pool == core.config.pool);
    let mut most = views.iter().map(|view| view.free_bytes).max().unwrap_or(0);
    if wanted < most {
        return Ok(most);
    }
    for view in views {
        let victims = core.store.evictable(&view.name, now, VICTIMS_MAX)?;
        let evictable: u64 = victims.iter().map(|victim| victim.size).sum();
        most = most.max(view.free_bytes + evictable);
    }
    Ok(most)
}

/// Reserves an object for a file.
pub(crate) fn reserve(core: &mut Core, reserve: &Reserve<'_>, now: Timestamp) -> Result<Replica> {
    let mut views = partitions(core)?;
    if let Some(on) = reserve.on {
        views.retain(|view| view.name == on);
    }
    let partition = match choose(&views, &core.config.pool, reserve.bytes) {
        Ok(partition) => partition.name.clone(),
        Err(failure) => make_room(core, &views, reserve.bytes, now)?.ok_or(failure)?,
    };
    let replica = Replica {
        object: ObjectId(0),
        file: reserve.file,
        partition,
        state: reserve.state,
        owner: reserve.owner.to_owned(),
        size: reserve.bytes,
        created: now,
        used: now,
    };
    Ok(core.store.insert_replica(replica)?)
}

/// What an object is reserved for.
pub(crate) struct Reserve<'a> {
    pub(crate) file: FileId,
    pub(crate) owner: &'a str,
    /// Expected size.
    pub(crate) bytes: u64,
    pub(crate) state: ReplicaState,
    /// The partition on which it must be; `None`: the best one.
    pub(crate) on: Option<&'a str>,
}

/// Most replicas dropped to make room for one object.
const VICTIMS_MAX: usize = 1000;

/// Evicts archived, unpinned replicas, least recently used first, until `bytes` fit on one partition.
///
/// The room exists once the disk server has deleted them; until then the write may still meet a full disk.
fn make_room(core: &mut Core, views: &[PartitionView], bytes: u64, now: Timestamp) -> Result<Option<String>> {
    for view in views.iter().filter(|view| view.is_available && view.pool == core.config.pool) {
        let candidates = core.store.evictable(&view.name, now, VICTIMS_MAX)?;
        let missing = bytes.saturating_sub(view.free_bytes);
        if let Some(victims) = place::victims(&candidates, missing) {
            for victim in victims {
                retire(core, victim)?;
            }
            return Ok(Some(view.name.clone()));
        }
    }
    Ok(None)
}

/// Gives a replica to the disk server for deletion; with it ends what its owner pays for it.
pub(crate) fn retire(core: &mut Core, replica: &Replica) -> Result<()> {
    core.store.remove_replica(replica)?;
    core.touch(Topic::Removals);
    core.touch(Topic::Files);
    Ok(())
}

/// Drops replicas and copies of a file, because it is removed or has new content, which is in the object `keep`.
///
/// Its recall ends with them. Its archive request stays: it means the file, whatever is in it.
pub(crate) fn drop_content(core: &mut Core, file: FileId, keep: Option<ObjectId>) -> Result<()> {
    let Some(node) = core.store.node(file)? else { return Ok(()) };
    for replica in node.replicas.iter().filter(|replica| Some(replica.object) != keep) {
        retire(core, replica)?;
    }
    if !node.is_archived {
        // Without a copy nobody can have asked for a recall.
        return Ok(());
    }
    core.store.delete_copies(file)?;
    if let Some(recall) = core.store.request_of(RequestKind::Recall, file)? {
        core.store.delete_request(recall.id)?;
        core.touch(Topic::Tape);
    }
    Ok(())
}
