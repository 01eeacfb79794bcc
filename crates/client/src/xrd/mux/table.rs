//! The requests whose answers are awaited, and who waits for them.

use super::RequestError;
use base::{Failure, PageBuffer, Result};
use std::{
    task::Waker,
    thread::Thread,
    time::{Duration, Instant},
};
use wire::xrd::{Redirect, StatusKind, StreamId};

/// Requests that may be awaited at a time on one connection.
const REQUESTS_MAX: usize = 16_384;
/// Spare buffers that are kept for the next answers.
const SPARES_MAX: usize = 16;
/// A request that is left alone for this many times the longest silence is lost, whatever else arrives.
const LOST_FACTOR: u32 = 10;

/// The destination of the body of an answer.
#[derive(Debug)]
pub(in crate::xrd) enum Sink {
    /// Kept whole, up to `max` bytes.
    Gather {
        /// More than this is a broken protocol.
        max: usize,
    },
    /// At most `wanted` bytes into one buffer, or straight to where the thread that waits wants them.
    Data {
        /// More than this is a broken protocol.
        wanted: usize,
    },
}

/// The outcome of a request.
#[derive(Debug)]
pub(in crate::xrd) enum Outcome {
    /// The body of the answer, kept whole.
    Body(Vec<u8>),
    /// Data.
    Data(Chunk),
    /// The server refused.
    Failed(Failure),
    /// Another server must be asked.
    Redirect(Redirect),
    /// Ask again then.
    AgainAfter(Duration),
}

/// Data that arrived: the first `filled` bytes of a buffer that is used again and again.
#[derive(Debug, Default)]
pub(in crate::xrd) struct Chunk {
    pub(in crate::xrd) buffer: PageBuffer,
    pub(in crate::xrd) filled: usize,
    /// Of page reads: where each part begins in the file, and its bytes on the wire.
    pub(in crate::xrd) parts: Vec<(u64, usize)>,
}

impl Chunk {
    pub(in crate::xrd) fn bytes(&self) -> &[u8] {
        &self.buffer[..self.filled]
    }
}

/// The waiter for an answer.
#[derive(Debug)]
pub(super) enum Waiter {
    Thread(Thread),
    Task(Waker),
}

impl Waiter {
    fn wake(self) {
        match self {
            Self::Thread(thread) => thread.unpark(),
            Self::Task(waker) => waker.wake(),
        }
    }
}

/// A request that is awaited.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) sink: Sink,
    /// What has arrived of data and is not at its place yet.
    pub(super) chunk: Chunk,
    /// What has arrived of a body that is kept whole.
    pub(super) body: Vec<u8>,
    /// Bytes that arrived, wherever they are.
    pub(super) total: usize,
    pub(super) outcome: Option<Outcome>,
    waiter: Option<Waiter>,
    /// The request was abandoned.
    pub(super) is_unwanted: bool,
    sent: Instant,
    progress: Instant,
    /// The server said that it takes until then.
    patience: Option<Instant>,
}

impl Slot {
    fn new(sink: Sink, now: Instant) -> Self {
        Self {
            sink,
            chunk: Chunk::default(),
            body: Vec::new(),
            total: 0,
            outcome: None,
            waiter: None,
            is_unwanted: false,
            sent: now,
            progress: now,
            patience: None,
        }
    }

    fn is_awaited(&self) -> bool {
        self.outcome.is_none() && !self.is_unwanted
    }
}

/// All requests of a connection, and the thread that receives.
#[derive(Debug, Default)]
pub(super) struct Table {
    /// By stream; stream 0 belongs to nobody.
    slots: Vec<Option<Slot>>,
    free: Vec<u16>,
    /// A thread receives.
    pub(super) is_led: bool,
    /// Threads that wait while somebody else receives, by stream.
    followers: Vec<u16>,
    /// The thread that receives for tasks.
    pub(super) driver: Option<Thread>,
    /// Requests that tasks wait for.
    pub(super) tasks: usize,
    pub(super) broken: Option<Failure>,
    /// When anything last arrived.
    pub(super) arrived: Option<Instant>,
    spares: Vec<PageBuffer>,
    pub(super) awaited: usize,
}

