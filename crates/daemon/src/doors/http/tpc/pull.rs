//! Fetching: the other server's file becomes ours.

use super::{
    Transfer, Verification,
    remote::{Ask, Reply},
};
use crate::doors::http::file::segments::Inflow;
use axum::http::{HeaderValue, Method, StatusCode};
use base::{Failure, Result};
use disk::serve::open_file::WriteFile;
use std::sync::Arc;
use wire::{
    control::OpenWrite,
    digest::{Digests, Hashing},
};

/// Fetches, stores, compares, commits.
pub(super) async fn run(transfer: &Transfer, file: Option<WriteFile>) -> Result<()> {
    let mut reply = fetch(transfer).await?;
    let file = match file {
        Some(file) => file,
        None => open(transfer, reply.length().unwrap_or(0)).await?,
    };
    let file = Arc::new(file);
    let (told, has_end) = (reply.digests(), reply.tells_its_end());
    let wanted: Vec<_> = told.algorithms().chain(transfer.claimed.algorithms()).collect();
    let inflow =
        Inflow::new(Arc::clone(&file), Hashing::of_all(&wanted), transfer.request.door.budget.join());
    let (size, hashing) = receive(transfer, &mut reply, inflow).await?;
    let server = reply.server.clone();
    drop(reply);
    let claimed = claims(transfer, &told, &server, size).await?;
    file.commit(|info| {
        let arrived = hashing.finish(info.checksums.into());
        if !claimed.is_comparable(&arrived) {
            if transfer.verification == Verification::Required {
                return Err(no_sum(&server));
            }
            if !has_end {
                return Err(no_end(&server));
            }
        }
        claimed.check(&arrived)?;
        transfer.claimed.check(&arrived)
    })
    .await
    .map(|_| ())
}

/// Asks for the file; what comes back is its content.
async fn fetch(transfer: &Transfer) -> Result<Reply> {
    let mut fields = transfer.fields.clone();
    fields.insert("want-digest", HeaderValue::from_static("adler32"));
    let ask = Ask {
        method: Method::GET,
        place: &transfer.place,
        fields: &fields,
        upload: None,
        progress: &transfer.progress,
    };
    let reply = transfer.remote().ask(&ask).await?;
    if reply.status != StatusCode::OK {
        return Err(reply.into_failure("fetch"));
    }
    Ok(reply)
}

async fn open(transfer: &Transfer, expected_bytes: u64) -> Result<WriteFile> {
    let (request, open) = (&transfer.request, open_call(transfer, expected_bytes));
    request
        .door
        .files
        .write_through(&request.who, open, Arc::clone(&request.door.counters.http.traffic))
        .await
}

/// How the head is asked for the file to write.
pub(super) fn open_call(transfer: &Transfer, expected_bytes: u64) -> OpenWrite {
    OpenWrite {
        path: transfer.request.path.clone(),
        mode: 0o644,
        disposition: transfer.disposition(),
        parents: transfer.request.makes_parents,
        expected_bytes,
        source_modified: None,
    }
}

/// Takes the body to its end: how many bytes, and their hashes.
async fn receive(transfer: &Transfer, reply: &mut Reply, mut inflow: Inflow) -> Result<(u64, Hashing)> {
    let length = reply.length();
    while let Some(bytes) = reply.next().await? {
        transfer.progress.add(bytes.len());
        inflow.push(bytes).await?;
    }
    let (size, hashing) = inflow.finish().await?;
    match length {
        Some(length) if length != size => {
            Err(Failure::corrupt(format!("{} sent {size} of {length} bytes", reply.server)))
        }
        _ => Ok((size, hashing)),
    }
}

/// What the other server says about the content: with it, or asked for afterwards.
async fn claims(transfer: &Transfer, claimed: &Digests, server: &str, size: u64) -> Result<Digests> {
    if !claimed.is_empty() || transfer.verification == Verification::Skipped {
        return Ok(*claimed);
    }
    let described = transfer.remote().describe(&transfer.place, &transfer.fields, &transfer.progress).await;
    match described {
        Ok(described) if described.status.is_success() => {
            if described.length().is_some_and(|length| length != size) {
                return Err(Failure::corrupt(format!("{server} changed the file while it sent it")));
            }
            Ok(described.digests())
        }
        Ok(described) if transfer.verification == Verification::Required => {
            Err(described.into_failure("ask for the checksum"))
        }
        Err(failure) if transfer.verification == Verification::Required => Err(failure),
        Ok(_) | Err(_) => Ok(*claimed),
    }
}

pub(super) fn no_sum(server: &str) -> Failure {
    Failure::unsupported(format!("{server} sends no checksum that can be compared"))
        .hint("RequireChecksumVerification: false copies without")
}

/// A body that ends when its connection does may be only the beginning of the file.
fn no_end(server: &str) -> Failure {
    let what = format!("{server} sends neither length nor checksum: the file may be incomplete");
    Failure::unsupported(what)
        .hint("make it send Content-Length or Digest, or copy the file through a client")
}
