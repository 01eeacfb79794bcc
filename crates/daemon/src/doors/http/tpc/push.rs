//! Sending: our file becomes the other server's.

use super::{
    Progress, Transfer, Verification,
    pull::no_sum,
    remote::{Ask, Reply, Upload},
};
use crate::doors::http::file::{
    claims::check_file,
    segments::{Piece, segments},
};
use axum::{
    body::Body,
    http::{HeaderValue, Method, StatusCode, header},
};
use base::{ByteRange, ErrorKind, Failure, Result};
use disk::serve::open_file::ReadFile;
use futures_util::StreamExt;
use std::sync::Arc;
use wire::digest::{DigestAlgorithm, Digests};

/// Opens, which may mean a recall from tape; sends; compares.
pub(super) async fn run(transfer: &Transfer, file: Option<ReadFile>) -> Result<()> {
    if !transfer.is_overwriting {
        refuse_existing(transfer).await?;
    }
    let request = &transfer.request;
    let counter = Arc::clone(&request.door.counters.http.traffic);
    let file = match file {
        Some(file) => file,
        None => request.door.files.read_through(&request.who, &request.path, counter).await?,
    };
    let file = Arc::new(file);
    check_file(request, &file, &transfer.claimed).await?;
    let ours = Digests::from(file.grant.checksums);
    let mut fields = transfer.fields.clone();
    if let Ok(digest) = HeaderValue::from_str(&ours.field(&[DigestAlgorithm::Adler32])) {
        fields.insert("digest", digest);
    }
    if !transfer.is_overwriting {
        // Servers that know the field also refuse what somebody else has stored since we asked.
        fields.insert(header::IF_NONE_MATCH, HeaderValue::from_static("*"));
    }
    let (size, budget) = (file.grant.size, &request.door.budget);
    let make = || upload(&file, budget.join(), &transfer.progress);
    let ask = Ask {
        method: Method::PUT,
        place: &transfer.place,
        fields: &fields,
        upload: Some(Upload { make: &make, length: size }),
        progress: &transfer.progress,
    };
    let reply = transfer.remote().ask(&ask).await?;
    if !reply.status.is_success() {
        return Err(reply.into_failure("send"));
    }
    if reply.digests().is_comparable(&ours) {
        return check(&reply, &ours, None);
    }
    verify(transfer, &ours, size).await
}

fn upload(
    file: &Arc<ReadFile>,
    share: crate::doors::http::file::segments::Share,
    progress: &Arc<Progress>,
) -> Body {
    let whole = Piece::Range(ByteRange { offset: 0, end: file.grant.size });
    let progress = Arc::clone(progress);
    Body::from_stream(segments(Arc::clone(file), vec![whole], share).inspect(move |segment| {
        if let Ok(bytes) = segment {
            progress.add(bytes.len());
        }
    }))
}

/// For `Overwrite: F`: there is no way to ask this and send in one step that all servers know.
async fn refuse_existing(transfer: &Transfer) -> Result<()> {
    let reply = transfer.remote().describe(&transfer.place, &transfer.fields, &transfer.progress).await?;
    if reply.status.is_success() {
        let what = format!("{} exists, and the request says Overwrite: F", transfer.place.authority());
        return Err(Failure::exists(format!("the file at {what}")));
    }
    if matches!(reply.status, StatusCode::NOT_FOUND | StatusCode::GONE) {
        return Ok(());
    }
    let failure = reply.into_failure("ask whether the file exists");
    Err(failure.hint("Overwrite: F needs an answer to HEAD; Overwrite: T sends without asking"))
}

/// Compares what the other server has with what we sent.
async fn verify(transfer: &Transfer, ours: &Digests, size: u64) -> Result<()> {
    if transfer.verification == Verification::Skipped {
        return Ok(());
    }
    let is_required = transfer.verification == Verification::Required;
    let described = transfer.remote().describe(&transfer.place, &transfer.fields, &transfer.progress).await;
    match described {
        Ok(reply) if reply.status.is_success() => {
            if is_required && !reply.digests().is_comparable(ours) {
                return Err(no_sum(&reply.server));
            }
            check(&reply, ours, Some(size))
        }
        Ok(reply) if is_required => Err(reply.into_failure("ask for the checksum")),
        Err(failure) if is_required => Err(failure),
        Ok(_) | Err(_) => Ok(()),
    }
}

fn check(reply: &Reply, ours: &Digests, size: Option<u64>) -> Result<()> {
    if let (Some(size), Some(length)) = (size, reply.length())
        && size != length
    {
        return Err(Failure::corrupt(format!("{} has {length} of {size} bytes", reply.server)));
    }
    ours.check(&reply.digests()).map_err(|failure| {
        Failure::new(
            ErrorKind::Corrupt,
            format!("{} stored other bytes than were sent: {failure}", reply.server),
        )
        .hint("remove the copy there")
    })
}
