//! The HTTP door: files, the management API, the console and metrics on one port.

mod answer;
mod calls;
mod data;
mod live;
mod ranges;

use crate::{facility::Key, files::Files, metrics::DoorCounters};
use axum::{
    Router,
    extract::DefaultBodyLimit,
    routing::{any, get},
};
use base::{Result, limits::CONTROL_BODY_BYTES_MAX};
use head::Principal;
use net::{
    listener::Listener,
    shutdown::{Shutdown, Token},
};
use std::sync::Arc;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    sync::OwnedSemaphorePermit,
};

/// What every handler needs.
pub struct HttpDoor {
    files: Arc<Files>,
    key: Key,
    /// Who a client is that does not say.
    owner: String,
    counters: Arc<DoorCounters>,
    token: Token,
}

impl HttpDoor {
    /// A door to `files`; `owner` is the facility's.
    pub fn new(files: Arc<Files>, key: Key, owner: &str, counters: Arc<DoorCounters>, token: Token) -> Self {
        Self { files, key, owner: owner.to_owned(), counters, token }
    }

    /// On whose behalf a request is made. Loopback is trusted, as on the XRootD door; tokens replace this.
    fn principal(&self, headers: &axum::http::HeaderMap) -> Principal {
        // Whoever says something, however odd, is not taken for the owner.
        let named = headers.get(wire::control::USER_HEADER);
        let named = named.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
        let name = named.filter(|name| !name.is_empty()).unwrap_or_else(|| self.owner.clone());
        Principal { is_operator: name == self.owner, name }
    }
}

/// Serves the door under `shutdown` until that stops.
pub fn serve(door: Arc<HttpDoor>, listener: Listener, shutdown: &Shutdown) -> Result<()> {
    let token = shutdown.token();
    let listener = Bounded { address: listener.address()?, listener, token: token.clone() };
    let routes = routes(door);
    shutdown.spawn("http door", async move {
        let server =
            axum::serve(listener, routes).with_graceful_shutdown(async move { token.stopped().await });
        if let Err(cause) = server.await {
            tracing::error!(%cause, "http door ended");
        }
    });
    Ok(())
}

fn routes(door: Arc<HttpDoor>) -> Router {
    calls::routes()
        .layer(DefaultBodyLimit::max(CONTROL_BODY_BYTES_MAX))
        .route("/metrics", get(live::metrics))
        .route("/console", get(live::console))
        .route("/console/events", get(live::events))
        .fallback(any(data::handle))
        .with_state(door)
}

/// The listener of `net` as axum wants it: each connection keeps its place until it is over.
struct Bounded {
    listener: Listener,
    address: std::net::SocketAddr,
    token: Token,
}

/// A connection with its place.
struct Placed {
    socket: TcpStream,
    _place: OwnedSemaphorePermit,
}

impl axum::serve::Listener for Bounded {
    type Io = Placed;
    type Addr = std::net::SocketAddr;

    async fn accept(&mut self) -> (Placed, Self::Addr) {
        match self.listener.accept(&self.token).await {
            Some(connection) => {
                // Small answers leave at once; a failure only costs latency.
                let _ = connection.socket.set_nodelay(true);
                (Placed { socket: connection.socket, _place: connection.place }, connection.peer)
            }
            // Time to stop: the server drops this future.
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> std::io::Result<Self::Addr> {
        Ok(self.address)
    }
}

impl AsyncRead for Placed {
    fn poll_read(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> std::task::Poll<std::io::Result<()>> {
        std::pin::Pin::new(&mut self.socket).poll_read(context, buffer)
    }
}

impl AsyncWrite for Placed {
    fn poll_write(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
        bytes: &[u8],
    ) -> std::task::Poll<std::io::Result<usize>> {
        std::pin::Pin::new(&mut self.socket).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
        bytes: &[std::io::IoSlice<'_>],
    ) -> std::task::Poll<std::io::Result<usize>> {
        std::pin::Pin::new(&mut self.socket).poll_write_vectored(context, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<std::io::Result<()>> {
        std::pin::Pin::new(&mut self.socket).poll_flush(context)
    }

    fn poll_shutdown(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<std::io::Result<()>> {
        std::pin::Pin::new(&mut self.socket).poll_shutdown(context)
    }
}
