//! Rows of the namespace.

mod change;
mod listing;

pub(crate) use change::NewTimes;

use crate::store::{Replica, ReplicaState, Store, StoreResult, cache::pending::Name, engine::Row, word};
use base::{Adler32, Checksums, Crc32c, FileId, NanoTime, ObjectId, Timestamp};
use std::sync::Arc;
use wire::{
    control::{Coding, Entry, FileState, NodeKind, PosixFields, TYPE_BITS},
    media::object::Holder,
};

/// A file or directory, with its replicas.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) id: FileId,
    pub(crate) parent: FileId,
    pub(crate) name: String,
    pub(crate) kind: NodeKind,
    pub(crate) owner: String,
    pub(crate) group: String,
    pub(crate) mode: u32,
    pub(crate) size: u64,
    pub(crate) modified: Timestamp,
    pub(crate) checksums: Option<Checksums>,
    /// Which content it has: the number of the first object that had it. 0: none, or not known.
    pub(crate) generation: u64,
    /// Those that can be read or are being written, by object.
    pub(crate) replicas: Vec<Replica>,
    /// Has a copy on tape.
    pub(crate) is_archived: bool,
    /// It has fewer copies on tape than its storage class says, so it is not safe there.
    pub(crate) lacks_copies: bool,
    /// To which it is counted; empty: none. What is made in a directory belongs to its project.
    pub(crate) project: String,
    /// The number of the file that labels on tape and coded cells name, if that is another one; see [`Node::label`].
    pub(crate) label: FileId,
    /// When the content changed where it came from, if whoever stored it said so.
    pub(crate) source_modified: Option<Timestamp>,
    /// The live object that has its content, while the file changes in place ([`crate::share`]); 0: none. Then it has no checksums.
    pub(crate) live: ObjectId,
    /// The node that this is a further name of; 0: it is a node itself. Such a row has nothing but its place.
    pub(crate) hard_link: FileId,
    /// What only mounts show.
    pub(crate) posix: PosixFields,
}

/// What a new row needs.
pub(crate) struct NewNode<'a> {
    pub(crate) parent: FileId,
    pub(crate) name: &'a str,
    pub(crate) kind: NodeKind,
    pub(crate) owner: &'a str,
    pub(crate) mode: u32,
    pub(crate) now: Timestamp,
}

/// What a write has made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NewContent {
    pub(crate) size: u64,
    pub(crate) checksums: Checksums,
    pub(crate) generation: u64,
}

impl Node {
    /// Whose it is, for descriptions of its objects.
    pub(crate) fn holder(&self) -> Holder {
        Holder { owner: self.owner.clone(), group: self.group.clone(), mode: self.mode }
    }

    pub(crate) fn is_directory(&self) -> bool {
        self.kind == NodeKind::Directory
    }

    /// Whether it has content: a link or a device has none.
    pub(crate) fn is_file(&self) -> bool {
        self.kind == NodeKind::File
    }

    /// Whether it changes in place: what it has lies in a live object.
    pub(crate) fn is_live(&self) -> bool {
        self.live.0 != 0
    }

    /// Whether nothing was ever committed to it.
    pub(crate) fn is_unwritten(&self) -> bool {
        self.checksums.is_none() && !self.is_live()
    }

    /// Replicas that can be read.
    pub(crate) fn online(&self) -> impl Iterator<Item = &Replica> {
        self.replicas.iter().filter(|replica| replica.state == ReplicaState::Online)
    }

    /// Whether it can be read from disk: a replica of it, or enough different pieces, can.
    pub(crate) fn is_online(&self) -> bool {
        self.is_online_where(|_| true)
    }

    /// The same, of those replicas alone.
    pub(crate) fn is_online_where(&self, counts: impl Fn(&Replica) -> bool) -> bool {
        match self.coding() {
            None => self.online().any(|replica| replica.piece.is_none() && counts(replica)),
            Some(coding) => self.pieces_where(counts) >= usize::from(coding.data),
        }
    }

    /// Different pieces that can be read.
    pub(crate) fn pieces_online(&self) -> usize {
        self.pieces_where(|_| true)
    }

    fn pieces_where(&self, counts: impl Fn(&Replica) -> bool) -> usize {
        let online = self.online().filter(|replica| counts(replica));
        let mut indices: Vec<_> = online.filter_map(|replica| Some(replica.piece?.index)).collect();
        indices.sort_unstable();
        indices.dedup();
        indices.len()
    }

    /// How the file is coded, if pieces are what it consists of. Beside a replica they are only if they give the file by
    /// themselves: then the replica is left over, else they are.
    pub(crate) fn coding(&self) -> Option<Coding> {
        let content = || self.replicas.iter().filter(|replica| replica.state.is_content());
        let coding = content().find_map(|replica| replica.piece)?.coding;
        let is_alone = !content().any(|replica| replica.piece.is_none());
        (is_alone || self.pieces_online() >= usize::from(coding.data)).then_some(coding)
    }

