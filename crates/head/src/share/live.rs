//! Live objects: how a file begins to change in place, what is committed of it, and how it is sealed again.

use super::{
    grants::{self, SERVER},
    has_writer, is_written, load, put, shared_file,
};
use crate::{
    Apply, Context, Core, Topic, account, batch,
    namespace::path_of,
    pool::{
        Reserve, came_online, choose_partition, drop_content, out_of_reach, partition_of, source, state_of,
    },
    share::{
        opens::shown_path,
        sessions,
        waits::{self, Want},
    },
    store::{LiveObject, NewContent, Node, Replica, ReplicaState, SharedFile},
    trash,
    waiters::Awaited,
};
use ::share::{ClientId, Incarnation, Stage};
use base::{Failure, FileId, FilePath, Millis, ObjectId, Result, Timestamp};
use wire::{
    control::{
        BeginLive, Done, FileState, LiveBase, LiveFenced, LiveOrder, LiveOrders, LiveSealed, NextLiveOrders,
    },
    media::object::Label,
};

/// How long nobody writes to a live file before it is sealed: an editor that saves again a moment later need not wait for that.
const QUIET: Millis = Millis::from_seconds(10);
/// Orders that are given at once.
const ORDERS_MAX: usize = 100;

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

/// Gives a file an object that changes in place, if it has none.
pub(super) fn begin(
    core: &mut Core,
    context: &Context,
    (node, path): (&Node, &FilePath),
    shared: &mut SharedFile,
) -> Result<()> {
    if shared.live.is_some() {
        return Ok(());
    }
    let base = source(core, node, node.id.0, context.now)?;
    let base = base.ok_or_else(|| Failure::unavailable(format!("{path} cannot be read now")))?;
    if base.piece.is_some() {
        return Err(Failure::unsupported(format!("{path} is coded and cannot be changed in place"))
            .hint("write the whole file anew under another name, and move it here"));
    }
    shared.live = Some(place(core, (node, Some(&base)), context)?);
    Ok(())
}

/// Chooses where a live object lies: beside what it begins with.
pub(super) fn place(
    core: &mut Core,
    (node, base): (&Node, Option<&Replica>),
    context: &Context,
) -> Result<LiveObject> {
    let reserve = Reserve {
        file: node.id,
        owner: &node.owner,
        bytes: node.size,
        state: ReplicaState::Writing,
        on: base.map(|base| &*base.partition),
        pool: None,
    };
    let partition = choose_partition(core, &reserve, context.now)?;
    let object = core.store.next_object()?;
    let base = base.map(|base| (base.object, base.size));
    Ok(LiveObject { object, partition, base, is_committed: false, is_sealing: false })
}

/// Publishes what was synced. With the first commit the live object takes the place of what the file had.
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

/// Drops a live object that nobody has committed anything to and nobody can any more.
pub(super) fn give_up_unused(core: &Core, shared: &mut SharedFile) -> Result<()> {
    let is_unused = shared.live.as_ref().is_some_and(|live| !live.is_committed) && !has_writer(shared);
    if is_unused && let Some(live) = shared.live.take() {
        core.store.remove_object(&live.partition, live.object, 0)?;
        shared.grants.forget_server(SERVER);
    }
    Ok(())
}

/// The content of a file is replaced, or goes: its live object goes, and what mounts cache of it counts no more.
pub(crate) fn content_replaced(core: &mut Core, file: FileId, now: Timestamp) -> Result<()> {
    if core.store.mounts()?.is_empty() && !core.store.node(file)?.is_some_and(|node| node.is_live()) {
        return Ok(());
    }
    load(core, now)?;
    let Some(mut shared) = core.store.shared_file(file)? else { return Ok(()) };
    if let Some(live) = shared.live.take() {
        let size = core.store.node(file)?.map_or(0, |node| node.size);
        core.store.remove_object(&live.partition, live.object, size)?;
        core.live.share.forget_object(live.object);
        core.touch(Topic::Removals);
    }
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
    core.live.share.hasty.insert(node.id);
    core.store.note_changed(Awaited::LiveOrders);
    core.awaits(Awaited::File(node.id));
    Ok(false)
}

impl Apply for BeginLive {
    fn apply(self, core: &mut Core, context: &Context) -> Result<LiveBase> {
        let (file, live) = live_object(core, context, self.object)?;
        partition_of(core, context, &live.partition)?;
        let (object, size) = live.base.unzip();
        let node = core.store.node(file)?.filter(|node| !node.is_in_trash());
        let label = node.map(|node| -> Result<Label> {
            let (path, holder) = (path_of(core, file)?, node.holder());
            Ok(Label { file, path, generation: live.object.0, holder, piece: None })
        });
        let floor = shared_file(core, file)?.grants.floor();
        if let Some(start) = self.start {
            // From now on fences of this start are believed, and of no other.
            core.live.share.starts.insert(self.object, start);
        }
        Ok(LiveBase { object, size: size.unwrap_or(0), label: label.transpose()?, floor })
    }
}

