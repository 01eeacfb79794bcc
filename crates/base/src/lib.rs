//! The vocabulary that all crates share: ids, paths, byte ranges, checksums, errors, units.
//!
//! **Problem.** Crates that do not know each other pass the same things on: a file id, a checksum, a reason why something
//! failed. If each had its own type for them, a mistake would compile.
//!
//! **Idea.** One small type for each thing, which cannot hold a wrong value. Nothing here touches the clock, the network, the
//! file system or an async runtime, so that simulations can use all of it.
//!
//! **Start reading** with [`Failure`] and [`ErrorKind`], which every call may return, then [`FilePath`] and [`ByteRange`].
//! [`limits`] has the bounds that hold everywhere, each with its reason.

pub mod calendar;
pub mod checksum;
pub mod crc_lanes;
pub mod failure;
pub mod histogram;
pub mod id;
pub mod limits;
pub mod month;
pub mod name;
pub mod page_buffer;
pub mod page_sums;
pub mod path;
pub mod pattern;
pub mod range;
pub mod reach;
pub mod rng;
pub mod shown;
pub mod time;
pub mod two_generation_cache;
pub mod units;

pub use self::time::{Clock, Millis, NanoTime, Timestamp};
pub use calendar::{CALENDAR_SECONDS, Civil, OrdinalDate};
pub use checksum::{Adler32, Checksums, Crc32c};
pub use failure::{Cause, ErrorKind, Failure, OtherHead, Result};
pub use histogram::{Histogram, Steps};
pub use id::{CopyId, FileId, JobId, ObjectId, RequestId, SessionId, Vid};
pub use month::Month;
pub use name::{check_name, is_name};
pub use page_buffer::PageBuffer;
pub use page_sums::PageSums;
pub use path::FilePath;
pub use range::ByteRange;
pub use reach::{Network, ReachRule};
pub use shown::{hex, shown, shown_lines, tail, unhex};
pub use two_generation_cache::TwoGenerationCache;
