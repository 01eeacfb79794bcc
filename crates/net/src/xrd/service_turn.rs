//! A service turn: a mover thread receives, executes and answers the requests of a session until the session has to wait.

use super::{
    Counters, OpenFile, OpenRequest, Registry, RegistryEntry, Service,
    accounts::Accounts,
    auth::Claim,
    calls::{self, Context},
    frames::{self, Next, Trust},
    inbox::Inbox,
    inline_call::Call,
    limits::{
        CALL_PATIENCE, CALLS_MAX, CHUNK_BYTES, COME_AGAIN_S, PERMIT_BYTES_MIN, RECEIVE_PROGRESS, SLICES_MAX,
        TURN_BYTES, TURN_MAX, TURN_REQUESTS,
    },
    outbox::SendPermit,
    reading::{ReadTask, SendOptions, Step},
    sender::Sender,
    session::{End, Movers, WaitPermit},
    setting,
    signed::Signing,
    streams::Stream,
    transport::Transport,
    writing::{Form, Part, WriteTask},
};
use crate::{shutdown::Shutdown, unproven::ConnectionSlot};
use base::{FilePath, limits::UNPROVEN_CALLS_MAX};
use std::{
    collections::VecDeque,
    io::ErrorKind,
    net::SocketAddr,
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};
use tokio::{
    sync::{Notify, Semaphore},
    task::JoinSet,
};
use wire::xrd::{
    Answer, ErrorCode, FileHandle, Open, QueryCode, REQUEST_HEADER_BYTES, Request, RequestCode,
    RequestHeader, Stat, StreamId, Subject,
};

/// The event that a session waits for between service turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Park {
    /// Others have their turn first.
    Again,
    /// A thread that may wait for other servers.
    Peers,
    /// Free space for what is written.
    Space,
    /// A wait permit.
    WaitPermit,
    /// Room to send.
    Write,
    /// The rest of a request.
    Request,
    /// Data of a write.
    Data,
    /// The next request.
    Idle,
}

/// The phase of the connection.
pub(super) enum Phase<S: Service> {
    /// Nothing was said.
    Handshake,
    /// Up to login or bind.
    Greeting,
    /// A session.
    Open(Arc<Context<S>>),
    /// A further connection of a session.
    Bound(Arc<Stream<S::File>>),
}

/// A data request under way.
#[derive(Debug)]
pub(super) enum Task<F> {
    Read(ReadTask<F>),
    Write(WriteTask<F>),
}

/// A connection and everything that belongs to it.
pub(super) struct Session<S: Service> {
    pub(super) transport: Transport,
    pub(super) inbox: Inbox,
    pub(super) sender: Sender<S::File>,
    /// Rooms of answers, each until so many bytes were sent: what the peer does not read counts for its user.
    pub(super) unsent_rooms: VecDeque<(u64, SendPermit)>,
    pub(super) task: Option<Task<S::File>>,
    /// Memory for the data of the next write.
    pub(super) spare: Vec<u8>,
    pub(super) phase: Phase<S>,
    /// The last call, if nothing else was to do since: the thread of this service turn may carry it out.
    pub(super) inline_call: Option<Call>,
    pub(super) calls: JoinSet<()>,
    /// When the request began of which a part has come.
    pub(super) request_began: Option<Instant>,
    pub(super) place: Arc<ConnectionSlot>,
    /// The peer has proven who it is.
    pub(super) is_proven: bool,
    /// Told when another session of the client ends this one.
    pub(super) ended: Arc<Notify>,
    pub(super) entry: Option<RegistryEntry<S::File>>,
    /// A login that waits for its proof.
    pub(super) claim: Option<Claim>,
    /// TLS begins when what was said has left.
    pub(super) is_upgrading: bool,
    /// Held for one service turn.
    pub(super) wait_permit: Option<WaitPermit>,
    /// The thread of this service turn may wait for other servers.
    pub(super) is_with_peers: bool,
    /// The peer did not take in its turn what was sent: the rest leaves without one, as there is room for it.
    pub(super) is_slow: bool,
    pub(super) signing: Signing,
    pub(super) service: Arc<S>,
    pub(super) peer: SocketAddr,
    pub(super) local_user: Option<u32>,
    pub(super) local: String,
    pub(super) tasks: Shutdown,
    pub(super) counters: Arc<Counters>,
    pub(super) registry: Arc<Registry<S::File>>,
    pub(super) movers: Arc<Movers>,
    pub(super) late_listings: Arc<Semaphore>,
    pub(super) accounts: Arc<Accounts>,
}

