//! Requests out of received bytes (spec/xrootd.md §3).

use super::{
    inbox::Inbox,
    limits::{PATHS_BYTES_MAX, RECEIVE_PROGRESS},
    outbox::Outbox,
    session::End,
};
use base::limits::{XRD_REQUEST_BYTES_MAX, XRD_WRITE_BYTES_MAX};
use wire::xrd::{Answer, Malformed, REQUEST_HEADER_BYTES, Request, RequestCode, RequestHeader};

/// Receives the next request; its body is parsed unless it is data. The inner error is a refusal to send.
pub(super) async fn next_request(
    inbox: &mut Inbox,
    outbox: &Outbox,
) -> Result<(RequestHeader, Result<Request, Answer>), End> {
    inbox.fill(REQUEST_HEADER_BYTES, RECEIVE_PROGRESS).await?;
    let Some(header) = inbox.ready().first_chunk().map(RequestHeader::parse) else {
        return Err(End::Gone);
    };
    inbox.consume(REQUEST_HEADER_BYTES);
    let length = match header.body_bytes() {
        Ok(length) => length,
        Err(malformed) => return refuse_and_end(outbox, &header, malformed).await,
    };
    if header.is_data_body() {
        return Ok((header, Request::parse(&header, &[]).map_err(|e| refusal(&e))));
    }
    let max = body_max(&header);
    if length > max {
        let too_long = Malformed::TooLong { what: "request body", count: length as u64, max: max as u64 };
        if length > XRD_WRITE_BYTES_MAX {
            return refuse_and_end(outbox, &header, too_long).await;
        }
        inbox.skip(length, RECEIVE_PROGRESS).await?;
        return Ok((header, Err(refusal(&too_long))));
    }
    inbox.fill(length, RECEIVE_PROGRESS).await?;
    let request = Request::parse(&header, &inbox.ready()[..length]).map_err(|e| refusal(&e));
    inbox.consume(length);
    Ok((header, request))
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

/// The framing is lost: one last answer.
async fn refuse_and_end<T>(outbox: &Outbox, header: &RequestHeader, malformed: Malformed) -> Result<T, End> {
    outbox.send(header.stream, &refusal(&malformed)).await?;
    Err(malformed.into())
}
