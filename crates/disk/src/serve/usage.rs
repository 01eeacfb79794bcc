//! Reports traffic and opens that the doors served without the head, once a second.

use crate::port::Head;
use base::{Failure, FileId, ObjectId, Result};
use net::shutdown::{Shutdown, Token};
use std::{
    collections::{HashMap, HashSet},
    mem,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};
use tracing::warn;
use wire::control::{REPORT_USE_LEN_MAX, ReportDamage, ReportTraffic, ReportUse};

/// How long the head may not know: a crash loses so much of the bill, and nothing else.
const REPORT_EVERY: Duration = Duration::from_secs(1);
/// Objects in one report that could not be read: more of them are met again.
const UNREADABLE_MAX: usize = 100;

#[derive(Default)]
struct Unreported {
    /// What each user read, by object; `None`: of many.
    read: HashMap<String, HashMap<Option<ObjectId>, Reads>>,
    /// Lines of `read`.
    lines: usize,
    opened: HashSet<ObjectId>,
    /// Reads that failed on disk.
    unreadable: HashSet<(FileId, ObjectId)>,
}

/// The traffic of an object.
#[derive(Default)]
struct Reads {
    bytes: u64,
    transfers: u64,
}

impl Unreported {
    /// Counts what `user` read. With too many lines for a report those of new objects become one for each user.
    fn read(&mut self, user: &str, object: ObjectId, bytes: u64) {
        if !self.read.contains_key(user) {
            if self.lines >= REPORT_USE_LEN_MAX {
                warn!(user, bytes, "too many users in one second; the bytes of some are not billed");
                return;
            }
            self.read.insert(user.to_owned(), HashMap::new());
            // Room for the line of many objects is always kept.
            self.lines += 1;
        }
        let Some(own) = self.read.get_mut(user) else { return };
        let is_known = own.contains_key(&Some(object));
        let object = if is_known || self.lines < REPORT_USE_LEN_MAX { Some(object) } else { None };
        self.lines += usize::from(object.is_some() && !is_known);
        let reads = own.entry(object).or_default();
        reads.bytes += bytes;
        reads.transfers += 1;
    }

    fn traffic(read: HashMap<String, HashMap<Option<ObjectId>, Reads>>) -> Vec<ReportTraffic> {
        let line = |owner: &str, object, Reads { bytes, transfers }| ReportTraffic {
            owner: owner.to_owned(),
            out_bytes: bytes,
            out_transfers: transfers,
            object,
        };
        let mut lines = Vec::new();
        for (owner, own) in read {
            lines.extend(own.into_iter().map(|(object, reads)| line(&owner, object, reads)));
        }
        lines
    }
}

/// Traffic and opens since the last report.
#[derive(Default)]
pub(crate) struct Uses {
    untold: Mutex<Unreported>,
    /// Files that are open for reading.
    readers: AtomicU32,
}

impl Uses {
    /// Begins to count, and reports until `tasks` stop.
    pub(crate) fn start(head: &Head, tasks: &Shutdown) -> Arc<Self> {
        let uses = Arc::new(Self::default());
        tasks.spawn("bill", keep(head.clone(), Arc::clone(&uses), tasks.token()));
        uses
    }

    fn untold(&self) -> MutexGuard<'_, Unreported> {
        self.untold.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Files that are open for reading now.
    pub(crate) fn readers(&self) -> u32 {
        self.readers.load(Ordering::Relaxed)
    }

    /// A file is opened for reading, until [`Self::closed`].
    pub(crate) fn began(&self) {
        self.readers.fetch_add(1, Ordering::Relaxed);
    }

    /// It is closed.
    pub(crate) fn closed(&self) {
        self.readers.fetch_sub(1, Ordering::Relaxed);
    }

    /// Counts bytes that `user` read of an object.
    pub(crate) fn read(&self, user: &str, object: ObjectId, bytes: u64) {
        if bytes > 0 {
            self.untold().read(user, object, bytes);
        }
    }

    /// Notes that an object was opened from a kept grant.
    pub(crate) fn opened(&self, object: ObjectId) {
        let mut untold = self.untold();
        if untold.opened.len() < REPORT_USE_LEN_MAX {
            untold.opened.insert(object);
        }
    }

    /// Notes that an object could not be read.
    pub(crate) fn unreadable(&self, file: FileId, object: ObjectId) {
        let mut untold = self.untold();
        if untold.unreadable.len() < UNREADABLE_MAX {
            untold.unreadable.insert((file, object));
        }
    }

    /// Tells the head what it does not know yet.
    async fn report(&self, head: &Head) -> Result<()> {
        let Unreported { read, opened, unreadable, .. } = mem::take(&mut *self.untold());
        let mut outcome = Ok(());
        if !read.is_empty() || !opened.is_empty() {
            let call = ReportUse { traffic: Unreported::traffic(read), opened: opened.into_iter().collect() };
            outcome = head.call(call).await.map(drop);
        }
        for (file, object) in unreadable {
            warn!(%file, %object, "cannot read an object; reporting it to the head");
            if let Err(failure) = head.call(ReportDamage { file, objects: vec![object] }).await {
                warn!(%file, %object, %failure, "could not tell the head that an object is unreadable");
                // The others would wait for it as long; whoever reads them meets them again.
                break;
            }
        }
        outcome
    }
}

async fn keep(head: Head, uses: Arc<Uses>, token: Token) {
    while !token.is_stopped() {
        // Stopping ends the pause; running out of time is the usual way.
        let _ = tokio::time::timeout(REPORT_EVERY, token.stopped()).await;
        log(uses.report(&head).await);
    }
    // Files that were closed since.
    log(uses.report(&head).await);
}

fn log(outcome: Result<(), Failure>) {
    if let Err(failure) = outcome {
        warn!(%failure, "one usage report was dropped");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_are_told_by_object_and_a_report_is_never_too_long() {
        let mut untold = Unreported::default();
        for object in 0..2 * REPORT_USE_LEN_MAX as u64 {
            untold.read("ada", ObjectId(object), 10);
        }
        untold.read("ada", ObjectId(0), 5);
        let lines = Unreported::traffic(untold.read);
        assert!(lines.len() <= REPORT_USE_LEN_MAX);
        let (bytes, transfers) =
            lines.iter().fold((0, 0), |sum, line| (sum.0 + line.out_bytes, sum.1 + line.out_transfers));
        assert_eq!(
            (bytes, transfers),
            (20 * REPORT_USE_LEN_MAX as u64 + 5, 2 * REPORT_USE_LEN_MAX as u64 + 1)
        );
        let first = lines.iter().find(|line| line.object == Some(ObjectId(0))).expect("it has its own line");
        assert_eq!((first.out_bytes, first.out_transfers), (15, 2));
    }
}
