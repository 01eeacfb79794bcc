//! Bounds of what disk servers and clients say: sums over what is believed must fit the catalogue's numbers, also when a host lies.

use base::{
    Failure, Result,
    limits::{OBJECT_BYTES_MAX, PARTITION_BYTES_MAX},
    units::human_bytes,
};

/// Refuses a size that no object can have.
pub(crate) fn require_size(what: &str, bytes: u64) -> Result<()> {
    if bytes <= OBJECT_BYTES_MAX {
        return Ok(());
    }
    let most = human_bytes(OBJECT_BYTES_MAX);
    Err(Failure::invalid(format!("{what} has {bytes} bytes: no object has more than {most}"))
        .hint("split the file"))
}

/// Size and free bytes of a partition, as far as they are believed.
pub(super) fn believed(total: u64, free: u64) -> (u64, u64) {
    (total.min(PARTITION_BYTES_MAX), free.min(PARTITION_BYTES_MAX))
}
