//! Moves files between this host and servers, or from server to server: verified, resumable, many at once.

mod bars;
mod copy;
mod crew;
mod partial;
mod place;
mod plan;
mod sums;

pub(crate) use bars::{Bars, Meter};
pub(crate) use copy::{CopyOptions, Mover};
pub(crate) use crew::{Ended, run};
pub(crate) use place::Place;
pub(crate) use plan::{Job, plan};
