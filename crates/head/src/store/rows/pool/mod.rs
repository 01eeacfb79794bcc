//! Rows of pools: partitions, replicas, scans, uses.

pub(crate) mod maintenance;
pub(crate) mod partitions;
pub(crate) mod pools;
pub(crate) mod replicas;
pub(crate) mod scans;
pub(crate) mod scrubs;
pub(crate) mod sole_copies;
pub(crate) mod strays;
pub(crate) mod uses;
