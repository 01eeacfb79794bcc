//! The life of a session: visits by mover threads while it is active, without a thread while it is idle.

use super::{
    Counters, Registry, Service,
    accounts::Accounts,
    inbox::Inbox,
    limits::{
        BUFFERS_IDLE, FAREWELL, FEW_MAX, FLUSH_DEADLINE, MOVERS_MAX, PEER_MOVERS_MAX, RECEIVE_PROGRESS,
        SEND_PROGRESS, SESSION_IDLE, WAIT_PERMITS_MAX,
    },
    polling::PollSlots,
    service_turn::{Park, Phase, Session, Task},
    transport::{IoInterest, Transport},
};
use crate::{
    shutdown::{Shutdown, Token},
    unproven::ConnectionSlot,
};
use base::Failure;
use std::{
    io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{
    net::TcpStream,
    sync::{Notify, OwnedSemaphorePermit, Semaphore},
    task::spawn_blocking,
    time::timeout,
};
use wire::xrd::Malformed;

/// The reasons for which a session ends.
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
    /// A write was refused whose data follow, nobody knows how many.
    #[error("data follow a refused request")]
    Stranded,
    /// The peer asked for something before it has logged in, or proven who it is.
    #[error("request without login")]
    Early,
    /// Data that were announced could not be read.
    #[error("cannot go on sending: {0}")]
    Unreadable(Failure),
    /// The server stops.
    #[error("server stops")]
    Stopped,
    /// Another session of the client ended this one, or the one that this connection belongs to is over.
    #[error("ended by the client")]
    Ended,
    /// A service turn panicked: a bug.
    #[error("a service turn panicked")]
    Panicked,
    /// The peer has not proven who it is: its time is over, it takes too much, or its place was needed.
    #[error("the peer has not authenticated")]
    Unproven,
}

/// The threads of a door.
#[derive(Debug)]
pub(super) struct Movers {
    permits: Semaphore,
    /// Threads for sessions that may wait for other servers.
    peer_places: Semaphore,
    wait_permits: Arc<Semaphore>,
    /// Sessions that wait for a wait permit.
    waiting: AtomicUsize,
    poll_slots: Arc<PollSlots>,
}

/// The right to wait for the peer with a thread, until it is dropped.
pub(super) type WaitPermit = OwnedSemaphorePermit;

impl Movers {
    pub(super) fn new() -> Self {
        Self {
            permits: Semaphore::new(MOVERS_MAX),
            peer_places: Semaphore::new(PEER_MOVERS_MAX),
            wait_permits: Arc::new(Semaphore::new(WAIT_PERMITS_MAX)),
            waiting: AtomicUsize::new(0),
            poll_slots: Arc::new(PollSlots::of_this_host()),
        }
    }

    fn permits(&self, is_for_peers: bool) -> &Semaphore {
        if is_for_peers { &self.peer_places } else { &self.permits }
    }

    /// Whether other sessions want a thread of this kind, or a wait permit, and have none.
    pub(super) fn are_wanted(&self, is_for_peers: bool) -> bool {
        self.permits(is_for_peers).available_permits() == 0 || self.waiting.load(Ordering::Relaxed) > 0
    }

    /// Whether so many sessions hold wait permits that each socket should hold little.
    pub(super) fn are_many(&self) -> bool {
        WAIT_PERMITS_MAX - self.wait_permits.available_permits() > FEW_MAX
    }

    /// A wait permit if one is free.
    pub(super) fn try_wait_permit(&self) -> Option<WaitPermit> {
        Arc::clone(&self.wait_permits).try_acquire_owned().ok()
    }

    /// Waits for a wait permit without a thread, in the order of those who asked. `None` never comes: nobody closes the semaphore.
    async fn wait_permit(&self) -> Option<WaitPermit> {
        let _waiting = WaitCount::new(&self.waiting);
        Arc::clone(&self.wait_permits).acquire_owned().await.ok()
    }
}

/// Counts one as long as it lives.
struct WaitCount<'a>(&'a AtomicUsize);

