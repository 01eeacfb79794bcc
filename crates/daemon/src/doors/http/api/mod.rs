//! The management API over HTTP, the console and the metrics.

pub(crate) mod backup;
pub(crate) mod calls;
pub(crate) mod hosts;
pub(crate) mod keys;
pub(crate) mod live;
