//! Tape: volumes, drives and requests, as operators see and order them.

use base::{RequestId, Vid};
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
}

/// The state of a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VolumeState {
    /// Has no label yet.
    Blank,
    /// May be read and appended to.
    Appendable,
    /// May be read.
    Full,
    /// May be read, and may hold files that the catalogue does not know: to be surveyed.
    Unread,
    /// Not used until an operator enables it.
    Suspect,
}

impl VolumeState {
    /// The word people read.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Blank => "blank",
            Self::Appendable => "appendable",
            Self::Full => "full",
            Self::Unread => "unread",
            Self::Suspect => "suspect",
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
    /// Why, for those who look at it; at most 400 bytes.
    #[serde(default)]
    pub reason: String,
}

/// Puts a drive that was taken out of use back.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct EnableDrive {
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
