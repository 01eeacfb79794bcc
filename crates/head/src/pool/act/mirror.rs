//! Mirrors and pieces of writes under way: placed when the size is known, filled by the disk server that has the object, counted
//! when it commits.

use crate::{
    Apply, Context, Core,
    executor::core::{CAP_LIFETIME, CapFor},
    namespace::path_of,
    pool::{
        act::{
            allocation,
            bounds::require_size,
            snapshot::{piece_view, snapshot},
            space::{as_if_freed, free_up},
        },
        calls::being_written,
        decide::{
            placement::{Placement, PlacementRequest, Purpose, place},
            promise::promised_pieces,
            view::{Layout, PartitionState, PieceState, PieceView, Snapshot},
        },
        retire,
    },
    store::{Node, Piece, Replica, ReplicaState},
};
use base::{Failure, ObjectId, Result, Timestamp, units::counted};
use std::collections::BTreeSet;
use wire::{
    auth::capability::{Access, Content},
    control::{Coding, Cut, FailureDomain, FilledPiece, Mirror, Mirrors, PlaceMirrors, Pool},
    media::{
        coded::{Coded, Shape},
        object,
    },
};

impl Apply for PlaceMirrors {
    fn apply(self, core: &mut Core, context: &Context) -> Result<Mirrors> {
        let written = being_written(core, context, self.object)?;
        require_size(&format!("object {}", self.object), self.size)?;
        let node = core.store.node(written.file)?.ok_or_else(|| gone(self.object))?;
        if let Some(cut) = cut_of_write(&node, &*pool_of_partition(core, &written.partition)?) {
            return place_pieces(core, context, &self, (&node, &written), cut);
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
            let cap =
                CapFor { access: Access::Fill, replica, file: &node, path: &path, lifetime: CAP_LIFETIME };
            let url = core.object_url_of(&cap, (written.object.0, Some(content)), context.now)?;
            Ok(Mirror { object: replica.object, url, index: 0 })
        });
        Ok(Mirrors { mirrors: mirrors.collect::<Result<_>>()?, cut: None })
    }
}

/// How a write under way is cut: as it was when its pieces or mirrors were placed, whatever its pool does with new ones by now.
fn cut_of_write(node: &Node, pool: &Pool) -> Option<Cut> {
    match mirrors(node).next() {
        Some(placed) => placed.piece.map(|Piece { coding, cell_bytes, .. }| Cut { coding, cell_bytes }),
        None => pool.pieces().map(|coding| Cut { coding, cell_bytes: pool.cell_bytes() }),
    }
}

/// The same for what has come to its commit. Without pieces it was opened when its pool was not coded.
pub(in crate::pool) fn coding_of_commit(node: &Node, pool: &Pool, pieces: &[FilledPiece]) -> Option<Coding> {
    let cut = cut_of_write(node, pool).filter(|_| !pieces.is_empty() || mirrors(node).next().is_some());
    cut.map(|cut| cut.coding)
}

/// Places the pieces of a written object that have no place yet. All of them, or none: a coded file is acknowledged whole.
fn place_pieces(
    core: &mut Core,
    context: &Context,
    call: &PlaceMirrors,
    (node, written): (&Node, &Replica),
    cut: Cut,
) -> Result<Mirrors> {
    let Cut { coding, cell_bytes } = cut;
    let coded = Coded { file: node.id, content: written.object.0, bytes: call.size };
    let bytes = Shape::new(coding.data, coding.parity, cell_bytes, coded)?.piece_bytes();
    let is_standing = |replica: &Replica| {
        let is_alike =
            replica.piece.is_some_and(|piece| (piece.coding, piece.cell_bytes) == (coding, cell_bytes));
        is_alike && replica.size == bytes && !call.failed.contains(&replica.object)
    };
    let (mut placed, failed): (Vec<_>, Vec<_>) = mirrors(node).cloned().partition(is_standing);
    for piece in &failed {
        retire(core, piece)?;
    }
    let has =
        |index: &u8| placed.iter().any(|replica| replica.piece.is_some_and(|piece| piece.index == *index));
    let missing: Vec<u8> = (0..coding.pieces()).filter(|index| !has(index)).collect();
    let places = places(
        core,
        call,
        written,
        (&placed, &failed),
        &Missing { coding, indices: &missing, bytes },
        context.now,
    )?;
    for (index, partition) in missing.into_iter().zip(places) {
        let piece = Piece { coding, cell_bytes, index, checksums: None };
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
        let cap = CapFor { access: Access::Fill, replica, file: node, path: &path, lifetime: CAP_LIFETIME };
        let url = core.piece_url(&cap, (written.object.0, piece), context.now)?;
        wanted.push(Mirror { object: replica.object, url, index });
    }
    Ok(Mirrors { mirrors: wanted, cut: Some(cut) })
}

