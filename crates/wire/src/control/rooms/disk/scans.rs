//! Scans and repairs, as a disk server carries them out.

use crate::control::{Finding, ScanPace, ScanWork};
use base::{Checksums, FileId, ObjectId, Timestamp};
use serde::{Deserialize, Serialize};

/// Most objects of one [`AskObjects`] and of one [`CatalogueWindow`].
pub const SCAN_OBJECTS_MAX: usize = 1000;

/// Where a scan has come to. One that an older release had begun begins anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ScanCursor {
    /// The last object that is done: they are looked at in the order of their numbers.
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

/// A disk server asks what to do with a partition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NextScan {
    /// The partition.
    pub partition: String,
}

/// What there is to do.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScanOrders {
    /// Nothing, if nothing.
    pub order: Option<ScanOrder>,
}

/// What a disk server is to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScanOrder {
    /// Tells a scan from the next one.
    pub scan: u64,
    /// Looking or mending.
    pub work: ScanWork,
    /// How fast.
    pub pace: ScanPace,
    /// Where to go on.
    pub cursor: ScanCursor,
    /// What nobody knows is moved aside if it was not changed since.
    pub older_than: Timestamp,
}

/// What the catalogue knows of an object on a partition.
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

/// Asks what the catalogue knows of objects.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskObjects {
    /// The partition on which they lie.
    pub partition: String,
    /// At most [`SCAN_OBJECTS_MAX`].
    pub objects: Vec<ObjectId>,
}

/// What the catalogue knows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownObjects {
    /// In the order of the question.
    pub known: Vec<Known>,
}

/// Asks which replicas the catalogue has on a partition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CatalogueWindow {
    /// The partition.
    pub partition: String,
    /// Those after this object.
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
    /// After which to ask for more; `None`: that was all.
    pub next: Option<ObjectId>,
}

/// A disk server says how far it has come.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReportScan {
    /// The partition.
    pub partition: String,
    /// Which scan.
    pub scan: u64,
    /// Where to go on if it is interrupted now.
    pub cursor: ScanCursor,
    /// Looks since the last report.
    pub looks: u64,
    /// Bytes read since.
    pub bytes: u64,
    /// What was found since.
    pub findings: Vec<Finding>,
    /// All is done.
    pub is_done: bool,
    /// What is in the way.
    #[serde(default)]
    pub trouble: Option<String>,
}

/// Whether the disk server is to go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScanGoesOn {
    /// It is.
    pub goes_on: bool,
}

/// What a disk server has done about a finding, or wants done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mending {
    /// The replica must not be served any more. The file's other copies are used from now on.
    Drop,
    /// It is mended; in which way.
    Mended(String),
    /// Nothing was done; why.
    Left(String),
}

/// Tells what came of a finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MendFinding {
    /// The partition.
    pub partition: String,
    /// Which scan.
    pub scan: u64,
    /// The object.
    pub object: ObjectId,
    /// What came of it.
    pub mending: Mending,
}

/// A disk server asks which findings are to be mended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NextFindings {
    /// The partition.
    pub partition: String,
    /// Those after this object.
    pub after: ObjectId,
}

/// Findings about which nothing was done yet, by object.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenFindings {
    /// None: that was all.
    pub findings: Vec<Finding>,
}
