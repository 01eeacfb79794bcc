//! Servers of sockets: listeners with limits, TLS, the session loop of the XRootD protocol, orderly shutdown.
//!
//! **Problem.** Clients may be slow, silent, numerous or hostile. They must not take threads, memory or time from other clients.
//!
//! **Idea.** An idle session is an async task without a buffer; a thread serves each active session. Connections that have not
//! authenticated share one small budget. Every task belongs to a tree that is shut down from its root.
//!
//! **Start reading** with [`xrd`], the protocol, then [`listener`] and [`unproven`], the budget.

mod blocking;
pub mod listener;
pub mod local_listener;
pub mod shutdown;
pub mod tls;
pub mod unproven;
pub mod xrd;

pub use blocking::blocking;
