//! What disk servers and doors tell the head while bytes move.

use super::{CatalogueMark, Coding};
use crate::media::object::{Holder, Label, Piece};
use base::{Checksums, FileId, FilePath, ObjectId, Timestamp};
use serde::{Deserialize, Serialize};

/// A disk server and where clients reach it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskServer {
    /// Name of its host, unique in the facility.
    pub name: String,
    /// Its XRootD door, `host:port`.
    pub root: String,
    /// Its HTTP door with TLS, `host:port`.
    pub https: String,
}

/// A disk server announces a partition, when it starts and when the head does not know it.
///
/// Every write on it that began in an earlier boot of the disk server is over: its object is abandoned.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RegisterPartition {
    /// Who serves it.
    pub server: DiskServer,
    /// A number that the disk server draws when it starts.
    pub boot: u64,
    /// Pool it belongs to.
    pub pool: String,
    /// Its name, unique in the facility.
    pub partition: String,
    /// Bytes of the file system, or of the configured share of it.
    pub total_bytes: u64,
    /// Bytes that can still be written.
    pub free_bytes: u64,
}

/// A disk server says how much room is left, and what it is about.
///
/// [`NotFound`](base::ErrorKind::NotFound): the head does not know it; it must register.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ReportSpace {
    /// The partition.
    pub partition: String,
    /// As in [`RegisterPartition`].
    pub boot: u64,
    /// Objects that users are writing. A reservation that stays away from this list is given up.
    pub writing: Vec<ObjectId>,
    /// Bytes that each of them has so far; empty from a host of an older release.
    #[serde(default)]
    pub written: Vec<u64>,
    /// Objects that are being made, for users or from other copies, and the bytes that each has taken of the free space; empty
    /// from a host of an older release.
    #[serde(default)]
    pub claimed: Vec<(ObjectId, u64)>,
    /// Bytes of the file system, or of the configured share of it.
    pub total_bytes: u64,
    /// Bytes that can still be written.
    pub free_bytes: u64,
    /// Files that are open for reading on its host, by whomever.
    #[serde(default)]
    pub readers: u32,
    /// What is wrong with it.
    #[serde(default)]
    pub trouble: Option<PartitionTrouble>,
}

/// What can be wrong with a partition while its disk server runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PartitionTrouble {
    /// Its file system is not where it was: not mounted, most likely. What lies on it is not lost.
    Gone,
    /// Its file system is read-only: what is there is read, nothing is written or deleted.
    ReadOnly,
}

impl PartitionTrouble {
    /// For people.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Gone => "not mounted",
            Self::ReadOnly => "read-only",
        }
    }
}

/// The answer to [`ReportSpace`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpaceReported {
    /// Rights of users to read that have a lower generation were given before somebody lost a right: they are refused.
    #[serde(default)]
    pub fence: u64,
    /// What time it is at the head: rights end by its clock.
    pub now: Timestamp,
    /// Its pool wants objects written and read without the page cache.
    #[serde(default)]
    pub is_direct: bool,
    /// The pool to which it belongs: a catalogue that is made anew asks the partition.
    #[serde(default)]
    pub pool: String,
    /// Objects that make no progress: room that was taken for them in advance and is not used is given back. Their writes may go on.
    #[serde(default)]
    pub released: Vec<ObjectId>,
}

/// Asks how much room there is for new files, all partitions together.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct GetSpace {}

/// Room for new files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Space {
    /// Bytes of all partitions.
    pub total_bytes: u64,
    /// Bytes that are neither used nor promised.
    pub free_bytes: u64,
    /// Free bytes of the partition that has most of them: the longest file that fits.
    pub largest_free_bytes: u64,
}

/// Asks which objects of a partition are to be deleted.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct NextRemovals {
    /// The partition.
    pub partition: String,
}

/// Objects that nothing refers to any more.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Removals {
    /// To delete, then to report by [`ObjectsRemoved`].
    pub objects: Vec<ObjectId>,
    /// The state of the catalogue that says so: only if it is not older than what the disk server saw, they are deleted.
    #[serde(default)]
    pub mark: CatalogueMark,
}

/// Says that objects are gone from a partition.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ObjectsRemoved {
    /// The partition.
    pub partition: String,
    /// The objects.
    pub objects: Vec<ObjectId>,
}

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
    /// A recall is under way; [`super::Stat`] says what it waits for.
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
    /// Who has it, if that is another process than the head's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<DiskServer>,
    /// When the host of that server joined: its key follows from that.
    #[serde(default)]
    pub joined: Timestamp,
    /// Generation of the rights to read that are given for it: see [`SpaceReported::fence`].
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

/// Where the pieces of a coded file are, with the rights to read them.
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

/// Where a piece is.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PiecePlace {
    /// Which piece.
    pub index: u8,
    /// Its object.
    pub object: ObjectId,
    /// Where that lies.
    pub partition: String,
    /// Where it is read, with the capability.
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

/// Asks where the pieces of a file are that somebody may read.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct GetPieces {
    /// The file.
    pub file: FileId,
    /// What the reader has shown: a capability of the disk server that asks. The head's own process needs none.
    #[serde(default)]
    pub capability: Option<String>,
}

