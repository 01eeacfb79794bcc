//! Adoption: files that lie on the file system of a partition become files of the facility where they are.

use base::{Failure, FilePath, Timestamp};
use serde::{Deserialize, Serialize};

/// Files left alone that are kept by name for each partition; more are only counted.
pub const LEFT_ALONE_MAX: u64 = 10_000;

/// Files left alone that one [`GetLeftAlone`] shows, and one [`ReportAdoption`](crate::control::ReportAdoption) tells.
pub const LEFT_ALONE_PAGE: usize = 1000;

/// Files and their bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Amount {
    /// Files.
    pub files: u64,
    /// Bytes of them.
    pub bytes: u64,
}

/// Orders a disk server to add a directory of its host to the namespace. For operators.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StartAdoption {
    /// The partition whose file system it lies on; `None`: the only one there is.
    #[serde(default)]
    pub partition: Option<String>,
    /// The directory on that host.
    pub directory: String,
    /// What it is called in the facility.
    pub path: FilePath,
    /// Remove the old names.
    #[serde(default)]
    pub is_moving: bool,
    /// Most bytes read in a second.
    pub bytes_per_s: u64,
}

/// The answer to [`StartAdoption`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdoptionStarted {
    /// The partition that adopts.
    pub partition: String,
    /// Which adoption of it.
    pub adoption: u64,
}

/// Ends adoptions before they are done. What was adopted stays.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StopAdoption {
    /// The partition; `None`: all.
    #[serde(default)]
    pub partition: Option<String>,
}

/// Shows adoptions.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetAdoptions {}

/// Adoptions by partition.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Adoptions {
    /// The last one of each.
    pub adoptions: Vec<AdoptionInfo>,
}

/// The state of an adoption.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AdoptionState {
    /// Under way, or waiting for the disk server.
    Running,
    /// Complete.
    Done,
    /// Stopped by an operator.
    Stopped,
    /// The disk server may not, or cannot.
    Refused,
}

impl AdoptionState {
    /// The word people read.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Done => "done",
            Self::Stopped => "stopped",
            Self::Refused => "refused",
        }
    }
}

/// An adoption.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdoptionInfo {
    /// The partition.
    pub partition: String,
    /// Which adoption of it.
    pub adoption: u64,
    /// Its state.
    pub state: AdoptionState,
    /// The directory on the host.
    pub directory: String,
    /// What it is called in the facility.
    pub path: FilePath,
    /// Old names are removed.
    pub is_moving: bool,
    /// When it was started.
    pub started: Timestamp,
    /// When the disk server last reported.
    pub updated: Timestamp,
    /// The total, once it was counted.
    pub total: Option<Amount>,
    /// Files checked since the adoption was last resumed.
    pub seen: Amount,
    /// Adopted files.
    pub adopted: Amount,
    /// Skipped files.
    pub left_alone: u64,
    /// Files whose owner is no user of that host: they belong to the owner of the facility.
    pub unowned: u64,
    /// Why it is interrupted, or was refused.
    pub trouble: Option<Failure>,
}

/// Lists the files that the last adoption of a partition skipped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GetLeftAlone {
    /// The partition.
    pub partition: String,
    /// After this number.
    pub after: u64,
}

/// A file that was not adopted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftAlone {
    /// Its name, from the directory on; what is not UTF-8 is replaced.
    pub name: String,
    /// Why.
    pub failure: Failure,
}

/// Files that an adoption skipped.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AllLeftAlone {
    /// In the order in which it was found.
    pub left: Vec<LeftAlone>,
    /// The number after which to ask for more; `None`: that was all.
    pub next: Option<u64>,
}
