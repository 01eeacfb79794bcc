//! Messages between the kernel and a file system in user space: on `/dev/fuse`, as `linux/fuse.h` has them.
//!
//! This crate reads and writes them without a library. The existing libraries tell neither whether a lock is one of
//! `flock` or of `fcntl`, nor that a process was killed while it waited for an answer.
//!
//! It is public for one other file system: the one that forgets, under the tests of power cuts.

pub mod abi;
pub mod answers;
pub mod device;
pub mod names;
pub mod request;
