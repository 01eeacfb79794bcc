//! Pools: what they promise, and how disk servers and head keep it together.

use crate::control::{Pool, PoolInfo};
use base::{FilePath, Millis, Timestamp};
use serde::{Deserialize, Serialize};

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
