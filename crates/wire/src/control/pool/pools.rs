//! Pools: policies, and the calls by which disk servers and the head keep them.

use crate::control::{Pool, PoolInfo};
use base::{FilePath, Millis, Timestamp};
use serde::{Deserialize, Serialize};

/// The troubles of a partition while its disk server runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PartitionTrouble {
    /// Its file system is missing, probably not mounted. Its objects are not lost.
    Gone,
    /// Its file system is read-only: objects are read, but not written or deleted.
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

/// Returns the free space for new files, of all partitions together.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct GetSpace {}

/// The free space for new files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Space {
    /// Bytes of all partitions.
    pub total_bytes: u64,
    /// Bytes that are neither used nor reserved.
    pub free_bytes: u64,
    /// Free bytes of the partition that has most of them: the longest file that fits.
    pub largest_free_bytes: u64,
}

/// The state of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PartitionState {
    /// New data may be written.
    #[default]
    InUse,
    /// It takes no new data; its files are moved elsewhere.
    Draining,
    /// It takes no new data; its files stay.
    ReadOnly,
    /// It is empty and not used any more.
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

/// Sets the policy of a pool. An unknown pool is made.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetPool {
    /// The pool.
    pub pool: Pool,
}

/// Sets the state of a partition.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetPartition {
    /// The partition.
    pub partition: String,
    /// The state.
    pub state: PartitionState,
}

/// Drains partitions: they take no new data, and their files are copied elsewhere. [`SetPartition`] undoes it.
///
/// [`Busy`](base::ErrorKind::Busy): only copies of files cannot be moved; then nothing is drained.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Drain {
    /// Partitions.
    #[serde(default)]
    pub partitions: Vec<String>,
    /// Drain all partitions of this host, too.
    #[serde(default)]
    pub host: Option<String>,
    /// Drain even if files cannot be moved; these stay.
    #[serde(default)]
    pub force: bool,
}

/// The progress of draining.
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

/// Limits the data on a partition, in addition to its host's limit. The excess leaves gradually: files that are safe
/// on tape where the pool collects, others by balancing.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResizePartition {
    /// The partition.
    pub partition: String,
    /// The most bytes of replicas; `None`: the limit of its host.
    pub size_max_bytes: Option<u64>,
}

/// Moves an empty partition to another pool, where it is used at once unless it is frozen. An unknown pool is made.
///
/// [`Busy`](base::ErrorKind::Busy): the partition holds, expects or lost replicas, or is retired.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MovePartition {
    /// The partition.
    pub partition: String,
    /// The pool.
    pub pool: String,
}

/// Returns all pools.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct GetPools {}

/// The answer to [`GetPools`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pools {
    /// By name.
    pub pools: Vec<PoolInfo>,
}

/// Evicts files of a pool that are safe on tape, some at a time, in the order of its policy.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CollectPool {
    /// The pool.
    pub pool: String,
    /// Space to free on one of its partitions; `None`: each partition is brought to the high water.
    #[serde(default)]
    pub free_bytes: Option<u64>,
    /// Files made or used within this time stay; `None`: the pool's policy.
    #[serde(default)]
    pub age_min: Option<Millis>,
    /// The cursor of the last answer; `None`: begin.
    #[serde(default)]
    pub from: Option<String>,
}

/// Lists the files that [`CollectPool`] would evict.
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

/// The files that were evicted, or would be.
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
    /// The cursor of the next page; `None`: this is the last.
    pub next: Option<String>,
}

/// A file that left the disks of a pool, or would.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CollectedFile {
    /// Its path.
    pub path: FilePath,
    /// Bytes on the partition.
    pub bytes: u64,
    /// When its content was written.
    pub modified: Timestamp,
    /// When it was last used.
    pub used: Timestamp,
}
