//! The WLCG Tape REST API v1: stage requests, releases, and where files are.
//!
//! The head keeps the requests; this is their form for clients of the field. Clients send paths with and without a slash at
//! the end. What a token with scopes allows is checked here, for each path of a body.

mod events;
mod requests;

use super::{HttpDoor, answer::Answer, api::calls::require_json, guard::caller::Caller};
use crate::access::identity::Identity;
use axum::{
    Json, Router,
    extract::{FromRef, FromRequestParts},
    http::{HeaderMap, Method, header, request::Parts},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use base::{Failure, FilePath, Result};
use head::Apply;
use serde::de::DeserializeOwned;
use std::{convert::Infallible, sync::Arc};
use wire::{
    auth::token::Right,
    http::tape::{Discovery, Endpoint},
};

/// Where clients look for the API (RFC 8615).
pub(super) const WELL_KNOWN: &str = "/.well-known/wlcg-tape-rest-api";
/// Where the API is.
pub(super) const ENDPOINT: &str = "/api/tape/v1";

/// Routes of the API.
pub(super) fn routes() -> Router<Arc<HttpDoor>> {
    let mut router = Router::new().route(WELL_KNOWN, get(discover));
    for slash in ["", "/"] {
        let at = |path: &str| format!("{ENDPOINT}{path}{slash}");
        router = router
            .route(&at("/stage"), post(requests::submit))
            .route(&at("/stage/{id}"), get(requests::show).delete(requests::delete))
            .route(&at("/stage/{id}/cancel"), post(requests::cancel))
            .route(&at("/stage/{id}/events"), get(events::follow))
            .route(&at("/release/{id}"), post(requests::release))
            .route(&at("/archiveinfo"), post(requests::archive_info));
    }
    router
}

/// Who asks, and what their token allows; the guard leaves it with requests for the API.
#[derive(Debug, Clone)]
pub(super) struct TokenBearer(pub(super) Arc<Identity>);

/// A request for the API without its body.
pub(super) struct TapeRequest {
    door: Arc<HttpDoor>,
    caller: Caller,
    bearer: Option<TokenBearer>,
    method: Method,
    target: String,
    headers: HeaderMap,
}

impl<S: Send + Sync> FromRequestParts<S> for TapeRequest
where
    Arc<HttpDoor>: FromRef<S>,
{
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Self::Rejection> {
        let caller = parts.extensions.get::<Caller>().cloned();
        Ok(Self {
            door: FromRef::from_ref(state),
            caller: caller.unwrap_or_else(|| Caller::nobody(None)),
            bearer: parts.extensions.get::<TokenBearer>().cloned(),
            method: parts.method.clone(),
            target: parts.uri.path().to_owned(),
            headers: parts.headers.clone(),
        })
    }
}

impl TapeRequest {
    /// Reads the body.
    fn parse<B: DeserializeOwned>(&self, body: &[u8]) -> Result<B> {
        require_json(&self.headers, "the body")?;
        serde_json::from_slice(body)
            .map_err(|cause| Failure::invalid(format!("the body is not what {} takes: {cause}", self.target)))
    }

    /// Refuses a path that the token of the caller does not cover.
    fn may(&self, right: Right, path: &str) -> Result<()> {
        let Some(TokenBearer(who)) = &self.bearer else { return Ok(()) };
        if !who.is_scoped() {
            return Ok(());
        }
        who.may(right, &path.parse::<FilePath>()?, self.door.authenticator.now())
    }

    /// Refuses a request of which a file is not covered.
    fn may_all<'a>(&self, right: Right, paths: impl IntoIterator<Item = &'a String>) -> Result<()> {
        paths.into_iter().try_for_each(|path| self.may(right, path))
    }

    /// Makes a call on behalf of the caller, and notes it.
    async fn call<C: Apply>(&self, call: C) -> Result<C::Reply> {
        let outcome = self.door.files.head()?.call(&self.caller.who, call.clone()).await;
        self.door.counters.http.answer(outcome.as_ref().err().map(|failure| failure.kind));
        self.door.note_call(&self.caller, &call, outcome.as_ref());
        outcome
    }

    /// The answer: a refusal as problem details (RFC 7807).
    fn answer(&self, answer: Answer) -> Response {
        answer.unwrap_or_else(|problem| problem.into_response(&self.method, &self.target))
    }

    /// `https://host:port`, as the client calls it.
    fn origin(&self) -> String {
        let host =
            self.headers.get(header::HOST).and_then(|value| value.to_str().ok()).unwrap_or("localhost");
        let is_tls = self.caller.peer.is_some_and(|peer| peer.is_tls);
        format!("{}://{host}", if is_tls { "https" } else { "http" })
    }
}

/// `GET /.well-known/wlcg-tape-rest-api`: where the API is.
async fn discover(request: TapeRequest) -> Response {
    let endpoint = Endpoint {
        uri: format!("{}{ENDPOINT}", request.origin()),
        version: "v1",
        metadata: serde_json::Map::default(),
    };
    let (sitename, description) = (&*request.door.sitename, "tape REST API of a Backplane facility");
    Json(Discovery { sitename, description, endpoints: [endpoint] }).into_response()
}
