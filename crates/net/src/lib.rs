//! Sockets: listeners with limits, the XRootD session loop, metrics, the shutdown tree.

pub mod listener;
pub mod local_listener;
pub mod shutdown;
pub mod tls;
pub mod unproven;
pub mod xrd;
