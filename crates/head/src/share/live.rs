//! Live objects: how a file begins to change in place, what is committed of it, and how it is sealed again.
//!
//! In a pool of copies it has as many live objects. Each write goes to all of them. One that missed a write is dropped before the
//! write counts (`copies.rs`), so that all copies have all that was ever committed.

mod copies;
mod join;
mod orders;

pub(super) use copies::{drop_away, layout, writer_ended, writer_failed};

use super::{grants, has_writer, is_written, load, put, shared_file};
use crate::{
    Context, Core, Topic,
    namespace::rule_of,
    pool::{
        LiveWish, Reserve, choose_partition, drop_content, live_partitions, live_promise, out_of_reach,
        pool_of_live, source, state_of, whole_replicas,
    },
    share::{
        opens::shown_path,
        sessions,
        waits::{self, Want},
    },
    store::{LiveContent, LiveCopy, Node, Replica, ReplicaState, SharedFile},
    trash,
    waiters::Awaited,
};
use ::share::{ClientId, Generation, Stage};
use base::{Failure, FileId, FilePath, Result, Timestamp, units::counted};
use wire::control::{FileState, LAYOUT_UNIT_DEFAULT, LAYOUT_WIDTH_MAX, LiveLayout, Pool};

/// Why a file cannot be opened by a mount now, if it is not on disk; it is recalled then.
pub(super) fn not_on_disk(
    core: &mut Core,
    context: &Context,
    (node, path): (&Node, &FilePath),
    shared: &SharedFile,
) -> Result<Option<String>> {
    if node.is_live() || shared.live.is_some() || source(core, node, node.id.0, context.now)?.is_some() {
        return Ok(None);
    }
    match state_of(core, node) {
        FileState::Nearline => grants::stage(core, context, (node, path)).map(Some),
        FileState::Writing => Ok(Some(format!("{path} is being written by another client"))),
        FileState::Lost => Err(Failure::corrupt(format!("{path} has no disk replica and no tape copy"))
            .hint("write it again from its source")),
        _ => Err(out_of_reach(core, node, path, context.now)),
    }
}

/// Gives a file objects that change in place, if it has none, to be written under a grant.
pub(super) fn begin(
    core: &mut Core,
    context: &Context,
    (node, path): (&Node, &FilePath),
    (shared, generation): (&mut SharedFile, Generation),
) -> Result<()> {
    if shared.live.is_some() {
        return Ok(());
    }
    let bases = whole_replicas(core, node, node.id.0, context.now)?;
    let Some(first) = bases.first() else {
        return Err(Failure::unavailable(format!("{path} cannot be read now")));
    };
    if first.piece.is_some() {
        return Err(Failure::unsupported(format!("{path} is coded and cannot be changed in place"))
            .hint("write the whole file anew under another name, and move it here"));
    }
    let live = if node.size == 0 {
        let pool = pool_of_live(core, &first.partition)?;
        place(core, node, &pool, context)?
    } else {
        place_beside(core, (node, path), &bases, context)?
    };
    shared.grants.set_servers(generation, &live.servers());
    shared.live = Some(live);
    Ok(())
}

/// Chooses where the objects of a file without bytes lie.
pub(super) fn place(core: &mut Core, node: &Node, pool: &Pool, context: &Context) -> Result<LiveContent> {
    let wanted = copies_of(core, node, pool)?;
    let rule = rule_of(core, node)?.map(|(rule, _)| rule).unwrap_or_default();
    let width = rule.width.unwrap_or(1).clamp(1, LAYOUT_WIDTH_MAX);
    let wish = LiveWish { node, pool: &pool.name, copies: wanted, width };
    let partitions = live_partitions(core, &wish, context.now)?;
    // Where there are fewer disk servers there are fewer columns.
    let (width, copies_len) = (partitions.len().min(width.into()), partitions.len().min(wanted.0.into()));
    let mut copies = Vec::new();
    for column in 0..width {
        for copy in 0..copies_len {
            let partition = partitions[(column + copy) % partitions.len()].clone();
            let (object, server) = (core.store.next_object()?, copies.len() as u32);
            let column = column as u32;
            copies.push(LiveCopy { object, partition, base: None, column, server, sealed: None });
        }
    }
    let unit = rule.unit.unwrap_or(LAYOUT_UNIT_DEFAULT);
    Ok(LiveContent::new(copies, if width > 1 { unit } else { 0 }))
}

