//! Names, directories and the locations of files.

mod kind;
mod tape;

use crate::control::{Coding, CopyRoute, LayoutRule, LiveLayout};
use base::{Checksums, FileId, FilePath, Millis, NanoTime, Timestamp, Vid};
pub use kind::{NodeKind, TYPE_BITS};
use serde::{Deserialize, Serialize};
pub use tape::{
    Archive, Await, AwaitAny, CancelRequests, Evict, ExplainStage, PathOutcome, PathOutcomes, Release, Stage,
    Want,
};

/// The state of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileState {
    /// Being written for the first time: nothing is acknowledged yet.
    Writing,
    /// It changes in place, through a mount: it has no checksums until it is sealed.
    Live,
    /// Disk replica only.
    Online,
    /// Tape copy only.
    Nearline,
    /// Disk replica and tape copy.
    Both,
    /// On disk servers only that do not answer now, or were turned away, and on no tape.
    OutOfReach,
    /// Neither: its last replica and copy are gone.
    Lost,
}

impl FileState {
    /// Whether it can be read from disk.
    #[must_use]
    pub fn is_online(self) -> bool {
        matches!(self, Self::Live | Self::Online | Self::Both)
    }

    /// Whether it has a tape copy.
    #[must_use]
    pub fn is_archived(self) -> bool {
        matches!(self, Self::Nearline | Self::Both)
    }

    /// The word people read.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Writing => "writing",
            Self::Live => "live",
            Self::Online => "online",
            Self::Nearline => "nearline",
            Self::Both => "both",
            Self::OutOfReach => "out of reach",
            Self::Lost => "lost",
        }
    }
}

/// A name with its metadata.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Id of the node.
    pub id: FileId,
    /// Last component of the path.
    pub name: String,
    /// File or directory.
    pub kind: NodeKind,
    /// Its owner.
    pub owner: String,
    /// Its group.
    pub group: String,
    /// POSIX permission bits.
    pub mode: u32,
    /// Bytes; 0 for directories.
    pub size: u64,
    /// Last change of content.
    pub modified: Timestamp,
    /// When the content changed where it came from, if whoever stored it said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_modified: Option<Timestamp>,
    /// Of the whole content; none for directories and first writes in progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checksums: Option<Checksums>,
    /// The state; none for directories.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<FileState>,
    /// What only mounts show.
    #[serde(default, skip_serializing_if = "PosixFields::is_default")]
    pub posix: PosixFields,
}

/// What POSIX has of a node beside what doors show: the number of its names, and more times.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PosixFields {
    /// Links beside the first: hard links of a file; of a directory those in it, of which each leads back to it.
    pub further_links: u32,
    /// When it was accessed, as far as that was ever set; `None`: as the time of its content.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accessed: Option<NanoTime>,
    /// When anything of it was changed last; `None`: as the time of its content.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changed: Option<NanoTime>,
    /// Nanoseconds that belong to [`Entry::content_modified`].
    pub modified_nanos: u32,
    /// It was removed, and is there for those who have it open.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_removed: bool,
}

impl PosixFields {
    /// Whether there is nothing to tell.
    #[must_use]
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl Entry {
    /// When the content changed, to the nanosecond.
    #[must_use]
    pub fn modified_nanos(&self) -> NanoTime {
        NanoTime::of_parts(self.content_modified(), self.posix.modified_nanos)
    }

    /// When the content changed, for those who compare it with its source.
    #[must_use]
    pub fn content_modified(&self) -> Timestamp {
        self.source_modified.unwrap_or(self.modified)
    }
}

/// The location of one tape copy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopyInfo {
    /// Volume.
    pub vid: Vid,
    /// File sequence number on the volume, from 1.
    pub fseq: u32,
    /// Logical block of its first header label.
    pub block: u64,
}

