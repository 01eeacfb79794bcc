//! Rows in memory in front of the database: what was read lately, and what a group of calls has changed.

pub(crate) mod by_key;
pub(crate) mod flush;
pub(crate) mod kept;
pub(crate) mod look_ahead;
pub(crate) mod node_cache;
pub(crate) mod pending;
