//! Moves files between this host and servers, or from server to server: verified, resumable, many at once.

mod bars;
mod copy;
mod crew;
mod partial;
mod place;
mod plan;
mod sums;

pub(crate) use bars::{Bars, FileProgress};
pub(crate) use copy::{CopyOptions, Mover};
pub(crate) use crew::{CopyResult, run};
pub(crate) use place::Location;
pub(crate) use plan::{Job, plan};
