//! Between a tape server and the head: drives ask for sessions and report what they did.

use crate::control::{DriveDevice, TapePhase};
use base::{Checksums, Failure, FileId, FilePath, RequestId, SessionId, Timestamp, Vid};
use serde::{Deserialize, Serialize};

/// A cartridge that the changer sees.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cartridge {
    /// Its bar code.
    pub vid: Vid,
    /// Bytes it can hold.
    pub capacity_bytes: u64,
}

/// A drive and the volume in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DriveContent {
    /// The drive.
    pub drive: String,
    /// The loaded volume.
    pub loaded: Option<Vid>,
    /// What it is.
    #[serde(default)]
    pub device: DriveDevice,
}

/// A tape server announces its library. Sessions of its earlier boots are over; their requests go back to the queue.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RegisterLibrary {
    /// Name of the library.
    pub library: String,
    /// Its drives.
    pub drives: Vec<DriveContent>,
    /// The cartridges in slots and drives.
    pub cartridges: Vec<Cartridge>,
}

/// An idle drive asks for a session.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct NextTapeSession {
    /// The drive.
    pub drive: String,
    /// The loaded volume.
    pub loaded: Option<Vid>,
}

/// The answer to [`NextTapeSession`].
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TapeOrders {
    /// The session to run, if there is one.
    pub session: Option<TapeSession>,
    /// Added volumes: the library must make their cartridges before it asks again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub insert: Vec<Vid>,
    /// The drive is out of use, or its volume is wanted elsewhere: the volume in it is put away now.
    #[serde(default)]
    pub unload: bool,
    /// An operator says that cartridges were moved: the inventory is looked at before the drive asks again.
    #[serde(default)]
    pub look: bool,
}

impl TapeOrders {
    /// Whether there is nothing to do.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.session.is_none() && self.insert.is_empty() && !self.unload && !self.look
    }
}

/// One volume, one drive, one kind of work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TapeSession {
    /// The number of the session in every report.
    pub id: SessionId,
    /// The volume to load, if it is not loaded.
    pub vid: Vid,
    /// Bytes of the cartridge that are used as far as the catalogue knows; for drives that cannot tell.
    #[serde(default)]
    pub used_bytes: u64,
    /// What to do with it.
    pub work: TapeWork,
}

/// The work of a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TapeWork {
    /// Write VOL1 on a blank volume. A volume that has any label is refused.
    Label,
    /// Append files.
    Archive {
        /// Where the last good file ends.
        append: AppendPoint,
        /// In this order.
        files: Vec<ArchiveFile>,
    },
    /// Read files.
    Recall {
        /// In this order.
        files: Vec<RecallFile>,
    },
    /// Read the files of the volume and report them.
    Survey {
        /// What lies before it is known.
        from: AppendPoint,
        /// The session ends behind the file with which it has read so many: others may wait for the drive.
        bytes_max: u64,
    },
    /// Read files and compare them with the catalogue; nothing is written to disk.
    Verify {
        /// In the order of the tape; all files of a bundle.
        files: Vec<VerifyFile>,
    },
}

/// The end of the catalogued data of a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct AppendPoint {
    /// Sequence number that the next file gets, from 1.
    pub fseq: u32,
    /// Logical block (blocks and marks count) where its first header label goes; 1 on a volume with only VOL1.
    pub block: u64,
    /// Whether an interrupted session may have left blocks behind this point that nothing refers to. If not, and there
    /// is data, the volume is not what the catalogue believes: refuse to write.
    pub may_have_leftover: bool,
}

/// Where a file lies that shares a tape file with others (`spec/tape.md` §6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TapeMember {
    /// The bundle; compared with the labels.
    pub bundle: FileId,
    /// Bytes of the bundle before the data of the file.
    pub offset: u64,
}

/// A file to write to tape.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArchiveFile {
    /// The queue row.
    pub request: RequestId,
    /// The file; goes into the labels.
    pub file: FileId,
    /// For people.
    pub path: FilePath,
    /// Bytes.
    pub size: u64,
    /// Of the whole file; compared while it streams.
    pub checksums: Checksums,
    /// `root://` URL with a capability to read the replica.
    pub source: String,
    /// When it was modified; for people.
    #[serde(default)]
    pub modified: Timestamp,
    /// Files that follow each other with the same bundle become one tape file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bundle: Option<FileId>,
}