impl<S: Service> Session<S> {
    /// Goes on until the session has to wait, or others should have their turn.
    pub(super) fn serve_turn(&mut self) -> Result<Park, End> {
        self.notice_proof();
        self.wait_permit = self.wait_permit.take().or_else(|| self.movers.try_wait_permit());
        let parked = self.serve_until_parked();
        self.wait_permit = None;
        if parked.is_ok() {
            self.hand_over();
        }
        parked
    }

    fn serve_until_parked(&mut self) -> Result<Park, End> {
        let movers = Arc::clone(&self.movers);
        self.transport.set_patience(self.wait_permit.is_some());
        self.transport.set_crowded(movers.are_many());
        self.hurry_if_needed();
        let began = Instant::now();
        let (mut requests, mut sent_before) = (0, self.sender.sent());
        loop {
            if self.is_upgrading && !self.upgrade()? {
                return Ok(self.unsent());
            }
            if self.is_heavy() && !self.send_all()? {
                return Ok(self.unsent());
            }
            if self.needs_peers() {
                let has_sent = self.send_all()?;
                return Ok(if has_sent { Park::Peers } else { self.unsent() });
            }
            let work = self.work()?;
            if work == Work::Full {
                return Ok(if self.send_all()? { Park::Space } else { self.unsent() });
            }
            requests += 1;
            let is_over = began.elapsed() > TURN_MAX;
            let is_little = requests < TURN_REQUESTS && self.sender.sent() - sent_before < TURN_BYTES;
            if work == Work::Done && is_little && !is_over {
                continue;
            }
            if !self.send_all()? {
                return Ok(self.unsent());
            }
            if is_over || (!is_little && movers.are_wanted(self.is_with_peers)) {
                return Ok(Park::Again);
            }
            if !is_little {
                (requests, sent_before) = (0, self.sender.sent());
            }
            if let Work::Wants(wanted) = work {
                self.hurry_if_needed();
                // What ended a call just now has left its answer before.
                if self.has_queued_reply() || self.carry_on_with_call() {
                    continue;
                }
                if let Some(parked) = self.receive(wanted)? {
                    return Ok(parked);
                }
            }
        }
    }

    /// Nobody waits for requests while others want the thread, or while something else than the peer may have to be answered.
    fn hurry_if_needed(&mut self) {
        let is_bound = matches!(self.phase, Phase::Bound(_));
        let is_hurried = is_bound || self.movers.are_wanted(self.is_with_peers) || self.has_calls();
        self.transport.set_hurry(is_hurried);
    }

    /// Whether the next step may wait for other servers, for which this thread is not meant.
    fn needs_peers(&self) -> bool {
        !self.is_with_peers && matches!(&self.task, Some(Task::Read(read)) if read.waits_for_peers())
    }

    /// The send queue is full.
    fn is_heavy(&self) -> bool {
        (self.transport.is_tls() && self.sender.pending() > 0)
            || self.sender.pending() >= CHUNK_BYTES
            || self.sender.pieces() >= SLICES_MAX
    }

    /// Sends everything; `false` if the session waits for the peer or for a wait permit.
    pub(super) fn flush(&mut self) -> Result<bool, End> {
        if self.needs_wait_permit() {
            return Ok(false);
        }
        let is_done = self.sender.flush(&mut self.transport)?;
        let sent = self.sender.sent();
        while self.unsent_rooms.front().is_some_and(|(end, _)| *end <= sent) {
            self.unsent_rooms.pop_front();
        }
        self.is_slow = !is_done && (self.is_slow || self.wait_permit.is_some());
        Ok(is_done)
    }

    /// Whether what is to be sent has to wait for a wait permit.
    fn needs_wait_permit(&self) -> bool {
        self.wait_permit.is_none() && !self.is_slow && self.sender.pending() >= PERMIT_BYTES_MIN
    }

    /// Returns the event to wait for when not everything was sent.
    fn unsent(&self) -> Park {
        if self.needs_wait_permit() { Park::WaitPermit } else { Park::Write }
    }

