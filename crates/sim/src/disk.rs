//! The simulated disk server.

use crate::{World, world::PARTITION};
use base::{Checksums, FileId, ObjectId};
use std::collections::BTreeMap;
use wire::control::{NextRemovals, ObjectsRemoved, ReportSpace};

/// Bytes, as a size and the number that all of them are made from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Content {
    /// Bytes.
    pub size: u64,
    /// What they are.
    pub sums: Checksums,
}

impl Content {
    /// Content number `number`.
    pub fn numbered(size: u64, number: u64) -> Self {
        Self { size, sums: Checksums::of(format!("{size} {number}").as_bytes()) }
    }
}

/// An object.
#[derive(Debug, Clone, Copy)]
pub struct Object {
    pub(crate) file: FileId,
    pub(crate) content: Content,
    /// Whether a crash keeps it.
    pub(crate) is_durable: bool,
}

/// One partition.
pub struct DiskServer {
    /// Bytes in all.
    pub capacity: u64,
    /// What is there.
    pub objects: BTreeMap<ObjectId, Object>,
}

impl DiskServer {
    pub(crate) fn new(capacity: u64) -> Self {
        Self { capacity, objects: BTreeMap::new() }
    }

    pub(crate) fn free(&self) -> u64 {
        let used: u64 = self.objects.values().map(|object| object.content.size).sum();
        self.capacity.saturating_sub(used)
    }

    pub(crate) fn crash(&mut self) {
        self.objects.retain(|_, object| object.is_durable);
    }

    pub(crate) fn write(&mut self, id: ObjectId, file: FileId, content: Content) {
        let old = self.objects.insert(id, Object { file, content, is_durable: true });
        assert!(old.is_none(), "object {id} was written twice");
    }
}

impl World {
    /// Deletes what the head wants deleted and reports the room. With `crash_between`, dies before it reports.
    pub fn clean(&mut self, crash_between: bool) {
        let removals =
            self.room(NextRemovals { partition: PARTITION.into() }).expect("the disk server may ask");
        for object in &removals.objects {
            self.disk.objects.remove(object);
        }
        if crash_between {
            return self.crash();
        }
        let removed = ObjectsRemoved { partition: PARTITION.into(), objects: removals.objects };
        self.room(removed).expect("the disk server may report");
        let (total_bytes, free_bytes) = (self.disk.capacity, self.disk.free());
        let report = ReportSpace { partition: PARTITION.into(), total_bytes, free_bytes };
        self.room(report).expect("the disk server may report");
    }
}
