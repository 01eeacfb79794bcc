//! Statements whose result nobody waits for: they are sent together.

use super::{Postgres, value::Value};
use crate::store::{StoreError, StoreResult};
use futures_util::future::join_all;

/// Statements that wait to be sent: a group of calls makes fewer.
const QUEUE_MAX: usize = 4096;

/// A statement that was not sent yet.
pub(super) struct Queued {
    pub(super) sql: String,
    pub(super) values: Vec<Value>,
    /// The mark in force.
    pub(super) mark: Mark,
}

/// A mark by its number in the transaction; 0: none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Mark(pub(super) u32);

/// How a transaction is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Health {
    Good,
    /// Something was refused since the mark that is in force: good again after the return to it.
    Hurt,
    /// Something was refused before: the server keeps nothing of it.
    Lost,
}

impl Postgres {
    pub(super) fn enqueue(&self, sql: impl Into<String>, values: Vec<Value>) -> StoreResult<()> {
        self.queue.borrow_mut().push(Queued { sql: sql.into(), values, mark: self.mark.get() });
        if self.queue.borrow().len() >= QUEUE_MAX { self.send_queue() } else { Ok(()) }
    }

    /// Notes that something was refused which was asked under `mark`.
    pub(super) fn refused(&self, mark: Mark) {
        let can_return = mark != Mark::default() && mark == self.mark.get();
        if !can_return {
            self.health.set(Health::Lost);
        } else if self.health.get() == Health::Good {
            self.health.set(Health::Hurt);
        }
    }

    /// Sends what is queued, all at once, and waits for what comes of it.
    pub(super) fn send_queue(&self) -> StoreResult<()> {
        let queue = std::mem::take(&mut *self.queue.borrow_mut());
        if queue.is_empty() {
            return Ok(());
        }
        let mut session = self.session.borrow_mut();
        let outcomes = self.runtime.block_on(async {
            let mut prepared = Vec::with_capacity(queue.len());
            for queued in &queue {
                prepared.push(session.prepare(&queued.sql).await?);
            }
            let client = &session.client;
            // Each is sent when it is first looked at, in this order.
            let sent = prepared
                .iter()
                .zip(&queue)
                .map(|(statement, queued)| client.execute_raw(statement, &queued.values));
            Ok::<_, StoreError>(join_all(sent).await)
        });
        let outcomes = outcomes.inspect_err(|_| self.health.set(Health::Lost))?;
        // The first refusal is the reason of all that follow.
        for (outcome, queued) in outcomes.into_iter().zip(&queue) {
            outcome.inspect_err(|error| {
                // Whoever is told first may be a call of the group: the group must know, too.
                let is_fence = error.code().is_some_and(|code| code.code() == crate::store::engine::FENCED);
                self.is_fenced.set(self.is_fenced.get() || is_fence);
                self.refused(queued.mark);
            })?;
        }
        Ok(())
    }
}
