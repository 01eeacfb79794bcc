//! Writing files: from the open to the commit, or to its end without one.

use super::open::{read_object, server_of};
use super::partition::partition_of;
use crate::pool::{
    Reserve,
    act::{
        allocation::{self, FileReservation},
        bounds::require_size,
        coded::pieces_of,
        mirror::{
            coding_of_commit, durable_mirrors, mirrors, pool_of_partition, require_servers, take_pieces,
        },
        out_of_reach::{out_of_reach, state_of},
        reservation::trim,
        space::came_online,
    },
    drop_content, reserve, retire, source,
};
use crate::{
    Apply, Context, Core, Topic,
    account::{self, Growth, refuse_excess},
    batch,
    hosts::presence,
    namespace::{Right, find, insert, make_parents, path_of, require, require_file, resolve_parent},
    share,
    store::{NewContent, Node, Replica, ReplicaState},
    trash,
};
use base::{ErrorKind, Failure, FilePath, Millis, ObjectId, Result, Timestamp};
use std::sync::Arc;
use tracing::info;
use wire::{
    auth::capability::NEVER_JOINED,
    control::{
        AbandonWrite, BeginWrite, CommitWrite, Disposition, Done, FileState, NodeKind, OpenWrite, ReadObject,
        WriteGrant,
    },
};

impl Apply for OpenWrite {
    fn paths(&self) -> Vec<FilePath> {
        vec![self.path.clone()]
    }

    fn apply(self, core: &mut Core, context: &Context) -> Result<WriteGrant> {
        if self.parents {
            make_parents(core, context, &self.path)?;
        }
        let existing = existing(core, context, &self)?;
        let is_new = existing.is_none();
        let base = match &existing {
            Some(node) if self.disposition == Disposition::Update => {
                Some(base_object(core, context, node, &self.path)?)
            }
            _ => None,
        };
        let node = match existing {
            Some(node) => node,
            None => {
                let parent = resolve_parent(core, &context.who, &self.path)?;
                insert(core, context, &parent, &self.path, NodeKind::File, self.mode)?
            }
        };
        let bytes = self.expected_bytes.max(base.as_ref().map_or(0, |base| base.size));
        if let Some(held) = FileReservation::of(&node) {
            let replica = allocation::begin(core, &held, (&context.who.name, bytes), context.now)?;
            let replica = trim_share(core, context, replica, held.size)?;
            let growth = Growth { is_new: false, bytes: bytes.saturating_sub(held.size) };
            refuse_excess(core, &node, growth)?;
            require_servers(core, &replica, context.now)?;
            core.live.sources.note(replica.object, self.source_modified);
            return grant(
                core,
                Reserved { node: &node, path: self.path, replica: &replica, base: None },
                context.now,
            );
        }
        // What a coded file is changed to is coded in the same pool.
        let pool = match base.as_ref().filter(|base| base.is_piece) {
            Some(base) => core.store.partition(&base.partition)?.map(|partition| partition.pool),
            None => None,
        };
        let wish = Reserve {
            file: node.id,
            owner: &context.who.name,
            bytes,
            state: ReplicaState::Writing,
            on: base.as_ref().filter(|base| !base.is_piece).map(|base| &*base.partition),
            pool: pool.as_deref(),
        };
        let replica = reserve(core, &wish, context.now)?;
        let begins_with = base.as_ref().map_or(0, |base| base.size);
        let replica = trim_share(core, context, replica, begins_with)?;
        require_servers(core, &replica, context.now)?;
        let growth = Growth { is_new, bytes: bytes.saturating_sub(node.size) };
        refuse_excess(core, &node, growth)?;
        core.live.sources.note(replica.object, self.source_modified);
        grant(core, Reserved { node: &node, path: self.path, replica: &replica, base }, context.now)
    }
}

/// Promises a user no more than the share of one. The facility's owner may have all.
fn trim_share(core: &mut Core, context: &Context, replica: Replica, least: u64) -> Result<Replica> {
    if context.who.is_operator {
        return Ok(replica);
    }
    let pool = core.store.partition(&replica.partition)?.map(|partition| partition.pool).unwrap_or_default();
    trim(core, replica, (&pool, least))
}

/// What a write has reserved, and what it begins with.
struct Reserved<'a> {
    node: &'a Node,
    path: FilePath,
    replica: &'a Replica,
    base: Option<ReadObject>,
}

fn grant(core: &Core, reserved: Reserved<'_>, now: Timestamp) -> Result<WriteGrant> {
    let Reserved { node, path, replica, base } = reserved;
    let server = server_of(core, &replica.partition)?;
    let pool = pool_of_partition(core, &replica.partition)?;
    let is_gathered = base.as_ref().is_some_and(|base| base.is_piece);
    let base_pieces = if is_gathered { pieces_of(core, node, None, now)? } else { None };
    Ok(WriteGrant {
        file: replica.file,
        path,
        holder: node.holder(),
        object: replica.object,
        partition: replica.partition.clone(),
        expected_bytes: replica.size,
        base,
        base_pieces,
        joined: server.as_ref().map_or(Ok(NEVER_JOINED), |server| core.joined(&server.name))?,
        server,
        is_mirrored: pool.pieces().is_some() || pool.copies > 1,
    })
}

