//! Who may do what: identities, keys, tokens and their issuers, and the audit log of it.

pub mod audit;
pub(crate) mod cap_keys;
pub mod host_registry;
pub mod identity;
pub mod issuers;
pub mod key;
pub mod local_users;
pub mod tokens;
