//! Requests out of received bytes (spec/xrootd.md §3).

use super::limits::PATHS_BYTES_MAX;
use base::limits::{UNPROVEN_REQUEST_BYTES_MAX, XRD_REQUEST_BYTES_MAX, XRD_WRITE_BYTES_MAX};
use wire::xrd::{Answer, Malformed, REQUEST_HEADER_BYTES, Request, RequestCode, RequestHeader};

/// The frame at the beginning of the received bytes.
#[derive(Debug)]
pub(super) enum Next {
    /// Not a whole request: as many bytes are needed in one piece.
    Incomplete(usize),
    /// A request of so many bytes; the data of a write follow it. The inner error is a refusal to send.
    Request { header: RequestHeader, bytes: usize, request: Result<Request, Answer> },
    /// A body that is too long to be read: it is thrown away before the refusal is sent.
    TooLong { header: RequestHeader, body: usize, refusal: Answer },
    /// The framing is lost: after this last answer nothing more can be understood.
    Lost { header: RequestHeader, malformed: Malformed },
}

/// How much memory a peer may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trust {
    /// It has not authenticated.
    Unproven,
    /// A further connection of a session.
    Bound,
    /// A session.
    Session,
}

/// Parses the request at the start of `ready`.
pub(super) fn next(ready: &[u8], trust: Trust) -> Next {
    let Some(header) = ready.first_chunk().map(RequestHeader::parse) else {
        return Next::Incomplete(REQUEST_HEADER_BYTES);
    };
    let body = match header.body_bytes() {
        Ok(body) => body,
        Err(malformed) => return Next::Lost { header, malformed },
    };
    if header.is_data_body() {
        let request = Request::parse(&header, &[]).map_err(|malformed| refusal(&malformed));
        return Next::Request { header, bytes: REQUEST_HEADER_BYTES, request };
    }
    let max = match trust {
        Trust::Unproven => UNPROVEN_REQUEST_BYTES_MAX,
        Trust::Bound => XRD_REQUEST_BYTES_MAX,
        Trust::Session => body_max(&header),
    };
    if body > max {
        let malformed = Malformed::TooLong { what: "request body", count: body as u64, max: max as u64 };
        // What nobody is known to have sent is not even thrown away.
        if body > XRD_WRITE_BYTES_MAX || trust == Trust::Unproven {
            return Next::Lost { header, malformed };
        }
        return Next::TooLong { header, body, refusal: refusal(&malformed) };
    }
    let bytes = REQUEST_HEADER_BYTES + body;
    match ready.get(REQUEST_HEADER_BYTES..bytes) {
        None => Next::Incomplete(bytes),
        Some(body) => {
            let request = Request::parse(&header, body).map_err(|malformed| refusal(&malformed));
            Next::Request { header, bytes, request }
        }
    }
}

/// Longest body of a request that is no data.
fn body_max(header: &RequestHeader) -> usize {
    match header.request_code() {
        Some(RequestCode::Prepare | RequestCode::Statx | RequestCode::Query) => PATHS_BYTES_MAX,
        _ => XRD_REQUEST_BYTES_MAX,
    }
}

pub(super) fn refusal(malformed: &Malformed) -> Answer {
    Answer::error(malformed.code(), malformed.to_string())
}
