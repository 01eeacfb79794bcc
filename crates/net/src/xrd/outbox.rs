//! Answers of calls, filled from any task and bounded in bytes, on their way to the session that sends them.

use super::{
    accounts::Account,
    limits::{OUTBOX_BYTES_MAX, SMALL_ANSWER_BYTES},
};
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use wire::xrd::{Answer, StreamId};

/// The session is over; nothing can be sent any more.
#[derive(Debug)]
pub(super) struct SessionClosed;

/// Room that an answer takes.
pub(super) type SendPermit = OwnedSemaphorePermit;

/// An encoded reply, and the outbox space that it takes until it is sent.
#[derive(Debug)]
pub(super) struct QueuedReply {
    pub(super) bytes: Vec<u8>,
    _budget: SendPermit,
    /// Of the user, if it is large: kept until the answer has left.
    pub(super) shared: Option<SendPermit>,
}

/// Answers that wait for their session.
#[derive(Debug)]
pub(super) struct Outbox {
    replies: Mutex<VecDeque<QueuedReply>>,
    wake: Notify,
    budget: Arc<Semaphore>,
    account: Arc<Account>,
}

impl Outbox {
    pub(super) fn new(account: Arc<Account>) -> Self {
        let budget = Arc::new(Semaphore::new(OUTBOX_BYTES_MAX));
        Self { replies: Mutex::default(), wake: Notify::new(), budget, account }
    }

    fn replies(&self) -> MutexGuard<'_, VecDeque<QueuedReply>> {
        // A panic elsewhere cannot leave the queue half changed.
        self.replies.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until there is budget, and adds an answer. What is longer than the outbox waits for all of it.
    pub(super) async fn send(&self, stream: StreamId, answer: Answer) -> Result<(), SessionClosed> {
        let bytes = answer.encode(stream);
        // While it waits it is kept once.
        drop(answer);
        let count = bytes.len().clamp(1, OUTBOX_BYTES_MAX) as u32;
        let budget = Arc::clone(&self.budget).acquire_many_owned(count).await.map_err(|_| SessionClosed)?;
        let is_large = bytes.len() > SMALL_ANSWER_BYTES;
        let shared = if is_large { self.account.take_budget(bytes.len()).await } else { None };
        self.replies().push_back(QueuedReply { bytes, _budget: budget, shared });
        self.wake.notify_one();
        Ok(())
    }

    /// The next answer.
    pub(super) fn take(&self) -> Option<QueuedReply> {
        self.replies().pop_front()
    }

    /// Whether nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.replies().is_empty()
    }

    /// Waits until something was added, perhaps since taken.
    pub(super) async fn woken(&self) {
        self.wake.notified().await;
    }

    /// Takes nothing any more: those that wait for budget are told.
    pub(super) fn close(&self) {
        self.budget.close();
    }
}
