//! What the doors did without asking the head, told to it once a second.

use crate::link::Link;
use base::{Failure, ObjectId, Result};
use net::shutdown::{Shutdown, Token};
use std::{
    collections::{HashMap, HashSet},
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use wire::control::{REPORT_USE_LEN_MAX, ReportTraffic, ReportUse};

/// How long the head may not know: a crash loses so much of the bill, and nothing else.
const REPORT_EVERY: Duration = Duration::from_secs(1);

#[derive(Default)]
struct Untold {
    /// Bytes read by user.
    read: HashMap<String, u64>,
    opened: HashSet<ObjectId>,
}

/// Traffic and opens since the last report.
pub(crate) struct Uses(Mutex<Untold>);

impl Uses {
    /// Begins to count, and reports until `tasks` stop.
    pub(crate) fn start(link: &Link, tasks: &Shutdown) -> Arc<Self> {
        let uses = Arc::new(Self(Mutex::default()));
        tasks.spawn("bill", keep(link.clone(), Arc::clone(&uses), tasks.token()));
        uses
    }

    fn untold(&self) -> MutexGuard<'_, Untold> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts bytes that `user` read.
    pub(crate) fn read(&self, user: &str, bytes: u64) {
        if bytes == 0 {
            return;
        }
        let mut untold = self.untold();
        if let Some(sum) = untold.read.get_mut(user) {
            *sum += bytes;
        } else if untold.read.len() < REPORT_USE_LEN_MAX {
            untold.read.insert(user.to_owned(), bytes);
        } else {
            tracing::warn!(user, bytes, "too many users in one second for the bill");
        }
    }

    /// Notes that an object was opened from a kept grant.
    pub(crate) fn opened(&self, object: ObjectId) {
        let mut untold = self.untold();
        if untold.opened.len() < REPORT_USE_LEN_MAX {
            untold.opened.insert(object);
        }
    }

    /// Tells the head what it does not know yet.
    async fn report(&self, link: &Link) -> Result<()> {
        let Untold { read, opened } = mem::take(&mut *self.untold());
        if read.is_empty() && opened.is_empty() {
            return Ok(());
        }
        let line = |(owner, out_bytes)| ReportTraffic { owner, in_bytes: 0, out_bytes };
        let traffic = read.into_iter().map(line).collect();
        let call = ReportUse { traffic, opened: opened.into_iter().collect() };
        link.call(call).await.map(drop)
    }
}

async fn keep(link: Link, uses: Arc<Uses>, token: Token) {
    while !token.is_stopped() {
        // Stopping ends the pause; running out of time is the usual way.
        let _ = tokio::time::timeout(REPORT_EVERY, token.stopped()).await;
        log(uses.report(&link).await);
    }
    // Files that were closed since.
    log(uses.report(&link).await);
}

fn log(outcome: Result<(), Failure>) {
    if let Err(failure) = outcome {
        tracing::warn!(%failure, "a second of the bill is lost");
    }
}
