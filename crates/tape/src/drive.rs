//! The interface of a tape drive, real or virtual.
//!
//! The semantics are those of SCSI stream commands: a medium is a sequence of logical objects, each a block or a mark,
//! numbered from 0. Writing puts an object at the position and ends the medium right behind it. Moves are bounded by
//! the beginning and the end of the data.

use crate::watchdog::Watchdog;
use base::Result;
use std::fmt;
use wire::media::label::Text;

/// What the drive is, as its INQUIRY data say; goes into the labels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Vendor.
    pub vendor: Text<8>,
    /// Model.
    pub model: Text<8>,
    /// Serial number.
    pub serial: Text<12>,
}

/// The result of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Read {
    /// A block of so many bytes.
    Block(usize),
    /// A tape mark.
    Mark,
    /// The end of the data: nothing was ever written here. The position does not move.
    End,
}

/// Whether the end of the medium is near.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "after an early warning only what closes the file should be written"]
pub enum Written {
    /// There is room.
    Plenty,
    /// It is written, but the end of the medium is near: close the file and stop.
    EarlyWarning,
}

/// What [`TapeDrive::space`] counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpaceKind {
    /// Blocks; a mark stops the move.
    Blocks,
    /// Marks.
    Filemarks,
    /// Moves to the end of the data, whatever the count.
    EndOfData,
}

/// Why a move ended before its count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// A mark came while counting blocks. The position is behind it, seen in the direction of the move.
    Mark,
    /// The beginning of the medium.
    Beginning,
    /// The end of the data.
    End,
}

/// The result of a move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spaced {
    /// Blocks or marks that were passed, without sign.
    pub passed: u64,
    /// The reason for which it stopped early.
    pub stop: Option<Stop>,
}

/// The position on the medium.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// The logical object that is read or written next; blocks and marks count.
    pub block: u64,
    /// Which part of the medium that is.
    pub at: At,
}

/// A part of the medium.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum At {
    /// Before the first object. A blank medium is at its beginning, too.
    Beginning,
    /// Between two objects.
    Middle,
    /// Behind the last object.
    EndOfData,
}

/// The capacity and the use of the medium.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capacity {
    /// Bytes taken.
    pub used_bytes: u64,
    /// Bytes in all.
    pub total_bytes: u64,
}

/// The status of the drive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DriveStatus {
    /// No medium is threaded.
    Empty,
    /// Ready.
    Loaded {
        /// What is wrong with the medium behind the last readable object, if something is.
        damage: Option<String>,
    },
    /// Refuses until it is unloaded and loaded again.
    Failed {
        /// The failure.
        reason: String,
    },
}

impl fmt::Display for DriveStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("empty"),
            Self::Loaded { damage: None } => f.write_str("loaded"),
            Self::Loaded { damage: Some(damage) } => write!(f, "loaded ({damage})"),
            Self::Failed { reason } => write!(f, "failed: {reason}"),
        }
    }
}

/// A tape drive. One thread uses it; every call blocks until the medium has done it.
///
/// Errors: `NotFound` if no medium is in the drive, `Invalid` for a block of an impossible length, `NoSpace` at the
/// hard end of the medium (nothing of the block is written), `Corrupt` for a damaged medium, `Permission` for one that must not be
/// written, `Unsupported` for one that the drive cannot use, `Io` for a failed device.
pub trait TapeDrive: Send {
    /// Name for people and the head, such as `drive0`.
    fn name(&self) -> &str;

    /// Returns the identity of the drive.
    fn identity(&self) -> &Identity;

    /// Threads the medium that is in the drive; the position is the beginning. Loading a loaded medium rewinds it.
    fn load(&mut self) -> Result<()>;

    /// Makes everything durable and lets the medium go, so that the changer may take it.
    fn unload(&mut self) -> Result<()>;

    /// Moves to the beginning.
    fn rewind(&mut self) -> Result<()>;

    /// Writes `block` (not empty) at the position and ends the data behind it. Durable only after [`TapeDrive::flush`].
    fn write_block(&mut self, block: &[u8]) -> Result<Written>;

    /// Writes `count` marks, as [`TapeDrive::write_block`] does a block.
    fn write_filemarks(&mut self, count: u32) -> Result<Written>;

    /// Makes all that was written durable before it returns.
    ///
    /// If it fails, nothing written since the last successful flush may be believed, and the drive refuses to write
    /// until it is unloaded and loaded.
    fn flush(&mut self) -> Result<()>;

    /// Reads the object at the position into `block`, replacing what is there, and moves behind it.
    fn read_block(&mut self, block: &mut Vec<u8>) -> Result<Read>;

    /// Moves over `count` blocks or marks, forward, or backward if negative.
    fn space(&mut self, kind: SpaceKind, count: i64) -> Result<Spaced>;

    /// Moves to object `block`; `Corrupt` if that lies behind the end of the data, and the position is then there.
    fn locate(&mut self, block: u64) -> Result<()>;

    /// Tells the position without moving.
    fn position(&mut self) -> Result<Position>;

    /// Tells how full the medium is; `None` if neither drive nor medium can say.
    fn capacity(&mut self) -> Result<Option<Capacity>>;

    /// Tells the state; never fails and never moves.
    fn status(&self) -> DriveStatus;

    /// Where the device is, for people, such as `/dev/sg3`.
    fn address(&self) -> String;

    /// Gets the watchdog that watches it, to tell it of work that takes longer than usual.
    fn watched_by(&mut self, _watchdog: &Watchdog) {}
}
