//! `PUT`: stored as it arrives, verified before it counts.

use crate::doors::{
    files::Opened,
    http::{
        answer::{Answer, Problem},
        data::other_way,
        file::{
            claims::{Incoming, claims, sums_of_written},
            read::{put as put_field, sent_on},
            segments::Inflow,
        },
        paths::{PathRequest, is_directory, tag_of},
    },
};
use axum::{
    body::Body,
    http::{HeaderName, StatusCode, header},
    response::IntoResponse,
};
use base::{ErrorKind, Failure, FilePath, Result};
use disk::serve::{local_objects::CapFile, open_file::WriteFile};
use std::{sync::Arc, time::Duration};
use tokio::time::{Instant, timeout};
use wire::{
    control::{Disposition, OpenWrite},
    digest::{Digests, Hashing},
    http::{
        dav::{parse_mtime, parse_overwrite},
        wanted_digests, wanted_repr_digests,
    },
};

/// Longest silence of a sender.
const SILENCE_MAX: Duration = Duration::from_secs(60);
/// A sender must have sent [`PROGRESS_BYTES`] in each of these: one byte a minute is no upload.
const PROGRESS_SPAN: Duration = Duration::from_secs(180);
/// See [`PROGRESS_SPAN`].
const PROGRESS_BYTES: u64 = 64 << 10;
/// What is read of a body whose request is refused, so that the sender gets to read the answer.
const DISCARD_BYTES_MAX: usize = 4 << 20;
/// How long it is read.
const DISCARD_SPAN: Duration = Duration::from_secs(3);

/// When the content changed where it comes from (ownCloud's clients, rclone).
const MTIME: &str = "x-oc-mtime";

/// `PUT` of a file.
pub(in crate::doors::http) async fn put(request: &PathRequest, body: Body) -> Answer {
    let is_expecting = request.headers.contains_key(header::EXPECT);
    let mut chunks = Incoming::new(body);
    let outcome = store(request, &mut chunks).await;
    if outcome.is_err() && !is_expecting {
        discard(&mut chunks).await;
    }
    outcome
}

/// Reads on for a while: a connection that is closed on a sender would take the answer with it.
async fn discard(chunks: &mut Incoming) {
    let mut left = DISCARD_BYTES_MAX;
    let reading = async {
        while let Some(Ok(chunk)) = chunks.next().await {
            left = left.saturating_sub(chunk.len());
            if left == 0 {
                break;
            }
        }
    };
    // It is only a courtesy: whether it works makes no difference to us.
    let _ = timeout(DISCARD_SPAN, reading).await;
}

async fn store(request: &PathRequest, chunks: &mut Incoming) -> Answer {
    let path = &request.path;
    if request.headers.contains_key(header::CONTENT_RANGE) {
        return Err(Failure::invalid("PUT of a part of a file is not offered")
            .hint("send the whole file")
            .into());
    }
    if request.is_slashed {
        return Err(Failure::new(ErrorKind::IsDirectory, format!("{path}/ names a directory"))
            .hint("files have no slash at the end; MKCOL makes directories")
            .into());
    }
    let mut claimed = claims(&request.headers)?;
    let source_modified = request.field(MTIME).map(parse_mtime).transpose()?;
    let length: Option<u64> = request.field("content-length").and_then(|length| length.parse().ok());
    // Who has a capability was asked about names by whoever gave it.
    let existing = if request.cap().is_some() { None } else { request.find(path).await? };
    if existing.as_ref().is_some_and(is_directory) {
        return Err(Failure::new(ErrorKind::IsDirectory, format!("{path} is a directory")).into());
    }
    request.require_conditions(existing.as_ref())?;
    let is_overwriting = parse_overwrite(request.field("overwrite"))?;
    if existing.is_some() && !is_overwriting {
        return Err(not_overwritten(path));
    }
    let is_none_match = request.field("if-none-match").is_some_and(|field| field.trim() == "*");
    let is_new_only = is_none_match || !is_overwriting;
    let open_write = OpenWrite {
        path: path.clone(),
        mode: 0o644,
        disposition: if is_new_only { Disposition::CreateNew } else { Disposition::Replace },
        parents: request.makes_parents,
        expected_bytes: length.unwrap_or(0),
        source_modified,
    };
    let opened = open(request, open_write).await.map_err(|problem| match problem.kind() {
        // Somebody was quicker.
        ErrorKind::Exists if !is_overwriting && !is_none_match => not_overwritten(path),
        _ => problem,
    });
    let file = match opened? {
        Opened::Here(file) => Arc::new(file),
        Opened::Redirect(target) => return Ok(sent_on(request, &target)),
    };
    let mut inflow =
        Inflow::new(Arc::clone(&file), Hashing::for_claims(&claimed), request.door.budget.join());
    receive(&mut inflow, chunks, path, length).await.map_err(|failure| match failure.kind {
        // The sender's silence, not ours.
        ErrorKind::Timeout => Problem::with_status(failure, StatusCode::REQUEST_TIMEOUT),
        _ => failure.into(),
    })?;
    let (_, hashing) = inflow.finish().await?;
    let late = claims(chunks.trailer())?;
    let missing = late.algorithms().filter(|one| !one.is_catalogued() && !claimed.has(*one)).collect();
    let known = sums_of_written(&file, missing).await?;
    claimed.merge(&late)?;
    let arrived = commit(request, &file, (hashing, known), &claimed).await?;
    Ok(stored(request, existing.is_some(), &arrived).await)
}

