//! Changes of files and directories.

use super::{NewContent, NewNode, Node};
use crate::store::{Store, StoreResult, TRASH, rows::facility::ids::Sequence};
use base::{FileId, NanoTime, ObjectId, Timestamp};
use std::sync::Arc;
use wire::{control::PosixFields, media::object::Holder};

/// Times to be set.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct NewTimes {
    pub(crate) modified: Option<NanoTime>,
    pub(crate) accessed: Option<NanoTime>,
}

impl Node {
    /// When the content changed, to the nanosecond.
    fn modified_nanos(&self) -> NanoTime {
        NanoTime::of_parts(self.source_modified.unwrap_or(self.modified), self.posix.modified_nanos)
    }

    /// What was accessed when it was changed last, as long as nobody said otherwise, stays so when it is changed again.
    pub(super) fn keep_accessed(&mut self) {
        self.posix.accessed = Some(self.posix.accessed.unwrap_or_else(|| self.modified_nanos()));
    }
}

impl Store {
    /// Changes a node that exists. Yields whether it does.
    pub(in crate::store) fn change_node(
        &self,
        id: FileId,
        change: impl FnOnce(&mut Node),
    ) -> StoreResult<bool> {
        let Some(before) = self.node(id)? else { return Ok(false) };
        let mut now = (*before).clone();
        change(&mut now);
        self.replace(id, Some(before), Some(now))?;
        Ok(true)
    }

    fn replace(&self, id: FileId, before: Option<Arc<Node>>, now: Option<Node>) -> StoreResult<()> {
        self.require_row_forgotten(before.as_deref(), now.as_ref())?;
        self.load_partitions()?;
        self.load_ledger()?;
        self.load_census()?;
        self.count_change();
        self.pending.borrow_mut().replace(id, before, now.map(Arc::new));
        Ok(())
    }

    /// Inserts a node of its owner's own group.
    #[cfg(test)]
    pub(crate) fn insert_node(&self, new: &NewNode<'_>) -> StoreResult<FileId> {
        self.insert_node_of(new, new.owner)
    }

    pub(crate) fn insert_node_of(&self, new: &NewNode<'_>, group: &str) -> StoreResult<FileId> {
        let id = FileId(self.next_id(Sequence::Node)?);
        let project = self.node(new.parent)?.map_or_else(String::new, |parent| parent.project.clone());
        let node = Node {
            id,
            parent: new.parent,
            name: new.name.to_owned(),
            kind: new.kind,
            owner: new.owner.to_owned(),
            group: group.to_owned(),
            mode: new.mode,
            size: 0,
            modified: new.now,
            checksums: None,
            generation: 0,
            replicas: Vec::new(),
            is_archived: false,
            lacks_copies: false,
            project,
            label: FileId(0),
            source_modified: None,
            live: ObjectId(0),
            hard_link: FileId(0),
            posix: PosixFields::default(),
        };
        if node.is_directory() {
            self.count_directories(new.parent, true)?;
        }
        self.replace(id, None, Some(node))?;
        Ok(id)
    }

    /// Counts a directory that comes to another one, or goes.
    fn count_directories(&self, parent: FileId, is_more: bool) -> StoreResult<()> {
        let change = |node: &mut Node| {
            let links = &mut node.posix.further_links;
            *links = if is_more { links.saturating_add(1) } else { links.saturating_sub(1) };
        };
        self.change_node(parent, change).map(drop)
    }

    /// Sets the time of a directory in which an entry was made, removed or renamed.
    ///
    /// Costs one row for each directory of a group, however many of its names change.
    pub(crate) fn note_names_changed(&self, directory: FileId) -> StoreResult<()> {
        let now = self.pending.borrow().time();
        if directory == TRASH || self.node(directory)?.is_none_or(|node| node.modified == now) {
            return Ok(());
        }
        self.change_dated(directory, |node| {
            node.keep_accessed();
            (node.modified, node.posix.modified_nanos) = (now, 0);
        })
    }

    /// Adds a file whose number and objects were given by a catalogue that is lost.
    pub(crate) fn insert_known(&self, node: Node) -> StoreResult<()> {
        self.pass(Sequence::Node, node.id.0)?;
        for replica in &node.replicas {
            self.pass(Sequence::Object, replica.object.0)?;
        }
        self.insert_whole(node)
    }

    /// Adds a file with all that it has.
    pub(in crate::store) fn insert_whole(&self, node: Node) -> StoreResult<()> {
        self.replace(node.id, None, Some(node))
    }