    /// Receives what has come; else says what to wait for.
    fn receive(&mut self, wanted: Option<usize>) -> Result<Option<Park>, End> {
        // Data of a write go past the inbox, and were asked for already.
        if let Some(wanted) = wanted
            && self.inbox.receive(&mut self.transport, wanted)?
        {
            return Ok(None);
        }
        let parked = match wanted {
            None => Park::Data,
            Some(_) if self.inbox.ready().is_empty() => Park::Idle,
            Some(_) => Park::Request,
        };
        Ok(Some(parked))
    }

    /// Sends everything, with the answers of calls as many as one service turn sends; `false` if the peer has to be waited for.
    pub(super) fn send_all(&mut self) -> Result<bool, End> {
        let sent_before = self.sender.sent();
        loop {
            // Clients of the field look for one answer in a TLS record, where a second one would wait for ever: there
            // any byte that waits is heavy.
            while !self.is_heavy() && self.take_queued_reply() {}
            if !self.flush()? {
                return Ok(false);
            }
            // Calls go on answering meanwhile: there may be no end of it.
            if !self.has_queued_reply() || self.sender.sent() - sent_before >= TURN_BYTES {
                return Ok(true);
            }
        }
    }

    /// Whether the answer of a call waits, and may be sent: not into the middle of a frame.
    pub(super) fn has_queued_reply(&self) -> bool {
        matches!(&self.phase, Phase::Open(context) if !self.is_inside_frame() && !context.outbox.is_empty())
    }

    /// Adds the answer of a call to what is sent, if there is one.
    fn take_queued_reply(&mut self) -> bool {
        let Phase::Open(context) = &self.phase else { return false };
        if self.is_inside_frame() {
            return false;
        }
        let Some(reply) = context.outbox.take() else { return false };
        self.sender.extend(&reply.bytes);
        let end = self.sender.sent() + self.sender.pending() as u64;
        self.unsent_rooms.extend(reply.shared.map(|room| (end, room)));
        true
    }

    fn is_inside_frame(&self) -> bool {
        matches!(&self.task, Some(Task::Read(task)) if task.is_inside_frame())
    }

    /// Performs one step of the session.
    fn work(&mut self) -> Result<Work, End> {
        if let Some(task) = &mut self.task {
            let step = match task {
                Task::Read(task) => {
                    let method = self.service.config().read_method;
                    let options = SendOptions { method, can_send_files: self.transport.can_send_files() };
                    task.advance(&mut self.sender, options)?
                }
                Task::Write(task) => task.advance(&mut self.sender, &mut self.inbox, &mut self.transport)?,
            };
            match step {
                Step::Starved => return Ok(Work::Wants(None)),
                Step::Full => return Ok(Work::Full),
                Step::More => {}
                Step::Done => {
                    if let Some(Task::Write(task)) = self.task.take() {
                        self.spare = task.into_buffer();
                    }
                }
            }
            return Ok(Work::Done);
        }
        if let Phase::Bound(stream) = &self.phase {
            if stream.is_closed() {
                return Err(End::Ended);
            }
            if let Some(read) = stream.take() {
                self.task = Some(Task::Read(read));
                return Ok(Work::Done);
            }
        }
        if matches!(self.phase, Phase::Handshake) {
            return self.shake_hands();
        }
        self.next_request()
    }

