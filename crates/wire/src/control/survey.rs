//! Surveys: a catalogue that was lost or restored learns from the labels what lies on a volume.

use super::AppendPoint;
use base::{Checksums, FileId, SessionId, Timestamp, Vid};
use serde::{Deserialize, Serialize};

/// Has volumes surveyed: what lies behind the end that the catalogue knows is read, and what it says is taken in.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SurveyVolumes {
    /// These.
    pub vids: Vec<Vid>,
    /// Also all that are suspect, and those that a restore made read only.
    pub all: bool,
}

/// The answer to [`SurveyVolumes`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SurveyOrdered {
    /// What will be surveyed.
    pub vids: Vec<Vid>,
}

/// A whole file on tape, as its labels and its data say.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundFile {
    /// The file.
    pub file: FileId,
    /// Sequence number on the volume.
    pub fseq: u32,
    /// Logical block of its first header label.
    pub block: u64,
    /// Logical block after its last tape mark.
    pub end_block: u64,
    /// Bytes.
    pub size: u64,
    /// Of what was read.
    pub checksums: Checksums,
    /// The day on which it was written to tape: its beginning, UTC. Labels know no more.
    pub created: Timestamp,
}

/// Most files in one [`FilesFound`].
pub const FILES_FOUND_LEN_MAX: usize = 200;

/// Reports files that a survey has found. The next survey of the volume begins behind them.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct FilesFound {
    /// The session.
    pub session: SessionId,
    /// In the order of the tape, [`FILES_FOUND_LEN_MAX`] at most.
    pub files: Vec<FoundFile>,
    /// Bytes of the cartridge that are used.
    pub used_bytes: u64,
}

/// Reports that a survey has come to the end of the data.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct VolumeSurveyed {
    /// The session.
    pub session: SessionId,
    /// Where the next file goes; `None`: the medium is blank, without even a label.
    pub end: Option<AppendPoint>,
    /// Bytes of the cartridge that are used.
    pub used_bytes: u64,
}
