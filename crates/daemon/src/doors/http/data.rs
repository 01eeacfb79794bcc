//! The door of a disk server away from the head: objects by capability; everything else is asked for at the head.

use super::{
    ConnectionTrust, HttpDoor, Peer,
    answer::{Answer, Problem},
    dav::properties::href,
    file::{read, write},
    paths::PathRequest,
    tpc,
};
use axum::{
    Router,
    body::Body,
    extract::State,
    http::{Request, StatusCode, header},
    response::{IntoResponse, Response},
    routing::any,
};
use base::Failure;
use disk::serve::local_objects::{CapFile, CapOpen, is_outdated};
use head::Principal;
use std::sync::Arc;
use wire::{
    auth::capability,
    control::{TRIED, USER_HEADER},
    http::decode_path,
};

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
    // Nobody is anybody here but by a capability.
    parts.headers.remove(USER_HEADER);
    let request = PathRequest {
        who: Principal::user("nobody"),
        path: decode_path(parts.uri.path())?,
        is_slashed: parts.uri.path().ends_with('/'),
        query: parts.uri.query().map(str::to_owned),
        makes_parents: false,
        peer: parts.extensions.get::<Peer>().copied(),
        method: parts.method,
        headers: parts.headers,
        door,
    };
    let signed = request.cap().map(str::to_owned);
    if let Some(ConnectionTrust(place)) =
        parts.extensions.get().filter(|ConnectionTrust(place)| !place.is_proven())
    {
        // A capability is all the proof that there is here.
        match signed.as_deref().filter(|signed| request.door.files.objects().is_for_us(signed)) {
            Some(_) => place.prove()?,
            None if !place.count_request() => return Ok(last(to_the_head(&request))),
            None => {}
        }
    }
    let Some(signed) = signed else {
        return Ok(to_the_head(&request));
    };
    match request.method.as_str() {
        "COPY" if request.headers.contains_key("source") => tpc::pull_by_cap(request, &signed).await,
        "COPY" => tpc::push_by_cap(request, &signed).await,
        "GET" | "HEAD" => read::read_by_cap(&request).await,
        "PUT" => write::put(&request, body).await,
        _ => Ok(to_the_head(&request)),
    }
}

/// Whoever has no capability that holds is sent where one is to be had.
fn to_the_head(request: &PathRequest) -> Response {
    let mut response = StatusCode::TEMPORARY_REDIRECT.into_response();
    read::put(response.headers_mut(), header::LOCATION, &request.place_at_head());
    response
}

/// The last answer of a connection.
fn last(mut response: Response) -> Response {
    read::put(response.headers_mut(), header::CONNECTION, "close");
    response
}

/// A query without the capability, which was not for us or does not hold any more.
fn without_cap(query: &str) -> String {
    let is_cap = |pair: &&str| pair.split('=').next() == Some(capability::PARAMETER);
    let kept: Vec<_> = query.split('&').filter(|pair| !is_cap(pair)).collect();
    if kept.is_empty() { String::new() } else { format!("?{}", kept.join("&")) }
}

/// Adds a host to those where the client was in vain.
fn with_tried(query: &str, host: &str) -> String {
    let pairs = query.trim_start_matches('?').split('&').filter(|pair| !pair.is_empty());
    let tried = |pair: &&str| pair.split('=').next() == Some(TRIED);
    let (before, kept): (Vec<_>, Vec<_>) = pairs.partition(tried);
    let hosts = before.iter().filter_map(|pair| Some(pair.split_once('=')?.1)).chain([host]);
    let tried = format!("{TRIED}={}", hosts.collect::<Vec<_>>().join(","));
    format!("?{}", kept.into_iter().chain([tried.as_str()]).collect::<Vec<_>>().join("&"))
}

impl PathRequest {
    /// Where to ask for the same by its name; at the head itself this is that very door.
    fn place_at_head(&self) -> String {
        let mut query = self.query.as_deref().map(without_cap).unwrap_or_default();
        if self.comes_to_write() && !self.door.host.is_empty() {
            // The head gives up what was reserved here in vain.
            query = with_tried(&query, &self.door.host);
        }
        format!("{}{}{query}", self.door.head, href(&self.path, self.is_slashed))
    }

    /// Opens what the capability of the request is for, or sends the client to the head, which knows better.
    pub(super) async fn open_cap(&self, signed: &str) -> Result<CapFile, Problem> {
        let open = CapOpen { signed, path: &self.path, is_update: false };
        let opened =
            self.door.files.objects().open_cap(open, Arc::clone(&self.door.counters.http.traffic)).await;
        opened.map_err(|failure| {
            if is_outdated(&failure) && self.parameter(capability::DIRECT).is_none() {
                Problem::with_status(failure, StatusCode::TEMPORARY_REDIRECT)
                    .field(header::LOCATION, self.place_at_head())
            } else {
                failure.into()
            }
        })
    }
}

/// The capability is for the other direction.
pub(super) fn other_way(path: &base::FilePath) -> Failure {
    Failure::permission(format!("the capability for {path} does not allow this direction"))
        .hint("ask the head again")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_came_to_write_in_vain_says_where() {
        assert_eq!(with_tried("", "d1"), "?tried=d1");
        assert_eq!(with_tried("?x=1&tried=d2,d3&y", "d1"), "?x=1&y&tried=d2,d3,d1");
    }

    #[test]
    fn a_query_keeps_all_but_its_capability() {
        for (query, kept) in [("bp.cap=x", ""), ("x=1&bp.cap=x&y=2", "?x=1&y=2"), ("x%20y", "?x%20y")] {
            assert_eq!(without_cap(query), kept);
        }
    }
}
