//! A disk that is kept in memory: what programs see of it, and what it still has after a power cut.
//!
//! **Problem.** A program that forgot to sync a file or a directory notices it only when the power fails.
//!
//! **Idea.** Each file has two images, which share their pages until one of them changes: what programs see, and what
//! was synced. Each change of names waits until one of its directories is synced. A power cut keeps any part of what
//! was not synced: of data by page and sector, of names by change. It promises no more than POSIX does:
//!
//! - syncing a file makes its content durable, and none of its names;
//! - syncing a directory makes all changes of its names durable, those before them on which they depend, and no others;
//! - changes of names in one directory reach the disk in their order; those in different directories in any order;
//! - `rename` is atomic.
//!
//! **Start reading** with [`Disk::cut`], then `names.rs` and `content.rs`.

mod content;
mod losses;
mod names;
mod node;

use base::rng::Rng;
use content::Content;
pub(crate) use content::PAGE_BYTES;
pub(crate) use losses::Losses;
pub(crate) use names::Target;
pub(crate) use node::{Attributes, Body, Node, NodeId, now};
use rustix::io::Errno;
use std::{
    collections::{BTreeMap, HashSet},
    ops::Range,
};

/// Number of the root directory.
pub(crate) const ROOT: NodeId = 1;

/// The disk.
#[derive(Debug)]
pub(crate) struct Disk {
    nodes: BTreeMap<NodeId, Node>,
    /// Changes of names that are not durable, oldest first.
    pending: Vec<names::Operation>,
    /// Number of the next node; none is used twice.
    next: NodeId,
    /// Pages of all files, of both images.
    pages: u64,
    /// Most of these.
    pages_max: u64,
    rng: Rng,
}

impl Disk {
    /// An empty disk of `capacity` bytes; `seed` decides what is lost.
    pub(crate) fn new(capacity: u64, seed: u64) -> Self {
        let time = now();
        let root =
            Attributes { mode: 0o040_755, uid: 0, gid: 0, accessed: time, modified: time, changed: time };
        let mut root = Node::new(root, new_directory(ROOT));
        root.holders = 1;
        let (nodes, rng) = (BTreeMap::from([(ROOT, root)]), Rng::new(seed));
        Self { nodes, pending: Vec::new(), next: ROOT + 1, pages: 0, pages_max: capacity / PAGE_BYTES, rng }
    }

    /// All pages, and those that are free.
    pub(crate) fn space(&self) -> (u64, u64) {
        (self.pages_max, self.pages_max.saturating_sub(self.pages))
    }

    /// A node.
    pub(crate) fn node(&self, id: NodeId) -> Result<&Node, Errno> {
        self.nodes.get(&id).ok_or(Errno::STALE)
    }

    fn node_mut(&mut self, id: NodeId) -> Result<&mut Node, Errno> {
        self.nodes.get_mut(&id).ok_or(Errno::STALE)
    }

    /// Changes attributes.
    pub(crate) fn set(&mut self, id: NodeId, change: impl FnOnce(&mut Attributes)) -> Result<(), Errno> {
        let attributes = &mut self.node_mut(id)?.live;
        change(attributes);
        attributes.changed = now();
        Ok(())
    }

    /// Keeps a node that is open.
    pub(crate) fn hold(&mut self, id: NodeId) {
        if let Some(node) = self.nodes.get_mut(&id) {
            node.holders += 1;
        }
    }

    /// One reason less to keep a node.
    pub(crate) fn release(&mut self, id: NodeId) {
        let Some(node) = self.nodes.get_mut(&id) else { return };
        node.holders -= 1;
        if node.holders > 0 {
            return;
        }
        if let Some(Node { body, .. }) = self.nodes.remove(&id) {
            match body {
                Body::File(content) => self.pages -= content.pages(),
                Body::Directory { durable, .. } => {
                    for child in durable.into_values() {
                        self.release(child);
                    }
                }
                Body::Link(_) | Body::Special(_) => {}
            }
        }
    }

