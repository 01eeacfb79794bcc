//! One session with a server, used by many files and threads at once.
//!
//! It has no thread of its own. A thread that waits for an answer while no other receives becomes the *leader*. It
//! takes frames off the socket, puts data into the buffers of their requests, and wakes the threads whose answers are
//! complete. When its own answer is complete, it hands the lead to one of the *followers*. Tasks cannot lead; while any
//! of them waits, a driver thread leads for them.
//!
//! Locks, in the order in which they may be taken: `sending`, `receiver`, `table`, `outbox`; the last two are held for
//! a few instructions only.

mod driver;
mod receive;
mod send;
mod table;
mod ticket;

pub(super) use receive::Piece;
pub(super) use table::{Chunk, Outcome, Sink};
pub(super) use ticket::{Ticket, Wait};

use super::{Options, process::lock, transport::Transport, trouble::RequestError};
use base::Failure;
use receive::Receiver;
use std::{
    fmt,
    sync::{
        Mutex, OnceLock,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};
use table::Table;
use wire::xrd::ServerFlags;

/// Answers that are thrown away before a connection is used again without having been looked at.
const STALE_FRAMES_MAX: usize = 8;
/// Longest that a follower sleeps before it looks again.
const FOLLOW_TICK: Duration = Duration::from_secs(1);

/// What the server said of itself when the session began.
#[derive(Debug, Clone)]
pub(super) struct Greeting {
    /// `host:port`, for messages.
    pub(super) peer: String,
    /// What it is and supports.
    pub(super) flags: ServerFlags,
    /// Time from a request to its answer.
    pub(super) round_trip: Duration,
}

/// A session with one server.
pub(super) struct Mux {
    pid: u32,
    transport: Transport,
    pub(super) greeting: Greeting,
    /// The extensions of our own servers; queried once.
    pub(super) features: OnceLock<String>,
    progress_timeout: Duration,
    wait_max: Duration,
    table: Mutex<Table>,
    receiver: Mutex<Receiver>,
    sending: Mutex<()>,
    outbox: Mutex<Vec<u8>>,
    /// Files and calls that use it.
    pub(super) users: AtomicUsize,
    /// Belongs to one file that is being written.
    pub(super) is_exclusive: AtomicBool,
    /// When the connection became idle.
    pub(super) idle_since: Mutex<Instant>,
}

impl fmt::Debug for Mux {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mux").field("peer", &self.greeting.peer).finish_non_exhaustive()
    }
}

impl Mux {
    /// A session that has been greeted.
    pub(super) fn new(transport: Transport, greeting: Greeting, options: &Options) -> Self {
        Self {
            pid: std::process::id(),
            transport,
            greeting,
            features: OnceLock::new(),
            progress_timeout: options.progress_timeout,
            wait_max: options.wait_max,
            table: Mutex::default(),
            receiver: Mutex::default(),
            sending: Mutex::default(),
            outbox: Mutex::default(),
            users: AtomicUsize::new(0),
            is_exclusive: AtomicBool::new(false),
            idle_since: Mutex::new(Instant::now()),
        }
    }

    /// Whether this process made it: a child that inherited it by a fork must keep its hands off.
    pub(super) fn is_ours(&self) -> bool {
        self.pid == std::process::id()
    }

    /// Whether nothing more can be done here.
    pub(super) fn is_broken(&self) -> bool {
        lock(&self.table).broken.is_some()
    }

    /// Whether the server is on this host.
    pub(super) fn is_loopback(&self) -> bool {
        self.transport.is_loopback()
    }

    /// Whether a thread receives, for tests.
    #[cfg(test)]
    pub(super) fn is_led(&self) -> bool {
        lock(&self.table).is_led
    }

    /// Whether it can be used again: the server has not closed it, as far as can be seen now.
    ///
    /// Waits for nothing but the rest of an answer that has begun; take no lock along.
    pub(super) fn is_fresh(&self) -> bool {
        for _ in 0..STALE_FRAMES_MAX {
            {
                let mut table = lock(&self.table);
                // A new connection is there sooner than what nobody wants is through this one.
                if table.broken.is_some() || table.has_leftovers() {
                    return false;
                }
                if table.is_led {
                    return true;
                }
                if table.awaited == 0 {
                    return !self.transport.is_stale();
                }
                table.is_led = true;
            }
            // Answers that nobody waits for, such as those to the close of a file that was read.
            let received = self.receive_ready();
            let mut table = lock(&self.table);
            table.is_led = false;
            table.hand_on();
            match received {
                Ok(true) => {}
                Ok(false) => return true,
                Err(failure) => {
                    table.break_off(failure);
                    return false;
                }
            }
        }
        true
    }

