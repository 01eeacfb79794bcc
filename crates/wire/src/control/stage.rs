//! Stage requests: a user asks for many files at once, later asks for their state, and releases them.
//!
//! The WLCG Tape REST API makes these calls. The catalogue keeps a request until its owner deletes it, or for
//! [`STAGE_REQUEST_KEPT`] after its last file is done.

use base::{Failure, Millis, Timestamp};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Files of one stage request: clients of the field send 1000 at most, and one call carries as many without growing long.
pub const STAGE_FILES_MAX: usize = 10_000;
/// Stage requests that are kept: a busy site makes some thousands a day. Those that were over first make room.
pub const STAGE_REQUESTS_MAX: u64 = 20_000;
/// Files of all stage requests that are kept: about 300 MB of catalogue.
pub const STAGE_FILES_KEPT_MAX: u64 = 1_000_000;
/// How long a request is kept after its last file is done.
pub const STAGE_REQUEST_KEPT: Millis = Millis::from_seconds(7 * 24 * 3600);
/// How long a staged file stays on disk if its request does not say it.
pub const STAGE_LIFETIME_DEFAULT: Millis = Millis::from_seconds(24 * 3600);
/// Metadata of one file, in bytes; longer ones are left out: they are hints, and no request is refused for them.
pub const STAGE_METADATA_BYTES_MAX: usize = 4096;
/// Paths of one question about localities: the answer to a longer one names the first of them.
pub const LOCALITIES_MAX: usize = 10_000;

/// The number of a stage request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct StageRequestId(pub u64);

impl fmt::Display for StageRequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One file of a stage request, as it is asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageFile {
    /// The path as the user wrote it. One that cannot be staged fails alone.
    pub path: String,
    /// How long it stays on disk, counted from the moment when it is there; none: [`STAGE_LIFETIME_DEFAULT`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lifetime: Option<Millis>,
    /// What the user says of it to this facility, as JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<String>,
    /// Why the door refuses it, for the token of the user does not allow it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

/// Asks for disk replicas of files, as a request that can be looked at later. Each file is pinned for the request.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SubmitStageRequest {
    /// The files, [`STAGE_FILES_MAX`] at most. A path that is named twice counts once.
    pub files: Vec<StageFile>,
}

/// The answer to [`SubmitStageRequest`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageRequestSubmitted {
    /// Its number.
    pub id: StageRequestId,
    /// What became of each file, in the order of the call.
    pub files: Vec<StageOutcome>,
}

/// What became of one file of a new stage request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageOutcome {
    /// Why it is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
}

/// How far a file of a stage request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StageState {
    /// It waits for a drive.
    Submitted,
    /// A drive has it in its session.
    Started,
    /// It is on disk, and pinned.
    Completed,
    /// It cannot be staged.
    Failed,
    /// Its user does not want it any more.
    Cancelled,
}

impl StageState {
    /// The word in the catalogue.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Submitted => "submitted",
            Self::Started => "started",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// Whether nothing more happens to it.
    #[must_use]
    pub fn is_over(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

/// One file of a stage request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StagedFile {
    /// The path as the user wrote it.
    pub path: String,
    /// How far it is.
    pub state: StageState,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What the user has said of it, as JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<String>,
    /// How long it stays on disk.
    pub lifetime: Millis,
    /// When a drive began with its session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<Timestamp>,
    /// When it was over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished: Option<Timestamp>,
}

/// Shows a stage request of the caller; a caller who waits is told when its last file is over.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct GetStageRequest {
    /// The request.
    pub id: StageRequestId,
}

/// A stage request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageRequestInfo {
    /// Its number.
    pub id: StageRequestId,
    /// Who made it.
    pub owner: String,
    /// When.
    pub created: Timestamp,
    /// When its last file was over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed: Option<Timestamp>,
    /// In the order of the request.
    pub files: Vec<StagedFile>,
}

/// Takes files of a stage request back: recalls that nobody else needs are cancelled, and the pins end.
///
/// [`Invalid`](base::ErrorKind::Invalid): a path is not part of the request; then nothing is done.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CancelStageFiles {
    /// The request.
    pub id: StageRequestId,
    /// Files of it.
    pub paths: Vec<String>,
}

/// Takes a whole stage request back and forgets it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct DeleteStageRequest {
    /// The request.
    pub id: StageRequestId,
}

/// Ends the pins of files of a stage request: they are not needed on disk any more.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ReleaseStageFiles {
    /// The request; none: whichever of the caller's requests has the file.
    #[serde(default)]
    pub id: Option<StageRequestId>,
    /// Files of it.
    pub paths: Vec<String>,
}

/// Where the data of a file are, as SRM and the WLCG Tape REST API call it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Locality {
    /// On disk only.
    Disk,
    /// On tape only.
    Tape,
    /// On both.
    DiskAndTape,
    /// Nowhere: its last replica and copy are gone, or its only volumes are broken.
    Lost,
    /// It has no content yet.
    None,
    /// Where nobody can get at them now: silent disk servers, volumes that may not be read, no drive.
    Unavailable,
}

/// Asks where files are.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct GetLocalities {
    /// The paths as the user wrote them; the reply names the first [`LOCALITIES_MAX`].
    pub paths: Vec<String>,
}

/// Where one file is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileLocality {
    /// The path as the user wrote it.
    pub path: String,
    /// Where it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub locality: Option<Locality>,
    /// Why that cannot be said, or why it will not come to tape.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
}

/// The answer to [`GetLocalities`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Localities {
    /// In the order of the question.
    pub files: Vec<FileLocality>,
}
