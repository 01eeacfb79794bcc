//! Every decision of the facility, and all its durable metadata.
//!
//! **Problem.** Disks, tapes and jobs have to be planned together, no acknowledged change may be lost, and years of failures
//! must be tested before the first one happens.
//!
//! **Idea.** [`Core`] is synchronous and deterministic: it owns the [`Store`](store::Store), takes the time as an argument, and
//! decides by pure functions. [`Head`] puts it on a thread, commits calls in groups and lets callers wait for changes. No
//! sockets but the store's to its database, so that it runs unchanged in simulation.
//!
//! **Start reading** with [`Apply`], what a call does, and [`Core`], which does it. Policies are in [`pool`] and its
//! neighbours; all SQL is in [`store`].

mod account;
mod batch;
mod events;
mod executor;
mod hosts;
mod namespace;
pub mod pool;
mod recovery;
mod scan;
mod share;
mod status;
pub mod store;
mod tape;
mod trash;
pub(crate) mod waiters;
mod waits;

pub use executor::{
    apply::{Apply, Context, Principal, Topic},
    core::{Core, HeadConfig},
    service::Head,
};
pub use namespace::rights;
pub use trash::TrashPolicy;
pub use waits::Waits;
