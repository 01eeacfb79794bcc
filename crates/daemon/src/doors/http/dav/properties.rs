//! `PROPFIND`, `PROPPATCH`, `MKCOL` and `DELETE`.

use crate::doors::http::{
    answer::{Answer, PartialFailure, Problem, status_on_path},
    dav::tree::{self, Trouble},
    file::listing::{Pages, paged},
    paths::{FILE_TYPE, PathRequest, is_directory, tag_of},
};
use axum::{
    body::Body,
    http::{Method, StatusCode, header},
    response::{IntoResponse, Response},
};
use base::{ErrorKind, Failure, FilePath, Result};
use futures_util::StreamExt;
use std::time::Duration;
use tokio::time::timeout;
use wire::{
    control::{Entry, GetStatus, Mkdir, Remove, SetTime},
    http::{
        dav::{
            DAV_BODY_BYTES_MAX, Depth, LiveProperty, MULTISTATUS_HEAD, MULTISTATUS_TAIL, PropertyOutcome,
            PropertyPlan, Propfind, Quota, Resource, XML_TYPE, parse_depth, parse_propfind, parse_proppatch,
            write_proppatch, write_resource, write_status,
        },
        encode_path,
    },
};

/// Time in which the XML of a request must have arrived.
const BODY_DEADLINE: Duration = Duration::from_secs(30);

/// The path as it stands in an answer: directories end in a slash.
pub(in crate::doors::http) fn href(path: &FilePath, is_directory: bool) -> String {
    let mut text = encode_path(path);
    if is_directory && !path.is_root() {
        text.push('/');
    }
    text
}

/// An answer of several statuses.
pub(in crate::doors::http) fn multistatus(body: impl Into<Body>) -> Response {
    (StatusCode::MULTI_STATUS, [(header::CONTENT_TYPE, XML_TYPE)], body.into()).into_response()
}

/// A body that is no file: XML, or one that means nothing.
pub(in crate::doors::http) async fn short_body(body: Body) -> Result<Vec<u8>, Problem> {
    let read = timeout(BODY_DEADLINE, whole(body)).await;
    read.map_err(|_| {
        let failure = Failure::timeout("the body of the request does not arrive");
        Problem::with_status(failure, StatusCode::REQUEST_TIMEOUT)
    })?
}

