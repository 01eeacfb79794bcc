//! `bpd`: the roles, the doors, the operator console.

pub mod console;
pub mod metrics;
