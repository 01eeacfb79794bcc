//! The simulated disk server.

use crate::{World, world::PARTITION};
use base::{Checksums, FileId, ObjectId};
use std::collections::BTreeMap;
use wire::control::{DiskServer as Address, NextRemovals, ObjectsRemoved, RegisterPartition, ReportSpace};

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

/// Where the disk server would be.
pub(crate) fn address() -> Address {
    Address { name: "sim".into(), root: "sim:1094".into(), https: "sim:8443".into() }
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
        self.room(self.report()).expect("the disk server may report");
    }

    /// What the disk server says now and then.
    pub fn report(&self) -> ReportSpace {
        ReportSpace {
            partition: PARTITION.into(),
            boot: self.boot(),
            // Users begin and end their writes in one step here.
            writing: Vec::new(),
            written: Vec::new(),
            claimed: Vec::new(),
            total_bytes: self.disk.capacity,
            free_bytes: self.disk.free(),
            readers: 0,
            trouble: None,
        }
    }

    /// What the disk server says when it starts.
    pub fn registration(&self) -> RegisterPartition {
        RegisterPartition {
            server: address(),
            boot: self.boot(),
            pool: "main".into(),
            partition: PARTITION.into(),
            total_bytes: self.disk.capacity,
            free_bytes: self.disk.free(),
        }
    }

    /// Which start of the disk server this is.
    pub fn boot(&self) -> u64 {
        u64::from(self.starts())
    }
}
