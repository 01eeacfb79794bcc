//! Hard links: further names of nodes that are not directories.
//!
//! A node has the name that it was made with; each further one is a row of the same table that leads to the node, so that all names
//! of a directory are in one index. A node whose own name goes takes over that of another row. Only look-ups by name
//! ([`Store::child`], [`Store::children`]) and what is here know of such rows.

use crate::store::{Node, Store, StoreResult, rows::facility::ids::Sequence};
use base::{FileId, ObjectId};
use wire::control::{NodeKind, PosixFields};

impl Node {
    /// Whether it is a further name of another node.
    pub(crate) fn is_hard_link(&self) -> bool {
        self.hard_link.0 != 0
    }

    /// Whether it has more names than its own one.
    pub(crate) fn has_further_names(&self) -> bool {
        !self.is_directory() && self.posix.further_links > 0
    }
}

impl Store {
    /// Gives a node a further name, which is free.
    pub(crate) fn add_hard_link(&self, file: FileId, parent: FileId, name: &str) -> StoreResult<()> {
        let Some(node) = self.node(file)? else { return Ok(()) };
        let row = Node {
            id: FileId(self.next_id(Sequence::Node)?),
            parent,
            name: name.to_owned(),
            kind: NodeKind::Link,
            owner: String::new(),
            group: String::new(),
            mode: 0,
            size: 0,
            modified: node.modified,
            checksums: None,
            generation: 0,
            replicas: Vec::new(),
            is_archived: false,
            lacks_copies: false,
            project: String::new(),
            label: FileId(0),
            source_modified: None,
            live: ObjectId(0),
            hard_link: file,
            posix: PosixFields::default(),
        };
        self.insert_whole(row)?;
        self.change_dated(file, |node| node.posix.further_links += 1)?;
        self.note_names_changed(parent)
    }

    /// Takes one of several names away from a node. If that is its own one, it takes over another.
    pub(crate) fn remove_name(&self, node: &Node, parent: FileId, name: &str) -> StoreResult<()> {
        let named = self.name_row(parent, name)?.filter(|row| row.hard_link == node.id);
        if let Some(row) = named {
            self.delete_row(&row)?;
        } else if let Some((id, parent, name)) = self.hard_links(node.id)?.into_iter().next() {
            if let Some(row) = self.node(id)? {
                self.delete_row(&row)?;
            }
            self.move_node(node.id, parent, &name)?;
        }
        self.change_dated(node.id, |node| {
            node.posix.further_links = node.posix.further_links.saturating_sub(1);
        })
    }

    /// The further names of a node: their rows, and where they are.
    pub(crate) fn hard_links(&self, file: FileId) -> StoreResult<Vec<(FileId, FileId, String)>> {
        let sql = "SELECT id, parent, name FROM node WHERE hard_link = ?1 AND hard_link <> 0 ORDER BY id";
        self.all(sql, (file.0,), |row| Ok((FileId(row.get(0)?), FileId(row.get(1)?), row.get(2)?)))
    }

    /// The further names of a node that is deleted go with it.
    pub(super) fn delete_hard_links(&self, file: FileId) -> StoreResult<()> {
        if !self.node(file)?.is_some_and(|node| node.has_further_names()) {
            return Ok(());
        }
        for (id, ..) in self.hard_links(file)? {
            if let Some(row) = self.node(id)? {
                self.delete_row(&row)?;
            }
        }
        Ok(())
    }
}
