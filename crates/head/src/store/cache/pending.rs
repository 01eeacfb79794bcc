//! Changes of the current group of calls that are not in the database yet.
//!
//! Files with their replicas, space of partitions, accounts and objects to delete change here.
//! [`crate::store::cache::flush`] writes them when the group commits, or when a query needs them. Every change of a
//! call notes how to undo it, so a refused call leaves nothing else behind.

use crate::store::{
    Charge, Node,
    rows::{
        account::ledger::{self, Account, AccountUsage, Ledger, Payer, Quota},
        facility::{
            census::{Census, Counted},
            ids::{Ids, Sequence},
        },
        pool::partitions::Partition,
    },
};
use base::{FileId, ObjectId, Timestamp};
use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};
use wire::control::QuotaKind;

/// A file that was changed: as the database has it, and as it is.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::store) struct Changed {
    pub(in crate::store) stored: Option<Arc<Node>>,
    pub(in crate::store) now: Option<Arc<Node>>,
}

/// What a name stands for since it was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store) enum Name {
    Of(FileId),
    Free,
}

/// The undo record of a change.
#[derive(Debug)]
pub(in crate::store) enum Undo {
    /// The file was this before, and known as changed or not.
    File {
        id: FileId,
        before: Option<Arc<Node>>,
        entry: Option<Changed>,
    },
    /// The file was written; before it was known as this.
    Written {
        id: FileId,
        stored: Option<Arc<Node>>,
    },
    Partition(String, Option<Partition>),
    Ledger(ledger::Entry),
    Removal,
    RemovalsWritten(Vec<Removal>),
    /// The counts were written; before, the database had these.
    CensusWritten(Census),
    Ids(Sequence, Ids),
}

/// An object that its disk server is to delete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::store) struct Removal {
    pub(in crate::store) object: ObjectId,
    pub(in crate::store) partition: String,
    /// Bytes that its disk server gives back with it.
    pub(in crate::store) size: u64,
}

/// What is to be written.
#[derive(Debug, Default)]
pub(in crate::store) struct Batch {
    /// As stored, and as it is; by id.
    pub(in crate::store) files: Vec<Changed>,
    pub(in crate::store) partitions: Vec<(String, Partition)>,
    pub(in crate::store) accounts: Vec<Account>,
    pub(in crate::store) removals: Vec<Removal>,
    pub(in crate::store) census: Option<Census>,
}

impl Batch {
    pub(in crate::store) fn is_empty(&self) -> bool {
        self.files.is_empty()
            && self.partitions.is_empty()
            && self.accounts.is_empty()
            && self.removals.is_empty()
            && self.census.is_none()
    }
}

/// Changes of the group under way.
#[derive(Debug, Default)]
pub(in crate::store) struct Pending {
    files: HashMap<FileId, Changed>,
    /// Names that were taken or given up, by directory.
    names: HashMap<FileId, HashMap<Box<str>, Name>>,
    /// Files of objects that are or were in `files`.
    objects: HashMap<ObjectId, FileId>,
    /// All partitions, with what is promised on them; `None` until they are read.
    partitions: Option<BTreeMap<String, Partition>>,
    /// All accounts, with what they hold; `None` until they are read.
    ledger: Option<Ledger>,
    /// How many files there are; `None` until that is read.
    census: Option<Counted>,
    /// The time of the call under way.
    now: Timestamp,
    removals: Vec<Removal>,
    undo: Vec<Undo>,
    /// Something changed of what stats, read grants and listings are made from.
    is_visible: bool,
    /// Before the call under way.
    was_visible: bool,
}

impl Pending {
    /// A file, if it was changed.
    pub(in crate::store) fn file(&self, id: FileId) -> Option<&Changed> {
        self.files.get(&id)
    }

    /// What a name stands for, if that was changed.
    pub(in crate::store) fn child(&self, parent: FileId, name: &str) -> Option<Name> {
        self.names.get(&parent)?.get(name).copied()
    }

    /// The file that an object belongs to, or belonged to.
    pub(in crate::store) fn file_of(&self, object: ObjectId) -> Option<FileId> {
        self.objects.get(&object).copied()
    }

    pub(in crate::store) fn partitions(&self) -> Option<&BTreeMap<String, Partition>> {
        self.partitions.as_ref()
    }

    pub(in crate::store) fn set_partitions(&mut self, partitions: BTreeMap<String, Partition>) {
        debug_assert!(self.files.is_empty(), "what is promised was counted in the database");
        self.partitions = Some(partitions);
    }

    pub(in crate::store) fn ledger(&self) -> Option<&Ledger> {
        self.ledger.as_ref()
    }