impl Apply for BeginWrite {
    fn apply(self, core: &mut Core, context: &Context) -> Result<WriteGrant> {
        let replica = being_written(core, context, self.object)?;
        let node = core.store.node(replica.file)?.ok_or_else(|| gone(self.object))?;
        // What is read through others need not lie here.
        let begins_with = |old: &&Replica| match old.piece {
            None => old.partition == replica.partition,
            Some(_) => node.coding().is_some(),
        };
        // A replica that is left over is better than pieces that may be away.
        let old = node.online().filter(begins_with).min_by_key(|old| old.piece.is_some());
        let old = old.filter(|_| self.is_update);
        let base = old.map(|old| read_object(core, &node, old)).transpose()?;
        if self.is_update && base.is_none() {
            return Err(Failure::busy(format!(
                "the content that object {} starts from no longer exists",
                self.object
            ))
            .hint("open the file again"));
        }
        core.live.begun.entry(replica.partition.clone()).or_default().insert(replica.object);
        let path = path_of(core, node.id)?;
        grant(core, Reserved { node: &node, path, replica: &replica, base }, context.now)
    }
}

pub(super) fn gone(object: ObjectId) -> Failure {
    Failure::not_found(format!("object {object} is not being written"))
        .hint("its file was removed, or the write was given up after a restart; write it again")
}

/// An object that a user is writing on the host that asks.
pub(in crate::pool) fn being_written(core: &Core, context: &Context, object: ObjectId) -> Result<Replica> {
    let replica = core.store.replica(object)?.filter(|row| row.state == ReplicaState::Writing);
    let replica = replica.ok_or_else(|| gone(object))?;
    partition_of(core, context, &replica.partition)?;
    Ok(replica)
}

/// The file that is to be written, if it exists and may be.
fn existing(core: &mut Core, context: &Context, open: &OpenWrite) -> Result<Option<Arc<Node>>> {
    let path = &open.path;
    if path.is_root() {
        return Err(Failure::new(ErrorKind::IsDirectory, "/ is a directory"));
    }
    resolve_parent(core, &context.who, path)?;
    end_unanswered_write(core, context, path)?;
    let Some(node) = find(core, &context.who, path)? else {
        if open.disposition == Disposition::Update {
            return Err(Failure::not_found(format!("{path} does not exist")));
        }
        return Ok(None);
    };
    require_file(&node, path)?;
    let held = FileReservation::of(&node);
    if open.disposition == Disposition::Update && held.is_some() {
        // As without the reservation: who goes on with a write that was cut off must not begin in the middle.
        return Err(Failure::not_found(format!("nothing has been written to {path} yet"))
            .hint("its space is reserved: write the whole file"));
    }
    if open.disposition == Disposition::CreateNew && held.is_none() {
        return Err(Failure::exists(format!("{path} exists")).hint("allow replacing it, or use another name"));
    }
    require(core, &context.who, &node, Right::Write, path)?;
    if node.replicas.iter().any(|replica| replica.state == ReplicaState::Writing) {
        return Err(Failure::locked(format!("{path} is being written by another client"))
            .hint("try again when that writer has closed it"));
    }
    if open.disposition == Disposition::Update {
        if !share::settle_for_door(core, context, &node)? {
            return Err(share::being_written(core, &node)?);
        }
        refuse_resumption(core, context, &node, path)?;
    }
    Ok(Some(node))
}

/// Gives up a write whose disk server does not answer, for whoever may write the file and wants to: it is written anew elsewhere. Its
/// writer was promised nothing; should that server come back, it is told that the write was given up.
fn end_unanswered_write(core: &mut Core, context: &Context, path: &FilePath) -> Result<()> {
    let Some(node) = find(core, &context.who, path)? else { return Ok(()) };
    let Some(writing) = node.replicas.iter().find(|replica| replica.state == ReplicaState::Writing) else {
        return Ok(());
    };
    let Some(partition) = core.store.partition(&writing.partition)? else { return Ok(()) };
    if !presence::does_not_answer(core, &partition.server.name, context.now) {
        return Ok(());
    }
    require(core, &context.who, &node, Right::Write, path)?;
    info!(%path, server = partition.server.name, "abandoned a write on a disk server that does not answer");
    abandon(core, writing, context)
}

/// How long a client may try to go on with a write that was cut off: XRootD clients do for half an hour.
const RESUMPTION: Millis = Millis::from_seconds(3600);

/// Refuses to change a file whose last write was cut off a short while ago.
///
/// Clients of the field open such a file again, for update, and send only what they miss: on their servers the partial
/// file is still there. Ours begins with the old content, so the outcome would be a mixture that nobody notices.
fn refuse_resumption(core: &Core, context: &Context, node: &Node, path: &FilePath) -> Result<()> {
    match core.live.cut_off.get(&node.id) {
        Some(when) if context.now - *when < RESUMPTION => {
            Err(Failure::busy(format!("the last write of {path} was interrupted and cannot be resumed"))
                .hint("write the whole file again; in an hour it can be changed in place"))
        }
        _ => Ok(()),
    }
}

