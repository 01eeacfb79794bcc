//! The users whose jobs a worker runs: as it registered, less those whom it refused since.

use super::{is_available, plan::admits};
use crate::{
    Core,
    store::{JobRow, WorkerRow},
};
use base::{Failure, Millis, Result, Timestamp};
use std::collections::BTreeMap;

/// How long a refusal counts: an operator may have made the user known to the worker's host since.
const REFUSED_FOR: Millis = Millis::from_seconds(600);
/// Refusals that are remembered. A forgotten one costs one more order that comes back.
const REFUSALS_MAX: usize = 10_000;

/// The submitter of a job.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Submitter<'a> {
    pub(crate) name: &'a str,
    /// Proven at the submission.
    pub(crate) is_facility_owner: bool,
}

impl<'a> From<&'a JobRow> for Submitter<'a> {
    fn from(job: &'a JobRow) -> Self {
        Self { name: &job.owner, is_facility_owner: job.is_of_facility_owner }
    }
}

/// Workers that refused the jobs of a user, with what they said. Not worth a commit: they say it again.
#[derive(Debug, Default)]
pub(crate) struct Refusals(BTreeMap<(String, String), (Timestamp, Failure)>);

impl Refusals {
    pub(super) fn put(&mut self, worker: &str, user: &str, why: Failure, now: Timestamp) {
        if self.0.len() >= REFUSALS_MAX {
            self.0.clear();
        }
        self.0.insert((worker.to_owned(), user.to_owned()), (now, why));
    }

    pub(super) fn of(&self, worker: &str, user: &str, now: Timestamp) -> Option<&Failure> {
        let (at, why) = self.0.get(&(worker.to_owned(), user.to_owned()))?;
        (now - *at < REFUSED_FOR).then_some(why)
    }

    /// The worker registers: it may be configured in another way now.
    pub(super) fn forget(&mut self, worker: &str) {
        self.0.retain(|(by, _), _| by != worker);
    }
}

/// Why a worker does not run jobs of `who`; `None` if it does, or may do so.
pub(super) fn refusal(
    core: &Core,
    worker: &WorkerRow,
    who: &Submitter<'_>,
    now: Timestamp,
) -> Option<Failure> {
    if !admits(&worker.users, who) {
        let what = format!("{} {}", worker.name, worker.users.why);
        let refused = Failure::permission(what.trim_end().to_owned());
        let hint = &worker.users.hint;
        return Some(if hint.is_empty() { refused } else { refused.hint(hint.clone()) });
    }
    let refused = core.live.refusals.of(&worker.name, who.name, now)?;
    let what = format!("{} refused: {}", worker.name, refused.what);
    Some(Failure { what, ..refused.clone() })
}

/// Why no worker runs jobs of `who`; `None` if one does, or if there is no worker. Those that are here count, or all if none is.
pub(super) fn nobody_runs(core: &Core, who: &Submitter<'_>, now: Timestamp) -> Result<Option<Failure>> {
    let mut workers = core.store.workers()?;
    if workers.iter().any(|worker| is_available(core, &worker.name, now)) {
        workers.retain(|worker| is_available(core, &worker.name, now));
    }
    let mut first = None;
    for worker in &workers {
        match refusal(core, worker, who, now) {
            None => return Ok(None),
            Some(refused) => _ = first.get_or_insert(refused),
        }
    }
    Ok(first.map(|refused| {
        let what = format!("no worker runs jobs of user {}: {}", who.name, refused.what);
        Failure { what, ..refused }
    }))
}
