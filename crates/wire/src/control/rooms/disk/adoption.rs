//! Adoption, as a disk server carries it out.

use crate::control::{Amount, LeftAlone, NodeKind};
use base::{Checksums, Failure, FileId, FilePath, ObjectId, Timestamp};
use serde::{Deserialize, Serialize};

/// Most entries of one [`BeginAdopted`], and outcomes of one [`EndAdopted`].
pub const ADOPTED_LEN_MAX: usize = 256;

/// A disk server asks for an adoption. The counts of an interrupted pass start again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NextAdoption {
    /// The partition.
    pub partition: String,
    /// As in [`crate::control::RegisterPartition`].
    pub boot: u64,
}

/// The adoption to carry out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdoptionOrders {
    /// Nothing, if nothing.
    pub order: Option<AdoptionOrder>,
}

/// The adoption that a disk server shall carry out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdoptionOrder {
    /// Tells an adoption from the next one.
    pub adoption: u64,
    /// The directory on the host.
    pub directory: String,
    /// What it is called in the facility.
    pub path: FilePath,
    /// Remove the old names.
    pub is_moving: bool,
    /// Most bytes read in a second.
    pub bytes_per_s: u64,
}

/// A file or directory as it was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundEntry {
    /// What it is to be called.
    pub path: FilePath,
    /// File or directory.
    pub kind: NodeKind,
    /// User; `None`: the owner of the facility.
    pub owner: Option<String>,
    /// Group; `None`: that of the user's name.
    pub group: Option<String>,
    /// POSIX permission bits.
    pub mode: u32,
    /// Last change of content.
    pub modified: Timestamp,
}

/// A disk server asks for paths and objects of entries: the head makes directories and reserves an object for each file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BeginAdopted {
    /// The partition.
    pub partition: String,
    /// The number of the adoption.
    pub adoption: u64,
    /// At most [`ADOPTED_LEN_MAX`].
    pub entries: Vec<FoundEntry>,
}

/// The answer to [`BeginAdopted`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdoptionPlaces {
    /// One for each entry; none at all: the adoption was stopped.
    pub places: Vec<AdoptionPlace>,
}

/// The decision about an entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AdoptionPlace {
    /// It is a directory, in the facility too.
    Directory,
    /// It becomes this object.
    Make {
        /// The object.
        object: ObjectId,
        /// The file.
        file: FileId,
    },
    /// The name stands for this object of the partition: perhaps it was adopted before.
    Known {
        /// The object.
        object: ObjectId,
        /// Bytes.
        size: u64,
        /// Last change of content.
        modified: Timestamp,
    },
    /// It is skipped, for this reason.
    Refused(Failure),
}

/// The outcome of the adoption of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdoptedFile {
    /// The object.
    pub object: ObjectId,
    /// The durable object; `None`: the object was removed.
    pub content: Option<AdoptedContent>,
}

/// A file that is durable as an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdoptedContent {
    /// Bytes.
    pub size: u64,
    /// Of the whole object.
    pub checksums: Checksums,
    /// Last change of content.
    pub modified: Timestamp,
}

/// A disk server reports the outcome for files. A repeated report changes nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndAdopted {
    /// The partition.
    pub partition: String,
    /// The number of the adoption.
    pub adoption: u64,
    /// At most [`ADOPTED_LEN_MAX`].
    pub files: Vec<AdoptedFile>,
}

/// The answer to [`EndAdopted`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdoptedEnds {
    /// One for each file: why it was not taken, if it was not.
    pub refused: Vec<Option<Failure>>,
}

/// A disk server reports that an adopted object was changed through its old name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WithdrawAdopted {
    /// The partition.
    pub partition: String,
    /// The number of the adoption.
    pub adoption: u64,
    /// The object.
    pub object: ObjectId,
}

/// A disk server reports its progress.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportAdoption {
    /// The partition.
    pub partition: String,
    /// The number of the adoption.
    pub adoption: u64,
    /// The total, once it was counted.
    pub total: Option<Amount>,
    /// The files checked since the order was given.
    pub seen: Amount,
    /// Of these, files whose owner is no user of the host.
    pub unowned: u64,
    /// Files skipped since the last report; at most [`LEFT_ALONE_PAGE`](crate::control::LEFT_ALONE_PAGE).
    pub left: Vec<LeftAlone>,
    /// The work is complete.
    pub is_done: bool,
    /// The failure that interrupts it.
    pub trouble: Option<Failure>,
    /// The failure is final.
    pub is_refused: bool,
}

/// Whether the disk server shall continue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdoptionGoesOn {
    /// It is.
    pub goes_on: bool,
}