    /// Whether nothing but labels of tapes tells which content it has, so that days alone put contents in order.
    pub(crate) fn is_of_tape(&self) -> bool {
        self.generation == 0 && self.is_archived
    }

    /// Whether all copies are on tape that its storage class wants.
    pub(crate) fn is_safe_on_tape(&self) -> bool {
        self.is_archived && !self.lacks_copies
    }

    /// Where the bytes are; derived, never stored.
    pub(crate) fn state(&self) -> FileState {
        if self.is_live() {
            return FileState::Live;
        }
        let is_online = self.is_online();
        // What is nowhere else is read from whatever copy there is.
        file_state(self.checksums.is_some(), is_online, self.is_archived && !(is_online && self.lacks_copies))
    }

    /// Whether both have the same row of the namespace.
    pub(in crate::store) fn has_row_of(&self, other: &Self) -> bool {
        (self.id, self.parent, &self.name, self.kind, &self.owner, &self.group)
            == (other.id, other.parent, &other.name, other.kind, &other.owner, &other.group)
            && (self.mode, self.size, self.modified, self.checksums)
                == (other.mode, other.size, other.modified, other.checksums)
            && (self.generation, &self.project, self.label, self.source_modified, self.live)
                == (other.generation, &other.project, other.label, other.source_modified, other.live)
            && (self.hard_link, self.posix) == (other.hard_link, other.posix)
    }

    pub(crate) fn entry(&self) -> Entry {
        Entry {
            id: self.id,
            name: self.name.clone(),
            kind: self.kind,
            owner: self.owner.clone(),
            group: self.group.clone(),
            mode: self.mode,
            size: self.size,
            modified: self.modified,
            source_modified: self.source_modified,
            checksums: self.checksums,
            state: self.is_file().then(|| self.state()),
            posix: PosixFields { is_removed: self.is_in_trash(), ..self.posix },
        }
    }
}

fn file_state(is_written: bool, is_online: bool, is_archived: bool) -> FileState {
    match (is_online, is_archived) {
        _ if !is_written => FileState::Writing,
        (true, true) => FileState::Both,
        (true, false) => FileState::Online,
        (false, true) => FileState::Nearline,
        (false, false) => FileState::Lost,
    }
}

/// The columns that [`node`] reads, for a table alias `n`.
///
/// A column that is an EXISTS may make PostgreSQL read the whole other table once; a LIMIT keeps it from that.
macro_rules! node_columns {
    () => {
        "n.id, n.parent, n.name, n.kind, n.owner, n.grp, n.mode, n.size, n.modified, n.adler32, n.crc32c,
         (SELECT 1 FROM copy c WHERE c.file = n.id LIMIT 1) IS NOT NULL, n.project,
         n.generation, n.label, n.source_modified, n.live,
         n.hard_link, n.further_links, n.accessed, n.changed, n.modified_nanos,
         (SELECT 1 FROM missing_copy m WHERE m.file = n.id LIMIT 1) IS NOT NULL"
    };
}

/// Nodes by lists of directories and names.
pub(in crate::store) const NODE_OF_NAME: &str = concat!(
    "SELECT ",
    node_columns!(),
    " FROM unnest(?1::bigint[], ?2::text[]) AS w (parent, name)
      JOIN node n ON n.parent = w.parent AND n.name = w.name AND n.id <> 1"
);

/// A node without its replicas.
pub(in crate::store) fn node(row: &Row<'_>) -> StoreResult<Node> {
    Ok(Node {
        id: FileId(row.get(0)?),
        parent: FileId(row.get(1)?),
        name: row.get(2)?,
        kind: kind(row, 3, 6)?,
        owner: row.get(4)?,
        group: row.get(5)?,
        mode: row.get::<u32>(6)? & !TYPE_BITS,
        size: row.get(7)?,
        modified: Timestamp(row.get(8)?),
        checksums: sums(row, 9)?,
        replicas: Vec::new(),
        is_archived: row.get(11)?,
        project: row.get(12)?,
        generation: row.get(13)?,
        label: FileId(row.get(14)?),
        source_modified: row.get::<Option<i64>>(15)?.map(Timestamp),
        live: ObjectId(row.get(16)?),
        hard_link: FileId(row.get(17)?),
        posix: posix(row, 18)?,
        lacks_copies: row.get(22)?,
    })
}

/// Number of names, and times.
fn posix(row: &Row<'_>, column: usize) -> StoreResult<PosixFields> {
    Ok(PosixFields {
        further_links: row.get(column)?,
        accessed: row.get::<Option<i64>>(column + 1)?.map(NanoTime),
        changed: row.get::<Option<i64>>(column + 2)?.map(NanoTime),
        modified_nanos: row.get(column + 3)?,
        is_removed: false,
    })
}

