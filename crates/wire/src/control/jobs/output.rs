//! What a job prints: asked for when it has ended, or followed while it runs.

use super::JobState;
use base::JobId;
use serde::{Deserialize, Serialize};

/// Returns the output of a job.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct JobLog {
    /// The job.
    pub job: JobId,
}

/// The output of a job: all of it, or its beginning and end.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobText {
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

/// Bytes of each output of a job that the head keeps for those who follow it. Who is further behind misses some.
pub const OUTPUT_KEPT_BYTES_MAX: u64 = 1 << 20;

/// Returns the output of a running job, and waits for more.
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
    /// The state of the job.
    pub state: JobState,
    /// Which run of it this is.
    pub attempt: u32,
    /// Pieces of standard output and of standard error, in their order. Where one begins later than the one before ends, something
    /// is left out: the job prints faster than it is told.
    pub pieces: [Vec<OutputPiece>; 2],
    /// The job prints no more, or this is all that it has printed so far and no more was asked for.
    pub is_all: bool,
}

/// A piece of the output of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputPiece {
    /// First byte.
    pub start: u64,
    /// One past its last byte. The text may be shorter: invalid UTF-8 is replaced.
    pub end: u64,
    /// The text.
    pub text: String,
}