/// A file to read from tape.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecallFile {
    /// The queue row.
    pub request: RequestId,
    /// The file; compared with the labels.
    pub file: FileId,
    /// For people.
    pub path: FilePath,
    /// Sequence number on the volume.
    pub fseq: u32,
    /// Logical block of its first header label.
    pub block: u64,
    /// Bytes.
    pub size: u64,
    /// Of the whole file; compared before the file is announced.
    pub checksums: Checksums,
    /// `root://` URL with a capability to write the reserved object.
    pub sink: String,
    /// Where it lies in a bundle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub member: Option<TapeMember>,
}

/// A file on tape that is to be compared with the catalogue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerifyFile {
    /// The file; compared with the labels.
    pub file: FileId,
    /// Sequence number on the volume.
    pub fseq: u32,
    /// Logical block of its first header label.
    pub block: u64,
    /// Bytes.
    pub size: u64,
    /// Of the whole file.
    pub checksums: Checksums,
    /// Where it lies in a bundle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub member: Option<TapeMember>,
}

/// A file that cannot be read, or differs from the catalogue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DamagedFile {
    /// Sequence number on the volume.
    pub fseq: u32,
    /// Bytes of the bundle before the file; 0: it lies alone.
    #[serde(default)]
    pub offset: u64,
    /// What is wrong with it.
    pub failure: Failure,
}

/// Reports how far a verification is.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct FilesVerified {
    /// The session.
    pub session: SessionId,
    /// All tape files before this one were read.
    pub next_fseq: u32,
    /// Those of them that are damaged, since the last report.
    pub damaged: Vec<DamagedFile>,
}

/// A drive reports its progress, which is also its heartbeat.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TapeProgress {
    /// The session.
    pub session: SessionId,
    /// The phase of the session.
    pub phase: TapePhase,
    /// The file it works on.
    pub request: Option<RequestId>,
    /// Bytes of that file that are copied.
    pub bytes_done: u64,
}

/// A file that is on tape, flushed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArchivedCopy {
    /// The queue row.
    pub request: RequestId,
    /// Sequence number it got.
    pub fseq: u32,
    /// Logical block of its first header label.
    pub block: u64,
    /// Logical block after its last tape mark: where the next file goes.
    pub end_block: u64,
    /// Where it lies in a bundle. Sequence number and blocks are those of the bundle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub member: Option<TapeMember>,
}

/// Most copies in one [`FilesArchived`]: those of a bundle, or fewer.
pub const FILES_ARCHIVED_LEN_MAX: usize = 1000;
const _: () = assert!(FILES_ARCHIVED_LEN_MAX >= crate::media::bundle::MEMBERS_MAX);

/// Reports copies that are durable on tape.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct FilesArchived {
    /// The session.
    pub session: SessionId,
    /// In the order of the tape, [`FILES_ARCHIVED_LEN_MAX`] at most; all files of a bundle.
    pub copies: Vec<ArchivedCopy>,
    /// Bytes of the cartridge that are used now.
    pub used_bytes: u64,
}

/// Reports a file whose recalled bytes are verified and durable on disk.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct FileRecalled {
    /// The session.
    pub session: SessionId,
    /// The queue row.
    pub request: RequestId,
}

/// The component at fault, which is taken out of use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Blame {
    /// The cartridge or what is written on it.
    Volume,
    /// The drive or the changer.
    Drive,
    /// This file only: its source or its sink.
    File,
    /// The disk server or the network: nothing is wrong with tape.
    System,
}

/// Reports a file that could not be copied; the session continues with the next one.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RequestFailed {
    /// The session.
    pub session: SessionId,
    /// The queue row.
    pub request: RequestId,
    /// The component at fault.
    pub blame: Blame,
    /// The failure.
    pub failure: Failure,
}

/// The drive is free again. Requests of the session that were not reported go back to the queue.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct EndTapeSession {
    /// The session.
    pub session: SessionId,
    /// Loads of the medium for the session, 0 or 1; for the bill.
    pub loads: u32,
    /// The failure that ended it early, and the component at fault.
    pub trouble: Option<(Blame, Failure)>,
}

/// A library could not insert the cartridge of an added volume.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CartridgeRefused {
    /// The drive that was to load it.
    pub drive: String,
    /// The volume.
    pub vid: Vid,
    /// Why.
    pub failure: Failure,
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
    /// Where it lies in a bundle. Sequence number and blocks are those of the bundle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub member: Option<TapeMember>,
}

/// Most files in one [`FilesFound`]: a bundle, and what was found before it.
pub const FILES_FOUND_LEN_MAX: usize = 1200;

/// Reports files that a survey has found. The next survey of the volume begins behind them.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct FilesFound {
    /// The session.
    pub session: SessionId,
    /// In the order of the tape, [`FILES_FOUND_LEN_MAX`] at most; all files of a bundle.
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
