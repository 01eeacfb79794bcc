//! Leases on names and attributes, as this mount uses them: what the kernel is told, and what it is told to forget.
//!
//! The kernel may use names and attributes for what is left of the lease of the session. Before others change them the head asks
//! to forget. Attributes of a node are invalidated; that takes no lock that a request could hold. Names are not invalidated one by
//! one, since that takes the lock of their directory: a request may hold it that waits for this very acknowledgement on another
//! host. The *epoch* of the mount is raised instead. The kernel asks for each name once more then, and is answered from
//! [`crate::cache`].

use crate::{
    cache::{Asked, Name},
    head::now,
    kernel::answers::{Answer, Validity},
    mount::Mount,
};
use base::FileId;
use share::Session;
use std::{sync::atomic::Ordering, time::Duration};
use wire::control::Entry;

/// How long an answer takes from this process to the kernel's thread that waits for it.
const ON_ITS_WAY: Duration = Duration::from_millis(1);
/// A process that was stopped for longer between a look at the clock and its answer takes that back.
const PAUSE_MAX: i64 = 1000;

impl Mount {
    /// Something is going to be asked for.
    pub(crate) fn asked(&self) -> Asked {
        self.cache.asked(self.head.client(), now())
    }

    /// Attributes of a node that need not be asked for, and until when.
    pub(crate) fn cached(&self, file: FileId) -> Option<(Entry, i64)> {
        let client = self.head.client();
        self.cache.node(client, file, now()).filter(|_| self.head.is_lease_valid())
    }

    /// What is known of a name without asking.
    pub(crate) fn cached_name(&self, parent: FileId, name: &str) -> Name {
        if !self.head.is_lease_valid() {
            return Name::Unknown;
        }
        self.cache.name(self.head.client(), (parent, name), now())
    }

    /// All entries of a directory, if all are known.
    pub(crate) fn cached_listing(&self, directory: FileId) -> Option<Vec<Entry>> {
        let client = self.head.client();
        self.cache.listing(client, directory, now()).filter(|_| self.head.is_lease_valid())
    }

    /// Forgets what is cached of these nodes, here and in the kernel.
    pub(crate) fn forget(&self, files: &[FileId]) {
        self.cache.forget(files);
        self.forget_in_kernel(&files.iter().map(|file| self.node(*file)).collect::<Vec<_>>());
    }

    /// Forgets all that is cached of names and attributes.
    pub(crate) fn forget_all(&self) {
        self.cache.clear(self.head.client());
        self.forget_in_kernel(&self.in_kernel.all());
    }

    /// A change of names in a directory failed, perhaps after it was made: what the kernel believes may be wrong.
    pub(crate) fn doubt(&self, directory: FileId) {
        self.cache.doubt(directory);
        self.raise_epoch();
    }

    fn forget_in_kernel(&self, nodes: &[u64]) {
        if nodes.iter().any(|node| self.in_kernel.is_directory(*node)) {
            self.raise_epoch();
        }
        for node in nodes {
            self.invalidate(*node);
        }
    }

    fn raise_epoch(&self) {
        if self.has_epoch.load(Ordering::Relaxed) {
            self.device.raise_epoch();
        }
    }

    /// Has the kernel forget the attributes of a node, if it knows the node.
    pub(crate) fn invalidate(&self, node: u64) {
        let end = now() + Session::LEASE.0;
        while self.in_kernel.contains(node) && now() < end {
            // If not, the answer that tells of it is on its way: it was written, and not taken.
            if self.device.forget_attributes(node) || self.head.stop().wait(ON_ITS_WAY) {
                return;
            }
        }
    }

    /// Answers the kernel.
    pub(crate) fn deliver(&self, unique: u64, mut answer: Answer) {
        let (validities, sent) = (answer.take_validities(), now());
        for validity in validities.iter().filter(|it| it.is_given) {
            self.in_kernel.add(validity.node, validity.is_directory);
        }
        // After they count as known: what is forgotten from now on is invalidated.
        for validity in &validities {
            self.set_validity(&mut answer, validity, sent);
        }
        let is_taken = self.device.answer(unique, Ok(answer));
        for validity in validities.iter().filter(|it| it.is_given && !is_taken) {
            self.in_kernel.remove(validity.node, 1);
        }
        if !validities.is_empty() && now() - sent > PAUSE_MAX {
            self.raise_epoch();
            for validity in &validities {
                self.invalidate(validity.node);
            }
        }
    }

    /// Says in an answer how long it holds: as long as the lease, and not at all if it was forgotten meanwhile.
    fn set_validity(&self, answer: &mut Answer, validity: &Validity, now: i64) {
        let lease = self.head.lease_end();
        let left = |until: i64| Duration::from_millis((until.min(lease) - now).max(0).unsigned_abs());
        let is_current = self.cache.is_current(validity.asked, self.file_id(validity.node));
        let attributes = if is_current { left(validity.attributes_until) } else { Duration::ZERO };
        let has_epoch = self.has_epoch.load(Ordering::Relaxed);
        let name = if has_epoch { left(validity.name_until) } else { Duration::ZERO };
        answer.set_validity(validity, (name, attributes));
    }
}
