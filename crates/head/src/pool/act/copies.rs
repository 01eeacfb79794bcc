//! Copies between disk servers, and the inventories that disk servers report.

use crate::{
    Apply, Context, Core, Topic,
    executor::core::{CAP_LIFETIME, CapFor, unknown_partition},
    namespace::path_of,
    pool::{
        act::{
            balance,
            coded::{gateway, give_up_object, pieces_of},
            copies_under_way::planned_source,
            out_of_reach::{self, within_reach},
            policy::is_sweep_due,
            run_maintenance::{look, mend},
            snapshot::{pieces, snapshot_around},
            space::came_online,
        },
        calls::partition_of,
        decide::{
            promise::good_without,
            reading::{Reader, readable},
        },
        retire,
    },
    store::{Node, Piece, Replica, ReplicaState},
    tape,
};
use base::{ErrorKind, Failure, Millis, ObjectId, Result, Timestamp};
use std::collections::BTreeSet;
use tracing::{info, warn};
use wire::{
    auth::capability::Access,
    control::{
        CopyEnded, CopyOrder, CopyOrders, Done, EventType, NextCopies, REPORT_OBJECTS_LEN_MAX, ReportMissing,
        ReportObjects,
    },
    media::object::Label,
};

/// Wait before a copy is tried again; it doubles with each failure.
const BACK_OFF: Millis = Millis::from_seconds(2);
const DOUBLINGS_MAX: u64 = 8;
/// How often a disk server looks for the source of a copy that has none now.
const LOOK_AGAIN: Millis = Millis(1000);

impl Apply for NextCopies {
    const TOPIC: Topic = Topic::Copies;

    fn apply(self, core: &mut Core, context: &Context) -> Result<CopyOrders> {
        partition_of(core, context, &self.partition)?;
        let (mut orders, under_way) = (Vec::new(), self.under_way.into_iter().collect::<BTreeSet<_>>());
        for replica in core.store.unsettled(&self.partition, ReplicaState::Copying)? {
            if under_way.contains(&replica.object) {
                continue;
            }
            match order(core, &replica, context.now)? {
                Some(order) => orders.push(order),
                // Its source is out of reach now, or was tried a moment ago.
                None => core.look_again_in(LOOK_AGAIN),
            }
        }
        Ok(CopyOrders { orders })
    }
}

/// What is to be fetched, if there is somebody to fetch it from now.
fn order(core: &Core, copy: &Replica, now: Timestamp) -> Result<Option<CopyOrder>> {
    let Some(node) = core.store.node(copy.file)? else { return Ok(None) };
    if let Some(piece) = copy.piece {
        return piece_order(core, copy, &piece, &node, now);
    }
    let chosen = match planned_source(core, copy, &node, now)? {
        Some(planned) => Some(planned),
        None => source(core, &node, copy.object.0, now)?.filter(|source| source.piece.is_none()),
    };
    let (Some(checksums), Some(source)) = (node.checksums, chosen) else { return Ok(None) };
    let path = path_of(core, node.id)?;
    let cap =
        CapFor { access: Access::Read, replica: &source, file: &node, path: &path, lifetime: CAP_LIFETIME };
    let url = core.object_url(&cap, now)?;
    let (object, size, source, generation) = (copy.object, node.size, source.object, node.generation);
    let label = Label { file: node.label(), path, generation, holder: node.holder(), piece: None };
    Ok(Some(CopyOrder { object, label, size, checksums: Some(checksums), source, url, pieces: None }))
}

/// How a piece is made: from one like it, or anew from others.
fn piece_order(
    core: &Core,
    copy: &Replica,
    piece: &Piece,
    node: &Node,
    now: Timestamp,
) -> Result<Option<CopyOrder>> {
    let Some(all) = pieces_of(core, node, Some(piece.index), now)? else { return Ok(None) };
    let path = path_of(core, node.id)?;
    let (file, generation, holder) = (node.label(), node.generation, node.holder());
    let label = Label { file, path: path.clone(), generation, holder, piece: Some(all.piece(piece.index)) };
    let (object, size) = (copy.object, copy.size);
    if let Some(like) = planned_source(core, copy, node, now)? {
        let cap =
            CapFor { access: Access::Read, replica: &like, file: node, path: &path, lifetime: CAP_LIFETIME };
        let (url, source) = (core.object_url(&cap, now)?, like.object);
        let checksums = like.piece.and_then(|piece| piece.checksums);
        return Ok(Some(CopyOrder { object, label, size, checksums, source, url, pieces: None }));
    }
    let Some(source) = all.places.first().map(|place| place.object) else { return Ok(None) };
    let (checksums, url) = (piece.checksums, String::new());
    Ok(Some(CopyOrder { object, label, size, checksums, source, url, pieces: Some(all) }))
}