impl<'a> WaitCount<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for WaitCount<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The parameters that a door passes to a session.
#[derive(Debug)]
pub(super) struct Start<S: Service> {
    pub(super) service: Arc<S>,
    pub(super) socket: TcpStream,
    pub(super) peer: SocketAddr,
    pub(super) local_user: Option<u32>,
    pub(super) tasks: Shutdown,
    pub(super) counters: Arc<Counters>,
    pub(super) registry: Arc<Registry<S::File>>,
    pub(super) movers: Arc<Movers>,
    pub(super) late_listings: Arc<Semaphore>,
    pub(super) accounts: Arc<Accounts>,
    pub(super) slot: Arc<ConnectionSlot>,
}

impl<S: Service> Start<S> {
    /// The session before anything was said.
    fn begin(self) -> std::io::Result<Box<Session<S>>> {
        let transport = Transport::new(self.socket, Arc::clone(&self.movers.poll_slots))?;
        let local = transport.local_address().map_or_else(|_| String::new(), shown_address);
        Ok(Box::new(Session {
            inbox: Inbox::new(Arc::clone(&self.counters)),
            sender: super::sender::Sender::new(Arc::clone(&self.counters)),
            transport,
            unsent_rooms: std::collections::VecDeque::new(),
            task: None,
            spare: Vec::new(),
            phase: Phase::Handshake,
            inline_call: None,
            calls: tokio::task::JoinSet::new(),
            request_began: None,
            slot: self.slot,
            is_proven: false,
            ended: Arc::new(Notify::new()),
            entry: None,
            claim: None,
            is_upgrading: false,
            wait_permit: None,
            is_with_peers: false,
            is_slow: false,
            signing: super::signed::Signing::default(),
            service: self.service,
            peer: self.peer,
            local_user: self.local_user,
            local,
            tasks: self.tasks,
            counters: self.counters,
            registry: self.registry,
            movers: self.movers,
            late_listings: self.late_listings,
            accounts: self.accounts,
        }))
    }
}

/// Runs a session to its end.
pub(super) async fn run<S: Service>(start: Start<S>, token: Token) -> End {
    let movers = Arc::clone(&start.movers);
    let mut session = match start.begin() {
        Ok(session) => session,
        Err(error) => return error.into(),
    };
    let end = loop {
        let Ok(mover) = movers.permits(session.is_with_peers).acquire().await else { return End::Stopped };
        let served = spawn_blocking(move || {
            let parked = session.serve_turn();
            (session, parked)
        });
        let Ok((returned, parked)) = served.await else { return End::Panicked };
        drop(mover);
        session = returned;
        session.is_with_peers = matches!(parked, Ok(Park::Peers));
        let parked = match parked {
            Ok(parked) => parked,
            Err(end) => break end,
        };
        let waited = tokio::select! {
            waited = session.wait(parked) => waited,
            () = token.stopped() => Err(End::Stopped),
        };
        if let Err(end) = waited {
            break end;
        }
    };
    finish(session, &end).await;
    end
}

/// Says what is left to say. Files are given up where their disks may be waited for.
async fn finish<S: Service>(mut session: Box<Session<S>>, end: &End) {
    let closed = spawn_blocking(move || {
        session.close();
        session
    });
    let Ok(mut session) = closed.await else { return };
    // Its place is another one's by now.
    if matches!(end, End::Unproven) {
        return;
    }
    if timeout(FLUSH_DEADLINE, session.drain()).await.is_err() {
        tracing::debug!(peer = %session.peer, "the session ended before all answers were sent");
    }
    // The peer has not heard why, and goes on sending.
    if matches!(end, End::Malformed(_) | End::Stranded | End::Early) {
        let _ = timeout(FAREWELL, session.transport.farewell()).await;
    }
    let _ = spawn_blocking(move || drop(session)).await;
}

/// The address in the form of the field: `[::127.0.0.1]:1094`.
fn shown_address(address: SocketAddr) -> String {
    match address {
        SocketAddr::V4(v4) => format!("[::{}]:{}", v4.ip(), v4.port()),
        SocketAddr::V6(v6) => v6.to_string(),
    }
}

