//! What is said between the kernel and a file system in user space: messages on `/dev/fuse`, as `linux/fuse.h` has them.
//!
//! They are read and written here and not by a library: those that exist neither pass on whether a lock is one of `flock` or of
//! `fcntl`, nor that a process that waits for an answer was killed.

pub(crate) mod abi;
pub(crate) mod answers;
pub(crate) mod device;
pub(crate) mod request;