/// The replica to read: on a disk server that answers if there is one, else any; of a coded file the piece whose disk server
/// gathers the others. `None`: on no host that answers. `chance` makes different readers go to different ones.
pub(crate) fn source(core: &Core, node: &Node, chance: u64, now: Timestamp) -> Result<Option<Replica>> {
    if let Some(coding) = node.coding()
        && let Some(gateway) = gateway(core, node, coding, chance, now)?
    {
        return Ok(Some(gateway));
    }
    let whole = within_reach(core, node.online().filter(|replica| replica.piece.is_none()));
    let Some(first) = whole.first().copied() else { return Ok(None) };
    if whole.len() == 1 && !node.is_archived {
        return Ok(Some(first.clone()));
    }
    let pool = core.store.partition(&first.partition)?.map(|partition| partition.pool).unwrap_or_default();
    let snapshot = snapshot_around(core, node, &pool, now)?;
    let pieces = pieces(core, node);
    let reader = Reader { server: Some(&core.config.server.name), domain: None };
    let best = readable(&snapshot, &pieces, reader, chance).first().map(|piece| piece.object);
    if let Some(best) = whole.iter().copied().find(|replica| Some(replica.object) == best) {
        return Ok(Some(best.clone()));
    }
    // It answers and has not said yet what it has: the client will see. But what is on tape need not be waited for.
    let is_given_up = |replica: &&Replica| {
        snapshot.partition(&replica.partition).is_some_and(|partition| partition.is_given_up)
    };
    let first = whole.iter().copied().find(|replica| !is_given_up(replica)).or(Some(first));
    Ok(first.filter(|first| !node.is_archived || !is_given_up(first)).cloned())
}

impl Apply for CopyEnded {
    fn apply(self, core: &mut Core, context: &Context) -> Result<Done> {
        let copy = core.store.replica(self.object)?.filter(|row| row.state == ReplicaState::Copying);
        // Given up in the meantime, or said for the second time.
        let Some(copy) = copy else { return Ok(Done {}) };
        partition_of(core, context, &copy.partition)?;
        for object in self.damaged {
            let is_of_file = core.store.replica(object)?.is_some_and(|replica| replica.file == copy.file);
            if is_of_file && give_up_object(core, object, context.now)? {
                warn!(file = %copy.file, %object, "a piece is damaged; rebuilding it from the others");
                say_damaged(core, &copy.partition, object, context.now);
            }
        }
        match self.failure {
            None => {
                core.live.maintenance.forget_copy(copy.object);
                if let (Some(piece), Some(_)) = (copy.piece, self.checksums) {
                    let piece = Some(Piece { checksums: self.checksums, ..piece });
                    core.store.put_replica(&Replica { piece, ..copy.clone() })?;
                }
                came_online(core, copy.object, copy.size, context.now)?;
                core.touch(Topic::Files);
                core.store.delete_shortage(copy.file)?;
            }
            Some(failure) => {
                balance::rest_after(core, copy.object, context.now);
                retire(core, &copy)?;
                doubt(core, &copy, (self.source, &failure), context.now)?;
                let attempts = core.store.shortage_attempts(copy.file)?.min(DOUBLINGS_MAX);
                let due = context.now + Millis(BACK_OFF.0 << attempts);
                core.store.delay_shortage(copy.file, due, Some(&failure.what))?;
            }
        }
        mend(core, copy.file, context.now)?;
        Ok(Done {})
    }
}

/// Says that an object was found damaged and does not count any more.
pub(in crate::pool) fn say_damaged(core: &mut Core, partition: &str, object: ObjectId, now: Timestamp) {
    let subject = core.partition_subject(partition);
    let what = format!("object {object} on partition {subject} is damaged; rebuilding it from others");
    core.say(now, EventType::ReplicaDamaged, subject, what);
}

/// What could not be copied because it is damaged or missing does not count any more, if there is another replica.
fn doubt(
    core: &mut Core,
    copy: &Replica,
    (source, failure): (ObjectId, &Failure),
    now: Timestamp,
) -> Result<()> {
    // What is made anew from several says itself which of them are damaged.
    let is_like = core.store.replica(source)?.is_some_and(|source| {
        source.file == copy.file
            && source.piece.map(|piece| piece.index) == copy.piece.map(|piece| piece.index)
    });
    let is_damage = matches!(failure.kind, ErrorKind::Corrupt | ErrorKind::NotFound);
    let partition = core.store.replica(source)?.map(|replica| replica.partition);
    if is_like && is_damage && give_up_object(core, source, now)? {
        warn!(file = %copy.file, %source, %failure, "a replica is damaged; copying it again from another one");
        say_damaged(core, partition.as_deref().unwrap_or_default(), source, now);
    }
    Ok(())
}

