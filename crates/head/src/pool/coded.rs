//! Coded files: who serves them, where their pieces are, which of them are damaged.

use super::{
    catalogue::{pieces, snapshot},
    reading::{Reader, readable},
    tend::mend,
    view::Snapshot,
};
use crate::{
    Apply, Context, Core, Topic,
    core::{CapFor, unknown_partition},
    namespace::path_of,
    store::{Node, Piece, Replica, ReplicaState},
};
use base::{Failure, ObjectId, Result, Timestamp};
use std::cmp::Reverse;
use tracing::warn;
use wire::{
    cap::Access,
    control::{Coding, Done, GetPieces, PIECES_MAX, PiecePlace, Pieces, ReportDamage},
};

/// Bytes of a full cell: what is read at least of a piece, and what one damaged byte costs.
pub(crate) const CELL_BYTES: u32 = 256 << 10;

/// The pool in which the pieces of a file are, as it is now.
fn pool_snapshot(core: &Core, node: &Node, now: Timestamp) -> Result<Snapshot> {
    let first = node.online().find(|replica| replica.piece.is_some());
    let partition = first.map(|first| core.store.partition(&first.partition)).transpose()?.flatten();
    snapshot(core, partition.as_ref().map_or(&core.config.pool, |partition| &partition.pool), now)
}

/// Pieces that can be read, by index of the first; those that answer before those that are silent, else as given.
fn in_order<'a>(node: &'a Node, best: &[ObjectId]) -> Vec<&'a Replica> {
    let rank =
        |replica: &&Replica| best.iter().position(|best| *best == replica.object).unwrap_or(best.len());
    let mut all: Vec<_> = node.online().filter(|replica| replica.piece.is_some()).collect();
    all.sort_by_key(rank);
    all
}

/// The piece whose disk server is to serve a coded file: one that answers, with content rather than parity.
///
/// `None`: too few of them answer, and the file is on tape.
pub(super) fn gateway(
    core: &Core,
    node: &Node,
    coding: Coding,
    chance: u64,
    now: Timestamp,
) -> Result<Option<Replica>> {
    if node.pieces_online() < usize::from(coding.data) {
        return Ok(None);
    }
    let snapshot = pool_snapshot(core, node, now)?;
    let views = pieces(core, node);
    let best: Vec<_> =
        readable(&snapshot, &views, Reader::default(), chance).iter().map(|piece| piece.object).collect();
    let order = in_order(node, &best);
    let answers = |replica: &&&Replica| best.contains(&replica.object);
    let mut answering: Vec<_> =
        order.iter().filter(answers).filter_map(|replica| replica.piece.map(|piece| piece.index)).collect();
    answering.sort_unstable();
    answering.dedup();
    // Silent is not away: the client will see. But what is on tape need not be waited for.
    if answering.len() < usize::from(coding.data) && node.is_archived {
        return Ok(None);
    }
    let is_parity = |replica: &Replica| replica.piece.is_some_and(|piece| piece.index >= coding.data);
    let chosen =
        order.iter().min_by_key(|replica| (Reverse(best.contains(&replica.object)), is_parity(replica)));
    Ok(chosen.map(|replica| (*replica).clone()))
}

/// Where the pieces of a file are, but for one that is to be made.
pub(super) fn pieces_of(
    core: &Core,
    node: &Node,
    except: Option<u8>,
    now: Timestamp,
) -> Result<Option<Pieces>> {
    let (Some(coding), Some(checksums)) = (node.coding(), node.checksums) else { return Ok(None) };
    let snapshot = pool_snapshot(core, node, now)?;
    let views = pieces(core, node);
    let best: Vec<_> = readable(&snapshot, &views, Reader::default(), now.0.unsigned_abs())
        .iter()
        .map(|piece| piece.object)
        .collect();
    let (path, mut places, mut cell_bytes) = (path_of(core, node.id)?, Vec::new(), CELL_BYTES);
    // Last those that were given up: one damaged cell says nothing of the others, and each is checked.
    let given_up = node.replicas.iter().filter(|replica| replica.state == ReplicaState::Lost);
    for replica in in_order(node, &best).into_iter().chain(given_up) {
        let Some(piece) = replica.piece.filter(|piece| Some(piece.index) != except) else { continue };
        cell_bytes = piece.cell_bytes;
        let cap = CapFor { access: Access::Read, replica, file: node, path: &path };
        let (object, partition) = (replica.object, replica.partition.clone());
        places.push(PiecePlace { index: piece.index, object, partition, url: core.object_url(&cap, now)? });
    }
    let (file, generation, size, modified) = (node.id, node.generation, node.size, node.modified);
    Ok(Some(Pieces { file, generation, size, checksums, modified, coding, cell_bytes, places }))
}

/// What a new piece of a file is: as the others are, with the sums that an earlier one of its index had.
pub(super) fn new_piece(node: &Node, index: u8) -> Option<Piece> {
    let content = || node.replicas.iter().filter(|replica| replica.state.is_content());
    let known = || content().filter_map(|replica| replica.piece);
    let same = known().find(|piece| piece.index == index && piece.checksums.is_some());
    same.or_else(|| known().next().map(|piece| Piece { index, checksums: None, ..piece }))
}

