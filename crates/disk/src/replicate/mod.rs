//! Copies between disk servers, mirrors of writes, and coded files.

pub(crate) mod coded;
pub mod copier;
pub(crate) mod mirror;
pub(crate) mod transfer;