/// What a node is: the column says directory or file, the mode of what is neither says what it is.
fn kind(row: &Row<'_>, column: usize, mode: usize) -> StoreResult<NodeKind> {
    match word(row, column)? {
        NodeKind::File => Ok(NodeKind::of_mode(row.get(mode)?).unwrap_or(NodeKind::File)),
        kind => Ok(kind),
    }
}

/// Both checksums of a content, if there is one.
fn sums(row: &Row<'_>, column: usize) -> StoreResult<Option<Checksums>> {
    let adler32: Option<u32> = row.get(column)?;
    let crc32c: Option<u32> = row.get(column + 1)?;
    Ok(adler32
        .zip(crc32c)
        .map(|(adler32, crc32c)| Checksums { adler32: Adler32(adler32), crc32c: Crc32c(crc32c) }))
}

impl Store {
    pub(crate) fn node(&self, id: FileId) -> StoreResult<Option<Arc<Node>>> {
        if let Some(changed) = self.pending.borrow().file(id) {
            return Ok(changed.now.clone());
        }
        if let Some(node) = self.cache.borrow_mut().node(id) {
            return Ok(Some(node));
        }
        const SQL: &str = concat!("SELECT ", node_columns!(), " FROM node n WHERE n.id = ?1");
        self.maybe_now(SQL, (id.0,), node)?.map(|node| self.complete(node)).transpose()
    }

    /// What a name of a directory stands for.
    pub(crate) fn child(&self, parent: FileId, name: &str) -> StoreResult<Option<Arc<Node>>> {
        match self.name_row(parent, name)? {
            Some(row) if row.is_hard_link() => self.node(row.hard_link),
            found => Ok(found),
        }
    }

    /// The row that has a name: of a node, or of a hard link.
    pub(crate) fn name_row(&self, parent: FileId, name: &str) -> StoreResult<Option<Arc<Node>>> {
        // Not within a condition: the borrow would last.
        let changed = self.pending.borrow().child(parent, name);
        match changed {
            Some(Name::Of(id)) => return self.node(id),
            Some(Name::Free) => return Ok(None),
            None => {}
        }
        let cached = self.cache.borrow_mut().child(parent, name);
        if let Some(node) = cached {
            // It may have changed in this group, but not its name.
            return self.node(node.id);
        }
        const SQL: &str = concat!(
            "SELECT ",
            node_columns!(),
            " FROM node n WHERE n.parent = ?1 AND n.name = ?2 AND n.id <> 1"
        );
        let Some(found) = self.maybe_now(SQL, (parent.0, name), node)? else { return Ok(None) };
        // In this group its name was not changed, but perhaps something else.
        if self.pending.borrow().file(found.id).is_some() {
            return self.node(found.id);
        }
        self.complete(found).map(Some)
    }

    /// Adds the replicas to a node that was read just now, and remembers it.
    fn complete(&self, mut node: Node) -> StoreResult<Arc<Node>> {
        if node.is_file() {
            node.replicas = self.read_replicas(node.id)?;
        }
        let node = Arc::new(node);
        self.cache.borrow_mut().insert(&node);
        Ok(node)
    }

    pub(crate) fn has_children(&self, parent: FileId) -> StoreResult<bool> {
        self.one("SELECT EXISTS (SELECT 1 FROM node WHERE parent = ?1 AND id <> 1)", (parent.0,), |row| {
            row.get(0)
        })
    }

    /// Bytes and names of the longest paths below a directory, counted from it.
    pub(crate) fn longest_path_below(&self, id: FileId) -> StoreResult<(usize, usize)> {
        const SQL: &str = "WITH RECURSIVE below (id, bytes, names) AS (
            SELECT CAST(?1 AS BIGINT), CAST(0 AS BIGINT), CAST(0 AS BIGINT) UNION ALL
            SELECT n.id, b.bytes + 1 + octet_length(n.name), b.names + 1
            FROM below b JOIN node n ON n.parent = b.id AND n.id <> 1)
            SELECT max(bytes), max(names) FROM below";
        self.one(SQL, (id.0,), |row| Ok((row.get(0)?, row.get(1)?)))
    }

    /// What a file has lies in a live object from now on, as of a commit.
    pub(crate) fn set_live_content(
        &self,
        id: FileId,
        live: ObjectId,
        (size, modified): (u64, Timestamp),
    ) -> StoreResult<()> {
        let now = self.pending.borrow().time();
        self.change_node(id, |node| {
            node.keep_accessed();
            (node.size, node.checksums, node.modified) = (size, None, modified);
            (node.label, node.source_modified, node.live) = (FileId(0), None, live);
            node.posix.modified_nanos = 0;
            node.posix.changed = Some(now.into());
        })
        .map(drop)
    }
}
