//! Calls on accounts and quotas.

pub mod accounts;
pub mod quotas;
pub mod shares;
