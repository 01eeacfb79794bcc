//! Names and attributes that this mount has leases on, kept in its process: the kernel asks for them again whenever anything in
//! the tree has changed.
//!
//! An answer of the head is kept only if nothing was forgotten of its node since it was asked for: such an answer may be older
//! than the change that the node was forgotten for. Changes that this mount makes itself count, too, since answers to other
//! threads cross them.

use base::{FileId, Millis};
use share::ClientId;
use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};
use wire::control::{Entry, NodeKind};

/// Nodes that are kept, as many as the head gives leases to one session; then all are forgotten.
const NODES_MAX: usize = 100_000;
/// Names that are kept; then all are forgotten.
const NAMES_MAX: usize = 400_000;
/// Nodes of which it is known when they were forgotten last; then answers that are on their way are not kept.
const FORGOTTEN_MAX: usize = 10_000;

/// When something was asked for.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Asked {
    client: ClientId,
    stamp: u64,
    at: i64,
}

/// What is known of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Name {
    /// It is this node, until then.
    Node(FileId, i64),
    /// There is none, until then.
    Absent(i64),
    Unknown,
}

/// Names and attributes. Times are those of [`crate::head::now`].
#[derive(Debug, Default)]
pub(crate) struct Cache {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// Whose leases these are.
    client: ClientId,
    /// Counts what was forgotten and changed.
    stamp: u64,
    /// Answers that were asked for before this are not kept.
    floor: u64,
    forgotten: HashMap<FileId, Forgotten>,
    nodes: HashMap<FileId, (Entry, i64)>,
    directories: HashMap<FileId, Directory>,
    /// Names in all of them.
    names: usize,
}

/// When a node was forgotten last, because others changed it or this mount did.
#[derive(Debug, Clone, Copy, Default)]
struct Forgotten {
    for_others: u64,
    own: u64,
}

#[derive(Debug, Default)]
struct Directory {
    until: i64,
    /// Names that are not here do not exist.
    is_complete: bool,
    names: HashMap<Box<str>, Option<FileId>>,
}

impl Cache {
    /// Something is going to be asked for.
    pub(crate) fn asked(&self, client: ClientId, now: i64) -> Asked {
        Asked { client, stamp: self.lock().stamp, at: now }
    }

    /// Attributes of a node, and until when they hold.
    pub(crate) fn node(&self, client: ClientId, file: FileId, now: i64) -> Option<(Entry, i64)> {
        let inner = self.lock();
        let (entry, until) = inner.nodes.get(&file).filter(|_| inner.client == client)?;
        (now < *until).then(|| (entry.clone(), *until))
    }

    /// What is known of a name.
    pub(crate) fn name(&self, client: ClientId, (parent, name): (FileId, &str), now: i64) -> Name {
        let inner = self.lock();
        let directory = inner.directories.get(&parent).filter(|it| inner.client == client && now < it.until);
        let Some(directory) = directory else { return Name::Unknown };
        match directory.names.get(name) {
            Some(Some(file)) => Name::Node(*file, directory.until),
            Some(None) => Name::Absent(directory.until),
            None if directory.is_complete => Name::Absent(directory.until),
            None => Name::Unknown,
        }
    }

    /// All entries of a directory in the order of their names, if all are known.
    pub(crate) fn listing(&self, client: ClientId, directory: FileId, now: i64) -> Option<Vec<Entry>> {
        let inner = self.lock();
        let found = inner.directories.get(&directory)?;
        if inner.client != client || !found.is_complete || now >= found.until {
            return None;
        }
        let files = found.names.iter().filter_map(|(name, file)| file.map(|file| (name, file)));
        let entries = files.map(|(name, file)| {
            let (entry, until) = inner.nodes.get(&file)?;
            (now < *until).then(|| Entry { name: name.to_string(), ..entry.clone() })
        });
        let mut entries = entries.collect::<Option<Vec<_>>>()?;
        entries.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        Some(entries)
    }

