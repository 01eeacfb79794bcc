//! A connection before login: handshake, protocol, login (spec/xrootd.md §1, §4.1, §4.2).

use super::{
    Counters, Peer, Registry, Service, calls::Context, frames::next_request, handles::Handles, inbox::Inbox,
    limits::RECEIVE_PROGRESS, outbox::Outbox, session::End,
};
use crate::shutdown::Shutdown;
use std::{net::SocketAddr, sync::Arc};
use wire::xrd::{
    Answer, ErrorCode, HANDSHAKE, HANDSHAKE_BYTES, Login, LoginAnswer, Opaque, ProtocolAnswer, Request,
    ServerFlags, StreamId, encode_handshake_answer,
};

/// A connection before login.
pub(super) struct Greeter<S> {
    pub(super) inbox: Inbox,
    pub(super) outbox: Arc<Outbox>,
    pub(super) service: Arc<S>,
    pub(super) peer: SocketAddr,
    pub(super) local: String,
    pub(super) tasks: Shutdown,
    pub(super) counters: Arc<Counters>,
    pub(super) registry: Arc<Registry>,
}

impl<S: Service> Greeter<S> {
    /// Handshake and whatever is allowed before login, up to login.
    pub(super) async fn greet(&mut self) -> Result<(Arc<Context<S>>, [u8; 16]), End> {
        self.inbox.fill(HANDSHAKE_BYTES, RECEIVE_PROGRESS).await?;
        if self.inbox.ready()[..HANDSHAKE_BYTES] != HANDSHAKE {
            return Err(End::Stranger);
        }
        self.inbox.consume(HANDSHAKE_BYTES);
        let is_server = self.service.config().flags.contains(ServerFlags::SERVER);
        let hello = encode_handshake_answer(is_server).to_vec();
        let credit = self.outbox.reserve(hello.len()).await?;
        self.outbox.push(hello.into(), credit);
        loop {
            let (header, request) = next_request(&mut self.inbox, &self.outbox).await?;
            let answer = match request {
                Ok(Request::Login(login)) => match self.login(header.stream, login).await? {
                    Some(session) => return Ok(session),
                    None => continue,
                },
                Ok(request) => before_login(self.service.config().flags, &request),
                Err(answer) => answer,
            };
            if header.is_data_body() {
                return Err(End::Stranger);
            }
            self.outbox.send(header.stream, &answer).await?;
        }
    }

    async fn login(
        &mut self,
        stream: StreamId,
        login: Login,
    ) -> Result<Option<(Arc<Context<S>>, [u8; 16])>, End> {
        let peer = Peer {
            address: self.peer,
            username: login.username,
            pid: login.pid,
            opaque: Opaque::parse(login.token.trim_start_matches('?')),
        };
        let session = match self.service.login(peer).await {
            Ok(session) => session,
            Err(failure) => {
                self.outbox.send(stream, &Answer::failure(&failure)).await?;
                return Ok(None);
            }
        };
        let mut id = [0; 16];
        if let Err(error) = getrandom::fill(&mut id) {
            tracing::error!(%error, "no random bytes for a session id");
            return Err(End::Gone);
        }
        let body = LoginAnswer { session: id, security: String::new() }.encode();
        self.outbox.send(stream, &Answer::Ok(body)).await?;
        let context = Context {
            service: Arc::clone(&self.service),
            session,
            handles: Handles::new(),
            outbox: Arc::clone(&self.outbox),
            local: self.local.clone(),
            // Client version 2 brought answers that come later.
            takes_later: login.capability & 0x3f >= 2,
            tasks: self.tasks.clone(),
            guard: Arc::new(self.tasks.guard("xrootd session")),
            counters: Arc::clone(&self.counters),
        };
        Ok(Some((Arc::new(context), id)))
    }
}

/// Answers to what is allowed before login.
pub(super) fn before_login(role: ServerFlags, request: &Request) -> Answer {
    match request {
        Request::Protocol(_) => {
            let flags = role.with(ServerFlags::PAGE_IO).with(ServerFlags::PERSIST_ON_CLOSE);
            Answer::Ok(ProtocolAnswer::new(flags).encode())
        }
        Request::Ping => Answer::Ok(Vec::new()),
        // Clients go on with one connection.
        Request::Bind(_) => Answer::error(ErrorCode::Unsupported, "parallel streams are not offered here"),
        _ => Answer::error(ErrorCode::InvalidRequest, "login comes first"),
    }
}
