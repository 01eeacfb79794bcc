//! Files over HTTP: `GET`, `HEAD`, `PUT` and `DELETE` of paths.

use super::{
    HttpDoor,
    answer::Refused,
    ranges::{Piece, body},
};
use crate::files::{ReadFile, WriteFile, blocking};
use axum::{
    body::{Body, Bytes},
    extract::State,
    http::{HeaderMap, HeaderValue, Method, Request, StatusCode, header},
    response::{IntoResponse, Redirect, Response},
};
use base::{ByteRange, ErrorKind, Failure, FilePath, Result, limits::XRD_READ_SEGMENT_BYTES};
use futures_util::StreamExt;
use head::Principal;
use std::sync::Arc;
use wire::{
    control::{Disposition, List, NodeKind, OpenWrite, Remove, Stat},
    http::{
        Digests, EntityTag, Multipart, Ranges, content_range, decode_path, digest_field, http_date,
        parse_ranges, unsatisfied_range, wanted_digests,
    },
};

const CONTENT_TYPE: &str = "application/octet-stream";
const METHODS: &str = "GET, HEAD, PUT, DELETE, OPTIONS";

/// Any request on a path of the namespace.
pub(super) async fn handle(State(door): State<Arc<HttpDoor>>, request: Request<Body>) -> Response {
    let outcome = dispatch(&door, request).await;
    door.counters.http.answer(outcome.as_ref().err().map(|failure| failure.kind));
    outcome.unwrap_or_else(|failure| Refused(failure).into_response())
}

