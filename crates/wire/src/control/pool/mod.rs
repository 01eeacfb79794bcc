//! Calls on pools: policies, partitions, scans, reserved space.

pub mod allocation;
pub mod policy;
pub mod pools;
pub mod scan;
