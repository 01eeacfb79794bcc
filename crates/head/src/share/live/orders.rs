//! What disk servers do with live objects: begin, fence and seal them.

use super::{
    copies::{drop_away, drop_copies},
    join::join_order,
};
use crate::{
    Apply, Context, Core, account, batch,
    namespace::path_of,
    pool::{came_online, note_sealed, partition_of},
    share::{is_written, load, put, shared_file},
    store::{LiveContent, NewContent, Node, Replica, ReplicaState, SharedFile},
    waiters::Awaited,
};
use ::share::Incarnation;
use base::{Checksums, Failure, FileId, Millis, ObjectId, Result, Timestamp};
use tracing::error;
use wire::{
    control::{BeginLive, Done, LiveBase, LiveFenced, LiveOrder, LiveOrders, LiveSealed, NextLiveOrders},
    media::object::Label,
};

/// How long nobody writes to a live file before it is sealed: an editor that saves again a moment later need not wait for that.
const QUIET: Millis = Millis::from_seconds(10);
/// How long a file that nobody waits for is left unsealed for a disk server that does not answer: it may only be started again.
const ABSENT: Millis = Millis::from_seconds(120);
/// Orders that are given at once.
const ORDERS_MAX: usize = 100;

impl Apply for BeginLive {
    fn apply(self, core: &mut Core, context: &Context) -> Result<LiveBase> {
        let (file, live) = live_content(core, context, self.object)?;
        let copy = live.copy(self.object).ok_or_else(|| gone(self.object))?;
        partition_of(core, context, &copy.partition)?;
        let (object, size) = copy.base.unzip();
        let node = core.store.node(file)?.filter(|node| !node.is_in_trash());
        let label = node.map(|node| -> Result<Label> {
            let (path, holder) = (path_of(core, file)?, node.holder());
            Ok(Label { file, path, generation: live.object.0, holder, piece: None })
        });
        // A column is no file: without the catalogue nobody may take it for one.
        let label = label.filter(|_| !live.is_striped());
        let floor = shared_file(core, file)?.grants.floor();
        if let Some(start) = self.start {
            // From now on fences of this start are believed, and of no other.
            core.live.share.starts.insert(self.object, start);
        }
        Ok(LiveBase { object, size: size.unwrap_or(0), label: label.transpose()?, floor })
    }
}

fn gone(object: ObjectId) -> Failure {
    Failure::not_found(format!("object {object} does not change in place any more"))
}

/// The file that has a live object, and all that it has of that kind.
fn live_content(core: &mut Core, context: &Context, object: ObjectId) -> Result<(FileId, LiveContent)> {
    load(core, context.now)?;
    let file = *core.live.share.objects.get(&object).ok_or_else(|| gone(object))?;
    let is_joined = |live: &LiveContent| live.joined.as_ref().is_some_and(|joined| joined.object == object);
    let live = shared_file(core, file)?.live.filter(|live| live.copy(object).is_some() || is_joined(live));
    Ok((file, live.ok_or_else(|| gone(object))?))
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
            (left.0 <= 0).then_some((*file, context.now - *since))
        };
        let fencing = share.fencing.iter().map(|file| (*file, Millis(0)));
        let due: Vec<_> = fencing.chain(share.quiet.iter().filter_map(is_due)).collect();
        let mut orders = Vec::new();
        for (file, quiet) in due {
            if quiet > ABSENT {
                drop_away(core, file, false, context)?;
            }
            if orders.len() < ORDERS_MAX {
                add_orders(core, (file, &self.partition), context, &mut orders)?;
            }
        }
        Ok(LiveOrders { orders })
    }
}

/// Adds what is to be done with the live objects of a file that lie on this partition.
fn add_orders(
    core: &mut Core,
    (file, partition): (FileId, &str),
    context: &Context,
    orders: &mut Vec<LiveOrder>,
) -> Result<()> {
    let mut shared = shared_file(core, file)?;
    let Some(live) = &shared.live else { return Ok(()) };
    let incarnation = Incarnation(core.facility.incarnation);
    for copy in live.copies.iter().filter(|copy| copy.partition == partition) {
        let fences = shared.grants.fences(copy.server, incarnation).into_iter();
        orders.extend(fences.map(|fence| LiveOrder::Fence { object: copy.object, fence }));
    }
    if live.is_striped() {
        let is_settled = core.unsettled()?.is_none();
        let node = core.store.node(file)?.filter(|node| is_settled && !node.is_in_trash());
        if let Some(node) = node.filter(|node| node.live == live.object && !is_written(&shared)) {
            orders.extend(join_order(core, (&node, shared), partition, context)?);
        }
        return Ok(());
    }
    let mut unsealed =
        live.copies.iter().filter(|copy| copy.partition == partition && copy.sealed.is_none()).peekable();
    if unsealed.peek().is_none() {
        return Ok(());
    }
    // An older catalogue may say fewer bytes than there are, and a seal cuts the object.
    let is_settled = core.unsettled()?.is_none();
    let node = core.store.node(file)?.filter(|node| is_settled && !node.is_in_trash());
    let Some(node) = node.filter(|node| node.live == live.object && !is_written(&shared)) else {
        return Ok(());
    };
    let path = path_of(core, file)?;
    orders.extend(unsealed.map(|copy| LiveOrder::Seal {
        object: copy.object,
        content: live.object.0,
        file,
        path: path.clone(),
        holder: node.holder(),
        size: node.size,
    }));
    if let Some(live) = shared.live.as_mut().filter(|live| !live.is_sealing) {
        live.is_sealing = true;
        put(core, file, &shared, context.now)?;
    }
    Ok(())
}

