//! Objects of other disk servers: reading, writing and copying them.

pub mod objects;
pub mod redirect;
pub mod threads;
pub(crate) mod transfer;
