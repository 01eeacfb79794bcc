//! What a job prints while it runs: its worker tells the head as long as somebody follows it.

use super::{JobRun, JobState};
use base::JobId;
use serde::{Deserialize, Serialize};

/// Bytes of each output that a worker tells at once: even if every byte needs six to be written, both fit a call.
pub const OUTPUT_PIECE_BYTES_MAX: usize = 64 << 10;
/// Bytes of each output of a job that the head keeps for those who follow it. Who is further behind misses some.
pub const OUTPUT_KEPT_BYTES_MAX: u64 = 1 << 20;

/// Shows what a job that runs has printed so far, and what it prints next.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct FollowJob {
    /// The job.
    pub job: JobId,
    /// Which run of it `after` speaks of; of another one everything is told.
    #[serde(default)]
    pub attempt: u32,
    /// Bytes of standard output and of standard error that the caller has.
    #[serde(default)]
    pub after: [u64; 2],
    /// What the job has printed so far is not enough: the answer waits for more.
    #[serde(default)]
    pub more: bool,
}

/// The answer to [`FollowJob`].
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct FollowedJob {
    /// Where the job is in its life.
    pub state: JobState,
    /// Which run of it this is.
    pub attempt: u32,
    /// Pieces of standard output and of standard error, in their order. Where one begins later than the one before ends, something
    /// is left out: the job prints faster than it is told.
    pub pieces: [Vec<OutputPiece>; 2],
    /// The job prints no more, or this is all that it has printed so far and no more was asked for.
    pub is_all: bool,
}

/// What stands at one place of what a job prints.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputPiece {
    /// First byte.
    pub start: u64,
    /// Behind its last byte. The text need not be so long: what is no UTF-8 is replaced.
    pub end: u64,
    /// The text.
    pub text: String,
}

/// A worker tells what a run has printed that somebody follows.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TellOutput {
    /// Which run.
    pub run: JobRun,
    /// Of standard output and of standard error what was not told yet, at most [`OUTPUT_PIECE_BYTES_MAX`] bytes of each.
    pub pieces: [Option<OutputPiece>; 2],
    /// There is nothing more at the moment.
    pub is_all: bool,
}

/// The answer to [`TellOutput`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputTold {
    /// Somebody still follows the run.
    pub is_followed: bool,
    /// Bytes of standard output and of standard error that were told already, perhaps before the worker started anew.
    pub next: [u64; 2],
}
