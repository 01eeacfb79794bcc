//! The XRootD protocol, both sides (spec/xrootd.md).
//!
//! Requests and answers are types. File data follow their headers and never pass through these types, so a session can
//! stream them within its bounds.

mod answer;
mod code;
mod encode;
mod expect;
mod flags;
mod frame;
mod page;
mod parse;
mod ranges;
mod request;
mod sigver;
mod stat;
mod target;
#[cfg(test)]
mod tests;
pub mod tpc;

pub use answer::*;
pub use code::*;
pub use expect::*;
pub use flags::*;
pub use frame::{
    ANSWER_HEADER_BYTES, AnswerHeader, FileHandle, HANDSHAKE, HANDSHAKE_BYTES, Malformed, PROTOCOL_VERSION,
    REQUEST_HEADER_BYTES, RequestHeader, StreamId, encode_handshake_answer,
};
pub use page::*;
pub use ranges::*;
pub use request::*;
pub use sigver::*;
pub use stat::*;
pub use target::*;

/// Fuzz body: whatever a client sends, parsing ends in a request or an error.
pub fn fuzz_request(data: &[u8]) {
    let Some((header, body)) = data.split_first_chunk() else {
        return;
    };
    let header = RequestHeader::parse(header);
    if let Ok(request) = Request::parse(&header, body) {
        let _ = request.encode(header.stream);
    }
    let mut pages = body.to_vec();
    let _ = decode_in_place(u64::from(header.code), &mut pages);
}

/// Fuzz body: whatever a server sends, parsing ends in an answer or an error.
pub fn fuzz_response(data: &[u8]) {
    let Some((header, body)) = data.split_first_chunk() else {
        return;
    };
    if let Ok(header) = AnswerHeader::parse(header)
        && let Ok(answer) = Answer::parse(&header, body)
    {
        let _ = (answer.to_failure(), answer.encode(header.stream));
    }
    let _ = (ProtocolAnswer::parse(body), LoginAnswer::parse(body), OpenAnswer::parse(body));
    let _ = (parse_listing(body), Location::parse_all(body), parse_bad_pages(body));
}
