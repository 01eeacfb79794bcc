//! Calls that ask for files on disk or on tape.

use super::FileState;
use base::{Failure, FilePath, Millis, RequestId};
use serde::{Deserialize, Serialize};

/// Asks for tape copies of files.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Archive {
    /// The files.
    pub paths: Vec<FilePath>,
}

/// Asks for disk replicas of files, and keeps them for a while.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Stage {
    /// The files.
    pub paths: Vec<FilePath>,
    /// How long the files are pinned, counted from the request; none pins nothing.
    #[serde(default)]
    pub pin: Option<Millis>,
}

/// Says what files would wait for if they were staged now. Nothing is asked for.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ExplainStage {
    /// The files.
    pub paths: Vec<FilePath>,
}

/// Drops the disk replicas of files that are safe on tape.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Evict {
    /// The files.
    pub paths: Vec<FilePath>,
    /// Release the caller's own pins first.
    #[serde(default)]
    pub releases: bool,
}

/// Releases pins, or shortens them.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Release {
    /// The files.
    pub paths: Vec<FilePath>,
    /// The most time that the pins last from now on; none: they end now.
    #[serde(default)]
    pub after: Option<Millis>,
    /// The user whose pins are released, for operators; none: the caller.
    #[serde(default)]
    pub user: Option<String>,
}

/// Cancels tape requests, by number or by file, and the caller's pins on these files.
///
/// Requests that jobs wait for and requests of other users stay. An open that waits asks for its file again.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CancelRequests {
    /// Requests.
    #[serde(default)]
    pub requests: Vec<RequestId>,
    /// Files whose requests are meant.
    #[serde(default)]
    pub paths: Vec<FilePath>,
}

/// As [`Await`], but returns as soon as any path is in the wanted state, or cannot reach it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct AwaitAny {
    /// The files.
    pub paths: Vec<FilePath>,
    /// The state to wait for.
    pub want: Want,
}

/// The outcome for one path of a call that names many.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathOutcome {
    /// The path.
    pub path: FilePath,
    /// Its state after the call; none if the path was refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<FileState>,
    /// What it waits for, if it waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits: Option<String>,
    /// Why it was refused: its words name the path, its kind and cause are for programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
}

impl PathOutcome {
    /// The path is as wanted, or `waits` for something.
    #[must_use]
    pub fn accepted(path: FilePath, state: FileState, waits: Option<String>) -> Self {
        Self { path, state: Some(state), waits, failure: None }
    }

    /// The path is refused.
    #[must_use]
    pub fn refused(path: FilePath, failure: Failure) -> Self {
        Self { path, state: None, waits: None, failure: Some(failure) }
    }
}

/// The outcome for each path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathOutcomes {
    /// In the order of the call.
    pub files: Vec<PathOutcome>,
}

/// The state to wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Want {
    /// A disk replica.
    Online,
    /// A tape copy.
    Archived,
}

/// Waits until all paths are in the wanted state, or cannot reach it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Await {
    /// The files.
    pub paths: Vec<FilePath>,
    /// The state to wait for.
    pub want: Want,
}
