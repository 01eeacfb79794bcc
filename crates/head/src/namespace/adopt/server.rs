//! Calls that disk servers make while they adopt.

use super::{partition_of, running};
use crate::{
    Apply, Context, Core, Topic,
    account::{Growth, refuse_excess},
    namespace::{find, refuse_reserved, resolve_parent},
    pool::{drop_content, require_size, retire},
    store::{AdoptionRow, NewContent, NewNode, Node, Replica, ReplicaState},
};
use base::{ErrorKind, Failure, FilePath, ObjectId, Result, Timestamp, is_name};
use std::sync::Arc;
use tracing::{info, warn};
use wire::control::{
    ADOPTED_LEN_MAX, AdoptedContent, AdoptedEnds, AdoptedFile, AdoptionGoesOn, AdoptionOrder, AdoptionOrders,
    AdoptionPlace, AdoptionPlaces, AdoptionState, Amount, BeginAdopted, Done, EndAdopted, FoundEntry,
    LEFT_ALONE_MAX, LEFT_ALONE_PAGE, NextAdoption, NodeKind, ReportAdoption, WithdrawAdopted,
};

impl Apply for NextAdoption {
    const TOPIC: Topic = Topic::Removals;

    fn apply(self, core: &mut Core, context: &Context) -> Result<AdoptionOrders> {
        let partition = partition_of(core, context, &self.partition)?;
        let row = core.store.adoption(&self.partition)?;
        // What begins before the disk server has registered would be abandoned when it does.
        let is_known = partition.boot == self.boot && core.live.partitions.contains_key(&self.partition);
        let row = row.filter(|row| row.state == AdoptionState::Running && is_known);
        let Some(mut row) = row else { return Ok(AdoptionOrders::default()) };
        for object in core.live.adopting.remove(&self.partition).unwrap_or_default() {
            abandon(core, object)?;
        }
        core.store.forget_left_alone(&self.partition)?;
        (row.seen, row.left_alone, row.unowned) = (Amount::default(), 0, 0);
        (row.total, row.updated) = (None, context.now);
        core.store.put_adoption(&self.partition, &row)?;
        let AdoptionRow { adoption, directory, path, is_moving, bytes_per_s, .. } = row;
        Ok(AdoptionOrders {
            order: Some(AdoptionOrder { adoption, directory, path, is_moving, bytes_per_s }),
        })
    }
}

impl Apply for BeginAdopted {
    fn paths(&self) -> Vec<FilePath> {
        self.entries.iter().map(|entry| entry.path.clone()).collect()
    }

    fn apply(self, core: &mut Core, context: &Context) -> Result<AdoptionPlaces> {
        partition_of(core, context, &self.partition)?;
        refuse_many(self.entries.len())?;
        let Some(row) = running(core, &self.partition, self.adoption)? else {
            return Ok(AdoptionPlaces::default());
        };
        let mut places = Vec::with_capacity(self.entries.len());
        for entry in &self.entries {
            places.push(match place(core, context, (&self.partition, &row), entry) {
                Ok(place) => place,
                // Our own failures are not the entry's.
                Err(failure) if matches!(failure.kind, ErrorKind::Io | ErrorKind::Internal) => {
                    return Err(failure);
                }
                Err(failure) => AdoptionPlace::Refused(failure),
            });
        }
        Ok(AdoptionPlaces { places })
    }
}

fn refuse_many(len: usize) -> Result<()> {
    if len > ADOPTED_LEN_MAX {
        return Err(Failure::invalid(format!("{len} entries are more than {ADOPTED_LEN_MAX}"))
            .hint("send some at a time"));
    }
    Ok(())
}

/// What may be done with an entry; nothing is changed if it is refused.
fn place(
    core: &mut Core,
    context: &Context,
    (partition, row): (&str, &AdoptionRow),
    entry: &FoundEntry,
) -> Result<AdoptionPlace> {
    let path = &entry.path;
    if !path.is_within(&row.path) {
        return Err(Failure::permission(format!("{path} does not lie below {}", row.path)));
    }
    if path.is_root() {
        return Ok(AdoptionPlace::Directory);
    }
    let parent = resolve_parent(core, &context.who, path)?;
    let Some(node) = find(core, &context.who, path)? else {
        refuse_reserved(path)?;
        return make(core, (partition, &parent), entry, context.now);
    };
    match (entry.kind, node.kind) {
        (NodeKind::Directory, NodeKind::Directory) => Ok(AdoptionPlace::Directory),
        (NodeKind::File, NodeKind::File) => known(partition, &node, path),
        (_, other) => Err(Failure::exists(format!("{path} exists, a {}", other.as_str()))),
    }
}

