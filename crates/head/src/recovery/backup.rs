//! Backups of a catalogue that is in use.

use crate::{
    Core, Head,
    executor::service::{Pending, stopped},
    store::Snapshot,
};
use base::{Failure, FilePath, Result, Timestamp};
use tokio::sync::oneshot;

struct TakeSnapshot {
    taken: Option<Result<Snapshot>>,
    reply: oneshot::Sender<Result<Snapshot>>,
}

impl Pending for TakeSnapshot {
    fn paths(&self) -> Vec<FilePath> {
        Vec::new()
    }

    fn apply(&mut self, _: &mut Core, _: Timestamp) {}

    fn follow(&mut self, core: &mut Core, now: Timestamp) {
        self.taken = Some(core.store.snapshot(now).map_err(Failure::from));
    }

    fn answer(self: Box<Self>, committed: &Result<()>) {
        let taken = match committed {
            Ok(()) => self.taken.unwrap_or_else(|| Err(Failure::internal("no snapshot was taken"))),
            Err(failure) => Err(failure.clone()),
        };
        // Whoever asked may be gone: then the snapshot goes too.
        let _ = self.reply.send(taken);
    }
}

impl Head {
    /// The catalogue as it is after the group of calls under way; the head goes on while it is read.
    pub async fn snapshot(&self) -> Result<Snapshot> {
        let (reply, answer) = oneshot::channel();
        self.enqueue_for_thread(Box::new(TakeSnapshot { taken: None, reply }))?;
        answer.await.map_err(|_| stopped())?
    }
}
