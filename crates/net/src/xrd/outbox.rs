//! Answers on their way: bounded in bytes, filled from any thread, sent in order.

use super::{
    Counters,
    limits::{BUFFER_BYTES_MAX, BUFFERS_MAX, DIRECT_BYTES_MAX, OUTBOX_BYTES_MAX, SEND_PROGRESS},
};
use std::{
    collections::VecDeque,
    io::{self, IoSlice},
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::Ordering},
};
use tokio::{
    net::TcpStream,
    sync::{Notify, OwnedSemaphorePermit, Semaphore},
    time::timeout,
};
use wire::xrd::{Answer, StreamId};

/// Slices of one send.
const SLICES_MAX: usize = 64;

/// The session is over; nothing can be sent any more.
#[derive(Debug)]
pub(super) struct Gone;

/// Bytes for one or more answers. Its memory is used again without being cleared.
#[derive(Debug, Default)]
pub(super) struct Buffer {
    bytes: Vec<u8>,
    used: usize,
}

impl Buffer {
    /// Adds `count` bytes, whose content is left over from earlier use: they must be written or cut off.
    pub(super) fn grow(&mut self, count: usize) -> &mut [u8] {
        let start = self.used;
        self.used += count;
        if self.bytes.len() < self.used {
            self.bytes.resize(self.used, 0);
        }
        &mut self.bytes[start..self.used]
    }

    pub(super) fn extend(&mut self, bytes: &[u8]) {
        self.grow(bytes.len()).copy_from_slice(bytes);
    }

    /// Keeps the first `count` bytes.
    pub(super) fn cut(&mut self, count: usize) {
        self.used = self.used.min(count);
    }

    pub(super) fn len(&self) -> usize {
        self.used
    }

    pub(super) fn get(&self) -> &[u8] {
        &self.bytes[..self.used]
    }

    pub(super) fn get_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[..self.used]
    }
}

impl From<Vec<u8>> for Buffer {
    fn from(bytes: Vec<u8>) -> Self {
        Self { used: bytes.len(), bytes }
    }
}

/// Room for bytes that are about to be pushed; given back when they are sent.
#[derive(Debug)]
pub(super) struct Credit(#[expect(dead_code, reason = "held for its drop")] OwnedSemaphorePermit);

#[derive(Debug)]
struct Item {
    buffer: Buffer,
    sent: usize,
    _credit: Credit,
}

#[derive(Debug, Default)]
struct State {
    queue: VecDeque<Item>,
    /// The session has taken items and is sending them: nobody else may send.
    is_sending: bool,
    /// Nothing follows: sending ends when the queue is empty.
    is_closing: bool,
    spare: Vec<Buffer>,
}

/// The sending side of a session.
#[derive(Debug)]
pub(super) struct Outbox {
    socket: Arc<TcpStream>,
    /// Held for the time of one push or one non-blocking send.
    state: Mutex<State>,
    wake: Notify,
    counters: Arc<Counters>,
    room: Arc<Semaphore>,
}

impl Outbox {
    pub(super) fn new(socket: Arc<TcpStream>, counters: Arc<Counters>) -> Self {
        let room = Arc::new(Semaphore::new(OUTBOX_BYTES_MAX));
        Self { socket, state: Mutex::default(), wake: Notify::new(), counters, room }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic elsewhere cannot leave the queue half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for room. What is longer than the outbox waits for all of it.
    pub(super) async fn reserve(&self, bytes: usize) -> Result<Credit, Gone> {
        let count = bytes.clamp(1, OUTBOX_BYTES_MAX) as u32;
        Arc::clone(&self.room).acquire_many_owned(count).await.map(Credit).map_err(|_| Gone)
    }

    /// A buffer that was used before, or a new one.
    pub(super) fn buffer(&self) -> Buffer {
        self.state().spare.pop().unwrap_or_default()
    }

    /// Keeps the memory of a buffer for the next one who needs it.
    pub(super) fn recycle(&self, buffer: Buffer) {
        keep(&mut self.state(), buffer);
    }

    /// Gives memory of unused buffers back.
    pub(super) fn shrink(&self) {
        self.state().spare.clear();
    }

    /// Sends or queues. Never blocks; `credit` was reserved for these bytes.
    pub(super) fn push(&self, buffer: Buffer, credit: Credit) {
        self.counters.sent_bytes_total.fetch_add(buffer.used as u64, Ordering::Relaxed);
        let mut state = self.state();
        let mut sent = 0;
        if state.queue.is_empty() && !state.is_sending && buffer.used <= DIRECT_BYTES_MAX {
            // An error shows again, and is handled, when the session sends.
            sent = self.socket.try_write(&buffer.bytes[..buffer.used]).unwrap_or(0);
        }
        if sent == buffer.used {
            keep(&mut state, buffer);
            return;
        }
        state.queue.push_back(Item { buffer, sent, _credit: credit });
        drop(state);
        self.wake.notify_one();
    }

    /// Reserves room for an answer and pushes it.
    pub(super) async fn send(&self, stream: StreamId, answer: &Answer) -> Result<(), Gone> {
        let bytes = answer.encode(stream);
        let credit = self.reserve(bytes.len()).await?;
        self.push(bytes.into(), credit);
        Ok(())
    }

    /// Nothing follows what is queued now.
    pub(super) fn close(&self) {
        self.state().is_closing = true;
        self.wake.notify_one();
    }

    /// Sends what is pushed until the outbox is closed and empty, or the peer is gone or takes nothing for too long.
    ///
    /// If this future is dropped while bytes are queued nothing may be sent any more: a frame may be cut in two.
    pub(super) async fn run(&self) -> io::Result<()> {
        let outcome = self.send_all().await;
        self.room.close();
        outcome
    }

    async fn send_all(&self) -> io::Result<()> {
        loop {
            let mut items = {
                let mut state = self.state();
                state.is_sending = !state.queue.is_empty();
                if state.is_closing && !state.is_sending {
                    return Ok(());
                }
                std::mem::take(&mut state.queue)
            };
            if items.is_empty() {
                self.wake.notified().await;
            }
            while !items.is_empty() {
                self.send_some(&mut items).await?;
            }
        }
    }

    async fn send_some(&self, items: &mut VecDeque<Item>) -> io::Result<()> {
        let slices: Vec<_> = items
            .iter()
            .take(SLICES_MAX)
            .map(|item| IoSlice::new(&item.buffer.bytes[item.sent..item.buffer.used]))
            .collect();
        let mut count = match self.socket.try_write_vectored(&slices) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                timeout(SEND_PROGRESS, self.socket.writable())
                    .await
                    .map_err(|_| io::ErrorKind::TimedOut)??;
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        while let Some(item) = items.front_mut() {
            let left = item.buffer.used - item.sent;
            if count < left {
                item.sent += count;
                break;
            }
            count -= left;
            if let Some(item) = items.pop_front() {
                keep(&mut self.state(), item.buffer);
            }
        }
        Ok(())
    }
}

/// Keeps the memory of a buffer for the next answer.
fn keep(state: &mut State, mut buffer: Buffer) {
    if state.spare.len() < BUFFERS_MAX && buffer.bytes.len() <= BUFFER_BYTES_MAX {
        buffer.used = 0;
        state.spare.push(buffer);
    }
}
