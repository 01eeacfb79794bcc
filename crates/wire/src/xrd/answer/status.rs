//! The status answer, with sums of its own.

use crate::xrd::{
    AnswerCode, AnswerHeader, Malformed, RequestCode, StreamId,
    frame::{ANSWER_HEADER_BYTES, u32_at, u64_at},
};
use base::Crc32c;

/// Bytes of a status answer from its header to its data: 8 + 16 + 8.
pub const STATUS_BYTES: usize = 32;

/// What a status answer says of its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatusKind {
    /// The last or only one.
    Final,
    /// More follow.
    Partial,
    /// Still at work.
    Progress,
}

/// Front of a page read or write answer (§5.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Status {
    /// The request that is answered.
    pub stream: StreamId,
    /// What was asked: `Pgread` or `Pgwrite`.
    pub request: RequestCode,
    /// Whether more follow.
    pub kind: StatusKind,
    /// Bytes of data that follow.
    pub data_bytes: u32,
    /// Where in the file the data start.
    pub offset: u64,
}

impl Status {
    /// Header and body, with their checksum; the data follow.
    #[must_use]
    pub fn encode(&self) -> [u8; STATUS_BYTES] {
        let mut bytes = [0; STATUS_BYTES];
        let length = (STATUS_BYTES - ANSWER_HEADER_BYTES) as u32;
        let header = AnswerHeader { stream: self.stream, code: AnswerCode::Status, length };
        bytes[..8].copy_from_slice(&header.encode());
        bytes[12..14].copy_from_slice(&self.stream.0);
        bytes[14] = (self.request.code() - RequestCode::Auth.code()) as u8;
        bytes[15] = match self.kind {
            StatusKind::Final => 0,
            StatusKind::Partial => 1,
            StatusKind::Progress => 2,
        };
        bytes[20..24].copy_from_slice(&self.data_bytes.to_be_bytes());
        bytes[24..].copy_from_slice(&self.offset.to_be_bytes());
        let crc = Crc32c::of(&bytes[12..]);
        bytes[8..12].copy_from_slice(&crc.0.to_be_bytes());
        bytes
    }

    /// Parses the body that follows the header, checksum first.
    pub fn parse(body: &[u8]) -> Result<Self, Malformed> {
        if body.len() != STATUS_BYTES - ANSWER_HEADER_BYTES {
            return Err(Malformed::Length { what: "status", bytes: body.len() as u64 });
        }
        if Crc32c::of(&body[4..]).0 != u32_at(body, 0) {
            return Err(Malformed::Checksum("status"));
        }
        let request = RequestCode::Auth.code() + u16::from(body[6]);
        let request = RequestCode::from_code(request).ok_or(Malformed::UnknownRequest(request))?;
        let kind = match body[7] {
            0 => StatusKind::Final,
            1 => StatusKind::Partial,
            2 => StatusKind::Progress,
            other => {
                return Err(Malformed::UnknownCode { what: "status kind", value: u32::from(other) });
            }
        };
        let data_bytes = u32_at(body, 12);
        if data_bytes > i32::MAX as u32 {
            return Err(Malformed::Negative { what: "status data", value: i64::from(data_bytes as i32) });
        }
        Ok(Self { stream: StreamId([body[4], body[5]]), request, kind, data_bytes, offset: u64_at(body, 16) })
    }
}
