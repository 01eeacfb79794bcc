//! The calls of disk servers and doors, and people's evictions.

use super::{
    Reserve,
    act::{
        allocation::{self, Held},
        bounds::{believed, require_size},
        coded::pieces_of,
        mirror::{coding_of_commit, counted, mirrors, pool_of_partition, require_servers, take_pieces},
        out_of_reach::{self, out_of_reach, state_of},
        reservation::{release_idle, trim},
        space::{came_online, incoming_bytes, note_claims},
        tend::end_coming,
    },
    drop_content, evict as drop_from_disk, reserve, retire, source,
};
use crate::{
    Apply, Context, Core, Topic,
    account::{self, Growth, refuse_excess},
    batch,
    executor::core::{PartitionLive, unknown_partition},
    hosts::{presence, require_doors, require_name},
    namespace::{Right, find, insert, make_parents, path_of, require, resolve_file, resolve_parent},
    store::{NewContent, Node, Partition, Replica, ReplicaState},
    tape, trash,
    waiters::Awaited,
};
use base::{
    ErrorKind, Failure, FilePath, Millis, ObjectId, Result, Timestamp,
    limits::{LIST_ENTRIES_MAX, PARTITIONS_PER_HOST_MAX},
};
use std::{collections::BTreeSet, sync::Arc};
use tracing::{debug, info, warn};
use wire::{
    auth::capability::NEVER_JOINED,
    control::{
        AbandonWrite, BeginWrite, CommitWrite, DiskServer, Disposition, Done, EventType, Evict, FileState,
        GetSpace, NextRemovals, NodeKind, ObjectsRemoved, OpenRead, OpenWrite, PartitionTrouble, PathOutcome,
        PathOutcomes, REPORT_USE_LEN_MAX, ReadGrant, ReadObject, RegisterPartition, Removals, ReportSpace,
        ReportUse, Space, SpaceReported, WriteGrant,
    },
};

/// How long a reservation may wait for its writer: twice the life of the capability that goes with it.
const UNBEGUN_MAX: Millis = Millis(2 * wire::auth::capability::OPEN_LIFETIME.0);

impl Apply for RegisterPartition {
    fn apply(self, core: &mut Core, context: &Context) -> Result<Done> {
        context.who.require_host(&self.server.name)?;
        require_name(core, context, "a partition", &self.partition)?;
        let (name, boot, server) = (self.partition.clone(), self.boot, self.server.name.clone());
        let known = core.store.partition(&name)?;
        if let Some(known) = &known {
            // Another host with the same disk, or with a copy of it.
            context.who.require_host(&known.server.name)?;
        } else {
            require_room(core, context)?;
        }
        require_doors(core, context, &self.server)?;
        let (total_bytes, free_bytes) = believed(self.total_bytes, self.free_bytes);
        if let Some(known) = known.as_ref().filter(|known| known.pool != self.pool) {
            let (pool, said) = (&known.pool, &self.pool);
            info!(
                partition = name,
                pool,
                said,
                "the partition stays in its pool; the pool in its host's configuration is ignored"
            );
        }
        core.store.put_partition(RegisterPartition { total_bytes, free_bytes, ..self })?;
        if known.is_none_or(|known| known.boot != boot) {
            // A disk server that starts has no writer: what was being written was never acknowledged.
            for replica in core.store.unsettled(&name, ReplicaState::Writing)? {
                if replica.state == ReplicaState::Writing {
                    abandon(core, &replica, context)?;
                }
            }
            end_coming(core, &name)?;
            core.live.claims.forget(&name);
        }
        core.live.roll_calls.insert(name.clone(), (boot, Some(context.now)));
        core.live.partitions.insert(name, PartitionLive { heard: context.now, trouble: None, transfers: 0 });
        presence::note_heard(core, &server, boot, context.now);
        out_of_reach::notice(core, context.now)?;
        core.touch(Topic::Copies);
        core.touch(Topic::Removals);
        Ok(Done {})
    }
}