impl Apply for ReportObjects {
    fn apply(self, core: &mut Core, context: &Context) -> Result<Done> {
        let partition = partition_of(core, context, &self.partition)?;
        if self.objects.len() > REPORT_OBJECTS_LEN_MAX || !self.objects.is_sorted() {
            return Err(Failure::invalid(format!(
                "a page of a report of objects is up to {REPORT_OBJECTS_LEN_MAX} objects in ascending order"
            )));
        }
        let begun = core.live.object_reports.get(&self.partition).filter(|(boot, _)| *boot == self.boot);
        // What came online since is not in a list that was begun then.
        let begun = begun.and_then(|(_, begun)| *begun).ok_or_else(|| unknown_partition(&self.partition))?;
        let upto = self.upto.unwrap_or(ObjectId(i64::MAX as u64));
        for replica in core.store.replicas_between(&self.partition, (self.after, upto))? {
            compare(core, &replica, self.objects.binary_search(&replica.object).is_ok(), begun, context.now)?;
        }
        if self.upto.is_none() {
            core.live.object_reports.remove(&self.partition);
            if partition.given_up.is_some() {
                info!(partition = self.partition, "the partition's disk server is reachable again");
                core.store.set_given_up(&self.partition, None)?;
                let subject = core.partition_subject(&self.partition);
                let what =
                    format!("partition {subject} is back; its files had been copied again from elsewhere");
                core.say(context.now, EventType::PartitionBack, subject, what);
            }
            tape::end_recalls_beside(core, &self.partition, context.now)?;
            if partition.given_up.is_some() || is_sweep_due(core)? {
                core.sweep_again();
            }
            out_of_reach::notice(core, context.now)?;
        }
        Ok(Done {})
    }
}

/// Whether a file can be read from anything else, by those that answer.
fn is_readable(core: &Core, replica: &Replica, now: Timestamp) -> Result<bool> {
    let Some((snapshot, view, node)) = look(core, replica.file, now)? else { return Ok(false) };
    Ok(node.is_archived || good_without(&snapshot, &view, replica.object).1)
}

impl Apply for ReportMissing {
    fn apply(self, core: &mut Core, context: &Context) -> Result<Done> {
        partition_of(core, context, &self.partition)?;
        let is_it =
            |replica: &Replica| replica.partition == self.partition && replica.state == ReplicaState::Online;
        // One that was removed or moved is nobody's loss.
        if let Some(replica) = core.store.replica(self.object)?.filter(is_it) {
            let (object, file, partition) = (replica.object, replica.file, self.partition);
            warn!(%object, %file, partition, "a replica is missing; readers are no longer sent to it");
            settle(core, &replica, ReplicaState::Lost, context.now)?;
            let subject = core.partition_subject(&replica.partition);
            let what = format!(
                "object {object} is missing on partition {subject}; readers are no longer sent to it"
            );
            core.say(context.now, EventType::ReplicaMissing, subject, what);
        }
        Ok(Done {})
    }
}

/// What the catalogue says of a replica against whether it is there.
fn compare(
    core: &mut Core,
    replica: &Replica,
    is_there: bool,
    begun: Timestamp,
    now: Timestamp,
) -> Result<()> {
    let state = match (replica.state, is_there) {
        // What came later is not in the list.
        (ReplicaState::Online, false) if replica.created < begun => ReplicaState::Lost,
        (ReplicaState::Lost, true) => ReplicaState::Online,
        // It was given up because the file was safe without it. Readers compare checksums: some of it is better than nothing.
        (ReplicaState::Damaged, true) if !is_readable(core, replica, now)? => ReplicaState::Online,
        _ => return Ok(()),
    };
    warn!(object = %replica.object, file = %replica.file, partition = replica.partition, ?state, "a partition's \
        list of objects differs from the catalogue; replica state changed");
    settle(core, replica, state, now)
}

fn settle(core: &mut Core, replica: &Replica, state: ReplicaState, now: Timestamp) -> Result<()> {
    core.store.set_replica_state(replica.object, state)?;
    core.touch(Topic::Files);
    mend(core, replica.file, now)
}
