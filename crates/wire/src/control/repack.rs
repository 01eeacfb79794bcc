//! Repacks: volumes whose files are copied to others; and verification: files on tape that are compared with the catalogue.

use crate::control::FileState;
use base::{FilePath, Timestamp, Vid};
use serde::{Deserialize, Serialize};

/// Copies all files of a volume to others, when drives have nothing else to do. The volume is read-only from now on.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RepackVolume {
    /// The volume.
    pub vid: Vid,
    /// Write the volume from its beginning when it is empty.
    #[serde(default)]
    pub reclaims: bool,
}

/// Ends a repack, or forgets one that is finished. Files that were copied stay where they are.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StopRepack {
    /// The volume.
    pub vid: Vid,
}

/// Asks how far repacks are.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GetRepacks {}

/// Has a volume without files written from its beginning. Its label stays.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReclaimVolume {
    /// The volume.
    pub vid: Vid,
}

/// Most failures of a repack that are told.
pub const REPACK_FAILURES_MAX: usize = 100;

/// A file that could not be copied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RepackFailure {
    /// The file.
    pub path: FilePath,
    /// Why.
    pub reason: String,
}

/// How far a repack is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RepackInfo {
    /// The volume.
    pub vid: Vid,
    /// Who has ordered it.
    pub owner: String,
    /// Whether the volume is written from its beginning afterwards.
    pub reclaims: bool,
    /// Since when.
    pub started: Timestamp,
    /// When the volume had no file any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished: Option<Timestamp>,
    /// Files that are still on the volume.
    pub files_left: u64,
    /// Bytes of these.
    pub bytes_left: u64,
    /// Files that have a copy elsewhere now.
    pub files_moved: u64,
    /// Bytes of these.
    pub bytes_moved: u64,
    /// Files for which there is a request.
    pub files_under_way: u64,
    /// Files that could not be copied; `bp admin request retry` tries them again.
    pub files_failed: u64,
    /// Some of these, [`REPACK_FAILURES_MAX`] at most.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<RepackFailure>,
}

/// The answer to [`GetRepacks`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repacks {
    /// Oldest first.
    pub repacks: Vec<RepackInfo>,
}

/// Has all files of a volume read and compared with the catalogue, when a drive has nothing else to do.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VerifyVolume {
    /// The volume.
    pub vid: Vid,
}

/// Asks which copies on tape are damaged.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GetDamagedCopies {}

/// Most damaged copies that are told.
pub const DAMAGED_COPIES_MAX: usize = 1000;

/// A copy on tape that is damaged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DamagedCopy {
    /// The file.
    pub path: FilePath,
    /// Its state: whether it can still be read elsewhere.
    pub state: FileState,
    /// Whether the damaged copy is the only one that is left on tape.
    pub is_last: bool,
    /// The volume.
    pub vid: Vid,
    /// Sequence number on the volume.
    pub fseq: u32,
    /// Bytes.
    pub size: u64,
    /// When it was found.
    pub found: Timestamp,
    /// What is wrong with it.
    pub reason: String,
}

/// The answer to [`GetDamagedCopies`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DamagedCopies {
    /// By volume, in the order of the tape; [`DAMAGED_COPIES_MAX`] at most.
    pub copies: Vec<DamagedCopy>,
}
