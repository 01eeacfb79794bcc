//! Scans and repairs, as a disk server carries them out.

use crate::control::{Finding, ScanPace, ScanWork};
use base::{Checksums, FileId, ObjectId, Timestamp};
use serde::{Deserialize, Serialize};

/// Most objects of one [`AskObjects`] and of one [`CatalogueWindow`].
pub const SCAN_OBJECTS_MAX: usize = 1000;

/// The position of a scan. A scan of an older release starts again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ScanCursor {
    /// The last object that is done, in the order of object numbers.
    pub through: ObjectId,
}

impl Default for ScanCursor {
    fn default() -> Self {
        Self::START
    }
}

impl ScanCursor {
    /// Where every scan begins.
    pub const START: Self = Self { through: ObjectId(0) };
}

/// A disk server asks for a scan or repair of a partition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NextScan {
    /// The partition.
    pub partition: String,
}

/// The scan or repair to carry out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScanOrders {
    /// Nothing, if nothing.
    pub order: Option<ScanOrder>,
}

/// A scan or repair for a disk server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScanOrder {
    /// Tells a scan from the next one.
    pub scan: u64,
    /// Looking or mending.
    pub work: ScanWork,
    /// How fast.
    pub pace: ScanPace,
    /// The position to continue from.
    pub cursor: ScanCursor,
    /// What nobody knows is moved aside if it was not changed since.
    pub older_than: Timestamp,
}

/// The catalogue's row of an object on a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Known {
    /// It can be read.
    Online(KnownObject),
    /// It is being written, or is to be deleted.
    Moving,
    /// The catalogue does not have it any more.
    Unknown,
    /// The catalogue never gave this number: it may be an old one that was restored.
    Unheard,
}

/// A replica as the catalogue has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownObject {
    /// The object.
    pub object: ObjectId,
    /// The file.
    pub file: FileId,
    /// Bytes.
    pub size: u64,
    /// Sums of the file.
    pub checksums: Checksums,
}

/// Returns the catalogue's rows of objects.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskObjects {
    /// The partition on which they lie.
    pub partition: String,
    /// At most [`SCAN_OBJECTS_MAX`].
    pub objects: Vec<ObjectId>,
}

/// The catalogue's rows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownObjects {
    /// In the order of the question.
    pub known: Vec<Known>,
}

/// Returns the replicas that the catalogue has on a partition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CatalogueWindow {
    /// The partition.
    pub partition: String,
    /// The page begins after this object.
    pub after: ObjectId,
    /// Replicas on all partitions that are looked through for them: 1 to [`SCAN_OBJECTS_MAX`].
    pub span: usize,
}

/// Replicas that can be read, or should be, in the order of their objects. There may be none of the partition in a window, and more
/// behind it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    /// The replicas.
    pub objects: Vec<KnownObject>,
    /// The object to continue after; `None`: this is the last page.
    pub next: Option<ObjectId>,
}

/// A disk server reports its progress.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReportScan {
    /// The partition.
    pub partition: String,
    /// The number of the scan.
    pub scan: u64,
    /// The position to continue from after an interruption.
    pub cursor: ScanCursor,
    /// Looks since the last report.
    pub looks: u64,
    /// Bytes read since.
    pub bytes: u64,
    /// Findings since the last report.
    pub findings: Vec<Finding>,
    /// The work is complete.
    pub is_done: bool,
    /// The failure that interrupts it.
    #[serde(default)]
    pub trouble: Option<String>,
}

/// Whether the disk server shall continue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScanGoesOn {
    /// It is.
    pub goes_on: bool,
}

/// The repair of a finding by a disk server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mending {
    /// The replica must not be served any more. The file's other copies are used from now on.
    Drop,
    /// It was repaired, in this way.
    Mended(String),
    /// Nothing was done, for this reason.
    Left(String),
}

/// Reports the outcome of a repair.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MendFinding {
    /// The partition.
    pub partition: String,
    /// The number of the scan.
    pub scan: u64,
    /// The object.
    pub object: ObjectId,
    /// The outcome.
    pub mending: Mending,
}

/// A disk server asks for the findings to repair.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NextFindings {
    /// The partition.
    pub partition: String,
    /// The page begins after this object.
    pub after: ObjectId,
}

/// Findings about which nothing was done yet, by object.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenFindings {
    /// None: that was all.
    pub findings: Vec<Finding>,
}
