//! Objects as doors open them: reading, writing until the commit, here or on another disk server.

pub(crate) mod begin_write;
pub mod checksums;
pub(crate) mod free_space;
pub mod local_objects;
pub mod open_file;
pub mod remote_objects;
pub(crate) mod threads;
pub(crate) mod usage;
