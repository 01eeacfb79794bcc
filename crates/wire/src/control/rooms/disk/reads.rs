//! Reads: where replicas and pieces are, with which right they are read, and what readers tell.

use crate::{
    control::{Coding, DiskServer},
    media::object::Piece,
};
use base::{Checksums, FileId, FilePath, ObjectId, Timestamp};
use serde::{Deserialize, Serialize};

/// Opens a file for reading; queues a recall if it is nearline.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct OpenRead {
    /// The file.
    pub path: FilePath,
}

/// How reading can go on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReadGrant {
    /// Read this object.
    Online(ReadObject),
    /// A recall is under way; [`crate::control::Stat`] says what it waits for.
    Recalling {
        /// The file.
        file: FileId,
    },
}

/// An object that may be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadObject {
    /// The file.
    pub file: FileId,
    /// Its object.
    pub object: ObjectId,
    /// Where the object lies.
    pub partition: String,
    /// Bytes.
    pub size: u64,
    /// Last change of content.
    pub modified: Timestamp,
    /// When it changed where it came from, if whoever stored it said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_modified: Option<Timestamp>,
    /// Of the whole object.
    pub checksums: Checksums,
    /// POSIX permission bits of the file.
    pub mode: u32,
    /// The disk server that has it, if that is another process than the head's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<DiskServer>,
    /// When the host of that server joined: its key follows from that.
    #[serde(default)]
    pub joined: Timestamp,
    /// Generation of the rights to read that are given for it: see [`SpaceReported::fence`](crate::control::SpaceReported::fence).
    #[serde(default)]
    pub fence: u64,
    /// The object is a piece of the file; size and sums are those of all of it. Its disk server gathers the others.
    #[serde(default)]
    pub is_piece: bool,
}

impl ReadObject {
    /// When the content changed, for those who compare it with its source.
    #[must_use]
    pub fn content_modified(&self) -> Timestamp {
        self.source_modified.unwrap_or(self.modified)
    }
}

/// The locations of the pieces of a coded file, with capabilities to read them.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pieces {
    /// The file.
    pub file: FileId,
    /// Which content of it the pieces have.
    pub generation: u64,
    /// Bytes of the file.
    pub size: u64,
    /// Of the whole file.
    pub checksums: Checksums,
    /// When it was written.
    pub modified: Timestamp,
    /// How many pieces a whole file has.
    pub coding: Coding,
    /// Bytes of a full cell.
    pub cell_bytes: u32,
    /// Those that there are, the best first: what is read last is silent. There may be two of one index, and none of another.
    pub places: Vec<PiecePlace>,
}

/// The location of a piece.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PiecePlace {
    /// The number of the piece.
    pub index: u8,
    /// Its object.
    pub object: ObjectId,
    /// Where that lies.
    pub partition: String,
    /// The URL to read it from, with the capability.
    pub url: String,
}

impl Pieces {
    /// What a piece says of itself.
    #[must_use]
    pub fn piece(&self, index: u8) -> Piece {
        let Self { coding, cell_bytes, size: file_bytes, checksums: file_checksums, .. } = *self;
        Piece { coding, cell_bytes, index, file_bytes, file_checksums }
    }
}

impl core::fmt::Debug for Pieces {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Pieces")
            .field("file", &self.file)
            .field("places", &self.places)
            .finish_non_exhaustive()
    }
}

impl core::fmt::Debug for PiecePlace {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Self { index, object, partition, .. } = self;
        f.debug_tuple("PiecePlace").field(index).field(object).field(partition).finish()
    }
}

/// Returns the locations of the pieces of a file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct GetPieces {
    /// The file.
    pub file: FileId,
    /// The capability of the reader, for the disk server that asks. The head's own process needs none.
    #[serde(default)]
    pub capability: Option<String>,
}

/// Reports that pieces or replicas of a file are damaged: the head has them replaced if the others
/// suffice. A disk server speaks of its own replicas, and of all pieces of files that are read through it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ReportDamage {
    /// The file.
    pub file: FileId,
    /// The damaged objects.
    pub objects: Vec<ObjectId>,
}

/// Reports that an object is missing: readers are not sent to it until the disk server lists it again.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ReportMissing {
    /// The partition, which is in its place otherwise.
    pub partition: String,
    /// The object.
    pub object: ObjectId,
}

/// Bytes that a user moved through a door: a line of [`ReportUse`].
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ReportTraffic {
    /// The user who moved them.
    pub owner: String,
    /// Bytes read from the facility; what is written is charged when it is committed.
    pub out_bytes: u64,
    /// The number of opens.
    #[serde(default)]
    pub out_transfers: u64,
    /// What was read; `None`: many things.
    #[serde(default)]
    pub object: Option<ObjectId>,
}

/// Most lines of one [`ReportUse`], and most objects: the daemon sends what one second brought.
pub const REPORT_USE_LEN_MAX: usize = 65_536;

/// Reports the traffic of many users at once, and the objects that were opened without asking the head.
///
/// It costs one commit, whatever its length. Longer reports than [`REPORT_USE_LEN_MAX`] are refused: send several.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct ReportUse {
    /// One line for each user; several for one are added up.
    #[serde(default)]
    pub traffic: Vec<ReportTraffic>,
    /// Objects that were opened from a kept grant: their replicas are in use and evicted last.
    #[serde(default)]
    pub opened: Vec<ObjectId>,
}

/// A client could not reach these disk servers, to which it was sent a moment ago: for a while others are sent elsewhere if there is
/// an elsewhere, and what it was to write there and comes back for is given up if that has not begun.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct AvoidServers {
    /// Names or addresses of hosts, as they stood in the redirection; [`AVOIDED_LEN_MAX`] at most.
    pub hosts: Vec<String>,
    /// What the client wants to open now.
    pub path: FilePath,
    /// Whether it is to write it.
    pub is_write: bool,
}

/// The answer to [`AvoidServers`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Avoided {
    /// The disk servers at these hosts: the door asks each whether it is there.
    pub servers: Vec<String>,
}

/// Key by which a client says, in the opaque part of a path or in a query, to which hosts it was sent in vain: with commas between
/// them. Clients of the field do the same by `root://`.
pub const TRIED: &str = "tried";

/// Most hosts in one [`AvoidServers`].
pub const AVOIDED_LEN_MAX: usize = 16;
