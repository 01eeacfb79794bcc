//! The lane of a session: its data requests in order, many in one visit to a blocking thread.

use super::{
    OpenFile,
    data::Step,
    outbox::{Gone, Outbox},
};
use crate::shutdown::Guard;
use base::limits::XRD_READ_SEGMENT_BYTES;
use std::sync::Arc;
use tokio::task::{JoinHandle, spawn_blocking};

/// Steps in order. While one batch runs, the next is collected.
#[derive(Debug)]
pub(super) struct Lane<F> {
    outbox: Arc<Outbox>,
    /// Held by every batch, so that shutdown waits for it even if the session is gone.
    guard: Arc<Guard>,
    batch: Vec<Step<F>>,
    batch_cost: usize,
    /// The batch that runs; it yields whether its last request was answered completely.
    running: Option<JoinHandle<bool>>,
}

impl<F: OpenFile> Lane<F> {
    pub(super) fn new(outbox: Arc<Outbox>, guard: Arc<Guard>) -> Self {
        Self { outbox, guard, batch: Vec::new(), batch_cost: 0, running: None }
    }

    /// Adds a step; runs what was collected before if the batch becomes too large.
    pub(super) async fn add(&mut self, step: Step<F>) -> Result<(), Gone> {
        let cost = step.cost();
        if self.batch_cost + cost > XRD_READ_SEGMENT_BYTES {
            self.flush().await?;
        }
        self.batch_cost += cost;
        self.batch.push(step);
        Ok(())
    }

    /// Starts what was collected, after what runs.
    pub(super) async fn flush(&mut self) -> Result<(), Gone> {
        if self.batch.is_empty() {
            return Ok(());
        }
        self.wait().await?;
        let steps = std::mem::take(&mut self.batch);
        self.batch_cost = 0;
        let credit = self.outbox.reserve(steps.iter().map(Step::answer_bytes).sum()).await?;
        let (outbox, guard) = (Arc::clone(&self.outbox), Arc::clone(&self.guard));
        self.running = Some(spawn_blocking(move || {
            let mut out = outbox.buffer();
            let recycle = |data| outbox.recycle(data);
            let is_complete = steps.into_iter().fold(true, |_, step| step.run(&mut out, recycle));
            outbox.push(out, credit);
            drop(guard);
            is_complete
        }));
        Ok(())
    }

    /// Waits for what runs. Yields whether the last request was answered completely.
    pub(super) async fn wait(&mut self) -> Result<bool, Gone> {
        let Some(running) = &mut self.running else {
            return Ok(true);
        };
        let outcome = running.await;
        self.running = None;
        outcome.map_err(|error| {
            tracing::error!(%error, "a data request panicked");
            Gone
        })
    }

    /// Runs everything to its end.
    pub(super) async fn drain(&mut self) -> Result<bool, Gone> {
        self.flush().await?;
        self.wait().await
    }
}
