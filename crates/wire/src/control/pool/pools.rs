//! Pools: what they promise, and how disk servers and head keep it together.

use crate::{
    control::{Coding, Pieces, PoolInfo, pool::policy::Pool},
    media::object::Label,
};
use base::{Checksums, Failure, FilePath, Millis, ObjectId, Timestamp};
use serde::{Deserialize, Serialize};

/// What may be done with a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PartitionState {
    /// Everything.
    #[default]
    InUse,
    /// Nothing new comes; what is there goes elsewhere.
    Draining,
    /// Nothing new comes; what is there stays.
    ReadOnly,
    /// Empty, and not to be used any more.
    Retired,
}

impl PartitionState {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::InUse, Self::Draining, Self::ReadOnly, Self::Retired];

    /// The word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::InUse => "in_use",
            Self::Draining => "draining",
            Self::ReadOnly => "read_only",
            Self::Retired => "retired",
        }
    }
}

/// Says what a pool promises and allows. A pool that nobody knows is made.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetPool {
    /// The pool.
    pub pool: Pool,
}

/// Says what may be done with a partition.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetPartition {
    /// The partition.
    pub partition: String,
    /// What may be done.
    pub state: PartitionState,
}

/// Has partitions emptied: nothing new comes, and what is there is copied elsewhere and goes. [`SetPartition`] undoes it.
///
/// [`Busy`](base::ErrorKind::Busy): files that are nowhere else cannot be moved; nothing is drained then.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Drain {
    /// Partitions.
    #[serde(default)]
    pub partitions: Vec<String>,
    /// All partitions of this host, too.
    #[serde(default)]
    pub host: Option<String>,
    /// Also if something cannot be moved: it stays.
    #[serde(default)]
    pub force: bool,
}

/// What is to be moved.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drained {
    /// Those that drain now, by name.
    pub partitions: Vec<DrainedPartition>,
}

/// A partition that drains.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DrainedPartition {
    /// The partition.
    pub name: String,
    /// Replicas and pieces on it.
    pub replicas: u64,
    /// Bytes of these.
    pub bytes: u64,
}

/// Says how much may lie on a partition, whatever its host allows. What is too much then leaves it by and by: files that are
/// safe on tape where the pool collects, others by balancing.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResizePartition {
    /// The partition.
    pub partition: String,
    /// Most bytes of replicas; `None`: as much as its host allows.
    pub size_max_bytes: Option<u64>,
}

/// Puts an empty partition into another pool, where it is used at once unless it is frozen. A pool that nobody knows is made.
///
/// [`Busy`](base::ErrorKind::Busy): something lies on it, is to come or was lost there, or it is retired.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MovePartition {
    /// The partition.
    pub partition: String,
    /// The pool.
    pub pool: String,
}

/// Asks for all pools.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct GetPools {}

/// The answer to [`GetPools`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pools {
    /// By name.
    pub pools: Vec<PoolInfo>,
}

/// A disk server has a written object durable, and asks where its mirrors or pieces go. Saying it again is fine.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PlaceMirrors {
    /// The object.
    pub object: ObjectId,
    /// Its bytes.
    pub size: u64,
    /// Of the whole object.
    pub checksums: Checksums,
    /// Mirrors that could not be written: others are wanted in their place.
    pub failed: Vec<ObjectId>,
}

/// Where the mirrors of an object go.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mirrors {
    /// To be filled before the commit; fewer than the pool wants if there is no place for more.
    pub mirrors: Vec<Mirror>,
    /// They are no copies but pieces, cut like this.
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
    /// Where it is filled, with the capability.
    pub url: String,
    /// Which piece it is, where the object is cut into pieces.
    #[serde(default)]
    pub index: u8,
}

/// Asks which objects a partition is to fetch from other disk servers.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct NextCopies {
    /// The partition.
    pub partition: String,
    /// What it is fetching already.
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

/// Says how a copy ended: the object is durable, or nothing is left of it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CopyEnded {
    /// The new object.
    pub object: ObjectId,
    /// What it was copied from.
    pub source: ObjectId,
    /// Why it failed, if it did.
    pub failure: Option<Failure>,
    /// Of a piece that was made anew.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checksums: Option<Checksums>,
    /// Pieces that were found to be damaged on the way.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub damaged: Vec<ObjectId>,
}

/// Drops files of a pool that are safe on tape from its disks, some at a time, in the order of its policy.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CollectPool {
    /// The pool.
    pub pool: String,
    /// So many bytes are to fit on one of its partitions; `None`: each partition is brought to the high water.
    #[serde(default)]
    pub free_bytes: Option<u64>,
    /// Files that were made or used within this time stay; `None`: as the pool's policy says.
    #[serde(default)]
    pub age_min: Option<Millis>,
    /// Where to go on, as the last answer said; `None`: begin.
    #[serde(default)]
    pub from: Option<String>,
}

/// Shows what [`CollectPool`] would drop.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GetCollectable {
    /// The pool.
    pub pool: String,
    /// As in [`CollectPool`].
    #[serde(default)]
    pub free_bytes: Option<u64>,
    /// As in [`CollectPool`].
    #[serde(default)]
    pub age_min: Option<Millis>,
    /// As in [`CollectPool`].
    #[serde(default)]
    pub from: Option<String>,
}

/// What went, or would go.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Collected {
    /// The partition that gets room; `None`: none needs any.
    pub partition: Option<String>,
    /// Bytes that are wanted on it.
    pub wanted_bytes: u64,
    /// Bytes that are not found yet; if it does not go on with this partition, nothing more may go.
    pub missing_bytes: u64,
    /// Files, in the order in which they go.
    pub files: Vec<CollectedFile>,
    /// The head is looking for files: waiting is worth while.
    pub is_looking: bool,
    /// Where to go on; `None`: that was all.
    pub next: Option<String>,
}

/// A file that left the disks of a pool, or would.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CollectedFile {
    /// Its path.
    pub path: FilePath,
    /// Bytes on the partition.
    pub bytes: u64,
    /// When its content was made.
    pub modified: Timestamp,
    /// When it was last used.
    pub used: Timestamp,
}

/// A disk server says, page by page, what is on a partition: what is missing is lost, what was missing is back.
///
/// [`NotFound`](base::ErrorKind::NotFound): the head does not wait for it; the disk server registers again.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RollCall {
    /// The partition.
    pub partition: String,
    /// As in [`crate::control::RegisterPartition`].
    pub boot: u64,
    /// The page begins behind this object; 0 for the first.
    pub after: ObjectId,
    /// The page ends with this object; `None`: it is the last.
    pub upto: Option<ObjectId>,
    /// Every object in between, ascending.
    pub objects: Vec<ObjectId>,
}

/// Most objects in one page of a [`RollCall`].
pub const ROLL_CALL_LEN_MAX: usize = 8192;

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

/// Lets the head look for files that have too few or too many replicas.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct Tend {}

/// The answer to [`Tend`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tended {
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
