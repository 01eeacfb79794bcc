//! What a connection must do before it is a session: TLS and proof of who it is (spec/xrootd.md §4.1, §4.2, §8).

use super::{
    Peer, Service, TlsOffer, TlsRule,
    service_turn::{Phase, Session},
    session::End,
};
use base::Failure;
use std::{io, sync::Arc};
use tokio::{runtime::Handle, time::timeout};
use wire::xrd::{Answer, Auth, ErrorCode, Expect, LoginAnswer, Protocol, ProtocolAnswer, ServerFlags};

/// Attempts to prove who one is; clients of the field try one for each protocol they know.
const ATTEMPTS_MAX: u8 = 8;

/// A login that waits for its proof.
#[derive(Debug)]
pub(super) struct Claim {
    pub(super) peer: Peer,
    pub(super) id: [u8; 16],
    pub(super) takes_later: bool,
    attempts: u8,
}

impl Claim {
    pub(super) fn new(peer: Peer, id: [u8; 16], takes_later: bool) -> Self {
        Self { peer, id, takes_later, attempts: 0 }
    }
}

impl<S: Service> Session<S> {
    /// Answers a protocol request; TLS begins after the answer if both want it.
    pub(super) fn protocol(&mut self, request: &Protocol) -> Answer {
        let config = self.service.config();
        let mut flags = config.flags.with(ServerFlags::PAGE_IO).with(ServerFlags::PERSIST_ON_CLOSE);
        // Clients without a version are older than TLS.
        if let Some(TlsOffer { rule, .. }) = config.tls.as_ref().filter(|_| request.client_version > 0) {
            flags = flags | rule.flags();
            let goes = !self.transport.is_tls()
                && (request.wants_tls() || (request.is_able_tls() && rule.demands(request.expects())));
            // In the middle of a session others may be sending.
            if goes && matches!(self.phase, Phase::Greeting) && self.claim.is_none() {
                self.is_upgrading = true;
                flags = flags | ServerFlags::GOTO_TLS;
            }
        }
        Answer::Ok(ProtocolAnswer::new(flags).encode())
    }

    /// Goes over to TLS once the answer that says so has left; `false` if it has to be waited for.
    pub(super) fn upgrade(&mut self) -> Result<bool, End> {
        if !self.flush()? {
            return Ok(false);
        }
        self.is_upgrading = false;
        let Some(TlsOffer { config, .. }) = &self.service.config().tls else { return Ok(true) };
        // What came after the request is part of the handshake, never a request of its own.
        let early = self.inbox.ready().to_vec();
        self.inbox.consume(early.len());
        self.transport.begin_tls(Arc::clone(config), &early)?;
        Ok(true)
    }

    /// Refuses a connection in plain text where the door demands TLS. What comes over loopback leaves no host: clients
    /// that can are made to use TLS there too, others are served.
    pub(super) fn check_tls(&self, expect: Expect) -> Result<(), Answer> {
        let demands = self.service.config().tls.as_ref().is_some_and(|offer| offer.rule.demands(expect));
        if demands && !self.transport.is_tls() && !self.peer.ip().to_canonical().is_loopback() {
            let message = "this server requires TLS; use roots:// or a client that can upgrade";
            return Err(Answer::error(ErrorCode::TlsRequired, message));
        }
        Ok(())
    }

    /// Answers a login that needs a proof.
    pub(super) fn demand_proof(&mut self, claim: Claim, security: String) -> Answer {
        let answer = LoginAnswer { session: claim.id, security };
        self.claim = Some(claim);
        Answer::Ok(answer.encode())
    }

    /// Takes a proof.
    pub(super) fn prove(&mut self, auth: Auth) -> Result<Answer, End> {
        let Some(mut claim) = self.claim.take() else {
            return Ok(Answer::error(ErrorCode::InvalidRequest, "log in first"));
        };
        claim.attempts += 1;
        let proving = self.service.authenticate(claim.peer.clone(), auth.kind, &auth.credentials);
        // This thread is made for waiting.
        let proven = Handle::current().block_on(timeout(self.slot.time_left(), proving));
        match proven {
            Ok(Ok(session)) => {
                let begun = self.begin(session, claim.id, claim.takes_later);
                Ok(begun.map_or_else(|full| Answer::failure(&full), |()| Answer::Ok(Vec::new())))
            }
            Ok(Err(failure)) => {
                let answer = refused(&failure);
                if claim.attempts < ATTEMPTS_MAX {
                    self.claim = Some(claim);
                }
                Ok(answer)
            }
            Err(_) => Err(End::Io(io::ErrorKind::TimedOut.into())),
        }
    }
}

/// Clients of the field try their next protocol after this code.
fn refused(failure: &Failure) -> Answer {
    match Answer::failure(failure) {
        Answer::Error { message, .. } => Answer::error(ErrorCode::AuthFailed, message),
        other => other,
    }
}

impl TlsRule {
    /// The failure that clients see.
    fn flags(self) -> ServerFlags {
        let offered = ServerFlags::TLS;
        match self {
            Self::Offered => offered,
            Self::Login => offered | ServerFlags::TLS_LOGIN | ServerFlags::TLS_COPY,
            Self::Required => {
                offered
                    | ServerFlags::TLS_LOGIN
                    | ServerFlags::TLS_SESSION
                    | ServerFlags::TLS_DATA
                    | ServerFlags::TLS_COPY
            }
        }
    }

    /// Whether what a client does next needs TLS.
    fn demands(self, expect: Expect) -> bool {
        match expect {
            // A bind shows the id of a session, which is as good as its login.
            Expect::Login | Expect::Copy | Expect::Bind => self != Self::Offered,
            Expect::GetFile => self == Self::Required,
            Expect::Nothing => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_shows_a_secret_is_encrypted_where_logins_are() {
        let table = [
            (TlsRule::Offered, false, false),
            (TlsRule::Login, true, false),
            (TlsRule::Required, true, true),
        ];
        for (rule, login, data) in table {
            assert_eq!((rule.demands(Expect::Login), rule.demands(Expect::Bind)), (login, login), "{rule:?}");
            assert_eq!(rule.flags().contains(ServerFlags::TLS_LOGIN), login);
            assert_eq!(rule.flags().contains(ServerFlags::TLS_DATA), data);
            assert!(!rule.demands(Expect::Nothing) && rule.flags().contains(ServerFlags::TLS));
        }
    }
}
