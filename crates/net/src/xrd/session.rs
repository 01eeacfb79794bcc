//! One session: handshake, login, then requests until the peer leaves (spec/xrootd.md §1 and §7).

use super::{
    Counters, Peer, Registry, Service,
    calls::{self, Context},
    data::{Finish, Step, Work, WriteProgress, past_end, read_only, vector_groups},
    handles::{Handle, Handles},
    inbox::Inbox,
    lane::Lane,
    limits::{
        BUFFERS_IDLE, CALLS_MAX, COME_AGAIN_S, FLUSH_DEADLINE, LOGIN_DEADLINE, PATHS_BYTES_MAX,
        RECEIVE_PROGRESS, SESSION_IDLE, TURN_REQUESTS,
    },
    outbox::{Buffer, Gone, Outbox},
};
use crate::shutdown::{Shutdown, Token};
use base::limits::{XRD_READ_BYTES_MAX, XRD_READ_SEGMENT_BYTES, XRD_REQUEST_BYTES_MAX, XRD_WRITE_BYTES_MAX};
use std::{
    io,
    net::SocketAddr,
    pin::pin,
    sync::{Arc, atomic::Ordering},
};
use tokio::{net::TcpStream, sync::Notify, task::JoinSet, time::timeout};
use wire::xrd::{
    Answer, ErrorCode, FileHandle, HANDSHAKE, HANDSHAKE_BYTES, Login, LoginAnswer, Malformed, Opaque,
    PAGE_BYTES, PAGE_CRC_BYTES, Pgread, Pgwrite, ProtocolAnswer, REQUEST_HEADER_BYTES, Read, Request,
    RequestCode, RequestHeader, ServerFlags, StreamId, Subject, VectorElement, Write, Writev, decoded_bytes,
    encode_handshake_answer,
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

/// A connection before login.
struct Greeter<S> {
    inbox: Inbox,
    outbox: Arc<Outbox>,
    service: Arc<S>,
    peer: SocketAddr,
    local: String,
    tasks: Shutdown,
    counters: Arc<Counters>,
    registry: Arc<Registry>,
}

impl<S: Service> Greeter<S> {
    /// Handshake and whatever is allowed before login, up to login.
    async fn greet(&mut self) -> Result<(Arc<Context<S>>, [u8; 16]), End> {
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
        let body = LoginAnswer {
            session: id,
            security: String::new(),
        }
        .encode();
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
fn before_login(role: ServerFlags, request: &Request) -> Answer {
    match request {
        Request::Protocol(_) => {
            let flags = role
                .with(ServerFlags::PAGE_IO)
                .with(ServerFlags::PERSIST_ON_CLOSE);
            Answer::Ok(ProtocolAnswer::new(flags).encode())
        }
        Request::Ping => Answer::Ok(Vec::new()),
        // Clients go on with one connection.
        Request::Bind(_) => Answer::error(ErrorCode::Unsupported, "parallel streams are not offered here"),
        _ => Answer::error(ErrorCode::InvalidRequest, "login comes first"),
    }
}

/// Receives the next request; its body is parsed unless it is data. The inner error is a refusal to send.
async fn next_request(
    inbox: &mut Inbox,
    outbox: &Outbox,
) -> Result<(RequestHeader, Result<Request, Answer>), End> {
    inbox.fill(REQUEST_HEADER_BYTES, RECEIVE_PROGRESS).await?;
    let Some(header) = inbox.ready().first_chunk().map(RequestHeader::parse) else {
        return Err(End::Gone);
    };
    inbox.consume(REQUEST_HEADER_BYTES);
    let length = match header.body_bytes() {
        Ok(length) => length,
        Err(malformed) => return refuse_and_end(outbox, &header, malformed).await,
    };
    if header.is_data_body() {
        return Ok((header, Request::parse(&header, &[]).map_err(|e| refusal(&e))));
    }
    let max = body_max(&header);
    if length > max {
        let too_long = Malformed::TooLong {
            what: "request body",
            count: length as u64,
            max: max as u64,
        };
        if length > XRD_WRITE_BYTES_MAX {
            return refuse_and_end(outbox, &header, too_long).await;
        }
        inbox.skip(length, RECEIVE_PROGRESS).await?;
        return Ok((header, Err(refusal(&too_long))));
    }
    inbox.fill(length, RECEIVE_PROGRESS).await?;
    let request = Request::parse(&header, &inbox.ready()[..length]).map_err(|e| refusal(&e));
    inbox.consume(length);
    Ok((header, request))
}

/// Longest body of a request that is no data.
fn body_max(header: &RequestHeader) -> usize {
    match header.request_code() {
        Some(RequestCode::Prepare | RequestCode::Statx | RequestCode::Query) => PATHS_BYTES_MAX,
        _ => XRD_REQUEST_BYTES_MAX,
    }
}

fn refusal(malformed: &Malformed) -> Answer {
    Answer::error(malformed.code(), malformed.to_string())
}

/// The framing is lost: one last answer.
async fn refuse_and_end<T>(outbox: &Outbox, header: &RequestHeader, malformed: Malformed) -> Result<T, End> {
    outbox.send(header.stream, &refusal(&malformed)).await?;
    Err(malformed.into())
}

/// A connection after login.
struct Session<S: Service> {
    context: Arc<Context<S>>,
    inbox: Inbox,
    lane: Lane<S::File>,
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
        self.context
            .counters
            .requests_total
            .fetch_add(1, Ordering::Relaxed);
        match request {
            Ok(request) => self.dispatch(header.stream, request).await,
            Err(answer) => {
                self.context
                    .counters
                    .malformed_total
                    .fetch_add(1, Ordering::Relaxed);
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
                    self.step(stream, handle, true, Work::Truncate(request.size))
                        .await
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
                self.answer(
                    stream,
                    Answer::error(ErrorCode::InvalidRequest, "already logged in"),
                )
                .await
            }
            Request::Auth(_) => {
                self.answer(
                    stream,
                    Answer::error(ErrorCode::Unsupported, "no authentication was asked for"),
                )
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

    async fn answer(&self, stream: StreamId, answer: Answer) -> Result<(), End> {
        Ok(self.context.outbox.send(stream, &answer).await?)
    }

    /// Starts a call beside the others.
    async fn call(&mut self, stream: StreamId, request: Request) -> Result<(), End> {
        if self.calls.len() >= CALLS_MAX {
            let patience = self.context.service.config().announce_after;
            if timeout(patience, self.calls.join_next()).await.is_err() {
                let message = format!("this session has {CALLS_MAX} requests under way");
                return self
                    .answer(
                        stream,
                        Answer::Wait {
                            seconds: COME_AGAIN_S,
                            message,
                        },
                    )
                    .await;
            }
        }
        self.calls
            .spawn(calls::call(Arc::clone(&self.context), stream, request));
        Ok(())
    }

    /// The open file of a data request.
    fn handle(&self, handle: FileHandle, for_writing: bool) -> Result<Arc<Handle<S::File>>, Answer> {
        let handle = self.context.handles.get(handle)?;
        if for_writing && !handle.is_writable {
            Err(read_only(&handle))
        } else {
            Ok(handle)
        }
    }

    /// Adds a step without data of its own.
    async fn step(
        &mut self,
        stream: StreamId,
        handle: FileHandle,
        for_writing: bool,
        work: Work<S::File>,
    ) -> Result<(), End> {
        match self.handle(handle, for_writing) {
            Ok(handle) => Ok(self.lane.add(Step { stream, handle, work }).await?),
            Err(answer) => self.answer(stream, answer).await,
        }
    }

    /// The open file of a read, if its range makes sense.
    fn readable(
        &self,
        handle: FileHandle,
        range: (u64, u32),
        path_id: u8,
    ) -> Result<Arc<Handle<S::File>>, Answer> {
        let refuse = |why: &str| Err(Answer::error(ErrorCode::ArgInvalid, why));
        if path_id != 0 {
            return refuse("no such stream");
        }
        if range.1 as usize > XRD_READ_BYTES_MAX {
            return refuse("read is longer than 1 GiB");
        }
        if range
            .0
            .checked_add(u64::from(range.1))
            .is_none_or(|end| end > i64::MAX as u64)
        {
            return refuse("read ends beyond the largest offset");
        }
        self.handle(handle, false)
    }

    async fn read(&mut self, stream: StreamId, read: Read) -> Result<(), End> {
        match self.readable(read.handle, (read.offset, read.length), read.path_id) {
            Ok(handle) => {
                let work = |offset, length, is_last| Work::Read {
                    offset,
                    length,
                    is_last,
                };
                self.read_segments(stream, handle, (read.offset, read.length as usize), work)
                    .await
            }
            Err(answer) => self.answer(stream, answer).await,
        }
    }

    async fn pgread(&mut self, stream: StreamId, read: Pgread) -> Result<(), End> {
        let handle = self.readable(read.handle, (read.offset, read.length), read.path_id);
        match handle {
            Ok(_) if read.length == 0 => {
                self.answer(
                    stream,
                    Answer::error(ErrorCode::ArgInvalid, "page read of no bytes"),
                )
                .await
            }
            Ok(handle) => {
                let work = |offset, length, is_last| Work::Pgread {
                    offset,
                    length,
                    is_last,
                };
                self.read_segments(stream, handle, (read.offset, read.length as usize), work)
                    .await
            }
            Err(answer) => self.answer(stream, answer).await,
        }
    }

    /// Reads a range: in one step, or segment by segment until the file ends.
    async fn read_segments(
        &mut self,
        stream: StreamId,
        handle: Arc<Handle<S::File>>,
        range: (u64, usize),
        work: impl Fn(u64, usize, bool) -> Work<S::File>,
    ) -> Result<(), End> {
        let (mut offset, mut left) = range;
        loop {
            // Segments end at page boundaries, so that only the ends of the range have short pages.
            let segment = XRD_READ_SEGMENT_BYTES - (offset % PAGE_BYTES as u64) as usize;
            let length = left.min(segment);
            left -= length;
            let step = Step {
                stream,
                handle: Arc::clone(&handle),
                work: work(offset, length, left == 0),
            };
            self.lane.add(step).await?;
            if left == 0 {
                return Ok(());
            }
            if self.lane.drain().await? {
                return Ok(());
            }
            offset += length as u64;
        }
    }

    async fn readv(&mut self, stream: StreamId, elements: Vec<VectorElement>) -> Result<(), End> {
        let found: Result<Vec<_>, _> = elements
            .into_iter()
            .map(|element| {
                let handle = self.readable(element.handle, (element.offset, element.length), 0)?;
                if element.offset + u64::from(element.length) > handle.file_size() {
                    return Err(Answer::failure(&past_end(&handle, &element)));
                }
                Ok((handle, element))
            })
            .collect();
        let elements = match found {
            Ok(elements) => elements,
            Err(answer) => return self.answer(stream, answer).await,
        };
        let mut groups = vector_groups(elements).into_iter().peekable();
        while let Some(elements) = groups.next() {
            let Some(handle) = elements.first().map(|first| Arc::clone(&first.0)) else {
                break;
            };
            let is_last = groups.peek().is_none();
            self.lane
                .add(Step {
                    stream,
                    handle,
                    work: Work::Readv { elements, is_last },
                })
                .await?;
            // A failed group ends the request.
            if !is_last && self.lane.drain().await? {
                break;
            }
        }
        Ok(())
    }

    async fn write(&mut self, stream: StreamId, write: Write) -> Result<(), End> {
        let target = self.writable(write.handle, write.offset, write.length);
        let (progress, length) = (Arc::new(progress_of(&target)), write.length as usize);
        self.write_segments(stream, target, (write.offset, length), &progress, Finish::Write)
            .await
    }

    async fn writev(&mut self, stream: StreamId, request: Writev) -> Result<(), End> {
        let finish = if request.is_sync {
            Finish::Sync
        } else {
            Finish::Write
        };
        let count = request.elements.len();
        // One target decides for all: the data of every element follow, whether they are wanted or not.
        let targets = request
            .elements
            .iter()
            .map(|e| self.writable(e.handle, e.offset, e.length));
        let targets: Vec<_> = targets.collect();
        let refused = targets.iter().find_map(|target| target.as_ref().err().cloned());
        let progress = Arc::new(
            refused
                .clone()
                .map_or_else(WriteProgress::default, WriteProgress::failed),
        );
        for (index, (element, target)) in request.elements.iter().zip(targets).enumerate() {
            let target = refused.clone().map_or(target, Err);
            let finish = if index + 1 == count { finish } else { Finish::No };
            let range = (element.offset, element.length as usize);
            self.write_segments(stream, target, range, &progress, finish)
                .await?;
        }
        Ok(())
    }

    /// The open file of a write, if its range makes sense.
    fn writable(&self, handle: FileHandle, offset: u64, length: u32) -> Result<Arc<Handle<S::File>>, Answer> {
        if offset
            .checked_add(u64::from(length))
            .is_none_or(|end| end > i64::MAX as u64)
        {
            return Err(Answer::error(
                ErrorCode::ArgInvalid,
                "write ends beyond the largest offset",
            ));
        }
        self.handle(handle, true)
    }

    /// Receives the data of a write and adds them segment by segment; data of a refused write are thrown away.
    async fn write_segments(
        &mut self,
        stream: StreamId,
        target: Result<Arc<Handle<S::File>>, Answer>,
        range: (u64, usize),
        progress: &Arc<WriteProgress>,
        finish: Finish,
    ) -> Result<(), End> {
        let (mut offset, mut left) = range;
        let handle = match target {
            Ok(handle) => handle,
            Err(answer) => {
                self.inbox.skip(left, RECEIVE_PROGRESS).await?;
                return if finish == Finish::No {
                    Ok(())
                } else {
                    self.answer(stream, answer).await
                };
            }
        };
        loop {
            let length = left.min(XRD_READ_SEGMENT_BYTES);
            let data = self.receive_data(length).await?;
            left -= length;
            let finish = if left == 0 { finish } else { Finish::No };
            let work = Work::Write {
                offset,
                data,
                progress: Arc::clone(progress),
                finish,
            };
            self.lane
                .add(Step {
                    stream,
                    handle: Arc::clone(&handle),
                    work,
                })
                .await?;
            if left == 0 {
                return Ok(());
            }
            // The segment is written while the next one is received.
            self.lane.flush().await?;
            offset += length as u64;
        }
    }

    async fn pgwrite(&mut self, stream: StreamId, write: Pgwrite) -> Result<(), End> {
        let (start, encoded) = (write.offset, write.length as usize);
        let shape = decoded_bytes(start, encoded).map_err(|malformed| refusal(&malformed));
        let is_one_page = encoded <= PAGE_BYTES - (start % PAGE_BYTES as u64) as usize + PAGE_CRC_BYTES;
        let shape = shape.and_then(|length| {
            if write.is_retry && !is_one_page {
                return Err(Answer::error(
                    ErrorCode::ArgInvalid,
                    "a corrected page must come alone",
                ));
            }
            Ok(length)
        });
        let target = shape.and_then(|length| self.writable(write.handle, start, length as u32));
        let handle = match target {
            Ok(handle) => handle,
            Err(answer) => {
                self.inbox.skip(encoded, RECEIVE_PROGRESS).await?;
                return self.answer(stream, answer).await;
            }
        };
        let progress = Arc::new(WriteProgress::default());
        let (mut offset, mut left) = (start, encoded);
        loop {
            let bytes = XRD_READ_SEGMENT_BYTES - (offset % PAGE_BYTES as u64) as usize;
            let length = left.min(wire::xrd::encoded_bytes(offset, bytes));
            let data = self.receive_data(length).await?;
            left -= length;
            let finish = if left == 0 {
                Finish::Pgwrite(start)
            } else {
                Finish::No
            };
            let work = Work::Pgwrite {
                offset,
                data,
                progress: Arc::clone(&progress),
                finish,
            };
            self.lane
                .add(Step {
                    stream,
                    handle: Arc::clone(&handle),
                    work,
                })
                .await?;
            if left == 0 {
                return Ok(());
            }
            self.lane.flush().await?;
            offset += bytes as u64;
        }
    }

    async fn receive_data(&mut self, length: usize) -> Result<Buffer, End> {
        if self.inbox.ready().len() < length {
            // What was asked before runs while these data arrive.
            self.lane.flush().await?;
        }
        let mut data = self.context.outbox.buffer();
        self.inbox.take(data.grow(length), RECEIVE_PROGRESS).await?;
        Ok(data)
    }

    /// Closes after everything that was asked before; the commit runs beside what follows.
    async fn close(&mut self, stream: StreamId, handle: FileHandle) -> Result<(), End> {
        self.lane.drain().await?;
        let refused = self
            .context
            .handles
            .get(handle)
            .map(|handle| handle.refuse_close());
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

/// The state of a write whose target may have been refused.
fn progress_of<F>(target: &Result<Arc<Handle<F>>, Answer>) -> WriteProgress {
    target
        .as_ref()
        .err()
        .cloned()
        .map_or_else(WriteProgress::default, WriteProgress::failed)
}
