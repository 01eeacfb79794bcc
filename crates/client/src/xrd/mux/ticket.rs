//! A claim to the answer of one request.

use super::{Mux, Outcome, Piece, table::Waiter};
use crate::xrd::{process::lock, trouble::RequestError};
use std::{
    sync::Arc,
    task::{Context, Poll},
};

/// A claim to the answer of one request. Dropped, the answer is thrown away when it comes.
#[derive(Debug)]
pub(in crate::xrd) struct Ticket {
    mux: Arc<Mux>,
    stream: u16,
    is_taken: bool,
}

/// Who waits: a thread that may receive, or a task that must not block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::xrd) enum Wait {
    Thread,
    Task,
}

impl Ticket {
    pub(super) fn new(mux: &Arc<Mux>, stream: u16) -> Self {
        Self { mux: Arc::clone(mux), stream, is_taken: false }
    }

    pub(in crate::xrd) fn stream(&self) -> u16 {
        self.stream
    }

    /// Whether the answer is there, or never comes.
    pub(in crate::xrd) fn is_over(&self) -> bool {
        lock(&self.mux.table).is_over(self.stream)
    }

    /// The answer; data of `pieces` may have gone straight to their places.
    pub(in crate::xrd) async fn answer(
        mut self,
        wait: Wait,
        pieces: &mut [Piece<'_>],
    ) -> Result<Outcome, RequestError> {
        match wait {
            Wait::Thread => self.mux.wait(self.stream, pieces),
            Wait::Task => std::future::poll_fn(|context| self.poll(context)).await,
        }
        let mut table = lock(&self.mux.table);
        let outcome = table.take(self.stream);
        self.is_taken = outcome.is_ok();
        outcome
    }

    fn poll(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut table = lock(&self.mux.table);
        if table.is_over(self.stream) {
            return Poll::Ready(());
        }
        table.set_waiter(self.stream, Some(Waiter::Task(context.waker().clone())));
        Mux::drive(&self.mux, &mut table);
        Poll::Pending
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if !self.is_taken && self.mux.is_ours() {
            lock(&self.mux.table).abandon(self.stream);
        }
    }
}
