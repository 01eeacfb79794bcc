//! Copies between disk servers, mirrors of writes, and coded files.

pub(crate) mod coded;
pub(crate) mod mirror;