/// Copies of a live file, and the fewest that will do: as the rule says that counts for it, or its pool.
fn copies_of(core: &Core, node: &Node, pool: &Pool) -> Result<(u8, u8)> {
    let (promised, fewest) = live_promise(pool);
    let rule = rule_of(core, node)?.and_then(|(rule, _)| rule.copies);
    let copies = rule.unwrap_or(promised);
    Ok((copies, fewest.min(copies)))
}

/// Where the bytes lie of a file that is changed in place, for people.
pub(crate) fn live_layout(core: &Core, node: &Node) -> Result<Option<LiveLayout>> {
    let live = shared_file(core, node.id)?.live.filter(|live| live.is_committed);
    Ok(live.map(|live| {
        let of = |copies: Vec<&LiveCopy>| copies.into_iter().map(|copy| copy.partition.clone()).collect();
        LiveLayout { unit: live.unit, columns: live.columns().map(of).collect() }
    }))
}

/// Chooses where the objects of a file lie that has bytes: beside replicas, with which they begin.
fn place_beside(
    core: &mut Core,
    (node, path): (&Node, &FilePath),
    bases: &[Replica],
    context: &Context,
) -> Result<LiveContent> {
    let pool = pool_of_live(core, &bases[0].partition)?;
    let (wanted, fewest) = copies_of(core, node, &pool)?;
    let (mut copies, mut refused) = (Vec::new(), None);
    for base in bases.iter().take(usize::from(wanted)) {
        let reserve = Reserve {
            file: node.id,
            owner: &node.owner,
            bytes: node.size,
            state: ReplicaState::Writing,
            on: Some(&base.partition),
            pool: None,
        };
        let partition = match choose_partition(core, &reserve, context.now) {
            Ok(partition) => partition,
            Err(failure) => {
                refused = Some(failure);
                continue;
            }
        };
        let (object, server) = (core.store.next_object()?, copies.len() as u32);
        let base = Some((base.object, base.size));
        copies.push(LiveCopy { object, partition, base, column: 0, server, sealed: None });
    }
    if copies.len() < usize::from(fewest.max(1)) {
        return Err(refused.unwrap_or_else(|| {
            let (has, fewest) = (copies.len(), counted(u64::from(fewest), "copy", "copies"));
            Failure::unavailable(format!("{path} has {has} that can be changed; its pool wants {fewest}"))
                .hint("wait until the pool has copied it again, or until its disk servers answer")
        }));
    }
    Ok(LiveContent::new(copies, 0))
}

/// Publishes what was synced. With the first commit the live objects take the place of what the file had.
pub(super) fn commit(
    core: &mut Core,
    (node, mut shared): (&Node, SharedFile),
    (size, modified): (u64, Timestamp),
    context: &Context,
) -> Result<()> {
    let gone = || Failure::locked(format!("file {} was replaced meanwhile", node.id)).hint("open it again");
    let live = shared.live.as_mut().ok_or_else(gone)?;
    if !live.is_committed {
        if !node.is_in_trash() {
            trash::keep_content(core, node.id, &[], (&context.who.name, context.now))?;
        }
        drop_content(core, node.id, &[])?;
        live.is_committed = true;
    }
    core.store.set_live_content(node.id, live.object, (size, modified))?;
    core.touch(Topic::Files);
    put(core, node.id, &shared, context.now)
}

/// Drops live objects that nobody has committed anything to and nobody can any more.
pub(super) fn give_up_unused(core: &mut Core, shared: &mut SharedFile) -> Result<()> {
    let is_unused = shared.live.as_ref().is_some_and(|live| !live.is_committed) && !has_writer(shared);
    if is_unused { discard(core, shared, 0) } else { Ok(()) }
}

/// Has all live objects of a file deleted, which has `size` bytes: nobody reads or writes them any more, so that nothing is fenced.
fn discard(core: &mut Core, shared: &mut SharedFile, size: u64) -> Result<()> {
    let Some(live) = shared.live.take() else { return Ok(()) };
    let bytes = size / u64::from(live.width().max(1));
    for copy in &live.copies {
        core.store.remove_object(&copy.partition, copy.object, bytes)?;
        shared.grants.forget_server(copy.server);
        core.live.share.forget_object(copy.object);
    }
    if let Some(joined) = &live.joined {
        core.store.remove_object(&joined.partition, joined.object, size)?;
        core.live.share.forget_object(joined.object);
    }
    core.touch(Topic::Removals);
    Ok(())
}

