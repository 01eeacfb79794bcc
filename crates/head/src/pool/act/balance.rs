//! Balancing, carried out: partitions that are too full are gone through, some files at a time, and what [`crate::pool::decide::balance`]
//! wants to move is copied. What is then too much is deleted by [`crate::pool::decide::surplus`].

use crate::{
    Core,
    pool::{
        act::{
            copies_under_way::{begin, under_way},
            snapshot::{file_view, pool_of, snapshot},
        },
        decide::{
            balance::{Overfull, balance, overfull},
            budget::{Budget, Reason},
            view::{FileView, Snapshot},
        },
    },
    store::WalkPosition,
};
use base::{Failure, Millis, ObjectId, Result, Timestamp};
use std::collections::BTreeSet;

/// Files that are looked at for each pool in one call.
const PAGE_LEN: usize = 64;
/// A partition of which no file could move is gone through again after this, one from which a copy failed too.
const REST: Millis = Millis::from_seconds(60);

/// Position of balancing in a partition. It begins with the least recently used files, which are not in use now.
#[derive(Debug, Clone)]
pub(crate) struct BalanceCursor {
    after: WalkPosition,
    /// A file of it was to move.
    has_moved: bool,
    rest_until: Timestamp,
}

impl Default for BalanceCursor {
    fn default() -> Self {
        Self { after: WalkPosition::START, has_moved: false, rest_until: Timestamp(0) }
    }
}

/// Begins moves in all pools, as far as their bounds allow.
pub(in crate::pool) fn begin_moves(core: &mut Core, now: Timestamp) -> Result<()> {
    let pools: BTreeSet<String> =
        core.store.map_partitions(|(_, row)| Some(row.pool.clone()))?.into_iter().collect();
    for pool in pools {
        let snapshot = snapshot(core, &pool, now)?;
        let is_even = overfull(&snapshot, &Budget::new(&snapshot.pool)).is_empty();
        // What is moved and not deleted would fill the pool.
        if !is_even && core.unsettled()?.is_none() {
            begin_in(core, &snapshot)?;
        }
    }
    Ok(())
}

fn begin_in(core: &mut Core, snapshot: &Snapshot) -> Result<()> {
    let mut budget = Budget::with(&snapshot.pool, &under_way(core, snapshot)?);
    if !budget.allows_in_pool(Reason::Balance, 1) {
        return Ok(());
    }
    let over = overfull(snapshot, &budget);
    let Some(from) = over.iter().find(|over| may_give(core, snapshot, &budget, over)) else { return Ok(()) };
    let name = from.partition.to_string();
    let mut walk = core.live.maintenance.walks.get(&name).cloned().unwrap_or_default();
    let page = core.store.files_by_use(&name, walk.after, PAGE_LEN)?;
    let files = views(core, snapshot, &page)?;
    // As long as files of a page move, the bounds may have left some of them behind: the next page comes later.
    let orders = balance(snapshot, &files, &mut budget, snapshot.now.0.unsigned_abs());
    for order in &orders {
        begin(core, order, snapshot.now)?;
    }
    walk.has_moved |= !orders.is_empty();
    if orders.is_empty() && !waits_for_bounds(snapshot, &files) {
        match page.last() {
            Some((last, _)) if page.len() == PAGE_LEN => walk.after = *last,
            _ => {
                let rest = if walk.has_moved { Millis(0) } else { REST };
                walk = BalanceCursor { rest_until: snapshot.now + rest, ..BalanceCursor::default() };
            }
        }
    }
    core.live.maintenance.walks.insert(name, walk);
    Ok(())
}

/// Whether files would move if nothing were under way: then their turn comes.
fn waits_for_bounds(snapshot: &Snapshot, files: &[FileView]) -> bool {
    !balance(snapshot, files, &mut Budget::new(&snapshot.pool), 0).is_empty()
}

/// Whether a partition may give something now.
fn may_give(core: &Core, snapshot: &Snapshot, budget: &Budget, over: &Overfull) -> bool {
    let rests =
        core.live.maintenance.walks.get(&*over.partition).is_some_and(|walk| snapshot.now < walk.rest_until);
    let server = snapshot.partition(&over.partition).map(|at| &at.server);
    !rests && server.is_some_and(|server| budget.allows_at(Reason::Balance, server, 1))
}

/// The files of a page, as far as they are in this pool.
fn views(core: &Core, snapshot: &Snapshot, page: &[(WalkPosition, base::FileId)]) -> Result<Vec<FileView>> {
    let mut files = Vec::new();
    for (_, file) in page {
        if core.store.noted_use(*file).is_some() {
            // It does not stand yet where it belongs.
            continue;
        }
        let node = core.store.node(*file)?.filter(|node| node.checksums.is_some());
        if let Some(node) = node
            && pool_of(core, &node)?.as_deref() == Some(&snapshot.pool.name)
        {
            files.push(file_view(core, snapshot, &node));
        }
    }
    Ok(files)
}

/// A copy has failed: if it was to relieve a partition, that one is left alone for a while.
pub(in crate::pool) fn rest_after(core: &mut Core, copy: ObjectId, now: Timestamp) {
    let maintenance = &mut core.live.maintenance;
    if let Some(partition) = maintenance.copy(copy).and_then(|order| order.relieves.clone()) {
        maintenance.walks.insert(
            partition.to_string(),
            BalanceCursor { rest_until: now + REST, ..BalanceCursor::default() },
        );
    }
}

/// The bytes to move until a pool is balanced.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Imbalance {
    /// Bytes that are on their way or not begun.
    pub(crate) bytes: u64,
    /// Moves under way, for whatever reason.
    pub(crate) moves: u64,
}

/// Returns the imbalance of a pool.
pub(crate) fn uneven(core: &Core, pool: &str, now: Timestamp) -> Result<Imbalance, Failure> {
    let snapshot = snapshot(core, pool, now)?;
    let over = overfull(&snapshot, &Budget::new(&snapshot.pool));
    let moves = under_way(core, &snapshot)?.iter().filter(|order| !order.reason.is_repair()).count();
    Ok(Imbalance { bytes: over.iter().map(|over| over.excess_bytes).sum(), moves: moves as u64 })
}
