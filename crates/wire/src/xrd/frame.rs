//! Frames: handshake, the 24-byte request header and the 8-byte answer header (spec/xrootd.md §1 to §3).

use super::{AnswerCode, ErrorCode};

/// Bytes that a client sends first.
pub const HANDSHAKE_BYTES: usize = 20;
/// Bytes of a request header.
pub const REQUEST_HEADER_BYTES: usize = 24;
/// Bytes of an answer header.
pub const ANSWER_HEADER_BYTES: usize = 8;
/// The protocol version that these codecs announce: 5.1.1, the one that brought page reads and writes. Servers of 5.2.0 clone
/// files and duplicate handles, which this one does not: clients must not try.
pub const PROTOCOL_VERSION: u32 = 0x0511;

/// The client's first bytes: 0, 0, 0, 4, 2012.
pub const HANDSHAKE: [u8; HANDSHAKE_BYTES] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 7, 220];

/// Why bytes are not a message of this protocol.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// No such request.
    #[error("request code {0} is not known")]
    UnknownRequest(u16),
    /// No such value of an enumeration.
    #[error("{what} {value} is not known")]
    UnknownCode {
        /// Which field.
        what: &'static str,
        /// Its value.
        value: u32,
    },
    /// A field that counts is negative.
    #[error("{what} {value} is negative")]
    Negative {
        /// Which field.
        what: &'static str,
        /// Its value.
        value: i64,
    },
    /// A required argument is not there.
    #[error("{0} is missing")]
    Missing(&'static str),
    /// A part has the wrong length.
    #[error("{what} has {bytes} bytes")]
    Length {
        /// Which part.
        what: &'static str,
        /// How long it is.
        bytes: u64,
    },
    /// More than the bound allows.
    #[error("{what} of {count} is more than {max}")]
    TooLong {
        /// Which part.
        what: &'static str,
        /// How long it is.
        count: u64,
        /// How long it may be.
        max: u64,
    },
    /// Text is not UTF-8 or has a NUL inside.
    #[error("{0} is not text")]
    NotText(&'static str),
    /// A checksum of the frame itself does not hold.
    #[error("checksum of the {0} does not hold")]
    Checksum(&'static str),
}

impl Malformed {
    /// The code to refuse such a request with.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::UnknownRequest(_) => ErrorCode::InvalidRequest,
            Self::Missing(_) => ErrorCode::ArgMissing,
            Self::TooLong { .. } => ErrorCode::ArgTooLong,
            Self::Checksum(_) => ErrorCode::ChecksumError,
            _ => ErrorCode::ArgInvalid,
        }
    }
}

impl From<Malformed> for base::Failure {
    fn from(malformed: Malformed) -> Self {
        Self::new(malformed.code().kind(), malformed.to_string())
    }
}

/// The client's number of a request; answers carry the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct StreamId(pub [u8; 2]);

impl StreamId {
    /// The id as a number.
    #[must_use]
    pub fn number(self) -> u16 {
        u16::from_be_bytes(self.0)
    }

    /// The id of a number.
    #[must_use]
    pub fn of(number: u16) -> Self {
        Self(number.to_be_bytes())
    }
}

/// The server's number of an open file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct FileHandle(pub [u8; 4]);

impl FileHandle {
    /// The handle as a number.
    #[must_use]
    pub fn number(self) -> u32 {
        u32::from_be_bytes(self.0)
    }

    /// The handle of a number.
    #[must_use]
    pub fn of(number: u32) -> Self {
        Self(number.to_be_bytes())
    }
}

/// The 24 bytes in front of every request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestHeader {
    /// The client's number of the request.
    pub stream: StreamId,
    /// What is asked, as a number: it may be unknown.
    pub code: u16,
    /// Sixteen bytes whose meaning depends on the request.
    pub params: [u8; 16],
    /// Length of the body as sent: it may be negative.
    pub length: i32,
}

impl RequestHeader {
    /// Takes the fields apart; checks nothing.
    #[must_use]
    pub fn parse(bytes: &[u8; REQUEST_HEADER_BYTES]) -> Self {
        let mut params = [0; 16];
        params.copy_from_slice(&bytes[4..20]);
        Self {
            stream: StreamId([bytes[0], bytes[1]]),
            code: u16_at(bytes, 2),
            params,
            length: u32_at(bytes, 20) as i32,
        }
    }

    /// The bytes of the header.
    #[must_use]
    pub fn encode(&self) -> [u8; REQUEST_HEADER_BYTES] {
        let mut bytes = [0; REQUEST_HEADER_BYTES];
        bytes[..2].copy_from_slice(&self.stream.0);
        bytes[2..4].copy_from_slice(&self.code.to_be_bytes());
        bytes[4..20].copy_from_slice(&self.params);
        bytes[20..].copy_from_slice(&self.length.to_be_bytes());
        bytes
    }

    /// Length of the body; a negative one means that the framing is lost.
    pub fn body_bytes(&self) -> Result<usize, Malformed> {
        usize::try_from(self.length)
            .map_err(|_| Malformed::Negative { what: "body length", value: i64::from(self.length) })
    }
}

/// The 8 bytes in front of every answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AnswerHeader {
    /// The request that is answered; 0 for unsolicited answers.
    pub stream: StreamId,
    /// What kind of answer.
    pub code: AnswerCode,
    /// Length of the body; of a status answer only up to its data.
    pub length: u32,
}

impl AnswerHeader {
    /// Parses the header of an answer.
    pub fn parse(bytes: &[u8; ANSWER_HEADER_BYTES]) -> Result<Self, Malformed> {
        let code = u16_at(bytes, 2);
        let code = AnswerCode::from_code(code)
            .ok_or(Malformed::UnknownCode { what: "answer code", value: u32::from(code) })?;
        let length = u32_at(bytes, 4);
        if length > i32::MAX as u32 {
            return Err(Malformed::Negative { what: "answer length", value: i64::from(length as i32) });
        }
        Ok(Self { stream: StreamId([bytes[0], bytes[1]]), code, length })
    }

    /// The bytes of the header.
    #[must_use]
    pub fn encode(&self) -> [u8; ANSWER_HEADER_BYTES] {
        let mut bytes = [0; ANSWER_HEADER_BYTES];
        bytes[..2].copy_from_slice(&self.stream.0);
        bytes[2..4].copy_from_slice(&self.code.code().to_be_bytes());
        bytes[4..].copy_from_slice(&self.length.to_be_bytes());
        bytes
    }
}

/// Answer to the handshake: protocol version, and 1 for a server that holds data (0 for one that redirects).
#[must_use]
pub fn encode_handshake_answer(is_data_server: bool) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[7] = 8;
    bytes[8..12].copy_from_slice(&PROTOCOL_VERSION.to_be_bytes());
    bytes[15] = u8::from(is_data_server);
    bytes
}

/// Two bytes at `at`, big endian. The caller knows that they are there.
pub(super) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

/// Four bytes at `at`, big endian. The caller knows that they are there.
pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from(u16_at(bytes, at)) << 16 | u32::from(u16_at(bytes, at + 2))
}

/// Eight bytes at `at`, big endian. The caller knows that they are there.
pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) << 32 | u64::from(u32_at(bytes, at + 4))
}

/// Text with at most one trailing NUL (spec/xrootd.md §2).
pub(super) fn text<'a>(bytes: &'a [u8], what: &'static str) -> Result<&'a str, Malformed> {
    let bytes = bytes.strip_suffix(&[0]).unwrap_or(bytes);
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.contains('\0') => Ok(text),
        _ => Err(Malformed::NotText(what)),
    }
}
