//! Maintenance of a disk server: deletions, reports, comparisons with the catalogue, adoption.

pub mod adoption;
pub(crate) mod catalogue_check;
pub mod copier;
pub mod janitor;
pub mod live_orders;
pub mod scan;
pub(crate) mod users;
