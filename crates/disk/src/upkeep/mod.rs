//! Maintenance of a disk server: deletions, reports, comparisons with the catalogue, adoption.

pub(crate) mod adoption;
pub(crate) mod catalogue_check;
pub mod janitor;
pub(crate) mod scan;
pub(crate) mod users;
