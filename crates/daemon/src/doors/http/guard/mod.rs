//! The guard of every request: checks the host, authenticates the caller, and checks the scopes of the token.
//!
//! What comes after the guard finds the [`Caller`] among the extensions of the request, whatever the client wrote.

pub(crate) mod caller;
pub(crate) mod origin;
pub(crate) mod rights;

use super::{
    ConnectionTrust, HttpDoor, Peer,
    answer::{INSUFFICIENT_SCOPE, Problem, Refused},
    audited::{self, AuditedAction},
    guard::{caller::Caller, rights::needs},
    paths::CreateOnly,
    tape::{self, TokenBearer},
};
use crate::access::{
    host_registry::Member,
    identity::{Claim, Identity},
};
use axum::{
    body::{Body, Bytes, HttpBody},
    extract::State,
    http::{HeaderMap, HeaderValue, Method, Request, StatusCode, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use base::{ErrorKind, Failure, Result, limits::UNPROVEN_REQUEST_BYTES_MAX};
use futures_util::stream;
use std::{sync::Arc, time::Duration};
use wire::{
    auth::token::{self, Right},
    control::{Audience, Call, Submit, USER_HEADER, VERSION_HEADER, audience_of, check_version},
    http::decode_path,
};

/// How long the body of a refused request is listened to.
const HEAR_OUT: Duration = Duration::from_secs(1);
/// Paths of the management API.
const API: &str = "/api/";
/// What stands before the name of a call.
const CALLS: &str = "/api/v1/";
/// What everybody may ask who is about to join.
const OPEN_TO_HOSTS: [&str; 2] = ["/api/v1/get_authority", "/api/v1/join_facility"];
/// What everybody may read: where clients find the tape API.
const DISCOVERY: &str = tape::WELL_KNOWN;
/// What everybody on this host may see without a proof.
const OPEN_ON_LOOPBACK: [&str; 4] = ["/metrics", "/console", "/console/events", "/api/v1/status"];

/// Refuses what is not meant for this door, and what a web page of another site has made a browser send.
pub(super) async fn require_origin(
    State(door): State<Arc<HttpDoor>>,
    request: Request<Body>,
    next: Next,
) -> Response {
    let peer = request.extensions().get::<Peer>().copied();
    // Without a peer somebody calls the router itself: that is only done in this process.
    let Some(peer) = peer else { return next.run(request).await };
    match origin::check(&door.names, &request, peer.is_tls) {
        Ok(()) => {
            let is_head = request.method() == Method::HEAD;
            let response = next.run(request).await;
            if is_head { of_unknown_length(response) } else { response }
        }
        Err((status, failure)) => {
            refuse(&door, request, &Caller::nobody(Some(peer)), (status, failure)).await
        }
    }
}

/// The answer to `HEAD`, whose body the library has dropped: if nobody knew how long it was, it does not say that it was empty.
fn of_unknown_length(mut response: Response) -> Response {
    if matches!(response.status(), StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED) {
        response.headers_mut().remove(header::CONTENT_LENGTH);
    }
    let is_dropped = response.body().size_hint().exact() == Some(0);
    if is_dropped && !response.headers().contains_key(header::CONTENT_LENGTH) {
        *response.body_mut() = Body::from_stream(stream::empty::<std::io::Result<Bytes>>());
    }
    response
}

/// Lets a request through, with its caller, or refuses it.
pub(super) async fn guard(
    State(door): State<Arc<HttpDoor>>,
    mut request: Request<Body>,
    next: Next,
) -> Response {
    let peer = request.extensions().get::<Peer>().copied();
    match admit(&door, &mut request, peer).await {
        Ok(caller) => {
            request.extensions_mut().insert(caller);
            next.run(request).await
        }
        Err(Refusal { status, failure, caller }) => refuse(&door, request, &caller, (status, failure)).await,
    }
}

async fn refuse(
    door: &HttpDoor,
    request: Request<Body>,
    caller: &Caller,
    (status, failure): (StatusCode, Failure),
) -> Response {
    door.counters.http.answer(Some(failure.kind));
    let (verb, what) = (audited::verb(request.method()), request.uri().path());
    door.note(
        &AuditedAction { peer: caller.peer, user: &caller.name(), verb, what, to: None },
        Some(&failure),
    );
    let is_last = request.extensions().get::<ConnectionTrust>().is_some_and(ConnectionTrust::is_exhausted);
    let mut response = refusal(&request, failure, status);
    if status == StatusCode::FORBIDDEN && caller.token.is_some_and(|token| token.is_scoped) {
        response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static(INSUFFICIENT_SCOPE));
    }
    // Who takes a request for what it is not must not be given another one.
    if is_last || status == StatusCode::BAD_REQUEST && caller.is_nobody() {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    if request.uri().path().starts_with(API) {
        hear_out(request.into_body()).await;
    }
    response
}

/// Reads what comes with a call: a connection that ends before all was read may take the answer with it. Files are another
/// matter: nobody is asked to send one in vain.
async fn hear_out(body: Body) {
    // The answer is sent whatever comes of it.
    let _ = tokio::time::timeout(HEAR_OUT, axum::body::to_bytes(body, UNPROVEN_REQUEST_BYTES_MAX)).await;
}

fn is_proven(headers: &HeaderMap) -> bool {
    headers.contains_key(header::AUTHORIZATION)
}

/// Whether a request is for the tape API, whose paths stand in its body.
fn is_tape_api(path: &str) -> bool {
    path == DISCOVERY || path.strip_prefix(tape::ENDPOINT).is_some_and(|rest| rest.starts_with('/'))
}

fn refusal(request: &Request<Body>, failure: Failure, status: StatusCode) -> Response {
    let path = request.uri().path();
    let mut response = if path.starts_with(API) && !is_tape_api(path) {
        let mut response = Refused(failure).into_response();
        *response.status_mut() = status;
        response
    } else {
        Problem::with_status(failure, status).into_response(request.method(), path)
    };
    if status == StatusCode::UNAUTHORIZED {
        let is_bad = is_proven(request.headers());
        let field = if is_bad { "Bearer error=\"invalid_token\"" } else { "Bearer" };
        response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static(field));
    }
    response
}

/// A refusal: 401 if it is not known who asks, 503 if that cannot be found out now, 403 if it is not enough.
struct Refusal {
    status: StatusCode,
    failure: Failure,
    caller: Box<Caller>,
}

async fn admit(door: &HttpDoor, request: &mut Request<Body>, peer: Option<Peer>) -> Result<Caller, Refusal> {
    let is_proven = is_proven(request.headers());
    let unknown = |failure: Failure| {
        let status = match failure.kind {
            ErrorKind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            ErrorKind::Invalid if !is_proven => StatusCode::BAD_REQUEST,
            _ => StatusCode::UNAUTHORIZED,
        };
        Refusal { status, failure, caller: Box::new(Caller::nobody(peer)) }
    };
    let shown = peer.and_then(|peer| peer.certificate).filter(|shown| shown.is_good);
    if let Some(shown) = shown
        && let Some(member) = door.host_registry.find(shown.sha256)
    {
        let caller = Caller::host(member.clone(), peer);
        note_proof(request, &caller)?;
        return match check_host(request, &member) {
            Ok(()) => Ok(caller),
            Err(failure) => Err(Refusal { status: StatusCode::FORBIDDEN, failure, caller: Box::new(caller) }),
        };
    }
    let who = match identify(door, request.headers(), peer).await {
        Ok(who) => who,
        Err(_)
            if request.method() == Method::OPTIONS
                || is_open(request, peer)
                || OPEN_TO_HOSTS.contains(&request.uri().path())
                || request.method() == Method::GET && request.uri().path() == DISCOVERY =>
        {
            let caller = Caller::nobody(peer);
            return match check_short(request) {
                Ok(()) => Ok(caller),
                Err(failure) => {
                    Err(Refusal { status: StatusCode::PAYLOAD_TOO_LARGE, failure, caller: Box::new(caller) })
                }
            };
        }
        Err(failure) => return Err(unknown(failure)),
    };
    who.is_good(door.authenticator.now()).map_err(unknown)?;
    let caller = Caller::user(who.who.clone(), peer).with_token(who.token());
    note_proof(request, &caller)?;
    let forbidden =
        |failure| Refusal { status: StatusCode::FORBIDDEN, failure, caller: Box::new(caller.clone()) };
    if request.uri().path().strip_prefix(CALLS) == Some(Submit::NAME) {
        who.may_submit().map_err(forbidden)?;
    }
    if is_tape_api(request.uri().path()) {
        // What the token allows is checked for each path of the body.
        request.extensions_mut().insert(TokenBearer(Arc::new(who)));
    } else if who.is_scoped() {
        check(door, &who, request, peer).map_err(forbidden)?;
    }
    Ok(caller)
}

/// The connection counts as proven from now on; refused if the door has no place for it.
fn note_proof(request: &Request<Body>, caller: &Caller) -> Result<(), Refusal> {
    let Some(ConnectionTrust(place)) = request.extensions().get() else { return Ok(()) };
    place.prove().map_err(|failure| Refusal {
        status: StatusCode::SERVICE_UNAVAILABLE,
        failure,
        caller: Box::new(caller.clone()),
    })
}

/// Who has not proven who it is sends little, and says before how much.
fn check_short(request: &Request<Body>) -> Result<()> {
    let bytes = request.body().size_hint().upper();
    if bytes.is_some_and(|bytes| bytes <= UNPROVEN_REQUEST_BYTES_MAX as u64) {
        return Ok(());
    }
    let what =
        format!("a request without authentication may have at most {UNPROVEN_REQUEST_BYTES_MAX} bytes");
    Err(Failure::invalid(what).hint("send Content-Length, or present a token"))
}

/// A host makes the calls of its rooms and nothing else, not even as nobody: one that is broken into is to read no file and submit
/// no job. What a daemon of another version says may mean something else.
fn check_host(request: &Request<Body>, member: &Member) -> Result<()> {
    let path = request.uri().path();
    let audience = path.strip_prefix(CALLS).and_then(audience_of);
    // Calls of rooms are for those in the head's own process.
    let is_foreign = audience
        .is_none_or(|audience| matches!(audience, Audience::People | Audience::Mounts | Audience::Rooms));
    if is_foreign || request.method() != Method::POST {
        let (verb, host) = (request.method(), &member.name);
        return Err(Failure::permission(format!("{verb} {path} is for users, not for host {host}"))
            .hint("present a token instead of the certificate of a host"));
    }
    let version = request.headers().get(VERSION_HEADER).and_then(|value| value.to_str().ok());
    check_version(&member.name, version)
}

fn is_open(request: &Request<Body>, peer: Option<Peer>) -> bool {
    let is_near = peer.is_some_and(|peer| peer.local_user.is_some() && peer.certificate.is_none());
    is_near && !is_proven(request.headers()) && OPEN_ON_LOOPBACK.contains(&request.uri().path())
}

/// Who asks: the bearer of a token, or the user of this host whom the kernel names.
async fn identify(door: &HttpDoor, headers: &HeaderMap, peer: Option<Peer>) -> Result<Identity> {
    let Some(proof) = headers.get(header::AUTHORIZATION) else {
        return local(door, headers, peer).await;
    };
    let bearer = proof
        .to_str()
        .ok()
        .filter(|text| text.get(..6).is_some_and(|word| word.eq_ignore_ascii_case("bearer")));
    let bearer = bearer.and_then(token::bearer).ok_or_else(|| {
        Failure::permission("the Authorization field holds no bearer token")
            .hint("send `Authorization: Bearer TOKEN`")
    })?;
    door.authenticator.bearer(bearer).await
}

async fn local(door: &HttpDoor, headers: &HeaderMap, peer: Option<Peer>) -> Result<Identity> {
    // Whoever says something, however odd, is not taken for somebody else.
    let claimed =
        headers.get(USER_HEADER).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    let claimed = claimed.as_deref().filter(|name| !name.is_empty());
    let claim = claimed.map_or(Claim::None, Claim::Named);
    let Some(peer) = peer else {
        // Without a peer somebody calls the router itself: that is only done in this process.
        return door.authenticator.local(Some(rustix::process::geteuid().as_raw()), claim).await;
    };
    // Whoever shows a certificate does not say that they are a user of this host: it may be a host that was removed.
    if peer.certificate.is_some() {
        return Err(Failure::permission(
            "the client's certificate belongs to no host of this facility, or has expired",
        )
        .hint(
            "a host joins again: `bp host invite`, then `bpd join` with its directory; users present a token",
        ));
    }
    match peer.address {
        None => door.authenticator.at_socket(peer.local_user, claim).await,
        Some(address) if address.ip().to_canonical().is_loopback() => {
            door.authenticator.local(peer.local_user, claim).await
        }
        Some(_) => door.authenticator.stranger(),
    }
}

/// Checks what the scopes of a token allow.
fn check(door: &HttpDoor, who: &Identity, request: &mut Request<Body>, peer: Option<Peer>) -> Result<()> {
    let target = request.uri().path();
    let audience = target.strip_prefix(CALLS).and_then(audience_of);
    if audience == Some(Audience::Mounts) && who.is_for_all_files() {
        return Ok(());
    }
    if target.starts_with(API) || target.starts_with("/console") || target == "/metrics" {
        return Err(Failure::permission("a token with scopes is for files only")
            .hint("`bp token create` without --scope makes one for everything that its user may do"));
    }
    let now = door.authenticator.now();
    let path = decode_path(target)?;
    let needs = needs(request.method(), request.headers(), (path, target.ends_with('/')), peer)?;
    for (right, path) in &needs.rights {
        who.may(*right, path, now)?;
    }
    if needs.changed.iter().all(|path| who.may(Right::Modify, path, now).is_ok()) {
        return Ok(());
    }
    for path in &needs.changed {
        who.may(Right::Create, path, now)?;
    }
    // Who may create but not modify may replace nothing.
    let (field, value) =
        if request.method() == Method::PUT { ("if-none-match", "*") } else { ("overwrite", "F") };
    let before = request.headers_mut().insert(field, HeaderValue::from_static(value));
    if before.is_none_or(|before| before != value) {
        request.extensions_mut().insert(CreateOnly);
    }
    Ok(())
}
