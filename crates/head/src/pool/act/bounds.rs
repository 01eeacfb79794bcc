//! Bounds of what disk servers and clients say: sums over what is believed must fit the catalogue's numbers, also when a host lies.

use crate::{
    Core,
    namespace::path_of,
    pool::{
        act::snapshot::snapshot,
        decide::view::{PartitionState, PartitionView},
    },
    store::Node,
};
use base::{
    Failure, Result, Timestamp,
    limits::{OBJECT_BYTES_MAX, PARTITION_BYTES_MAX},
    units::human_bytes,
};

/// Refuses a size that no object can have.
pub(crate) fn require_size(what: &str, bytes: u64) -> Result<()> {
    if bytes <= OBJECT_BYTES_MAX {
        return Ok(());
    }
    let most = human_bytes(OBJECT_BYTES_MAX);
    Err(Failure::invalid(format!("{what} has {bytes} bytes: the largest object has {most}"))
        .hint("split the file"))
}

/// Size and free bytes of a partition, as far as they are believed.
pub(in crate::pool) fn believed(total: u64, free: u64) -> (u64, u64) {
    (total.min(PARTITION_BYTES_MAX), free.min(PARTITION_BYTES_MAX))
}

/// Refuses to bring a file back to disk that is larger than every partition of the pool for recalled files.
pub(crate) fn refuse_oversize(core: &Core, node: &Node, now: Timestamp) -> Result<()> {
    let snapshot = snapshot(core, &core.config.pool, now)?;
    let takes = |partition: &&PartitionView| partition.state != PartitionState::Retired;
    let sizes = snapshot.partitions().iter().filter(takes).map(|partition| partition.capacity_bytes);
    // One whose size is not known yet may be large enough.
    let largest = sizes.map(|bytes| if bytes == 0 { u64::MAX } else { bytes }).max();
    match largest {
        Some(largest) if node.size > largest => {
            let (path, size, largest) =
                (path_of(core, node.id)?, human_bytes(node.size), human_bytes(largest));
            let pool = &snapshot.pool.name;
            Err(Failure::no_space(format!(
                "{path} ({size}) cannot be recalled: the largest partition of pool {pool} has {largest}"
            ))
            .hint("add a larger partition, or let this pool have more of its disk: `bp pool resize`"))
        }
        _ => Ok(()),
    }
}
