//! Copies between disk servers: mirrors of a write, repair, and moves.

use crate::{
    control::{Coding, Pieces},
    media::object::Label,
};
use base::{Checksums, Failure, ObjectId};
use serde::{Deserialize, Serialize};

/// A disk server asks where the mirrors or pieces of a durable object go. A repeated call returns the same.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PlaceMirrors {
    /// The object.
    pub object: ObjectId,
    /// Its bytes.
    pub size: u64,
    /// Of the whole object.
    pub checksums: Checksums,
    /// Mirrors that could not be written; the head places others.
    pub failed: Vec<ObjectId>,
}

/// The locations of the mirrors of an object.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mirrors {
    /// The mirrors to fill before the commit; fewer than the pool wants if no more can be placed.
    pub mirrors: Vec<Mirror>,
    /// The layout of the pieces; none: they are copies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut: Option<Cut>,
}

/// How a file is cut into pieces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cut {
    /// Pieces.
    pub coding: Coding,
    /// Bytes of a full cell.
    pub cell_bytes: u32,
}

/// An object to be filled.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mirror {
    /// The object.
    pub object: ObjectId,
    /// The URL to write it to, with the capability.
    pub url: String,
    /// Which piece it is, where the object is cut into pieces.
    #[serde(default)]
    pub index: u8,
}

/// Returns the objects that a partition shall fetch from other disk servers.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct NextCopies {
    /// The partition.
    pub partition: String,
    /// The objects that it is fetching already.
    pub under_way: Vec<ObjectId>,
}

/// Objects to fetch.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopyOrders {
    /// None of them is under way. Each is reported by [`CopyEnded`].
    pub orders: Vec<CopyOrder>,
}

/// An object to fetch.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopyOrder {
    /// The new object.
    pub object: ObjectId,
    /// For its description.
    pub label: Label,
    /// Bytes.
    pub size: u64,
    /// What must arrive; `None` if it is made anew from pieces, each cell of which is checked.
    pub checksums: Option<Checksums>,
    /// The object that is copied.
    pub source: ObjectId,
    /// Where it is read, with the capability; empty if it is made anew.
    pub url: String,
    /// The other pieces of its file, from which it is made anew.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pieces: Option<Pieces>,
}

/// Reports the end of a copy: the object is durable, or was removed.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CopyEnded {
    /// The new object.
    pub object: ObjectId,
    /// The source of the copy.
    pub source: ObjectId,
    /// The failure, if it failed.
    pub failure: Option<Failure>,
    /// Of a piece that was made anew.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checksums: Option<Checksums>,
    /// Pieces that were found damaged during the copy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub damaged: Vec<ObjectId>,
}

/// Runs one step of the head's maintenance of pools: files with too few or too many replicas, damaged ones, moves.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct RunMaintenance {}

/// The answer to [`RunMaintenance`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MaintenanceDone {
    /// There is more to look at right now.
    pub is_more: bool,
}

impl core::fmt::Debug for Mirror {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Mirror").field("object", &self.object).finish_non_exhaustive()
    }
}

impl core::fmt::Debug for CopyOrder {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("CopyOrder")
            .field("object", &self.object)
            .field("path", &self.label.path)
            .finish_non_exhaustive()
    }
}
