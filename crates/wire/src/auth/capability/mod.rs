//! Capabilities: a signed, short-lived right to one object, checked by its disk server alone.
//!
//! Text form, in the opaque part of a URL (spec/capability.md):
//! `bp.cap=ACCESS.PARTITION.OBJECT.FILE.GENERATION.HOLDER.OFFSET-END.CONTENT.USER.EXPIRES[.PIECE][.TIMES][.SEAL].MAC`. ACCESS is `r`, `g`, `f`, `w`, `l` or `m`;
//! names are base64url, numbers decimal; HOLDER is `-` or `OWNER~GROUP~MODE`; CONTENT is `-` or `SIZE-ADLER32-CRC32C` with sums of
//! 8 hex digits; EXPIRES is in milliseconds since 1970; PIECE is `DATA-PARITY-CELL-INDEX-SIZE-ADLER32-CRC32C`, only for a piece that is to be filled; TIMES is `tMODIFIED~SHOWN` in milliseconds, only in rights to read. MAC is the first 16 bytes, in hex, of HMAC-SHA-256 over everything before the last dot, by the
//! key of the disk server. SEAL is the same over everything before it, by a key that only the head has: in rights to gather, which the
//! disk server shows to the head.

mod signing;
#[cfg(test)]
mod tests;
mod text;

use crate::media::object::{Holder, Piece};
use base::{ByteRange, Checksums, FileId, Millis, ObjectId, Timestamp};
pub use signing::{CapKey, CapKeys, ServerKey, ServerKeys};

/// Name of the opaque parameter.
pub const PARAMETER: &str = "bp.cap";

/// Name of the opaque parameter by which rooms say that a refusal is to be told to them: the head would only send them back.
pub const DIRECT: &str = "bp.direct";

/// How long a client may take from the head's answer to the open at the disk server.
pub const OPEN_LIFETIME: Millis = Millis::from_seconds(300);

/// Joining time of the head's own host, which never joined.
pub const NEVER_JOINED: Timestamp = Timestamp(0);

/// The state.
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
    /// Whether nothing is changed by it.
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

/// When a content changed: the head knows, of the object its disk server knows only when it was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Times {
    /// When it came here: what conditions of requests and tags of entities go by.
    pub modified: Timestamp,
    /// What is shown: when it changed where it came from, if whoever stored it said so.
    pub shown: Timestamp,
}

/// A right to one object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cap {
    /// The state.
    pub access: Access,
    /// Where the object lies, or shall lie.
    pub partition: String,
    /// With which object.
    pub object: ObjectId,
    /// Of which file.
    pub file: FileId,
    /// Which content of the file is written: see [`crate::media::object::ObjectInfo::generation`]. In rights to read: when they were
    /// given, as the head counts the losses of rights; [`UNFENCED`] in those of rooms. In rights to write in place: of the grant.
    pub generation: u64,
    /// Whose the file is, for the description of an object that is filled.
    pub holder: Option<Holder>,
    /// Bytes that may be touched.
    pub range: ByteRange,
    /// What the object has, or must have after the write; `None`: not known yet.
    pub content: Option<Content>,
    /// On whose behalf, for bills and logs.
    pub user: String,
    /// When the right ends.
    pub expires: Timestamp,
    /// Which piece of the file is filled. Its sums are known only when it is made: its bytes follow from this.
    pub piece: Option<Piece>,
    /// When what is read has changed.
    pub times: Option<Times>,
}

/// Generation of rights to read that hold whoever loses what: those of rooms.
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

    /// What a capability says that it is for. Whether it is good is another question.
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
    /// The same for a file whose content `came` here and has changed `there` before, if somebody said when.
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
