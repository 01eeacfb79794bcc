//! Nodes that were read lately, by id and by name.

use super::Node;
use base::{FileId, ObjectId};
use std::{collections::HashMap, sync::Arc};

/// Nodes of one generation; two are kept. A node takes about 400 bytes: 50 MB in all.
const GENERATION_NODES_MAX: usize = 65_536;

#[derive(Default)]
struct Generation {
    nodes: HashMap<FileId, Arc<Node>>,
    /// Names by directory, so that a look-up by name needs no copy of the name.
    names: HashMap<FileId, HashMap<Box<str>, Arc<Node>>>,
    /// The files of their objects.
    objects: HashMap<ObjectId, FileId>,
}

impl Generation {
    fn child(&self, parent: FileId, name: &str) -> Option<&Arc<Node>> {
        self.names.get(&parent)?.get(name)
    }

    fn insert(&mut self, node: &Arc<Node>) {
        self.nodes.insert(node.id, Arc::clone(node));
        self.names.entry(node.parent).or_default().insert(node.name.as_str().into(), Arc::clone(node));
        self.objects.extend(node.replicas.iter().map(|replica| (replica.object, node.id)));
    }

    fn forget(&mut self, id: FileId) {
        let Some(node) = self.nodes.remove(&id) else { return };
        for replica in &node.replicas {
            self.objects.remove(&replica.object);
        }
        let Some(names) = self.names.get_mut(&node.parent) else { return };
        names.remove(node.name.as_str());
        if names.is_empty() {
            self.names.remove(&node.parent);
        }
    }
}

/// A bounded cache: the older half goes when the newer one is full; what is used moves to the newer one.
#[derive(Default)]
pub(super) struct NodeCache {
    new: Generation,
    old: Generation,
}

impl NodeCache {
    pub(super) fn node(&mut self, id: FileId) -> Option<Arc<Node>> {
        if let Some(node) = self.new.nodes.get(&id) {
            return Some(Arc::clone(node));
        }
        let node = self.old.nodes.get(&id).cloned()?;
        self.insert(&node);
        Some(node)
    }

    pub(super) fn child(&mut self, parent: FileId, name: &str) -> Option<Arc<Node>> {
        if let Some(node) = self.new.child(parent, name) {
            return Some(Arc::clone(node));
        }
        let node = self.old.child(parent, name).cloned()?;
        self.insert(&node);
        Some(node)
    }

    /// The file of an object.
    pub(super) fn file_of(&self, object: ObjectId) -> Option<FileId> {
        self.new.objects.get(&object).or_else(|| self.old.objects.get(&object)).copied()
    }

    pub(super) fn insert(&mut self, node: &Arc<Node>) {
        if self.new.nodes.len() >= GENERATION_NODES_MAX {
            self.old = std::mem::take(&mut self.new);
        }
        // Otherwise what is forgotten here could be found there.
        self.old.forget(node.id);
        self.new.insert(node);
    }

    pub(super) fn forget(&mut self, id: FileId) {
        self.new.forget(id);
        self.old.forget(id);
    }
}
