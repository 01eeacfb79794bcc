//! Objects as doors open them: reading, writing until the commit, here or on another disk server.

pub mod begin_write;
pub mod checksums;
pub mod free_space;
pub mod live_file;
pub mod local_objects;
pub mod open_file;
pub mod traffic;
pub mod usage;
