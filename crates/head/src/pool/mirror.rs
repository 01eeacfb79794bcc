//! Mirrors of writes under way: placed when the size is known, filled by the disk server that has the object, counted when
//! it commits.

use super::{
    allocation,
    calls::being_written,
    catalogue::{piece_view, snapshot},
    placement::{Purpose, Wish, place},
    promise::promised_pieces,
    retire,
    view::{Layout, PieceState},
};
use crate::{
    Apply, Context, Core,
    core::CapFor,
    namespace::path_of,
    store::{Node, Replica, ReplicaState},
};
use base::{Failure, ObjectId, Result};
use wire::{
    cap::{Access, Content},
    control::{Mirror, Mirrors, PlaceMirrors, Pool},
};

impl Apply for PlaceMirrors {
    fn apply(self, core: &mut Core, context: &Context) -> Result<Mirrors> {
        let written = being_written(core, context, self.object)?;
        let node = core.store.node(written.file)?.ok_or_else(|| gone(self.object))?;
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
            Ok(Mirror { object: replica.object, url })
        });
        Ok(Mirrors { mirrors: mirrors.collect::<Result<_>>()? })
    }
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
