//! The XRootD door: a session loop over any [`Service`] (spec/xrootd.md).
//!
//! A mover thread serves each session that has something to do. It receives, carries out and answers requests in their
//! order, many in one system call, until it would have to wait. An idle session has no thread. A mover may wait for a
//! disk, because other sessions have other movers.
//!
//! Calls on names and opens run beside the data. If a call takes long, the client is told that the answer comes later,
//! so the recall of one file never delays other requests. `limits.rs` bounds every queue, buffer and wait.

mod accounts;
mod auth;
mod calls;
mod encrypted;
mod frames;
mod greet;
mod handles;
mod inbox;
mod inline_call;
mod limits;
mod names;
mod outbox;
mod polling;
mod query;
mod reading;
mod sender;
mod service;
mod service_turn;
mod session;
mod setting;
mod signed;
mod slash;
mod streams;
mod transfer;
mod transport;
mod writing;

pub use limits::PEER_MOVERS_MAX;
pub use service::*;

use crate::{listener::Listener, shutdown::Shutdown};
use accounts::Accounts;
use session::Movers;
use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicU64, Ordering},
    },
};
use streams::Streams;
use tokio::sync::{Notify, Semaphore};

/// Counters of a door.
#[derive(Debug, Default)]
pub struct Counters {
    /// Sessions now.
    pub sessions_now: AtomicU64,
    /// Sessions so far.
    pub sessions_total: AtomicU64,
    /// Requests so far.
    pub requests_total: AtomicU64,
    /// Response times of requests on names and of opens, including those that waited for a tape.
    pub request_times: base::Histogram,
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
    let registry = Arc::new(Registry::new());
    let movers = Arc::new(Movers::new());
    let late_listings = Arc::new(Semaphore::new(limits::LATE_LISTINGS_MAX));
    let accounts = Arc::new(Accounts::default());
    let counted = Arc::clone(&counters);
    shutdown.spawn("xrootd door", async move {
        while let Some(connection) = listener.accept(&token).await {
            let start = session::Start {
                service: Arc::clone(&service),
                socket: connection.socket,
                peer: connection.peer,
                local_user: connection.local_user,
                tasks: sessions.clone(),
                counters: Arc::clone(&counted),
                registry: Arc::clone(&registry),
                movers: Arc::clone(&movers),
                late_listings: Arc::clone(&late_listings),
                accounts: Arc::clone(&accounts),
                slot: Arc::new(connection.slot),
            };
            let (peer, counters) = (connection.peer, Arc::clone(&counted));
            let token = token.clone();
            sessions.spawn("xrootd session", async move {
                counters.sessions_total.fetch_add(1, Ordering::Relaxed);
                counters.sessions_now.fetch_add(1, Ordering::Relaxed);
                let end = session::run(start, token).await;
                counters.sessions_now.fetch_sub(1, Ordering::Relaxed);
                tracing::debug!(%peer, %end, "session ended");
            });
        }
    });
    counters
}

/// A session, as its client's other connections find it.
#[derive(Debug)]
struct Known<F> {
    ended: Arc<Notify>,
    streams: Weak<Streams<F>>,
}

/// Sessions by id, so that a client can bind further connections to one, or end one that it lost.
#[derive(Debug)]
struct Registry<F>(Mutex<HashMap<[u8; 16], Known<F>>>);

impl<F> Registry<F> {
    fn new() -> Self {
        Self(Mutex::default())
    }

    fn sessions(&self) -> MutexGuard<'_, HashMap<[u8; 16], Known<F>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enters a session until the guard is dropped.
    fn enter(
        self: &Arc<Self>,
        id: [u8; 16],
        ended: Arc<Notify>,
        streams: &Arc<Streams<F>>,
    ) -> RegistryEntry<F> {
        self.sessions().insert(id, Known { ended, streams: Arc::downgrade(streams) });
        RegistryEntry(Arc::clone(self), id)
    }

    /// Ends the session with this id; `false` if there is none.
    fn end(&self, id: &[u8; 16]) -> bool {
        let sessions = self.sessions();
        let session = sessions.get(id);
        if let Some(known) = session {
            known.ended.notify_one();
        }
        session.is_some()
    }

    /// The further connections of the session with this id.
    fn streams(&self, id: &[u8; 16]) -> Option<Arc<Streams<F>>> {
        self.sessions().get(id)?.streams.upgrade()
    }
}

#[derive(Debug)]
struct RegistryEntry<F>(Arc<Registry<F>>, [u8; 16]);

impl<F> RegistryEntry<F> {
    fn id(&self) -> &[u8; 16] {
        &self.1
    }
}

impl<F> Drop for RegistryEntry<F> {
    fn drop(&mut self) {
        self.0.sessions().remove(&self.1);
    }
}
