//! Cache of recently read nodes, by id and by name, bounded in bytes.

use crate::store::{
    Node, Replica,
    cache::footprint::{arc, block, table_of, table_with_one_more},
};
use base::{FileId, ObjectId};
use std::{
    collections::{HashMap, hash_map},
    sync::Arc,
};

/// Bytes of the cache if nobody says otherwise: the nodes of half a million files.
const BYTES_MAX: usize = 256 << 20;
/// Entries that are taken out of the oldest generation with each that comes: all of it is gone before a sixteenth of the next one
/// is there, and nobody waits until a million are.
const FORGOTTEN_AT_ONCE: usize = 16;

/// What a node takes, and its name a second time as a key.
fn footprint(node: &Node) -> usize {
    let replica = |replica: &Replica| block(replica.partition.capacity()) + block(replica.owner.capacity());
    arc::<Node>()
        + block(node.name.capacity())
        + block(node.name.len())
        + block(node.owner.capacity())
        + block(node.group.capacity())
        + block(node.project.capacity())
        + block(node.replicas.capacity() * size_of::<Replica>())
        + node.replicas.iter().map(replica).sum::<usize>()
}

#[derive(Default)]
struct Generation {
    nodes: HashMap<FileId, Arc<Node>>,
    /// Names by directory, so that a look-up by name needs no copy of the name.
    names: HashMap<FileId, HashMap<Box<str>, Arc<Node>>>,
    /// The files of their objects.
    objects: HashMap<ObjectId, FileId>,
    /// What nodes, and names of each directory, take; the other tables are asked.
    content_bytes: usize,
}

impl Generation {
    fn child(&self, parent: FileId, name: &str) -> Option<&Arc<Node>> {
        self.names.get(&parent)?.get(name)
    }

    /// Bytes that it takes.
    #[cfg(test)]
    fn bytes(&self) -> usize {
        self.content_bytes + table_of(&self.nodes) + table_of(&self.names) + table_of(&self.objects)
    }

    /// Bytes that it takes at most once it has `node` too.
    fn bytes_with(&self, node: &Node) -> usize {
        let names = match self.names.get(&node.parent) {
            Some(names) => table_with_one_more(names) - table_of(names),
            None => table_with_one_more(&HashMap::<Box<str>, Arc<Node>>::new()),
        };
        self.content_bytes
            + footprint(node)
            + names
            + table_with_one_more(&self.nodes)
            + table_with_one_more(&self.names)
            + table_with_one_more(&self.objects)
    }

    fn insert(&mut self, node: &Arc<Node>) {
        self.forget(node.id);
        self.content_bytes += footprint(node);
        self.nodes.insert(node.id, Arc::clone(node));
        let names = self.names.entry(node.parent).or_default();
        let before = table_of(names);
        let homonym = names.insert(node.name.as_str().into(), Arc::clone(node));
        self.content_bytes = self.content_bytes + table_of(names) - before;
        self.objects.extend(node.replicas.iter().map(|replica| (replica.object, node.id)));
        // Whoever had the name before has another now, or is gone.
        if let Some(homonym) = homonym.filter(|homonym| homonym.id != node.id) {
            self.nodes.remove(&homonym.id);
            self.forget_rest(&homonym);
        }
    }

    fn forget(&mut self, id: FileId) {
        let Some(node) = self.nodes.remove(&id) else { return };
        if let Some(names) = self.names.get_mut(&node.parent) {
            // A table that something was taken from may count as smaller.
            let before = table_of(names);
            names.remove(node.name.as_str());
            let is_empty = names.is_empty();
            self.content_bytes = self.content_bytes - before + if is_empty { 0 } else { table_of(names) };
            if is_empty {
                self.names.remove(&node.parent);
            }
        }
        self.forget_rest(&node);
    }

    fn forget_rest(&mut self, node: &Node) {
        for replica in &node.replicas {
            self.objects.remove(&replica.object);
        }
        self.content_bytes -= footprint(node);
    }
}

