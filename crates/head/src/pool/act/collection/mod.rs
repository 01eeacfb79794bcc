//! Garbage collection in small steps: by the water marks of pools, and on request.
//!
//! A *plan* is made for each partition that needs space. The head first gathers candidates, page by page. When the turn
//! of a candidate comes, the head checks its present state, and evicts it. [`crate::pool::decide::collection`] makes
//! all decisions.

mod asked;

use crate::{
    Core, Topic,
    namespace::path_of,
    pool::{
        act::{
            gather::Gather,
            snapshot::{self, file_view, pool_of},
        },
        decide::{
            collection::{Shortage, collect, shortages},
            view::{FileView, Snapshot},
        },
        evict,
    },
    store::Node,
    trash,
};
use base::{FileId, Millis, Result, Timestamp, units::human_bytes};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};
use tracing::{info, warn};
use wire::control::{CollectedFile, Collection, EventType};

/// Replicas that are looked at in one step: about a millisecond.
const PAGE_LEN: usize = 256;
/// Files that go in one step.
const TURN_LEN: usize = 16;
/// A partition of which nothing may go is looked at again after this: something may have been archived.
const REST: Millis = Millis::from_seconds(60);
/// A person who asks goes on within this time, or begins again.
const PATIENCE: Millis = Millis::from_seconds(120);

/// The reason for a collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Purpose {
    /// Less is free than the low water.
    Water,
    /// A person wants it.
    Person,
    /// A person wants to see what would go.
    Look,
}

/// The files to evict from a partition.
#[derive(Debug)]
pub(crate) struct Plan {
    pool: String,
    /// The policy, as it was then.
    policy: Collection,
    gather: Gather,
    wanted: u64,
    /// Bytes of it that are not found yet.
    missing: u64,
    /// The evicted files.
    files: u64,
    bytes: u64,
    touched: Timestamp,
}

/// Nothing more could go.
#[derive(Debug)]
pub(crate) struct CollectionPause {
    pub(in crate::pool) missing: u64,
    until: Timestamp,
}

impl Plan {
    fn new(snapshot: &Snapshot, policy: Collection, wanted: u64) -> Self {
        let (pool, touched) = (snapshot.pool.name.clone(), snapshot.now);
        let gather = Gather::new(policy.order, wanted);
        Self { pool, policy, gather, wanted, missing: wanted, files: 0, bytes: 0, touched }
    }

    /// Bytes that are still to be found.
    pub(in crate::pool) fn missing(&self) -> u64 {
        self.missing
    }
}

type Key = (String, Purpose);

/// A pool as it is now; what was deleted a moment ago counts as still leaving.
fn snapshot(core: &Core, pool: &str, now: Timestamp) -> Result<Snapshot> {
    let mut snapshot = snapshot::snapshot(core, pool, now)?;
    for partition in snapshot.partitions_mut() {
        partition.leaving_bytes += core.live.maintenance.freed_bytes(&partition.name, now);
    }
    Ok(snapshot)
}

/// Does a small part of what is to be collected. Yields whether there is more.
pub(in crate::pool) fn collect_some(core: &mut Core, now: Timestamp) -> Result<bool> {
    core.live
        .maintenance
        .plans
        .retain(|(_, purpose), plan| *purpose == Purpose::Water || now - plan.touched <= PATIENCE);
    if core.unsettled()?.is_some() {
        // Nothing is deleted now.
        return Ok(false);
    }
    begin_by_water(core, now)?;
    let is_to_do = |(key, plan): &(&Key, &Plan)| key.1 == Purpose::Water || plan.gather.next().is_some();
    let Some(key) = core.live.maintenance.plans.iter().find(is_to_do).map(|(key, _)| key.clone()) else {
        return Ok(false);
    };
    if !gather(core, &key, now)? && key.1 == Purpose::Water {
        turn(core, &key, now)?;
        end_if_over(core, &key, now)?;
    }
    Ok(true)
}

/// Plans for partitions of which less is free than the low water.
fn begin_by_water(core: &mut Core, now: Timestamp) -> Result<()> {
    let pools: BTreeSet<String> =
        core.store.map_partitions(|(_, row)| Some(row.pool.clone()))?.into_iter().collect();
    let mut short = BTreeSet::new();
    for pool in pools {
        let Some(policy) = core.store.policy(&pool)?.collection else { continue };
        let snapshot = snapshot(core, &pool, now)?;
        for Shortage { partition, bytes } in shortages(&snapshot) {
            let name = partition.to_string();
            // What somebody removed goes before what somebody may want; what leaves counts as free from then on.
            if trash::make_room(core, &name, bytes)? > 0 {
                continue;
            }
            let maintenance = &mut core.live.maintenance;
            let is_resting = maintenance.rests.get(&name).is_some_and(|rest| now < rest.until);
            if !is_resting {
                maintenance
                    .plans
                    .entry((name.clone(), Purpose::Water))
                    .or_insert_with(|| Plan::new(&snapshot, policy, bytes));
            }
            short.insert(name);
        }
    }
    core.live.maintenance.rests.retain(|partition, _| short.contains(partition));
    Ok(())
}

