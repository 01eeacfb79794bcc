//! `bpd`: the roles, the doors, the operator console.

pub mod authority;
pub mod config;
pub mod console;
pub mod door;
pub mod facility;
pub mod files;
pub mod http;
pub mod identity;
pub mod janitor;
pub mod metrics;
pub mod run;
pub mod sums;
mod uses;
