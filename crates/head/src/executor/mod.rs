//! Executes calls in groups that are committed once, on the head's thread or on that of a caller.

pub(crate) mod apply;
pub(crate) mod clock_steps;
pub(crate) mod core;
pub(crate) mod group_executor;
pub(crate) mod leadership;
pub(crate) mod service;