/// Refuses more partitions of one host than it can have disks.
fn require_room(core: &Core, context: &Context) -> Result<()> {
    let Some(host) = context.who.as_host() else { return Ok(()) };
    let own = core.store.map_partitions(|(_, known)| (known.server.name == host).then_some(()))?.len();
    if own < PARTITIONS_PER_HOST_MAX {
        return Ok(());
    }
    Err(Failure::busy(format!("host {host} has {own} partitions, and no more are taken"))
        .hint("use larger partitions, or more hosts"))
}

impl Apply for ReportSpace {
    fn apply(self, core: &mut Core, context: &Context) -> Result<SpaceReported> {
        let partition = partition_of(core, context, &self.partition)?;
        let is_counted = match core.live.roll_calls.get(&self.partition) {
            Some((_, begun)) => begun.is_some(),
            None => partition.given_up.is_none(),
        };
        if partition.boot != self.boot || !is_counted {
            return Err(unknown_partition(&self.partition));
        }
        note_live(core, &self, context.now);
        presence::note_heard(core, &partition.server.name, self.boot, context.now);
        if core.live.away.contains_key(&self.partition) || self.trouble.is_some() {
            out_of_reach::notice(core, context.now)?;
        }
        let is_direct = core.store.policy(&partition.pool)?.direct;
        let pool = partition.pool.clone();
        let told = SpaceReported {
            fence: core.fence(),
            now: context.now,
            is_direct,
            pool: partition.pool,
            released: Vec::new(),
        };
        if self.trouble == Some(PartitionTrouble::Gone) {
            return Ok(told);
        }
        let (total, free) = believed(self.total_bytes, self.free_bytes);
        core.store.set_space(&self.partition, total, free)?;
        note_claims(core, &self.partition, &self.claimed)?;
        let claimed = core.live.claims.total(&self.partition);
        core.live.maintenance.note_free(&self.partition, free.saturating_add(claimed));
        let mut begun = core.live.begun.remove(&self.partition).unwrap_or_default();
        let rows = core.store.unsettled(&self.partition, ReplicaState::Writing)?;
        let released = release_idle(core, (&self, &pool), &rows, context.now)?;
        let writing: BTreeSet<_> = self.writing.into_iter().collect();
        let mut unsettled = BTreeSet::new();
        for replica in rows {
            if replica.state == ReplicaState::Reserved {
                allocation::end_if_over(core, &replica, context.now)?;
                continue;
            }
            unsettled.insert(replica.object);
            if writing.contains(&replica.object) {
                begun.insert(replica.object);
            } else if replica.created + UNBEGUN_MAX < context.now {
                abandon(core, &replica, context)?;
            }
        }
        begun.retain(|object| unsettled.contains(object));
        core.live.begun.insert(self.partition, begun);
        Ok(SpaceReported { released, ..told })
    }
}

/// What is gone was there last before; whoever had registered is known without another word.
fn note_live(core: &mut Core, report: &ReportSpace, now: Timestamp) {
    let name = &report.partition;
    let live = core.live.partitions.entry(name.clone());
    let live = live.or_insert(PartitionLive { heard: now, trouble: None, transfers: 0 });
    live.transfers = report.readers.saturating_add(u32::try_from(report.writing.len()).unwrap_or(u32::MAX));
    if report.trouble != Some(PartitionTrouble::Gone) {
        live.heard = now;
    }
    if std::mem::replace(&mut live.trouble, report.trouble) != report.trouble {
        let subject = core.partition_subject(name);
        let (kind, what) = match report.trouble {
            Some(trouble) => {
                warn!(partition = name, "partition in trouble: {}", trouble.words());
                (EventType::PartitionTrouble, format!("partition {subject} is {}", trouble.words()))
            }
            None => {
                info!(partition = name, "partition has recovered");
                (EventType::PartitionWell, format!("partition {subject} has recovered"))
            }
        };
        core.say(now, kind, subject, what);
        core.touch(Topic::Copies);
        core.touch(Topic::Removals);
    }
}

