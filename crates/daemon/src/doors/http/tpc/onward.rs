//! Third-party copies to or from another disk server of the facility: the client is redirected there, so that the bytes
//! do not pass through the head.
//!
//! Clients of the field follow a redirect of `COPY` (307), as of `GET` and `PUT`. A client without TLS is not
//! redirected to a server that needs it. A file that must be recalled first is sent by the head, while the client
//! watches.

use super::{Transfer, pull::open_call, pulling, pushing, remote::Ask, require_host};
use crate::doors::{
    files::Opened,
    http::{
        answer::{Answer, Problem},
        data::other_way,
        file::read::sent_on,
        paths::PathRequest,
    },
};
use axum::{http::Method, response::Response};
use base::{ErrorKind, Result};
use disk::serve::{
    local_objects::CapFile,
    open_file::{ReadFile, WriteFile},
};
use std::{sync::Arc, time::Duration};
use tokio::time::timeout;
use wire::{
    control::{Entry, FileState},
    http::dav::{Place, parse_place},
};

/// How long the source may take to say how large a file is, so that it is put where it fits.
const SIZE_PATIENCE: Duration = Duration::from_secs(10);

/// Where a copy goes on.
pub(super) enum Delegation<F> {
    /// At the disk server of this answer.
    Redirect(Response),
    /// Here, with the file if it is open already.
    Here(Option<F>),
}

/// Whether a client may be sent to another disk server.
fn may_be_sent_on(transfer: &Transfer) -> bool {
    let request = &transfer.request;
    request.peer.is_some_and(|peer| peer.is_tls) && !request.door.host_registry.is_empty()
}

/// Where the file that is fetched will be.
pub(super) async fn target(transfer: &Transfer) -> Result<Delegation<WriteFile>, Problem> {
    if !may_be_sent_on(transfer) {
        return Ok(Delegation::Here(None));
    }
    let (request, open) = (&transfer.request, open_call(transfer, announced_bytes(transfer).await));
    let counter = Arc::clone(&request.door.counters.http.traffic);
    let opened = request.door.files.open_write(&request.who, open, counter).await;
    let opened = opened.map_err(|failure| match failure.kind {
        ErrorKind::Exists => Problem::precondition(failure.what),
        _ => failure.into(),
    })?;
    Ok(match opened {
        Opened::Redirect(target) => Delegation::Redirect(sent_on(request, &target)),
        Opened::Here(file) => Delegation::Here(Some(file)),
    })
}

/// Bytes of the file that is to be fetched; 0 if its server does not say.
async fn announced_bytes(transfer: &Transfer) -> u64 {
    let Transfer { place, fields, progress, .. } = transfer;
    let ask = Ask { method: Method::HEAD, place, fields, upload: None, progress };
    match timeout(SIZE_PATIENCE, transfer.remote().ask(&ask)).await {
        Ok(Ok(reply)) if reply.status.is_success() => reply.length().unwrap_or(0),
        // The copy itself will tell what is wrong.
        _ => 0,
    }
}

/// Where the file that is sent lies.
pub(super) async fn source(transfer: &Transfer, entry: &Entry) -> Result<Delegation<ReadFile>, Problem> {
    if !may_be_sent_on(transfer) || !entry.state.is_some_and(FileState::is_online) {
        return Ok(Delegation::Here(None));
    }
    let request = &transfer.request;
    let counter = Arc::clone(&request.door.counters.http.traffic);
    Ok(match request.door.files.open_read(&request.who, &request.path, counter).await? {
        Opened::Redirect(target) => Delegation::Redirect(sent_on(request, &target)),
        Opened::Here(file) => Delegation::Here(Some(file)),
    })
}

/// `COPY` with a `Source`, to the object that a capability is for.
pub(in crate::doors::http) async fn pull_by_cap(request: PathRequest, signed: &str) -> Answer {
    let place = parse_place(request.field("source").unwrap_or_default())?;
    let transfer = begun(request, place)?;
    match transfer.request.open_cap(signed).await? {
        CapFile::Write(file) => Ok(pulling(transfer, Some(file))),
        CapFile::Read(_) | CapFile::Live(_) => Err(other_way(&transfer.request.path).into()),
    }
}

/// `COPY` with a `Destination`, of the object that a capability is for.
pub(in crate::doors::http) async fn push_by_cap(request: PathRequest, signed: &str) -> Answer {
    let place = parse_place(request.field("destination").unwrap_or_default())?;
    let transfer = begun(request, place)?;
    match transfer.request.open_cap(signed).await? {
        CapFile::Read(file) => Ok(pushing(transfer, Some(file))),
        CapFile::Write(_) | CapFile::Live(_) => Err(other_way(&transfer.request.path).into()),
    }
}

fn begun(request: PathRequest, place: Place) -> Result<Transfer, Problem> {
    let transfer = Transfer::new(request, place)?;
    require_host(&transfer.place)?;
    Ok(transfer)
}
