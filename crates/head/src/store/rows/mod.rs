//! The rows of the catalogue, table by table: statements, and the structs that they fill.

pub(crate) mod account;
pub(crate) mod counts;
pub(crate) mod drive_quota;
pub(crate) mod facility;
pub(crate) mod fair_share;
pub(crate) mod jobs;
pub(crate) mod live;
pub(crate) mod namespace;
pub(crate) mod operator;
pub(crate) mod pool;
pub(crate) mod repack;
pub(crate) mod requests;
pub(crate) mod share;
pub(crate) mod stage;
pub(crate) mod storage_class;
pub(crate) mod verify;
pub(crate) mod volumes;

#[cfg(test)]
pub(crate) mod row_tests;