    pub(crate) fn set_content(&self, id: FileId, content: NewContent, now: Timestamp) -> StoreResult<()> {
        let NewContent { size, checksums, generation } = content;
        self.change_node(id, |node| {
            (node.size, node.checksums, node.generation) = (size, Some(checksums), generation);
            (node.modified, node.label, node.source_modified) = (now, FileId(0), None);
            (node.posix.modified_nanos, node.posix.changed) = (0, Some(now.into()));
            node.live = ObjectId(0);
        })
        .map(drop)
    }

    /// What a live file has is sealed: it is the same content, and has the same times.
    pub(crate) fn seal_content(&self, id: FileId, content: NewContent) -> StoreResult<()> {
        let NewContent { size, checksums, generation } = content;
        self.change_node(id, |node| {
            (node.size, node.checksums, node.generation) = (size, Some(checksums), generation);
            (node.label, node.live) = (FileId(0), ObjectId(0));
        })
        .map(drop)
    }

    /// Notes when the present content changed where it came from.
    pub(crate) fn set_source_modified(&self, id: FileId, then: Option<Timestamp>) -> StoreResult<()> {
        let change = |node: &mut Node| (node.source_modified, node.posix.modified_nanos) = (then, 0);
        self.change_node(id, change).map(drop)
    }

    /// Sets the times that are given. That of a file's content is when it changed where it came from: what decides between contents
    /// stays.
    pub(crate) fn set_times(&self, id: FileId, times: NewTimes) -> StoreResult<()> {
        self.change_dated(id, |node| {
            node.keep_accessed();
            if let Some(modified) = times.modified {
                let (modified, nanos) = modified.parts();
                node.posix.modified_nanos = nanos;
                if node.is_file() {
                    node.source_modified = Some(modified);
                } else {
                    node.modified = modified;
                }
            }
            node.posix.accessed = times.accessed.or(node.posix.accessed);
        })
    }

    /// As [`Self::change_node`], for a change that POSIX dates.
    pub(in crate::store) fn change_dated(
        &self,
        id: FileId,
        change: impl FnOnce(&mut Node),
    ) -> StoreResult<()> {
        let now = self.pending.borrow().time();
        self.change_node(id, |node| {
            change(node);
            node.posix.changed = Some(now.into());
        })
        .map(drop)
    }

    pub(crate) fn set_mode(&self, id: FileId, mode: u32) -> StoreResult<()> {
        self.change_dated(id, |node| node.mode = mode)
    }

    pub(crate) fn set_holder(&self, id: FileId, holder: &Holder) -> StoreResult<()> {
        let Holder { owner, group, mode } = holder.clone();
        self.change_dated(id, |node| (node.owner, node.group, node.mode) = (owner, group, mode))
    }

    pub(crate) fn set_project(&self, id: FileId, project: &str) -> StoreResult<()> {
        self.change_node(id, |node| project.clone_into(&mut node.project)).map(drop)
    }

    pub(crate) fn move_node(&self, id: FileId, parent: FileId, name: &str) -> StoreResult<()> {
        let Some(before) = self.node(id)? else { return Ok(()) };
        if before.is_directory() && before.parent != parent {
            self.count_directories(before.parent, false)?;
            self.count_directories(parent, true)?;
        }
        self.change_node(id, |node| (node.parent, node.name) = (parent, name.to_owned()))?;
        self.change_dated(if before.is_hard_link() { before.hard_link } else { id }, |_| {})?;
        self.note_names_changed(before.parent)?;
        self.note_names_changed(parent)
    }

    /// Deletes the row of a node or of a hard link.
    pub(in crate::store) fn delete_row(&self, row: &Arc<Node>) -> StoreResult<()> {
        if row.is_directory() {
            self.count_directories(row.parent, false)?;
        }
        self.replace(row.id, Some(Arc::clone(row)), None)?;
        self.note_names_changed(row.parent)
    }

    /// Deletes a node, whose content was dropped before, with all its names.
    pub(crate) fn delete_node(&self, id: FileId) -> StoreResult<()> {
        self.delete_hard_links(id)?;
        if let Some(node) = self.node(id)? {
            debug_assert!(node.replicas.is_empty() && !node.is_archived, "its content is left over");
            self.delete_row(&node)?;
        }
        self.delete_grants(id)?;
        self.delete_link(id)?;
        self.delete_layout(id)?;
        self.delete_storage_class(id)?;
        self.delete_attributes(id)
    }
}
