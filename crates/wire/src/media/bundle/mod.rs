//! Bundles: many small files that lie on tape as one, in the form that `tar` reads (`spec/tape.md` §6).
//!
//! **Problem.** A tape file costs six labels and four marks; a drive that writes millions of small ones stands still most of the
//! time.
//!
//! **Idea.** The data of a bundle are a POSIX `tar` archive of whole files, so that people need nothing but the labels and
//! `tar` to read it. Its last member is an index that names number, position and checksums of each. The catalogue keeps the
//! position of each file, so that one comes back without the others.
//!
//! **Start reading** with [`Scanner`], which reads a bundle of which nothing is known; [`header`] makes one.

mod header;
mod index;
mod scanner;
#[cfg(test)]
mod tests;

use base::{Checksums, FileId};
pub use header::{END, header, padding};
pub use index::encode_index;
pub use scanner::{Scanner, fuzz_bundle};
use thiserror::Error;

/// `tar` counts in records of so many bytes.
pub const RECORD_BYTES: usize = 512;

/// Most files of a bundle: it is reported in one call, and the head takes them in at once.
pub const MEMBERS_MAX: usize = 1000;

/// The name of the index in the archive.
pub const INDEX_NAME: &str = ".backplane/index";

/// Longest index: as many members as there may be, each with the longest path, every byte of which needs two.
pub const INDEX_BYTES_MAX: u64 = (MEMBERS_MAX as u64 + 1) * (2 * base::limits::PATH_BYTES_MAX as u64 + 256);

/// In labels, numbers from here on are those of bundles. No file of the namespace has one.
const FIRST: u64 = 1 << 63;

/// What the labels call a bundle.
#[must_use]
pub fn label_of(number: u64) -> FileId {
    FileId(number | FIRST)
}

/// The number of a bundle, if labels with this file id are those of one.
#[must_use]
pub fn number_of(label: FileId) -> Option<u64> {
    (label.0 >= FIRST).then_some(label.0 & !FIRST)
}

/// A file in a bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// The file.
    pub file: FileId,
    /// Bytes of the bundle before its data.
    pub offset: u64,
    /// Bytes.
    pub size: u64,
    /// Of all its bytes.
    pub checksums: Checksums,
    /// Its path when it was written, without the first slash.
    pub path: String,
}

/// Why bytes are not a bundle.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum BundleError {
    /// No header of `tar` where one must be.
    #[error("no tar header at byte {0} of the bundle")]
    NoHeader(u64),
    /// A member that we never write.
    #[error("tar member of type {kind:?} at byte {at} of the bundle")]
    Kind {
        /// Where its header is.
        at: u64,
        /// The type flag.
        kind: char,
    },
    /// More members than there may be, or too long an index.
    #[error("the bundle has more than {MEMBERS_MAX} files, or too long an index")]
    TooLong,
    /// The bytes end inside it.
    #[error("the bundle ends inside of it, at byte {0}")]
    Ends(u64),
    /// There is no index, or it cannot be read.
    #[error("the index of the bundle cannot be read: {0}")]
    Index(String),
    /// The index differs from the data.
    #[error("file {file} of the bundle, at byte {offset}, is not what the index says")]
    Differs {
        /// The file.
        file: FileId,
        /// Where its data begin.
        offset: u64,
    },
}