    /// Keeps attributes that the head has told. Yields until when.
    pub(crate) fn keep_node(&self, asked: Asked, entry: &Entry, lease: Millis) -> i64 {
        self.lock().keep_node(asked, entry, lease)
    }

    /// Keeps what the head has told of a name. Yields until when.
    pub(crate) fn keep_name(
        &self,
        asked: Asked,
        (parent, name): (FileId, &str),
        file: Option<FileId>,
        lease: Millis,
    ) -> i64 {
        let mut inner = self.lock();
        if !inner.is_current(asked, parent) {
            return 0;
        }
        inner.keep_name(asked, (parent, name), file, lease)
    }

    /// Keeps all names of a directory.
    pub(crate) fn keep_names(&self, asked: Asked, directory: FileId, entries: &[Entry], lease: Millis) {
        let mut inner = self.lock();
        if lease.0 == 0 || !inner.is_current(asked, directory) {
            return;
        }
        inner.drop_directory(directory);
        inner.make_room(entries.len());
        let names = entries.iter().map(|entry| (entry.name.as_str().into(), Some(entry.id))).collect();
        inner.names += entries.len();
        let found = Directory { until: asked.at + lease.0, is_complete: true, names };
        inner.directories.insert(directory, found);
    }

    /// This mount has made a node. Yields until when its name holds.
    pub(crate) fn made(
        &self,
        asked: Asked,
        (parent, name): (FileId, &str),
        entry: &Entry,
        (lease, names_lease): (Millis, Millis),
    ) -> i64 {
        let mut inner = self.lock();
        inner.own_changed(parent);
        inner.nodes.remove(&parent);
        let until = inner.keep_node(asked, entry, lease);
        if entry.kind == NodeKind::Directory && until > 0 {
            inner
                .directories
                .insert(entry.id, Directory { until, is_complete: true, ..Directory::default() });
        }
        // Others may have changed names meanwhile; threads of this mount change others in the same directory.
        if names_lease.0 == 0 || inner.is_forgotten_for_others(asked, parent) {
            inner.drop_directory(parent);
            return 0;
        }
        inner.keep_name(asked, (parent, name), Some(entry.id), names_lease)
    }

    /// This mount has committed what it has written to a file, and was told what the file is now.
    pub(crate) fn committed(&self, asked: Asked, entry: &Entry, lease: Millis) {
        let mut inner = self.lock();
        let is_newest = inner.is_current(asked, entry.id);
        inner.own_changed(entry.id);
        inner.nodes.remove(&entry.id);
        if is_newest && lease.0 > 0 {
            let stamp = inner.stamp;
            inner.keep_node(Asked { stamp, ..asked }, entry, lease);
        }
    }

    /// This mount has removed a name.
    pub(crate) fn removed(&self, (parent, name): (FileId, &str)) {
        self.lock().set_name((parent, name), None);
    }

    /// This mount has moved a node.
    pub(crate) fn moved(&self, from: (FileId, &str), to: (FileId, &str)) {
        let mut inner = self.lock();
        let file = inner.directories.get(&from.0).and_then(|it| it.names.get(from.1).copied()).flatten();
        inner.set_name(to, file);
        inner.set_name(from, None);
        if file.is_none() {
            inner.drop_directory(to.0);
        }
    }

    /// This mount has had two names change places.
    pub(crate) fn exchanged(&self, one: (FileId, &str), other: (FileId, &str)) {
        let mut inner = self.lock();
        for name in [one, other] {
            inner.set_name(name, None);
            inner.drop_directory(name.0);
        }
    }

    /// This mount has changed the attributes of a node.
    pub(crate) fn changed(&self, file: FileId) {
        let mut inner = self.lock();
        inner.own_changed(file);
        inner.nodes.remove(&file);
    }

    /// A change of this mount failed, perhaps after it was made: names of the directory are not known any more.
    pub(crate) fn doubt(&self, directory: FileId) {
        let mut inner = self.lock();
        inner.own_changed(directory);
        inner.nodes.remove(&directory);
        inner.drop_directory(directory);
    }