    pub(in crate::store) fn set_ledger(&mut self, ledger: Ledger) {
        debug_assert!(self.files.is_empty(), "what is held was read from the database");
        self.ledger = Some(ledger);
    }

    pub(in crate::store) fn census(&self) -> Option<&Counted> {
        self.census.as_ref()
    }

    pub(in crate::store) fn set_census(&mut self, found: Census) {
        debug_assert!(self.files.is_empty(), "files were counted in the database");
        self.census = Some(Counted { written: found, now: found });
    }

    /// Says when the call under way is made.
    pub(in crate::store) fn set_time(&mut self, now: Timestamp) {
        self.now = now;
    }

    /// When the call under way is made.
    pub(in crate::store) fn time(&self) -> Timestamp {
        self.now
    }

    /// Remembers for this group that nothing has a name, as the database says.
    pub(in crate::store) fn set_free(&mut self, parent: FileId, name: &str) {
        self.names.entry(parent).or_default().entry(name.into()).or_insert(Name::Free);
    }

    pub(in crate::store) fn note(&mut self, undo: Undo) {
        self.undo.push(undo);
    }

    pub(in crate::store) fn set_visible(&mut self) {
        self.is_visible = true;
    }

    /// Replaces a file that was `before`.
    pub(in crate::store) fn replace(
        &mut self,
        id: FileId,
        before: Option<Arc<Node>>,
        now: Option<Arc<Node>>,
    ) {
        let entry = self.files.get(&id).cloned();
        let stored = entry.as_ref().map_or_else(|| before.clone(), |entry| entry.stored.clone());
        self.is_visible |= !looks_the_same(before.as_deref(), now.as_deref());
        self.settle(before.as_deref(), now.as_deref());
        self.account(before.as_deref(), now.as_deref());
        self.files.insert(id, Changed { stored, now });
        self.undo.push(Undo::File { id, before, entry });
    }

    /// Keeps names, objects, counts and promised room right when a file changes.
    fn settle(&mut self, before: Option<&Node>, now: Option<&Node>) {
        let place = |node: &Node| (node.parent, node.name.clone());
        if before.map(place) != now.map(place) {
            for (node, name) in before
                .map(|node| (node, Name::Free))
                .into_iter()
                .chain(now.map(|node| (node, Name::Of(node.id))))
            {
                self.names.entry(node.parent).or_default().insert(node.name.as_str().into(), name);
            }
        }
        if let Some(counted) = &mut self.census {
            let counts = |node: Option<&Node>| node.map_or_else(Census::default, Census::of);
            counted.now = counted.now - counts(before) + counts(now);
        }
        for (node, is_now) in [(before, false), (now, true)] {
            for replica in node.into_iter().flat_map(|node| &node.replicas) {
                self.objects.insert(replica.object, replica.file);
                if let Some(partition) =
                    self.partitions.as_mut().and_then(|all| all.get_mut(&replica.partition))
                {
                    partition.hold(replica, is_now);
                }
            }
        }
    }

    /// Changes a partition, or adds it.
    pub(in crate::store) fn set_partition(&mut self, name: &str, partition: Partition) {
        let all = self.partitions.get_or_insert_default();
        let before = all.insert(name.to_owned(), partition);
        self.undo.push(Undo::Partition(name.to_owned(), before));
    }

    /// Keeps accounts right when a file changes.
    fn account(&mut self, before: Option<&Node>, now: Option<&Node>) {
        let Self { ledger: Some(ledger), undo, partitions, now: time, .. } = self else { return };
        let pool_of = |name: &str| {
            partitions.as_ref().and_then(|all| all.get(name)).map_or("", |partition| &*partition.pool)
        };
        ledger.settle((before, now), pool_of, *time, |entry| undo.push(Undo::Ledger(entry)));
    }

    /// Sets a quota, or lifts one.
    pub(in crate::store) fn set_quota(&mut self, kind: QuotaKind, name: &str, quota: Quota) {
        let entry = self.ledger.get_or_insert_default().set_quota(kind, name, quota);
        self.undo.push(Undo::Ledger(entry));
    }

    /// Writes to an account.
    pub(in crate::store) fn post(&mut self, payer: Payer<'_>, held: AccountUsage, charge: Charge) {
        let (ledger, undo) = (self.ledger.get_or_insert_default(), &mut self.undo);
        ledger.post(payer, (held, charge), self.now, |entry| undo.push(Undo::Ledger(entry)));
    }

    pub(in crate::store) fn add_removal(&mut self, removal: Removal) {
        self.leave(&removal, true);
        self.removals.push(removal);
        self.undo.push(Undo::Removal);
    }