/// A partition of the host that asks.
pub(super) fn partition_of(core: &Core, context: &Context, name: &str) -> Result<Partition> {
    let partition = core.store.partition(name)?.ok_or_else(|| unknown_partition(name))?;
    context.who.require_host(&partition.server.name)?;
    Ok(partition)
}

impl Apply for GetSpace {
    fn apply(self, core: &mut Core, _: &Context) -> Result<Space> {
        let mut space = Space::default();
        for (name, row) in core.store.partition_space()? {
            let free = row.free_bytes().saturating_sub(incoming_bytes(core, &name, &row));
            space.total_bytes = space.total_bytes.saturating_add(row.capacity_bytes());
            space.free_bytes = space.free_bytes.saturating_add(free);
            space.largest_free_bytes = space.largest_free_bytes.max(free);
        }
        Ok(space)
    }
}

impl Apply for NextRemovals {
    const TOPIC: Topic = Topic::Removals;

    fn apply(self, core: &mut Core, context: &Context) -> Result<Removals> {
        partition_of(core, context, &self.partition)?;
        core.tick(context.now)?;
        let objects = match core.unsettled()? {
            // Nobody knows yet what was written since the backup.
            Some(_) => Vec::new(),
            // They would fail, or be taken for done.
            None if core.trouble(&self.partition).is_some() => Vec::new(),
            None => core.store.removals(&self.partition, LIST_ENTRIES_MAX)?,
        };
        Ok(Removals { objects, mark: core.mark()? })
    }
}

impl Apply for ObjectsRemoved {
    fn apply(self, core: &mut Core, context: &Context) -> Result<Done> {
        let partition = partition_of(core, context, &self.partition)?;
        let freed = core.store.end_removals(&self.partition, &self.objects)?;
        let before = partition.free.saturating_add(core.live.claims.total(&self.partition));
        core.live.maintenance.note_freed(&self.partition, (freed, before), context.now);
        Ok(Done {})
    }
}

fn read_object(core: &Core, node: &Node, replica: &Replica) -> Result<ReadObject> {
    let checksums = node
        .checksums
        .ok_or_else(|| Failure::locked(format!("{} is being written for the first time", node.name)))?;
    let server = server_of(core, &replica.partition)?;
    Ok(ReadObject {
        file: node.id,
        object: replica.object,
        partition: replica.partition.clone(),
        size: node.size,
        modified: node.modified,
        source_modified: node.source_modified,
        checksums,
        mode: node.mode,
        joined: server.as_ref().map_or(Ok(NEVER_JOINED), |server| core.joined(&server.name))?,
        server,
        fence: core.fence(),
        is_piece: replica.piece.is_some(),
    })
}

/// Who serves a partition, unless it is the disk server in this process.
fn server_of(core: &Core, partition: &str) -> Result<Option<DiskServer>> {
    let partition = core.store.partition(partition)?.ok_or_else(|| unknown_partition(partition))?;
    let is_remote = partition.server.name != core.config.server.name;
    Ok(is_remote.then(|| (*partition.server).clone()))
}

impl Apply for OpenRead {
    fn paths(&self) -> Vec<FilePath> {
        vec![self.path.clone()]
    }

    fn apply(self, core: &mut Core, context: &Context) -> Result<ReadGrant> {
        let node = resolve_file(core, &context.who, &self.path)?;
        require(core, &context.who, &node, Right::Read, &self.path)?;
        if let Some(replica) = source(core, &node, node.id.0 ^ context.now.0.unsigned_abs(), context.now)? {
            core.store.note_use(&replica, context.now);
            return read_object(core, &node, &replica).map(ReadGrant::Online);
        }
        match state_of(core, &node) {
            FileState::Writing => Err(unwritten(&node, &self.path)),
            FileState::OutOfReach | FileState::Online => wait_for_host(core, context, &node, &self.path),
            FileState::Lost => Err(lost(core, &node, &self.path)?),
            _ => {
                let row = tape::request_recall(core, context, &node)?;
                tape::refuse_hopeless(&row, &self.path)?;
                core.awaits(Awaited::File(node.id));
                core.awaits(Awaited::Hosts);
                Ok(ReadGrant::Recalling { file: node.id })
            }
        }
    }
}

