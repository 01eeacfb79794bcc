//! The client's side: one request to another server, with deadlines, over TLS if the URL says so, redirects followed.

use super::{
    Progress,
    trust::{RemoteTrust, Roots},
};
use axum::{
    body::{Body, Bytes},
    http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header},
};
use base::{ErrorKind, Failure, ReachRule, Result};
use futures_util::{StreamExt, stream};
use hyper::{
    body::Incoming,
    client::conn::http1::{self, SendRequest},
};
use hyper_util::rt::TokioIo;
use net::blocking;
use rustls::pki_types::ServerName;
use std::{sync::Arc, time::Duration};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    sync::Notify,
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};
use tokio_rustls::TlsConnector;
use wire::{
    control::TRIED,
    digest::Digests,
    http::dav::{Place, speakable},
};

/// Time to find, reach and greet the other server.
const CONNECT_DEADLINE: Duration = Duration::from_secs(30);
/// Time until the other server answers once it has everything: it may recall the file from tape, or sum it.
const ANSWER_DEADLINE: Duration = Duration::from_secs(1800);
/// Longest pause in which no byte moves while bytes should move.
const SILENCE_MAX: Duration = Duration::from_secs(120);
/// Redirects followed: a door sends to a server, which may send to another one.
const REDIRECTS_MAX: usize = 8;
/// Servers that are not reached before we give up.
const UNREACHED_MAX: usize = 3;
/// How long we wait for `100 Continue` before the body is sent anyway: old servers do not say it.
const CONTINUE_PATIENCE: Duration = Duration::from_secs(2);
/// Head of an answer.
const HEAD_BYTES_MAX: usize = 256 << 10;

/// Other servers, as third-party copies see them.
#[derive(Debug)]
pub(in crate::doors::http) struct Remote {
    roots: Roots,
    /// Which addresses may be connected to.
    reach: ReachRule,
}

/// The body of a request, made anew for each server that we are sent to.
pub(super) struct Upload<'a> {
    pub(super) make: &'a (dyn Fn() -> Body + Send + Sync),
    pub(super) length: u64,
}

/// What is asked of another server.
pub(super) struct Ask<'a> {
    pub(super) method: Method,
    pub(super) place: &'a Place,
    pub(super) fields: &'a HeaderMap,
    pub(super) upload: Option<Upload<'a>>,
    pub(super) progress: &'a Arc<Progress>,
}

/// The task that moves bytes between the socket and whoever holds this; it ends with its holder.
struct RemoteConnection(JoinHandle<()>);

impl Drop for RemoteConnection {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// An answer whose body is still to come.
pub(super) struct Reply {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    body: axum::body::BodyDataStream,
    /// Who answered.
    pub(super) server: String,
    _line: RemoteConnection,
}

impl Reply {
    /// The next bytes; none at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>> {
        let next = timeout(SILENCE_MAX, self.body.next()).await;
        let next = next.map_err(|_| {
            Failure::timeout(format!("{} has sent nothing for {} s", self.server, SILENCE_MAX.as_secs()))
        })?;
        next.transpose().map_err(|cause| {
            Failure::new(ErrorKind::Io, format!("{} broke off: {}", self.server, innermost(&cause)))
        })
    }

    /// Whether a body that broke off can be told from one that has come to its end.
    pub(super) fn tells_its_end(&self) -> bool {
        let codings = self.headers.get_all(header::TRANSFER_ENCODING).into_iter().next_back();
        let last = codings.and_then(|codings| codings.to_str().ok()?.rsplit(',').next());
        self.length().is_some() || last.is_some_and(|coding| coding.trim().eq_ignore_ascii_case("chunked"))
    }

    /// `Content-Length`
    pub(super) fn length(&self) -> Option<u64> {
        self.headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.trim().parse().ok()
    }

    /// The sums that the answer tells; those that cannot be read count as not told.
    pub(super) fn digests(&self) -> Digests {
        let text = |name| self.headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
        let mut digests = text("digest").and_then(|field| Digests::parse(field).ok()).unwrap_or_default();
        if let Some(repr) = text("repr-digest").and_then(|field| Digests::parse_repr(field).ok()) {
            // Two fields that disagree tell nothing.
            digests = if digests.merge(&repr).is_ok() { digests } else { Digests::default() };
        }
        digests
    }

    /// A refusal as a failure of ours. What the server says beside its status is not repeated: the client may have sent us to a page
    /// that is not meant for it.
    pub(super) fn into_failure(self, doing: &str) -> Failure {
        let kind = match self.status.as_u16() {
            404 | 410 => ErrorKind::NotFound,
            401 | 403 => ErrorKind::Permission,
            507 => ErrorKind::NoSpace,
            429 | 500..=599 => ErrorKind::Unavailable,
            _ => ErrorKind::Invalid,
        };
        Failure::new(kind, format!("{doing}: {} answers {}", self.server, self.status))
    }
}

