//! Scans: partitions compared with the catalogue.

use base::{Checksums, FileId, FilePath, Millis, ObjectId, Timestamp};
use serde::{Deserialize, Serialize};

/// Most objects of one [`AskObjects`] and of one [`CatalogueWindow`].
pub const SCAN_OBJECTS_MAX: usize = 1000;
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
