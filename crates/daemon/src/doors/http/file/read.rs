//! `GET` and `HEAD`.

use crate::doors::{
    files::Opened,
    http::{
        answer::{Answer, Problem},
        data::other_way,
        dav::properties::href,
        file::{
            listing,
            segments::{Piece, segments},
            trailer,
        },
        paths::{FILE_TYPE, PathRequest, is_directory, tag_of},
    },
};
use axum::{
    body::Body,
    http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header},
    response::{IntoResponse, Response},
};
use base::{ByteRange, ErrorKind, Failure, Result, Timestamp, units::counted};
use disk::{
    remote::redirect::RedirectTarget,
    serve::{local_objects::CapFile, open_file::ReadFile},
};
use std::sync::Arc;
use wire::{
    control::Entry,
    digest::{DigestAlgorithm, Digests},
    http::{
        EntityTag, Multipart, Ranges, Validators, Verdict, content_range, http_date, parse_ranges,
        unsatisfied_range, wanted_digests, wanted_repr_digests,
    },
};

/// `GET` and `HEAD` of what a capability is for.
pub(in crate::doors::http) async fn read_by_cap(request: &PathRequest) -> Answer {
    send(request, open_through(request).await?).await
}

/// `GET` and `HEAD` on a file or directory.
pub(in crate::doors::http) async fn read(request: &PathRequest) -> Answer {
    let is_head = request.method == Method::HEAD;
    if is_head || !request.conditions().is_empty() {
        // Settled from the catalogue if possible, so that a nearline file is not recalled for it.
        let counter = Arc::clone(&request.door.counters.http.traffic);
        let entry = request.door.files.sealed_entry(&request.who, &request.path, counter).await?;
        if is_directory(&entry) {
            return listing::listing(request).await;
        }
        let tag =
            tag_of(&entry).ok_or_else(|| Failure::locked(format!("{} is being written", request.path)))?;
        if let Some(settled) = settle(request, &tag, (entry.modified, entry.content_modified()))? {
            return Ok(settled);
        }
        if is_head {
            return head(request, &entry, &tag).await;
        }
    }
    match open(request).await {
        Ok(Opened::Here(file)) => send(request, Arc::new(file)).await,
        Ok(Opened::Redirect(target)) => Ok(sent_on(request, &target)),
        Err(failure) if failure.kind == ErrorKind::IsDirectory => listing::listing(request).await,
        Err(failure) => Err(failure.into()),
    }
}

async fn open(request: &PathRequest) -> base::Result<Opened<ReadFile>> {
    let counter = Arc::clone(&request.door.counters.http.traffic);
    request.door.files.open_read(&request.who, &request.path, counter).await
}

/// Opens a file by the capability that came with the request, or by its name, wherever its object is.
pub(in crate::doors::http) async fn open_through(request: &PathRequest) -> Result<Arc<ReadFile>, Problem> {
    if let Some(cap) = request.cap() {
        return match request.open_cap(cap).await? {
            CapFile::Read(file) => Ok(Arc::new(file)),
            CapFile::Write(_) | CapFile::Live(_) => Err(other_way(&request.path).into()),
        };
    }
    let counter = Arc::clone(&request.door.counters.http.traffic);
    Ok(Arc::new(request.door.files.read_through(&request.who, &request.path, counter).await?))
}

/// Sends a client to the disk server that has the object, or is to make it.
pub(in crate::doors::http) fn sent_on(request: &PathRequest, target: &RedirectTarget) -> Response {
    let mut response = StatusCode::TEMPORARY_REDIRECT.into_response();
    put(response.headers_mut(), header::LOCATION, &target.location(&href(&request.path, false)));
    response
}

/// The answer if the preconditions decide it.
fn settle(
    request: &PathRequest,
    tag: &EntityTag,
    (modified, shown): (Timestamp, Timestamp),
) -> Result<Option<Response>, Problem> {
    match request.conditions().evaluate(Some(Validators { tag: Some(tag), modified, shown }), true) {
        Verdict::Proceed => Ok(None),
        Verdict::NotModified => {
            let fields = [
                (header::ETAG, tag.as_str().to_owned()),
                (header::LAST_MODIFIED, http_date(shown.seconds())),
            ];
            Ok(Some((StatusCode::NOT_MODIFIED, fields).into_response()))
        }
        Verdict::Failed => {
            Err(Problem::precondition(format!("{} is not as the request demands", request.path)))
        }
    }
}

async fn head(request: &PathRequest, entry: &Entry, tag: &EntityTag) -> Answer {
    let wishes = WantedDigests::of(request);
    let is_online = entry.state.is_some_and(wire::control::FileState::is_online);
    let digests = if wishes.needs_reading() && is_online {
        wishes.digests(request, &open_through(request).await?).await?
    } else {
        // Nothing is recalled from tape to be hashed.
        entry.checksums.map(Digests::from).unwrap_or_default()
    };
    let mut response = StatusCode::OK.into_response();
    let headers = response.headers_mut();
    describe(headers, tag, entry.content_modified());
    wishes.answer(headers, &digests);
    headers.insert(header::CONTENT_LENGTH, entry.size.into());
    Ok(response)
}

/// The digests that a request asks for, by the field in which they are answered.
struct WantedDigests {
    digest: Vec<DigestAlgorithm>,
    repr_digest: Vec<DigestAlgorithm>,
    /// Both, the most wanted first.
    all: Vec<DigestAlgorithm>,
}

