//! Labelled volumes and files on any drive (`spec/tape.md` §2 and §3).
//!
//! Every mismatch is a [`Fault`](crate::fault::Fault) whose failure names volume, file, drive, what was found and what was expected.
//! Failures of the source or the sink pass through as they are.

mod append;
mod bundle;
mod context;
mod read;
mod survey;
#[cfg(test)]
#[path = "label_io_tests.rs"]
mod tests;
mod volume;

use crate::drive::TapeDrive;
pub use append::{append_file, close_end, seek_append};
use append::{check_before, is_free};
use base::{Checksums, FileId, Vid};
pub use bundle::{Bundle, OpenBundle, SmallFile, append_bundle, read_copy};
use context::LabelContext;
use read::Data;
pub use read::read_file;
pub use survey::{Found, begin_survey, next_file};
pub use volume::{Relabel, check_label, label_volume};
use wire::media::label::{FileLabels, LabelDate, Text, Writer};

/// Logical block of the HDR1 of the first file: behind VOL1.
pub const FIRST_FILE_BLOCK: u64 = 1;
/// Labels on either side of the data.
const LABELS: usize = 3;
/// Objects around the data of a file: two times three labels and a mark, and the mark in the middle.
pub const OBJECTS_AROUND_DATA: u64 = 2 * LABELS as u64 + 3;

/// A file on tape, or to be written there, as the catalogue knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TapeFile {
    /// The volume.
    pub vid: Vid,
    /// File sequence number on the volume, from 1.
    pub fseq: u32,
    /// The file of the namespace.
    pub file_id: FileId,
    /// Logical block of its HDR1.
    pub block: u64,
    /// Bytes.
    pub size: u64,
    /// Of all its bytes.
    pub checksums: Checksums,
}

impl TapeFile {
    /// What its labels say if its data blocks have `block_bytes` bytes.
    fn labels(&self, block_bytes: u32) -> FileLabels {
        FileLabels { vid: self.vid.clone(), fseq: self.fseq, file_id: self.file_id, block_bytes }
    }
}

/// How files are written.
#[derive(Debug, Clone)]
pub struct Style {
    /// Bytes of a data block.
    pub block_bytes: u32,
    /// The day, for the labels.
    pub today: LabelDate,
    /// Who writes, for the labels.
    pub writer: Writer,
}

/// A file that was written; durable after [`TapeDrive::flush`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Appended {
    /// Logical block behind its last mark: where the next file goes.
    pub end_block: u64,
    /// Data blocks.
    pub blocks: u64,
    /// Whether the end of the medium is near, so that no further file should be begun.
    pub is_nearly_full: bool,
}

/// Notes for the labels about who writes: `site` and `host` are made to fit.
#[must_use]
pub fn writer(drive: &dyn TapeDrive, site: &str, host: &str) -> Writer {
    let identity = drive.identity();
    Writer {
        system: system(),
        site: Text::fitted(site),
        host: Text::fitted(host),
        vendor: identity.vendor.clone(),
        model: identity.model.clone(),
        serial: identity.serial.clone(),
    }
}

/// Program and version, for the labels.
fn system() -> Text<13> {
    let version = concat!(env!("CARGO_PKG_VERSION_MAJOR"), ".", env!("CARGO_PKG_VERSION_MINOR"));
    Text::fitted(&format!("BACKPLANE {version}"))
}