    fn next_request(&mut self) -> Result<Work, End> {
        let is_proven = self.notice_proof();
        let trust = match self.phase {
            Phase::Open(_) if is_proven => Trust::Session,
            Phase::Bound(_) if is_proven => Trust::Bound,
            _ => Trust::Unproven,
        };
        match frames::next(self.inbox.ready(), trust) {
            Next::Incomplete(bytes) => {
                self.check_progress()?;
                if !is_proven {
                    self.hold_little(bytes)?;
                }
                return Ok(Work::Wants(Some(bytes)));
            }
            Next::Request { header, bytes, request } => {
                if !is_proven && !self.place.count_request() {
                    return Err(End::Unproven);
                }
                let request =
                    match self.signing.check(&header, &self.inbox.ready()[REQUEST_HEADER_BYTES..bytes]) {
                        Ok(()) => request,
                        Err(bad) => Err(Answer::error(ErrorCode::SignatureError, bad.to_string())),
                    };
                self.inbox.consume(bytes);
                self.request_began = None;
                self.counters.requests_total.fetch_add(1, Ordering::Relaxed);
                match request {
                    Ok(request) => self.dispatch(header.stream, request)?,
                    Err(refusal) => {
                        self.counters.malformed_total.fetch_add(1, Ordering::Relaxed);
                        self.refuse_data(&header, refusal)?;
                    }
                }
            }
            Next::TooLong { header, body, refusal } => {
                self.counters.malformed_total.fetch_add(1, Ordering::Relaxed);
                self.inbox.consume(REQUEST_HEADER_BYTES);
                self.request_began = None;
                self.signing.forget();
                if header.request_code() == Some(RequestCode::Writev) {
                    return Err(self.strand(&header, &refusal));
                }
                self.throw_away(header.stream, body, refusal);
            }
            Next::Lost { header, malformed } => {
                self.answer(header.stream, &frames::refusal(&malformed));
                return Err(malformed.into());
            }
        }
        Ok(Work::Done)
    }

    /// A request of which a part has come must go on: a peer that trickles it byte by byte does not get more time.
    fn check_progress(&mut self) -> Result<(), End> {
        if self.inbox.ready().is_empty() {
            self.request_began = None;
            return Ok(());
        }
        let began = *self.request_began.get_or_insert_with(Instant::now);
        if began.elapsed() > RECEIVE_PROGRESS {
            return Err(std::io::Error::from(ErrorKind::TimedOut).into());
        }
        Ok(())
    }

    /// The last answer: how many bytes of data follow is not known.
    fn strand(&mut self, header: &RequestHeader, refusal: &Answer) -> End {
        self.answer(header.stream, refusal);
        End::Stranded
    }

    /// Refuses a request that could not be parsed; data that follow it are thrown away.
    fn refuse_data(&mut self, header: &RequestHeader, refusal: Answer) -> Result<(), End> {
        if header.is_data_body() && !(self.is_proven && matches!(self.phase, Phase::Open(_))) {
            return Err(self.refuse_early_data(header.stream));
        }
        // Its data are not counted in its length but told by what could not be read, or must not be believed.
        if header.request_code() == Some(RequestCode::Writev) {
            return Err(self.strand(header, &refusal));
        }
        let body = if header.is_data_body() { header.body_bytes()? } else { 0 };
        self.throw_away(header.stream, body, refusal);
        Ok(())
    }

    /// The last answer to data of a peer that cannot have opened a file: they would only be thrown away.
    fn refuse_early_data(&mut self, stream: StreamId) -> End {
        match self.phase {
            Phase::Open(_) => {
                let refusal = Answer::error(ErrorCode::NotAuthorized, "authenticate first");
                self.answer(stream, &refusal);
                End::Stranded
            }
            Phase::Greeting => self.refuse_early(stream),
            Phase::Handshake | Phase::Bound(_) => End::Stranger,
        }
    }

    /// Receives `bytes` for nothing, then sends `refusal`.
    pub(super) fn throw_away(&mut self, stream: StreamId, bytes: usize, refusal: Answer) {
        let parts = [Part { handle: None, offset: 0, left: bytes }].into_iter().filter(|part| part.left > 0);
        let buffer = std::mem::take(&mut self.spare);
        let task = WriteTask::new(stream, Form::Plain, parts.collect(), Some(refusal), buffer);
        self.task = Some(Task::Write(task));
    }

    fn dispatch(&mut self, stream: StreamId, request: Request) -> Result<(), End> {
        tracing::trace!(stream = stream.number(), request = ?request.code(), "request");
        if let Request::Sigver(signature) = request {
            // It has no answer: that of the request which it signs is enough.
            self.signing.keep(signature);
            return Ok(());
        }
        match &self.phase {
            Phase::Open(_) if !self.is_proven && has_data(&request) => Err(self.refuse_early_data(stream)),
            Phase::Open(context) => {
                let context = Arc::clone(context);
                self.carry_out(&context, stream, request);
                Ok(())
            }
            Phase::Bound(_) => Err(End::Stranger),
            Phase::Handshake | Phase::Greeting => self.greet(stream, request),
        }
    }

