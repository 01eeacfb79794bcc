//! `POST /api/v1/backup`: the catalogue as it is now, as a stream.

use crate::doors::http::{
    HttpDoor, answer::Refused, api::calls::require_json, audited::AuditedAction, guard::caller::Caller,
};
use axum::{
    Extension, Router,
    body::{Body, Bytes},
    extract::State,
    http::{HeaderMap, header},
    response::{IntoResponse, Response},
    routing::post,
};
use base::{Failure, Result};
use futures_util::stream;
use head::store::Snapshot;
use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};
use tokio::sync::mpsc;
use tracing::{info, warn};

/// As what it stands in the audit log.
const NAME: &str = "backup";

/// Parts of a backup, of a MiB or less, that wait for their receiver.
const PARTS_MAX: usize = 4;

/// A backup is under way: while it is read the log of the embedded engine grows, so there is one at a time.
static IS_UNDER_WAY: AtomicBool = AtomicBool::new(false);

/// Says so when it is over, however it ends.
struct RunningBackup;

impl RunningBackup {
    fn begin() -> Result<Self> {
        if IS_UNDER_WAY.swap(true, Ordering::AcqRel) {
            return Err(Failure::busy("another backup is running").hint("try again when it is complete"));
        }
        Ok(Self)
    }
}

impl Drop for RunningBackup {
    fn drop(&mut self) {
        IS_UNDER_WAY.store(false, Ordering::Release);
    }
}

pub(in crate::doors::http) fn routes(router: Router<Arc<HttpDoor>>) -> Router<Arc<HttpDoor>> {
    router.route("/api/v1/backup", post(backup))
}

// What is not read of a request makes the connection end with the answer, and the answer may be lost with it.
async fn backup(
    State(door): State<Arc<HttpDoor>>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    _call: Bytes,
) -> Result<Response, Refused> {
    let begun = begin(&door, &caller, &headers).await;
    door.note(
        &AuditedAction { peer: caller.peer, user: &caller.name(), verb: NAME, what: "", to: None },
        begun.as_ref().err(),
    );
    Ok(begun?)
}

async fn begin(door: &HttpDoor, caller: &Caller, headers: &HeaderMap) -> Result<Response> {
    if !caller.who.is_operator {
        let what = format!("user {} may not read the whole catalogue", caller.who.name);
        return Err(Failure::permission(what).hint("ask the owner of the facility"));
    }
    require_json(headers, &format!("call {NAME}"))?;
    let under_way = RunningBackup::begin()?;
    let snapshot = door.files.head()?.snapshot().await?;
    let (parts, received) = mpsc::channel(PARTS_MAX);
    tokio::task::spawn_blocking(move || {
        write(snapshot, &parts);
        drop(under_way);
    });
    let body = stream::unfold(received, |mut received| async {
        let part: io::Result<Bytes> = received.recv().await?;
        Some((part, received))
    });
    Ok(([(header::CONTENT_TYPE, "application/octet-stream")], Body::from_stream(body)).into_response())
}

fn write(snapshot: Snapshot, parts: &mpsc::Sender<io::Result<Bytes>>) {
    let mut bytes = 0;
    let outcome = snapshot.write(&mut |part| {
        bytes += part.len();
        let gone = |_| Failure::unavailable("its receiver disconnected");
        parts.blocking_send(Ok(part.into())).map_err(gone)
    });
    match outcome {
        Ok(rows) => info!(rows, bytes, "backup complete"),
        Err(failure) => {
            warn!(%failure, "backup failed");
            // The receiver sees that something is missing.
            let _ = parts.blocking_send(Err(io::Error::other(failure.to_string())));
        }
    }
}