/// What an update begins with. A nearline file is recalled first: the caller is told to try again.
fn base_object(core: &Core, context: &Context, node: &Node, path: &FilePath) -> Result<ReadObject> {
    if let Some(replica) = source(core, node, node.id.0, context.now)? {
        return read_object(core, node, &replica);
    }
    let state = state_of(core, node);
    if matches!(state, FileState::Online | FileState::OutOfReach) {
        return Err(out_of_reach(core, node, path, context.now));
    }
    Err(Failure::busy(format!("{path} is {}, not on disk", state.as_str()))
        .hint(format!("`bp stage --wait {path}`, then change it"))
        .during(format!("update for {}", context.who.name)))
}

impl Apply for CommitWrite {
    fn apply(self, core: &mut Core, context: &Context) -> Result<Done> {
        if is_committed(core, &self)? {
            return Ok(Done {});
        }
        let replica = being_written(core, context, self.object)?;
        require_size(&format!("object {}", self.object), self.size)?;
        let node = core.store.node(replica.file)?.ok_or_else(|| gone(self.object))?;
        let pool = pool_of_partition(core, &replica.partition)?;
        let coding = coding_of_commit(&node, &pool, &self.pieces);
        let objects = match coding {
            Some(coding) => take_pieces(core, &node, coding, &self.pieces)?,
            None if pool.copies > 1 => {
                let mirrors = durable_mirrors(&node, &pool, &self.mirrors)?;
                [replica.object].into_iter().chain(mirrors).map(|object| (object, self.size)).collect()
            }
            None => vec![(replica.object, self.size)],
        };
        let kept: Vec<_> = objects.iter().map(|(object, _)| *object).collect();
        share::content_replaced(core, replica.file, context.now)?;
        if node.checksums.is_some() || node.is_live() {
            share::content_is_whole(core, replica.file)?;
        }
        trash::keep_content(core, replica.file, &kept, (&replica.owner, context.now))?;
        // With it goes what was written, if it was cut into pieces.
        drop_content(core, replica.file, &kept)?;
        for (object, size) in &objects {
            came_online(core, *object, *size, context.now)?;
        }
        let content = NewContent { size: self.size, checksums: self.checksums, generation: self.object.0 };
        core.store.set_content(replica.file, content, context.now)?;
        if coding.is_none() && objects.len() < usize::from(pool.copies) {
            core.store.put_shortage(replica.file, &pool.name, objects.len(), context.now)?;
        }
        let room = replica.size.max(node.size);
        let growth = Growth { is_new: false, bytes: self.size.saturating_sub(room) };
        refuse_excess(core, &node, growth)?;
        account::written(core, &replica, self.size)?;
        // Last: an object that was refused above stays under way, and may be committed later.
        if let Some(then) = core.live.sources.take(self.object) {
            core.store.set_source_modified(replica.file, Some(then))?;
        }
        core.touch(Topic::Files);
        batch::file_online(core, replica.file, context.now)?;
        Ok(Done {})
    }
}

/// Whether the very same was said before. Any of its objects tells: of what was cut into pieces the object itself is gone, and
/// by now any other may have been made anew elsewhere.
fn is_committed(core: &Core, commit: &CommitWrite) -> Result<bool> {
    let pieces = commit.pieces.iter().map(|piece| piece.object);
    for object in [commit.object].into_iter().chain(pieces).chain(commit.mirrors.iter().copied()) {
        let Some(replica) = core.store.replica(object)? else { continue };
        // No other write gives this number.
        let content = (commit.size, Some(commit.checksums), commit.object.0);
        let node = core.store.node(replica.file)?;
        if node.is_some_and(|node| (node.size, node.checksums, node.generation) == content) {
            return Ok(true);
        }
    }
    Ok(false)
}

impl Apply for AbandonWrite {
    fn apply(self, core: &mut Core, context: &Context) -> Result<Done> {
        if let Some(replica) = core.store.replica(self.object)?
            && replica.state == ReplicaState::Writing
        {
            partition_of(core, context, &replica.partition)?;
            abandon(core, &replica, context)?;
        }
        Ok(Done {})
    }
}

/// Gives up a write; a file that never had content goes with it, unless its room is reserved for longer.
pub(in crate::pool) fn abandon(core: &mut Core, replica: &Replica, context: &Context) -> Result<()> {
    core.live.sources.take(replica.object);
    retire(core, replica)?;
    let node = core.store.node(replica.file)?;
    let others: Vec<_> = node.iter().flat_map(|node| mirrors(node)).cloned().collect();
    for mirror in &others {
        retire(core, mirror)?;
    }
    if allocation::keep(core, replica, &others, context.now)? {
        return Ok(());
    }
    match core.store.node(replica.file)? {
        Some(node) if node.is_unwritten() => {
            drop_content(core, node.id, &[])?;
            core.store.delete_pins(node.id)?;
            core.store.delete_node(node.id)?;
        }
        Some(node) => {
            core.live.cut_off.retain(|_, when| context.now - *when < RESUMPTION);
            core.live.cut_off.insert(node.id, context.now);
        }
        None => {}
    }
    Ok(())
}
