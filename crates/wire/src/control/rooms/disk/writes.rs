//! Writes: from the reservation of an object to the commit that makes it the content of its file.

use crate::{
    control::{DiskServer, Pieces, ReadObject},
    media::object::{Holder, Label},
};
use base::{Checksums, FileId, FilePath, ObjectId, Timestamp};
use serde::{Deserialize, Serialize};

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
    /// Its owner.
    pub holder: Holder,
    /// The new object. Its number is the generation of what is written.
    pub object: ObjectId,
    /// Where to make it.
    pub partition: String,
    /// Space to reserve; 0 if the size is unknown.
    pub expected_bytes: u64,
    /// For [`Disposition::Update`]: the object to begin with, on the same partition; or a piece of the file to begin with.
    pub base: Option<ReadObject>,
    /// The pieces of the file to begin with, for whoever makes the object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_pieces: Option<Pieces>,
    /// The disk server that makes it, if that is another process than the head's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<DiskServer>,
    /// When the host of that server joined: its key follows from that.
    #[serde(default)]
    pub joined: Timestamp,
    /// Whether its mirrors or pieces are placed and filled before the commit; see [`crate::control::PlaceMirrors`].
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

/// A disk server that received a capability for writing asks how to begin.
///
/// The head gives up a reservation that was not begun when its capability expires.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct BeginWrite {
    /// The object.
    pub object: ObjectId,
    /// Whether it begins with the content that the file has.
    pub is_update: bool,
}

/// Asks for free space, so that an unfinished object can have `bytes` in all.
///
/// The head evicts replicas that may go. The reply means that the space is free or will be soon: the disk server waits
/// for it, and asks again. [`NoSpace`](base::ErrorKind::NoSpace) is final: the head may not evict enough.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct FreeSpace {
    /// The object.
    pub object: ObjectId,
    /// The size that the object shall have.
    pub bytes: u64,
}

/// Makes a written object the content of its file. The object must be durable on disk before.
///
/// A repeated call changes nothing: the reply to the first one may have been lost.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CommitWrite {
    /// The object.
    pub object: ObjectId,
    /// Its bytes.
    pub size: u64,
    /// Of the whole object.
    pub checksums: Checksums,
    /// Durable mirrors; see [`crate::control::PlaceMirrors`].
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

/// Releases a reserved object.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct AbandonWrite {
    /// The object.
    pub object: ObjectId,
}
