//! The copies of a live file: where they are, and how one leaves that others go on without.
//!
//! **Problem.** Each copy must have every write that was acknowledged, whatever becomes of the others. And two copies that differ must
//! never be read one after the other.
//!
//! **Idea.** Whoever writes tells which copies did not do what the others did, before anything is acknowledged; they leave the layout
//! for good, durably. A writer that ends without having said that all copies have the same leaves the file *uneven*: it is sealed before
//! anybody uses it, and copies whose sums differ are dropped then. Any of them has all that was committed.

use super::orders::finish_seal;
use crate::{
    Apply, Context, Core, Topic,
    executor::core::CapFor,
    pool::{is_away, live_promise, pool_of_live, whole_replicas},
    share::{grants, opens::shown_path, put, session, shared_file, waits},
    store::{LiveContent, LiveCopy, Node, Replica, ReplicaState, SharedFile},
    waiters::Awaited,
};
use ::share::{ClientId, Generation, Mode, Stage};
use base::{Failure, FileId, FilePath, ObjectId, Result, Timestamp, units::counted};
use tracing::warn;
use wire::{
    auth::capability::{Access, OPEN_LIFETIME},
    control::{DropCopies, Layout, LayoutObject},
};

/// Where the bytes are, with capabilities.
pub(in crate::share) fn layout(
    core: &Core,
    (node, path): (&Node, &FilePath),
    shared: &SharedFile,
    (mode, generation): (Mode, Generation),
    now: Timestamp,
) -> Result<Layout> {
    let live = shared.live.as_ref().filter(|live| mode == Mode::Write || live.is_committed);
    let Some(live) = live else { return sealed_layout(core, (node, path), generation, now) };
    let mut columns = Vec::new();
    for copies in live.columns() {
        let copies = if mode == Mode::Write { copies } else { to_read(core, copies, generation, now)? };
        let object = |copy: &LiveCopy| {
            let replica = replica_of(node, copy, now);
            let access = if mode == Mode::Write { Access::Live } else { Access::LiveRead };
            let cap = CapFor { access, replica: &replica, file: node, path, lifetime: OPEN_LIFETIME };
            let url = core.object_url_of(&cap, (generation.0, None), now)?;
            Ok(LayoutObject { object: copy.object, url })
        };
        columns.push(copies.into_iter().map(object).collect::<Result<_>>()?);
    }
    Ok(Layout { unit: live.unit, columns })
}

/// The same of a file that is sealed.
fn sealed_layout(
    core: &Core,
    (node, path): (&Node, &FilePath),
    generation: Generation,
    now: Timestamp,
) -> Result<Layout> {
    let mut copies = Vec::new();
    for replica in whole_replicas(core, node, node.id.0 ^ generation.0, now)? {
        copies
            .push(LayoutObject { object: replica.object, url: core.file_url((node, &replica), path, now)? });
    }
    if copies.is_empty() {
        return Err(Failure::unavailable(format!("{path} cannot be read now")));
    }
    Ok(Layout { unit: 0, columns: vec![copies] })
}

/// The copies of a column in the order in which they are read: different readers begin with different ones, and with one that answers.
fn to_read<'a>(
    core: &Core,
    mut copies: Vec<&'a LiveCopy>,
    generation: Generation,
    now: Timestamp,
) -> Result<Vec<&'a LiveCopy>> {
    let first = (generation.0 % copies.len().max(1) as u64) as usize;
    copies.rotate_left(first);
    let mut answering = Vec::new();
    for copy in &copies {
        if !is_away(core, &copy.partition, now)? {
            answering.push(*copy);
        }
    }
    Ok(if answering.is_empty() { copies } else { answering })
}

/// A live object as capabilities name it.
fn replica_of(node: &Node, copy: &LiveCopy, now: Timestamp) -> Replica {
    Replica {
        object: copy.object,
        file: node.id,
        partition: copy.partition.clone(),
        state: ReplicaState::Online,
        owner: node.owner.clone(),
        size: node.size,
        created: now,
        used: now,
        piece: None,
    }
}

impl Apply for DropCopies {
    fn apply(self, core: &mut Core, context: &Context) -> Result<Layout> {
        session(core, context, self.client)?;
        let mut shared = shared_file(core, self.file)?;
        grants::require_held(&shared, (self.file, self.client, self.generation))?;
        let node = core.store.node(self.file)?;
        let node = node.ok_or_else(|| Failure::not_found(format!("file {} no longer exists", self.file)))?;
        let path = shown_path(core, &node)?;
        let failed: Vec<_> = self.objects.iter().copied().filter(|object| has(&shared, *object)).collect();
        if !failed.is_empty() {
            if !may_leave(core, &shared, &failed)? {
                return Err(too_few(core, &shared, &path)?);
            }
            drop_copies(core, (&node, &mut shared), &failed)?;
            put(core, self.file, &shared, context.now)?;
        }
        layout(core, (&node, &path), &shared, (Mode::Write, self.generation), context.now)
    }
}

