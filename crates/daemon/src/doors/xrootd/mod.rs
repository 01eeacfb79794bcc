//! The XRootD door: what the session loop asks, answered by the head and the disk server.

mod audit;
mod data;
mod file;
mod names;
mod opens;
mod prepare;
mod requests;
mod session;
mod settings;
mod stats;
#[cfg(test)]
mod tests;
pub(crate) mod tpc;

pub use data::DataDoor;
pub use file::DoorFile;
pub use session::DoorSession;
pub use settings::Settings;

use self::{stats::Stats, tpc::ThirdParty};
use crate::{
    access::{
        audit::Audit,
        identity::{Authenticator, Identity},
    },
    doors::files::Files,
    metrics::DoorCounters,
};
use base::{FilePath, Result};
use net::xrd::{NameReply, NameRequest, Opaque, OpenRequest, Opened, Peer, ServerConfig, Service, StatInfo};
use std::sync::Arc;
use wire::auth::token::Right;

/// The door.
pub struct RootDoor {
    config: ServerConfig,
    files: Arc<Files>,
    authenticator: Authenticator,
    third_party: ThirdParty<Identity>,
    counters: Arc<DoorCounters>,
    audit: Audit,
    stats: Stats,
}

impl RootDoor {
    /// A door to `files`; `authenticator` decides who somebody is.
    pub fn new(
        files: Arc<Files>,
        settings: Settings,
        authenticator: Authenticator,
        counters: Arc<DoorCounters>,
    ) -> Self {
        let (config, third_party) = settings.parts();
        let (audit, stats) = (Audit::default(), Stats::new());
        Self { config, files, authenticator, third_party, counters, audit, stats }
    }

    /// Notes in `audit` what is done here.
    #[must_use]
    pub fn with_audit(mut self, audit: Audit) -> Self {
        self.audit = audit;
        self
    }

    /// Counts the outcome of a request.
    fn counted<T>(&self, outcome: Result<T>) -> Result<T> {
        self.counters.root.answer(outcome.as_ref().err().map(|failure| failure.kind));
        outcome
    }
}

fn here(file: DoorFile) -> Opened<DoorFile> {
    Opened::Here(Arc::new(file))
}

impl Service for RootDoor {
    type Session = DoorSession;
    type File = DoorFile;

    fn config(&self) -> &ServerConfig {
        &self.config
    }

    fn security(&self, peer: &Peer) -> String {
        self.proofs(peer)
    }

    async fn authenticate(&self, peer: Peer, kind: [u8; 4], credentials: &[u8]) -> Result<DoorSession> {
        let session = self.proven(&peer, kind, credentials).await;
        self.note_login(peer.address.ip(), &session);
        session
    }

    fn account<'a>(&self, session: &'a DoorSession) -> Option<&'a str> {
        Some(&session.account)
    }

    fn is_proven(&self, session: &DoorSession) -> bool {
        session.is_proven()
    }

    async fn login(&self, peer: Peer) -> Result<DoorSession> {
        let session = self.claimed(&peer).await;
        self.note_login(peer.address.ip(), &session);
        session
    }

    async fn session_for(&self, session: &DoorSession, opaque: &Opaque) -> Result<Option<DoorSession>> {
        if opaque.get(session::TOKEN_PARAMETER).is_none() {
            return Ok(None);
        }
        match self.named(session, opaque).await {
            Ok(identity) => Ok(Some(DoorSession { identity: identity.into_owned(), ..session.clone() })),
            Err(failure) => {
                self.note_refused(session.address, &failure);
                self.counted(Err(failure))
            }
        }
    }

    async fn open(&self, session: &DoorSession, request: &OpenRequest) -> Result<Opened<DoorFile>> {
        let who = self.named(session, &request.opaque).await;
        let user = who.as_ref().map_or("nobody", |who| who.who.name.as_str());
        let opened = self.open_file(session, who.as_deref(), request).await;
        self.note_open(session, user, request, &opened);
        opened
    }

    fn stat_now(&self, session: &DoorSession, path: &FilePath, opaque: &Opaque) -> Option<Result<StatInfo>> {
        if opaque.get(session::TOKEN_PARAMETER).is_some() {
            return None;
        }
        session.identity.may(Right::Look, path, self.authenticator.now()).ok()?;
        let (head, who) = (self.files.head().ok()?, &session.identity.who);
        let stat = self.stats.get(head, who, path).or_else(|| self.stat_here(head, who, path))?;
        Some(self.counted(Ok(stat)))
    }

    async fn names(&self, session: &DoorSession, request: NameRequest) -> Result<NameReply> {
        self.carry_out(session, &request).await
    }
}
