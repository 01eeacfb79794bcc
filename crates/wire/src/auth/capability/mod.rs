//! Capabilities: a signed, short-lived right to one object, which its disk server checks without the head.
//!
//! The text form stands in the opaque part of a URL (spec/capability.md §1):
//!
//! ```text
//! bp.cap=ACCESS.PARTITION.OBJECT.FILE.GENERATION.HOLDER.OFFSET-END.CONTENT.USER.EXPIRES[.PIECE][.TIMES][.SEAL].MAC
//! ```
//!
//! | field | text |
//! | --- | --- |
//! | ACCESS | `r`, `g`, `f`, `w`, `l` or `m`: see [`Access`] |
//! | PARTITION, USER | base64url |
//! | OBJECT, FILE, GENERATION, OFFSET, END | decimal |
//! | HOLDER | `-` or `OWNER~GROUP~MODE` |
//! | CONTENT | `-` or `SIZE-ADLER32-CRC32C`; each sum has 8 hex digits |
//! | EXPIRES | milliseconds since 1970 |
//! | PIECE | `DATA-PARITY-CELL-INDEX-SIZE-ADLER32-CRC32C`; only in a right to fill a piece |
//! | TIMES | `tMODIFIED~SHOWN`, milliseconds since 1970; only in rights to read |
//! | SEAL | 16 bytes in hex, only in rights to gather |
//! | MAC | 16 bytes in hex |
//!
//! MAC is the beginning of the HMAC-SHA-256 over everything before the last dot, with the key of the disk server. SEAL
//! is made in the same way of everything before it, with a key that only the head has: the disk server shows a right to
//! gather to the head, and must not be able to make one.

mod signing;
#[cfg(test)]
mod tests;
mod text;

use crate::media::object::{Holder, Piece};
use base::{ByteRange, Checksums, FileId, Millis, ObjectId, Timestamp};
pub use signing::{CapKey, CapKeys, ServerKey, ServerKeys};

/// Name of the opaque parameter.
pub const PARAMETER: &str = "bp.cap";

/// Name of the opaque parameter with which a room asks for a refusal instead of a redirect to the head, which would only send it back.
pub const DIRECT: &str = "bp.direct";

/// How long a client may take from the head's answer to the open at the disk server.
pub const OPEN_LIFETIME: Millis = Millis::from_seconds(300);

/// Joining time of the head's own host, which never joined.
pub const NEVER_JOINED: Timestamp = Timestamp(0);

/// What a capability allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Read the object.
    Read,
    /// Read the whole file of which the object is a piece: its disk server gathers the others.
    Gather,
    /// Write the whole object once; whoever asked for it reports it to the head.
    Fill,
    /// Write the object; its disk server reports it to the head.
    Write,
    /// Read and write an object that changes in place, as long as the generation of the grant is not fenced.
    Live,
    /// Read an object that changes in place.
    LiveRead,
}

impl Access {
    /// Whether it changes nothing.
    #[must_use]
    pub fn is_read(self) -> bool {
        matches!(self, Self::Read | Self::Gather | Self::LiveRead)
    }
}

/// What an object holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Content {
    /// Bytes.
    pub size: u64,
    /// Of all of them.
    pub checksums: Checksums,
}

/// When a content changed. Only the head knows it: the disk server knows when its object was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Times {
    /// When it came to this facility: entity tags and conditional requests use this time.
    pub modified: Timestamp,
    /// The time that clients are shown: when the content changed at its origin, if the upload said so.
    pub shown: Timestamp,
}

/// A right to one object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cap {
    /// What it allows.
    pub access: Access,
    /// The partition of the object.
    pub partition: String,
    /// The object.
    pub object: ObjectId,
    /// The file of the object.
    pub file: FileId,
    /// In rights to write: the number of the content, see [`crate::media::object::ObjectInfo::generation`]. In rights to read: the
    /// fence of the facility when the right was given, [`UNFENCED`] in those of rooms. In rights to write in place: that of the grant.
    pub generation: u64,
    /// Owner, group and mode of the file, for the description of an object that is filled.
    pub holder: Option<Holder>,
    /// Bytes that may be read or written.
    pub range: ByteRange,
    /// Size and sums of the object, or those that it must have after the write; `None`: not known yet.
    pub content: Option<Content>,
    /// The user on whose behalf the right is used, for bills and logs.
    pub user: String,
    /// When the right ends.
    pub expires: Timestamp,
    /// The piece of the file that is filled. Its size follows from this; its sums are known only when it is made.
    pub piece: Option<Piece>,
    /// When the content that is read has changed.
    pub times: Option<Times>,
}

/// Generation of rights to read that no fence ends: those of rooms.
pub const UNFENCED: u64 = u64::MAX;

/// The range of a whole object, however long it is or becomes.
pub const WHOLE: ByteRange = ByteRange { offset: 0, end: u64::MAX };

impl Access {
    fn word(self) -> &'static str {
        match self {
            Self::Read => "r",
            Self::Gather => "g",
            Self::Fill => "f",
            Self::Write => "w",
            Self::Live => "l",
            Self::LiveRead => "m",
        }
    }

    /// What the text of a capability claims to allow, without a check of its MAC.
    #[must_use]
    pub fn said_by(signed: &str) -> Option<Self> {
        Self::parse(signed.split('.').next()?)
    }

    fn parse(word: &str) -> Option<Self> {
        [Self::Read, Self::Gather, Self::Fill, Self::Write, Self::Live, Self::LiveRead]
            .into_iter()
            .find(|access| access.word() == word)
    }
}

impl Times {
    /// The times of a content that `came` here and had changed `there` before, if the upload said when.
    #[must_use]
    pub fn of(came: Timestamp, there: Option<Timestamp>) -> Self {
        Self { modified: came, shown: there.unwrap_or(came) }
    }

    /// When the content changed where it came from, if that is another time.
    #[must_use]
    pub fn source_modified(self) -> Option<Timestamp> {
        (self.shown != self.modified).then_some(self.shown)
    }
}

/// Fuzz body: nothing that was not signed is accepted, nothing panics.
pub fn fuzz_cap(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let key = CapKeys::derive(&[7; 32]).of("disk1", NEVER_JOINED);
    assert!(key.verify(&text, Timestamp(0)).is_err());
    let _ = Cap::parse(&text);
}