    /// Changes the content of a file.
    fn change<R>(
        &mut self,
        id: NodeId,
        change: impl FnOnce(&mut Content, &mut Rng) -> R,
    ) -> Result<R, Errno> {
        let node = self.nodes.get_mut(&id).ok_or(Errno::STALE)?;
        let Body::File(content) = &mut node.body else { return Err(Errno::ISDIR) };
        let before = content.pages();
        let outcome = change(content, &mut self.rng);
        self.pages = self.pages - before + content.pages();
        Ok(outcome)
    }

    /// Writes to a file.
    pub(crate) fn write(&mut self, id: NodeId, offset: u64, data: &[u8]) -> Result<(), Errno> {
        // Each page may be kept twice once it is synced.
        if self.space().1 < 2 * (data.len() as u64 / PAGE_BYTES + 2) {
            return Err(Errno::NOSPC);
        }
        self.change(id, |content, rng| content.write(offset, data, rng))?;
        self.set(id, |attributes| attributes.modified = now())
    }

    /// Cuts a file or makes it longer.
    pub(crate) fn truncate(&mut self, id: NodeId, size: u64) -> Result<(), Errno> {
        self.change(id, |content, _| content.truncate(size))?;
        self.set(id, |attributes| attributes.modified = now())
    }

    /// Replaces bytes of a file by zeros, as far as it goes.
    pub(crate) fn zero(&mut self, id: NodeId, range: Range<u64>) -> Result<(), Errno> {
        self.change(id, |content, _| content.zero(range.start..range.end.min(content.size())))
    }

    /// Makes the content of a file durable and, unless `is_data_only`, its attributes.
    pub(crate) fn sync(&mut self, id: NodeId, is_data_only: bool) -> Result<(), Errno> {
        if self.node(id)?.content().is_some() {
            self.change(id, |content, _| content.sync())?;
        }
        if !is_data_only {
            let node = self.node_mut(id)?;
            node.durable = node.live;
        }
        Ok(())
    }

    /// Cuts the power: what is left is what the disk has.
    pub(crate) fn cut(&mut self) -> Losses {
        let mut losses = Losses::default();
        self.cut_names(&mut losses);
        for node in self.nodes.values_mut() {
            if node.live != node.durable {
                let is_lost = self.rng.chance(1, 2);
                losses.attributes_lost += u64::from(is_lost);
                let left = if is_lost { node.durable } else { node.live };
                (node.live, node.durable) = (left, left);
            }
            if let Body::File(content) = &mut node.body {
                content.cut(&mut self.rng, &mut losses);
            }
        }
        self.sweep();
        losses
    }

    /// Finds what the names on the disk lead to, and drops all else.
    fn sweep(&mut self) {
        let (mut reached, mut todo) = (HashSet::from([ROOT]), vec![ROOT]);
        for node in self.nodes.values_mut() {
            (node.links, node.holders) = (0, 0);
        }
        self.hold(ROOT);
        while let Some(directory) = todo.pop() {
            let names = self.adopt_durable(directory);
            for child in names {
                let Some(node) = self.nodes.get_mut(&child) else { continue };
                node.links += 1;
                // The name that programs see, and the one on the disk.
                node.holders += 2;
                if let Body::Directory { parent, .. } = &mut node.body {
                    *parent = directory;
                }
                if reached.insert(child) && node.is_directory() {
                    todo.push(child);
                }
            }
        }
        self.nodes.retain(|id, _| reached.contains(id));
        self.pages = self.nodes.values().filter_map(Node::content).map(Content::pages).sum();
    }

    /// Shows programs the names that are on the disk.
    fn adopt_durable(&mut self, directory: NodeId) -> Vec<NodeId> {
        match self.nodes.get_mut(&directory).map(|node| &mut node.body) {
            Some(Body::Directory { live, durable, .. }) => {
                live.clone_from(durable);
                live.values().copied().collect()
            }
            _ => Vec::new(),
        }
    }
}

/// What a new file holds.
pub(crate) fn new_file() -> Body {
    Body::File(Content::default())
}

/// What a new directory in `parent` holds.
pub(crate) fn new_directory(parent: NodeId) -> Body {
    Body::Directory { live: BTreeMap::new(), durable: BTreeMap::new(), parent }
}