impl Table {
    /// Gives a request its stream.
    pub(super) fn add(&mut self, sink: Sink, now: Instant) -> Result<u16, RequestError> {
        if let Some(failure) = &self.broken {
            return Err(RequestError::Broken(failure.clone()));
        }
        if self.slots.is_empty() {
            self.slots.push(None);
        }
        let stream = match self.free.pop() {
            Some(stream) => stream,
            None if self.slots.len() <= REQUESTS_MAX => {
                self.slots.push(None);
                (self.slots.len() - 1) as u16
            }
            None => {
                return Err(Failure::busy(format!("more than {REQUESTS_MAX} requests are under way")).into());
            }
        };
        self.slots[usize::from(stream)] = Some(Slot::new(sink, now));
        self.awaited += 1;
        Ok(stream)
    }

    pub(super) fn slot(&mut self, stream: u16) -> Option<&mut Slot> {
        self.slots.get_mut(usize::from(stream))?.as_mut()
    }

    /// The request that `stream` names in a frame from the server.
    pub(super) fn awaited(&mut self, stream: StreamId) -> Option<&mut Slot> {
        self.slot(stream.number()).filter(|slot| slot.outcome.is_none())
    }

    /// Whether nothing more is to come for `stream`.
    pub(super) fn is_over(&self, stream: u16) -> bool {
        let slot = self.slots.get(usize::from(stream)).and_then(Option::as_ref);
        self.broken.is_some() || slot.is_none_or(|slot| slot.outcome.is_some())
    }

    /// Something arrived for `stream` at `now`.
    pub(super) fn touch(&mut self, stream: u16, now: Instant) {
        self.arrived = Some(now);
        if let Some(slot) = self.slot(stream) {
            (slot.progress, slot.patience) = (now, None);
        }
    }

    /// The server takes `span` for `stream`, but not longer than `until_max` after it was asked.
    pub(super) fn be_patient(&mut self, stream: StreamId, now: Instant, span: Duration, wait_max: Duration) {
        if let Some(slot) = self.awaited(stream) {
            slot.patience = Some((now + span).min(slot.sent + wait_max));
        }
    }

    /// The answer is whole; who waits for it is told.
    pub(super) fn complete(&mut self, stream: u16, outcome: Outcome) {
        let Some(slot) = self.slot(stream).filter(|slot| slot.outcome.is_none()) else { return };
        let (waiter, is_unwanted) = (slot.waiter.take(), slot.is_unwanted);
        slot.outcome = Some(outcome);
        self.awaited -= 1;
        if is_unwanted {
            self.release(stream);
        } else if let Some(waiter) = waiter {
            self.wake(waiter);
        }
    }

    fn wake(&mut self, waiter: Waiter) {
        self.tasks -= usize::from(matches!(waiter, Waiter::Task(_)));
        waiter.wake();
    }

    /// Takes what became of a request; its stream is free again.
    pub(super) fn take(&mut self, stream: u16) -> Result<Outcome, RequestError> {
        let outcome = self.slot(stream).and_then(|slot| slot.outcome.take());
        match outcome {
            Some(outcome) => {
                self.release(stream);
                Ok(outcome)
            }
            None => Err(RequestError::Broken(
                self.broken
                    .clone()
                    .unwrap_or_else(|| Failure::internal("an answer was taken before it was there")),
            )),
        }
    }

    fn release(&mut self, stream: u16) {
        if let Some(slot) = self.slots[usize::from(stream)].take() {
            self.recycle(slot.chunk.buffer);
            if let Some(Outcome::Data(chunk)) = slot.outcome {
                self.recycle(chunk.buffer);
            }
        }
        self.free.push(stream);
    }

    /// Nobody wants the answer to `stream` any more; when it comes it is thrown away.
    pub(super) fn abandon(&mut self, stream: u16) {
        self.set_waiter(stream, None);
        let is_broken = self.broken.is_some();
        match self.slot(stream) {
            Some(slot) if slot.outcome.is_none() && !is_broken => slot.is_unwanted = true,
            Some(_) => self.release(stream),
            None => {}
        }
    }

