//! The door of a disk server away from the head: objects by capability; everything else is asked for at the head.

use super::{
    HttpDoor, Peer,
    answer::{Answer, Problem},
    paths::Visit,
    read, tpc, write,
};
use crate::objects::{CapFile, CapOpen};
use axum::{
    Router,
    body::Body,
    extract::State,
    http::{Request, StatusCode, header},
    response::{IntoResponse, Response},
    routing::any,
};
use base::{Failure, Result};
use head::Principal;
use std::sync::Arc;
use wire::{control::USER_HEADER, http::decode_path};

pub(super) fn routes(door: Arc<HttpDoor>) -> Router {
    Router::new().fallback(any(handle)).with_state(door)
}

async fn handle(State(door): State<Arc<HttpDoor>>, request: Request<Body>) -> Response {
    let (method, instance) = (request.method().clone(), request.uri().path().to_owned());
    let counters = Arc::clone(&door.counters);
    let outcome = dispatch(door, request).await;
    counters.http.answer(outcome.as_ref().err().map(Problem::kind));
    outcome.unwrap_or_else(|problem| problem.into_response(&method, &instance))
}

async fn dispatch(door: Arc<HttpDoor>, request: Request<Body>) -> Answer {
    let (mut parts, body) = request.into_parts();
    let target = parts.uri.path_and_query().map_or("/", |target| target.as_str()).to_owned();
    // Nobody is anybody here but by a capability.
    parts.headers.remove(USER_HEADER);
    let visit = Visit {
        who: Principal::user("nobody"),
        path: decode_path(parts.uri.path())?,
        is_slashed: parts.uri.path().ends_with('/'),
        query: parts.uri.query().map(str::to_owned),
        peer: parts.extensions.get::<Peer>().copied(),
        method: parts.method,
        headers: parts.headers,
        door,
    };
    let Some(signed) = visit.cap().map(str::to_owned) else {
        return Ok(to_the_head(&visit, &target));
    };
    match visit.method.as_str() {
        "COPY" if visit.headers.contains_key("source") => tpc::pull_by_cap(visit, &signed).await,
        "COPY" => tpc::push_by_cap(visit, &signed).await,
        "GET" | "HEAD" => read::read_by_cap(&visit).await,
        "PUT" => write::put(&visit, body).await,
        _ => Ok(to_the_head(&visit, &target)),
    }
}

/// Whoever has no capability that holds is sent where one is to be had.
fn to_the_head(visit: &Visit, target: &str) -> Response {
    let mut response = StatusCode::TEMPORARY_REDIRECT.into_response();
    let place = format!("{}{}", visit.door.head, without_cap(target));
    read::put(response.headers_mut(), header::LOCATION, &place);
    response
}

/// A target without the capability, which was not for us or has expired.
fn without_cap(target: &str) -> String {
    let Some((path, query)) = target.split_once('?') else { return target.to_owned() };
    let is_cap = |pair: &&str| pair.split('=').next() == Some(wire::cap::PARAMETER);
    let kept: Vec<_> = query.split('&').filter(|pair| !is_cap(pair)).collect();
    if kept.is_empty() { path.to_owned() } else { format!("{path}?{}", kept.join("&")) }
}

impl Visit {
    /// Opens what the capability of the request is for.
    pub(super) async fn open_cap(&self, signed: &str) -> Result<CapFile> {
        let open = CapOpen { signed, path: &self.path, is_update: false };
        self.door.files.objects().open_cap(open, Arc::clone(&self.door.counters.http)).await
    }
}

/// The capability is for the other direction.
pub(super) fn other_way(path: &base::FilePath) -> Failure {
    Failure::permission(format!("the capability for {path} is for the other direction"))
        .hint("ask the head again")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_keeps_all_but_its_capability() {
        for (target, kept) in [
            ("/a", "/a"),
            ("/a?bp.cap=x", "/a"),
            ("/a?x=1&bp.cap=x&y=2", "/a?x=1&y=2"),
            ("/a%20b?x", "/a%20b?x"),
        ] {
            assert_eq!(without_cap(target), kept);
        }
    }
}
