//! Cache in front of the database: recently read rows, and the changes of the current group of calls.

pub(crate) mod by_key;
pub(crate) mod cached_table;
pub(crate) mod flush;
mod footprint;
pub(crate) mod look_ahead;
pub(crate) mod node_cache;
pub(crate) mod pending;
