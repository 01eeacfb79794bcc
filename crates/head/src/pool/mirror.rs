//! Mirrors and pieces of writes under way: placed when the size is known, filled by the disk server that has the object, counted
//! when it commits.

use super::{
    allocation,
    calls::being_written,
    catalogue::{piece_view, snapshot},
    coded::CELL_BYTES,
    placement::{Placed, Purpose, Wish, place},
    promise::promised_pieces,
    retire,
    view::{Layout, PartitionState, PieceState, Snapshot},
};
use crate::{
    Apply, Context, Core,
    core::CapFor,
    namespace::path_of,
    store::{Node, Piece, Replica, ReplicaState},
};
use base::{Failure, ObjectId, Result, Timestamp};
use std::collections::BTreeSet;
use wire::{
    cap::{Access, Content},
    coded::{Coded, Shape},
    control::{Coding, Cut, FailureDomain, FilledPiece, Mirror, Mirrors, PlaceMirrors, Pool},
    object,
};

impl Apply for PlaceMirrors {
    fn apply(self, core: &mut Core, context: &Context) -> Result<Mirrors> {
        let written = being_written(core, context, self.object)?;
        let node = core.store.node(written.file)?.ok_or_else(|| gone(self.object))?;
        if let Some(coding) = pool_of_partition(core, &written.partition)?.coding {
            return place_pieces(core, context, &self, (&node, &written), coding);
        }
        allocation::begin_mirrors(core, &node, self.size, context.now)?;
        let node = core.store.node(written.file)?.ok_or_else(|| gone(self.object))?;
        let (failed, standing): (Vec<_>, Vec<_>) =
            mirrors(&node).cloned().partition(|mirror| self.failed.contains(&mirror.object));
        for mirror in &failed {
            retire(core, mirror)?;
        }
        let mut placed = standing;
        for partition in wanted(core, context, &self, &written, (&placed, &failed))? {
            let state = ReplicaState::Mirroring;
            let mirror = Replica {
                object: ObjectId(0),
                partition,
                state,
                size: self.size,
                created: context.now,
                used: context.now,
                ..written.clone()
            };
            placed.push(core.store.insert_replica(mirror)?);
        }
        let content = Content { size: self.size, checksums: self.checksums };
        let path = path_of(core, node.id)?;
        let mirrors = placed.iter().map(|replica| {
            let cap = CapFor { access: Access::Fill, replica, file: &node, path: &path };
            let url = core.object_url_of(&cap, (written.object.0, Some(content)), context.now)?;
            Ok(Mirror { object: replica.object, url, index: 0 })
        });
        Ok(Mirrors { mirrors: mirrors.collect::<Result<_>>()?, cut: None })
    }
}

/// Places the pieces of a written object that have no place yet. All of them, or none: a coded file is acknowledged whole.
fn place_pieces(
    core: &mut Core,
    context: &Context,
    call: &PlaceMirrors,
    (node, written): (&Node, &Replica),
    coding: Coding,
) -> Result<Mirrors> {
    let coded = Coded { file: node.id, content: written.object.0, bytes: call.size };
    let bytes = Shape::new(coding.data, coding.parity, CELL_BYTES, coded)?.piece_bytes();
    let is_standing = |replica: &Replica| {
        let is_alike =
            replica.piece.is_some_and(|piece| (piece.coding, piece.cell_bytes) == (coding, CELL_BYTES));
        is_alike && replica.size == bytes && !call.failed.contains(&replica.object)
    };
    let (mut placed, failed): (Vec<_>, Vec<_>) = mirrors(node).cloned().partition(is_standing);
    for piece in &failed {
        retire(core, piece)?;
    }
    let has =
        |index: &u8| placed.iter().any(|replica| replica.piece.is_some_and(|piece| piece.index == *index));
    let missing: Vec<u8> = (0..coding.pieces()).filter(|index| !has(index)).collect();
    let places = places(core, call, written, (&placed, &failed), (&missing, bytes, context.now))?;
    for (index, partition) in missing.into_iter().zip(places) {
        let piece = Piece { coding, cell_bytes: CELL_BYTES, index, checksums: None };
        placed.push(core.store.insert_replica(Replica {
            object: ObjectId(0),
            partition,
            state: ReplicaState::Mirroring,
            size: bytes,
            created: context.now,
            used: context.now,
            piece: Some(piece),
            ..written.clone()
        })?);
    }
    let path = path_of(core, node.id)?;
    let mut wanted = Vec::new();
    for replica in &placed {
        let Some(Piece { cell_bytes, index, .. }) = replica.piece else { continue };
        let piece = object::Piece {
            coding,
            cell_bytes,
            index,
            file_bytes: call.size,
            file_checksums: call.checksums,
        };
        let cap = CapFor { access: Access::Fill, replica, file: node, path: &path };
        let url = core.piece_url(&cap, (written.object.0, piece), context.now)?;
        wanted.push(Mirror { object: replica.object, url, index });
    }
    Ok(Mirrors { mirrors: wanted, cut: Some(Cut { coding, cell_bytes: CELL_BYTES }) })
}

/// Partitions for the pieces that are missing, each on a disk server of its own.
fn places(
    core: &Core,
    call: &PlaceMirrors,
    written: &Replica,
    (standing, failed): (&[Replica], &[Replica]),
    (missing, bytes, now): (&[u8], u64, Timestamp),
) -> Result<Vec<String>> {
    let Ok(pieces @ 1..) = u8::try_from(missing.len()) else { return Ok(Vec::new()) };
    let snapshot = snapshot(core, &pool_of_partition(core, &written.partition)?.name, now)?;
    let beside: Vec<_> = standing.iter().chain(failed).map(piece_view).collect();
    let mut why = String::new();
    // One piece can fail although its disk server is well: it is taken again if there is no other.
    for beside in [&beside[..], &beside[..standing.len()]] {
        let wish = Wish { pieces, pieces_min: pieces, bytes, beside, purpose: Purpose::Write };
        why = match place(&snapshot, &wish, call.object.0) {
            Ok(Placed { partitions, is_spread: true }) => {
                return Ok(partitions.iter().map(ToString::to_string).collect());
            }
            Ok(_) => "some would share one".to_owned(),
            Err(failure) => failure.what,
        };
    }
    // Final for whoever writes: asking again and again would not bring another disk server.
    Err(too_few(&snapshot, &why))
}

