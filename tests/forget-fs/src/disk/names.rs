//! Names, and changes of names that are not durable.

use super::{Attributes, Body, Disk, Losses, Node, NodeId, now};
use rustix::{fs::RenameFlags, io::Errno};
use std::collections::HashSet;

/// A name in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    /// The directory.
    pub(crate) directory: NodeId,
    /// The name.
    pub(crate) name: String,
}

/// One step of a change: what a name leads to from now on; `None`: nothing.
#[derive(Debug)]
struct Step {
    target: Target,
    node: Option<NodeId>,
}

/// A change of names, which reaches the disk as a whole.
#[derive(Debug)]
pub(super) struct Operation {
    steps: Vec<Step>,
    /// Directories whose names it changes, and one that it removes or replaces.
    directories: Vec<NodeId>,
}

impl Operation {
    /// Nodes that it keeps as long as it waits.
    fn held(&self) -> impl Iterator<Item = NodeId> {
        self.steps.iter().filter_map(|step| step.node).chain(self.directories.iter().copied())
    }
}

impl Disk {
    /// What a name leads to.
    pub(crate) fn look_up(&self, target: &Target) -> Result<NodeId, Errno> {
        let names = self.node(target.directory)?.names().ok_or(Errno::NOTDIR)?;
        names.get(&target.name).copied().ok_or(Errno::NOENT)
    }

    /// Makes a node.
    pub(crate) fn make(&mut self, at: Target, attributes: Attributes, body: Body) -> Result<NodeId, Errno> {
        self.check_absent(&at)?;
        let id = self.next;
        self.next += 1;
        self.nodes.insert(id, Node::new(attributes, body));
        self.apply(vec![Step { target: at, node: Some(id) }], None);
        Ok(id)
    }

    /// Gives a node another name.
    pub(crate) fn link(&mut self, id: NodeId, at: Target) -> Result<(), Errno> {
        self.check_absent(&at)?;
        if self.node(id)?.links == 0 {
            return Err(Errno::NOENT);
        }
        self.apply(vec![Step { target: at, node: Some(id) }], None);
        self.set(id, |_| ())
    }

    /// Removes a name: of an empty directory, or of anything else.
    pub(crate) fn remove(&mut self, at: Target, is_directory: bool) -> Result<(), Errno> {
        let id = self.look_up(&at)?;
        let replaced = self.check_replaced(id, is_directory)?;
        self.apply(vec![Step { target: at, node: None }], replaced);
        self.set(id, |_| ()).or(Ok(()))
    }

    /// Renames, replaces or exchanges.
    pub(crate) fn rename(&mut self, from: Target, to: Target, flags: RenameFlags) -> Result<(), Errno> {
        let moved = self.look_up(&from)?;
        let there = self.look_up(&to).ok();
        if flags.contains(RenameFlags::EXCHANGE) {
            let other = there.ok_or(Errno::NOENT)?;
            self.move_into(moved, to.directory);
            self.move_into(other, from.directory);
            let steps =
                vec![Step { target: from, node: Some(other) }, Step { target: to, node: Some(moved) }];
            self.apply(steps, None);
            return Ok(());
        }
        if there.is_some() && flags.contains(RenameFlags::NOREPLACE) {
            return Err(Errno::EXIST);
        }
        if there == Some(moved) {
            return Ok(());
        }
        let is_directory = self.node(moved)?.is_directory();
        let replaced = there.map(|id| self.check_replaced(id, is_directory)).transpose()?.flatten();
        self.move_into(moved, to.directory);
        let steps = vec![Step { target: from, node: None }, Step { target: to, node: Some(moved) }];
        self.apply(steps, replaced);
        self.set(moved, |_| ())
    }

    /// Makes all changes of the names in a directory durable, those before them on which they depend, and its
    /// attributes.
    pub(crate) fn sync_directory(&mut self, id: NodeId) -> Result<(), Errno> {
        let (mut needed, mut taken) = (HashSet::from([id]), HashSet::new());
        for (number, operation) in self.pending.iter().enumerate().rev() {
            if operation.directories.iter().any(|directory| needed.contains(directory)) {
                needed.extend(operation.directories.iter().copied());
                taken.insert(number);
            }
        }
        let pending = std::mem::take(&mut self.pending);
        let mut is_taken = (0..).map(|number| taken.contains(&number));
        let (taken, left) = pending.into_iter().partition(|_| is_taken.next() == Some(true));
        self.pending = left;
        self.make_durable(taken);
        self.sync(id, false)
    }

