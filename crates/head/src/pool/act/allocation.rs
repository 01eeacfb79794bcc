//! Reservations of users: space in a pool for a file that any client writes later.
//!
//! A reservation is a file without content whose replicas are [`ReplicaState::Reserved`]. An open for writing makes one of them the
//! object that is written; a write that is given up leaves the room reserved, as long as the reservation lasts.

use crate::{
    Apply, Context, Core, Topic,
    account::{Growth, refuse_excess},
    namespace::{find, insert, make_parents, require_file, resolve_parent},
    pool::{
        Reserve,
        act::{
            reservation::refuse_beyond_share,
            snapshot::{piece_view, snapshot},
        },
        decide::{
            placement::{PlacementRequest, Purpose, place},
            promise::promised_pieces,
            view::{Layout, PartitionState},
        },
        drop_content, make_room, reserve, retire, writable,
    },
    store::{NOT_BEGUN, Node, Replica, ReplicaState},
};
use base::{
    ErrorKind, Failure, FileId, FilePath, Millis, ObjectId, Result, Timestamp,
    units::{Span, human_bytes},
};
use std::sync::Arc;
use wire::control::{
    ALLOCATION_LIFETIME, ALLOCATION_LIFETIME_MAX, Allocate, Allocated, Allocation, NodeKind,
};

/// The reservation of a file.
#[derive(Debug, Clone)]
pub(crate) struct FileReservation {
    file: FileId,
    replicas: Vec<Replica>,
    pub(crate) size: u64,
    pub(crate) until: Timestamp,
    /// A client is writing.
    pub(crate) is_begun: bool,
}

impl FileReservation {
    /// The reservation of a file, if there is one.
    pub(crate) fn of(node: &Node) -> Option<Self> {
        let held = node.replicas.iter().filter(|replica| replica.held_until().is_some());
        let replicas: Vec<_> = held.cloned().collect();
        Some(Self {
            file: node.id,
            size: replicas.iter().map(|replica| replica.size).max()?,
            until: replicas.iter().filter_map(Replica::held_until).max()?,
            is_begun: replicas.iter().any(|replica| replica.state == ReplicaState::Writing),
            replicas,
        })
    }

    fn is_over(&self, now: Timestamp) -> bool {
        !self.is_begun && self.until <= now
    }

    fn partitions(&self) -> Vec<String> {
        self.replicas.iter().map(|replica| replica.partition.clone()).collect()
    }

    /// The pool in which it is.
    fn pool(&self, core: &Core) -> Result<String> {
        let partition = self.replicas.first().map(|replica| core.store.partition(&replica.partition));
        Ok(partition.transpose()?.flatten().map(|partition| partition.pool).unwrap_or_default())
    }

    /// Who reserved what until when, for people.
    pub(crate) fn told(&self, core: &Core, owner: &str) -> Result<String> {
        let (size, pool, until) = (human_bytes(self.size), self.pool(core)?, self.until.civil());
        Ok(format!("{owner}: {size} in pool {pool} reserved until {} UTC", until.to_the_minute()))
    }
}

impl Apply for Allocate {
    fn paths(&self) -> Vec<FilePath> {
        vec![self.path.clone()]
    }

    fn apply(self, core: &mut Core, context: &Context) -> Result<Allocation> {
        check(&self, core)?;
        if self.parents {
            make_parents(core, context, &self.path)?;
        }
        let parent = resolve_parent(core, &context.who, &self.path)?;
        if let Some(node) = find(core, &context.who, &self.path)? {
            match FileReservation::of(&node) {
                Some(held) if held.is_over(context.now) => end(core, &node)?,
                Some(held) => return again(core, context, &self, &node, held),
                None => return written(core, &self.path, &node),
            }
        }
        let node = insert(core, context, &parent, &self.path, NodeKind::File, self.mode)?;
        let until = context.now + self.lifetime.unwrap_or(ALLOCATION_LIFETIME);
        reserve_room(&self, core, context, &node, until)?;
        refuse_excess(core, &node, Growth { is_new: true, bytes: self.size })?;
        answer(self, core, node.id, Allocated::New)
    }
}

/// Refuses what makes no sense.
fn check(ask: &Allocate, core: &Core) -> Result<()> {
    if ask.path.is_root() {
        return Err(Failure::new(ErrorKind::IsDirectory, "/ is a directory"));
    }
    if ask.size == 0 {
        return Err(Failure::invalid(format!("{}: cannot reserve space for 0 bytes", ask.path))
            .hint("give the largest size of the file"));
    }
    if let Some(lifetime) = ask.lifetime
        && !(Millis(1)..=ALLOCATION_LIFETIME_MAX).contains(&lifetime)
    {
        let (asked, most) = (Span(lifetime), Span(ALLOCATION_LIFETIME_MAX));
        return Err(Failure::invalid(format!("space cannot be reserved for {asked}"))
            .hint(format!("reserve it for at most {most}, and again before that ends")));
    }
    let is_known = core.store.policies()?.contains_key(&ask.pool)
        || core.store.partition_space()?.values().any(|partition| partition.pool == ask.pool);
    if !is_known {
        return Err(Failure::not_found(format!("there is no pool {}", ask.pool))
            .hint("`bp pool list` shows the pools"));
    }
    Ok(())
}

