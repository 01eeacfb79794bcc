//! The HTTP door: files and directories as WebDAV, third-party copy, the management API, the console and metrics.

mod answer;
mod api;
mod audited;
mod data;
mod dav;
mod file;
mod guard;
mod paths;
mod serve;
mod tape;
mod tpc;

pub use guard::origin::DoorNames;
use serve::ConnectionTrust;
pub use serve::{Peer, serve, serve_local};
pub use tpc::RemoteTrust;

use crate::{
    access::{audit::Audit, host_registry::HostRegistry, identity::Authenticator, key::Key},
    doors::files::Files,
    hosts::JoinService,
    metrics::DoorCounters,
};
use axum::{
    Router,
    extract::DefaultBodyLimit,
    routing::{any, get},
};
use base::{Clock, ReachRule, Timestamp, limits::CONTROL_BODY_BYTES_MAX};
use file::segments::Budget;
use net::shutdown::Token;
use std::sync::Arc;

/// The state that all handlers share.
pub struct HttpDoor {
    files: Arc<Files>,
    key: Key,
    authenticator: Authenticator,
    /// Names by which the door may be addressed.
    names: DoorNames,
    /// Name of the facility.
    sitename: String,
    counters: Arc<DoorCounters>,
    token: Token,
    budget: Arc<Budget>,
    remote: tpc::Remote,
    /// Where names are known, `https://host:port`, if not here.
    head: String,
    /// By which name the head knows this host, if names are not known here.
    host: String,
    /// Hosts that joined.
    host_registry: HostRegistry,
    /// The join service; without it no host can join.
    join_service: Option<JoinService>,
    /// Whether missing directories of a file are made.
    makes_parents: bool,
    /// The audit log.
    audit: Audit,
}

impl HttpDoor {
    /// A door to `files`; `owner` is the facility's.
    pub fn new(files: Arc<Files>, key: Key, owner: &str, counters: Arc<DoorCounters>, token: Token) -> Self {
        let clock: Clock = Arc::new(|| Timestamp::from_system(std::time::SystemTime::now()));
        Self {
            files,
            authenticator: Authenticator::new(key.tokens(), "", owner, false, clock),
            key,
            names: DoorNames::default(),
            sitename: String::new(),
            counters,
            token,
            budget: Arc::default(),
            remote: tpc::Remote::new(RemoteTrust::default()),
            head: String::new(),
            host: String::new(),
            host_registry: HostRegistry::default(),
            join_service: None,
            makes_parents: false,
            audit: Audit::default(),
        }
    }

    /// Says by which names the door may be addressed, beside loopback, and whether missing directories of a file are made.
    #[must_use]
    pub fn with_names(self, names: DoorNames, makes_parents: bool) -> Self {
        Self { names, makes_parents, ..self }
    }

    /// Says what the facility is called.
    #[must_use]
    pub fn with_sitename(self, sitename: &str) -> Self {
        Self { sitename: sitename.to_owned(), ..self }
    }

    /// Decides who somebody is.
    #[must_use]
    pub fn with_authenticator(mut self, authenticator: Authenticator) -> Self {
        self.authenticator = authenticator;
        self
    }

    /// Says which servers are trusted in third-party copies.
    pub fn with_trust(mut self, trust: RemoteTrust) -> Self {
        self.remote.believe(trust);
        self
    }

    /// Says where third-party copies may go; without it to other hosts only.
    #[must_use]
    pub fn with_reach_rule(mut self, rule: ReachRule) -> Self {
        self.remote.limit(rule);
        self
    }

    /// A door that opens objects by capability only; names are known at `head`, `https://host:port`.
    ///
    /// It calls itself `host` to a head to which it sends back who came to write.
    pub fn without_names(
        files: Arc<Files>,
        (head, host): (&str, &str),
        counters: Arc<DoorCounters>,
        token: Token,
    ) -> Self {
        let (head, host) = (head.to_owned(), host.to_owned());
        Self { head, host, ..Self::new(files, Key::nobody(), "", counters, token) }
    }

    /// Lets hosts join.
    #[must_use]
    pub fn with_hosts(mut self, host_registry: HostRegistry, join_service: JoinService) -> Self {
        self.host_registry = host_registry;
        self.join_service = Some(join_service);
        self
    }

    /// Notes what is done.
    #[must_use]
    pub fn with_audit(self, audit: Audit) -> Self {
        Self { audit, ..self }
    }
}

fn routes(door: Arc<HttpDoor>) -> Router {
    if !door.head.is_empty() {
        return data::routes(Arc::clone(&door))
            .layer(axum::middleware::from_fn_with_state(door, guard::require_origin));
    }
    api::calls::routes()
        .merge(tape::routes())
        .layer(DefaultBodyLimit::max(CONTROL_BODY_BYTES_MAX))
        .route("/metrics", get(api::live::metrics))
        .route("/console", get(api::live::console))
        .route("/console/events", get(api::live::events))
        .fallback(any(paths::handle))
        .layer(axum::middleware::from_fn_with_state(Arc::clone(&door), guard::guard))
        .layer(axum::middleware::from_fn_with_state(Arc::clone(&door), guard::require_origin))
        .with_state(door)
}
