//! What a job cost beside the usage of its runs.

use serde::{Deserialize, Serialize};

/// What a job cost, for accounts.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct JobCosts {
    /// The group that pays, with the owner.
    pub group: String,
    /// Bytes of its inputs, for each of its runs.
    pub in_bytes: u64,
    /// Bytes of its outputs.
    pub out_bytes: u64,
    /// Bytes read from tape for it. A file that several jobs waited for is split between them.
    pub tape_read_bytes: u64,
    /// Volumes loaded for it. A load that served several jobs is split between them.
    pub tape_loads: f64,
    /// Space of its inputs on disk times the time that they were kept there for it. An input of several jobs counts for each.
    pub disk_gb_hours: f64,
    /// Wall time of its runs times the memory that it asked for, or used if that was more.
    pub memory_gb_hours: f64,
}