async fn whole(body: Body) -> Result<Vec<u8>, Problem> {
    let (mut chunks, mut bytes) = (body.into_data_stream(), Vec::new());
    while let Some(chunk) = chunks.next().await {
        // Its framing makes no sense, or it ends early.
        let chunk = chunk.map_err(|cause| {
            Problem::from(Failure::invalid(format!("the body of the request cannot be taken: {cause}")))
        })?;
        if bytes.len() + chunk.len() > DAV_BODY_BYTES_MAX {
            let what = format!("the body of the request is longer than {DAV_BODY_BYTES_MAX} bytes");
            return Err(Problem::with_status(Failure::invalid(what), StatusCode::PAYLOAD_TOO_LARGE));
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

/// What is known of an entry, as `PROPFIND` tells it.
fn write_entry(out: &mut String, path: &FilePath, entry: &Entry, asked: &Propfind, quota: Option<Quota>) {
    let (tag, is_collection) = (tag_of(entry), is_directory(entry));
    let resource = Resource {
        href: &href(path, is_collection),
        name: &entry.name,
        is_collection,
        size: entry.size,
        modified: entry.content_modified(),
        mode: entry.mode,
        tag: tag.as_ref(),
        adler32: entry.checksums.map(|sums| sums.adler32),
        content_type: FILE_TYPE,
        quota: quota.filter(|_| is_collection),
    };
    write_resource(out, &resource, asked);
}

/// Bytes stored and free in the whole facility: there are no quotas of single directories.
async fn quota(request: &PathRequest, asked: &Propfind) -> Result<Option<Quota>> {
    if !asked.wants(LiveProperty::QuotaUsed) && !asked.wants(LiveProperty::QuotaAvailable) {
        return Ok(None);
    }
    let status = request.call(GetStatus {}).await?;
    let partitions = status.pools.iter().flat_map(|pool| &pool.partitions);
    let available_bytes =
        partitions.filter(|partition| partition.is_available).map(|one| one.free_bytes).sum();
    Ok(Some(Quota { used_bytes: status.files.bytes, available_bytes }))
}

/// `PROPFIND` of depth 0 or 1, of a file also of any other depth.
pub(in crate::doors::http) async fn propfind(request: PathRequest, body: Body) -> Answer {
    // Who says nothing gets what is directly in a directory, as from other servers; RFC 4918 §9.1 would have it mean everything.
    let depth = parse_depth(Some(request.field("depth").unwrap_or("1")))?;
    let asked = parse_propfind(&short_body(body).await?)?;
    let entry = request.entry(&request.path).await?;
    // RFC 4918 §9.1: a file has nothing below it, so that no depth is too much.
    if depth == Depth::Infinity && is_directory(&entry) {
        let failure = Failure::permission("PROPFIND of everything below is not offered");
        return Err(Problem::condition(failure, StatusCode::FORBIDDEN, "propfind-finite-depth"));
    }
    let quota = quota(&request, &asked).await?;
    let mut head = MULTISTATUS_HEAD.to_owned();
    write_entry(&mut head, &request.path, &entry, &asked, quota);
    if depth == Depth::Zero || !is_directory(&entry) {
        return Ok(multistatus(head + MULTISTATUS_TAIL));
    }
    let (pages, directory) = (Pages::new(&request, &request.path), request.path);
    let write = move |entries: &[Entry]| {
        let mut text = String::new();
        for entry in entries {
            // A path that is too long for the namespace cannot be listed by it.
            if let Ok(path) = directory.join(&entry.name) {
                write_entry(&mut text, &path, entry, &asked, quota);
            }
        }
        text
    };
    Ok(multistatus(paged(pages, head, MULTISTATUS_TAIL.to_owned(), write).await?))
}

/// `PROPPATCH`: sets the time of a file or directory; all other properties are refused, one by one.
pub(in crate::doors::http) async fn proppatch(request: &PathRequest, body: Body) -> Answer {
    let plan = PropertyPlan::of(&parse_proppatch(&short_body(body).await?)?);
    let entry = request.entry(&request.path).await?;
    request.require_conditions(Some(&entry))?;
    if let Some(modified) = plan.modified {
        request.call(SetTime { path: request.path.clone(), modified }).await?;
    }
    let mut text = MULTISTATUS_HEAD.to_owned();
    write_proppatch(&mut text, &href(&request.path, is_directory(&entry)), &plan.outcomes);
    let response = multistatus(text + MULTISTATUS_TAIL);
    if plan.outcomes.iter().all(|(_, outcome)| *outcome == PropertyOutcome::Done) {
        return Ok(response);
    }
    let names: Vec<_> = plan.outcomes.iter().map(|(name, _)| name.local()).collect();
    let what = format!("at least one of the properties {} cannot be set; none was set", names.join(", "));
    Ok(PartialFailure::refused(response, Failure::unsupported(what)))
}

/// `MKCOL`
pub(in crate::doors::http) async fn mkcol(request: &PathRequest) -> Answer {
    let length = request.field("content-length").unwrap_or("0").trim();
    if length != "0" || request.headers.contains_key(header::TRANSFER_ENCODING) {
        let failure = Failure::unsupported("MKCOL with a body is not supported").hint("send it without one");
        return Err(Problem::with_status(failure, StatusCode::UNSUPPORTED_MEDIA_TYPE));
    }
    if request.path.is_root() {
        return Err(Failure::exists("/ exists, a directory").into());
    }
    let call = Mkdir { path: request.path.clone(), mode: 0o755, parents: false };
    request.call(call).await?;
    Ok((StatusCode::CREATED, [(header::LOCATION, href(&request.path, true))]).into_response())
}

/// `DELETE` of a file, or of a directory with everything in it.
pub(in crate::doors::http) async fn delete(request: &PathRequest) -> Answer {
    if request.path.is_root() {
        return Err(Failure::permission("the root directory cannot be removed").into());
    }
    let entry = request.entry(&request.path).await?;
    request.require_conditions(Some(&entry))?;
    if !is_directory(&entry) {
        request.call(Remove { path: request.path.clone() }).await?;
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    if parse_depth(request.field("depth"))? != Depth::Infinity {
        let failure = Failure::invalid("DELETE of a directory reaches everything below it");
        return Err(failure.hint("leave the Depth field out").into());
    }
    tree::remove(request, &request.path)
        .await
        .map_or_else(|trouble| report(request, trouble), |()| Ok(StatusCode::NO_CONTENT.into_response()))
}

/// Tells which parts of a request on a tree failed; a failure of the thing itself is the answer's own.
pub(in crate::doors::http) fn report(request: &PathRequest, trouble: Trouble) -> Answer {
    let mut parts = trouble.into_parts();
    if let [(path, _)] = &parts[..]
        && *path == request.path
        && let Some((_, failure)) = parts.pop()
    {
        return Err(failure.into());
    }
    let mut text = MULTISTATUS_HEAD.to_owned();
    for (path, failure) in &parts {
        let status = match failure.kind {
            ErrorKind::NotEmpty => StatusCode::FAILED_DEPENDENCY,
            kind => status_on_path(&Method::DELETE, kind),
        };
        let line = format!("{} {}", status.as_u16(), status.canonical_reason().unwrap_or(""));
        write_status(&mut text, &encode_path(path), &line, &failure.what);
    }
    let response = multistatus(text + MULTISTATUS_TAIL);
    // One of many; the others are in the answer.
    Ok(match parts.into_iter().next() {
        Some((_, failure)) => PartialFailure::refused(response, failure),
        None => response,
    })
}