/// What is left of a generation that is forgotten, entry by entry.
struct RetiredGeneration {
    nodes: hash_map::IntoIter<FileId, Arc<Node>>,
    names: hash_map::IntoIter<FileId, HashMap<Box<str>, Arc<Node>>>,
    directory: hash_map::IntoIter<Box<str>, Arc<Node>>,
}

impl From<Generation> for RetiredGeneration {
    fn from(Generation { nodes, names, .. }: Generation) -> Self {
        Self { nodes: nodes.into_iter(), names: names.into_iter(), directory: HashMap::new().into_iter() }
    }
}

impl RetiredGeneration {
    /// Takes some entries out.
    fn forget_some(&mut self) {
        for _ in 0..FORGOTTEN_AT_ONCE {
            drop(self.nodes.next());
            if self.directory.next().is_none()
                && let Some((_, directory)) = self.names.next()
            {
                self.directory = directory.into_iter();
            }
        }
    }
}

/// A bounded cache: the older half goes when the newer one is full; what is used moves to the newer one.
pub(in crate::store) struct NodeCache {
    new: Generation,
    old: Generation,
    /// What was the older half before.
    remains: RetiredGeneration,
    bytes_max: usize,
}

impl Default for NodeCache {
    fn default() -> Self {
        Self::new(BYTES_MAX)
    }
}

impl NodeCache {
    /// A cache that takes `bytes_max`.
    pub(in crate::store) fn new(bytes_max: usize) -> Self {
        let (new, old) = (Generation::default(), Generation::default());
        Self { new, old, remains: Generation::default().into(), bytes_max }
    }

    /// Forgets everything.
    pub(in crate::store) fn clear(&mut self) {
        *self = Self::new(self.bytes_max);
    }

    /// Bytes that it takes now.
    #[cfg(test)]
    pub(in crate::store) fn bytes(&self) -> usize {
        self.new.bytes() + self.old.bytes()
    }

    pub(in crate::store) fn node(&mut self, id: FileId) -> Option<Arc<Node>> {
        if let Some(node) = self.new.nodes.get(&id) {
            return Some(Arc::clone(node));
        }
        let node = self.old.nodes.get(&id).cloned()?;
        self.insert(&node);
        Some(node)
    }

    pub(in crate::store) fn child(&mut self, parent: FileId, name: &str) -> Option<Arc<Node>> {
        if let Some(node) = self.new.child(parent, name) {
            return Some(Arc::clone(node));
        }
        let node = self.old.child(parent, name).cloned()?;
        self.insert(&node);
        Some(node)
    }

    /// The file of an object.
    pub(in crate::store) fn file_of(&self, object: ObjectId) -> Option<FileId> {
        self.new.objects.get(&object).or_else(|| self.old.objects.get(&object)).copied()
    }

    pub(in crate::store) fn insert(&mut self, node: &Arc<Node>) {
        // Otherwise what is forgotten here could be found there.
        self.old.forget(node.id);
        self.remains.forget_some();
        // A sixteenth of a half is for what is still to be forgotten.
        if self.new.bytes_with(node) > self.bytes_max / 2 / 17 * 16 {
            let forgotten = std::mem::replace(&mut self.old, std::mem::take(&mut self.new));
            self.remains = forgotten.into();
            self.old.forget(node.id);
        }
        self.new.insert(node);
    }

