//! The HTTP door: files and directories as WebDAV, third-party copy, the management API, the console and metrics.

mod answer;
mod calls;
mod copy;
mod dav;
mod listing;
mod live;
mod paths;
mod read;
mod segments;
mod serve;
mod sums;
mod tpc;
mod tree;
mod write;

pub use serve::{Peer, serve};
pub use tpc::RemoteTrust;

use crate::{facility::Key, files::Files, metrics::DoorCounters};
use axum::{
    Router,
    extract::DefaultBodyLimit,
    routing::{any, get},
};
use base::limits::CONTROL_BODY_BYTES_MAX;
use head::Principal;
use net::shutdown::Token;
use segments::Budget;
use std::sync::Arc;
use sums::Hashes;

/// What every handler needs.
pub struct HttpDoor {
    files: Arc<Files>,
    key: Key,
    /// Who a client is that does not say.
    owner: String,
    counters: Arc<DoorCounters>,
    token: Token,
    budget: Arc<Budget>,
    hashes: Hashes,
    remote: tpc::Remote,
}

impl HttpDoor {
    /// A door to `files`; `owner` is the facility's.
    pub fn new(files: Arc<Files>, key: Key, owner: &str, counters: Arc<DoorCounters>, token: Token) -> Self {
        Self {
            files,
            key,
            owner: owner.to_owned(),
            counters,
            token,
            budget: Arc::default(),
            hashes: Hashes::default(),
            remote: tpc::Remote::new(RemoteTrust::default()),
        }
    }

    /// Says which servers are trusted in third-party copies.
    pub fn with_trust(mut self, trust: RemoteTrust) -> Self {
        self.remote = tpc::Remote::new(trust);
        self
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

fn routes(door: Arc<HttpDoor>) -> Router {
    calls::routes()
        .layer(DefaultBodyLimit::max(CONTROL_BODY_BYTES_MAX))
        .route("/metrics", get(live::metrics))
        .route("/console", get(live::console))
        .route("/console/events", get(live::events))
        .fallback(any(paths::handle))
        .with_state(door)
}