    fn carry_out(&mut self, context: &Arc<Context<S>>, stream: StreamId, request: Request) {
        match request {
            Request::Read(request) => self.read(context, stream, &request),
            Request::Pgread(request) => self.read_pages(context, stream, &request),
            Request::Readv(request) => self.read_vector(context, stream, request),
            Request::Write(request) => self.write(context, stream, &request),
            Request::Pgwrite(request) => self.write_pages(context, stream, &request),
            Request::Writev(request) => self.write_vector(context, stream, &request),
            Request::Close(handle) => self.close_file(context, stream, handle),
            Request::Sync(handle)
                if context.handles.get(handle).is_ok_and(|handle| handle.file.syncs_slowly()) =>
            {
                self.call(context, stream, request);
            }
            Request::Sync(handle) => {
                let done = context.on_file(handle, false, |handle| handle.sync().map(|()| Vec::new()));
                self.answer(stream, &done);
            }
            Request::Truncate(ref inner) if let Subject::Handle(handle) = inner.subject => {
                let size = inner.size;
                let truncate = |handle: &super::handles::Handle<S::File>| {
                    handle.file.truncate(size).map(|()| Vec::new())
                };
                let done = context.on_file(handle, true, truncate);
                self.answer(stream, &done);
            }
            Request::Stat(ref inner) => match self.stat_now(context, inner) {
                Some(answer) => self.answer(stream, &answer),
                None => self.call(context, stream, request),
            },
            Request::Query(ref inner) if inner.code == QueryCode::OpaqueFile => {
                let done = context.query_file(inner);
                self.answer(stream, &done);
            }
            Request::Open(ref inner) => match self.open_now(context, inner) {
                Some(answer) => self.answer(stream, &answer),
                None => self.call(context, stream, request),
            },
            Request::Ping => self.answer(stream, &Answer::Ok(Vec::new())),
            Request::Set(setting) => self.answer(stream, &setting::answer(&setting)),
            Request::Endsess(id) => {
                let is_ours = self.entry.as_ref().is_some_and(|entry| *entry.id() == id);
                // One that has already ended, or was never here, is what is asked for: clients end sessions of connections that
                // broke, perhaps after a restart. Servers of the field answer so, too.
                if !is_ours {
                    self.registry.end(&id);
                }
                self.answer(stream, &Answer::Ok(Vec::new()));
            }
            Request::Protocol(_) | Request::Bind(_) | Request::Login(_) | Request::Auth(_) => {
                let answer = self.after_login(&request);
                self.answer(stream, &answer);
            }
            request => self.call(context, stream, request),
        }
    }

    /// Whether the peer has proven who it is; notices a proof that came since.
    pub(super) fn notice_proof(&mut self) -> bool {
        if self.is_proven {
            return true;
        }
        let has_proof = match &self.phase {
            Phase::Open(context) => self.service.is_proven(&context.session),
            Phase::Bound(stream) => stream.is_proven(),
            Phase::Handshake | Phase::Greeting => false,
        };
        // While the door is full it counts as unproven.
        if has_proof && self.place.prove().is_ok() {
            self.is_proven = true;
            self.inbox.set_generous();
            self.transport.set_generous();
            if let Phase::Open(context) = &self.phase {
                context.streams.prove();
            }
        }
        self.is_proven
    }

    /// Makes room for a request of `bytes` of a peer that has not proven who it is, and gives back what it does not need.
    fn hold_little(&mut self, bytes: usize) -> Result<(), End> {
        self.inbox.fit(bytes);
        if self.place.hold(bytes.max(self.inbox.room())) { Ok(()) } else { Err(End::Unproven) }
    }

    /// Adds an answer to what is sent.
    pub(super) fn answer(&mut self, stream: StreamId, answer: &Answer) {
        self.sender.extend(&answer.encode(stream));
    }

    /// Whether calls are under way.
    pub(super) fn has_calls(&mut self) -> bool {
        while self.calls.try_join_next().is_some() {}
        !self.calls.is_empty()
    }

