//! Every decision of the facility, and all its durable metadata.
//!
//! **Problem.** Disks, tapes and jobs must be planned together. No acknowledged change may be lost. Tests must go
//! through years of failures before the first one happens.
//!
//! **Idea.** [`Core`] is synchronous and deterministic: it owns the [`Store`](store::Store), takes the time as an
//! argument, and decides by pure functions. [`Head`] puts it on a thread, commits calls in groups and lets callers wait
//! for changes. The only socket is that of the store to its database, so the head runs unchanged in simulation.
//!
//! **Start reading** with [`Apply`], the effect of a call, and [`Core`], which carries it out. Policies are in [`pool`]
//! and its neighbours; all SQL is in [`store`].

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

pub use batch::{Replay, ReplayedJob};
pub use executor::{
    apply::{Apply, Context, Principal, Topic},
    core::{Core, HeadConfig},
    service::Head,
};
pub use namespace::rights;
pub use tape::Bundling;
pub use trash::TrashPolicy;
pub use waits::Waits;
