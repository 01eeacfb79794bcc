//! Reservations: space for a file before it is written.

use base::{FilePath, Millis, Timestamp};
use serde::{Deserialize, Serialize};

/// How long room is reserved if nobody says: a transfer that is prepared in the evening is made by the next one.
pub const ALLOCATION_LIFETIME: Millis = Millis::from_seconds(24 * 3600);
/// Longest time at once: what is forgotten must not block a pool for good.
pub const ALLOCATION_LIFETIME_MAX: Millis = Millis::from_seconds(7 * 24 * 3600);

/// Reserves space in a pool for a new file of the calling user.
///
/// The next open of the path for writing uses the reservation, from whatever client. A repeated call returns the same
/// reservation.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Allocate {
    /// The file.
    pub path: FilePath,
    /// Where its content is to be.
    pub pool: String,
    /// Bytes to reserve.
    pub size: u64,
    /// For how long; none: [`ALLOCATION_LIFETIME`], or as long as it is reserved already. Later ends win.
    #[serde(default)]
    pub lifetime: Option<Millis>,
    /// POSIX permission bits of the file; 420, which is 0644, if they are left out.
    #[serde(default = "file_mode")]
    pub mode: u32,
    /// Make missing directories.
    #[serde(default)]
    pub parents: bool,
}

fn file_mode() -> u32 {
    0o644
}

/// What [`Allocate`] found or made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Allocated {
    /// The space was reserved now.
    New,
    /// The user had reserved it before.
    Known,
    /// The file exists: nothing is reserved.
    Written,
}

/// The answer to [`Allocate`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Allocation {
    /// The file.
    pub path: FilePath,
    /// What was found or made.
    pub outcome: Allocated,
    /// Where it is; empty for a file that is only on tape.
    pub pool: String,
    /// Partitions with the room, or with replicas.
    pub partitions: Vec<String>,
    /// Bytes reserved, or of the file.
    pub size: u64,
    /// When the reservation ends.
    pub until: Option<Timestamp>,
    /// A client is writing it.
    pub is_begun: bool,
}