/// Says that pieces or replicas of a file are damaged, as whoever read them found: they are made anew if the others
/// suffice. A disk server speaks of its own replicas, and of all pieces of files that are read through it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ReportDamage {
    /// The file.
    pub file: FileId,
    /// Those that are damaged.
    pub objects: Vec<ObjectId>,
}

/// Says that an object is not where a reader was sent for it: nobody else is sent there until a roll call finds it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ReportMissing {
    /// The partition, which is in its place otherwise.
    pub partition: String,
    /// The object.
    pub object: ObjectId,
}

/// What an existing name means to an open for writing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Disposition {
    /// The name must be free.
    CreateNew,
    /// An existing file is replaced when the write commits.
    Replace,
    /// An existing file is changed: the new object begins as a copy of the old one.
    Update,
}

/// Opens a file for writing. The old content, if any, stays readable until the commit.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct OpenWrite {
    /// The file.
    pub path: FilePath,
    /// POSIX permission bits of a new file.
    pub mode: u32,
    /// What an existing name means.
    pub disposition: Disposition,
    /// Make missing directories.
    pub parents: bool,
    /// Expected size in bytes, 0 if unknown: the partition is chosen so that it fits.
    pub expected_bytes: u64,
    /// When the content changed where it comes from, for listings: what decides between contents is when it came here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_modified: Option<Timestamp>,
}

/// A reserved object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WriteGrant {
    /// The file.
    pub file: FileId,
    /// How it is called: what a client says its name is proves nothing to a disk server.
    pub path: FilePath,
    /// Whose it is.
    pub holder: Holder,
    /// The new object. Its number is the generation of what is written.
    pub object: ObjectId,
    /// Where to make it.
    pub partition: String,
    /// Room to set aside, 0 if nobody knows.
    pub expected_bytes: u64,
    /// For [`Disposition::Update`]: the object to begin with, on the same partition; or a piece of the file to begin with.
    pub base: Option<ReadObject>,
    /// The pieces of the file to begin with, for whoever makes the object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_pieces: Option<Pieces>,
    /// Who is to make it, if that is another process than the head's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<DiskServer>,
    /// When the host of that server joined: its key follows from that.
    #[serde(default)]
    pub joined: Timestamp,
    /// Before the commit its mirrors or pieces are placed and filled; see [`super::PlaceMirrors`].
    #[serde(default)]
    pub is_mirrored: bool,
}

impl WriteGrant {
    /// What stands beside the object.
    #[must_use]
    pub fn label(&self) -> Label {
        let Self { file, object, ref path, ref holder, .. } = *self;
        Label { file, path: path.clone(), generation: object.0, holder: holder.clone(), piece: None }
    }
}

/// A disk server has been shown a capability for writing: asks what to begin with.
///
/// A reservation that nobody begins is given up when its capability has expired.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct BeginWrite {
    /// The object.
    pub object: ObjectId,
    /// Whether it begins with the content that the file has.
    pub is_update: bool,
}

/// Asks for free space, so that an object that is being made can have `bytes` in all.
///
/// What may go is evicted. The reply means that the space is there or on its way: the disk server waits for it, and asks again.
/// [`NoSpace`](base::ErrorKind::NoSpace) is final: too little may go.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct FreeSpace {
    /// The object.
    pub object: ObjectId,
    /// Bytes that it is to have.
    pub bytes: u64,
}

/// Makes a written object the content of its file. The object is durable on disk before this is called.
///
/// Saying it again is fine: the reply to the first time may have been lost.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CommitWrite {
    /// The object.
    pub object: ObjectId,
    /// Its bytes.
    pub size: u64,
    /// Of the whole object.
    pub checksums: Checksums,
    /// Mirrors of it that are durable too; see [`super::PlaceMirrors`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mirrors: Vec<ObjectId>,
    /// Pieces of it that are durable, all of them: the object itself is not needed any more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pieces: Vec<FilledPiece>,
}

/// A piece that was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilledPiece {
    /// Its object.
    pub object: ObjectId,
    /// Of the piece.
    pub checksums: Checksums,
}

/// Gives a reserved object up.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct AbandonWrite {
    /// The object.
    pub object: ObjectId,
}

/// Bytes that a user moved through a door: a line of [`ReportUse`].
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ReportTraffic {
    /// Who moved them.
    pub owner: String,
    /// Bytes read from the facility; what is written is charged when it is committed.
    pub out_bytes: u64,
    /// How often it was opened for that.
    #[serde(default)]
    pub out_transfers: u64,
    /// What was read; `None`: many things.
    #[serde(default)]
    pub object: Option<ObjectId>,
}

/// Most lines of one [`ReportUse`], and most objects: the daemon sends what one second brought.
pub const REPORT_USE_LEN_MAX: usize = 65_536;

/// Counts the bytes of many users at once, and notes which objects were opened without asking the head.
///
/// It costs one commit however much it says. Longer reports than [`REPORT_USE_LEN_MAX`] are refused: send several.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct ReportUse {
    /// One line for each user; several for one are added up.
    #[serde(default)]
    pub traffic: Vec<ReportTraffic>,
    /// Objects that were opened from a kept grant: their replicas are in use and evicted last.
    #[serde(default)]
    pub opened: Vec<ObjectId>,
}
