//! The user of a session of the XRootD door.

use super::RootDoor;
use crate::access::identity::{Claim, Identity};
use base::{Failure, Result};
use net::xrd::{Opaque, Peer};
use std::{
    borrow::Cow,
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};
use wire::{
    auth::token::{self, ztn},
    xrd::LOGIN_USER,
};

/// Key of the opaque part by which clients of the field send a token.
pub(super) const TOKEN_PARAMETER: &str = "authz";
/// The proof that is none: clients of the field offer it when they have no better one.
const HOST: [u8; 4] = *b"host";

/// A session of the door.
#[derive(Debug, Clone)]
pub struct DoorSession {
    /// Who it is, and what they may do.
    pub identity: Identity,
    /// Who asks for third-party copies: `user.process`, as the field writes it.
    pub(super) origin: String,
    /// From where.
    pub(super) address: IpAddr,
    /// Whether the login, or a request since, has proven who it is.
    pub(super) proof: Arc<AtomicBool>,
    /// Who has to be content with what unread answers may hold: the user, or the address if the login has proven none.
    pub(super) account: Arc<str>,
}

impl DoorSession {
    /// Whether it is known who it is.
    pub(super) fn is_proven(&self) -> bool {
        self.proof.load(Ordering::Acquire)
    }

    /// Notes a request that has proven who it is, or what it may do.
    pub(super) fn note_proof(&self) {
        self.proof.store(true, Ordering::Release);
    }
}

impl RootDoor {
    /// Who logs in without a proof.
    pub(super) async fn claimed(&self, peer: &Peer) -> Result<DoorSession> {
        let identity = match peer.opaque.get(TOKEN_PARAMETER) {
            Some(text) => self.bearer(text).await,
            None if peer.address.ip().to_canonical().is_loopback() => {
                self.authenticator.local(peer.local_user, claim(peer)).await
            }
            None => self.authenticator.stranger(),
        };
        Ok(session(identity?, peer))
    }

    /// Which proofs a login may bring. A token is not sent in plain text, but for loopback, where our own clients do
    /// without TLS.
    pub(super) fn proofs(&self, peer: &Peer) -> String {
        let is_wanted = peer.is_tls || self.authenticator.is_token_required();
        if is_wanted { format!("{}&P=host", ztn::offer()) } else { String::new() }
    }

    /// Who logs in with a proof. A token that is not good makes a session that is told so at its first request: clients
    /// of the field show that to people, but not why a login failed.
    pub(super) async fn proven(&self, peer: &Peer, kind: [u8; 4], credentials: &[u8]) -> Result<DoorSession> {
        let identity = match kind {
            ztn::KIND => self.authenticator.bearer(ztn::parse(credentials)?).await,
            HOST => {
                return self
                    .claimed(peer)
                    .await
                    .or_else(|failure| Ok(session(Identity::refused(failure), peer)));
            }
            _ => return Err(Failure::unsupported("accepted authentication: ztn, host")),
        };
        Ok(session(identity.unwrap_or_else(Identity::refused), peer))
    }

    async fn bearer(&self, text: &str) -> Result<Identity> {
        let token = token::bearer(text).ok_or_else(|| {
            Failure::permission("authz holds no bearer token").hint("write authz=Bearer%20TOKEN")
        })?;
        self.authenticator.bearer(token).await
    }

    /// Whose permissions count for one request: those of the token that came with it, else those of the session.
    pub(super) async fn named<'a>(
        &self,
        session: &'a DoorSession,
        opaque: &Opaque,
    ) -> Result<Cow<'a, Identity>> {
        match opaque.get(TOKEN_PARAMETER) {
            Some(text) => {
                let identity = Box::pin(self.bearer(text)).await?;
                session.note_proof();
                Ok(Cow::Owned(identity))
            }
            None => Ok(Cow::Borrowed(&session.identity)),
        }
    }
}

pub(super) fn session(identity: Identity, peer: &Peer) -> DoorSession {
    let origin = format!("{}.{}", peer.username, peer.pid);
    let proof = Arc::new(AtomicBool::new(identity.is_proven()));
    let address = peer.address.ip();
    let account = if identity.is_proven() {
        identity.who.name.as_str().into()
    } else {
        address.to_canonical().to_string().into()
    };
    DoorSession { identity, origin, address, proof, account }
}

/// What a client says about its user: our own send the whole name on request, those of the field eight bytes of it.
fn claim(peer: &Peer) -> Claim<'_> {
    // One that is no name is refused, not replaced by the beginning of it.
    let whole = peer.opaque.get(LOGIN_USER).filter(|name| !name.is_empty());
    whole.map_or(Claim::Login(&peer.username), Claim::Named)
}