/// A name that is taken: perhaps by the very same file.
fn known(partition: &str, node: &Node, path: &FilePath) -> Result<AdoptionPlace> {
    if node.is_unwritten() {
        return Err(Failure::locked(format!("{path} is being written or reserved by {}", node.owner)));
    }
    let held = node.online().find(|replica| replica.partition == partition);
    let held = held.ok_or_else(|| {
        Failure::exists(format!("{path} exists, and not on partition {partition}"))
            .hint("keep the right one, and rename or remove the other")
    })?;
    Ok(AdoptionPlace::Known { object: held.object, size: node.size, modified: node.modified })
}

/// A name that a user or group of a host can have here, too. What a disk server says is no proof: nobody could log in
/// with a name that doors refuse.
pub(super) fn usable(name: Option<&String>) -> Option<&str> {
    name.map(String::as_str).filter(|name| is_name(name))
}

fn make(
    core: &mut Core,
    (partition, parent): (&str, &Node),
    entry: &FoundEntry,
    now: Timestamp,
) -> Result<AdoptionPlace> {
    let facility_owner = core.facility.owner.clone();
    let owner = usable(entry.owner.as_ref()).unwrap_or(&facility_owner);
    let new = NewNode {
        parent: parent.id,
        name: entry.path.name(),
        kind: entry.kind,
        owner,
        mode: entry.mode & 0o7777,
        now: entry.modified,
    };
    let file = core.store.insert_node_of(&new, usable(entry.group.as_ref()).unwrap_or(owner))?;
    core.touch(Topic::Files);
    if entry.kind == NodeKind::Directory {
        return Ok(AdoptionPlace::Directory);
    }
    let replica = core.store.insert_replica(Replica {
        object: ObjectId(0),
        file,
        partition: partition.to_owned(),
        state: ReplicaState::Writing,
        owner: owner.to_owned(),
        // Its bytes are there: no room is promised.
        size: 0,
        created: now,
        used: now,
        piece: None,
    })?;
    core.live.adopting.entry(partition.to_owned()).or_default().insert(replica.object);
    Ok(AdoptionPlace::Make { object: replica.object, file })
}

impl Apply for EndAdopted {
    fn apply(self, core: &mut Core, context: &Context) -> Result<AdoptedEnds> {
        let space = partition_of(core, context, &self.partition)?;
        refuse_many(self.files.len())?;
        let mut row = core.store.adoption(&self.partition)?.filter(|row| row.adoption == self.adoption);
        let mut refused = Vec::with_capacity(self.files.len());
        for AdoptedFile { object, content } in self.files {
            if let Some(all) = core.live.adopting.get_mut(&self.partition) {
                all.remove(&object);
            }
            let Some(content) = content else {
                abandon(core, object)?;
                refused.push(None);
                continue;
            };
            let outcome = commit(core, context, (&self.partition, object), content)?;
            if let (Ok(true), Some(row)) = (&outcome, &mut row) {
                row.adopted.files += 1;
                row.adopted.bytes += content.size;
            }
            refused.push(outcome.err());
        }
        if let Some(row) = row {
            core.store.put_adoption(&self.partition, &row)?;
        }
        // What came online was there before: it takes no room away.
        core.store.set_space(&self.partition, space.total, space.free)?;
        core.touch(Topic::Files);
        Ok(AdoptedEnds { refused })
    }
}