/// As servers of the field answer: 412 is for conditions of HTTP, and `Overwrite` is none of them.
fn not_overwritten(path: &FilePath) -> Problem {
    let failure = Failure::exists(format!("{path} exists, and the request says Overwrite: F"));
    Problem::with_status(failure.hint("use another name, or leave the field out"), StatusCode::CONFLICT)
}

/// Opens a file by the capability that came with the request, or by its name.
async fn open(request: &PathRequest, open: OpenWrite) -> Result<Opened<WriteFile>, Problem> {
    if let Some(cap) = request.cap() {
        return match request.open_cap(cap).await? {
            CapFile::Write(file) => Ok(Opened::Here(file)),
            CapFile::Read(_) | CapFile::Live(_) => Err(other_way(&request.path).into()),
        };
    }
    let counter = Arc::clone(&request.door.counters.http.traffic);
    // Who waits for our word before it sends can be sent on; who sends already cannot.
    let opened = if request.field("expect").is_some() {
        request.door.files.open_write(&request.who, open, counter).await
    } else {
        request.door.files.write_through(&request.who, open, counter).await.map(Opened::Here)
    };
    opened.map_err(|failure| match failure.kind {
        ErrorKind::Exists => Problem::precondition(failure.what),
        _ => failure.into(),
    })
}

/// Takes a body to its end, as long as it makes progress.
async fn receive(
    inflow: &mut Inflow,
    chunks: &mut Incoming,
    path: &FilePath,
    length: Option<u64>,
) -> Result<()> {
    // Only the time in which we wait for the sender counts, not the time in which our disk is slow.
    let (mut waited, mut sent_bytes) = (Duration::ZERO, 0);
    loop {
        let began = Instant::now();
        let patience = SILENCE_MAX.min(PROGRESS_SPAN.saturating_sub(waited));
        let chunk = timeout(patience, chunks.next())
            .await
            .map_err(|_| Failure::timeout(format!("upload of {path} makes no progress")))?;
        let Some(chunk) = chunk else { break };
        let chunk = chunk
            // Its framing makes no sense, or it ends early: that is the sender's doing, not ours.
            .map_err(|cause| Failure::invalid(format!("upload of {path} broke off: {cause}")))?;
        waited += began.elapsed();
        sent_bytes += chunk.len() as u64;
        if sent_bytes >= PROGRESS_BYTES {
            (waited, sent_bytes) = (Duration::ZERO, 0);
        }
        inflow.push(chunk).await?;
    }
    let taken = inflow.taken_bytes();
    match length {
        Some(length) if length != taken => {
            Err(Failure::invalid(format!("upload of {path} ended after {taken} of {length} bytes")))
        }
        _ => Ok(()),
    }
}

/// Compares with the claims, then makes it the content of the file.
async fn commit(
    request: &PathRequest,
    file: &WriteFile,
    (hashing, known): (Hashing, Digests),
    claimed: &Digests,
) -> Result<Digests, Problem> {
    let (mut arrived, mut is_wrong) = (Digests::default(), false);
    let outcome = file
        .commit(|info| {
            arrived = hashing.finish(known.with_checksums(info.checksums));
            let outcome = claimed.check(&arrived);
            is_wrong = outcome.is_err();
            outcome
        })
        .await;
    match outcome {
        Ok(info) => {
            request.door.files.objects().sums().remember(info.object, arrived);
            Ok(arrived)
        }
        // The bytes are wrong as they came: that is the sender's affair, not this server's.
        Err(failure) if is_wrong => Err(Problem::with_status(failure, StatusCode::BAD_REQUEST)),
        Err(failure) => Err(failure.into()),
    }
}

async fn stored(request: &PathRequest, existed: bool, arrived: &Digests) -> axum::response::Response {
    let status = if existed { StatusCode::NO_CONTENT } else { StatusCode::CREATED };
    let mut response = status.into_response();
    let headers = response.headers_mut();
    let wanted = wanted_digests(request.field("want-digest").unwrap_or("adler32"));
    put_field(headers, HeaderName::from_static("digest"), &arrived.field(&wanted));
    if let Some(field) = request.field("want-repr-digest") {
        let field = arrived.repr_field(&wanted_repr_digests(field));
        put_field(headers, HeaderName::from_static("repr-digest"), &field);
    }
    // The tag is of what this request stored, unless somebody was quicker in storing something else.
    if let Ok(entry) = request.entry(&request.path).await
        && entry.checksums.is_some_and(|sums| Digests::from(sums).check(arrived).is_ok())
        && let Some(tag) = tag_of(&entry)
    {
        put_field(headers, header::ETAG, tag.as_str());
        if entry.source_modified.is_some() {
            put_field(headers, HeaderName::from_static(MTIME), "accepted");
        }
    }
    response
}