    /// Receives a frame if one is there; the caller leads.
    fn receive_ready(&self) -> Result<bool, Failure> {
        let mut receiver = lock(&self.receiver);
        let ready = self.transport.wait(true, Duration::ZERO);
        let is_there = receiver.has_more() || ready.is_ok_and(|ready| ready.input);
        if is_there {
            self.receive_frame(&mut receiver, &mut [])?;
        }
        Ok(is_there)
    }

    /// Gives the connection up because of what the peer said or did; whoever waits is told.
    pub(super) fn break_off(&self, failure: Failure) -> RequestError {
        let failure = lock(&self.table).break_off(failure);
        self.transport.shut();
        RequestError::Broken(failure)
    }

    /// The failure of a server that does not keep to the protocol.
    pub(super) fn nonsense(&self, why: impl fmt::Display) -> Failure {
        Failure::unavailable(format!("server {}: {why}", self.greeting.peer))
            .hint("is it an XRootD server, and is the network intact?")
    }

    /// Waits until the request is answered; data of `pieces` go straight to their places where that is possible.
    ///
    /// The calling thread receives for everybody while nobody else does.
    pub(super) fn wait(&self, stream: u16, pieces: &mut [Piece<'_>]) {
        let mut table = lock(&self.table);
        loop {
            receive::settle(&mut table, pieces);
            if table.is_over(stream) {
                break;
            }
            if table.is_led {
                table.follow(stream);
                drop(table);
                thread::park_timeout(FOLLOW_TICK);
                table = lock(&self.table);
                table.unfollow(stream);
                if table.is_lost(stream, Instant::now(), self.progress_timeout) {
                    let what = format!("{} answers others but not this request", self.greeting.peer);
                    table.break_off(Failure::timeout(what));
                    self.transport.shut();
                }
            } else {
                table.is_led = true;
                drop(table);
                let led = self.lead(&|table| table.is_over(stream), pieces);
                table = lock(&self.table);
                table.is_led = false;
                if let Err(failure) = led {
                    table.break_off(failure);
                    self.transport.shut();
                }
            }
        }
        table.hand_on();
    }

    /// Gives back a buffer that was emptied.
    pub(super) fn recycle(&self, chunk: Chunk) {
        // A child may drop what its parent has; the lock may be taken there for ever.
        if !chunk.buffer.is_empty() && self.is_ours() {
            lock(&self.table).recycle(chunk.buffer);
        }
    }

    /// A user has come.
    pub(super) fn enter(&self) {
        self.users.fetch_add(1, Ordering::AcqRel);
    }

    /// A user has left.
    pub(super) fn leave(&self) {
        *lock(&self.idle_since) = Instant::now();
        if self.users.fetch_sub(1, Ordering::AcqRel) == 1 {
            lock(&self.table).drop_spares();
        }
    }
}

impl Drop for Mux {
    fn drop(&mut self) {
        // In a child the connection goes on to belong to the parent.
        if self.is_ours() {
            self.transport.shut();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        net::TcpListener,
        sync::{Arc, mpsc},
    };

    #[test]
    fn a_child_takes_no_lock_of_its_parent() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let options = Options::default();
        let port = listener.local_addr().unwrap().port();
        let transport = Transport::dial("127.0.0.1", port, &options).unwrap();
        let greeting =
            Greeting { peer: String::new(), flags: ServerFlags::SERVER, round_trip: Duration::ZERO };
        let mut mux = Mux::new(transport, greeting, &options);
        // As a child sees it.
        mux.pid = 0;
        let mux = Arc::new(mux);
        // Held by a thread that the child does not have.
        let _held = lock(&mux.table);
        let (own, (sender, receiver)) = (Arc::clone(&mux), mpsc::channel());
        thread::spawn(move || {
            own.recycle(Chunk { buffer: vec![1].into(), filled: 1, parts: Vec::new() });
            sender.send(())
        });
        receiver.recv_timeout(Duration::from_secs(10)).expect("it waits for the lock");
    }
}