/// The file that has a live object.
fn live_object(core: &mut Core, context: &Context, object: ObjectId) -> Result<(FileId, LiveObject)> {
    load(core, context.now)?;
    let gone = || Failure::not_found(format!("object {object} does not change in place any more"));
    let file = *core.live.share.objects.get(&object).ok_or_else(gone)?;
    let live = shared_file(core, file)?.live.filter(|live| live.object == object);
    Ok((file, live.ok_or_else(gone)?))
}

impl Apply for NextLiveOrders {
    fn apply(self, core: &mut Core, context: &Context) -> Result<LiveOrders> {
        load(core, context.now)?;
        partition_of(core, context, &self.partition)?;
        core.awaits(Awaited::LiveOrders);
        let share = &core.live.share;
        let is_due = |(file, since): (&FileId, &Timestamp)| {
            let left = if share.hasty.contains(file) { Millis(0) } else { *since + QUIET - context.now };
            if left.0 > 0 {
                core.look_again_in(left);
            }
            (left.0 <= 0).then_some(*file)
        };
        let due: Vec<_> =
            share.fencing.iter().copied().chain(share.quiet.iter().filter_map(is_due)).collect();
        let mut orders = Vec::new();
        for file in due {
            if orders.len() < ORDERS_MAX {
                add_orders(core, (file, &self.partition), context, &mut orders)?;
            }
        }
        Ok(LiveOrders { orders })
    }
}

/// Adds what is to be done with the live object of a file, if it lies on this partition.
fn add_orders(
    core: &mut Core,
    (file, partition): (FileId, &str),
    context: &Context,
    orders: &mut Vec<LiveOrder>,
) -> Result<()> {
    let mut shared = shared_file(core, file)?;
    let Some(live) = shared.live.as_mut().filter(|live| live.partition == partition) else { return Ok(()) };
    let object = live.object;
    let incarnation = Incarnation(core.facility.incarnation);
    let fences = shared.grants.fences(SERVER, incarnation).into_iter();
    orders.extend(fences.map(|fence| LiveOrder::Fence { object, fence }));
    // An older catalogue may say fewer bytes than there are, and a seal cuts the object.
    let is_settled = core.unsettled()?.is_none();
    let node = core.store.node(file)?.filter(|node| is_settled && !node.is_in_trash());
    let Some(node) = node.filter(|node| node.live == object && !is_written(&shared)) else { return Ok(()) };
    let path = path_of(core, file)?;
    orders.push(LiveOrder::Seal { object, file, path, holder: node.holder(), size: node.size });
    if let Some(live) = shared.live.as_mut().filter(|live| !live.is_sealing) {
        live.is_sealing = true;
        put(core, file, &shared, context.now)?;
    }
    Ok(())
}

impl Apply for LiveFenced {
    fn apply(self, core: &mut Core, context: &Context) -> Result<Done> {
        partition_of(core, context, &self.partition)?;
        let Ok((file, _)) = live_object(core, context, self.object) else { return Ok(Done {}) };
        let mut shared = shared_file(core, file)?;
        shared.grants.fenced(SERVER, self.generation);
        put(core, file, &shared, context.now)?;
        Ok(Done {})
    }
}

impl Apply for LiveSealed {
    fn apply(self, core: &mut Core, context: &Context) -> Result<Done> {
        partition_of(core, context, &self.partition)?;
        let Ok((file, live)) = live_object(core, context, self.object) else { return Ok(Done {}) };
        let node = core.store.node(file)?.filter(|node| node.live == self.object && node.size == self.size);
        let Some(node) = node.filter(|_| live.is_sealing && live.partition == self.partition) else {
            return Err(Failure::invalid(format!("nobody ordered object {} to be sealed", self.object)));
        };
        seal(core, &node, &self, context)?;
        Ok(Done {})
    }
}

/// A live object has become a replica like others.
fn seal(core: &mut Core, node: &Node, sealed: &LiveSealed, context: &Context) -> Result<()> {
    let replica = Replica {
        object: sealed.object,
        file: node.id,
        partition: sealed.partition.clone(),
        state: ReplicaState::Writing,
        owner: node.owner.clone(),
        size: sealed.size,
        created: context.now,
        used: context.now,
        piece: None,
    };
    core.store.insert_known_replica(replica.clone())?;
    came_online(core, sealed.object, sealed.size, context.now)?;
    let content = NewContent { size: sealed.size, checksums: sealed.checksums, generation: sealed.object.0 };
    core.store.seal_content(node.id, content)?;
    account::written(core, &replica, sealed.size)?;
    crate::pool::note_sealed(core, node.id, &sealed.partition, context.now)?;
    let mut shared = shared_file(core, node.id)?;
    shared.live = None;
    core.live.share.forget_object(sealed.object);
    core.live.share.hasty.remove(&node.id);
    put(core, node.id, &shared, context.now)?;
    core.touch(Topic::Files);
    batch::file_online(core, node.id, context.now)
}

/// What a door waits for that opens a live file.
fn door_waits(core: &Core, node: &Node) -> Result<String> {
    let shared = shared_file(core, node.id)?;
    Ok(match shared.live {
        _ if is_written(&shared) => sessions::who_has(core, &shared, ClientId(0))?,
        Some(live) => format!("partition {} has to seal it", live.partition),
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