fn has(shared: &SharedFile, object: ObjectId) -> bool {
    shared.live.as_ref().is_some_and(|live| live.copy(object).is_some())
}

/// Whether what is left without these copies is as much as the pool promises to whoever writes.
fn may_leave(core: &Core, shared: &SharedFile, objects: &[ObjectId]) -> Result<bool> {
    let Some(live) = &shared.live else { return Ok(false) };
    let fewest = fewest(core, live)?;
    Ok(live.columns().all(|copies| {
        let left = copies.iter().filter(|copy| !objects.contains(&copy.object)).count();
        left >= fewest.min(copies.len())
    }))
}

/// Copies without which nothing is acknowledged.
fn fewest(core: &Core, live: &LiveContent) -> Result<usize> {
    let Some(copy) = live.copies.first() else { return Ok(1) };
    let pool = pool_of_live(core, &copy.partition)?;
    Ok(usize::from(live_promise(&pool).1).max(1))
}

fn too_few(core: &Core, shared: &SharedFile, path: &FilePath) -> Result<Failure> {
    let fewest = shared.live.as_ref().map_or(Ok(1), |live| fewest(core, live))?;
    let fewest = counted(fewest as u64, "copy", "copies");
    Ok(Failure::busy(format!("{path} cannot be written: its pool wants {fewest} of it at least"))
        .hint("wait until its disk servers answer; `bp host list` shows them"))
}

/// Takes copies out of the layout, for good: their disk servers delete them when they answer.
pub(super) fn drop_copies(
    core: &mut Core,
    (node, shared): (&Node, &mut SharedFile),
    objects: &[ObjectId],
) -> Result<()> {
    let Some(live) = shared.live.as_mut() else { return Ok(()) };
    let bytes = node.size / u64::from(live.width().max(1));
    for copy in live.copies.extract_if(.., |copy| objects.contains(&copy.object)) {
        warn!(file = %node.id, object = %copy.object, partition = copy.partition, "a copy of a file that is \
            written through a mount is given up; the others go on");
        core.store.remove_object(&copy.partition, copy.object, bytes)?;
        shared.grants.forget_server(copy.server);
        core.live.share.forget_object(copy.object);
    }
    core.touch(Topic::Removals);
    Ok(())
}

/// Drops copies whose disk servers do not answer, if others wait for them to be fenced or sealed, or `is_to_write`: if somebody is about
/// to write. Where too few would be left, everybody waits.
pub(in crate::share) fn drop_away(
    core: &mut Core,
    file: FileId,
    is_to_write: bool,
    context: &Context,
) -> Result<()> {
    let mut shared = shared_file(core, file)?;
    let Some(live) = shared.live.as_ref().filter(|live| live.has_copies()) else { return Ok(()) };
    let mut ending = shared.grants.grants().iter().filter(|grant| grant.stage == Stage::Ending);
    let is_in_the_way = |copy: &LiveCopy| {
        let is_unsealed = live.is_sealing && copy.sealed.is_none();
        is_to_write || is_unsealed || ending.clone().any(|grant| grant.unfenced.contains(&copy.server))
    };
    let mut away = Vec::new();
    for copy in &live.copies {
        if is_in_the_way(copy) && is_away(core, &copy.partition, context.now)? {
            away.push(copy.object);
        }
    }
    if ending.next().is_some() || live.is_sealing {
        // One that is silent now is known to be away a little later.
        core.look_again_in(waits::LOOK);
    }
    if away.is_empty() || !may_leave(core, &shared, &away)? {
        return Ok(());
    }
    let Some(node) = core.store.node(file)? else { return Ok(()) };
    drop_copies(core, (&node, &mut shared), &away)?;
    put(core, file, &shared, context.now)?;
    core.store.note_changed(Awaited::LiveOrders);
    finish_seal(core, &node, context)
}

/// A session ends that may have a grant to write: what it was writing may be at some copies only. What was never committed goes.
pub(in crate::share) fn writer_ended(
    core: &mut Core,
    shared: &mut SharedFile,
    client: ClientId,
) -> Result<()> {
    let mut grants = shared.grants.grants().iter();
    let is_writer = grants
        .any(|grant| grant.client == client && grant.mode == Mode::Write && grant.stage != Stage::Ending);
    if !is_writer {
        return Ok(());
    }
    match &mut shared.live {
        Some(live) if live.is_committed => live.is_uneven |= live.has_copies(),
        _ => super::discard(core, shared, 0)?,
    }
    Ok(())
}

/// A writer has returned its grant without having written the same to all copies.
pub(in crate::share) fn writer_failed(shared: &mut SharedFile, (client, generation): (ClientId, Generation)) {
    let mut grants = shared.grants.grants().iter();
    let is_writer =
        grants.any(|grant| (grant.client, grant.generation, grant.mode) == (client, generation, Mode::Write));
    if let Some(live) = shared.live.as_mut().filter(|_| is_writer) {
        live.is_uneven |= live.has_copies();
    }
}