/// What is said to whoever opens a file out of reach: to wait for a disk server that may only be starting again, or why it cannot
/// be read.
fn wait_for_host(core: &Core, context: &Context, node: &Node, path: &FilePath) -> Result<ReadGrant> {
    let Some(span) = out_of_reach::returns_within(core, node, context.now) else {
        return Err(out_of_reach(core, node, path, context.now));
    };
    core.awaits(Awaited::File(node.id));
    core.awaits(Awaited::Hosts);
    core.look_again_in(span);
    Ok(ReadGrant::Recalling { file: node.id })
}

/// Says where a file was whose bytes are nowhere.
fn lost(core: &Core, node: &Node, path: &FilePath) -> Result<Failure> {
    let mut what = format!("{path} has no disk replica and no tape copy");
    for replica in node.replicas.iter().filter(|replica| replica.state == ReplicaState::Lost) {
        if let Some(row) = core.store.partition(&replica.partition)? {
            let (partition, server) = (&replica.partition, &row.server.name);
            what.push_str(&format!("; object {} is gone from {partition} of {server}", replica.object));
        }
    }
    Ok(Failure::corrupt(what).hint("write it again from its source"))
}

fn unwritten(node: &Node, path: &FilePath) -> Failure {
    if Held::of(node).is_some_and(|held| !held.is_begun) {
        return Failure::busy(format!("{path} is empty: its space is reserved, but nothing was written yet"))
            .hint(format!("open it again once it is written; `bp stat {path}` shows who reserved it"));
    }
    Failure::locked(format!("{path} is being written for the first time"))
        .hint("open it again when its writer has closed it")
}

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
        if let Some(held) = Held::of(&node) {
            let replica = allocation::begin(core, &held, (&context.who.name, bytes), context.now)?;
            let replica = trim_share(core, context, replica, held.size)?;
            let growth = Growth { is_new: false, bytes: bytes.saturating_sub(held.size) };
            refuse_excess(core, &node, growth)?;
            require_servers(core, &replica, context.now)?;
            core.live.sources.note(replica.object, self.source_modified);
            return grant(core, (&node, self.path, &replica), None, context.now);
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
        grant(core, (&node, self.path, &replica), base, context.now)
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

fn grant(
    core: &Core,
    (node, path, replica): (&Node, FilePath, &Replica),
    base: Option<ReadObject>,
    now: Timestamp,
) -> Result<WriteGrant> {
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
        grant(core, (&node, path, &replica), base, context.now)
    }
}

fn gone(object: ObjectId) -> Failure {
    Failure::not_found(format!("object {object} is not being written"))
        .hint("its file was removed, or the write was given up after a restart; write it again")
}