fn too_few(snapshot: &Snapshot, why: &str) -> Failure {
    let Pool { name, coding, failure_domain, .. } = &snapshot.pool;
    let (coding, pieces) =
        coding.map_or_else(Default::default, |coding| (coding.to_string(), coding.pieces()));
    let domain = match failure_domain {
        FailureDomain::Server => "disk server",
        FailureDomain::Label(label) => label.as_str(),
    };
    Failure::no_space(format!(
        "pool {name} is coded {coding}: each of {pieces} pieces needs a {domain} of its own that takes it; {why}"
    ))
    .hint("`bp pool list` shows the disk servers; bring more of them up, or let the pool have fewer pieces")
}

/// Refuses a write to a coded pool with too few disk servers before a byte is sent.
pub(super) fn require_servers(core: &Core, written: &Replica, now: Timestamp) -> Result<()> {
    let pool = pool_of_partition(core, &written.partition)?;
    let Some(coding) = pool.coding else { return Ok(()) };
    let snapshot = snapshot(core, &pool.name, now)?;
    let open = snapshot.partitions().iter();
    let open =
        open.filter(|partition| partition.state == PartitionState::InUse && snapshot.answers(partition));
    let domains: BTreeSet<_> = open.map(|partition| snapshot.domain(partition)).collect();
    if domains.len() >= usize::from(coding.pieces()) {
        return Ok(());
    }
    Err(too_few(&snapshot, &format!("{} are there", domains.len())))
}

/// The pieces of a commit with their sizes, if they are all there.
pub(super) fn take_pieces(
    core: &Core,
    node: &Node,
    coding: Coding,
    filled: &[FilledPiece],
) -> Result<Vec<(ObjectId, u64)>> {
    let mut taken = Vec::new();
    for index in 0..coding.pieces() {
        let found = mirrors(node).find_map(|replica| {
            let piece = replica.piece.filter(|piece| (piece.coding, piece.index) == (coding, index))?;
            Some((replica, piece, filled.iter().find(|filled| filled.object == replica.object)?))
        });
        let (replica, piece, filled) = found.ok_or_else(|| {
            Failure::no_space(format!("{}: piece {index} of {coding} could not be made", node.name))
                .hint("write it again when more disk servers of the pool are up: `bp pool list` shows them")
        })?;
        let piece = Some(Piece { checksums: Some(filled.checksums), ..piece });
        core.store.put_replica(&Replica { piece, ..replica.clone() })?;
        taken.push((replica.object, replica.size));
    }
    Ok(taken)
}

fn gone(object: ObjectId) -> Failure {
    Failure::not_found(format!("the file of object {object} was removed"))
}

/// Mirrors of the write under way.
pub(super) fn mirrors(node: &Node) -> impl Iterator<Item = &Replica> {
    node.replicas.iter().filter(|replica| replica.state == ReplicaState::Mirroring)
}

/// Partitions for the mirrors that are missing. None is no refusal: whether there are enough is decided by the commit.
fn wanted(
    core: &Core,
    context: &Context,
    call: &PlaceMirrors,
    written: &Replica,
    (standing, failed): (&[Replica], &[Replica]),
) -> Result<Vec<String>> {
    let snapshot = snapshot(core, &pool_of_partition(core, &written.partition)?.name, context.now)?;
    let missing = usize::from(snapshot.pool.copies).saturating_sub(1 + standing.len());
    let Ok(pieces @ 1..) = u8::try_from(missing) else { return Ok(Vec::new()) };
    let mut beside: Vec<_> = [written].into_iter().chain(standing).chain(failed).map(piece_view).collect();
    for piece in &mut beside {
        piece.state = PieceState::Coming;
    }
    let wish = Wish { pieces, pieces_min: 1, bytes: call.size, beside: &beside, purpose: Purpose::Write };
    let placed = place(&snapshot, &wish, call.object.0);
    Ok(placed.map(|placed| placed.partitions.iter().map(ToString::to_string).collect()).unwrap_or_default())
}

/// What the pool of a partition promises.
pub(super) fn pool_of_partition(core: &Core, partition: &str) -> Result<std::sync::Arc<Pool>> {
    let pool = core.store.partition(partition)?.map(|partition| partition.pool);
    Ok(core.store.policy(pool.as_deref().unwrap_or(&core.config.pool))?)
}

/// The mirrors of a commit that count, if they are enough.
pub(super) fn counted(node: &Node, pool: &Pool, filled: &[ObjectId]) -> Result<Vec<ObjectId>> {
    let counted: Vec<_> =
        mirrors(node).map(|mirror| mirror.object).filter(|object| filled.contains(object)).collect();
    let (durable, promised) = (counted.len() + 1, usize::from(promised_pieces(pool, Layout::of(pool))));
    if durable < promised {
        // Final for whoever writes: asking again and again would not bring another disk server.
        return Err(Failure::no_space(format!(
            "{}: pool {} promises {promised} replicas before a write is acknowledged, {durable} could be made",
            node.name, pool.name
        ))
        .hint("write it again when more disk servers of the pool are up: `bp pool list` shows them"));
    }
    Ok(counted)
}
