//! A connection before login: handshake, protocol, login or bind (spec/xrootd.md §1, §4.1, §4.2, §7).

use super::{
    Peer, Service,
    auth::Claim,
    calls::Context,
    handles::Handles,
    outbox::Outbox,
    service_turn::{Phase, Session, Work},
    session::End,
    streams::Streams,
};
use std::sync::Arc;
use tokio::{runtime::Handle, time::timeout};
use wire::xrd::{
    Answer, ErrorCode, Expect, HANDSHAKE, HANDSHAKE_BYTES, Login, LoginAnswer, Opaque, Request, ServerFlags,
    StreamId, encode_handshake_answer,
};

impl<S: Service> Session<S> {
    pub(super) fn shake_hands(&mut self) -> Result<Work, End> {
        let ready = self.inbox.ready();
        if ready.len() < HANDSHAKE_BYTES {
            // A stranger is recognised by its first bytes, and need not be waited for.
            return if HANDSHAKE.starts_with(ready) {
                Ok(Work::Wants(Some(HANDSHAKE_BYTES)))
            } else {
                Err(End::Stranger)
            };
        }
        if ready[..HANDSHAKE_BYTES] != HANDSHAKE {
            return Err(End::Stranger);
        }
        self.inbox.consume(HANDSHAKE_BYTES);
        let is_server = self.service.config().flags.contains(ServerFlags::SERVER);
        self.sender.extend(&encode_handshake_answer(is_server));
        self.phase = Phase::Greeting;
        Ok(Work::Done)
    }

    /// Carries out what is allowed before login. Anything else is refused, and ends the connection as servers of the field do: what
    /// its sender takes for granted is not so, and data may follow.
    pub(super) fn greet(&mut self, stream: StreamId, request: Request) -> Result<(), End> {
        let has_claim = self.claim.is_some();
        let answer = match request {
            Request::Protocol(request) => self.protocol(&request),
            Request::Ping if has_claim => Answer::Ok(Vec::new()),
            Request::Auth(auth) if has_claim => self.prove(auth)?,
            Request::Login(login) if !has_claim => self.login(login)?,
            Request::Bind(id) if !has_claim => self.bind(&id),
            _ => return Err(self.refuse_early(stream)),
        };
        self.answer(stream, &answer);
        Ok(())
    }

    /// The last answer to a peer that has not logged in, or not proven who it is.
    pub(super) fn refuse_early(&mut self, stream: StreamId) -> End {
        let what = if self.claim.is_some() {
            "invalid request: user not authenticated; authenticate first"
        } else {
            "invalid request: user not logged in; log in first"
        };
        self.answer(stream, &Answer::error(ErrorCode::InvalidRequest, what));
        End::Early
    }

    /// Answers what belongs before the login when it comes after it.
    pub(super) fn after_login(&mut self, request: &Request) -> Answer {
        match request {
            Request::Protocol(request) => self.protocol(request),
            Request::Login(_) => Answer::error(ErrorCode::InvalidRequest, "already logged in"),
            Request::Bind(_) => {
                Answer::error(ErrorCode::InvalidRequest, "a session cannot be bound to another")
            }
            _ => Answer::error(ErrorCode::Unsupported, "no authentication was asked for"),
        }
    }

    fn login(&mut self, login: Login) -> Result<Answer, End> {
        if let Err(refusal) = self.check_tls(Expect::Login) {
            return Ok(refusal);
        }
        let mut id = [0; 16];
        if let Err(error) = getrandom::fill(&mut id) {
            tracing::error!(%error, "cannot get random bytes for a session id");
            return Err(End::Io(std::io::ErrorKind::Other.into()));
        }
        let peer = Peer {
            address: self.peer,
            local_user: self.local_user,
            username: login.username,
            pid: login.pid,
            opaque: Opaque::parse(login.token.trim_start_matches('?')),
            is_tls: self.transport.is_tls(),
        };
        // Client version 2 brought answers that come later.
        let takes_later = login.capability & 0x3f >= 2;
        let security = self.service.security(&peer);
        if !security.is_empty() {
            return Ok(self.demand_proof(Claim::new(peer, id, takes_later), security));
        }
        // This thread is made for waiting.
        let session = Handle::current().block_on(timeout(self.slot.time_left(), self.service.login(peer)));
        match session {
            Ok(Ok(session)) => {
                if let Err(full) = self.begin(session, id, takes_later) {
                    return Ok(Answer::failure(&full));
                }
            }
            Ok(Err(failure)) => return Ok(Answer::failure(&failure)),
            Err(_) => return Err(End::Io(std::io::ErrorKind::TimedOut.into())),
        }
        Ok(Answer::Ok(LoginAnswer { session: id, security }.encode()))
    }

    /// Makes this connection a session, if the door has a place for it.
    pub(super) fn begin(&mut self, session: S::Session, id: [u8; 16], takes_later: bool) -> base::Result<()> {
        if self.service.is_proven(&session) {
            self.slot.prove()?;
        }
        let streams = Arc::new(Streams::new());
        let account = self.accounts.of(self.service.account(&session));
        self.entry = Some(self.registry.enter(id, Arc::clone(&self.ended), &streams));
        self.phase = Phase::Open(Arc::new(Context {
            service: Arc::clone(&self.service),
            session,
            handles: Handles::new(),
            outbox: Outbox::new(Arc::clone(&account)),
            account,
            streams,
            local: self.local.clone(),
            takes_later,
            tasks: self.tasks.clone(),
            counters: Arc::clone(&self.counters),
            late_listings: Arc::clone(&self.late_listings),
        }));
        self.notice_proof();
        Ok(())
    }

    /// Makes this a further connection of a session. Its id is as good as a password.
    fn bind(&mut self, id: &[u8; 16]) -> Answer {
        if let Err(refusal) = self.check_tls(Expect::Bind) {
            return refusal;
        }
        let Some(streams) = self.registry.streams(id) else {
            return Answer::error(ErrorCode::NotFound, "no such session");
        };
        match streams.add() {
            Some((number, connection)) => {
                self.phase = Phase::Bound(connection);
                self.notice_proof();
                Answer::Ok(vec![number])
            }
            None => Answer::error(ErrorCode::NoMemory, "the session has too many connections"),
        }
    }
}