    /// Keeps right what is to leave a partition.
    fn leave(&mut self, removal: &Removal, is_added: bool) {
        if let Some(partition) = self.partitions.as_mut().and_then(|all| all.get_mut(&removal.partition)) {
            partition.leaving = if is_added {
                partition.leaving.saturating_add(removal.size)
            } else {
                partition.leaving.saturating_sub(removal.size)
            };
        }
    }

    /// A call begins: what was changed before stays.
    pub(in crate::store) fn begin_call(&mut self) {
        self.undo.clear();
        self.was_visible = self.is_visible;
    }

    /// Undoes the call. Yields the sequences that go back.
    pub(in crate::store) fn undo_call(&mut self) -> Vec<(Sequence, Ids)> {
        self.is_visible = self.was_visible;
        let mut sequences = Vec::new();
        while let Some(undo) = self.undo.pop() {
            match undo {
                Undo::File { id, before, entry } => {
                    let now = self.files.get(&id).and_then(|changed| changed.now.clone());
                    self.settle(now.as_deref(), before.as_deref());
                    match entry {
                        Some(entry) => self.files.insert(id, entry),
                        None => self.files.remove(&id),
                    };
                }
                Undo::Written { id, stored } => {
                    if let Some(changed) = self.files.get_mut(&id) {
                        changed.stored = stored;
                    }
                }
                Undo::Partition(name, before) => {
                    let all = self.partitions.get_or_insert_default();
                    match before {
                        Some(before) => all.insert(name, before),
                        None => all.remove(&name),
                    };
                }
                Undo::Ledger(entry) => self.ledger.get_or_insert_default().undo(entry),
                Undo::Removal => {
                    if let Some(removal) = self.removals.pop() {
                        self.leave(&removal, false);
                    }
                }
                Undo::RemovalsWritten(removals) => self.removals = removals,
                Undo::CensusWritten(written) => {
                    if let Some(counted) = &mut self.census {
                        counted.written = written;
                    }
                }
                Undo::Ids(sequence, ids) => sequences.push((sequence, ids)),
            }
        }
        sequences
    }

    /// Takes what is to be written; from now on it counts as written.
    pub(in crate::store) fn take_batch(&mut self) -> Batch {
        let mut batch = Batch::default();
        for (id, changed) in &mut self.files {
            if changed.stored != changed.now {
                batch.files.push(changed.clone());
                let stored = std::mem::replace(&mut changed.stored, changed.now.clone());
                self.undo.push(Undo::Written { id: *id, stored });
            }
        }
        batch
            .files
            .sort_by_key(|changed| changed.now.as_ref().or(changed.stored.as_ref()).map(|node| node.id));
        for (name, partition) in self.partitions.iter_mut().flatten() {
            if partition.is_changed {
                self.undo.push(Undo::Partition(name.clone(), Some(partition.clone())));
                partition.is_changed = false;
                batch.partitions.push((name.clone(), partition.clone()));
            }
        }
        if let Some(ledger) = &mut self.ledger {
            batch.accounts = ledger.take_changed(|entry| self.undo.push(Undo::Ledger(entry)));
        }
        if let Some(counted) = self.census.as_mut().filter(|counted| counted.written != counted.now) {
            self.undo.push(Undo::CensusWritten(counted.written));
            counted.written = counted.now;
            batch.census = Some(counted.now);
        }
        if !self.removals.is_empty() {
            batch.removals = std::mem::take(&mut self.removals);
            self.undo.push(Undo::RemovalsWritten(batch.removals.clone()));
        }
        batch
    }

    /// The group is durable: yields the files that it changed, and whether anybody can see a change.
    pub(in crate::store) fn commit(
        &mut self,
    ) -> (impl Iterator<Item = (FileId, Option<Arc<Node>>)> + use<>, bool) {
        self.undo.clear();
        self.names.clear();
        self.objects.clear();
        let files = std::mem::take(&mut self.files);
        (files.into_iter().map(|(id, changed)| (id, changed.now)), std::mem::take(&mut self.is_visible))
    }

    /// Forgets everything, also what it knew of partitions.
    pub(in crate::store) fn forget(&mut self) {
        *self = Self { now: self.now, ..Self::default() };
    }
}

/// Whether stats, read grants and listings of a file are the same.
fn looks_the_same(before: Option<&Node>, now: Option<&Node>) -> bool {
    match (before, now) {
        (Some(before), Some(now)) => {
            before.has_row_of(now)
                && (before.is_archived, before.lacks_copies) == (now.is_archived, now.lacks_copies)
                && before
                    .online()
                    .map(|replica| (replica.object, &replica.partition))
                    .eq(now.online().map(|replica| (replica.object, &replica.partition)))
        }
        (None, None) => true,
        _ => false,
    }
}
