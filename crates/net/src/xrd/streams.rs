//! Further connections of a session, on which it sends the answers of reads (spec/xrootd.md §7).

use super::{
    limits::{STREAM_READS_MAX, STREAMS_MAX},
    reading::ReadTask,
};
use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
};
use tokio::sync::Notify;

#[derive(Debug)]
struct StreamCommands<F> {
    reads: VecDeque<ReadTask<F>>,
    /// The session is over.
    is_closed: bool,
}

/// One further connection: reads that it is to answer.
#[derive(Debug)]
pub(super) struct Stream<F> {
    orders: Mutex<StreamCommands<F>>,
    wake: Notify,
    is_proven: Arc<AtomicBool>,
}

impl<F> Stream<F> {
    fn orders(&self) -> MutexGuard<'_, StreamCommands<F>> {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives it a read to answer; the read comes back if too many wait already.
    pub(super) fn order(&self, read: ReadTask<F>) -> Result<(), ReadTask<F>> {
        let mut orders = self.orders();
        if orders.is_closed || orders.reads.len() >= STREAM_READS_MAX {
            return Err(read);
        }
        orders.reads.push_back(read);
        drop(orders);
        self.wake.notify_one();
        Ok(())
    }

    /// The next read to answer.
    pub(super) fn take(&self) -> Option<ReadTask<F>> {
        self.orders().reads.pop_front()
    }

    /// Whether the peer of the session has proven who it is.
    pub(super) fn is_proven(&self) -> bool {
        self.is_proven.load(Ordering::Acquire)
    }

    /// The session is over.
    pub(super) fn is_closed(&self) -> bool {
        self.orders().is_closed
    }

    /// Waits until there is something to do.
    pub(super) async fn woken(&self) {
        self.wake.notified().await;
    }

    fn close(&self) {
        self.orders().is_closed = true;
        self.wake.notify_one();
    }
}

/// The further connections of one session; they end with it.
#[derive(Debug)]
pub(super) struct Streams<F> {
    all: Mutex<Vec<Weak<Stream<F>>>>,
    is_proven: Arc<AtomicBool>,
}

impl<F> Streams<F> {
    pub(super) fn new() -> Self {
        Self { all: Mutex::default(), is_proven: Arc::default() }
    }

    /// The peer has proven who it is: its further connections count as proven, too.
    pub(super) fn prove(&self) {
        self.is_proven.store(true, Ordering::Release);
        self.all().iter().filter_map(Weak::upgrade).for_each(|stream| stream.wake.notify_one());
    }

    fn all(&self) -> MutexGuard<'_, Vec<Weak<Stream<F>>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a connection; `None` if there are too many. Its number is that of its place, from 1.
    pub(super) fn add(&self) -> Option<(u8, Arc<Stream<F>>)> {
        let orders = Mutex::new(StreamCommands { reads: VecDeque::new(), is_closed: false });
        let stream = Arc::new(Stream { orders, wake: Notify::new(), is_proven: Arc::clone(&self.is_proven) });
        let mut all = self.all();
        let free = all.iter().position(|stream| stream.strong_count() == 0);
        let index = free.unwrap_or(all.len());
        if index >= STREAMS_MAX {
            return None;
        }
        if free.is_none() {
            all.push(Weak::new());
        }
        all[index] = Arc::downgrade(&stream);
        Some((index as u8 + 1, stream))
    }

    /// The connection with this number, if it is there.
    pub(super) fn get(&self, number: u8) -> Option<Arc<Stream<F>>> {
        self.all().get(usize::from(number).checked_sub(1)?)?.upgrade()
    }

    /// The session is over.
    pub(super) fn close(&self) {
        self.all().iter().filter_map(Weak::upgrade).for_each(|stream| stream.close());
    }
}

impl<F> Drop for Streams<F> {
    fn drop(&mut self) {
        self.close();
    }
}
