//! Rows of the namespace.

use super::{Store, StoreResult, word};
use base::{Adler32, Checksums, Crc32c, FileId, Timestamp};
use rusqlite::Row;
use std::sync::Arc;
use wire::control::{Entry, FileCounts, FileState, NodeKind};

/// A file or directory.
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
    pub(crate) is_online: bool,
    pub(crate) is_archived: bool,
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

impl Node {
    pub(crate) fn is_directory(&self) -> bool {
        self.kind == NodeKind::Directory
    }

    /// Where the bytes are; derived, never stored.
    pub(crate) fn state(&self) -> FileState {
        match (self.is_online, self.is_archived) {
            _ if self.checksums.is_none() => FileState::Writing,
            (true, true) => FileState::Both,
            (true, false) => FileState::Online,
            (false, true) => FileState::Nearline,
            (false, false) => FileState::Lost,
        }
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
            checksums: self.checksums,
            state: (!self.is_directory()).then(|| self.state()),
        }
    }
}

/// The columns that [`node`] reads, for a table alias `n`.
macro_rules! node_columns {
    () => {
        "n.id, n.parent, n.name, n.kind, n.owner, n.grp, n.mode, n.size, n.modified, n.adler32, n.crc32c,
         EXISTS (SELECT 1 FROM replica r WHERE r.file = n.id AND r.state = 'online'),
         EXISTS (SELECT 1 FROM copy c WHERE c.file = n.id)"
    };
}

fn node(row: &Row<'_>) -> rusqlite::Result<Node> {
    let adler32: Option<u32> = row.get(9)?;
    let crc32c: Option<u32> = row.get(10)?;
    Ok(Node {
        id: FileId(row.get(0)?),
        parent: FileId(row.get(1)?),
        name: row.get(2)?,
        kind: word(row, 3)?,
        owner: row.get(4)?,
        group: row.get(5)?,
        mode: row.get(6)?,
        size: row.get(7)?,
        modified: Timestamp(row.get(8)?),
        checksums: adler32
            .zip(crc32c)
            .map(|(adler32, crc32c)| Checksums { adler32: Adler32(adler32), crc32c: Crc32c(crc32c) }),
        is_online: row.get(11)?,
        is_archived: row.get(12)?,
    })
}

impl Store {
    pub(crate) fn node(&self, id: FileId) -> StoreResult<Option<Arc<Node>>> {
        if let Some(node) = self.changes.node(id) {
            return Ok(Some(node));
        }
        const SQL: &str = concat!("SELECT ", node_columns!(), " FROM node n WHERE n.id = ?1");
        Ok(self.maybe(SQL, (id.0,), node)?.map(|node| self.changes.remember(node)))
    }

    pub(crate) fn child(&self, parent: FileId, name: &str) -> StoreResult<Option<Arc<Node>>> {
        if let Some(node) = self.changes.child(parent, name) {
            return Ok(Some(node));
        }
        const SQL: &str = concat!(
            "SELECT ",
            node_columns!(),
            " FROM node n WHERE n.parent = ?1 AND n.name = ?2 AND n.id <> 1"
        );
        Ok(self.maybe(SQL, (parent.0, name), node)?.map(|node| self.changes.remember(node)))
    }

    /// Entries of a directory in name order, after `after`.
    pub(crate) fn children(&self, parent: FileId, after: &str, limit: usize) -> StoreResult<Vec<Node>> {
        const SQL: &str = concat!(
            "SELECT ",
            node_columns!(),
            " FROM node n WHERE n.parent = ?1 AND n.name > ?2 AND n.id <> 1 ORDER BY n.name LIMIT ?3"
        );
        self.all(SQL, (parent.0, after, limit as i64), node)
    }

    pub(crate) fn has_children(&self, parent: FileId) -> StoreResult<bool> {
        self.one("SELECT EXISTS (SELECT 1 FROM node WHERE parent = ?1 AND id <> 1)", (parent.0,), |row| {
            row.get(0)
        })
    }

    /// Bytes and names of the longest paths below a directory, counted from it.
    pub(crate) fn longest_path_below(&self, id: FileId) -> StoreResult<(usize, usize)> {
        const SQL: &str = "WITH RECURSIVE below (id, bytes, names) AS (SELECT ?1, 0, 0 UNION ALL
            SELECT n.id, b.bytes + 1 + octet_length(n.name), b.names + 1
            FROM below b JOIN node n ON n.parent = b.id AND n.id <> 1)
            SELECT max(bytes), max(names) FROM below";
        self.one(SQL, (id.0,), |row| Ok((row.get(0)?, row.get(1)?)))
    }

    pub(crate) fn insert_node(&self, new: &NewNode<'_>) -> StoreResult<FileId> {
        let kind = if new.kind == NodeKind::Directory { "directory" } else { "file" };
        let id = self.insert(
            "INSERT INTO node (parent, name, kind, owner, grp, mode, modified) VALUES (?1, ?2, ?3, ?4, ?4, ?5, ?6)",
            (new.parent.0, new.name, kind, new.owner, new.mode, new.now.0),
        )?;
        Ok(FileId(id))
    }

    pub(crate) fn set_content(
        &self,
        id: FileId,
        size: u64,
        sums: Checksums,
        now: Timestamp,
    ) -> StoreResult<()> {
        self.run(
            "UPDATE node SET size = ?2, adler32 = ?3, crc32c = ?4, modified = ?5 WHERE id = ?1",
            (id.0, size, sums.adler32.0, sums.crc32c.0, now.0),
        )?;
        Ok(())
    }

    pub(crate) fn set_mode(&self, id: FileId, mode: u32) -> StoreResult<()> {
        self.run("UPDATE node SET mode = ?2 WHERE id = ?1", (id.0, mode))?;
        Ok(())
    }

    pub(crate) fn move_node(&self, id: FileId, parent: FileId, name: &str) -> StoreResult<()> {
        self.run("UPDATE node SET parent = ?2, name = ?3 WHERE id = ?1", (id.0, parent.0, name))?;
        Ok(())
    }

    pub(crate) fn delete_node(&self, id: FileId) -> StoreResult<()> {
        self.run("DELETE FROM node WHERE id = ?1", (id.0,))?;
        self.delete_attributes(id)
    }

    pub(crate) fn file_counts(&self) -> StoreResult<FileCounts> {
        // One pass over files; the console asks for it at most once a second.
        const SQL: &str =
            "SELECT count(*) FILTER (WHERE kind = 'file'), count(*) FILTER (WHERE kind = 'directory'),
            coalesce(sum(size), 0),
            (SELECT count(DISTINCT file) FROM replica WHERE state = 'online'),
            (SELECT count(DISTINCT c.file) FROM copy c
             WHERE NOT EXISTS (SELECT 1 FROM replica r WHERE r.file = c.file AND r.state = 'online'))
            FROM node";
        self.one(SQL, (), |row| {
            Ok(FileCounts {
                files: row.get(0)?,
                directories: row.get(1)?,
                bytes: row.get(2)?,
                online: row.get(3)?,
                nearline: row.get(4)?,
            })
        })
    }
}
