//! Tape: volumes, drives and requests, as operators see and order them.

use base::{RequestId, Timestamp, Vid};
use serde::{Deserialize, Serialize};

/// The phase of a drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TapePhase {
    /// Nothing.
    Idle,
    /// Moving the medium and threading it.
    Loading,
    /// Reading VOL1.
    CheckingLabel,
    /// Winding.
    Locating,
    /// Reading or writing data.
    Transferring,
    /// Making written blocks durable.
    Flushing,
    /// Taking the medium out.
    Unloading,
    /// Needs an operator.
    Stuck,
}

impl TapePhase {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Idle,
        Self::Loading,
        Self::CheckingLabel,
        Self::Locating,
        Self::Transferring,
        Self::Flushing,
        Self::Unloading,
        Self::Stuck,
    ];

    /// The word people read.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Loading => "loading",
            Self::CheckingLabel => "checking label",
            Self::Locating => "locating",
            Self::Transferring => "transferring",
            Self::Flushing => "flushing",
            Self::Unloading => "unloading",
            Self::Stuck => "stuck",
        }
    }
}

/// Adds volumes to the catalogue: new cartridges without a label.
///
/// [`Exists`](base::ErrorKind::Exists): the catalogue has one of them; then none is added.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AddVolumes {
    /// Their bar codes.
    pub vids: Vec<Vid>,
    /// The library that is to have them; `None`: the only one.
    #[serde(default)]
    pub library: Option<String>,
}

/// Volumes that were added.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddedVolumes {
    /// The library.
    pub library: String,
    /// The volumes.
    pub vids: Vec<Vid>,
}

/// Puts a volume that was taken out of use back, or takes it out.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SetVolumeState {
    /// The volume.
    pub vid: Vid,
    /// The new state.
    pub state: VolumeState,
    /// Why, for those who look at it; at most [`REASON_BYTES_MAX`] bytes.
    #[serde(default)]
    pub reason: String,
}

/// Longest reason or message of an operator that is kept.
pub const REASON_BYTES_MAX: usize = 400;

/// The state of a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VolumeState {
    /// Has no label yet.
    Blank,
    /// May be read and appended to.
    Appendable,
    /// May be read: an operator or its write-protection forbids to write.
    ReadOnly,
    /// May be read.
    Full,
    /// May be read, and may hold files that the catalogue does not know: to be surveyed.
    Unread,
    /// Not used until an operator enables it.
    Suspect,
    /// Cannot be read any more; what lies only there is lost.
    Broken,
    /// An operator has taken it out of use for a while.
    Disabled,
    /// It has left the house.
    Exported,
}

impl VolumeState {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Blank,
        Self::Appendable,
        Self::ReadOnly,
        Self::Full,
        Self::Unread,
        Self::Suspect,
        Self::Broken,
        Self::Disabled,
        Self::Exported,
    ];

    /// Whether files are read from it.
    #[must_use]
    pub fn is_readable(self) -> bool {
        !matches!(self, Self::Suspect | Self::Broken | Self::Disabled | Self::Exported)
    }

    /// Whether files may be written to it, after it was labelled if it is blank.
    #[must_use]
    pub fn is_writable(self) -> bool {
        matches!(self, Self::Blank | Self::Appendable)
    }

    /// The word in the catalogue and in calls.
    #[must_use]
    pub fn as_word(self) -> &'static str {
        if self == Self::ReadOnly { "read_only" } else { self.as_str() }
    }

    /// The word people read.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Blank => "blank",
            Self::Appendable => "appendable",
            Self::ReadOnly => "read-only",
            Self::Full => "full",
            Self::Unread => "unread",
            Self::Suspect => "suspect",
            Self::Broken => "broken",
            Self::Disabled => "disabled",
            Self::Exported => "exported",
        }
    }
}

/// Takes a request that failed, or waits for its next try, back into the queue now.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RetryRequest {
    /// The queue row.
    pub request: RequestId,
}

/// Takes a drive out of use: what it does now it ends, and nothing new begins.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct DisableDrive {
    /// The drive.
    pub drive: String,
    /// Why, for those who look at it; at most [`REASON_BYTES_MAX`] bytes.
    #[serde(default)]
    pub reason: String,
}

/// Puts a drive that was taken out of use back.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct EnableDrive {
    /// The drive.
    pub drive: String,
}

/// Forgets a drive that no tape server brings any more.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RemoveDrive {
    /// The drive.
    pub drive: String,
}

/// Orders surveys of volumes: files beyond the end that the catalogue knows are read and added to it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SurveyVolumes {
    /// These.
    pub vids: Vec<Vid>,
    /// Include all suspect volumes, and those that a restore made read-only.
    pub all: bool,
}

/// The answer to [`SurveyVolumes`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SurveyOrdered {
    /// The volumes to survey.
    pub vids: Vec<Vid>,
}

/// The number of something that an operator is asked to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct OperatorRequestId(pub u64);

impl std::fmt::Display for OperatorRequestId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// Whether an operator has answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OperatorAnswer {
    /// Not yet.
    Open,
    /// It is done.
    Done,
    /// It cannot be done: requests that need it fail with the message.
    Cancelled,
    /// It is not needed any more.
    Withdrawn,
}

impl OperatorAnswer {
    /// The word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Done => "done",
            Self::Cancelled => "cancelled",
            Self::Withdrawn => "withdrawn",
        }
    }
}

/// What an operator is asked to do: put a volume that is in no library where it can be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperatorRequest {
    /// Its number.
    pub id: OperatorRequestId,
    /// The volume to load.
    pub vid: Vid,
    /// Where: a drive, or a library; empty: any library.
    pub place: String,
    /// Why.
    pub reason: String,
    /// Since when.
    pub created: Timestamp,
    /// The answer.
    pub answer: OperatorAnswer,
    /// When it was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered: Option<Timestamp>,
    /// Who has given it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub operator: String,
    /// What they say to those who wait.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// Says what became of something that operators were asked to do.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AnswerOperatorRequest {
    /// The request.
    pub id: OperatorRequestId,
    /// Done or cancelled.
    pub answer: OperatorAnswer,
    /// What to say to those who wait; at most [`REASON_BYTES_MAX`] bytes.
    #[serde(default)]
    pub message: String,
}
