//! Carrying out what was decided about pools: reservations, copies, deletions, verification.

pub(crate) mod allocation;
pub(crate) mod avoided_servers;
pub(crate) mod balance;
pub(crate) mod bounds;
pub(crate) mod coded;
pub(crate) mod collection;
pub(crate) mod copies;
pub(crate) mod copies_under_way;
pub(crate) mod draining;
pub(crate) mod gather;
pub(crate) mod maintenance;
pub(crate) mod mirror;
pub(crate) mod out_of_reach;
pub(crate) mod policy;
pub(crate) mod reach_count;
pub(crate) mod removed_hosts;
pub(crate) mod reservation;
pub(crate) mod run_maintenance;
pub(crate) mod scrub;
pub(crate) mod snapshot;
pub(crate) mod sources;
pub(crate) mod space;
