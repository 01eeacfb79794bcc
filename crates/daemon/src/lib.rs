//! `bpd`: the roles, the doors, the operator console.

pub mod authority;
pub mod config;
pub mod console;
pub mod copier;
pub mod door;
pub mod facility;
pub mod far;
pub mod files;
pub mod hosts;
pub mod http;
pub mod identity;
pub mod janitor;
pub mod join;
pub mod link;
mod member;
pub mod metrics;
mod mirror;
pub mod objects;
pub mod open;
pub mod run;
pub mod sums;
mod transfer;
mod uses;