/// Reserves room for the file, and for as many mirrors as the pool makes; for pieces none.
fn reserve_room(
    ask: &Allocate,
    core: &mut Core,
    context: &Context,
    node: &Node,
    until: Timestamp,
) -> Result<()> {
    let partitions = partitions(ask, core, node, context.now).inspect_err(|failure| {
        if failure.kind == ErrorKind::NoSpace {
            core.live.reservations.note_wanted(&ask.pool, context.now);
        }
    });
    for partition in partitions? {
        core.store.insert_replica(Replica {
            object: ObjectId(0),
            file: node.id,
            partition,
            state: ReplicaState::Reserved,
            owner: context.who.name.clone(),
            size: ask.size,
            created: NOT_BEGUN,
            used: until,
            piece: None,
        })?;
    }
    if context.who.is_operator { Ok(()) } else { refuse_beyond_share(core, &context.who.name, &ask.pool) }
}

fn partitions(ask: &Allocate, core: &mut Core, node: &Node, now: Timestamp) -> Result<Vec<String>> {
    let snapshot = snapshot(core, &ask.pool, now)?;
    // What is to be cut into pieces is written as one first; there is room for its pieces or there is not.
    let layout = match Layout::of(&snapshot.pool) {
        Layout::Coded(_) => Layout::Copies(1),
        layout @ Layout::Copies(_) => layout,
    };
    let pieces_min = promised_pieces(&snapshot.pool, layout);
    let (pieces, bytes, purpose) = (layout.pieces(), ask.size, Purpose::Write);
    let wish = PlacementRequest { pieces, pieces_min, bytes, beside: &[], purpose };
    match place(&snapshot, &wish, node.id.0 ^ now.0.unsigned_abs()) {
        Ok(placed) => Ok(placed.partitions.iter().map(ToString::to_string).collect()),
        Err(failure) if pieces_min > 1 => Err(failure),
        Err(failure) => {
            let room = make_room(core, &snapshot, &writable(&snapshot), bytes)?;
            room.map(|partition| vec![partition]).ok_or(failure)
        }
    }
}

fn answer(ask: Allocate, core: &Core, file: FileId, outcome: Allocated) -> Result<Allocation> {
    let gone = || Failure::internal(format!("{} was removed while its space was reserved", ask.path));
    let node = core.store.node(file)?.ok_or_else(gone)?;
    let held = FileReservation::of(&node).ok_or_else(gone)?;
    Ok(Allocation {
        outcome,
        pool: held.pool(core)?,
        partitions: held.partitions(),
        size: held.size,
        until: Some(held.until),
        is_begun: held.is_begun,
        path: ask.path,
    })
}

/// Who asks again gets what he has: longer or larger, if he says so.
fn again(
    core: &mut Core,
    context: &Context,
    ask: &Allocate,
    node: &Arc<Node>,
    held: FileReservation,
) -> Result<Allocation> {
    let (path, pool) = (&ask.path, held.pool(core)?);
    if node.owner != context.who.name {
        return Err(Failure::exists(format!("{path} is reserved by {}", node.owner))
            .hint(format!("use another name, or ask {}", node.owner)));
    }
    if pool != ask.pool {
        return Err(Failure::exists(format!("{path} is reserved in pool {pool}, not in {}", ask.pool))
            .hint(format!("`bp rm {path}` releases that")));
    }
    let until = ask.lifetime.map_or(held.until, |lifetime| held.until.max(context.now + lifetime));
    if ask.size > held.size && !held.is_begun {
        for replica in &held.replicas {
            retire(core, replica)?;
        }
        reserve_room(ask, core, context, node, until)?;
        refuse_excess(core, node, Growth { is_new: false, bytes: ask.size - held.size })?;
    } else {
        for replica in held.replicas {
            core.store.put_replica(&Replica { used: until, ..replica })?;
        }
    }
    answer(ask.clone(), core, node.id, Allocated::Known)
}

/// What is there already, with its content.
fn written(core: &Core, path: &FilePath, node: &Node) -> Result<Allocation> {
    require_file(node, path)?;
    if node.is_unwritten() {
        return Err(Failure::locked(format!("{path} is being written by another client"))
            .hint("try again when that writer has closed it"));
    }
    Ok(Allocation {
        path: path.clone(),
        outcome: Allocated::Written,
        pool: crate::pool::act::snapshot::pool_of(core, node)?.unwrap_or_default(),
        partitions: node.online().map(|replica| replica.partition.clone()).collect(),
        size: node.size,
        until: None,
        is_begun: false,
    })
}

