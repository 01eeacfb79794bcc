//! Where the objects of a file lie that changes in place.
//!
//! In a pool of copies there are as many as the pool promises; in a coded one as many as losses that its code bears, plus one. So many
//! as must be durable before a write counts are the least that a file goes on with.

use crate::{
    Core,
    pool::{
        Reserve,
        act::{
            copies::source, mirror::pool_of_partition, out_of_reach::within_reach, snapshot::snapshot,
            space::unknown_bytes,
        },
        choose_partition,
        decide::{
            placement::{PlacementRequest, Purpose, place},
            promise::promised_pieces,
            view::Layout,
        },
    },
    store::{Node, Replica, ReplicaState},
};
use base::{ErrorKind, Result, Timestamp};
use wire::control::Pool;

/// What is to be placed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LiveWish<'a> {
    /// The file, which has no bytes yet.
    pub(crate) node: &'a Node,
    /// The pool.
    pub(crate) pool: &'a str,
    /// Copies of each column, and the fewest that will do.
    pub(crate) copies: (u8, u8),
    /// Columns.
    pub(crate) width: u8,
}

/// Copies of a live file in a pool, and the fewest with which a write to it counts.
pub(crate) fn live_promise(pool: &Pool) -> (u8, u8) {
    match Layout::of(pool) {
        layout @ Layout::Copies(copies) => (copies.max(1), promised_pieces(pool, layout)),
        Layout::Coded(coding) => (coding.parity + 1, coding.parity.max(1)),
    }
}

/// The pool of a live object.
pub(crate) fn pool_of_live(core: &Core, partition: &str) -> Result<std::sync::Arc<Pool>> {
    pool_of_partition(core, partition)
}

/// Chooses partitions, apart from each other: as many as columns or copies of one are wanted, whichever is more, or fewer if there
/// are no more.
pub(crate) fn live_partitions(core: &mut Core, wish: &LiveWish<'_>, now: Timestamp) -> Result<Vec<String>> {
    let (copies, copies_min) = wish.copies;
    let pieces = copies.max(wish.width);
    if pieces > 1 {
        let snapshot = snapshot(core, wish.pool, now)?;
        let random = wish.node.id.0 ^ now.0.unsigned_abs();
        let request = |bytes| PlacementRequest {
            pieces,
            pieces_min: copies_min,
            bytes,
            beside: &[],
            purpose: Purpose::Write,
        };
        let placed = place(&snapshot, &request(unknown_bytes(snapshot.partitions())), random);
        match placed.or_else(|_| place(&snapshot, &request(0), random)) {
            Ok(placed) => return Ok(placed.partitions.iter().map(ToString::to_string).collect()),
            // What can be evicted makes room for one.
            Err(failure) if failure.kind == ErrorKind::NoSpace && copies_min <= 1 => {}
            Err(failure) => return Err(failure),
        }
    }
    let reserve = Reserve {
        file: wish.node.id,
        owner: &wish.node.owner,
        bytes: 0,
        state: ReplicaState::Writing,
        on: None,
        pool: Some(wish.pool),
    };
    Ok(vec![choose_partition(core, &reserve, now)?])
}

/// Whole replicas of a file that can be read now, the best first; of a coded file the piece that stands for it.
pub(crate) fn whole_replicas(core: &Core, node: &Node, chance: u64, now: Timestamp) -> Result<Vec<Replica>> {
    let Some(first) = source(core, node, chance, now)? else { return Ok(Vec::new()) };
    if first.piece.is_some() {
        return Ok(vec![first]);
    }
    let is_other = |replica: &&Replica| replica.piece.is_none() && replica.object != first.object;
    let mut all = vec![first.clone()];
    for other in within_reach(core, node.online().filter(is_other)) {
        if !is_away(core, &other.partition, now)? {
            all.push(other.clone());
        }
    }
    Ok(all)
}

/// Whether the disk server of a partition does not answer.
pub(crate) fn is_away(core: &Core, partition: &str, now: Timestamp) -> Result<bool> {
    let row = core.store.partition(partition)?;
    row.map_or(Ok(true), |row| core.is_available(partition, &row, now).map(|is_available| !is_available))
}
