//! Coded files: which server serves them, where their pieces are, which pieces are damaged.

use crate::{
    Apply, Context, Core, Topic,
    executor::core::{CAP_LIFETIME, CapFor, GATHER_LIFETIME, unknown_partition},
    namespace::path_of,
    pool::{
        act::{
            copies::say_damaged,
            out_of_reach::within_reach,
            run_maintenance::{look, mend},
            snapshot::{pieces, snapshot_around},
        },
        decide::{
            promise::good_without,
            reading::{Reader, readable},
            view::Snapshot,
        },
    },
    store::{Node, Piece, Replica, ReplicaState},
};
use base::{Failure, ObjectId, Result, Timestamp};
use std::{cmp::Reverse, collections::BTreeSet};
use tracing::warn;
use wire::{
    auth::capability::Access,
    control::{Coding, Done, GetPieces, PIECES_MAX, PiecePlace, Pieces, ReportDamage},
};

/// The pool in which the pieces of a file are, as it is now.
fn snapshot_of(core: &Core, node: &Node, now: Timestamp) -> Result<Snapshot> {
    let first = node.online().find(|replica| replica.piece.is_some());
    let partition = first.map(|first| core.store.partition(&first.partition)).transpose()?.flatten();
    let pool = partition.as_ref().map_or(&core.config.pool, |partition| &partition.pool);
    snapshot_around(core, node, pool, now)
}

/// Pieces that can be read, by index of the first; those that answer before those that are silent, else as given.
fn in_order<'a>(node: &'a Node, best: &[ObjectId]) -> Vec<&'a Replica> {
    let rank =
        |replica: &&Replica| best.iter().position(|best| *best == replica.object).unwrap_or(best.len());
    let mut all: Vec<_> = node.online().filter(|replica| replica.piece.is_some()).collect();
    all.sort_by_key(rank);
    all
}

/// How many different pieces these are.
fn different<'a>(replicas: impl Iterator<Item = &'a Replica>) -> usize {
    let mut indices: Vec<_> = replicas.filter_map(|replica| Some(replica.piece?.index)).collect();
    indices.sort_unstable();
    indices.dedup();
    indices.len()
}

/// The piece whose disk server is to serve a coded file: its server answers, and it has content rather than parity.
///
/// `None` if too few pieces are left, without those on given-up servers, and the file is elsewhere too. Also `None` if
/// too few are on hosts of the facility.
pub(in crate::pool) fn gateway(
    core: &Core,
    node: &Node,
    coding: Coding,
    chance: u64,
    now: Timestamp,
) -> Result<Option<Replica>> {
    let within = within_reach(core, node.online());
    if different(within.iter().copied()) < usize::from(coding.data) {
        return Ok(None);
    }
    let snapshot = snapshot_of(core, node, now)?;
    let views = pieces(core, node);
    let best: Vec<_> =
        readable(&snapshot, &views, Reader::default(), chance).iter().map(|piece| piece.object).collect();
    let order = in_order(node, &best);
    let is_given_up = |replica: &Replica| {
        snapshot.partition(&replica.partition).is_some_and(|partition| partition.is_given_up)
    };
    let there = order.iter().filter(|replica| !is_given_up(replica));
    let there: BTreeSet<_> = there.filter_map(|replica| Some(replica.piece?.index)).collect();
    // Silent is not away: the client will see. But what is on tape, or in a replica too, need not be waited for.
    let is_elsewhere = node.is_archived || node.online().any(|replica| replica.piece.is_none());
    if there.len() < usize::from(coding.data) && is_elsewhere {
        return Ok(None);
    }
    let is_parity = |replica: &Replica| replica.piece.is_some_and(|piece| piece.index >= coding.data);
    let is_within = |replica: &&&Replica| within.iter().any(|one| one.object == replica.object);
    let chosen = order
        .iter()
        .filter(is_within)
        .min_by_key(|replica| (Reverse(best.contains(&replica.object)), is_parity(replica)));
    Ok(chosen.map(|replica| (*replica).clone()))
}