/// Makes an object the content of its file. Yields whether that is new; the inner failure is the file's own.
fn commit(
    core: &mut Core,
    context: &Context,
    (partition, object): (&str, ObjectId),
    content: AdoptedContent,
) -> Result<Result<bool>> {
    let replica = core.store.replica(object)?.filter(|replica| replica.partition == partition);
    let gone = || Failure::not_found(format!("object {object} is no longer being adopted"));
    let Some(replica) = replica else {
        return Ok(Err(gone().hint("its file was removed meanwhile; adopt it again")));
    };
    let Some(node) = core.store.node(replica.file)? else { return Ok(Err(gone())) };
    if replica.state != ReplicaState::Writing {
        let is_same = (node.size, node.checksums) == (content.size, Some(content.checksums));
        return Ok(if is_same { Ok(false) } else { Err(gone()) });
    }
    if let Err(failure) = require_size(&format!("object {object}"), content.size) {
        abandon(core, object)?;
        return Ok(Err(failure));
    }
    crate::pool::came_online(core, object, content.size, context.now)?;
    let AdoptedContent { size, checksums, modified } = content;
    core.store.set_content(node.id, NewContent { size, checksums, generation: object.0 }, modified)?;
    if let Err(failure) = refuse_excess(core, &node, Growth { is_new: true, bytes: content.size }) {
        remove(core, &node)?;
        return Ok(Err(failure));
    }
    let pool = core.store.partition(partition)?.map(|row| row.pool).unwrap_or_default();
    let policy = core.store.policy(&pool)?;
    if policy.copies > 1 {
        // There was one before, too: what the pool promises is made from it.
        core.store.put_shortage(node.id, &pool, 1, context.now)?;
    }
    Ok(Ok(true))
}

/// Gives up an object that was set aside; its file goes with it.
fn abandon(core: &mut Core, object: ObjectId) -> Result<()> {
    let replica = core.store.replica(object)?.filter(|replica| replica.state == ReplicaState::Writing);
    let Some(replica) = replica else { return Ok(()) };
    match core.store.node(replica.file)? {
        Some(node) if node.is_unwritten() => remove(core, &node),
        _ => retire(core, &replica),
    }
}

fn remove(core: &mut Core, node: &Arc<Node>) -> Result<()> {
    drop_content(core, node.id, &[])?;
    core.store.delete_pins(node.id)?;
    core.store.delete_node(node.id)?;
    core.touch(Topic::Files);
    Ok(())
}

impl Apply for WithdrawAdopted {
    fn apply(self, core: &mut Core, context: &Context) -> Result<Done> {
        partition_of(core, context, &self.partition)?;
        let Some(mut row) = core.store.adoption(&self.partition)?.filter(|row| row.adoption == self.adoption)
        else {
            return Err(Failure::not_found(format!("there is no adoption {}", self.adoption)));
        };
        let replica = core.store.replica(self.object)?;
        let replica = replica
            .filter(|replica| replica.partition == self.partition && replica.state == ReplicaState::Online);
        let Some(replica) = replica else { return Ok(Done {}) };
        let Some(node) = core.store.node(replica.file)? else { return Ok(Done {}) };
        warn!(partition = self.partition, object = %self.object, file = %node.id,
              "a file was changed at its original path after it was adopted");
        // What is older, or has other copies, is for `bp scan`.
        if node.replicas.len() == 1 && !node.is_archived && replica.created >= row.started {
            remove(core, &node)?;
            row.adopted.files = row.adopted.files.saturating_sub(1);
            row.adopted.bytes = row.adopted.bytes.saturating_sub(node.size);
            core.store.put_adoption(&self.partition, &row)?;
        }
        Ok(Done {})
    }
}

impl Apply for ReportAdoption {
    fn apply(self, core: &mut Core, context: &Context) -> Result<AdoptionGoesOn> {
        partition_of(core, context, &self.partition)?;
        let Some(mut row) = running(core, &self.partition, self.adoption)? else {
            return Ok(AdoptionGoesOn { goes_on: false });
        };
        if self.left.len() > LEFT_ALONE_PAGE {
            return Err(Failure::invalid(format!("{} names are too many at once", self.left.len())));
        }
        for left in &self.left {
            row.left_alone += 1;
            if row.left_alone <= LEFT_ALONE_MAX {
                core.store.put_left_alone(&self.partition, row.left_alone, left)?;
            }
        }
        (row.total, row.seen, row.unowned) = (self.total, self.seen, self.unowned);
        (row.updated, row.trouble) = (context.now, self.trouble);
        if self.is_done || self.is_refused {
            row.state = if self.is_refused { AdoptionState::Refused } else { AdoptionState::Done };
            info!(partition = self.partition, files = row.adopted.files, left_alone = row.left_alone,
                  state = ?row.state, "adoption ended");
        }
        let goes_on = row.state == AdoptionState::Running;
        core.store.put_adoption(&self.partition, &row)?;
        Ok(AdoptionGoesOn { goes_on })
    }
}
