//! Scans: partitions compared with the catalogue.

use base::{FileId, FilePath, Millis, ObjectId, Timestamp};
use serde::{Deserialize, Serialize};

/// Findings that are kept for each partition; more are only counted.
pub const FINDINGS_MAX: u64 = 10_000;

/// What is wrong with an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingKind {
    /// The catalogue has it, the disk has not.
    Lost,
    /// The disk has it, the catalogue has not.
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

/// Something that a scan has found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// The object.
    pub object: ObjectId,
    /// What is wrong.
    pub kind: FindingKind,
    /// The file, as the catalogue says, or the object's description.
    #[serde(default)]
    pub file: Option<FileId>,
    /// More about it.
    pub detail: String,
}

/// What a disk server is to do with a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScanWork {
    /// Look for what is wrong.
    Look,
    /// Mend what was found.
    Repair,
    /// Look, and mend at once what is damaged and safe elsewhere: the pool's interval wants it.
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

/// Begins to compare partitions with the catalogue. What was found before is forgotten.
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

/// Goes on with scans and repairs that were stopped, where they had come to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResumeScan {
    /// The partition; `None`: all.
    #[serde(default)]
    pub partition: Option<String>,
}

/// Mends what was found: replicas that are lost or damaged are not served any more, and what nobody knows is moved aside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RepairScan {
    /// The partition.
    pub partition: String,
    /// What nobody knows is left alone if it was changed since.
    pub older_than: Millis,
}

/// Shows scans.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetScans {}

/// Scans by partition.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Scans {
    /// The last scan of each that a person wanted.
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

/// Where a scan is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScanState {
    /// Under way, or waiting for the disk server.
    Running,
    /// All was looked at.
    Done,
    /// Somebody ended it.
    Stopped,
}

/// A scan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ScanInfo {
    /// The partition.
    pub partition: String,
    /// Looking or mending.
    pub work: ScanWork,
    /// Where it is in its life.
    pub state: ScanState,
    /// How fast, and how thoroughly.
    pub pace: ScanPace,
    /// When it was started.
    pub started: Timestamp,
    /// When the disk server told of it last.
    pub updated: Timestamp,
    /// Looks: each object is looked at twice, on the disk and from the catalogue.
    pub looks: u64,
    /// How much of it is done, from 0 to 1.
    pub progress: f64,
    /// Bytes read.
    pub bytes: u64,
    /// Looks in a second, lately.
    pub looks_per_s: f64,
    /// How long it will take, if that is known.
    pub left: Option<Millis>,
    /// What was found, by kind, in the order of [`FindingKind::ALL`].
    pub found: [u64; 5],
    /// What of it was mended.
    pub mended: u64,
    /// Why it does not go on, if it does not.
    pub trouble: Option<String>,
}

/// Shows what a scan has found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetFindings {
    /// The partition.
    pub partition: String,
    /// Those after this object.
    pub after: ObjectId,
}

/// What a scan has found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Findings {
    /// By object.
    pub findings: Vec<FindingInfo>,
    /// Whether there are more.
    pub is_partial: bool,
}

/// A finding, and what came of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FindingInfo {
    /// What was found.
    #[serde(flatten)]
    pub finding: Finding,
    /// The file's path, if the catalogue has it.
    #[serde(default)]
    pub path: Option<FilePath>,
    /// What was done about it, or why nothing; nothing yet if it is empty.
    pub outcome: String,
}
