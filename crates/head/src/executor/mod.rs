//! Carrying out calls: in groups that are committed once, by the head's thread or by a caller when nobody else is there.

pub(crate) mod apply;
pub(crate) mod clock_steps;
pub(crate) mod core;
pub(crate) mod group_executor;
pub(crate) mod leadership;
pub(crate) mod service;
