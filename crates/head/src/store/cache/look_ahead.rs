//! Reading what the calls of a group will need, many at once, where each query is a round trip.

use crate::store::{
    Node, Replica, Store, StoreResult,
    cache::{by_key::Lists, pending::Name},
    engine::Cell,
    rows::{
        namespace::nodes::{NODE_OF_NAME, node},
        pool::replicas::{REPLICAS_OF_FILES, replica},
    },
};
use base::{FileId, FilePath};
use std::{
    collections::{BTreeSet, HashMap},
    iter::Peekable,
    sync::Arc,
};

/// A path on the way down: the directory that was reached, and what is left.
struct Walk<'a, Names: Iterator<Item = &'a str>> {
    at: FileId,
    names: Peekable<Names>,
}

/// The cached state of a name.
enum Known {
    Node(FileId),
    Free,
    Unknown,
}

impl Store {
    /// Whether it pays to read ahead.
    pub(crate) fn looks_ahead(&self) -> bool {
        self.engine.is_remote()
    }

    /// Reads what `paths` name, level by level, so that a group of calls costs a query for each level and not for each
    /// call.
    pub(crate) fn look_ahead(&self, paths: &[FilePath]) -> StoreResult<()> {
        if !self.looks_ahead() || paths.is_empty() {
            return Ok(());
        }
        let Some(root) = self.node(FileId(1))? else { return Ok(()) };
        let mut walks: Vec<_> =
            paths.iter().map(|path| Walk { at: root.id, names: path.names().peekable() }).collect();
        loop {
            let mut wanted = BTreeSet::new();
            walks.retain_mut(|walk| {
                let unknown = self.walk(walk);
                wanted.extend(unknown.map(|name| (walk.at, name)));
                unknown.is_some()
            });
            if wanted.is_empty() {
                return Ok(());
            }
            self.fetch(&wanted)?;
        }
    }

    /// Goes down as far as memory knows; yields the name that it does not know.
    fn walk<'a>(&self, walk: &mut Walk<'a, impl Iterator<Item = &'a str>>) -> Option<&'a str> {
        while let Some(name) = walk.names.peek().copied() {
            match self.known_child(walk.at, name) {
                Known::Node(id) => walk.at = id,
                Known::Free => return None,
                Known::Unknown => return Some(name),
            }
            walk.names.next();
        }
        None
    }

    fn known_child(&self, parent: FileId, name: &str) -> Known {
        match self.pending.borrow().child(parent, name) {
            Some(Name::Of(id)) => return Known::Node(id),
            Some(Name::Free) => return Known::Free,
            None => {}
        }
        let cached = self.cache.borrow_mut().child(parent, name);
        cached.map_or(Known::Unknown, |node| Known::Node(node.id))
    }

    /// Reads the nodes that have these names; the other names are free.
    fn fetch(&self, wanted: &BTreeSet<(FileId, &str)>) -> StoreResult<()> {
        let parents: Vec<_> = wanted.iter().map(|(parent, _)| parent.0 as i64).collect();
        let names: Vec<_> = wanted.iter().map(|(_, name)| *name).collect();
        let lists = Lists([Cell::Integers(&parents), Cell::Texts(&names)]);
        let mut nodes = self.all_now(NODE_OF_NAME, lists, node)?;
        let files: Vec<_> =
            nodes.iter().filter(|node| !node.is_directory()).map(|node| node.id.0 as i64).collect();
        let mut replicas: HashMap<FileId, Vec<Replica>> = HashMap::new();
        if !files.is_empty() {
            let lists = Lists([Cell::Integers(&files)]);
            for replica in self.all_now(REPLICAS_OF_FILES, lists, replica)? {
                replicas.entry(replica.file).or_default().push(replica);
            }
        }
        for node in &mut nodes {
            node.replicas = replicas.remove(&node.id).unwrap_or_default();
        }
        self.remember(wanted, nodes);
        Ok(())
    }

    fn remember(&self, wanted: &BTreeSet<(FileId, &str)>, nodes: Vec<Node>) {
        let mut pending = self.pending.borrow_mut();
        let found: BTreeSet<_> = nodes.iter().map(|node| (node.parent, node.name.as_str())).collect();
        for (parent, name) in wanted.difference(&found) {
            pending.set_free(*parent, name);
        }
        drop(found);
        for node in nodes {
            // What this group has changed is not what was read.
            if pending.file(node.id).is_none() {
                self.cache.borrow_mut().insert(&Arc::new(node));
            }
        }
    }
}
