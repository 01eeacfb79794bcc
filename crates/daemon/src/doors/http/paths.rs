//! Requests on paths of the namespace: who asks what, and which method answers.

use super::{
    HttpDoor, Peer,
    answer::{Answer, METHODS, PartialFailure, Problem},
    audited::{self, AuditedAction},
    dav::{copy, properties},
    file::{read, write},
    guard::caller::Caller,
    tpc,
};
use axum::{
    Extension,
    body::{Body, HttpBody},
    extract::State,
    http::{HeaderMap, Method, Request, StatusCode, header},
    response::{IntoResponse, Response},
};
use base::{ErrorKind, Failure, FilePath, OtherHead, Result};
use head::{Apply, Principal};
use std::{sync::Arc, time::Instant};
use wire::{
    auth::capability,
    control::{Entry, GetEntry, NodeKind, TRIED},
    http::{Conditions, EntityTag, Validators, Verdict, dav::Place, decode_path, target_names_directory},
};

/// Media type of every file: what is in it is not for us to say.
pub(super) const FILE_TYPE: &str = "application/octet-stream";

/// Marks a request whose token lets it make what is not there, and replace nothing.
#[derive(Debug, Clone, Copy)]
pub(super) struct CreateOnly;

/// One request on a path, without its body.
pub(super) struct PathRequest {
    pub(super) door: Arc<HttpDoor>,
    pub(super) who: Principal,
    pub(super) path: FilePath,
    /// Whether the path ended in a slash, so that it means a directory.
    pub(super) is_slashed: bool,
    pub(super) query: Option<String>,
    /// Whether directories that are missing above a file are made with it.
    pub(super) makes_parents: bool,
    pub(super) method: Method,
    pub(super) headers: HeaderMap,
    pub(super) peer: Option<Peer>,
}