    /// Starts a call beside the others.
    fn call(&mut self, context: &Arc<Context<S>>, stream: StreamId, request: Request) {
        let most = if self.is_proven { CALLS_MAX } else { UNPROVEN_CALLS_MAX };
        if self.calls.len() >= most {
            self.has_calls();
        }
        if self.calls.len() >= most {
            let message = format!("this session has {most} requests under way");
            return self.answer(stream, &Answer::Wait { seconds: COME_AGAIN_S, message });
        }
        let is_first = !self.has_calls() && self.inline_call.is_none();
        let call = Call::new(calls::call(Arc::clone(context), stream, request));
        self.hand_over();
        if is_first {
            self.inline_call = Some(call);
        } else {
            self.spawn(call);
        }
    }

    fn spawn(&mut self, mut call: Call) {
        // Begun here, so that what a client sends one after the other is carried out in that order: a directory is removed after
        // what was in it, though nobody has waited for the answers.
        if call.carry_on(Duration::ZERO) {
            return;
        }
        self.calls.spawn(call.rest());
        // Its answer would not wake a thread that waits for the peer.
        self.transport.set_hurry(true);
    }

    /// Leaves the call at hand, if there is one, to a task.
    fn hand_over(&mut self) {
        if let Some(call) = self.inline_call.take() {
            self.spawn(call);
        }
    }

    /// Carries out the call at hand, if this thread has nothing else to do; whether it has ended.
    fn carry_on_with_call(&mut self) -> bool {
        let is_free = self.wait_permit.is_some() && !self.movers.are_wanted(self.is_with_peers);
        if is_free
            && let Some(call) = &mut self.inline_call
            && call.carry_on(CALL_PATIENCE)
        {
            self.inline_call = None;
            return true;
        }
        self.hand_over();
        false
    }

    /// Attributes of an open file, or of a path if the service knows them at once.
    fn stat_now(&mut self, context: &Context<S>, stat: &Stat) -> Option<Answer> {
        match &stat.subject {
            _ if stat.is_filesystem => None,
            Subject::Handle(handle) => Some(
                context
                    .on_file(*handle, false, |handle| Ok(format!("{}\0", handle.file.stat()?).into_bytes())),
            ),
            Subject::Path(target) => {
                // Whether a directory is there, as the path says, takes longer.
                let path: FilePath = target.path.parse().ok().filter(|_| !target.names_directory())?;
                let started = Instant::now();
                let stat = self.service.stat_now(&context.session, &path, &target.opaque)?;
                self.counters.request_times.note(started.elapsed());
                Some(calls::stat_answer(stat))
            }
        }
    }

    /// Opens a file if the service can do it at once.
    fn open_now(&mut self, context: &Context<S>, open: &Open) -> Option<Answer> {
        let request: OpenRequest = calls::open_request(open).ok()?;
        let started = Instant::now();
        let opened = self.service.open_now(&context.session, &request)?;
        self.counters.request_times.note(started.elapsed());
        Some(context.admit(opened, request, calls::wants_stat(open)))
    }

    /// Closes after everything that was asked before; the commit runs beside what follows.
    fn close_file(&mut self, context: &Arc<Context<S>>, stream: StreamId, handle: FileHandle) {
        let refused = context.handles.get(handle).map(|handle| handle.refuse_close());
        let taken = match refused {
            Ok(Some(answer)) => Err(answer),
            Ok(None) => context.handles.remove(handle),
            Err(answer) => Err(answer),
        };
        match taken {
            Ok(handle) if !handle.is_writable => self.answer(stream, &Answer::Ok(Vec::new())),
            Ok(handle) => {
                let work = calls::close(Arc::clone(context), stream, handle);
                // Counted as a call, so that this session waits for the answer and not only for the peer.
                let task = context.tasks.spawn("xrootd close", work);
                self.calls.spawn(async move {
                    // A close that ended badly was logged where it happened.
                    let _ = task.await;
                });
                self.transport.set_hurry(true);
            }
            Err(answer) => self.answer(stream, &answer),
        }
    }
}

/// Whether file data follow a request.
fn has_data(request: &Request) -> bool {
    matches!(request, Request::Write(_) | Request::Pgwrite(_) | Request::Writev(_))
}

/// The result of one step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Work {
    /// Something was done.
    Done,
    /// Received data wait for free space.
    Full,
    /// More must be received first: a request of so many bytes, or data of a write (`None`).
    Wants(Option<usize>),
}