/// The content of a file is replaced, or goes: its live objects go, and what mounts cache of it counts no more.
pub(crate) fn content_replaced(core: &mut Core, file: FileId, now: Timestamp) -> Result<()> {
    if core.store.mounts()?.is_empty() && !core.store.node(file)?.is_some_and(|node| node.is_live()) {
        return Ok(());
    }
    load(core, now)?;
    let Some(mut shared) = core.store.shared_file(file)? else { return Ok(()) };
    let size = core.store.node(file)?.map_or(0, |node| node.size);
    discard(core, &mut shared, size)?;
    shared.grants.content_replaced();
    put(core, file, &shared, now)
}

/// Has a file committed and sealed for a door that wants to read it. Yields whether that is done; else the caller waits for the file.
pub(crate) fn settle_for_door(core: &mut Core, context: &Context, node: &Node) -> Result<bool> {
    if !node.is_live() && core.store.mounts()?.is_empty() {
        return Ok(true);
    }
    load(core, context.now)?;
    let nobody = ClientId(0);
    let wait = (node.id, nobody, Want::Door);
    let is_committed = grants::recall_writers(core, (node.id, nobody), context)?;
    if is_committed && !node.is_live() {
        core.live.share.waits_no_more(node.id, nobody, Want::Door);
        return Ok(true);
    }
    let why = door_waits(core, node)?;
    core.live.share.waits(wait, why, context.now);
    core.look_again_in(waits::LOOK);
    copies::drop_away(core, node.id, false, context)?;
    core.live.share.hasty.insert(node.id);
    core.store.note_changed(Awaited::LiveOrders);
    core.awaits(Awaited::File(node.id));
    Ok(false)
}

/// What a door waits for that opens a live file.
fn door_waits(core: &Core, node: &Node) -> Result<String> {
    let shared = shared_file(core, node.id)?;
    Ok(match shared.live {
        _ if is_written(&shared) => sessions::who_has(core, &shared, ClientId(0))?,
        Some(live) => seal_waits(&live),
        None => "it is being sealed".to_owned(),
    })
}

/// What a door would wait for that opened a live file now.
pub(super) fn live_waits(core: &Core, node: &Node) -> Result<Option<String>> {
    let shared = shared_file(core, node.id)?;
    Ok(Some(if is_written(&shared) {
        format!(
            "live: written through a mount; for a door, {}",
            sessions::who_has(core, &shared, ClientId(0))?
        )
    } else {
        "live: it is sealed 10 s after the last write, or at once when a door opens it".to_owned()
    }))
}

/// Why a live file is not read or written by a door now.
pub(crate) fn being_written(core: &Core, node: &Node) -> Result<Failure> {
    let path = shown_path(core, node)?;
    Ok(Failure::locked(format!("{path} is being written through a mount"))
        .hint("try again in a moment; `bp lease` shows who writes"))
}

/// Whether a grant of the file is to be ended at its disk server.
pub(super) fn is_fencing(shared: &SharedFile) -> bool {
    let mut grants = shared.grants.grants().iter();
    grants.any(|grant| grant.stage == Stage::Ending && !grant.unfenced.is_empty())
}

/// Who has to seal a file.
fn seal_waits(live: &LiveContent) -> String {
    if let Some(joined) = &live.joined {
        return format!("partition {} has to put its columns together", joined.partition);
    }
    let waits = live.copies.iter().find(|copy| copy.sealed.is_none());
    let partition = waits.map_or("", |copy| &copy.partition);
    format!("partition {partition} has to seal it")
}

/// What a mount waits for that wants a grant on a file whose live objects are about to be sealed.
pub(super) fn is_ending(core: &mut Core, file: FileId, shared: &SharedFile) -> Option<String> {
    let live = shared.live.as_ref().filter(|live| live.is_sealing || live.is_uneven)?;
    if live.is_sealing {
        return Some("its disk server is sealing it".to_owned());
    }
    core.live.share.hasty.insert(file);
    core.store.note_changed(Awaited::LiveOrders);
    Some("its copies are compared: the mount that wrote to it has ended".to_owned())
}
