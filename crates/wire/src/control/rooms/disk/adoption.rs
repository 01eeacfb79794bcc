//! Adoption, as a disk server carries it out.

use crate::control::{Amount, LeftAlone, NodeKind};
use base::{Checksums, Failure, FileId, FilePath, ObjectId, Timestamp};
use serde::{Deserialize, Serialize};

/// Most entries of one [`BeginAdopted`], and outcomes of one [`EndAdopted`].
pub const ADOPTED_LEN_MAX: usize = 256;

/// A disk server asks what to adopt. What was counted of a pass that was interrupted is forgotten.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NextAdoption {
    /// The partition.
    pub partition: String,
    /// As in [`crate::control::RegisterPartition`].
    pub boot: u64,
}

/// What there is to adopt.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdoptionOrders {
    /// Nothing, if nothing.
    pub order: Option<AdoptionOrder>,
}

/// What a disk server is to adopt.
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

/// A disk server asks where entries may be adopted: directories are made, for files an object is set aside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BeginAdopted {
    /// The partition.
    pub partition: String,
    /// Which adoption.
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

/// What may be done with an entry.
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
    /// It is left alone; why.
    Refused(Failure),
}

/// What became of a file that was to be adopted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdoptedFile {
    /// The object.
    pub object: ObjectId,
    /// What is durable; `None`: nothing is left of it.
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

/// A disk server says what became of files. Saying it again is fine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndAdopted {
    /// The partition.
    pub partition: String,
    /// Which adoption.
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

/// A disk server says that an object is not what was adopted any more: somebody has written to it by its old name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WithdrawAdopted {
    /// The partition.
    pub partition: String,
    /// Which adoption.
    pub adoption: u64,
    /// The object.
    pub object: ObjectId,
}

/// A disk server says how far it has come.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportAdoption {
    /// The partition.
    pub partition: String,
    /// Which adoption.
    pub adoption: u64,
    /// What there is, once it was counted.
    pub total: Option<Amount>,
    /// What was looked at since the order was given.
    pub seen: Amount,
    /// Of these, files whose owner is no user of the host.
    pub unowned: u64,
    /// What was left alone since the last report; at most [`LEFT_ALONE_PAGE`](crate::control::LEFT_ALONE_PAGE).
    pub left: Vec<LeftAlone>,
    /// All is done.
    pub is_done: bool,
    /// What is in the way.
    pub trouble: Option<Failure>,
    /// That is final.
    pub is_refused: bool,
}

/// Whether the disk server is to go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdoptionGoesOn {
    /// It is.
    pub goes_on: bool,
}
