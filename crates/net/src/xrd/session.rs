//! One session: handshake, login, then requests until the peer leaves (spec/xrootd.md §1 and §7).

use super::{
    Counters, Registry, Service,
    calls::{self, Context},
    data::Work,
    frames::next_request,
    greet::{Greeter, before_login},
    inbox::Inbox,
    lane::Lane,
    limits::{
        BUFFERS_IDLE, CALLS_MAX, COME_AGAIN_S, FLUSH_DEADLINE, LOGIN_DEADLINE, RECEIVE_PROGRESS,
        SESSION_IDLE, TURN_REQUESTS,
    },
    outbox::{Gone, Outbox},
};
use crate::shutdown::{Shutdown, Token};
use std::{
    io,
    net::SocketAddr,
    pin::pin,
    sync::{Arc, atomic::Ordering},
};
use tokio::{net::TcpStream, sync::Notify, task::JoinSet, time::timeout};
use wire::xrd::{
    Answer, ErrorCode, FileHandle, Malformed, REQUEST_HEADER_BYTES, Request, RequestHeader, StreamId, Subject,
};

/// Why a session ended.
#[derive(Debug, thiserror::Error)]
pub(super) enum End {
    /// The peer left or the connection broke.
    #[error("connection: {0}")]
    Io(#[from] io::Error),
    /// The framing is lost.
    #[error("malformed: {0}")]
    Malformed(#[from] Malformed),
    /// The peer speaks another protocol.
    #[error("no handshake of this protocol")]
    Stranger,
    /// Nothing can be sent any more.
    #[error("answers cannot be sent")]
    Gone,
    /// The server stops.
    #[error("server stops")]
    Stopped,
    /// Another session of the client ended this one.
    #[error("ended by the client")]
    Ended,
}

impl From<Gone> for End {
    fn from(Gone: Gone) -> Self {
        Self::Gone
    }
}

/// What a session gets from the door.
#[derive(Debug)]
pub(super) struct Start<S> {
    pub(super) service: Arc<S>,
    pub(super) socket: TcpStream,
    pub(super) peer: SocketAddr,
    pub(super) tasks: Shutdown,
    pub(super) counters: Arc<Counters>,
    pub(super) registry: Arc<Registry>,
}

/// Runs a session to its end.
pub(super) async fn run<S: Service>(start: Start<S>, token: Token) -> End {
    let socket = Arc::new(start.socket);
    let outbox = Arc::new(Outbox::new(Arc::clone(&socket), Arc::clone(&start.counters)));
    let local = socket.local_addr().map_or_else(|_| String::new(), shown_address);
    let ended = Arc::new(Notify::new());
    let mut greeter = Greeter {
        inbox: Inbox::new(socket, Arc::clone(&start.counters)),
        outbox: Arc::clone(&outbox),
        service: start.service,
        peer: start.peer,
        local,
        tasks: start.tasks,
        counters: start.counters,
        registry: start.registry,
    };
    let ending = Arc::clone(&ended);
    let work = async move {
        let greeting = timeout(LOGIN_DEADLINE, greeter.greet()).await;
        let (context, id) = match greeting {
            Ok(Ok(greeting)) => greeting,
            Ok(Err(end)) => return end,
            Err(_) => return End::Io(io::ErrorKind::TimedOut.into()),
        };
        let _entry = greeter.registry.enter(id, ending);
        let mut session = Session {
            lane: Lane::new(Arc::clone(&context.outbox), Arc::clone(&context.guard)),
            inbox: greeter.inbox,
            context,
            calls: JoinSet::new(),
            registry: Arc::clone(&greeter.registry),
            id,
        };
        let end = session.serve().await;
        // What runs on a blocking thread is waited for: no task is left behind.
        let _ = session.lane.drain().await;
        end
    };
    let mut sending = pin!(outbox.run());
    let end = tokio::select! {
        end = work => end,
        outcome = &mut sending => return outcome.map_or_else(End::Io, |()| End::Gone),
        () = token.stopped() => End::Stopped,
        () = ended.notified() => End::Ended,
    };
    outbox.close();
    if timeout(FLUSH_DEADLINE, sending).await.is_err() {
        tracing::debug!(peer = %start.peer, "answers were left when the session ended");
    }
    end
}

/// The address in the form of the field: `[::127.0.0.1]:1094`.
fn shown_address(address: SocketAddr) -> String {
    match address {
        SocketAddr::V4(v4) => format!("[::{}]:{}", v4.ip(), v4.port()),
        SocketAddr::V6(v6) => v6.to_string(),
    }
}

/// A connection after login.
pub(super) struct Session<S: Service> {
    pub(super) context: Arc<Context<S>>,
    pub(super) inbox: Inbox,
    pub(super) lane: Lane<S::File>,
    calls: JoinSet<()>,
    registry: Arc<Registry>,
    id: [u8; 16],
}

impl<S: Service> Session<S> {
    async fn serve(&mut self) -> End {
        let mut turn = 0;
        loop {
            if self.inbox.ready().len() < REQUEST_HEADER_BYTES
                && let Err(gone) = self.lane.flush().await
            {
                return gone.into();
            }
            if let Err(end) = self.serve_one().await {
                return end;
            }
            self.has_calls();
            turn += 1;
            if turn == TURN_REQUESTS {
                turn = 0;
                tokio::task::yield_now().await;
            }
        }
    }

    async fn serve_one(&mut self) -> Result<(), End> {
        if self.inbox.ready().is_empty() {
            self.wait_idle().await?;
        }
        let (header, request) = next_request(&mut self.inbox, &self.context.outbox).await?;
        self.context.counters.requests_total.fetch_add(1, Ordering::Relaxed);
        match request {
            Ok(request) => self.dispatch(header.stream, request).await,
            Err(answer) => {
                self.context.counters.malformed_total.fetch_add(1, Ordering::Relaxed);
                self.refuse_data(&header, answer).await
            }
        }
    }

    /// Waits for the first byte of a request; gives memory back meanwhile.
    async fn wait_idle(&mut self) -> Result<(), End> {
        let is_timeout = |error: &io::Error| error.kind() == io::ErrorKind::TimedOut;
        match self.inbox.fill(1, BUFFERS_IDLE).await {
            Err(error) if is_timeout(&error) => {
                self.context.outbox.shrink();
                self.inbox.shrink();
            }
            outcome => return Ok(outcome?),
        }
        loop {
            match self.inbox.fill(1, SESSION_IDLE).await {
                // A session is not idle while it waits for answers: a recall may take hours.
                Err(error) if is_timeout(&error) && self.has_calls() => {}
                outcome => return Ok(outcome?),
            }
        }
    }

    /// Whether calls are under way.
    fn has_calls(&mut self) -> bool {
        while self.calls.try_join_next().is_some() {}
        !self.calls.is_empty()
    }

    /// Refuses a request that could not be parsed; data that follow it are thrown away.
    async fn refuse_data(&mut self, header: &RequestHeader, answer: Answer) -> Result<(), End> {
        if header.is_data_body() {
            self.inbox.skip(header.body_bytes()?, RECEIVE_PROGRESS).await?;
        }
        Ok(self.context.outbox.send(header.stream, &answer).await?)
    }

    async fn dispatch(&mut self, stream: StreamId, request: Request) -> Result<(), End> {
        tracing::trace!(stream = stream.number(), request = ?request.code(), "request");
        match request {
            Request::Read(request) => self.read(stream, request).await,
            Request::Pgread(request) => self.pgread(stream, request).await,
            Request::Readv(request) => self.readv(stream, request.elements).await,
            Request::Write(request) => self.write(stream, request).await,
            Request::Pgwrite(request) => self.pgwrite(stream, request).await,
            Request::Writev(request) => self.writev(stream, request).await,
            Request::Close(handle) => self.close(stream, handle).await,
            Request::Sync(handle) => self.step(stream, handle, true, Work::Sync).await,
            Request::Truncate(request) => match request.subject {
                Subject::Handle(handle) => {
                    self.step(stream, handle, true, Work::Truncate(request.size)).await
                }
                Subject::Path(_) => self.call(stream, Request::Truncate(request)).await,
            },
            Request::Stat(request) => match request.subject {
                Subject::Handle(handle) if !request.is_filesystem => {
                    self.step(stream, handle, false, Work::Stat).await
                }
                _ => self.call(stream, Request::Stat(request)).await,
            },
            Request::Ping | Request::Set(_) => self.answer(stream, Answer::Ok(Vec::new())).await,
            Request::Protocol(_) | Request::Bind(_) => {
                let flags = self.context.service.config().flags;
                self.answer(stream, before_login(flags, &request)).await
            }
            Request::Login(_) => {
                self.answer(stream, Answer::error(ErrorCode::InvalidRequest, "already logged in")).await
            }
            Request::Auth(_) => {
                self.answer(stream, Answer::error(ErrorCode::Unsupported, "no authentication was asked for"))
                    .await
            }
            Request::Endsess(id) => {
                let answer = if id == self.id || self.registry.end(&id) {
                    Answer::Ok(Vec::new())
                } else {
                    Answer::error(ErrorCode::NotFound, "no such session")
                };
                self.answer(stream, answer).await
            }
            request => self.call(stream, request).await,
        }
    }

    pub(super) async fn answer(&self, stream: StreamId, answer: Answer) -> Result<(), End> {
        Ok(self.context.outbox.send(stream, &answer).await?)
    }

    /// Starts a call beside the others.
    async fn call(&mut self, stream: StreamId, request: Request) -> Result<(), End> {
        if self.calls.len() >= CALLS_MAX {
            let patience = self.context.service.config().announce_after;
            if timeout(patience, self.calls.join_next()).await.is_err() {
                let message = format!("this session has {CALLS_MAX} requests under way");
                return self.answer(stream, Answer::Wait { seconds: COME_AGAIN_S, message }).await;
            }
        }
        self.calls.spawn(calls::call(Arc::clone(&self.context), stream, request));
        Ok(())
    }

    /// Closes after everything that was asked before; the commit runs beside what follows.
    async fn close(&mut self, stream: StreamId, handle: FileHandle) -> Result<(), End> {
        self.lane.drain().await?;
        let refused = self.context.handles.get(handle).map(|handle| handle.refuse_close());
        let taken = match refused {
            Ok(Some(answer)) => Err(answer),
            Ok(None) => self.context.handles.remove(handle),
            Err(answer) => Err(answer),
        };
        match taken {
            Ok(handle) => {
                let work = calls::close(Arc::clone(&self.context), stream, handle);
                self.context.tasks.spawn("xrootd close", work);
                Ok(())
            }
            Err(answer) => self.answer(stream, answer).await,
        }
    }
}