/// Pieces that have no place yet.
struct Missing<'a> {
    coding: Coding,
    indices: &'a [u8],
    /// Bytes of each.
    bytes: u64,
}

/// Partitions for the pieces that are missing, each on a disk server of its own.
fn places(
    core: &mut Core,
    call: &PlaceMirrors,
    written: &Replica,
    (standing, failed): (&[Replica], &[Replica]),
    missing: &Missing<'_>,
    now: Timestamp,
) -> Result<Vec<String>> {
    let Missing { coding, indices, bytes } = *missing;
    let Ok(pieces @ 1..) = u8::try_from(indices.len()) else { return Ok(Vec::new()) };
    let snapshot = snapshot(core, &pool_of_partition(core, &written.partition)?.name, now)?;
    let beside: Vec<_> = standing.iter().chain(failed).map(piece_view).collect();
    let choose = |snapshot: &Snapshot, beside: &[PieceView]| -> Result<Vec<String>, String> {
        let wish = PlacementRequest { pieces, pieces_min: pieces, bytes, beside, purpose: Purpose::Write };
        match place(snapshot, &wish, call.object.0) {
            Ok(Placement { partitions, is_spread: true }) => {
                Ok(partitions.iter().map(ToString::to_string).collect())
            }
            Ok(_) => Err("some would share one".to_owned()),
            Err(failure) => Err(failure.what),
        }
    };
    // One piece can fail although its disk server is well: it is taken again if there is no other.
    let choices = |snapshot: &Snapshot| {
        choose(snapshot, &beside).or_else(|_| choose(snapshot, &beside[..standing.len()]))
    };
    if let Ok(chosen) = choices(&snapshot) {
        return Ok(chosen);
    }
    let chosen = choices(&as_if_freed(core, &snapshot, bytes)?).map_err(|why| {
        let is_for_silence = choose(&snapshot.as_if_all_were_heard(), &beside).is_ok();
        too_few(&snapshot.pool, coding, &why, is_for_silence)
    })?;
    free_all(core, &snapshot, &chosen, bytes)?;
    Ok(chosen)
}

/// Evicts what keeps pieces of `bytes` from these partitions, which were chosen as if it had gone.
fn free_all(core: &mut Core, snapshot: &Snapshot, chosen: &[String], bytes: u64) -> Result<()> {
    let needed = bytes.saturating_add(snapshot.pool.reserved_bytes).saturating_add(1);
    for partition in chosen.iter().filter_map(|name| snapshot.partition(name)) {
        free_up(core, partition, needed, snapshot.now)?;
    }
    Ok(())
}

/// Refuses a write for which there are too few disk servers. If enough of them are only silent, it is for whoever writes to try
/// again; else that is final: asking again and again would not bring another disk server.
fn too_few(pool: &Pool, coding: Coding, why: &str, is_for_silence: bool) -> Failure {
    let (Pool { name, failure_domain, .. }, pieces) = (pool, coding.pieces());
    let domain = match failure_domain {
        FailureDomain::Server => "disk server",
        FailureDomain::Label(label) => label.as_str(),
    };
    let what = format!(
        "pool {name} is coded {coding}: each of the {pieces} pieces needs a different {domain} that accepts it; {why}"
    );
    if is_for_silence {
        return Failure::unavailable(what).hint(SILENT);
    }
    Failure::no_space(what).hint(
        "`bp pool list` shows the disk servers; start more of them, or configure fewer pieces for the pool",
    )
}

