//! A stage request as server-sent events: its state now, and again whenever it changes, until it is over.

use super::{TapeRequest, requests::look};
use crate::doors::http::answer::Problem;
use axum::{
    extract::Path,
    response::{
        IntoResponse, Response, Sse,
        sse::{Event, KeepAlive},
    },
};
use base::Millis;
use futures_util::stream;
use std::{convert::Infallible, time::Duration};
use wire::{
    control::{GetStageRequest, StageRequestInfo},
    http::tape::StageStatus,
};

/// How long one question to the head waits for news.
const LOOK: Millis = Millis::from_seconds(30);
/// A quiet stream says that often that it is there.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// Events of one request follow each other no faster.
const PAUSE: Duration = Duration::from_millis(250);

/// `GET stage/{id}/events`
pub(super) async fn follow(request: TapeRequest, Path(id): Path<String>) -> Response {
    match look(&request, &id).await {
        Ok(info) => {
            Sse::new(events(request, info)).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)).into_response()
        }
        Err(failure) => request.answer(Err(Problem::from(failure))),
    }
}

/// What is told, and what was told last.
struct Following {
    request: TapeRequest,
    last: StageRequestInfo,
    is_told: bool,
}

fn events(
    request: TapeRequest,
    first: StageRequestInfo,
) -> impl futures_util::Stream<Item = Result<Event, Infallible>> {
    let following = Following { request, last: first, is_told: false };
    stream::unfold(Some(following), |following| async {
        let mut following = following?;
        if following.is_told {
            following.last = following.news().await?;
        }
        following.is_told = true;
        let is_over = following.last.completed.is_some();
        let event = event(following.last.clone());
        Some((Ok(event), (!is_over).then_some(following)))
    })
}

/// The state as an event: its type says whether more will follow.
fn event(info: StageRequestInfo) -> Event {
    let kind = if info.completed.is_some() { "completed" } else { "progress" };
    let event = Event::default().event(kind);
    event.json_data(StageStatus::from(info)).unwrap_or_else(|_| Event::default().event(kind))
}

impl Following {
    /// Waits for a change. None: the request is gone, or the daemon stops.
    async fn news(&self) -> Option<StageRequestInfo> {
        tokio::time::sleep(PAUSE).await;
        let door = &self.request.door;
        let call = GetStageRequest { id: self.last.id };
        loop {
            let head = door.files.head().ok()?;
            let is_news = |info: &StageRequestInfo| *info != self.last;
            let reply = tokio::select! {
                reply = head.call_until(&self.request.caller.who, call.clone(), LOOK, is_news) => reply.ok()?,
                () = door.token.stopped() => return None,
            };
            if reply != self.last {
                return Some(reply);
            }
        }
    }
}
