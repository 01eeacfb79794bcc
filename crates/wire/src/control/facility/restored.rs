//! A catalogue that was restored to an older state: how disk servers notice, and how an operator accepts it.

use crate::media::object::Label;
use base::{Checksums, ObjectId, Timestamp};
use serde::{Deserialize, Serialize};

/// An object that lies on a partition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundObject {
    /// Its number.
    pub object: ObjectId,
    /// Bytes.
    pub size: u64,
    /// What its description says, if that can be read.
    pub described: Option<Described>,
}

/// The description of an object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Described {
    /// The file that it was written for.
    pub label: Label,
    /// Of all its bytes.
    pub checksums: Checksums,
    /// When it was written.
    pub written: Timestamp,
}

/// Accepts a restored catalogue as it is. From now on disk servers delete what the catalogue gives up. Objects that
/// were to be deleted before are kept as objects unknown to the catalogue.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SettleCatalogue {
    /// The number of unknown objects that the operator has seen.
    pub unknown: u64,
    /// Do not wait for disk servers that have not said what they have, nor for surveys of volumes.
    pub without_absent: bool,
}

/// Adds the objects that disk servers have, and a restored catalogue does not, to the catalogue as their descriptions
/// say.
///
/// Every disk server reports its objects again. The catalogue loses no file: newer content replaces older content, and
/// of two files with one name the other goes to [`LOST_AND_FOUND`].
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct RecoverCatalogue {}

/// Directory of files whose name belongs to another file.
pub const LOST_AND_FOUND: &str = "lost+found";

/// A restore that is not settled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestoredInfo {
    /// The number of the restore, from 1.
    pub epoch: u64,
    /// When it was done, or detected.
    pub noticed: Timestamp,
    /// When the backup was made, if it was restored from one.
    pub taken: Option<Timestamp>,
    /// The failure.
    pub reason: String,
    /// Whether objects found on disks are added to the catalogue.
    #[serde(default)]
    pub is_recovering: bool,
    /// The objects on partitions that the catalogue does not know.
    pub partitions: Vec<UnknownObjects>,
    /// Volumes that may hold files which the catalogue does not know, and were not surveyed to their ends.
    #[serde(default)]
    pub volumes: u64,
}

impl RestoredInfo {
    /// How many objects the catalogue does not know, as far as disk servers have said.
    #[must_use]
    pub fn unknown(&self) -> u64 {
        self.partitions.iter().map(|partition| partition.objects).sum()
    }

    /// How many objects were taken in.
    #[must_use]
    pub fn recovered(&self) -> u64 {
        self.partitions.iter().map(|partition| partition.recovered).sum()
    }

    /// Partitions whose disk servers have not said yet what they have.
    #[must_use]
    pub fn absent(&self) -> Vec<&str> {
        let absent = self.partitions.iter().filter(|partition| !partition.is_complete);
        absent.map(|partition| &*partition.partition).collect()
    }
}

/// Examples that are kept for each partition.
pub const UNKNOWN_SHOWN_MAX: usize = 100;

/// Objects on a partition that the catalogue does not know.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnknownObjects {
    /// The partition.
    pub partition: String,
    /// Whether its disk server has listed all objects.
    pub is_complete: bool,
    /// Their number.
    pub objects: u64,
    /// Bytes of all.
    pub bytes: u64,
    /// How many objects were taken into the catalogue.
    #[serde(default)]
    pub recovered: u64,
    /// Some of them, [`UNKNOWN_SHOWN_MAX`] at most.
    pub shown: Vec<FoundObject>,
}
