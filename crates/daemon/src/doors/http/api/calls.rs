//! The management API: every call of `wire::control` as `POST /api/v1/NAME`.

use crate::doors::http::{HttpDoor, answer::Refused, api::AtDoor, guard::caller::Caller};
use axum::{
    Extension, Json, Router,
    body::Bytes,
    extract::{Query, State},
    http::{HeaderMap, header},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use base::{Failure, Millis, units::Span};
use head::{Apply, Principal};
use serde::{Deserialize, Serialize};
use std::{
    hash::{DefaultHasher, Hasher},
    sync::Arc,
    time::Instant,
};
use wire::{
    control::{self, ACTS_FOR_HEADER, ActsFor, Call, REPLY_TAG_HEADER},
    for_each_call,
};

/// Longest time that an answer is held back.
const WAIT_MAX: Millis = Millis::from_seconds(60);

/// How long an answer is held back.
#[derive(Default, Deserialize)]
struct Wait {
    #[serde(default)]
    wait: Option<Span>,
    /// The tag of a pending reply that the caller has seen: another one is given at once.
    #[serde(default)]
    seen: Option<String>,
}

/// Adds the route of one call, unless it has none.
macro_rules! route {
    ($router:ident, $call:ident, Rooms, $by:ident) => {};
    ($router:ident, $call:ident, $audience:ident, Door) => {
        let $router = add_at_door::<control::$call>($router);
    };
    ($router:ident, $call:ident, $audience:ident, Head) => {
        let $router = add::<control::$call>($router);
    };
}

/// Makes the function that adds the routes of all calls.
macro_rules! route_all {
    ($($call:ident => $reply:ty, $name:literal, $audience:ident, $by:ident, $effect:ident, [$($named:literal),*]
        $(, pending $pending:expr)?;)*) => {
        fn all_calls(router: Router<Arc<HttpDoor>>) -> Router<Arc<HttpDoor>> {
            $(route!(router, $call, $audience, $by);)*
            router
        }
    };
}
for_each_call!(route_all);

/// Routes of all calls.
pub(in crate::doors::http) fn routes() -> Router<Arc<HttpDoor>> {
    let router = Router::new()
        .route("/api/v1/status", get(handle_get::<control::GetStatus>))
        .route("/api/v1/bill", get(handle_get::<control::GetBill>))
        .route("/api/v1/jobs", get(handle_get::<control::Jobs>));
    crate::doors::http::api::backup::routes(all_calls(router))
}

fn add<C: Apply>(router: Router<Arc<HttpDoor>>) -> Router<Arc<HttpDoor>> {
    router.route(&format!("/api/v1/{}", C::NAME), post(handle::<C>))
}

/// A call without parameters, for people with a browser or `curl`.
async fn handle_get<C: Apply + Default>(
    State(door): State<Arc<HttpDoor>>,
    Extension(caller): Extension<Caller>,
) -> Result<Json<C::Reply>, Refused> {
    let call = C::default();
    let outcome = carry_out(&door, &caller.who, call.clone(), &Wait::default()).await;
    door.note_call(&caller, &call, outcome.as_ref());
    Ok(Json(outcome?))
}

fn add_at_door<C: AtDoor>(router: Router<Arc<HttpDoor>>) -> Router<Arc<HttpDoor>> {
    router.route(&format!("/api/v1/{}", C::NAME), post(handle_at_door::<C>))
}

async fn handle_at_door<C: AtDoor>(
    State(door): State<Arc<HttpDoor>>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Json<C::Reply>, Refused> {
    let call: C = parse(&headers, &body)?;
    let outcome = call.clone().carry_out(Arc::clone(&door), caller.clone()).await;
    door.note_call(&caller, &call, outcome.as_ref());
    Ok(Json(outcome?))
}

async fn handle<C: Apply>(
    State(door): State<Arc<HttpDoor>>,
    Query(wait): Query<Wait>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Refused> {
    let call: C = parse(&headers, &body)?;
    let outcome = match caller.principal_for::<C>().and_then(|who| on_behalf(who, &headers)) {
        Ok(who) => carry_out(&door, &who, call.clone(), &wait).await,
        Err(failure) => Err(failure),
    };
    door.note_call(&caller, &call, outcome.as_ref());
    let reply = outcome?;
    // Whoever waits may want to be told what changes.
    let tag = (wait.wait.is_some() && C::is_pending(&reply)).then(|| [(REPLY_TAG_HEADER, tag_of(&reply))]);
    Ok((tag, Json(reply)).into_response())
}

/// Who makes a call: an operator may make it on behalf of somebody else.
fn on_behalf(who: Principal, headers: &HeaderMap) -> Result<Principal, Failure> {
    let Some(value) = headers.get(ACTS_FOR_HEADER) else { return Ok(who) };
    let text = value.to_str().map_err(|_| Failure::invalid(format!("{ACTS_FOR_HEADER} is no text")))?;
    who.acts_for(ActsFor::parse(text)?)
}

/// Tells one reply from another.
fn tag_of(reply: &impl Serialize) -> String {
    let mut hasher = DefaultHasher::new();
    // A reply that cannot be written is refused when it is sent.
    hasher.write(&serde_json::to_vec(reply).unwrap_or_default());
    format!("{:016x}", hasher.finish())
}

/// Reads a call.
pub(in crate::doors::http) fn parse<C: Call>(headers: &HeaderMap, body: &[u8]) -> Result<C, Failure> {
    require_json(headers, &format!("call {}", C::NAME))?;
    serde_json::from_slice(body)
        .map_err(|cause| Failure::invalid(format!("call {} cannot be read: {cause}", C::NAME)))
}

/// A web page of somebody else can make a browser send forms here, but not JSON.
pub(in crate::doors::http) fn require_json(headers: &HeaderMap, what: &str) -> Result<(), Failure> {
    let field = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
    let kind = field.split(';').next().unwrap_or_default().trim();
    if kind.eq_ignore_ascii_case("application/json") {
        return Ok(());
    }
    Err(Failure::invalid(format!("{what} came as {field:?}"))
        .hint("send it with content-type: application/json"))
}

async fn carry_out<C: Apply>(
    door: &HttpDoor,
    who: &Principal,
    call: C,
    wait: &Wait,
) -> Result<C::Reply, Failure> {
    let started = Instant::now();
    let is_news = |reply: &C::Reply| wait.seen.as_ref().is_some_and(|seen| *seen != tag_of(reply));
    let wait = wait.wait.as_ref().map_or(Millis(0), |Span(wait)| (*wait).min(WAIT_MAX));
    let reply = tokio::select! {
        reply = door.files.head()?.call_until(who, call.clone(), wait, is_news) => reply,
        // Whoever waits is told the state of now, so that a stop does not wait for it.
        () = door.token.stopped(), if wait.0 > 0 => door.files.head()?.call(who, call).await,
    };
    // Whoever asks for a late answer waits for something else than the head.
    if wait.0 == 0 {
        door.counters.http.took(started.elapsed());
    }
    door.counters.http.answer(reply.as_ref().err().map(|failure| failure.kind));
    reply
}
