//! Copies in progress between disk servers, as they count against the limits of a pool.

use crate::{
    Core, Topic,
    pool::{
        act::{coded::new_piece, snapshot::file_view},
        decide::{
            budget::{CopyOrder, Reason},
            fetch::source,
            view::{PartitionView, PieceView, Snapshot},
        },
    },
    store::{Node, Replica, ReplicaState},
};
use base::{ObjectId, Result, Timestamp};

/// Begins a copy: its disk server asks for it.
pub(in crate::pool) fn begin(core: &mut Core, order: &CopyOrder, now: Timestamp) -> Result<()> {
    let Some(node) = core.store.node(order.file)? else { return Ok(()) };
    let piece = node.coding().and_then(|_| new_piece(&node, order.index));
    let owner = node.online().next().map_or_else(|| node.owner.clone(), |replica| replica.owner.clone());
    let replica = core.store.insert_replica(Replica {
        object: ObjectId(0),
        file: order.file,
        partition: order.target.to_string(),
        state: ReplicaState::Copying,
        owner,
        size: order.size_bytes,
        created: now,
        used: now,
        piece,
    })?;
    core.live.maintenance.note_copy(replica.object, order);
    core.touch(Topic::Copies);
    Ok(())
}

/// Copies under way in a pool, with what they are made from.
pub(in crate::pool) fn under_way(core: &Core, snapshot: &Snapshot) -> Result<Vec<CopyOrder>> {
    let mut orders = Vec::new();
    for replica in core.store.copying()? {
        let Some(target) = snapshot.partition(&replica.partition) else { continue };
        match (core.live.maintenance.copy(replica.object), core.store.node(replica.file)?) {
            (Some(order), _) => orders.push(order.clone()),
            (None, Some(node)) => orders.push(guessed(core, snapshot, (&replica, target), &node)),
            (None, None) => {}
        }
    }
    Ok(orders)
}

/// An order that was given before the head was started: why, and from what, as it would be given now.
fn guessed(
    core: &Core,
    snapshot: &Snapshot,
    (copy, target): (&Replica, &PartitionView),
    node: &Node,
) -> CopyOrder {
    let view = file_view(core, snapshot, node);
    let good = || view.pieces.iter().filter(|piece| piece.object != copy.object && snapshot.is_good(piece));
    let reason = if good().count() < usize::from(view.layout.pieces()) {
        Reason::Repair
    } else if good().any(|piece| snapshot.is_leaving(piece)) {
        Reason::Drain
    } else {
        Reason::Balance
    };
    let fill = |piece: &&PieceView| snapshot.partition(&piece.partition).map_or(0.0, PartitionView::fill);
    let index = copy.piece.map_or(0, |piece| piece.index);
    let like = good().find(|piece| piece.index == index);
    let others = good().take(usize::from(view.layout.needed()));
    let sources: Vec<_> = like.map_or_else(|| others.collect(), |like| vec![like]);
    let fullest = good().max_by(|a, b| fill(a).total_cmp(&fill(b)));
    CopyOrder {
        file: copy.file,
        index,
        size_bytes: copy.size,
        sources: sources.into_iter().filter_map(|piece| source(snapshot, piece)).collect(),
        target: target.name.clone(),
        target_server: target.server.clone(),
        reason,
        relieves: fullest.filter(|_| reason == Reason::Balance).map(|piece| piece.partition.clone()),
    }
}

/// The replica that the plan of a copy means to read, or a piece like the one that is to come, if it still can be read.
pub(in crate::pool) fn planned_source(
    core: &Core,
    copy: &Replica,
    node: &Node,
    now: Timestamp,
) -> Result<Option<Replica>> {
    let index = |replica: &Replica| replica.piece.map(|piece| piece.index);
    let planned = core.live.maintenance.copy(copy.object).and_then(|order| order.sources.first());
    let planned = planned.map(|source| source.object);
    let is_meant = |replica: &&Replica| {
        index(replica) == index(copy) && (copy.piece.is_some() || Some(replica.object) == planned)
    };
    for replica in node.online().filter(is_meant) {
        let Some(partition) = core.store.partition(&replica.partition)? else { continue };
        if partition.given_up.is_none() && core.is_available(&replica.partition, &partition, now)? {
            return Ok(Some(replica.clone()));
        }
    }
    Ok(None)
}