/// Makes a reservation the object that `owner` writes, where its room is, or else elsewhere in its pool.
pub(in crate::pool) fn begin(
    core: &mut Core,
    held: &FileReservation,
    (owner, bytes): (&str, u64),
    now: Timestamp,
) -> Result<Replica> {
    let (bytes, used) = (bytes.max(held.size), held.until.max(now));
    let pool = held.pool(core)?;
    let snapshot = snapshot(core, &pool, now)?;
    let fits = |replica: &&Replica| {
        snapshot.partition(&replica.partition).is_some_and(|partition| {
            let is_writable = partition.state == PartitionState::InUse && snapshot.answers(partition);
            is_writable && (bytes <= replica.size || partition.room_bytes() + replica.size > bytes)
        })
    };
    let reserved = match held.replicas.iter().find(fits) {
        Some(reserved) => reserved.clone(),
        None => {
            for replica in &held.replicas {
                retire(core, replica)?;
            }
            let (file, state) = (held.file, ReplicaState::Writing);
            reserve(core, &Reserve { file, owner, bytes, state, on: None, pool: Some(&pool) }, now)?
        }
    };
    let state = ReplicaState::Writing;
    let begun = Replica { state, owner: owner.to_owned(), size: bytes, created: now, used, ..reserved };
    core.store.put_replica(&begun)?;
    // Doors see it from now on.
    core.store.set_visible();
    Ok(begun)
}

/// Makes the room that was reserved for mirrors of a file theirs, as far as it can be used.
pub(in crate::pool) fn begin_mirrors(core: &mut Core, node: &Node, size: u64, now: Timestamp) -> Result<()> {
    for replica in node.replicas.iter().filter(|replica| replica.state == ReplicaState::Reserved) {
        let is_usable = match core.store.partition(&replica.partition)? {
            Some(row) => {
                row.state == PartitionState::InUse && core.is_available(&replica.partition, &row, now)?
            }
            None => false,
        };
        if is_usable && size <= replica.size {
            let used = replica.used.max(now);
            let state = ReplicaState::Mirroring;
            core.store.put_replica(&Replica { state, created: now, used, ..replica.clone() })?;
        } else {
            retire(core, replica)?;
        }
    }
    Ok(())
}

/// Keeps the room of a write that was given up, and of its mirrors, as long as it is reserved. Yields whether it is.
pub(in crate::pool) fn keep(
    core: &mut Core,
    ended: &Replica,
    mirrors: &[Replica],
    now: Timestamp,
) -> Result<bool> {
    let is_held = |replica: &&Replica| replica.held_until().is_some_and(|until| until > now);
    let is_empty = core.store.node(ended.file)?.is_some_and(|node| node.is_unwritten());
    if !is_empty || !is_held(&ended) {
        return Ok(false);
    }
    for replica in std::iter::once(ended).chain(mirrors).filter(is_held) {
        core.store.insert_replica(Replica {
            object: ObjectId(0),
            state: ReplicaState::Reserved,
            size: ended.size,
            created: NOT_BEGUN,
            ..replica.clone()
        })?;
    }
    // Doors do not see it any more.
    core.store.set_visible();
    Ok(true)
}

/// Ends the reservation that a replica belongs to, if its time is over and nobody is writing.
pub(in crate::pool) fn end_if_over(core: &mut Core, replica: &Replica, now: Timestamp) -> Result<()> {
    match core.store.node(replica.file)? {
        Some(node) if FileReservation::of(&node).is_some_and(|held| held.is_over(now)) => end(core, &node),
        _ => Ok(()),
    }
}

/// Reserves the room of one replica elsewhere in its pool, because its disk server does not come back; where there is none the reservation
/// ends.
pub(in crate::pool) fn move_away(core: &mut Core, replica: &Replica, now: Timestamp) -> Result<()> {
    let Some(node) = core.store.node(replica.file)? else { return Ok(()) };
    let Some(held) = FileReservation::of(&node).filter(|held| !held.is_begun) else {
        return retire(core, replica);
    };
    let pool = held.pool(core)?;
    retire(core, replica)?;
    let snapshot = snapshot(core, &pool, now)?;
    let others = held.replicas.iter().filter(|other| other.object != replica.object);
    let beside: Vec<_> = others.map(piece_view).collect();
    let wish = PlacementRequest {
        pieces: 1,
        pieces_min: 1,
        bytes: replica.size,
        beside: &beside,
        purpose: Purpose::Write,
    };
    match place(&snapshot, &wish, node.id.0 ^ now.0.unsigned_abs()) {
        Ok(placed) => {
            let partition = placed.partitions[0].to_string();
            core.store.insert_replica(Replica { object: ObjectId(0), partition, ..replica.clone() })?;
            Ok(())
        }
        Err(_) if !beside.is_empty() => Ok(()),
        Err(_) => end(core, &node),
    }
}

/// Ends a reservation: the file goes with it.
fn end(core: &mut Core, node: &Node) -> Result<()> {
    drop_content(core, node.id, &[])?;
    core.store.delete_pins(node.id)?;
    core.store.delete_node(node.id)?;
    core.touch(Topic::Files);
    Ok(())
}
