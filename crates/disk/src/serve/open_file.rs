//! Open files: reading, and writing until the commit.

mod read;
mod write;

pub use read::{Meter, ReadFile, Source};
pub use write::{Reservation, Sink, WriteFile};