/// Whether a file can be read without an object of it: a piece is only missed by those that answer now.
fn is_safe_without(core: &Core, node: &Node, replica: &Replica, now: Timestamp) -> Result<bool> {
    let mut others = node.online().filter(|other| other.object != replica.object);
    let Some(piece) = replica.piece else { return Ok(others.any(|other| other.piece.is_none())) };
    let snapshot = pool_snapshot(core, node, now)?;
    let views = pieces(core, node);
    let good = views.iter().filter(|view| view.object != replica.object && snapshot.is_good(view));
    let mut indices: Vec<_> = good.map(|view| view.index).collect();
    indices.sort_unstable();
    indices.dedup();
    Ok(indices.len() >= usize::from(piece.coding.data))
}

/// What is damaged or missing does not count any more, if the file is safe without it. Yields whether it counted.
pub(super) fn give_up_object(core: &mut Core, object: ObjectId, now: Timestamp) -> Result<bool> {
    let Some(replica) = core.store.replica(object)?.filter(|replica| replica.state == ReplicaState::Online)
    else {
        return Ok(false);
    };
    let Some(node) = core.store.node(replica.file)? else { return Ok(false) };
    let is_safe = is_safe_without(core, &node, &replica, now)?;
    if is_safe {
        core.store.set_replica_state(object, ReplicaState::Lost)?;
        core.touch(Topic::Files);
    }
    Ok(is_safe)
}

impl Apply for GetPieces {
    fn apply(self, core: &mut Core, context: &Context) -> Result<Pieces> {
        if context.who.as_host().is_some() {
            // Another host must show by what right.
            check(core, context, &self)?;
        }
        let node = core.store.node(self.file)?.ok_or_else(|| gone(&self))?;
        pieces_of(core, &node, None, context.now)?.ok_or_else(|| gone(&self))
    }
}

fn gone(asked: &GetPieces) -> Failure {
    Failure::not_found(format!("file {} has no pieces any more", asked.file)).hint("open it again")
}

/// Refuses what is no right to gather this file, given to a reader for a partition of the host that asks.
fn check(core: &Core, context: &Context, asked: &GetPieces) -> Result<()> {
    let partitions =
        core.store.map_partitions(|(name, row)| Some((name.clone(), row.server.name.clone())))?;
    let mut own = partitions.into_iter().filter(|(_, server)| context.who.require_host(server).is_ok());
    // Its key is its own: a host could sign anything. It may ask for what it has a part of.
    let node = core.store.node(asked.file)?.ok_or_else(|| gone(asked))?;
    let has = |object: ObjectId, partition: &str| {
        let is_it = |own: &&Replica| own.object == object && own.partition == partition;
        node.replicas.iter().find(is_it).is_some_and(|own| own.piece.is_some())
    };
    let is_right = |(partition, server): (String, String)| {
        let signed = asked.capability.as_deref().unwrap_or_default();
        let cap = core.config.keys.of(&server).verify(signed, context.now);
        cap.is_ok_and(|cap| {
            let is_of_file =
                cap.file == asked.file && cap.partition == partition && has(cap.object, &partition);
            cap.access == Access::Gather && is_of_file
        })
    };
    if own.any(is_right) {
        return Ok(());
    }
    Err(Failure::permission(format!("no right to gather file {} was shown", asked.file))
        .hint("open the file again"))
}

impl Apply for ReportDamage {
    fn apply(self, core: &mut Core, context: &Context) -> Result<Done> {
        if self.objects.len() > usize::from(PIECES_MAX) {
            return Err(Failure::invalid(format!("{} pieces are too many at once", self.objects.len())));
        }
        let Some(node) = core.store.node(self.file)? else { return Ok(Done {}) };
        // Whoever has no piece of it was not asked to read it.
        let (mut has_piece, mut own) = (false, Vec::new());
        for replica in &node.replicas {
            let partition = core.store.partition(&replica.partition)?;
            let partition = partition.ok_or_else(|| unknown_partition(&replica.partition))?;
            if context.who.require_host(&partition.server.name).is_ok() {
                has_piece |= replica.piece.is_some();
                own.push(replica.object);
            }
        }
        for object in self.objects {
            let Some(damaged) = node.online().find(|replica| replica.object == object) else { continue };
            let may_tell = own.contains(&object) || has_piece && damaged.piece.is_some();
            if !may_tell {
                return Err(Failure::permission(format!("file {} is not read through this host", self.file)));
            }
            let (partition, file) = (&damaged.partition, self.file);
            if give_up_object(core, object, context.now)? {
                warn!(partition, %file, %object, "an object is damaged: it is made anew from others");
            } else {
                warn!(partition, %file, %object, "an object is damaged, and nothing else has its content");
            }
        }
        mend(core, self.file, context.now)?;
        Ok(Done {})
    }
}