impl PathRequest {
    /// The value of a field, if it is there and text.
    pub(super) fn field(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// Whether a place is a path of this door.
    pub(super) fn is_here(&self, place: &Place) -> bool {
        let host = self.field("host").unwrap_or("");
        place.is_at(host, self.peer.is_some_and(|peer| peer.is_tls))
    }

    /// Asks the head on behalf of whoever asks us.
    pub(super) async fn call<C: Apply>(&self, call: C) -> Result<C::Reply> {
        self.door.files.head()?.call(&self.who, call).await
    }

    /// The value of a parameter of the query, as it stands there.
    pub(super) fn parameter(&self, name: &str) -> Option<&str> {
        let mut pairs = self.query.as_deref()?.split('&');
        pairs.find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
    }

    /// Has servers avoided to which the client says that it was sent in vain.
    async fn avoid_tried(&self) {
        if let Some(tried) = self.parameter(TRIED) {
            self.door.files.avoid(&self.who, &self.path, tried, self.comes_to_write()).await;
        }
    }

    /// Whether a file is to be written here.
    pub(super) fn comes_to_write(&self) -> bool {
        self.method == Method::PUT || (self.method.as_str() == "COPY" && self.headers.contains_key("source"))
    }

    /// The capability that came with the request, if it is for this disk server and holds.
    pub(super) fn cap(&self) -> Option<&str> {
        let cap = self.parameter(capability::PARAMETER)?;
        self.door.files.objects().is_for_us(cap).then_some(cap)
    }

    /// Describes a path.
    pub(super) async fn entry(&self, path: &FilePath) -> Result<Entry> {
        self.call(GetEntry { path: path.clone() }).await
    }

    /// Describes a path; none if nothing has this name.
    pub(super) async fn find(&self, path: &FilePath) -> Result<Option<Entry>> {
        match self.entry(path).await {
            Ok(entry) => Ok(Some(entry)),
            Err(failure) if failure.kind == ErrorKind::NotFound => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    /// Refuses a file, because its path ends in a slash: that of a file does not.
    async fn require_directory(&self, path: &FilePath) -> Result<(), Problem> {
        match self.find(path).await? {
            Some(entry) if !is_directory(&entry) => {
                let what = format!("{path}/ names a directory, and {path} is a file");
                let failure = Failure::new(ErrorKind::NotDirectory, what);
                Err(Problem::with_status(failure.hint("remove the slash at the end"), StatusCode::NOT_FOUND))
            }
            _ => Ok(()),
        }
    }

    /// The precondition fields.
    pub(super) fn conditions(&self) -> Conditions<'_> {
        Conditions {
            if_match: self.field("if-match"),
            if_none_match: self.field("if-none-match"),
            if_modified_since: self.field("if-modified-since"),
            if_unmodified_since: self.field("if-unmodified-since"),
        }
    }

    /// Refuses a change whose preconditions do not hold for what is there now.
    pub(super) fn require_conditions(&self, now: Option<&Entry>) -> Result<(), Problem> {
        let tag = now.and_then(tag_of);
        let now = now.map(|entry| Validators {
            tag: tag.as_ref(),
            modified: entry.modified,
            shown: entry.content_modified(),
        });
        match self.conditions().evaluate(now, false) {
            Verdict::Proceed => Ok(()),
            Verdict::NotModified | Verdict::Failed => Err(Problem::precondition(format!(
                "{} does not meet the condition of the request",
                self.path
            ))),
        }
    }
}

/// The tag of a file that has content.
pub(super) fn tag_of(entry: &Entry) -> Option<EntityTag> {
    entry.checksums.map(|sums| EntityTag::of(entry.id, entry.modified, &sums))
}

/// Whether an entry is a directory.
pub(super) fn is_directory(entry: &Entry) -> bool {
    entry.kind == NodeKind::Directory
}

/// A URL or path without a query, and without a password.
fn without_proof(place: &str) -> String {
    let place = place.split('?').next().unwrap_or_default();
    let Some((scheme, rest)) = place.split_once("://") else { return place.to_owned() };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let host = authority.rsplit('@').next().unwrap_or(authority);
    format!("{scheme}://{host}{path}")
}

/// Any request on a path of the namespace.
pub(super) async fn handle(
    State(door): State<Arc<HttpDoor>>,
    Extension(caller): Extension<Caller>,
    request: Request<Body>,
) -> Response {
    let (method, instance) = (request.method().clone(), request.uri().path().to_owned());
    let (user, peer) = (caller.name(), caller.peer);
    let to = request.headers().get("destination").or_else(|| request.headers().get("source"));
    // What is behind the path may prove something.
    let to = to.map(|to| String::from_utf8_lossy(to.as_bytes()));
    let to = to.map(|to| without_proof(&to));
    let target = request.uri().path_and_query().map_or_else(|| instance.clone(), ToString::to_string);
    let is_create_only = request.extensions().get::<CreateOnly>().is_some();
    let what = decode_path(&instance).map_or_else(|_| instance.clone(), |path| path.as_str().to_owned());
    let started = Instant::now();
    let outcome = dispatch(Arc::clone(&door), caller.who, request).await;
    door.counters.http.took(started.elapsed());
    let outcome = outcome.map_err(|problem| if is_create_only { problem.of_creator() } else { problem });
    door.counters.http.answer(outcome.as_ref().err().map(Problem::kind));
    let action =
        AuditedAction { peer, user: &user, verb: audited::verb(&method), what: &what, to: to.as_deref() };
    door.note_path(&method, &action, PartialFailure::failure_of(&outcome));
    outcome.unwrap_or_else(|problem| match &problem.failure().at {
        // Of two paths one may be here, and the other one is named with this server.
        Some(at) if !matches!(method.as_str(), "COPY" | "MOVE") => sent_to_head(at, &target),
        _ => problem.into_response(&method, &instance),
    })
}

/// Sends a client to the head that keeps what it asked for.
fn sent_to_head(at: &OtherHead, target: &str) -> Response {
    let location = format!("{}{target}", at.http.trim_end_matches('/'));
    (StatusCode::TEMPORARY_REDIRECT, [(header::LOCATION, location)]).into_response()
}

async fn dispatch(door: Arc<HttpDoor>, who: Principal, request: Request<Body>) -> Answer {
    if *request.method() == Method::OPTIONS {
        return Ok(options());
    }
    let (parts, body) = request.into_parts();
    let target = parts.uri.path();
    let request = PathRequest {
        who,
        makes_parents: door.makes_parents,
        door,
        path: decode_path(target)?,
        is_slashed: target_names_directory(target),
        query: parts.uri.query().map(str::to_owned),
        peer: parts.extensions.get::<Peer>().copied(),
        method: parts.method,
        headers: parts.headers,
    };
    if request.headers.contains_key("if") {
        // No lock and no state token of this server exists, so no list of conditions with one can hold.
        return Err(Problem::precondition("conditions of the If field are not known here"));
    }
    let body = match request.method.as_str() {
        "PUT" | "PROPFIND" | "PROPPATCH" => body,
        _ => heard_out(body).await?,
    };
    request.avoid_tried().await;
    if request.is_slashed && !matches!(request.method.as_str(), "PUT" | "MKCOL") && !is_to_be_made(&request) {
        request.require_directory(&request.path).await?;
    }
    match request.method.as_str() {
        "GET" | "HEAD" => read::read(&request).await,
        "PUT" => write::put(&request, body).await,
        "DELETE" => properties::delete(&request).await,
        "PROPFIND" => properties::propfind(request, body).await,
        "PROPPATCH" => properties::proppatch(&request, body).await,
        "MKCOL" => properties::mkcol(&request).await,
        "MOVE" => copy::rename(&request).await,
        "COPY" if request.headers.contains_key("source") => tpc::pull(request).await,
        "COPY" => copy::copy(request).await,
        other => Err(Problem::with_status(
            Failure::unsupported(format!("method {other} is not offered on files")),
            StatusCode::METHOD_NOT_ALLOWED,
        )),
    }
}

/// Reads a body that means nothing: before anything is done it must be known to be one, and to end.
async fn heard_out(body: Body) -> Result<Body, Problem> {
    if !body.is_end_stream() {
        properties::short_body(body).await?;
    }
    Ok(Body::empty())
}

/// Whether the path of a request is that of a file which the request makes.
fn is_to_be_made(request: &PathRequest) -> bool {
    request.method.as_str() == "COPY" && request.headers.contains_key("source")
}

/// What is offered, whatever the path. Class 1: there are no locks.
fn options() -> Response {
    let fields = [
        (header::ALLOW.as_str(), METHODS),
        ("dav", "1"),
        ("ms-author-via", "DAV"),
        (header::ACCEPT_RANGES.as_str(), "bytes"),
    ];
    (StatusCode::NO_CONTENT, fields).into_response()
}