async fn dispatch(door: &Arc<HttpDoor>, request: Request<Body>) -> Result<Response> {
    let path = decode_path(request.uri().path())?;
    let who = door.principal(request.headers());
    match *request.method() {
        Method::GET => get(door, &who, &path, request.headers(), true).await,
        Method::HEAD => get(door, &who, &path, request.headers(), false).await,
        Method::PUT => put(door, &who, &path, request).await,
        Method::DELETE => {
            door.files.head().call(&who, Remove { path }).await?;
            Ok(StatusCode::NO_CONTENT.into_response())
        }
        Method::OPTIONS => Ok((StatusCode::NO_CONTENT, [(header::ALLOW, METHODS)]).into_response()),
        ref other => {
            let failure = Failure::unsupported(format!("method {other} is not offered on files"));
            Ok((StatusCode::METHOD_NOT_ALLOWED, [(header::ALLOW, METHODS)], axum::Json(failure))
                .into_response())
        }
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

async fn get(
    door: &Arc<HttpDoor>,
    who: &Principal,
    path: &FilePath,
    headers: &HeaderMap,
    with_body: bool,
) -> Result<Response> {
    let info = door.files.head().call(who, Stat { path: path.clone() }).await?;
    if info.entry.kind == NodeKind::Directory {
        return directory(door, who, path, headers).await;
    }
    if !with_body {
        // Answered without the bytes, so a nearline file is not recalled for it.
        let sums = info.entry.checksums.ok_or_else(|| Failure::busy(format!("{path} is being written")))?;
        let tag = EntityTag::of(info.entry.id, info.entry.modified, &sums);
        let mut response = StatusCode::OK.into_response();
        describe(response.headers_mut(), &tag, info.entry.modified.seconds(), sums, headers);
        response.headers_mut().insert(header::CONTENT_LENGTH, info.entry.size.into());
        return Ok(response);
    }
    let file = door.files.open_read(who, path, Arc::clone(&door.counters.http)).await?;
    Ok(send(file, headers))
}

/// Headers that every answer about a file carries.
fn describe(out: &mut HeaderMap, tag: &EntityTag, modified_s: i64, sums: base::Checksums, asked: &HeaderMap) {
    let mut put = |name, value: &str| {
        if let Ok(value) = HeaderValue::from_str(value) {
            out.insert(name, value);
        }
    };
    put(header::CONTENT_TYPE, CONTENT_TYPE);
    put(header::ACCEPT_RANGES, "bytes");
    put(header::ETAG, tag.as_str());
    put(header::LAST_MODIFIED, &http_date(modified_s));
    if let Some(want) = text(asked, "want-digest") {
        put(header::HeaderName::from_static("digest"), &digest_field(&sums, &wanted_digests(want)));
    }
}

fn send(file: ReadFile, asked: &HeaderMap) -> Response {
    let (size, modified) = (file.grant.size, file.grant.modified);
    let sums = file.grant.checksums;
    let tag = EntityTag::of(file.grant.file, modified, &sums);
    if text(asked, "if-none-match").is_some_and(|field| !tag.is_none_match(field)) {
        return (StatusCode::NOT_MODIFIED, [(header::ETAG, tag.as_str().to_owned())]).into_response();
    }
    let range = text(asked, "range")
        .filter(|_| text(asked, "if-range").is_none_or(|field| tag.is_if_range(field, modified)));
    let (status, pieces, kind, length) = match parse_ranges(range, size) {
        Ranges::Unsatisfiable => {
            let field = [(header::CONTENT_RANGE, unsatisfied_range(size))];
            return (StatusCode::RANGE_NOT_SATISFIABLE, field).into_response();
        }
        Ranges::Whole => {
            let whole = ByteRange { offset: 0, end: size };
            (StatusCode::OK, vec![Piece::Range(whole)], None, size)
        }
        Ranges::One(range) => {
            let field = (header::CONTENT_RANGE, content_range(range, size));
            (StatusCode::PARTIAL_CONTENT, vec![Piece::Range(range)], Some(field), range.length())
        }
        Ranges::Many(ranges) => {
            let boundary = format!("backplane-{}-{}", sums.adler32, sums.crc32c);
            let frame = Multipart { boundary: &boundary, content_type: CONTENT_TYPE, size };
            let mut pieces = Vec::with_capacity(ranges.len() * 2 + 1);
            for range in &ranges {
                pieces.push(Piece::Text(frame.part_head(*range)));
                pieces.push(Piece::Range(*range));
            }
            pieces.push(Piece::Text(frame.tail()));
            let field = (header::CONTENT_TYPE, frame.content_type());
            (StatusCode::PARTIAL_CONTENT, pieces, Some(field), frame.length(&ranges))
        }
    };
    let pieces = pieces.into_iter().filter(|piece| !matches!(piece, Piece::Range(range) if range.is_empty()));
    let mut response = (status, body(file, pieces.collect())).into_response();
    let headers = response.headers_mut();
    describe(headers, &tag, modified.seconds(), sums, asked);
    headers.insert(header::CONTENT_LENGTH, length.into());
    if let Some((name, value)) = kind
        && let Ok(value) = HeaderValue::from_str(&value)
    {
        headers.insert(name, value);
    }
    response
}

/// A listing: one name a line for `curl`, the console for a browser at the root.
async fn directory(
    door: &Arc<HttpDoor>,
    who: &Principal,
    path: &FilePath,
    headers: &HeaderMap,
) -> Result<Response> {
    if path.is_root() && text(headers, "accept").is_some_and(|accept| accept.contains("text/html")) {
        return Ok(Redirect::temporary("/console").into_response());
    }
    let (mut lines, mut after) = (String::new(), String::new());
    loop {
        let page = door.files.head().call(who, List { path: path.clone(), after: after.clone() }).await?;
        for entry in &page.entries {
            let slash = if entry.kind == NodeKind::Directory { "/" } else { "" };
            lines.push_str(&format!("{}{slash}\n", entry.name));
        }
        match page.entries.last() {
            Some(last) if page.is_partial => after.clone_from(&last.name),
            _ => break,
        }
    }
    Ok(([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], lines).into_response())
}

async fn put(
    door: &Arc<HttpDoor>,
    who: &Principal,
    path: &FilePath,
    request: Request<Body>,
) -> Result<Response> {
    let headers = request.headers();
    if headers.contains_key(header::CONTENT_RANGE) {
        return Err(
            Failure::unsupported("PUT of a part of a file is not offered").hint("send the whole file")
        );
    }
    let digests = text(headers, "digest").map(Digests::parse).transpose()?;
    let length: Option<u64> = text(headers, "content-length").and_then(|length| length.parse().ok());
    let is_new_only = text(headers, "if-none-match").is_some_and(|field| field.trim() == "*");
    let existed = match door.files.head().call(who, Stat { path: path.clone() }).await {
        Ok(_) => true,
        Err(failure) if failure.kind == ErrorKind::NotFound => false,
        Err(failure) => return Err(failure),
    };
    if is_new_only && existed {
        return Ok(StatusCode::PRECONDITION_FAILED.into_response());
    }
    let open = OpenWrite {
        path: path.clone(),
        mode: 0o644,
        disposition: if is_new_only { Disposition::CreateNew } else { Disposition::Replace },
        parents: true,
        expected_bytes: length.unwrap_or(0),
    };
    let file = Arc::new(door.files.open_write(who, open, Arc::clone(&door.counters.http)).await?);
    receive(&file, request.into_body(), path, length).await?;
    let info = file.commit(|info| digests.map_or(Ok(()), |digests| digests.check(&info.checksums))).await?;
    let status = if existed { StatusCode::NO_CONTENT } else { StatusCode::CREATED };
    let sums = digest_field(&info.checksums, &wanted_digests("adler32"));
    Ok((status, [("digest", sums)]).into_response())
}

/// Writes a body as it arrives, in segments: small pieces are collected so that each write is worth a thread's visit.
async fn receive(file: &Arc<WriteFile>, body: Body, path: &FilePath, length: Option<u64>) -> Result<()> {
    let mut chunks = body.into_data_stream();
    let (mut offset, mut pending) = (0, Vec::new());
    while let Some(chunk) = chunks.next().await {
        let chunk: Bytes = chunk
            .map_err(|cause| Failure::new(ErrorKind::Io, format!("upload of {path} broke off: {cause}")))?;
        pending.extend_from_slice(&chunk);
        if pending.len() >= XRD_READ_SEGMENT_BYTES {
            offset = write(file, offset, std::mem::take(&mut pending)).await?;
        }
    }
    offset = write(file, offset, pending).await?;
    match length {
        Some(length) if length != offset => {
            Err(Failure::invalid(format!("upload of {path} ended after {offset} of {length} bytes")))
        }
        _ => Ok(()),
    }
}

async fn write(file: &Arc<WriteFile>, offset: u64, bytes: Vec<u8>) -> Result<u64> {
    let file = Arc::clone(file);
    blocking(move || {
        file.write_at(offset, &bytes)?;
        Ok(offset + bytes.len() as u64)
    })
    .await
}