impl Apply for LiveFenced {
    fn apply(self, core: &mut Core, context: &Context) -> Result<Done> {
        partition_of(core, context, &self.partition)?;
        let Ok((file, live)) = live_content(core, context, self.object) else { return Ok(Done {}) };
        let mut shared = shared_file(core, file)?;
        if let Some(copy) = live.copy(self.object).filter(|copy| copy.partition == self.partition) {
            shared.grants.fenced(copy.server, self.generation);
        }
        put(core, file, &shared, context.now)?;
        Ok(Done {})
    }
}

impl Apply for LiveSealed {
    fn apply(self, core: &mut Core, context: &Context) -> Result<Done> {
        partition_of(core, context, &self.partition)?;
        let Ok((file, content)) = live_content(core, context, self.object) else { return Ok(Done {}) };
        let mut shared = shared_file(core, file)?;
        let node = core.store.node(file)?;
        let node = node.filter(|node| node.live == content.object && node.size == self.size);
        if let Some(joined) = &content.joined
            && joined.object == self.object
            && joined.partition == self.partition
            && let Some(node) = &node
        {
            return finish_join(core, node, (shared, self.checksums), context).map(|()| Done {});
        }
        let live = shared.live.as_mut().filter(|live| live.is_sealing);
        let mut copies = live.into_iter().flat_map(|live| &mut live.copies);
        let copy = copies.find(|copy| copy.object == self.object && copy.partition == self.partition);
        let (Some(node), Some(copy)) = (node, copy) else {
            return Err(Failure::invalid(format!("nobody ordered object {} to be sealed", self.object)));
        };
        copy.sealed = Some(self.checksums);
        put(core, file, &shared, context.now)?;
        finish_seal(core, &node, context)?;
        Ok(Done {})
    }
}

/// If all live objects of a file are sealed, they become replicas like others. Those that differ from the first are dropped: all have
/// what was committed, but a writer that failed may have written more to some.
pub(super) fn finish_seal(core: &mut Core, node: &Node, context: &Context) -> Result<()> {
    let mut shared = shared_file(core, node.id)?;
    let Some(live) = shared.live.clone().filter(|live| live.is_sealing) else { return Ok(()) };
    let sums: Option<Vec<_>> =
        live.copies.iter().map(|copy| copy.sealed.map(|sums| (copy.object, sums))).collect();
    let Some(&(_, checksums)) = sums.as_ref().and_then(|sums| sums.first()) else { return Ok(()) };
    let other = sums.into_iter().flatten().filter(|(_, sums)| *sums != checksums);
    let other: Vec<_> = other.map(|(object, _)| object).collect();
    if !other.is_empty() {
        if !live.is_uneven {
            error!(file = %node.id, objects = ?other, "copies of a file that was written through a mount differ; \
                they are replaced by copies of the first");
        }
        drop_copies(core, (node, &mut shared), &other)?;
    }
    let made = live.copies.iter().filter(|copy| copy.sealed == Some(checksums));
    let made: Vec<_> = made.map(|copy| (copy.object, &*copy.partition)).collect();
    seal(core, node, (live.object, checksums), &made, context)?;
    shared.live = None;
    for copy in &live.copies {
        core.live.share.forget_object(copy.object);
    }
    end_live(core, node, &shared, context)
}

/// The columns of a file are one object now.
fn finish_join(
    core: &mut Core,
    node: &Node,
    (mut shared, checksums): (SharedFile, Checksums),
    context: &Context,
) -> Result<()> {
    let Some(live) = shared.live.as_mut() else { return Ok(()) };
    let Some(joined) = live.joined.take() else { return Ok(()) };
    let object = live.object;
    core.live.share.forget_object(joined.object);
    super::discard(core, &mut shared, node.size)?;
    seal(core, node, (object, checksums), &[(joined.object, &joined.partition)], context)?;
    end_live(core, node, &shared, context)
}

/// A file changes in place no more: whoever waits for it looks again.
fn end_live(core: &mut Core, node: &Node, shared: &SharedFile, context: &Context) -> Result<()> {
    core.live.share.hasty.remove(&node.id);
    put(core, node.id, shared, context.now)?;
    core.touch(crate::Topic::Files);
    batch::file_online(core, node.id, context.now)
}

/// Makes replicas of sealed objects, and has the pool make those that it wants besides.
fn seal(
    core: &mut Core,
    node: &Node,
    (content, checksums): (ObjectId, Checksums),
    objects: &[(ObjectId, &str)],
    context: &Context,
) -> Result<()> {
    let mut first = None;
    for (object, partition) in objects {
        let replica = Replica {
            object: *object,
            file: node.id,
            partition: (*partition).to_owned(),
            state: ReplicaState::Writing,
            owner: node.owner.clone(),
            size: node.size,
            created: context.now,
            used: context.now,
            piece: None,
        };
        core.store.insert_known_replica(replica.clone())?;
        came_online(core, *object, node.size, context.now)?;
        first.get_or_insert(replica);
    }
    let content = NewContent { size: node.size, checksums, generation: content.0 };
    core.store.seal_content(node.id, content)?;
    let Some(first) = first else { return Ok(()) };
    account::written(core, &first, node.size)?;
    note_sealed(core, node.id, &first.partition, objects.len(), context.now)
}
