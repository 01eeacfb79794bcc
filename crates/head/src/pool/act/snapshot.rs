//! Copies the state of a pool from the catalogue into the plain values that decisions use.

use crate::{
    Core,
    pool::{
        act::space::incoming_bytes,
        decide::view::{FileView, Layout, PartitionView, PieceState, PieceView, Snapshot},
    },
    store::{HostLabels, Node, Partition, Replica, ReplicaState},
};
use base::{Result, Timestamp};
use std::sync::Arc;
use wire::control::{FailureDomain, PartitionState, PartitionTrouble, Pool};

/// Of a pool as it is now the partitions that hold a file: all that counts for who reads it.
pub(crate) fn snapshot_around(core: &Core, node: &Node, pool: &str, now: Timestamp) -> Result<Snapshot> {
    let (policy, labels) = (core.store.policy(pool)?, core.store.host_labels()?);
    let mut views: Vec<PartitionView> = Vec::with_capacity(node.replicas.len());
    for name in node.replicas.iter().map(|replica| &replica.partition) {
        if let Some(partition) = core.store.partition(name)? {
            views.push(partition_view(core, (name, &partition), (&policy, &labels), now));
        }
    }
    Ok(Snapshot::new((*policy).clone(), views, now))
}

/// A pool as it is now.
pub(crate) fn snapshot(core: &Core, pool: &str, now: Timestamp) -> Result<Snapshot> {
    let (policy, labels) = (core.store.policy(pool)?, core.store.host_labels()?);
    let views = core.store.map_partitions(|(name, partition)| {
        (partition.pool == pool).then(|| partition_view(core, (name, partition), (&policy, &labels), now))
    })?;
    Ok(Snapshot::new((*policy).clone(), views, now))
}

fn partition_view(
    core: &Core,
    (name, row): (&str, &Partition),
    (pool, labels): (&Pool, &HostLabels),
    now: Timestamp,
) -> PartitionView {
    let server: Arc<str> = row.server.name.as_str().into();
    let is_read_only = core.trouble(name) == Some(PartitionTrouble::ReadOnly);
    PartitionView {
        name: name.into(),
        domain: domain(pool, labels, &row.server.name).into(),
        server,
        pool: row.pool.as_str().into(),
        capacity_bytes: row.capacity_bytes(),
        over_bytes: row.over_bytes(),
        free_bytes: row.free_bytes(),
        incoming_bytes: incoming_bytes(core, name, row),
        leaving_bytes: row.leaving,
        busy: core.transfers(name),
        state: if is_read_only && row.state == PartitionState::InUse {
            PartitionState::ReadOnly
        } else {
            row.state
        },
        heard: core.heard(name, row, pool, now),
        is_avoided: core.live.avoided.get(&row.server.name).is_some_and(|until| now < *until),
        is_given_up: row.given_up.is_some(),
    }
}

/// What a server shares with others in a pool. One without the label that counts there stands alone.
pub(crate) fn domain(pool: &Pool, labels: &HostLabels, server: &str) -> String {
    let label = match &pool.failure_domain {
        FailureDomain::Server => None,
        FailureDomain::Label(name) => {
            labels.get(server).and_then(|own| own.get(name).map(|value| (name, value)))
        }
    };
    // No host has a name with an equals sign.
    label.map_or_else(|| server.to_owned(), |(name, value)| format!("{name}={value}"))
}

/// The pool that a file is in: where it can be read, else where it was.
pub(crate) fn pool_of(core: &Core, node: &Node) -> Result<Option<String>> {
    let standing = || node.replicas.iter().filter(|replica| replica.state.is_content());
    let first = node.online().next().or_else(|| standing().next());
    let Some(replica) = first else { return Ok(None) };
    Ok(core.store.partition(&replica.partition)?.map(|partition| partition.pool))
}

/// A file with all its pieces in the pool of `snapshot`.
pub(crate) fn file_view(core: &Core, snapshot: &Snapshot, node: &Node) -> FileView {
    FileView {
        file: node.id,
        layout: layout(&snapshot.pool, node),
        pieces: pieces(core, node),
        since: node.modified,
        created: node.modified,
        used: core.store.last_use(node),
        is_pinned: false,
        tape_copies: u32::from(node.is_archived),
    }
}

/// A coded file stays coded as it is, whatever its pool does with new ones; and so does one that has replicas.
///
/// A copy on tape counts as one of the copies that the pool promises; one replica is there as long as nobody evicts it.
fn layout(pool: &Pool, node: &Node) -> Layout {
    match node.coding() {
        Some(coding) => Layout::Coded(coding),
        None if node.is_archived => Layout::Copies(pool.copies.saturating_sub(1).max(1)),
        None => Layout::Copies(pool.copies),
    }
}

/// The pieces of the content that a file has now, or is to have again.
///
/// Between the registration of a disk server and the end of its report of objects nothing is deleted because of what it had.
pub(crate) fn pieces(core: &Core, node: &Node) -> Vec<PieceView> {
    let is_coded = node.coding().is_some();
    let replicas = node
        .replicas
        .iter()
        .filter(|replica| replica.state.is_content() && replica.piece.is_some() == is_coded);
    let view = |replica: &Replica| match core.live.object_reports.get(&replica.partition) {
        Some((_, begun))
            if replica.state == ReplicaState::Online && begun.is_none_or(|begun| replica.created < begun) =>
        {
            // It registers again in a moment, if it has to.
            let since = begun.unwrap_or(Timestamp(i64::MAX));
            PieceView { state: PieceState::Suspect, since, ..piece_view(replica) }
        }
        _ => piece_view(replica),
    };
    replicas.map(view).collect()
}

pub(crate) fn piece_view(replica: &Replica) -> PieceView {
    PieceView {
        object: replica.object,
        partition: replica.partition.as_str().into(),
        index: replica.piece.map_or(0, |piece| piece.index),
        state: match replica.state {
            ReplicaState::Online => PieceState::Verified,
            ReplicaState::Lost | ReplicaState::Damaged => PieceState::Lost,
            ReplicaState::Writing
            | ReplicaState::Reserved
            | ReplicaState::Mirroring
            | ReplicaState::Copying
            | ReplicaState::Recalling => PieceState::Coming,
        },
        size_bytes: replica.size,
        since: replica.created,
        verified: replica.created,
        is_pinned: false,
    }
}
