//! Calls of disk servers and doors, and evictions by users.

mod open;
mod partition;
mod usage;
mod write;

pub(crate) use partition::partition_of;
pub(super) use write::{abandon, being_written};