/// An object that a user is writing on the host that asks.
pub(super) fn being_written(core: &Core, context: &Context, object: ObjectId) -> Result<Replica> {
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
    if node.is_directory() {
        return Err(Failure::new(ErrorKind::IsDirectory, format!("{path} is a directory")));
    }
    let held = Held::of(&node);
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
                let mirrors = counted(&node, &pool, &self.mirrors)?;
                [replica.object].into_iter().chain(mirrors).map(|object| (object, self.size)).collect()
            }
            None => vec![(replica.object, self.size)],
        };
        let kept: Vec<_> = objects.iter().map(|(object, _)| *object).collect();
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
        batch::file_online(core, replica.file)?;
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
pub(super) fn abandon(core: &mut Core, replica: &Replica, context: &Context) -> Result<()> {
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
        Some(node) if node.checksums.is_none() => {
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

impl Apply for ReportUse {
    fn apply(self, core: &mut Core, context: &Context) -> Result<Done> {
        let longest = self.traffic.len().max(self.opened.len());
        if longest > REPORT_USE_LEN_MAX {
            return Err(Failure::invalid(format!(
                "a report of {longest} lines is longer than {REPORT_USE_LEN_MAX}"
            ))
            .hint("send several"));
        }
        let mut foreign = 0;
        for line in &self.traffic {
            match whose(core, context, line.object)? {
                Whose::Own => account::moved(core, line)?,
                Whose::Nobodys => debug!(
                    owner = line.owner,
                    "a file that was read no longer exists; the read is not billed"
                ),
                Whose::Anothers => foreign += 1,
            }
        }
        for object in self.opened {
            match (whose(core, context, Some(object))?, core.store.replica(object)?) {
                (Whose::Anothers, _) => foreign += 1,
                (Whose::Own, Some(replica)) => core.store.note_use(&replica, context.now),
                (Whose::Own, None) | (Whose::Nobodys, _) => {}
            }
        }
        if foreign > 0 {
            let host = context.who.as_host().unwrap_or_default();
            warn!(
                host,
                lines = foreign,
                "a host reported reads of objects that it does not hold; they are not counted"
            );
        }
        Ok(Done {})
    }
}

/// On whose disk an object is that a host says was used.
enum Whose {
    Own,
    /// It was removed since.
    Nobodys,
    Anothers,
}

/// A host is believed about what it has. The rooms in the head's own process read from all hosts.
fn whose(core: &Core, context: &Context, object: Option<ObjectId>) -> Result<Whose> {
    let Some(host) = context.who.as_host() else { return Ok(Whose::Own) };
    let Some(object) = object else { return Ok(Whose::Anothers) };
    let Some(replica) = core.store.replica(object)? else { return Ok(Whose::Nobodys) };
    let partition = core.store.partition(&replica.partition)?;
    let is_own = partition.is_some_and(|partition| partition.server.name == host);
    Ok(if is_own { Whose::Own } else { Whose::Anothers })
}

impl Apply for Evict {
    fn apply(self, core: &mut Core, context: &Context) -> Result<PathOutcomes> {
        let files = self.paths.into_iter().map(|path| match evict(core, context, &path, self.releases) {
            Ok(state) => PathOutcome { path, state: Some(state), waits: None, failure: None },
            Err(failure) => PathOutcome { path, state: None, waits: None, failure: Some(failure) },
        });
        Ok(PathOutcomes { files: files.collect() })
    }
}

fn evict(core: &mut Core, context: &Context, path: &FilePath, releases: bool) -> Result<FileState> {
    let node = resolve_file(core, &context.who, path)?;
    let own = tape::pin_of(&context.who.name);
    if releases {
        require(core, &context.who, &node, Right::Read, path)?;
        core.store.shorten_pin(node.id, &own, None, context.now)?;
    } else {
        require(core, &context.who, &node, Right::Write, path)?;
    }
    match node.state() {
        FileState::Nearline => return Ok(FileState::Nearline),
        FileState::Both => {}
        state => {
            return Err(Failure::busy(format!("{path} has no tape copy (it is {})", state.as_str()))
                .hint(format!("`bp archive --wait {path}` makes one")));
        }
    }
    if let Some(holder) = core.store.pins(node.id, context.now)?.first() {
        let hint = if *holder == own {
            format!("`bp release {path}`")
        } else {
            "wait until it is released".to_owned()
        };
        return Err(Failure::busy(format!("{path} is pinned by {holder}")).hint(hint));
    }
    // Who may only read it lets go of it; the disk keeps it until there is need for room.
    require(core, &context.who, &node, Right::Write, path)?;
    drop_from_disk(core, node.id)?;
    Ok(FileState::Nearline)
}