    /// Says who is to be woken when `stream` is answered.
    pub(super) fn set_waiter(&mut self, stream: u16, waiter: Option<Waiter>) {
        let is_task = usize::from(matches!(waiter, Some(Waiter::Task(_))));
        let Some(slot) = self.slot(stream) else { return };
        let before = std::mem::replace(&mut slot.waiter, waiter);
        self.tasks += is_task;
        self.tasks -= usize::from(matches!(before, Some(Waiter::Task(_))));
    }

    /// The thread that waits for `stream` would receive if nobody else did.
    pub(super) fn follow(&mut self, stream: u16) {
        self.set_waiter(stream, Some(Waiter::Thread(std::thread::current())));
        self.followers.push(stream);
    }

    pub(super) fn unfollow(&mut self, stream: u16) {
        self.set_waiter(stream, None);
        self.followers.retain(|follower| *follower != stream);
    }

    /// Lets somebody else receive, if nobody does and somebody waits.
    pub(super) fn hand_on(&mut self) {
        if self.is_led {
            return;
        }
        if self.tasks > 0
            && let Some(driver) = &self.driver
        {
            return driver.unpark();
        }
        while let Some(stream) = self.followers.pop() {
            let slot = self.slot(stream).filter(|slot| slot.is_awaited());
            if let Some(Slot { waiter: Some(Waiter::Thread(thread)), .. }) = slot {
                return thread.unpark();
            }
        }
    }

    /// Gives the connection up; everybody is told. The first reason counts.
    pub(super) fn break_off(&mut self, failure: Failure) -> Failure {
        let failure = self.broken.get_or_insert(failure).clone();
        let waiters: Vec<_> = self.slots.iter_mut().flatten().filter_map(|slot| slot.waiter.take()).collect();
        for waiter in waiters {
            self.wake(waiter);
        }
        if let Some(driver) = &self.driver {
            driver.unpark();
        }
        failure
    }

    /// Whether something is under way that nobody wants and that may take long.
    pub(super) fn has_leftovers(&self) -> bool {
        let takes_long = |slot: &Slot| matches!(slot.sink, Sink::Data { .. }) || slot.patience.is_some();
        self.slots.iter().flatten().any(|slot| slot.is_unwanted && takes_long(slot))
    }

    /// How long the request that waits longest has waited, if it has waited too long.
    ///
    /// Those that nobody wants any more count when there are no others: a server that hangs is not waited for for ever.
    pub(super) fn overdue(&self, now: Instant, silence_max: Duration) -> Option<Duration> {
        let due = self.slots.iter().flatten().filter(|slot| slot.outcome.is_none());
        let is_wanted = due.clone().any(Slot::is_awaited);
        let late = due.filter(|slot| slot.is_awaited() || !is_wanted).filter_map(|slot| {
            if slot.patience.is_some_and(|until| now < until + silence_max) {
                return None;
            }
            let silent = now.saturating_duration_since(slot.progress.max(self.arrived.unwrap_or(slot.sent)));
            let alone = now.saturating_duration_since(slot.progress);
            (silent >= silence_max || alone >= silence_max * LOST_FACTOR).then_some(alone)
        });
        late.max()
    }

    /// Whether `stream` was left alone for so long that its answer must be lost, whatever else arrives.
    pub(super) fn is_lost(&mut self, stream: u16, now: Instant, silence_max: Duration) -> bool {
        self.slot(stream).is_some_and(|slot| {
            let is_patient = slot.patience.is_some_and(|until| now < until + silence_max);
            slot.is_awaited() && !is_patient && now.duration_since(slot.progress) >= silence_max * LOST_FACTOR
        })
    }

    /// A buffer of at least `length` bytes; the one that was used last, because it is in the cache.
    pub(super) fn buffer(&mut self, length: usize) -> PageBuffer {
        match self.spares.pop() {
            Some(buffer) if buffer.len() >= length => buffer,
            _ => PageBuffer::new(length),
        }
    }

    pub(super) fn drop_spares(&mut self) {
        self.spares.clear();
    }

    pub(super) fn recycle(&mut self, buffer: PageBuffer) {
        if !buffer.is_empty() && self.spares.len() < SPARES_MAX {
            self.spares.push(buffer);
        }
    }
}

/// Whether a status ends the answer.
pub(super) fn is_final(kind: StatusKind) -> bool {
    kind == StatusKind::Final
}
