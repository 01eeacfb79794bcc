//! A service turn: a mover thread receives, executes and answers the requests of a session until the session has to wait.

mod calls;
mod dispatch;
mod refusal;
mod sending;

use super::{
    Counters, Registry, RegistryEntry, Service,
    accounts::Accounts,
    auth::Claim,
    calls::Context,
    frames::{self, Next, Trust},
    inbox::Inbox,
    inline_call::Call,
    limits::{RECEIVE_PROGRESS, TURN_BYTES, TURN_MAX, TURN_REQUESTS},
    outbox::SendPermit,
    reading::{ReadTask, SendOptions, Step},
    sender::Sender,
    session::{End, Movers, WaitPermit},
    signed::Signing,
    streams::Stream,
    transport::Transport,
    writing::WriteTask,
};
use crate::{shutdown::Shutdown, unproven::ConnectionSlot};
use std::{
    collections::VecDeque,
    io::ErrorKind,
    net::SocketAddr,
    sync::{Arc, atomic::Ordering},
    time::Instant,
};
use tokio::{
    sync::{Notify, Semaphore},
    task::JoinSet,
};
use wire::xrd::{Answer, ErrorCode, REQUEST_HEADER_BYTES, RequestCode, StreamId};

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
    pub(super) slot: Arc<ConnectionSlot>,
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
                if !is_proven && !self.slot.count_request() {
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
        if has_proof && self.slot.prove().is_ok() {
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
        if self.slot.hold(bytes.max(self.inbox.room())) { Ok(()) } else { Err(End::Unproven) }
    }

    /// Adds an answer to what is sent.
    pub(super) fn answer(&mut self, stream: StreamId, answer: &Answer) {
        self.sender.extend(&answer.encode(stream));
    }
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