impl<S: Service> Session<S> {
    /// Waits until a visit is worth its thread.
    async fn wait(&mut self, parked: Park) -> Result<(), End> {
        let (ended, slot) = (Arc::clone(&self.ended), Arc::clone(&self.slot));
        let waited = tokio::select! {
            biased;
            () = slot.over() => Err(End::Unproven),
            () = ended.notified() => Err(End::Ended),
            waited = self.wait_for(parked) => waited,
        };
        // The proof may have come with a call that is still under way.
        if matches!(waited, Err(End::Unproven)) && self.notice_proof() { Ok(()) } else { waited }
    }

    async fn wait_for(&mut self, parked: Park) -> Result<(), End> {
        match parked {
            Park::Again | Park::Peers => {
                tokio::task::yield_now().await;
                Ok(())
            }
            Park::Space => {
                if let Some(Task::Write(task)) = &mut self.task {
                    task.wait_for_space().await;
                }
                Ok(())
            }
            Park::WaitPermit => {
                self.wait_permit = self.movers.wait_permit().await;
                Ok(())
            }
            Park::Write => self.in_time(SEND_PROGRESS, IoInterest::Write).await,
            Park::Request => {
                let waited = self.request_began.map_or(Duration::ZERO, |began| began.elapsed());
                self.readable_or_woken(RECEIVE_PROGRESS.saturating_sub(waited)).await
            }
            Park::Data => self.readable_or_woken(RECEIVE_PROGRESS).await,
            Park::Idle => self.wait_idle().await,
        }
    }

    async fn in_time(&self, patience: Duration, wish: IoInterest) -> Result<(), End> {
        let ready = timeout(patience, self.transport.ready(wish)).await;
        Ok(ready.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??)
    }

    /// Waits for bytes of the peer or answers of calls.
    async fn readable_or_woken(&self, patience: Duration) -> Result<(), End> {
        tokio::select! {
            ready = self.in_time(patience, IoInterest::Read) => ready,
            () = self.woken() => Ok(()),
        }
    }

    async fn woken(&self) {
        match &self.phase {
            Phase::Open(context) => context.outbox.woken().await,
            Phase::Bound(stream) => stream.woken().await,
            Phase::Handshake | Phase::Greeting => std::future::pending().await,
        }
    }

    /// Waits for the next request; gives memory back meanwhile.
    async fn wait_idle(&mut self) -> Result<(), End> {
        let is_timeout = |end: &End| matches!(end, End::Io(e) if e.kind() == io::ErrorKind::TimedOut);
        match self.readable_or_woken(BUFFERS_IDLE).await {
            Err(end) if is_timeout(&end) => {
                self.inbox.shrink();
                self.sender.shrink();
                self.transport.shrink();
                self.spare = Vec::new();
            }
            outcome => return outcome,
        }
        loop {
            match self.readable_or_woken(SESSION_IDLE).await {
                // A session is not idle while it waits for answers: a recall may take hours.
                Err(end) if is_timeout(&end) && self.has_calls() => {}
                // Nor is a further connection of one that is not.
                Err(end) if is_timeout(&end) && matches!(self.phase, Phase::Bound(_)) => {}
                outcome => return outcome,
            }
        }
    }

    /// Nothing more is received; what is ready is sent. Files are not kept for a close that still goes on.
    fn close(&mut self) {
        self.calls.abort_all();
        self.sender.forget_files();
        if let Phase::Open(context) = &self.phase {
            context.outbox.close();
            context.handles.clear();
            context.streams.close();
        }
    }

    /// Sends what is left, but no bytes of files, which may have to be waited for.
    async fn drain(&mut self) -> Result<(), End> {
        self.transport.set_patience(false);
        self.is_slow = true;
        while self.task.is_none() && (!self.send_all()? || self.has_queued_reply()) {
            self.transport.ready(IoInterest::Write).await?;
        }
        while !self.transport.push()? {
            self.transport.ready(IoInterest::Write).await?;
        }
        Ok(())
    }
}