/// Looks for candidates. Yields whether there was something to look at.
fn gather(core: &mut Core, key: &Key, now: Timestamp) -> Result<bool> {
    let Some(plan) = core.live.maintenance.plans.get(key) else { return Ok(false) };
    let Some(after) = plan.gather.next() else { return Ok(false) };
    let until = Timestamp(now.0.saturating_sub(plan.policy.age_min.0));
    let page = core.store.candidates(&key.0, after, (until, now), PAGE_LEN)?;
    if let Some(plan) = core.live.maintenance.plans.get_mut(key) {
        plan.gather.see(&page, page.len() < PAGE_LEN);
        if plan.gather.next().is_none() {
            core.touch(Topic::Removals);
        }
    }
    Ok(true)
}

/// Those whose turn it is go, if they still may.
fn turn(core: &mut Core, key: &Key, now: Timestamp) -> Result<Vec<CollectedFile>> {
    let Some(plan) = core.live.maintenance.plans.get_mut(key) else { return Ok(Vec::new()) };
    let (pool, policy, missing) = (plan.pool.clone(), plan.policy, plan.missing);
    let turn = plan.gather.take(TURN_LEN);
    let mut snapshot = snapshot(core, &pool, now)?;
    snapshot.pool.collection = Some(policy);
    let (mut views, mut nodes) = (Vec::new(), BTreeMap::new());
    for file in turn {
        if let Some((view, node)) = collectable(core, &snapshot, file)? {
            views.push(view);
            nodes.insert(file, node);
        }
    }
    let shortage = Shortage { partition: key.0.as_str().into(), bytes: missing };
    let mut gone = Vec::new();
    for node in collect(&snapshot, &views, &[shortage]).iter().filter_map(|file| nodes.get(file)) {
        gone.push(go(core, node, key)?);
    }
    if let Some(plan) = core.live.maintenance.plans.get_mut(key) {
        let bytes: u64 = gone.iter().map(|file| file.bytes).sum();
        plan.missing = plan.missing.saturating_sub(bytes);
        plan.files += gone.len() as u64;
        plan.bytes += bytes;
    }
    Ok(gone)
}

/// A file as it is now, with all that keeps it.
fn collectable(core: &Core, snapshot: &Snapshot, file: FileId) -> Result<Option<(FileView, Arc<Node>)>> {
    let Some(node) = core.store.node(file)?.filter(|node| node.checksums.is_some()) else { return Ok(None) };
    if pool_of(core, &node)?.as_deref() != Some(&snapshot.pool.name) {
        return Ok(None);
    }
    let view = FileView {
        // Also what the tape room is about to read or to bring.
        is_pinned: !core.store.pins(file, snapshot.now)?.is_empty() || core.store.is_requested(file)?,
        tape_copies: if node.is_safe_on_tape() { core.store.good_copies(file)? } else { 0 },
        ..file_view(core, snapshot, &node)
    };
    Ok(Some((view, node)))
}

/// A file leaves the pool's disks, unless somebody only wants to see that.
fn go(core: &mut Core, node: &Node, (partition, purpose): &Key) -> Result<CollectedFile> {
    let settled = || node.replicas.iter().filter(|replica| replica.state.is_settled());
    let here = || settled().filter(|replica| replica.partition == *partition);
    let gone = CollectedFile {
        path: path_of(core, node.id)?,
        bytes: here().map(|replica| replica.size).sum(),
        modified: node.modified,
        used: core.store.last_use(node),
    };
    if *purpose != Purpose::Look {
        evict(core, node.id)?;
    }
    Ok(gone)
}

/// Ends a plan that has what it wants, or finds nothing more. Yields whether it did.
fn end_if_over(core: &mut Core, key: &Key, now: Timestamp) -> Result<bool> {
    let Some(plan) = core.live.maintenance.plans.get(key) else { return Ok(true) };
    if plan.missing > 0 && (plan.gather.next().is_some() || !plan.gather.is_empty()) {
        return Ok(false);
    }
    let Plan { missing, files, bytes, wanted, .. } = *plan;
    let (partition, purpose) = key;
    if missing > 0 && files > 0 && *purpose != Purpose::Look {
        // Only so many are kept in mind at a time.
        let (pool, policy) = (plan.pool.clone(), plan.policy);
        let snapshot = snapshot(core, &pool, now)?;
        let again = Plan { wanted, bytes, ..Plan::new(&snapshot, policy, missing) };
        core.live.maintenance.plans.insert(key.clone(), again);
        return Ok(false);
    }
    core.live.maintenance.plans.remove(key);
    if bytes > 0 && *purpose != Purpose::Look {
        info!(partition, bytes, missing, "evicted replicas to free space");
    }
    if missing > 0 && *purpose == Purpose::Water {
        let rest = CollectionPause { missing, until: now + REST };
        if core.live.maintenance.rests.insert(partition.clone(), rest).is_none() {
            let missing = human_bytes(missing);
            let subject = core.partition_subject(partition);
            let what = format!(
                "partition {subject} is {missing} above its high water, and no other file may be \
                evicted"
            );
            core.say(now, EventType::PartitionFull, subject, what);
            warn!(
                partition,
                missing, "the partition is above its pool's high water, and no other file may be evicted"
            );
        }
    }
    Ok(true)
}

/// Bytes that are being collected on a partition, and those for which nothing may go.
pub(crate) fn collecting_bytes(core: &Core, partition: &str) -> (u64, u64) {
    let plan =
        |purpose| core.live.maintenance.plans.get(&(partition.to_owned(), purpose)).map_or(0, Plan::missing);
    let stuck = core.live.maintenance.rests.get(partition).map_or(0, |rest| rest.missing);
    (plan(Purpose::Water).max(plan(Purpose::Person)), stuck)
}
