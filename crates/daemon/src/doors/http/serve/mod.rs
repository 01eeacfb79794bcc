//! The accept loop of the door: every connection has deadlines, bounds and a slot, with TLS or without.

pub(crate) mod framed;

use super::{HttpDoor, routes, serve::framed::Framed};
use crate::hosts::authority;
use axum::Router;
use base::{
    Result, Timestamp,
    limits::{UNPROVEN_REQUEST_BYTES_MAX, XRD_READ_SEGMENT_BYTES},
};
use hyper::{Request, body::Incoming, server::conn::http1, service::Service};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use net::{
    listener::{Connection, Listener},
    local_listener::{LocalConnection, LocalListener},
    shutdown::{Shutdown, Token},
    unproven::ConnectionSlot,
};
use rustls::ServerConfig;
use sha2::{Digest, Sha256};
use std::{
    io,
    net::SocketAddr,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    time::{Instant, Sleep, sleep, timeout},
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tracing::debug;

/// Time for the head of a request, counted from the first moment it could be sent: so also the longest silence between
/// two requests.
const HEAD_DEADLINE: Duration = Duration::from_secs(60);
/// Time for the TLS handshake.
const HANDSHAKE_DEADLINE: Duration = Duration::from_secs(20);
/// Time in which a peer must take at least one byte of an answer.
const WRITE_STALL_MAX: Duration = Duration::from_secs(60);
/// Head of a request: URLs and tokens of the grid have a few KiB.
const HEAD_BYTES_MAX: usize = 64 << 10;
/// Fields of a request.
const FIELDS_MAX: usize = 200;
/// What is read from the socket at once, and what is held of an answer that does not leave: small enough for thousands of
/// connections, large enough that uploads are not dominated by receive calls.
const BUFFER_BYTES_MAX: usize = XRD_READ_SEGMENT_BYTES / 8;

/// The other end of a connection; every request carries it as an extension.
#[derive(Debug, Clone, Copy)]
pub struct Peer {
    /// Its address; `None` at the socket in the facility's directory.
    pub address: Option<SocketAddr>,
    /// Its user id, if it is a process of this host: the kernel says so.
    pub local_user: Option<u32>,
    /// Whether it is this very process: a room beside the head.
    pub is_own_process: bool,
    /// Whether the connection is encrypted.
    pub is_tls: bool,
    /// The certificate that it has shown; its key is proven.
    pub certificate: Option<PeerCertificate>,
}

/// The slot of a connection among those that are proven or are not; every request carries it as an extension.
#[derive(Debug, Clone)]
pub(super) struct ConnectionTrust(pub(super) Arc<ConnectionSlot>);

impl ConnectionTrust {
    /// Counts a request that was refused; whether the connection has had enough of them.
    pub(super) fn is_exhausted(&self) -> bool {
        !self.0.is_proven() && !self.0.count_request()
    }
}

/// A certificate as it was shown.
#[derive(Debug, Clone, Copy)]
pub struct PeerCertificate {
    /// What it is known by.
    pub sha256: [u8; 32],
    /// Whether it has not ended.
    pub is_good: bool,
}

/// Serves the door under `shutdown` until that stops; with `tls` every connection begins with a handshake.
pub fn serve(
    door: Arc<HttpDoor>,
    listener: Listener,
    tls: Option<Arc<ServerConfig>>,
    shutdown: &Shutdown,
) -> Result<()> {
    // A listener without an address could not accept either.
    let address = listener.address()?;
    debug!(%address, is_tls = tls.is_some(), "HTTP door is listening");
    let token = shutdown.token();
    let tasks = shutdown.clone();
    let acceptor = tls.map(TlsAcceptor::from);
    let router = routes(Arc::clone(&door));
    shutdown.spawn("http door", async move {
        while let Some(connection) = listener.accept(&token).await {
            let Connection { socket, peer: address, local_user, slot } = connection;
            let slot = Arc::new(slot);
            let socket = PacedSocket::new(socket, Some(Arc::clone(&slot)));
            let peer = Peer {
                address: Some(address),
                local_user,
                is_own_process: false,
                is_tls: acceptor.is_some(),
                certificate: None,
            };
            let (acceptor, door) = (acceptor.clone(), Arc::clone(&door));
            let request =
                request((socket, peer), Arc::clone(&slot), acceptor, router.clone(), door, token.clone());
            tasks.spawn("http connection", async move {
                tokio::select! {
                    () = slot.over() => debug!(%address, "the peer did not authenticate"),
                    () = request => {}
                }
            });
        }
    });
    Ok(())
}

/// Serves the door at the socket in the facility's directory under `shutdown` until that stops.
pub fn serve_local(door: Arc<HttpDoor>, listener: LocalListener, shutdown: &Shutdown) {
    let (token, tasks) = (shutdown.token(), shutdown.clone());
    let router = routes(Arc::clone(&door));
    shutdown.spawn("local http door", async move {
        while let Some(connection) = listener.accept(&token).await {
            let (router, door, token) = (router.clone(), Arc::clone(&door), token.clone());
            tasks.spawn("local http connection", async move {
                let _counted = door.counters.http.connect();
                let LocalConnection { socket, uid, is_own_process, slot: _slot } = connection;
                let peer = Peer {
                    address: None,
                    local_user: Some(uid),
                    is_own_process,
                    is_tls: false,
                    certificate: None,
                };
                converse(PacedSocket::new(socket, None), (peer, None), router, &token).await;
            });
        }
    });
}

/// One connection from its first byte to its last.
async fn request(
    (socket, peer): (PacedSocket<TcpStream>, Peer),
    slot: Arc<ConnectionSlot>,
    acceptor: Option<TlsAcceptor>,
    router: Router,
    door: Arc<HttpDoor>,
    token: Token,
) {
    let _counted = door.counters.http.connect();
    let Some(acceptor) = acceptor else {
        return converse(socket, (peer, Some(slot)), router, &token).await;
    };
    match timeout(HANDSHAKE_DEADLINE, acceptor.accept(socket)).await {
        Ok(Ok(socket)) => {
            let certificate = shown(&socket, door.authenticator.now());
            converse(socket, (Peer { certificate, ..peer }, Some(slot)), router, &token).await;
            if !token.is_stopped() {
                ended(&door, certificate);
            }
        }
        Ok(Err(cause)) => debug!(address = ?peer.address, %cause, "TLS handshake failed"),
        Err(_) => debug!(address = ?peer.address, "TLS handshake took too long"),
    }
}

/// A connection has ended. If it was that of a host, this may be all that is seen of its end: it is asked at once.
fn ended(door: &HttpDoor, certificate: Option<PeerCertificate>) {
    let host = certificate.and_then(|shown| door.host_registry.find(shown.sha256));
    if let (Some(host), Some(prober)) = (host, door.files.prober()) {
        prober.look(host.name);
    }
}

/// The certificate of the other end.
fn shown(socket: &TlsStream<PacedSocket<TcpStream>>, now: Timestamp) -> Option<PeerCertificate> {
    let certificate = socket.get_ref().1.peer_certificates()?.first()?;
    let is_good = authority::is_good(certificate, now);
    Some(PeerCertificate { sha256: Sha256::digest(certificate).into(), is_good })
}

async fn converse<S>(
    socket: S,
    (peer, slot): (Peer, Option<Arc<ConnectionSlot>>),
    router: Router,
    token: &Token,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = TowerToHyperService::new(router);
    let service = hyper::service::service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(peer);
        if let Some(slot) = &slot {
            request.extensions_mut().insert(ConnectionTrust(Arc::clone(slot)));
        }
        service.call(request)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_DEADLINE)
        .max_header_size(HEAD_BYTES_MAX)
        .max_headers(FIELDS_MAX)
        .max_buf_size(BUFFER_BYTES_MAX)
        .serve_connection(TokioIo::new(Framed::new(socket)), service);
    let mut connection = pin!(connection);
    let outcome = tokio::select! {
        outcome = connection.as_mut() => outcome,
        () = token.stopped() => {
            // What is being answered is answered to its end; then the connection closes.
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(cause) = outcome {
        debug!(address = ?peer.address, %cause, "connection broke");
    }
}

/// Bytes that a connection may send before it has proven who it is: TLS and some refused requests.
const UNPROVEN_RECEIVED_MAX: usize = 4 * UNPROVEN_REQUEST_BYTES_MAX;

/// A socket whose peer must keep taking what it asked for, and says little before it has proven who it is.
struct PacedSocket<S> {
    socket: S,
    /// None: the kernel has said who it is.
    slot: Option<Arc<ConnectionSlot>>,
    /// Bytes that came before the proof. Which of them are still held in memory only the library knows: all, at worst.
    received: usize,
    stall: Pin<Box<Sleep>>,
    is_stalled: bool,
}

impl<S> PacedSocket<S> {
    fn new(socket: S, slot: Option<Arc<ConnectionSlot>>) -> Self {
        Self { socket, slot, received: 0, stall: Box::pin(sleep(WRITE_STALL_MAX)), is_stalled: false }
    }

    /// Counts what has come without a proof; too much is an error.
    fn count_unproven(&mut self, bytes: usize) -> io::Result<()> {
        let Some(slot) = &self.slot else { return Ok(()) };
        self.received += bytes;
        if self.received > UNPROVEN_RECEIVED_MAX || !slot.hold(self.received) {
            return Err(io::Error::other("the peer sent too much data before it authenticated"));
        }
        Ok(())
    }

    /// Passes on what a write came to; one that makes no progress for too long is an error.
    fn watch(
        &mut self,
        context: &mut Context<'_>,
        outcome: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if outcome.is_ready() {
            self.is_stalled = false;
            return outcome;
        }
        if !self.is_stalled {
            self.is_stalled = true;
            self.stall.as_mut().reset(Instant::now() + WRITE_STALL_MAX);
        }
        ready!(self.stall.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the peer accepts no more data")))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for PacedSocket<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.slot.as_ref().is_none_or(|slot| slot.is_proven()) {
            return Pin::new(&mut self.socket).poll_read(context, buffer);
        }
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.socket).poll_read(context, buffer))?;
        Poll::Ready(self.count_unproven(buffer.filled().len() - before))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for PacedSocket<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.socket).poll_write(context, bytes);
        self.watch(context, outcome)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.socket).poll_write_vectored(context, bytes);
        self.watch(context, outcome)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(context)
    }
}
