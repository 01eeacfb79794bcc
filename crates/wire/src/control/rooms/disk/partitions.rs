//! Partitions of disk servers: what they say of themselves, what lies on them and what goes, and their keys.

use crate::control::{CatalogueMark, PartitionTrouble};
use base::{ObjectId, Timestamp};
use serde::{Deserialize, Serialize};

/// A disk server and its doors.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskServer {
    /// Name of its host, unique in the facility.
    pub name: String,
    /// Its XRootD door, `host:port`.
    pub root: String,
    /// Its HTTP door with TLS, `host:port`.
    pub https: String,
}

impl DiskServer {
    /// URL of its XRootD door, without a path: `root://host:port`.
    #[must_use]
    pub fn root_url(&self) -> String {
        format!("root://{}", self.root)
    }

    /// The same for clients that insist on TLS: `roots://host:port`.
    #[must_use]
    pub fn roots_url(&self) -> String {
        format!("roots://{}", self.root)
    }

    /// URL of its HTTP door with TLS, without a path: `https://host:port`.
    #[must_use]
    pub fn https_url(&self) -> String {
        format!("https://{}", self.https)
    }
}

/// A disk server announces a partition, when it starts and when the head does not know it.
///
/// Every write on it that began in an earlier boot of the disk server is over: its object is abandoned.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RegisterPartition {
    /// The disk server that serves it.
    pub server: DiskServer,
    /// A random number that the disk server draws when it starts.
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

/// A disk server reports free space and writes in progress.
///
/// [`NotFound`](base::ErrorKind::NotFound): the head does not know it; it must register.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ReportSpace {
    /// The partition.
    pub partition: String,
    /// As in [`RegisterPartition`].
    pub boot: u64,
    /// Objects that users are writing. The head gives up reservations that stay absent from this list.
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
    /// Files that are open for reading on its host.
    #[serde(default)]
    pub readers: u32,
    /// The trouble of the partition.
    #[serde(default)]
    pub trouble: Option<PartitionTrouble>,
}

/// The answer to [`ReportSpace`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpaceReported {
    /// Capabilities of users to read with a lower generation predate a revoked right and are refused.
    #[serde(default)]
    pub fence: u64,
    /// The time at the head: capabilities expire by its clock.
    pub now: Timestamp,
    /// Its pool uses direct I/O for objects.
    #[serde(default)]
    pub is_direct: bool,
    /// The pool to which it belongs: a catalogue that is made anew asks the partition.
    #[serde(default)]
    pub pool: String,
    /// Objects without progress: the unused part of their reservation is released. Their writes may go on.
    #[serde(default)]
    pub released: Vec<ObjectId>,
}

/// Returns the objects to delete from a partition.
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

/// Reports that objects were deleted from a partition.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ObjectsRemoved {
    /// The partition.
    pub partition: String,
    /// The objects.
    pub objects: Vec<ObjectId>,
}

/// A disk server lists the objects of a partition, page by page: absent ones are lost, lost ones that are listed are back.
///
/// [`NotFound`](base::ErrorKind::NotFound): the head did not expect the list; the disk server must register again.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ReportObjects {
    /// The partition.
    pub partition: String,
    /// As in [`crate::control::RegisterPartition`].
    pub boot: u64,
    /// The page begins after this object; 0 for the first.
    pub after: ObjectId,
    /// The page ends with this object; `None`: it is the last.
    pub upto: Option<ObjectId>,
    /// All objects of the page, ascending.
    pub objects: Vec<ObjectId>,
}

/// Most objects in one page of a [`ReportObjects`].
pub const REPORT_OBJECTS_LEN_MAX: usize = 8192;

/// A disk server asks for its keys, which check capabilities; pending while it has all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetCapKeys {
    /// The serial number of the keys that it has stored.
    pub serial: u64,
    /// The newest generation that it has stored.
    pub generation: u32,
}

/// The answer to [`GetCapKeys`], and what a host stores of it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostCapKeys {
    /// The serial number of this set of keys.
    pub serial: u64,
    /// All generations that verify, the newest first; empty if the host has this state already.
    pub keys: Vec<HostCapKey>,
}

/// One generation of the key that checks the capabilities of a disk server. It has no `Debug`: it is a secret.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostCapKey {
    /// The generation of the facility's key from which it follows.
    pub generation: u32,
    /// When it stops verifying.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// The key, hex.
    pub key: String,
}
