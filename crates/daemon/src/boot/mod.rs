//! Starting and stopping: configuration, the facility's directory, the roles of a host.

pub mod catalogue;
pub mod facility;
pub(crate) mod head_host;
pub mod join;
mod libraries;
pub(crate) mod member;
pub(crate) mod rooms;
pub mod run;
pub mod service;
pub mod standby;
pub(crate) mod steps;
