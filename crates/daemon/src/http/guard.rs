//! Before anything else: who asks, and whether a token allows it.
//!
//! What comes after the guard finds the proven name in [`USER_HEADER`] and the proven groups in [`GROUPS_HEADER`],
//! whatever the client wrote there.

use super::{
    HttpDoor, Peer,
    answer::{Problem, Refused},
    deeds::{self, Deed},
};
use crate::{hosts::Member, identity::Identity};
use axum::{
    body::Body,
    extract::State,
    http::{HeaderMap, HeaderValue, Method, Request, StatusCode, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use base::{ErrorKind, Failure, FilePath, Result};
use std::{sync::Arc, time::Duration};
use wire::{
    control::{Audience, Call, Submit, USER_HEADER, VERSION_HEADER, audience_of, check_version},
    http::{
        dav::{Depth, parse_depth, parse_place},
        decode_path,
    },
    token::{self, Right},
};

/// Field in which the guard says which groups were proven, with commas between them.
pub(super) const GROUPS_HEADER: &str = "x-backplane-groups";
/// How long the body of a refused request is listened to.
const HEAR_OUT: Duration = Duration::from_secs(1);
/// Bytes of it.
const CALL_BYTES_MAX: usize = 64 << 10;
/// Whoever proves nothing.
const NOBODY: &str = "nobody";
/// Paths of the management API.
const API: &str = "/api/";
/// What stands before the name of a call.
const CALLS: &str = "/api/v1/";
/// What everybody may ask who is about to join.
const OPEN_TO_HOSTS: [&str; 2] = ["/api/v1/get_authority", "/api/v1/join_facility"];
/// What everybody on this host may see without a proof.
const OPEN_ON_LOOPBACK: [&str; 4] = ["/metrics", "/console", "/console/events", "/api/v1/status"];

/// Lets a request through, with the proven name, or refuses it.
pub(super) async fn guard(
    State(door): State<Arc<HttpDoor>>,
    mut request: Request<Body>,
    next: Next,
) -> Response {
    let peer = request.extensions().get::<Peer>().copied();
    match admit(&door, &mut request, peer).await {
        Ok(()) => next.run(request).await,
        Err(Refusal { status, failure, user }) => {
            door.counters.http.answer(Some(failure.kind));
            let (verb, what) = (deeds::verb(request.method()), request.uri().path());
            door.note(&Deed { peer, user: &user, verb, what, to: None }, Some(&failure));
            let response = refusal(&request, failure, status);
            if request.uri().path().starts_with(API) {
                hear_out(request.into_body()).await;
            }
            response
        }
    }
}

/// Reads what comes with a call: a connection that ends before all was read may take the answer with it. Files are another
/// matter: nobody is asked to send one in vain.
async fn hear_out(body: Body) {
    // The answer is sent whatever comes of it.
    let _ = tokio::time::timeout(HEAR_OUT, axum::body::to_bytes(body, CALL_BYTES_MAX)).await;
}

fn is_proven(headers: &HeaderMap) -> bool {
    headers.contains_key(header::AUTHORIZATION)
}

fn refusal(request: &Request<Body>, failure: Failure, status: StatusCode) -> Response {
    let path = request.uri().path();
    let mut response = if path.starts_with(API) {
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

/// The rooms of a host that joined, as its certificate has proven.
#[derive(Debug, Clone)]
pub(super) struct HostRooms(pub(super) Member);

/// A refusal: 401 if it is not known who asks, 503 if that cannot be found out now, 403 if it is not enough.
struct Refusal {
    status: StatusCode,
    failure: Failure,
    user: String,
}

async fn admit(door: &HttpDoor, request: &mut Request<Body>, peer: Option<Peer>) -> Result<(), Refusal> {
    let refusal = |status, failure, user: &str| Refusal { status, failure, user: user.to_owned() };
    let unknown = |failure: Failure| {
        let is_away = failure.kind == ErrorKind::Unavailable;
        let status = if is_away { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::UNAUTHORIZED };
        refusal(status, failure, NOBODY)
    };
    let shown = peer.and_then(|peer| peer.certificate).filter(|shown| shown.is_good);
    if let Some(shown) = shown
        && let Some(member) = door.roster.find(shown.sha256)
    {
        let user = head::Principal::host(&member.name).name;
        check_host(request, &member).map_err(|failure| refusal(StatusCode::FORBIDDEN, failure, &user))?;
        request.extensions_mut().insert(HostRooms(member));
        // It is no user, whatever it is named.
        return name(request, &head::Principal::user(NOBODY)).map_err(unknown);
    }
    let who = match identify(door, request.headers(), peer).await {
        Ok(who) => who,
        Err(_)
            if request.method() == Method::OPTIONS
                || is_open(request, peer)
                || OPEN_TO_HOSTS.contains(&request.uri().path()) =>
        {
            return name(request, &head::Principal::user(NOBODY)).map_err(unknown);
        }
        Err(failure) => return Err(unknown(failure)),
    };
    who.is_good(door.gate.now()).map_err(unknown)?;
    let forbidden = |failure| refusal(StatusCode::FORBIDDEN, failure, &who.who.name);
    if request.uri().path().strip_prefix(CALLS) == Some(Submit::NAME) {
        who.may_submit().map_err(forbidden)?;
    }
    if who.is_scoped() {
        check(door, &who, request, peer).map_err(forbidden)?;
    }
    name(request, &who.who).map_err(forbidden)
}

/// A host makes the calls of its rooms and nothing else, not even as nobody: one that is broken into is to read no file and submit
/// no job. What a daemon of another version says may mean something else.
fn check_host(request: &Request<Body>, member: &Member) -> Result<()> {
    let path = request.uri().path();
    let audience = path.strip_prefix(API).and_then(|call| call.strip_prefix("v1/")).and_then(audience_of);
    // Calls of rooms are for those in the head's own process.
    let is_foreign = audience.is_none_or(|audience| matches!(audience, Audience::People | Audience::Rooms));
    if is_foreign || request.method() != Method::POST {
        let (verb, host) = (request.method(), &member.name);
        return Err(Failure::permission(format!("{verb} {path} is for people, not for host {host}"))
            .hint("show a token instead of the certificate of a host"));
    }
    let version = request.headers().get(VERSION_HEADER).and_then(|value| value.to_str().ok());
    check_version(&member.name, version)
}

fn is_open(request: &Request<Body>, peer: Option<Peer>) -> bool {
    let is_near = peer.is_some_and(|peer| peer.address.ip().to_canonical().is_loopback());
    let is_strange = peer.is_some_and(|peer| peer.certificate.is_some());
    is_near
        && !is_strange
        && !is_proven(request.headers())
        && OPEN_ON_LOOPBACK.contains(&request.uri().path())
}

/// Who asks: the bearer of a token, whoever has the facility's key, or who says so and is trusted.
async fn identify(door: &HttpDoor, headers: &HeaderMap, peer: Option<Peer>) -> Result<Identity> {
    // Whoever says something, however odd, is not taken for the owner.
    let claimed =
        headers.get(USER_HEADER).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    let claimed = claimed.filter(|name| !name.is_empty());
    let claimed = claimed.as_deref().unwrap_or_else(|| door.gate.owner());
    let Some(proof) = headers.get(header::AUTHORIZATION) else {
        // Whoever shows a certificate does not say that they are a user of this host: it may be a host that was turned away.
        if peer.is_some_and(|peer| peer.certificate.is_some()) {
            return Err(Failure::permission("the certificate that was shown is of no host of this facility, or has ended")
                .hint("a host joins again: `bp host invite`, then `bpd join` with its directory; people show a token"));
        }
        let address = peer.map(|peer| peer.address.ip());
        // Without an address somebody calls the router itself: that is only done in this process.
        return door.gate.claimed(claimed, address.unwrap_or_else(|| std::net::Ipv4Addr::LOCALHOST.into()));
    };
    let bearer = proof
        .to_str()
        .ok()
        .filter(|text| text.get(..6).is_some_and(|word| word.eq_ignore_ascii_case("bearer")));
    let bearer = bearer.and_then(token::bearer).ok_or_else(|| {
        Failure::permission("the Authorization field holds no bearer token")
            .hint("send `Authorization: Bearer TOKEN`")
    })?;
    if door.key.is(bearer) {
        let is_operator = claimed == door.gate.owner();
        return Ok(Identity::trusted(head::Principal { is_operator, ..head::Principal::user(claimed) }));
    }
    door.gate.bearer(bearer).await
}

/// Writes the proven name and groups where the rest of the door looks for them.
fn name(request: &mut Request<Body>, who: &head::Principal) -> Result<()> {
    let value = |text: &str| {
        HeaderValue::from_bytes(text.as_bytes())
            .map_err(|_| Failure::permission(format!("{text:?} is not a name of a user")))
    };
    let (name, groups) = (value(&who.name)?, value(&who.groups.join(","))?);
    request.headers_mut().insert(USER_HEADER, name);
    request.headers_mut().insert(GROUPS_HEADER, groups);
    Ok(())
}

/// Checks what the scopes of a token allow.
fn check(door: &HttpDoor, who: &Identity, request: &mut Request<Body>, peer: Option<Peer>) -> Result<()> {
    let target = request.uri().path();
    if target.starts_with(API) || target.starts_with("/console") || target == "/metrics" {
        return Err(Failure::permission("a token with scopes is for files only")
            .hint("`bp token create` without --scope makes one for everything that its user may do"));
    }
    let now = door.gate.now();
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
    request.headers_mut().insert(field, HeaderValue::from_static(value));
    Ok(())
}

/// What a request needs: rights on paths, and paths that it changes: to be allowed to create there is enough if nothing
/// is replaced.
#[derive(Debug, PartialEq, Eq)]
struct Needs {
    rights: Vec<(Right, FilePath)>,
    changed: Vec<FilePath>,
}

fn needs(
    method: &Method,
    headers: &HeaderMap,
    (path, is_slashed): (FilePath, bool),
    peer: Option<Peer>,
) -> Result<Needs> {
    let field = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let one = |right| Needs { rights: vec![(right, path.clone())], changed: Vec::new() };
    // The path at the other end of a copy or a move, if that end is this door's, too.
    let here = |place: &str| {
        let place = parse_place(place)?;
        let is_tls = peer.is_some_and(|peer| peer.is_tls);
        let is_here = place.is_at(field("host").unwrap_or(""), is_tls);
        is_here.then(|| place.path()).transpose()
    };
    Ok(match method.as_str() {
        "OPTIONS" => Needs { rights: Vec::new(), changed: Vec::new() },
        "HEAD" => one(Right::Look),
        "PROPFIND" if parse_depth(field("depth"))? == Depth::Zero => one(Right::Look),
        "PROPFIND" => one(Right::List),
        "GET" if is_slashed => one(Right::List),
        "GET" => one(Right::Read),
        "MKCOL" => one(Right::MakeDirectory),
        "PUT" => Needs { rights: Vec::new(), changed: vec![path] },
        // A source at this very door is read by us: no other server sees a token for it.
        "COPY" if headers.contains_key("source") => {
            let from = here(field("source").unwrap_or_default())?;
            let rights = from.map(|from| (Right::Read, from)).into_iter().collect();
            Needs { rights, changed: vec![path] }
        }
        "MOVE" | "COPY" => {
            let to = here(field("destination").unwrap_or("/"))?;
            if method.as_str() == "COPY" {
                Needs { changed: to.into_iter().collect(), ..one(Right::Read) }
            } else {
                Needs { rights: Vec::new(), changed: [path].into_iter().chain(to).collect() }
            }
        }
        // DELETE, PROPPATCH, and what is not known: the strictest.
        _ => one(Right::Modify),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> FilePath {
        text.parse().unwrap()
    }

    fn needed(method: &str, fields: &[(&'static str, &'static str)]) -> Needs {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.insert(*name, HeaderValue::from_static(value));
        }
        needs(&method.parse().unwrap(), &headers, (path("/a"), false), None).unwrap()
    }

    #[test]
    fn every_method_needs_its_right() {
        for (method, right) in [
            ("GET", Right::Read),
            ("HEAD", Right::Look),
            ("PROPFIND", Right::List),
            ("MKCOL", Right::MakeDirectory),
            ("DELETE", Right::Modify),
            ("PROPPATCH", Right::Modify),
            ("LOCK", Right::Modify),
        ] {
            assert_eq!(needed(method, &[]).rights, [(right, path("/a"))], "{method}");
        }
        assert_eq!(needed("PROPFIND", &[("depth", "0")]).rights, [(Right::Look, path("/a"))]);
        assert_eq!(needed("PUT", &[]).changed, [path("/a")]);
        let listed = needs(&Method::GET, &HeaderMap::new(), (path("/a"), true), None).unwrap();
        assert_eq!(listed.rights, [(Right::List, path("/a"))]);
    }

    #[test]
    fn copies_need_rights_at_both_ends_that_are_here() {
        let here = [("host", "h:1"), ("destination", "http://h:1/b")];
        let there = [("host", "h:1"), ("destination", "https://other/b")];
        assert_eq!(needed("MOVE", &here).changed, [path("/a"), path("/b")]);
        let copy = needed("COPY", &here);
        assert_eq!((copy.rights, copy.changed), (vec![(Right::Read, path("/a"))], vec![path("/b")]));
        let push = needed("COPY", &there);
        assert_eq!((push.rights, push.changed), (vec![(Right::Read, path("/a"))], vec![]));
        let pull = needed("COPY", &[("host", "h:1"), ("source", "https://other/b")]);
        assert_eq!((pull.rights, pull.changed), (vec![], vec![path("/a")]));
        for source in ["http://h:1/b?x=1", "dav://H:1/%62", "https://h:1/b", "/b"] {
            let fetch = needed("COPY", &[("host", "h:1"), ("source", source), ("destination", "/c")]);
            assert_eq!(
                (fetch.rights, fetch.changed),
                (vec![(Right::Read, path("/b"))], vec![path("/a")]),
                "{source}"
            );
        }
    }
}