    /// The head asks to forget.
    pub(crate) fn forget(&self, files: &[FileId]) {
        let mut inner = self.lock();
        for file in files {
            inner.stamp += 1;
            let stamp = inner.stamp;
            inner.forgotten_entry(*file).for_others = stamp;
            inner.nodes.remove(file);
            inner.drop_directory(*file);
        }
    }

    /// Forgets all; what is kept from now on are the leases of `client`.
    pub(crate) fn clear(&self, client: ClientId) {
        let mut inner = self.lock();
        let stamp = inner.stamp + 1;
        *inner = Inner { client, stamp, floor: stamp, ..Inner::default() };
    }

    /// Whether a node was not forgotten or changed since something was asked for.
    pub(crate) fn is_current(&self, asked: Asked, file: FileId) -> bool {
        self.lock().is_current(asked, file)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn is_ours(&self, asked: Asked) -> bool {
        asked.client == self.client && asked.stamp >= self.floor
    }

    fn is_current(&self, asked: Asked, file: FileId) -> bool {
        let last = self.forgotten.get(&file).copied().unwrap_or_default();
        self.is_ours(asked) && last.for_others.max(last.own) <= asked.stamp
    }

    fn is_forgotten_for_others(&self, asked: Asked, file: FileId) -> bool {
        let last = self.forgotten.get(&file).copied().unwrap_or_default();
        !self.is_ours(asked) || last.for_others > asked.stamp
    }

    fn forgotten_entry(&mut self, file: FileId) -> &mut Forgotten {
        if self.forgotten.len() >= FORGOTTEN_MAX {
            self.forgotten.clear();
            self.floor = self.stamp;
        }
        self.forgotten.entry(file).or_default()
    }

    fn own_changed(&mut self, file: FileId) {
        self.stamp += 1;
        let stamp = self.stamp;
        self.forgotten_entry(file).own = stamp;
    }

    fn keep_node(&mut self, asked: Asked, entry: &Entry, lease: Millis) -> i64 {
        if lease.0 == 0 || !self.is_current(asked, entry.id) {
            return 0;
        }
        if self.nodes.len() >= NODES_MAX {
            self.nodes.clear();
        }
        let until = asked.at + lease.0;
        self.nodes.insert(entry.id, (entry.clone(), until));
        until
    }

    fn keep_name(
        &mut self,
        asked: Asked,
        (parent, name): (FileId, &str),
        file: Option<FileId>,
        lease: Millis,
    ) -> i64 {
        if lease.0 == 0 {
            return 0;
        }
        self.make_room(1);
        if self.directories.get(&parent).is_some_and(|it| it.until <= asked.at) {
            self.drop_directory(parent);
        }
        let until = asked.at + lease.0;
        let directory = self.directories.entry(parent).or_default();
        directory.until = directory.until.max(until);
        let is_new = directory.names.insert(name.into(), file).is_none();
        self.names += usize::from(is_new);
        until
    }

    /// This mount has given a name to a node, or taken it away.
    fn set_name(&mut self, (parent, name): (FileId, &str), file: Option<FileId>) {
        self.own_changed(parent);
        self.nodes.remove(&parent);
        let before = match self.directories.get_mut(&parent) {
            Some(directory) => {
                let before = directory.names.insert(name.into(), file);
                self.names += usize::from(before.is_none());
                before.or(directory.is_complete.then_some(None))
            }
            None => None,
        };
        match before {
            Some(Some(node)) => {
                self.own_changed(node);
                self.nodes.remove(&node);
            }
            Some(None) => {}
            // It is not known which node that was.
            None => self.nodes.clear(),
        }
    }

    fn drop_directory(&mut self, directory: FileId) {
        if let Some(dropped) = self.directories.remove(&directory) {
            self.names -= dropped.names.len();
        }
    }

    fn make_room(&mut self, names: usize) {
        if self.names + names > NAMES_MAX {
            self.directories.clear();
            self.names = 0;
        }
    }
}

#[cfg(test)]
mod tests;