    /// Loses any part of the changes that are not durable. What depends on one that is lost is lost, too.
    pub(super) fn cut_names(&mut self, losses: &mut Losses) {
        let lost_of_8 = [0, 1, 4, 8][self.rng.below(4) as usize];
        let (mut broken, mut kept) = (HashSet::new(), Vec::new());
        for operation in std::mem::take(&mut self.pending) {
            let depends = operation.directories.iter().any(|directory| broken.contains(directory));
            if depends || self.rng.chance(lost_of_8, 8) {
                broken.extend(operation.directories.iter().copied());
                losses.names_lost += 1;
            } else {
                losses.names_kept += 1;
                kept.push(operation);
            }
        }
        self.make_durable(kept);
    }

    fn make_durable(&mut self, operations: Vec<Operation>) {
        for operation in operations {
            for Step { target, node } in &operation.steps {
                let old = self.point(target, *node, |body| match body {
                    Body::Directory { durable, .. } => Some(durable),
                    _ => None,
                });
                if let Some(old) = old {
                    self.release(old);
                }
            }
            let held: Vec<_> = operation.held().collect();
            for id in held {
                self.release(id);
            }
        }
    }

    /// Changes what programs see, and notes the change.
    fn apply(&mut self, steps: Vec<Step>, replaced: Option<NodeId>) {
        let mut directories: Vec<_> = steps.iter().map(|step| step.target.directory).collect();
        directories.extend(replaced);
        let operation = Operation { steps, directories };
        let held: Vec<_> = operation.held().collect();
        for id in held {
            self.hold(id);
        }
        for Step { target, node } in &operation.steps {
            if let Some(new) = node.and_then(|id| self.nodes.get_mut(&id)) {
                new.links += 1;
            }
            let old = self.point(target, *node, |body| match body {
                Body::Directory { live, .. } => Some(live),
                _ => None,
            });
            if let Some(old) = old {
                if let Some(node) = self.nodes.get_mut(&old) {
                    node.links -= 1;
                }
                self.release(old);
            }
            let _gone = self.set(target.directory, |attributes| attributes.modified = now());
        }
        self.pending.push(operation);
    }

    /// Points a name at a node in one of the two images; yields the node that it led to.
    fn point(
        &mut self,
        target: &Target,
        node: Option<NodeId>,
        image: impl FnOnce(&mut Body) -> Option<&mut super::node::Names>,
    ) -> Option<NodeId> {
        if let Some(id) = node {
            self.hold(id);
        }
        let names = self.nodes.get_mut(&target.directory).and_then(|directory| image(&mut directory.body))?;
        match node {
            Some(id) => names.insert(target.name.clone(), id),
            None => names.remove(&target.name),
        }
    }

    fn check_absent(&self, at: &Target) -> Result<(), Errno> {
        match self.look_up(at) {
            Ok(_) => Err(Errno::EXIST),
            Err(Errno::NOENT) if self.node(at.directory)?.links == 0 && at.directory != super::ROOT => {
                Err(Errno::NOENT)
            }
            Err(Errno::NOENT) => Ok(()),
            Err(other) => Err(other),
        }
    }

    /// Checks that a node may be removed or replaced; yields it if it is a directory.
    fn check_replaced(&self, id: NodeId, by_directory: bool) -> Result<Option<NodeId>, Errno> {
        match (self.node(id)?.names(), by_directory) {
            (Some(names), true) if names.is_empty() => Ok(Some(id)),
            (Some(_), true) => Err(Errno::NOTEMPTY),
            (Some(_), false) => Err(Errno::ISDIR),
            (None, true) => Err(Errno::NOTDIR),
            (None, false) => Ok(None),
        }
    }

    fn move_into(&mut self, id: NodeId, directory: NodeId) {
        if let Some(Body::Directory { parent, .. }) = self.nodes.get_mut(&id).map(|node| &mut node.body) {
            *parent = directory;
        }
    }
}

#[cfg(test)]
mod tests;
