//! Disk server: partitions, and the objects on them.
//!
//! **Problem.** A crash at any moment must neither lose acknowledged data nor leave bytes that look like a whole file.
//!
//! **Idea.** **Data never lies in `objects/` without its description.** A commit puts the description there first and the data
//! second; a removal takes the data first and the description second. So a description without data is an interrupted step and
//! holds no bytes, while data without a description is damage that an operator must look at. [`Partition::list`] tells them apart.
//!
//! **Start reading** with [`Partition`], then [`ObjectWriter`] and [`ObjectReader`]. The code is plain and blocking, over a
//! local file system; no network, no async. `spec/object.md` draws the formats. A partition is a directory:
//!
//! ```text
//! partition.json          who owns it; the lock that keeps a second daemon out
//! incoming/ID             an object that is being written
//! incoming/ID.json        its description, just before the commit
//! live/ID                 an object that changes in place
//! live/ID.fences          which writes to it are refused
//! objects/XX/ID           a committed object; XX is the low byte of ID in hex
//! objects/XX/ID.json      its description
//! quarantine/             objects that were set aside: nobody reads or deletes them
//! index/N                 objects as they were last verified: scans skip those that are unchanged
//! ```

pub mod clock;
#[cfg(test)]
mod crash_tests;
mod io;
pub mod object;
pub mod port;
pub mod remote;
pub mod replicate;
pub mod serve;
pub mod upkeep;

pub use io::ring::Wanted;
pub use object::{
    list::{Entry, EntryState},
    live::LiveObject,
    partition::Partition,
    partition_state::WITHDRAWN_MAX,
    reader::ObjectReader,
    space::{Limits, Space},
    writer::ObjectWriter,
};

pub use base::limits::OBJECT_BYTES_MAX;
