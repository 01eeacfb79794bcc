//! Scans: partitions compared with the catalogue.

use base::{FileId, FilePath, Millis, ObjectId, Timestamp};
use serde::{Deserialize, Serialize};

/// Findings that are kept for each partition; more are only counted.
pub const FINDINGS_MAX: u64 = 10_000;

/// The kinds of difference between an object and the catalogue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingKind {
    /// In the catalogue, not on disk.
    Lost,
    /// On disk, not in the catalogue.
    Orphan,
    /// It is longer or shorter than the catalogue says.
    WrongSize,
    /// Its bytes are not those that were written.
    WrongChecksum,
    /// It cannot be read, or its description is missing or damaged.
    Damaged,
}

impl FindingKind {
    /// All kinds.
    pub const ALL: [Self; 5] =
        [Self::Lost, Self::Orphan, Self::WrongSize, Self::WrongChecksum, Self::Damaged];

    /// The word people read.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Lost => "lost",
            Self::Orphan => "orphan",
            Self::WrongSize => "wrong size",
            Self::WrongChecksum => "wrong checksum",
            Self::Damaged => "damaged",
        }
    }
}

/// A difference that a scan has found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// The object.
    pub object: ObjectId,
    /// The kind of difference.
    pub kind: FindingKind,
    /// The file, as the catalogue says, or the object's description.
    #[serde(default)]
    pub file: Option<FileId>,
    /// More about it.
    pub detail: String,
}

/// The kind of scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScanWork {
    /// Find differences.
    Look,
    /// Repair findings.
    Repair,
    /// Verify for the pool's interval: find differences, and repair damage at once if the file has another copy.
    Scrub,
}

/// How fast, and how thoroughly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScanPace {
    /// Whether every byte is read.
    pub is_checksummed: bool,
    /// Most objects looked at in a second.
    pub objects_per_s: u64,
    /// Most bytes read in a second.
    pub bytes_per_s: u64,
}

/// Starts a scan of partitions. Earlier findings are discarded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartScan {
    /// The partition; `None`: all.
    #[serde(default)]
    pub partition: Option<String>,
    /// How fast.
    pub pace: ScanPace,
}

/// Ends scans and repairs before they are done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StopScan {
    /// The partition; `None`: all.
    #[serde(default)]
    pub partition: Option<String>,
}

/// Continues stopped scans and repairs where they stopped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResumeScan {
    /// The partition; `None`: all.
    #[serde(default)]
    pub partition: Option<String>,
}

/// Repairs findings: lost or damaged replicas are not served any more, and unknown objects are moved aside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RepairScan {
    /// The partition.
    pub partition: String,
    /// Unknown objects that changed within this time are left alone.
    pub older_than: Millis,
}

/// Shows scans.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetScans {}

/// Scans by partition.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Scans {
    /// The last scan of each partition that an operator started.
    pub scans: Vec<ScanInfo>,
    /// How far the bytes of each were compared with their checksums because the pool's interval wants it.
    #[serde(default)]
    pub scrubs: Vec<ScrubInfo>,
}

/// The verification of a partition by its pool's interval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ScrubInfo {
    /// The partition.
    pub partition: String,
    /// When the last one began; until the first, when the partition was seen first.
    pub begun: Timestamp,
    /// When the last one came to its end.
    pub finished: Option<Timestamp>,
    /// The one under way, or the last.
    pub scan: Option<ScanInfo>,
}

/// The state of a scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScanState {
    /// Under way, or waiting for the disk server.
    Running,
    /// Complete.
    Done,
    /// Stopped by an operator.
    Stopped,
}

/// A scan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ScanInfo {
    /// The partition.
    pub partition: String,
    /// Looking or mending.
    pub work: ScanWork,
    /// Its state.
    pub state: ScanState,
    /// How fast, and how thoroughly.
    pub pace: ScanPace,
    /// When it was started.
    pub started: Timestamp,
    /// When the disk server last reported.
    pub updated: Timestamp,
    /// Looks: each object counts twice, once on disk and once in the catalogue.
    pub looks: u64,
    /// How much of it is done, from 0 to 1.
    pub progress: f64,
    /// Bytes read.
    pub bytes: u64,
    /// Looks in a second, lately.
    pub looks_per_s: f64,
    /// The estimated time left, if known.
    pub left: Option<Millis>,
    /// Findings by kind, in the order of [`FindingKind::ALL`].
    pub found: [u64; 5],
    /// Repaired findings.
    pub mended: u64,
    /// Why it is interrupted, if it is.
    pub trouble: Option<String>,
}

impl ScanInfo {
    /// The word people read for what it does, or has done.
    #[must_use]
    pub fn state_word(&self) -> &'static str {
        match (self.work, self.state) {
            (ScanWork::Look, ScanState::Running) => "looking",
            (ScanWork::Look, ScanState::Done) => "looked",
            (ScanWork::Repair, ScanState::Running) => "mending",
            (ScanWork::Repair, ScanState::Done) => "repaired",
            (ScanWork::Scrub, ScanState::Running) => "verifying",
            (ScanWork::Scrub, ScanState::Done) => "verified",
            (_, ScanState::Stopped) => "stopped",
        }
    }
}

/// Returns the findings of a scan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetFindings {
    /// The partition.
    pub partition: String,
    /// The page begins after this object.
    pub after: ObjectId,
}

/// The findings of a scan.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Findings {
    /// By object.
    pub findings: Vec<FindingInfo>,
    /// Whether there are more.
    pub is_partial: bool,
}

/// A finding and its outcome.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FindingInfo {
    /// The finding.
    #[serde(flatten)]
    pub finding: Finding,
    /// The file's path, if the catalogue has it.
    #[serde(default)]
    pub path: Option<FilePath>,
    /// The repair, or the reason for none; empty: not handled yet.
    pub outcome: String,
}
