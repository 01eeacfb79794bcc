//! Changes of files and directories.

use super::{NewContent, NewNode, Node};
use crate::store::{Store, StoreResult, TRASH, rows::facility::ids::Sequence};
use base::{FileId, ObjectId, Timestamp};
use std::sync::Arc;
use wire::media::object::Holder;

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
            project,
            label: FileId(0),
            source_modified: None,
            live: ObjectId(0),
        };
        self.replace(id, None, Some(node))?;
        Ok(id)
    }

    /// Sets the time of a directory in which an entry was made, removed or renamed.
    ///
    /// Costs one row for each directory of a group, however many of its names change. A clock that was set back changes nothing.
    pub(crate) fn note_names_changed(&self, directory: FileId) -> StoreResult<()> {
        let now = self.pending.borrow().time();
        if directory == TRASH || self.node(directory)?.is_none_or(|node| node.modified >= now) {
            return Ok(());
        }
        self.set_modified(directory, now)
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
            node.live = ObjectId(0);
        })
        .map(drop)
    }

    /// Notes when the present content changed where it came from.
    pub(crate) fn set_source_modified(&self, id: FileId, then: Option<Timestamp>) -> StoreResult<()> {
        self.change_node(id, |node| node.source_modified = then).map(drop)
    }

    /// Sets the time of a directory, which nothing else is decided by.
    pub(crate) fn set_modified(&self, directory: FileId, modified: Timestamp) -> StoreResult<()> {
        self.change_node(directory, |node| node.modified = modified).map(drop)
    }

    pub(crate) fn set_mode(&self, id: FileId, mode: u32) -> StoreResult<()> {
        self.change_node(id, |node| node.mode = mode).map(drop)
    }

    pub(crate) fn set_holder(&self, id: FileId, holder: &Holder) -> StoreResult<()> {
        let Holder { owner, group, mode } = holder.clone();
        self.change_node(id, |node| (node.owner, node.group, node.mode) = (owner, group, mode)).map(drop)
    }

    pub(crate) fn set_project(&self, id: FileId, project: &str) -> StoreResult<()> {
        self.change_node(id, |node| project.clone_into(&mut node.project)).map(drop)
    }

    pub(crate) fn move_node(&self, id: FileId, parent: FileId, name: &str) -> StoreResult<()> {
        let Some(before) = self.node(id)? else { return Ok(()) };
        self.change_node(id, |node| (node.parent, node.name) = (parent, name.to_owned()))?;
        self.note_names_changed(before.parent)?;
        self.note_names_changed(parent)
    }

    /// Deletes a node, whose content was dropped before.
    pub(crate) fn delete_node(&self, id: FileId) -> StoreResult<()> {
        if let Some(node) = self.node(id)? {
            debug_assert!(node.replicas.is_empty() && !node.is_archived, "its content is left over");
            let parent = node.parent;
            self.replace(id, Some(node), None)?;
            self.note_names_changed(parent)?;
        }
        self.delete_grants(id)?;
        self.delete_link(id)?;
        self.delete_attributes(id)
    }
}
