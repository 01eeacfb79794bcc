//! The clients of the facility: one that moves data by the XRootD protocol, and one for the management API.
//!
//! **Problem.** The command line, Python, C and daemons of other hosts all read files and make calls. Each would otherwise
//! reconnect, resume and verify in its own way.
//!
//! **Idea.** All of them share one data mover, with shared connections, many requests in flight, checksums of pages, and resume
//! after a failure. They share one management client, which makes typed calls.
//!
//! **Start reading** with [`Control`] for calls, with [`xrd`] for data, with [`Facility`] for how a facility is found.

mod authorities;
mod certificate;
pub mod control;
pub mod facility;
mod fetch;
mod live;
mod stop;
pub mod xrd;

pub use certificate::certificate_end;
pub use control::{Bearer, Control, ControlTls};
pub use facility::Facility;
pub use fetch::Fetch;
pub use live::{FailedCopy, LiveFile};
pub use stop::Stop;
