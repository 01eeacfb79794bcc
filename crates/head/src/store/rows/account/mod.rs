//! Rows of accounts and quotas.

pub(crate) mod accounts;
pub(crate) mod ledger;
pub(crate) mod quotas;

#[cfg(test)]
pub(crate) mod accounts_tests;
