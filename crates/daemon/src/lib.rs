//! `bpd`: the roles of a host, the protocol endpoints (*doors*), the operator console.
//!
//! **Problem.** Head, disk server, tape server and worker run in one process on a laptop and on many hosts in a computer
//! centre. Clients must not see the difference.
//!
//! **Idea.** The daemon connects the other crates. It reads the configuration, starts the head or joins one, starts the services
//! of the host's roles, and opens the doors. Services call the head over the same HTTP API, in its process and on other hosts.
//!
//! **Start reading** with [`boot::run`], which starts and stops everything, then [`doors::xrootd`] (`root://`) and
//! [`doors::http`]. [`facility::config`] has every key of `facility.toml`, [`access::identity`] decides who a client is.

pub mod access;
pub mod boot;
pub mod doors;
pub mod facility;
pub mod hosts;
pub mod metrics;
