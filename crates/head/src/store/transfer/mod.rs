//! Whole catalogues: backups, restores, and moves from one engine to the other.

pub(crate) mod backup;
pub(crate) mod loader;
pub(crate) mod restore;

#[cfg(test)]
pub(crate) mod backup_tests;