/// The description of one path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileInfo {
    /// The path that was asked for.
    pub path: FilePath,
    /// Its metadata.
    #[serde(flatten)]
    pub entry: Entry,
    /// Partitions that hold a replica, as `pool/partition`.
    pub replicas: Vec<String>,
    /// How the file is coded, if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coding: Option<Coding>,
    /// Its pieces that can be read, by index.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pieces: Vec<PieceInfo>,
    /// Tape copies.
    pub copies: Vec<CopyInfo>,
    /// Where tape copies that its storage class wants are still to go.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing_copies: Vec<CopyRoute>,
    /// Who pins it: `job 7`, `user alice`; or who reserved room for it.
    pub pins: Vec<String>,
    /// The state of its tape requests, and why they wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits: Option<String>,
    /// The project to which it is counted; empty: none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub project: String,
    /// Hosts with replicas or pieces of it that cannot be read now.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub away: Vec<AwayHost>,
    /// Of a file that is changed in place: where its bytes lie now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub live: Option<LiveLayout>,
    /// The rule for files that are changed in place, if it was set on this very file or directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layout: Option<LayoutRule>,
}

/// The reason for which a partition cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AwayReason {
    /// Its host was not heard lately, or does not answer.
    Silent,
    /// The daemon of its host has said goodbye.
    Stopped,
    /// Its file system is not mounted.
    NotMounted,
    /// Its host was removed.
    Removed,
}

impl AwayReason {
    /// The words for it, as in "host d1 is ...".
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Silent => "silent",
            Self::Stopped => "stopped",
            Self::NotMounted => "disk not mounted",
            Self::Removed => "removed",
        }
    }
}

/// A host from which a file cannot be read now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AwayHost {
    /// The host.
    pub host: String,
    /// Why.
    pub reason: AwayReason,
    /// When it was heard last, said goodbye or was removed.
    pub since: Timestamp,
}

/// The location of one piece of a coded file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PieceInfo {
    /// The number of the piece.
    pub index: u8,
    /// The partition, as `pool/partition`.
    pub place: String,
}

/// Describes one path.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Stat {
    /// File or directory.
    pub path: FilePath,
}

/// Describes one path briefly, without replicas and copies. The most frequent call of doors.
///
/// A file for which space is reserved does not exist for them until a client writes it; [`Stat`] shows it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct GetEntry {
    /// File or directory.
    pub path: FilePath,
}

/// Lists a directory in name order, a page at a time.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct List {
    /// The directory.
    pub path: FilePath,
    /// Names after this one; empty for the first page.
    #[serde(default)]
    pub after: String,
}

/// A page of a directory.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Listing {
    /// Entries in name order, at most [`base::limits::LIST_ENTRIES_MAX`].
    pub entries: Vec<Entry>,
    /// Whether there may be more after the last one.
    pub is_partial: bool,
}

/// Makes a directory.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Mkdir {
    /// The new directory.
    pub path: FilePath,
    /// POSIX permission bits; 493, which is 0755, if they are left out.
    #[serde(default = "directory_mode")]
    pub mode: u32,
    /// Make missing parents, and accept a directory that exists.
    #[serde(default)]
    pub parents: bool,
}

fn directory_mode() -> u32 {
    0o755
}

/// Removes a file; with its replicas and copies it is kept in the trash for a while.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Remove {
    /// The file.
    pub path: FilePath,
}

/// The removed files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Removed {
    /// Bytes.
    #[serde(default)]
    pub bytes: u64,
    /// How long it can be restored; none: it is gone for good.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restorable_for: Option<Millis>,
}

/// Removes an empty directory.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RemoveDirectory {
    /// The directory.
    pub path: FilePath,
}

/// Removes a file, or an empty directory: whatever has the name.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RemoveEntry {
    /// The file or directory.
    pub path: FilePath,
}

/// Renames a file or directory; a file that has the new name is replaced.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Rename {
    /// Old path.
    pub from: FilePath,
    /// New path.
    pub to: FilePath,
    /// Fail if the new name exists.
    #[serde(default)]
    pub is_new: bool,
    /// Make missing directories above the new name.
    #[serde(default)]
    pub parents: bool,
}

/// Sets the permission bits.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SetMode {
    /// File or directory.
    pub path: FilePath,
    /// POSIX permission bits.
    pub mode: u32,
}

/// Sets when the content of a file changed where it came from, as writers can say when they store it; or the time of a directory.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SetTime {
    /// File or directory.
    pub path: FilePath,
    /// The time.
    pub modified: Timestamp,
}

/// Changes the owner or the group of a file or directory.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SetOwner {
    /// File or directory.
    pub path: FilePath,
    /// The new owner; none: unchanged. Only operators may change it.
    #[serde(default)]
    pub owner: Option<String>,
    /// The new group; none: unchanged. The owner of the file may choose one of their own groups.
    #[serde(default)]
    pub group: Option<String>,
}
