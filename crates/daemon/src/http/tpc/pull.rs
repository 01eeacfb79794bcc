//! Fetching: the other server's file becomes ours.

use super::{
    Transfer, Verification,
    remote::{Ask, Reply},
};
use crate::{http::segments::Inflow, sums::Hashing};
use axum::http::{HeaderValue, Method, StatusCode};
use base::{Failure, Result};
use std::sync::Arc;
use wire::{
    control::{Disposition, OpenWrite},
    http::Digests,
};

/// Fetches, stores, compares, commits.
pub(super) async fn run(transfer: &Transfer) -> Result<()> {
    let mut fields = transfer.fields.clone();
    fields.insert("want-digest", HeaderValue::from_static("adler32"));
    let ask = Ask {
        method: Method::GET,
        place: &transfer.place,
        fields: &fields,
        upload: None,
        progress: &transfer.progress,
    };
    let mut reply = transfer.remote().ask(&ask).await?;
    if reply.status != StatusCode::OK {
        return Err(reply.into_failure("fetch").await);
    }
    let visit = &transfer.visit;
    let open = OpenWrite {
        path: visit.path.clone(),
        mode: 0o644,
        disposition: if transfer.is_overwriting { Disposition::Replace } else { Disposition::CreateNew },
        parents: false,
        expected_bytes: reply.length().unwrap_or(0),
    };
    let counter = Arc::clone(&visit.door.counters.http);
    let file = Arc::new(visit.door.files.open_write(&visit.who, open, counter).await?);
    let inflow = Inflow::new(Arc::clone(&file), Hashing::default(), visit.door.budget.join());
    let size = receive(transfer, &mut reply, inflow).await?;
    let (server, claimed) = (reply.server.clone(), reply.digests());
    drop(reply);
    let claimed = claims(transfer, claimed, &server, size).await?;
    file.commit(|info| {
        let arrived = Digests::from(info.checksums);
        if transfer.verification == Verification::Required && !claimed.is_comparable(&arrived) {
            return Err(no_sum(&server));
        }
        claimed.check(&arrived)
    })
    .await
    .map(|_| ())
}

async fn receive(transfer: &Transfer, reply: &mut Reply, mut inflow: Inflow) -> Result<u64> {
    let length = reply.length();
    while let Some(bytes) = reply.next().await? {
        transfer.progress.add(bytes.len());
        inflow.push(bytes).await?;
    }
    let (size, _) = inflow.finish().await?;
    match length {
        Some(length) if length != size => {
            Err(Failure::corrupt(format!("{} sent {size} of {length} bytes", reply.server)))
        }
        _ => Ok(size),
    }
}

/// What the other server says about the content: with it, or asked for afterwards.
async fn claims(transfer: &Transfer, claimed: Digests, server: &str, size: u64) -> Result<Digests> {
    if !claimed.is_empty() || transfer.verification == Verification::Skipped {
        return Ok(claimed);
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
            Err(described.into_failure("ask for the checksum").await)
        }
        Err(failure) if transfer.verification == Verification::Required => Err(failure),
        Ok(_) | Err(_) => Ok(claimed),
    }
}

pub(super) fn no_sum(server: &str) -> Failure {
    Failure::unsupported(format!("{server} tells no checksum that can be compared"))
        .hint("RequireChecksumVerification: false copies without")
}