/// Where the pieces of a file are, but for one that is to be made.
pub(in crate::pool) fn pieces_of(
    core: &Core,
    node: &Node,
    except: Option<u8>,
    now: Timestamp,
) -> Result<Option<Pieces>> {
    let (Some(coding), Some(checksums)) = (node.coding(), node.checksums) else { return Ok(None) };
    let snapshot = snapshot_of(core, node, now)?;
    let views = pieces(core, node);
    let best: Vec<_> = readable(&snapshot, &views, Reader::default(), now.0.unsigned_abs())
        .iter()
        .map(|piece| piece.object)
        .collect();
    let lifetime = if except.is_some() { CAP_LIFETIME } else { GATHER_LIFETIME };
    let (path, mut places, mut cell_bytes) = (path_of(core, node.id)?, Vec::new(), 0);
    // Last those that were given up: one damaged cell says nothing of the others, and each is checked.
    let given_up = |replica: &&Replica| matches!(replica.state, ReplicaState::Lost | ReplicaState::Damaged);
    let given_up = node.replicas.iter().filter(given_up);
    for replica in in_order(node, &best).into_iter().chain(given_up) {
        let Some(piece) = replica.piece.filter(|piece| Some(piece.index) != except) else { continue };
        cell_bytes = piece.cell_bytes;
        let cap = CapFor { access: Access::Read, replica, file: node, path: &path, lifetime };
        let (object, partition) = (replica.object, replica.partition.clone());
        places.push(PiecePlace { index: piece.index, object, partition, url: core.object_url(&cap, now)? });
    }
    let (file, generation, size, modified) = (node.label(), node.generation, node.size, node.modified);
    Ok(Some(Pieces { file, generation, size, checksums, modified, coding, cell_bytes, places }))
}

/// What a new piece of a file is: as the others are, with the sums that an earlier one of its index had.
pub(in crate::pool) fn new_piece(node: &Node, index: u8) -> Option<Piece> {
    let content = || node.replicas.iter().filter(|replica| replica.state.is_content());
    let known = || content().filter_map(|replica| replica.piece);
    let same = known().find(|piece| piece.index == index && piece.checksums.is_some());
    same.or_else(|| known().next().map(|piece| Piece { index, checksums: None, ..piece }))
}

/// What is damaged, or cannot be found where it should be, does not count any more if the file can be read without it from servers
/// that answer, whatever its disk server says of it at its next start. Yields whether it counted.
pub(in crate::pool) fn give_up_object(core: &mut Core, object: ObjectId, now: Timestamp) -> Result<bool> {
    let Some(replica) = core.store.replica(object)?.filter(|replica| replica.state == ReplicaState::Online)
    else {
        return Ok(false);
    };
    let Some((snapshot, view, _)) = look(core, replica.file, now)? else { return Ok(false) };
    let (_, is_safe) = good_without(&snapshot, &view, object);
    if is_safe {
        core.store.set_replica_state(object, ReplicaState::Damaged)?;
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
    Failure::not_found(format!("file {} no longer has pieces", asked.file)).hint("open it again")
}

/// Refuses what is no right to gather this file, given to a reader for a piece on a partition of the host that asks.
fn check(core: &Core, context: &Context, asked: &GetPieces) -> Result<()> {
    let node = core.store.node(asked.file)?.ok_or_else(|| gone(asked))?;
    let refuse = |why: &str| {
        Err(Failure::permission(format!(
            "the request has no capability to gather file {}: {why}",
            asked.file
        ))
        .hint("open the file again"))
    };
    let shown = asked.capability.as_deref().unwrap_or_default();
    let cap = match core.config.keys.verify_shown(shown, context.now) {
        Ok(cap) => cap,
        Err(failure) => return refuse(&failure.what),
    };
    let is_own = core
        .store
        .partition(&cap.partition)?
        .is_some_and(|partition| context.who.require_host(&partition.server.name).is_ok());
    let is_piece =
        |own: &Replica| (own.object, &*own.partition) == (cap.object, &*cap.partition) && own.piece.is_some();
    if is_own && cap.file == asked.file && node.replicas.iter().any(is_piece) {
        return Ok(());
    }
    refuse("it is for another")
}

impl Apply for ReportDamage {
    fn apply(self, core: &mut Core, context: &Context) -> Result<Done> {
        if self.objects.len() > usize::from(PIECES_MAX) {
            return Err(Failure::invalid(format!("{} pieces are too many at once", self.objects.len())));
        }
        // Cells of what came back from the trash name the file that it was before: objects have one file only.
        let of_object = self.objects.first().map(|object| core.store.replica(*object)).transpose()?.flatten();
        let number = of_object.map_or(self.file, |replica| replica.file);
        let Some(node) = core.store.node(number)? else { return Ok(Done {}) };
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
                return Err(Failure::permission(format!(
                    "file {} cannot be read through this host",
                    self.file
                )));
            }
            let (partition, file) = (&damaged.partition, self.file);
            if give_up_object(core, object, context.now)? {
                warn!(partition, %file, %object, "an object is damaged; rebuilding it from other pieces");
                say_damaged(core, partition, object, context.now);
            } else {
                warn!(partition, %file, %object, "an object is damaged, and there is no other source for its content");
            }
        }
        mend(core, number, context.now)?;
        Ok(Done {})
    }
}
