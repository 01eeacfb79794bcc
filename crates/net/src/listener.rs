//! A TCP listener that accepts only while its door has a slot for an authenticated connection.
//!
//! Connections beyond the limit wait in the kernel's backlog and cost this process nothing. An accepted connection has
//! a slot in the budget of [`crate::unproven`] until its peer has authenticated.

use crate::{
    shutdown::Token,
    unproven::{ConnectionSlot, Unproven},
};
use base::{Failure, Result};
use std::{net::SocketAddr, sync::Arc, time::Duration};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    time::sleep,
};

/// Pause after a failed accept: it fails for want of descriptors, and those come back only when connections end.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// Silence after which the kernel asks whether the peer is still there.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(60);
/// Pause between such questions.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(20);
/// Questions without answer after which the peer is gone.
const KEEPALIVE_PROBES: u32 = 6;

/// A listening socket with a bounded number of connections.
#[derive(Debug)]
pub struct Listener {
    socket: TcpListener,
    /// The limit of authenticated connections.
    slots: Arc<Semaphore>,
    unproven: Unproven,
}

/// An accepted connection; its slot is free again when this is dropped.
#[derive(Debug)]
pub struct Connection {
    /// The socket.
    pub socket: TcpStream,
    /// The other end.
    pub peer: SocketAddr,
    /// The user id at the other end, if that is a process of this host: the kernel says so.
    pub local_user: Option<u32>,
    /// Keeps the slot, at first in the budget of the unproven.
    pub slot: ConnectionSlot,
}

impl Listener {
    /// Listens on `address` for at most `connections_max` proven connections at a time.
    pub async fn bind(address: SocketAddr, connections_max: usize) -> Result<Self> {
        let socket =
            TcpListener::bind(address).await.map_err(|e| Failure::io(format!("listen on {address}"), &e))?;
        let slots = Arc::new(Semaphore::new(connections_max));
        Ok(Self { socket, slots, unproven: Unproven::default() })
    }

    /// Shares the budget of the unproven with other doors.
    #[must_use]
    pub fn with_budget(self, unproven: Unproven) -> Self {
        Self { unproven, ..self }
    }

    /// The address, with the port that was chosen if 0 was asked for.
    pub fn address(&self) -> Result<SocketAddr> {
        self.socket.local_addr().map_err(|e| Failure::io("address of the listener", &e))
    }

    /// The next connection; `None` when it is time to stop.
    pub async fn accept(&self, token: &Token) -> Option<Connection> {
        tokio::select! {
            () = token.stopped() => None,
            connection = self.next() => connection,
        }
    }

    async fn next(&self) -> Option<Connection> {
        loop {
            // A door that is full of proven connections could not take another one when it has proven itself.
            drop(self.slots.acquire().await.ok()?);
            match self.socket.accept().await {
                Ok((socket, peer)) => {
                    if let Err(error) = prepare(&socket) {
                        tracing::debug!(%peer, %error, "the peer disconnected before it was served");
                        continue;
                    }
                    let local_user = local_user(&socket, peer);
                    let slot = self.unproven.enter(peer.ip(), &self.slots);
                    return Some(Connection { socket, peer, local_user, slot });
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    sleep(ACCEPT_RETRY).await;
                }
            }
        }
    }
}

/// Who is at the other end, asked at once: nobody can be found any more when the peer has closed. A caller who cannot be
/// looked up is nobody.
fn local_user(socket: &TcpStream, peer: SocketAddr) -> Option<u32> {
    if !peer.ip().to_canonical().is_loopback() {
        return None;
    }
    let found = socket.local_addr().and_then(|local| socket::user_of_local_peer(local, peer));
    found.unwrap_or_else(|error| {
        tracing::warn!(%peer, %error, "cannot read the peer's user from the kernel; serving it as nobody");
        None
    })
}

/// Sets what every connection needs.
fn prepare(socket: &TcpStream) -> std::io::Result<()> {
    // Small answers must not wait for the acknowledgement of earlier ones.
    socket.set_nodelay(true)?;
    // A host that vanished must not keep its slot until the session is idle for too long.
    rustix::net::sockopt::set_socket_keepalive(socket, true)?;
    rustix::net::sockopt::set_tcp_keepidle(socket, KEEPALIVE_IDLE)?;
    rustix::net::sockopt::set_tcp_keepintvl(socket, KEEPALIVE_INTERVAL)?;
    Ok(rustix::net::sockopt::set_tcp_keepcnt(socket, KEEPALIVE_PROBES)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shutdown::Shutdown;

    #[tokio::test]
    async fn beyond_the_limit_nobody_is_accepted_until_a_place_is_free() {
        let root = Shutdown::new();
        let token = root.token();
        let listener = Listener::bind(([127, 0, 0, 1], 0).into(), 1).await.unwrap();
        let address = listener.address().unwrap();
        let _first = TcpStream::connect(address).await.unwrap();
        let _second = TcpStream::connect(address).await.unwrap();
        let held = listener.accept(&token).await.unwrap();
        held.slot.prove().unwrap();
        assert_eq!((listener.slots.available_permits(), listener.unproven.sessions()), (0, 0));
        drop(held);
        assert!(listener.accept(&token).await.is_some());
        root.tell();
        assert!(listener.accept(&token).await.is_none());
    }
}
