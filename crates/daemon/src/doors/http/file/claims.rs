//! Checksums and sizes that a client sends with a file: each is compared, and a mismatch refuses the file.

use crate::doors::http::paths::PathRequest;
use axum::{
    body::{Body, Bytes, HttpBody},
    http::HeaderMap,
};
use base::{Failure, FilePath, Result};
use disk::serve::open_file::{ReadFile, WriteFile};
use net::blocking;
use std::{pin::Pin, sync::Arc};
use wire::digest::{DigestAlgorithm, Digests, Hashing};

/// Bytes that are read at once of what was stored.
const BUFFER_BYTES: usize = 1 << 20;

/// All that the fields of a request, or its trailer, say about the content. What is no text is refused: it cannot be compared.
pub(in crate::doors::http) fn claims(headers: &HeaderMap) -> Result<Digests> {
    let mut claimed = Digests::default();
    for field in values(headers, "digest") {
        claimed.merge(&Digests::parse(field?)?)?;
    }
    for name in ["repr-digest", "content-digest"] {
        for field in values(headers, name) {
            claimed.merge(&Digests::parse_repr(field?)?)?;
        }
    }
    for field in values(headers, "content-md5") {
        claimed.claim_content_md5(field?)?;
    }
    for field in values(headers, "oc-checksum") {
        claimed.claim_oc_checksum(field?)?;
    }
    Ok(claimed)
}

fn values<'a>(headers: &'a HeaderMap, name: &'static str) -> impl Iterator<Item = Result<&'a str>> {
    let text = move |_| Failure::invalid(format!("field {name} is not text"));
    headers.get_all(name).into_iter().map(move |value| value.to_str().map_err(text))
}

/// Compares what the client claims about a file that is to be copied with what is there, before a byte leaves.
pub(in crate::doors::http) async fn check_file(
    request: &PathRequest,
    file: &Arc<ReadFile>,
    claimed: &Digests,
) -> Result<()> {
    claimed.check(&file.grant.checksums.into())?;
    for algorithm in claimed.algorithms().filter(|algorithm| !algorithm.is_catalogued()) {
        let found = request.door.files.objects().sums().compute(file, algorithm).await?;
        claimed.check(&found)?;
    }
    Ok(())
}

/// The same for a file that is not open yet.
pub(in crate::doors::http) async fn check_path(request: &PathRequest, path: &FilePath) -> Result<()> {
    let claimed = claims(&request.headers)?;
    if claimed.is_empty() {
        return Ok(());
    }
    let counter = Arc::clone(&request.door.counters.http.traffic);
    let file = request.door.files.read_through(&request.who, path, counter).await?;
    check_file(request, &Arc::new(file), &claimed).await
}

/// Sums of what was written of a file, read back: its trailer came after the bytes.
pub(in crate::doors::http) async fn sums_of_written(
    file: &Arc<WriteFile>,
    wanted: Vec<DigestAlgorithm>,
) -> Result<Digests> {
    if wanted.is_empty() {
        return Ok(Digests::default());
    }
    let file = Arc::clone(file);
    blocking(move || {
        let (mut hashing, mut at) = (Hashing::of_all(&wanted), 0);
        let mut buffer = vec![0; BUFFER_BYTES];
        loop {
            let count = file.read_at(at, &mut buffer)?;
            if count == 0 {
                return Ok(hashing.finish(Digests::default()));
            }
            hashing.update(&buffer[..count]);
            at += count as u64;
        }
    })
    .await
}

/// A body that keeps what comes behind it.
pub(in crate::doors::http) struct Incoming {
    body: Body,
    trailer: HeaderMap,
}

impl Incoming {
    pub(in crate::doors::http) fn new(body: Body) -> Self {
        Self { body, trailer: HeaderMap::new() }
    }

    /// The next bytes; none at the end.
    pub(in crate::doors::http) async fn next(&mut self) -> Option<Result<Bytes, axum::Error>> {
        loop {
            let frame = std::future::poll_fn(|context| Pin::new(&mut self.body).poll_frame(context)).await?;
            match frame.map(hyper::body::Frame::into_data) {
                Err(cause) => return Some(Err(cause)),
                Ok(Ok(bytes)) => return Some(Ok(bytes)),
                Ok(Err(frame)) => {
                    if let Ok(trailer) = frame.into_trailers() {
                        self.trailer = trailer;
                    }
                }
            }
        }
    }

    /// The fields that came behind the bytes.
    pub(in crate::doors::http) fn trailer(&self) -> &HeaderMap {
        &self.trailer
    }
}
