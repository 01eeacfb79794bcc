//! `bpd`: the roles of a host, the protocol endpoints (*doors*), the operator console.
//!
//! **Problem.** Head, disk server, tape server and worker run in one process on a laptop and on many hosts in a computer
//! centre, and clients must not see the difference.
//!
//! **Idea.** The daemon is wiring. It reads the configuration, starts the head or joins one, starts the services of the host's
//! roles, and opens the doors. Services call the head over the same HTTP API from inside the process and from other hosts.
//!
//! **Start reading** with [`run`], which starts and stops everything, then [`door`] (`root://`) and [`http`]. [`config`] has
//! every key of `facility.toml`, [`identity`] decides who a client is.

mod adopt;
pub mod audit;
pub mod authority;
mod begin;
mod cap_keys;
pub mod catalogue;
mod coded;
pub mod config;
pub mod console;
pub mod copier;
pub mod door;
pub mod facility;
pub mod far;
pub mod files;
mod free_space;
pub mod hosts;
pub mod http;
pub mod identity;
pub mod issuers;
pub mod janitor;
pub mod join;
pub mod key;
pub mod link;
pub mod local_users;
mod member;
pub mod metrics;
mod mirror;
pub mod objects;
pub mod open;
mod peers;
mod presence;
pub mod private;
mod reality;
mod rooms;
pub mod run;
mod scan;
pub mod service;
pub mod standby;
pub mod sums;
mod time;
pub mod tokens;
mod transfer;
mod users;
mod uses;
