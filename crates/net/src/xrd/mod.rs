//! The XRootD door: a session loop over any [`Service`] (spec/xrootd.md).
//!
//! Data requests of a session run in the order they came, on threads made for blocking calls, many in one visit.
//! Calls on names and opens run beside them; what takes long is announced and answered later, so that the recall of
//! one file never holds up another. Every queue, buffer and wait is bounded (`limits.rs`).

mod calls;
mod data;
mod frames;
mod greet;
mod handles;
mod inbox;
mod lane;
mod limits;
mod outbox;
mod query;
mod service;
mod session;
mod transfer;

pub use service::*;

use crate::{listener::Listener, shutdown::Shutdown};
use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};
use tokio::sync::Notify;

/// What a door has done so far.
#[derive(Debug, Default)]
pub struct Counters {
    /// Sessions now.
    pub sessions_now: AtomicU64,
    /// Sessions so far.
    pub sessions_total: AtomicU64,
    /// Requests so far.
    pub requests_total: AtomicU64,
    /// Requests that could not be understood.
    pub malformed_total: AtomicU64,
    /// Bytes received.
    pub received_bytes_total: AtomicU64,
    /// Bytes of answers handed to the kernel or waiting for it.
    pub sent_bytes_total: AtomicU64,
}

/// Accepts connections and runs their sessions under `shutdown` until that stops.
pub fn serve<S: Service>(service: Arc<S>, listener: Listener, shutdown: &Shutdown) -> Arc<Counters> {
    let counters = Arc::new(Counters::default());
    let (sessions, token) = (shutdown.child(), shutdown.token());
    let registry = Arc::new(Registry::default());
    let counted = Arc::clone(&counters);
    shutdown.spawn("xrootd door", async move {
        while let Some(connection) = listener.accept(&token).await {
            let start = session::Start {
                service: Arc::clone(&service),
                socket: connection.socket,
                peer: connection.peer,
                tasks: sessions.clone(),
                counters: Arc::clone(&counted),
                registry: Arc::clone(&registry),
            };
            let (place, peer, counters) = (connection.place, connection.peer, Arc::clone(&counted));
            let token = token.clone();
            sessions.spawn("xrootd session", async move {
                counters.sessions_total.fetch_add(1, Ordering::Relaxed);
                counters.sessions_now.fetch_add(1, Ordering::Relaxed);
                let end = session::run(start, token).await;
                counters.sessions_now.fetch_sub(1, Ordering::Relaxed);
                tracing::debug!(%peer, %end, "session ended");
                drop(place);
            });
        }
    });
    counters
}

/// Sessions by id, so that a client that reconnects can end the session it lost.
#[derive(Debug, Default)]
struct Registry(Mutex<HashMap<[u8; 16], Arc<Notify>>>);

impl Registry {
    fn sessions(&self) -> MutexGuard<'_, HashMap<[u8; 16], Arc<Notify>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enters a session until the guard is dropped.
    fn enter(self: &Arc<Self>, id: [u8; 16], ended: Arc<Notify>) -> Entered {
        self.sessions().insert(id, ended);
        Entered(Arc::clone(self), id)
    }

    /// Ends the session with this id; `false` if there is none.
    fn end(&self, id: &[u8; 16]) -> bool {
        let sessions = self.sessions();
        let session = sessions.get(id);
        if let Some(ended) = session {
            ended.notify_one();
        }
        session.is_some()
    }
}

#[derive(Debug)]
struct Entered(Arc<Registry>, [u8; 16]);

impl Drop for Entered {
    fn drop(&mut self) {
        self.0.sessions().remove(&self.1);
    }
}
