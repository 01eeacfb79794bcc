//! Console and metrics.

use crate::{
    doors::{
        console,
        http::{HttpDoor, answer::Refused},
    },
    metrics,
};
use axum::{
    extract::State,
    http::header,
    response::{Html, IntoResponse, Response, Sse, sse::Event},
};
use base::Result;
use futures_util::{Stream, stream};
use head::Topic;
use std::{convert::Infallible, sync::Arc, time::Duration};
use tokio::sync::watch;
use wire::control::{self, Bill, GetBill, GetStatus, Status};

/// The console is redrawn at most this often.
const REDRAW: Duration = Duration::from_millis(500);

async fn snapshot(door: &HttpDoor) -> Result<(Status, Bill)> {
    let who = head::Principal::room("console");
    let status = door.files.head()?.call(&who, GetStatus {}).await?;
    let bill = door.files.head()?.call(&who, GetBill {}).await?;
    Ok((status, bill))
}

/// What the console shows.
async fn shown(door: &HttpDoor) -> Result<console::Shown> {
    let (status, bill) = snapshot(door).await?;
    let (head, who) = (door.files.head()?, head::Principal::room("console"));
    let newest = control::GetEvents { newest: Some(console::EVENTS_SHOWN), ..control::GetEvents::default() };
    let events = head.call(&who, newest).await?.events;
    let mounts = head.call(&who, control::GetMounts {}).await?;
    Ok(console::Shown { status, bill, mounts, events })
}

/// `GET /metrics`
pub(in crate::doors::http) async fn metrics(State(door): State<Arc<HttpDoor>>) -> Result<Response, Refused> {
    let (status, bill) = snapshot(&door).await?;
    let text = metrics::render(&status, &bill, &door.counters, door.files.head()?.waits());
    Ok(([(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response())
}

/// `GET /console`
pub(in crate::doors::http) async fn console(State(door): State<Arc<HttpDoor>>) -> Result<Response, Refused> {
    let page = Html(console::page(&shown(&door).await?).into_string());
    Ok(([(header::CONTENT_SECURITY_POLICY, console::CONTENT_SECURITY_POLICY)], page).into_response())
}

/// `GET /console/events`: the page's content whenever something changed.
pub(in crate::doors::http) async fn events(
    State(door): State<Arc<HttpDoor>>,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>> + use<>>, Refused> {
    let head = door.files.head()?;
    let changes: Vec<_> = Topic::ALL.into_iter().map(|topic| head.watch(topic)).collect();
    let frames = stream::unfold((door, changes, true), |(door, mut changes, is_first)| async move {
        if !is_first {
            tokio::time::sleep(REDRAW).await;
            let quiet = Duration::from_millis(console::EVENT_INTERVAL_MAX.0.unsigned_abs());
            tokio::select! {
                () = door.token.stopped() => return None,
                _ = tokio::time::timeout(quiet, any_change(&mut changes)) => {}
            }
        }
        let event = Event::default().data(console::event_data(&shown(&door).await.ok()?));
        Some((Ok(event), (door, changes, false)))
    });
    Ok(Sse::new(frames))
}

async fn any_change(changes: &mut [watch::Receiver<u64>]) {
    let waits = changes.iter_mut().map(|change| Box::pin(change.changed()));
    // A head that is gone ends the stream at the next snapshot.
    let _ = futures_util::future::select_all(waits).await;
}