/// What to do about disk servers that were not heard lately, but not given up.
const SILENT: &str = "some disk servers are silent: try again; `bp pool list` shows which";

/// Refuses a write to a coded pool with too few disk servers before a byte is sent.
pub(in crate::pool) fn require_servers(core: &Core, written: &Replica, now: Timestamp) -> Result<()> {
    let pool = pool_of_partition(core, &written.partition)?;
    let Some(coding) = pool.pieces() else { return Ok(()) };
    let snapshot = snapshot(core, &pool.name, now)?;
    let domains = |snapshot: &Snapshot| {
        let open = snapshot.partitions().iter();
        let open =
            open.filter(|partition| partition.state == PartitionState::InUse && snapshot.answers(partition));
        open.map(|partition| snapshot.domain(partition)).collect::<BTreeSet<_>>().len()
    };
    let (there, needed) = (domains(&snapshot), usize::from(coding.pieces()));
    if there >= needed {
        return Ok(());
    }
    let is_for_silence = domains(&snapshot.as_if_all_were_heard()) >= needed;
    Err(too_few(&pool, coding, &format!("{there} are there"), is_for_silence))
}

/// The pieces of a commit with their sizes, if they are all there.
pub(in crate::pool) fn take_pieces(
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
pub(in crate::pool) fn mirrors(node: &Node) -> impl Iterator<Item = &Replica> {
    node.replicas.iter().filter(|replica| replica.state == ReplicaState::Mirroring)
}

/// Partitions for the mirrors that are missing. None is no refusal: whether there are enough is decided by the commit. But
/// silent disk servers that would make them enough are waited for.
fn wanted(
    core: &mut Core,
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
    let wish = PlacementRequest {
        pieces,
        pieces_min: 1,
        bytes: call.size,
        beside: &beside,
        purpose: Purpose::Write,
    };
    let choose = |snapshot: &Snapshot| match place(snapshot, &wish, call.object.0) {
        Ok(placed) => placed.partitions.iter().map(ToString::to_string).collect(),
        Err(_) => Vec::new(),
    };
    let (mut chosen, pool): (Vec<String>, _) = (choose(&snapshot), &snapshot.pool);
    if chosen.len() < missing {
        let more = choose(&as_if_freed(core, &snapshot, call.size)?);
        if more.len() > chosen.len() {
            free_all(core, &snapshot, &more, call.size)?;
            chosen = more;
        }
    }
    let promised = promised_pieces(pool, Layout::Copies(pool.copies));
    let promised = usize::from(promised).saturating_sub(1 + standing.len());
    if chosen.len() < promised && choose(&snapshot.as_if_all_were_heard()).len() >= promised {
        let copies = counted(pool.copies.into(), "replica", "replicas");
        let more = counted(promised as u64, "more is", "more are");
        let what =
            format!("pool {} keeps {copies}: {more} needed, but too few disk servers answer", pool.name);
        return Err(Failure::unavailable(what).hint(SILENT));
    }
    Ok(chosen)
}

/// What the pool of a partition promises.
pub(in crate::pool) fn pool_of_partition(core: &Core, partition: &str) -> Result<std::sync::Arc<Pool>> {
    let pool = core.store.partition(partition)?.map(|partition| partition.pool);
    Ok(core.store.policy(pool.as_deref().unwrap_or(&core.config.pool))?)
}

/// The mirrors of a commit that count, if they are enough.
pub(in crate::pool) fn durable_mirrors(
    node: &Node,
    pool: &Pool,
    filled: &[ObjectId],
) -> Result<Vec<ObjectId>> {
    let counted: Vec<_> =
        mirrors(node).map(|mirror| mirror.object).filter(|object| filled.contains(object)).collect();
    let promised = usize::from(promised_pieces(pool, Layout::Copies(pool.copies)));
    let durable = counted.len() + 1;
    if durable < promised {
        // Final for whoever writes: asking again and again would not bring another disk server.
        return Err(Failure::no_space(format!(
            "{}: pool {} needs {promised} replicas before it acknowledges a write, but only {durable} could be made",
            node.name, pool.name
        ))
        .hint("write it again when more disk servers of the pool are up: `bp pool list` shows them"));
    }
    Ok(counted)
}
