//! Decisions about pools, as pure functions: placement, repair, balance, collection, verification.

pub mod balance;
pub mod budget;
pub mod collection;
pub(crate) mod fetch;
pub mod placement;
pub mod policy;
pub mod promise;
pub mod reading;
pub mod repair;
pub mod scrub;
pub mod silence;
pub mod surplus;
pub mod view;
