//! Calls on the facility as a whole: hosts, heads, keys, labels, status.

pub mod counts;
pub mod devices;
pub mod heads;
pub mod hosts;
pub mod keys;
pub mod labels;
pub mod presence;
pub mod restored;
pub mod status;
pub mod version;