/// The cause at the bottom: what lies above it says only that something failed.
fn innermost(error: &(dyn std::error::Error + 'static)) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

impl Remote {
    pub(in crate::doors::http) fn new(trust: RemoteTrust) -> Self {
        Self { roots: Roots::new(trust), reach: ReachRule::guarded(&[]) }
    }

    /// Believes these servers from now on.
    pub(in crate::doors::http) fn believe(&mut self, trust: RemoteTrust) {
        self.roots = Roots::new(trust);
    }

    /// Says which addresses may be connected to from now on.
    pub(in crate::doors::http) fn limit(&mut self, reach: ReachRule) {
        self.reach = reach;
    }

    /// Asks, and asks where it is sent to, until somebody answers with more than another address. If who we are sent to cannot be
    /// reached, who sent us is asked for another one.
    pub(super) async fn ask(&self, ask: &Ask<'_>) -> Result<Reply> {
        let (mut place, mut fields) = (ask.place.clone(), ask.fields.clone());
        let mut tried: Vec<String> = Vec::new();
        for _ in 0..=REDIRECTS_MAX {
            let wire = match self.reach(&place, ask.progress).await {
                Ok(wire) => wire,
                Err(failure) if is_away(&failure) && place.authority() != ask.place.authority() => {
                    tried.extend(place.host);
                    if tried.len() > UNREACHED_MAX {
                        return Err(failure.during(format!("sent there by {}", ask.place.authority())));
                    }
                    place = ask.place.with(TRIED, &tried.join(","));
                    fields = ask.fields.clone();
                    continue;
                }
                Err(failure) => return Err(failure),
            };
            let reply = ask_one(ask, &place, &fields, wire).await?;
            if !matches!(reply.status.as_u16(), 301 | 302 | 303 | 307 | 308) {
                return Ok(reply);
            }
            let location = reply.headers.get(header::LOCATION).and_then(|value| value.to_str().ok());
            let location = location
                .ok_or_else(|| Failure::invalid(format!("{} redirects without a location", reply.server)))?;
            let next = place.follow(location)?;
            if (&next.host, next.port) != (&place.host, place.port) || place.is_tls && !next.is_tls {
                // The token was given for the first server; others get what is in the URL.
                fields.remove(header::AUTHORIZATION);
                fields.remove(header::COOKIE);
            }
            place = next;
        }
        Err(Failure::invalid(format!("{} redirects more than {REDIRECTS_MAX} times", ask.place.authority())))
    }

    /// The size and sums of a file, as its server tells them without sending it; none of what it does not tell.
    pub(super) async fn describe(
        &self,
        place: &Place,
        fields: &HeaderMap,
        progress: &Arc<Progress>,
    ) -> Result<Reply> {
        let mut fields = fields.clone();
        fields.insert("want-digest", HeaderValue::from_static("adler32"));
        self.ask(&Ask { method: Method::HEAD, place, fields: &fields, upload: None, progress }).await
    }

    /// A connection to the server of a place.
    async fn reach(
        &self,
        place: &Place,
        progress: &Progress,
    ) -> Result<(SendRequest<Body>, RemoteConnection)> {
        let late = |_| {
            let (server, span) = (place.authority(), CONNECT_DEADLINE.as_secs());
            Failure::timeout(format!("{server} cannot be reached in {span} s"))
        };
        timeout(CONNECT_DEADLINE, self.connect(place, progress)).await.map_err(late)?
    }

    async fn connect(
        &self,
        place: &Place,
        progress: &Progress,
    ) -> Result<(SendRequest<Body>, RemoteConnection)> {
        let host = place.host.as_deref().unwrap_or_default();
        if !place.is_tls && !self.roots.trust.plain_http {
            return Err(
                Failure::permission(format!("{host} would be contacted without TLS")).hint("use https")
            );
        }
        let failed = |cause| Failure::io(format!("connect to {}", place.authority()), &cause);
        let (name, port, rule) = (host.to_owned(), place.port, self.reach.clone());
        let addresses = blocking(move || socket::resolve(&name, port, &rule)).await?;
        let socket = TcpStream::connect(&addresses[..]).await.map_err(failed)?;
        socket.set_nodelay(true).map_err(failed)?;
        // Several connections of one copy lead to the same service; the first one stands for all.
        let _ = progress.remote.set(socket.peer_addr().map_err(failed)?);
        if !place.is_tls {
            return handshake(socket).await;
        }
        let name = ServerName::try_from(host.to_owned())
            .map_err(|cause| Failure::invalid(format!("{host} is no name of a server: {cause}")))?;
        let connector = TlsConnector::from(self.roots.config().await?);
        let socket = connector.connect(name, socket).await.map_err(|cause| {
            Failure::new(
                ErrorKind::Permission,
                format!("TLS with {}: {}", place.authority(), innermost(&cause)),
            )
            .hint("is the authority of its certificate trusted here?")
        })?;
        handshake(socket).await
    }
}

async fn ask_one(
    ask: &Ask<'_>,
    place: &Place,
    fields: &HeaderMap,
    (mut sender, line): (SendRequest<Body>, RemoteConnection),
) -> Result<Reply> {
    let (server, moved) = (place.authority(), ask.progress.moved_bytes());
    let response = watched(sender.send_request(request(ask, place, fields)?), ask, moved).await?;
    let response = response.map_err(|cause| {
        Failure::new(ErrorKind::Unavailable, format!("{server} broke off: {}", innermost(&cause)))
    })?;
    let (parts, body): (_, Incoming) = Response::into_parts(response);
    Ok(Reply {
        status: parts.status,
        headers: parts.headers,
        body: Body::new(body).into_data_stream(),
        server,
        _line: line,
    })
}

/// Whether a server may be there again in a while; one that we must not call, or do not believe, will not change.
fn is_away(failure: &Failure) -> bool {
    failure.kind != ErrorKind::Permission
}

async fn handshake<S>(socket: S) -> Result<(SendRequest<Body>, RemoteConnection)>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (sender, connection) =
        http1::Builder::new().max_buf_size(HEAD_BYTES_MAX).handshake(TokioIo::new(socket)).await.map_err(
            |cause| Failure::unavailable(format!("the other server does not speak HTTP: {cause}")),
        )?;
    // What ends the connection is also told to whoever sends or reads.
    let line = tokio::spawn(async move { drop(connection.await) });
    Ok((sender, RemoteConnection(line)))
}

fn request(ask: &Ask<'_>, place: &Place, fields: &HeaderMap) -> Result<Request<Body>> {
    let mut request = Request::builder()
        .method(ask.method.clone())
        .uri(&place.target)
        .header(header::HOST, place.authority())
        .header(header::USER_AGENT, concat!("backplane/", env!("CARGO_PKG_VERSION")))
        .header(header::ACCEPT, "*/*")
        .body(Body::empty())
        .map_err(|cause| {
            let path = speakable(&place.target);
            Failure::invalid(format!("{path:?} cannot be asked for: {cause}"))
        })?;
    for (name, value) in fields {
        request.headers_mut().append(name, value.clone());
    }
    if let Some(upload) = &ask.upload {
        let headers = request.headers_mut();
        headers.insert(header::CONTENT_LENGTH, upload.length.into());
        if upload.length > 0 {
            headers.insert(header::EXPECT, HeaderValue::from_static("100-continue"));
            let go = Arc::new(Notify::new());
            let told = Arc::clone(&go);
            *request.body_mut() = after(go, (upload.make)());
            hyper::ext::on_informational(&mut request, move |response| {
                if response.status() == StatusCode::CONTINUE {
                    told.notify_one();
                }
            });
        }
    }
    Ok(request)
}

/// A body that begins when the server wants it: one that redirects gets none of it.
fn after(go: Arc<Notify>, body: Body) -> Body {
    let whole = stream::once(async move {
        // A server that says nothing gets it all the same.
        let _ = timeout(CONTINUE_PATIENCE, go.notified()).await;
        body.into_data_stream()
    });
    Body::from_stream(whole.flatten())
}

/// Waits for an answer for as long as the body of the request moves, and then for a while.
async fn watched<T>(answer: impl Future<Output = T>, ask: &Ask<'_>, moved_before: u64) -> Result<T> {
    let length = ask.upload.as_ref().map_or(0, |upload| upload.length);
    let mut answer = std::pin::pin!(answer);
    let (mut moved, mut since) = (moved_before, Instant::now());
    loop {
        tokio::select! {
            answer = &mut answer => return Ok(answer),
            () = sleep(Duration::from_secs(1)) => {}
        }
        let now = ask.progress.moved_bytes();
        if now != moved {
            (moved, since) = (now, Instant::now());
        }
        let is_sent = moved - moved_before >= length;
        let patience = if is_sent { ANSWER_DEADLINE } else { SILENCE_MAX };
        if since.elapsed() > patience {
            let word = if is_sent { "does not answer" } else { "takes no more bytes" };
            let what = format!("{} {word} for {} s", ask.place.authority(), patience.as_secs());
            return Err(Failure::timeout(what));
        }
    }
}