    pub(in crate::store) fn forget(&mut self, id: FileId) {
        self.new.forget(id);
        self.old.forget(id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::ReplicaState;
    use base::{Adler32, Checksums, Crc32c, Timestamp};
    use std::{io::Write, process::Command};
    use wire::control::NodeKind;

    fn file(id: u64, parent: u64, name: String) -> Arc<Node> {
        let replica = Replica {
            object: ObjectId(id),
            file: FileId(id),
            partition: "host1-disk1".into(),
            state: ReplicaState::Online,
            owner: "ada".into(),
            size: 1,
            created: Timestamp(1),
            used: Timestamp(1),
            piece: None,
        };
        Arc::new(Node {
            id: FileId(id),
            parent: FileId(parent),
            name,
            kind: NodeKind::File,
            owner: "ada".into(),
            group: "ada".into(),
            project: String::new(),
            mode: 0o644,
            size: 1,
            modified: Timestamp(1),
            checksums: Some(Checksums { adler32: Adler32(1), crc32c: Crc32c(1) }),
            replicas: vec![replica],
            is_archived: false,
            lacks_copies: false,
            generation: 0,
            label: FileId(0),
            source_modified: None,
            live: ObjectId(0),
            hard_link: FileId(0),
            posix: wire::control::PosixFields::default(),
        })
    }

    /// Large directories, and many with one file each; names of all lengths.
    fn fill(cache: &mut NodeCache, ids: std::ops::Range<u64>) {
        for id in ids {
            let parent = if id % 3 == 0 { id + 1_000_000_000 } else { id / 5000 };
            let name = format!("{id}-{}", "x".repeat((id * 7 % 90) as usize));
            cache.insert(&file(id, parent, name));
        }
    }

    fn counted(cache: &NodeCache) -> usize {
        let generation = |generation: &Generation| {
            let nodes: usize = generation.nodes.values().map(|node| footprint(node)).sum();
            let names: usize = generation.names.values().map(table_of).sum();
            assert_eq!(generation.content_bytes, nodes + names);
            generation.bytes()
        };
        generation(&cache.new) + generation(&cache.old)
    }

    #[test]
    fn it_keeps_count_and_within_its_bytes() {
        for bytes_max in [1 << 16, 1 << 20, 8 << 20] {
            let mut cache = NodeCache::new(bytes_max);
            let mut most = 0;
            for step in 0..40u64 {
                fill(&mut cache, step * 1000..(step + 1) * 1000);
                // Some go, some get another name, some names get another node.
                for id in step * 1000..step * 1000 + 300 {
                    match id % 3 {
                        0 => cache.forget(FileId(id)),
                        1 => cache.insert(&file(id, 4, format!("moved{id}"))),
                        _ => cache.insert(&file(id + 1_000_000, 4, format!("moved{}", id - 1))),
                    }
                }
                most = most.max(cache.bytes());
                assert_eq!(counted(&cache), cache.bytes());
                assert!(cache.bytes() <= bytes_max, "{} of {bytes_max}", cache.bytes());
            }
            assert!(most > bytes_max / 2, "{most} of {bytes_max} are used");
            cache.clear();
            assert_eq!(cache.bytes(), 0);
        }
    }

    /// Bytes of this process that are in memory.
    fn resident() -> usize {
        let text = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().strip_suffix(" kB").unwrap().parse::<usize>().unwrap() << 10
    }

    const ALONE: &str = "BP_TEST_ALONE";
    const MEASURED: usize = 64 << 20;

    /// In a process of its own, so that the memory is that of the cache.
    #[test]
    fn the_memory_of_the_process_is_what_was_counted() {
        if std::env::var_os(ALONE).is_some() {
            let before = resident();
            let mut cache = NodeCache::new(MEASURED);
            fill(&mut cache, 0..600_000);
            writeln!(std::io::stdout(), "\nmeasured {} {}", resident() - before, cache.bytes()).unwrap();
            return;
        }
        let name = "store::cache::node_cache::tests::the_memory_of_the_process_is_what_was_counted";
        let mut alone = Command::new(std::env::current_exe().unwrap());
        let output = alone.args(["--exact", name, "--nocapture"]).env(ALONE, "1").output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("measured ")).unwrap();
        let (resident, counted) = line.split_once(' ').unwrap();
        let (resident, counted): (usize, usize) = (resident.parse().unwrap(), counted.parse().unwrap());
        // What the allocator cannot give back yet is not counted.
        assert!(resident < MEASURED + MEASURED / 4, "{resident} bytes are in memory, {counted} counted");
        // The newer half was begun just now, perhaps.
        assert!(counted > MEASURED / 3, "{counted} of {MEASURED} are used");
    }
}