impl WantedDigests {
    fn of(request: &PathRequest) -> Self {
        let digest = request.field("want-digest").map(wanted_digests).unwrap_or_default();
        let repr_digest = request.field("want-repr-digest").map(wanted_repr_digests).unwrap_or_default();
        let all = digest.iter().chain(&repr_digest).copied().collect();
        Self { digest, repr_digest, all }
    }

    fn needs_reading(&self) -> bool {
        self.all.first().is_some_and(|first| !first.is_catalogued())
    }

    /// What is known of the content of `file` without delay, and the most wanted sum, for which it may be read.
    async fn digests(&self, request: &PathRequest, file: &Arc<ReadFile>) -> Result<Digests> {
        match self.all.first() {
            Some(first) => request.door.files.objects().sums().compute(file, *first).await,
            None => Ok(file.grant.checksums.into()),
        }
    }

    fn answer(&self, out: &mut HeaderMap, digests: &Digests) {
        put(out, HeaderName::from_static("digest"), &digests.field(&self.digest));
        put(out, HeaderName::from_static("repr-digest"), &digests.repr_field(&self.repr_digest));
    }
}

/// Adds a field unless it has nothing to say.
pub(in crate::doors::http) fn put(out: &mut HeaderMap, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value)
        && !value.is_empty()
    {
        out.insert(name, value);
    }
}

/// Fields that every answer about a file carries.
fn describe(out: &mut HeaderMap, tag: &EntityTag, modified: Timestamp) {
    out.insert(header::CONTENT_TYPE, HeaderValue::from_static(FILE_TYPE));
    // What somebody stored must not become a page of this server.
    out.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    out.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    put(out, header::ETAG, tag.as_str());
    put(out, header::LAST_MODIFIED, &http_date(modified.seconds()));
}

/// What is sent of a file, and how it is announced.
struct Extent {
    status: StatusCode,
    pieces: Vec<Piece>,
    length: u64,
    /// `Content-Range`, or the `Content-Type` of several ranges.
    field: Option<(HeaderName, String)>,
}

async fn send(request: &PathRequest, file: Arc<ReadFile>) -> Answer {
    let (size, modified, sums) = (file.grant.size, file.grant.modified, file.grant.checksums);
    let tag = EntityTag::of(file.grant.file, modified, &sums);
    // What was opened may be newer than what the catalogue said before.
    let shown = file.grant.content_modified();
    if let Some(settled) = settle(request, &tag, (modified, shown))? {
        return Ok(settled);
    }
    let range = request
        .field("range")
        .filter(|_| request.field("if-range").is_none_or(|field| tag.is_if_range(field, modified)));
    let boundary = format!("backplane-{}-{}", sums.adler32, sums.crc32c);
    let Some(extent) = extent(range, size, &boundary) else {
        let bytes = counted(size, "byte", "bytes");
        let failure = Failure::invalid(format!("{} has {bytes}, none of them in the range", request.path));
        return Err(Problem::with_status(failure, StatusCode::RANGE_NOT_SATISFIABLE)
            .field(header::CONTENT_RANGE, unsatisfied_range(size)));
    };
    let wishes = WantedDigests::of(request);
    let digests = wishes.digests(request, &file).await?;
    let is_told = request.method == Method::GET && trailer::is_wanted(request);
    let segments = segments(file, extent.pieces, request.door.budget.join());
    let body = match extent.length {
        _ if is_told => trailer::told(segments),
        0 => Body::empty(),
        _ => Body::from_stream(segments),
    };
    let mut response = (extent.status, body).into_response();
    let headers = response.headers_mut();
    describe(headers, &tag, shown);
    wishes.answer(headers, &digests);
    if is_told {
        headers.insert(header::TRAILER, HeaderValue::from_static(trailer::TRANSFER_STATUS_TEXT));
    } else {
        headers.insert(header::CONTENT_LENGTH, extent.length.into());
    }
    if let Some((name, value)) = extent.field {
        put(headers, name, &value);
    }
    Ok(response)
}

/// What a `Range` field means for a file of `size` bytes; none if no byte is in it.
fn extent(range: Option<&str>, size: u64, boundary: &str) -> Option<Extent> {
    let one = |status, range: ByteRange, field| Extent {
        status,
        pieces: vec![Piece::Range(range)],
        length: range.length(),
        field,
    };
    match parse_ranges(range, size) {
        Ranges::Unsatisfiable => None,
        Ranges::Whole => Some(one(StatusCode::OK, ByteRange { offset: 0, end: size }, None)),
        Ranges::One(range) => {
            let field = (header::CONTENT_RANGE, content_range(range, size));
            Some(one(StatusCode::PARTIAL_CONTENT, range, Some(field)))
        }
        Ranges::Many(ranges) => {
            let frame = Multipart { boundary, content_type: FILE_TYPE, size };
            let mut pieces = Vec::with_capacity(ranges.len() * 2 + 1);
            for range in &ranges {
                pieces.push(Piece::Text(frame.part_head(*range)));
                pieces.push(Piece::Range(*range));
            }
            pieces.push(Piece::Text(frame.tail()));
            Some(Extent {
                status: StatusCode::PARTIAL_CONTENT,
                pieces,
                length: frame.length(&ranges),
                field: Some((header::CONTENT_TYPE, frame.content_type())),
            })
        }
    }
}
