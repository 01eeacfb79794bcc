//! Number of files, updated with every change: counting ten million rows takes seconds.

use crate::store::{Node, Store, StoreResult};
use std::ops::{Add, Sub};
use wire::control::{FileCounts, NodeKind};

/// The counts, or by how much a change changes them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::store) struct Census {
    files: i64,
    directories: i64,
    bytes: i64,
    online: i64,
    nearline: i64,
    trash_files: i64,
    trash_bytes: i64,
}

impl Census {
    /// What one node adds.
    pub(in crate::store) fn of(node: &Node) -> Self {
        if node.is_in_trash() {
            let on_disk: u64 = node.online().map(|replica| replica.size).sum();
            let trash_bytes = i64::try_from(on_disk).unwrap_or(i64::MAX);
            return Self { trash_files: 1, trash_bytes, ..Self::default() };
        }
        if node.kind == NodeKind::Directory {
            return Self { directories: 1, ..Self::default() };
        }
        if !node.is_file() {
            return Self::default();
        }
        let is_online = node.is_online();
        Self {
            files: 1,
            bytes: i64::try_from(node.size).unwrap_or(i64::MAX),
            online: is_online.into(),
            nearline: (node.is_archived && !is_online).into(),
            ..Self::default()
        }
    }

    fn with(self, other: Self, combine: fn(i64, i64) -> i64) -> Self {
        Self {
            files: combine(self.files, other.files),
            directories: combine(self.directories, other.directories),
            bytes: combine(self.bytes, other.bytes),
            online: combine(self.online, other.online),
            nearline: combine(self.nearline, other.nearline),
            trash_files: combine(self.trash_files, other.trash_files),
            trash_bytes: combine(self.trash_bytes, other.trash_bytes),
        }
    }
}

// What is added is taken away again to the last bit, also where a size makes no sense.
impl Add for Census {
    type Output = Self;

    fn add(self, more: Self) -> Self {
        self.with(more, i64::wrapping_add)
    }
}

impl Sub for Census {
    type Output = Self;

    fn sub(self, less: Self) -> Self {
        self.with(less, i64::wrapping_sub)
    }
}

/// The counts as the database has them, and as they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store) struct Counted {
    pub(in crate::store) written: Census,
    pub(in crate::store) now: Census,
}

impl Store {
    /// Reads the counts, if that was not done.
    pub(in crate::store) fn load_census(&self) -> StoreResult<()> {
        if self.pending.borrow().census().is_some() {
            return Ok(());
        }
        const SQL: &str =
            "SELECT files, directories, bytes, online, nearline, trash_files, trash_bytes FROM census";
        let found = self.one_now(SQL, (), |row| {
            Ok(Census {
                files: row.get(0)?,
                directories: row.get(1)?,
                bytes: row.get(2)?,
                online: row.get(3)?,
                nearline: row.get(4)?,
                trash_files: row.get(5)?,
                trash_bytes: row.get(6)?,
            })
        })?;
        self.pending.borrow_mut().set_census(found);
        Ok(())
    }

    pub(in crate::store) fn write_census(&self, census: Census) -> StoreResult<()> {
        let Census { files, directories, bytes, online, nearline, trash_files, trash_bytes } = census;
        self.run(
            "UPDATE census SET files = ?1, directories = ?2, bytes = ?3, online = ?4, nearline = ?5,
             trash_files = ?6, trash_bytes = ?7",
            (files, directories, bytes, online, nearline, trash_files, trash_bytes),
        )
    }

    pub(crate) fn file_counts(&self) -> StoreResult<FileCounts> {
        self.load_census()?;
        let Census { files, directories, bytes, online, nearline, trash_files, trash_bytes } =
            self.pending.borrow().census().map(|counted| counted.now).unwrap_or_default();
        let count = |count: i64| u64::try_from(count).unwrap_or(0);
        Ok(FileCounts {
            files: count(files),
            directories: count(directories),
            bytes: count(bytes),
            online: count(online),
            nearline: count(nearline),
            trash_files: count(trash_files),
            trash_bytes: count(trash_bytes),
            out_of_reach: 0,
        })
    }
}
