//! A deterministic facility for tests: the real head, and simulated services with the faults of real ones.
//!
//! **Problem.** Crashes, lost messages and broken drives come together in ways that no test author thinks of.
//!
//! **Idea.** A [`World`] has one clock and one seed; the same seed gives the same run. The head is the one that daemons run, on a
//! real catalogue; disks, tapes and workers are models that keep what a crash would leave behind. [`World::check`] compares
//! what users were told with what the services have. A failure prints its seed, and that seed becomes a test.
//!
//! **Start reading** with [`World`]; [`year`] is a year of pools on many servers, [`replay`] sends traces through
//! the scheduler.

mod batch;
mod check;
mod disk;
pub mod replay;
mod tape;
mod users;
mod world;
pub mod year;

pub use batch::Stage;
pub use disk::{Content, DiskServer};
pub use tape::{Library, Mishap, Volume};
pub use world::{DRIVES, World};
