//! Partitions and the objects on them.

pub mod adopt;
pub(crate) mod copy;
pub(crate) mod description;
pub(crate) mod durable;
pub mod erasure;
pub mod index;
pub mod list;
pub mod live;
pub mod partition;
pub(crate) mod partition_state;
pub mod reader;
pub mod scanner;
pub(crate) mod space;
pub mod walk;
pub mod writer;
