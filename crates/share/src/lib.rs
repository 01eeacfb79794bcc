//! The rules for files that change in place, shared by the head, disk servers and mounts.
//!
//! A client that writes to a file holds a *write grant* for a byte range. The grant has a *generation*: a number that
//! each file counts up and never uses twice. The client shows it to the disk servers with every write.
//!
//! A client may stop for an hour and wake up, and a network may deliver a write late or twice. So the head first
//! *fences* the old grant: every disk server of the file makes durable that it refuses older generations in the range.
//! Only then the head gives the range to another client. No clock takes part in that.
//!
//! Clocks decide only how long a client may use its cache: for the time of its *lease*, which it renews with the head.
//!
//! - [`FileGrants`]: the grants of one file, as the head keeps them. Start reading there.
//! - [`Fences`]: what a disk server refuses for one object.
//! - [`Leases`]: who may cache names and attributes, and who has to forget before they change.
//! - [`FileLocks`]: who has locked which bytes of one file.
//! - [`LockWaits`]: who waits for locks, and whose wait would never end.
//! - [`Session`]: a client as the head sees it: live, silent, or evicted.
//!
//! Everything here is pure: no clock, no network, no disk. `tests/model` runs this very code through all orders of
//! events that a bad network, dying processes and wrong verdicts can produce. It also checks that it catches deliberate
//! mistakes.

mod deadlocks;
mod fences;
mod grants;
mod leases;
mod locks;
mod session;

pub use deadlocks::{Asked, Assurance, LockWait, LockWaits, Owner, Verdict, WaitId};
pub use fences::{Fence, Fences, Refusal};
pub use grants::{Answer, Ended, FileGrants, Grant, Mode, ServerId, Stage};
pub use leases::{InTheWay, Leases};
pub use locks::{FileLocks, Lock, LockMode, LockOwner};
pub use session::{Session, Standing};

use serde::{Deserialize, Serialize};
use std::fmt;

macro_rules! counter {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub u64);

        impl $name {
            /// The one after it.
            #[must_use]
            pub fn next(self) -> Self { Self(self.0 + 1) }
        }

        impl From<u64> for $name {
            fn from(number: u64) -> Self { Self(number) }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result { self.0.fmt(f) }
        }
    )*};
}

counter! {
    /// Number of a grant among all that the file ever had. The first is 1.
    Generation;
    /// Number of a start of the head. Only the newest may commit anything.
    Incarnation;
    /// A mount, from its first greeting until it ends or is evicted.
    ClientId;
    /// Number of a request of a client, which counts them up. A request whose answer was lost is sent again under its number.
    RequestId;
}
