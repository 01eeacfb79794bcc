//! Callers that wait for changes. A change of a file or a job wakes the callers whose pending replies depend on it; no
//! timer does. Ten thousand waiters cost nothing while nothing changes.
//!
//! A waiter is registered while its call is carried out, before any later change can be committed, so it misses no
//! change. It repeats its call on its own only rarely, for causes that change no row: permissions of a parent
//! directory, and the passing of time.

use crate::Topic;
use base::{FileId, JobId, Millis};
use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::sync::Notify;
use wire::control::StageRequestId;

/// A waiter for files or jobs looks again after this long even if none of them has changed: ten thousand make 33 looks a second.
const LOOK_AGAIN_KEYED: Duration = Duration::from_secs(300);
/// A waiter for a topic looks again after this long even if nobody announced a change. What comes with time says so itself
/// ([`crate::Core::look_again_in`]); this bound finds what was forgotten.
const LOOK_AGAIN: Duration = Duration::from_secs(30);
/// A look that takes a while is not repeated at once: waiting takes at most a twentieth of the head's time.
const REST_FACTOR: u32 = 20;
/// But whoever waits is never kept from looking for longer than this.
const REST_MAX: Duration = Duration::from_secs(2);

/// Something that changes as a whole, and is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Awaited {
    /// A file, its replicas and copies, its place in the tape queue.
    File(FileId),
    /// A job.
    Job(JobId),
    /// A stage request.
    Stage(StageRequestId),
    /// Which disk servers answer.
    Hosts,
    /// What the session of a mount is to return.
    Mount(share::ClientId),
    /// Leases of mounts on a node; of no node: what sessions have cached before the head started.
    Leases(FileId),
    /// What disk servers are to do with live objects.
    LiveOrders,
}

/// All who wait, by what they wait for.
#[derive(Default)]
pub(crate) struct Waiters {
    /// Guards the table only; nothing else is locked meanwhile.
    table: Mutex<BTreeMap<(Awaited, u64), Weak<Waiter>>>,
    next: AtomicU64,
}

impl Waiters {
    fn table(&self) -> MutexGuard<'_, BTreeMap<(Awaited, u64), Weak<Waiter>>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes whoever waits for one of these.
    pub(crate) fn wake(&self, changed: &[Awaited]) {
        for what in changed {
            // Let go of outside the lock: the last one to do so takes the waiter out of the table.
            let woken: Vec<_> = {
                let table = self.table();
                let range = table.range((*what, 0)..=(*what, u64::MAX));
                range.filter_map(|(_, waiter)| waiter.upgrade()).collect()
            };
            for waiter in woken {
                waiter.notify.notify_one();
            }
        }
    }

    /// How many waits are entered.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.table().len()
    }
}

/// One who waits. It leaves the table when it is dropped.
pub(crate) struct Waiter {
    waiters: Arc<Waiters>,
    id: u64,
    notify: Notify,
    /// What its last look said; held for a moment.
    last: Mutex<RetryAdvice>,
}

/// What a look says about the next one.
#[derive(Debug, Default)]
struct RetryAdvice {
    /// What is waited for; empty: the topic of the call.
    awaited: Vec<Awaited>,
    /// When something comes with time.
    next: Option<Millis>,
    /// How long it took.
    cost: Duration,
}

/// When a waiter looks again.
pub(crate) struct PollInterval {
    /// It waits for files or jobs, not for a topic.
    pub(crate) is_keyed: bool,
    /// At the latest.
    pub(crate) at_most: Duration,
    /// At the earliest.
    pub(crate) at_least: Duration,
}

impl Waiter {
    pub(crate) fn new(waiters: &Arc<Waiters>) -> Arc<Self> {
        let id = waiters.next.fetch_add(1, Ordering::Relaxed);
        let (notify, last) = (Notify::new(), Mutex::default());
        Arc::new(Self { waiters: Arc::clone(waiters), id, notify, last })
    }

    fn last(&self) -> MutexGuard<'_, RetryAdvice> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enters what a pending reply waits for. To be called on the head, before any later call is carried out there.
    pub(crate) fn enter(self: &Arc<Self>, awaited: Vec<Awaited>, look_again: Option<Millis>, cost: Duration) {
        let mut last = self.last();
        if last.awaited != awaited {
            let mut table = self.waiters.table();
            for what in &last.awaited {
                table.remove(&(*what, self.id));
            }
            for what in &awaited {
                table.insert((*what, self.id), Arc::downgrade(self));
            }
        }
        *last = RetryAdvice { awaited, next: look_again, cost };
    }

    /// Returns when something has changed, also if that was before.
    pub(crate) async fn woken(&self) {
        self.notify.notified().await;
    }

    /// When to look again.
    pub(crate) fn pause(&self) -> PollInterval {
        let last = self.last();
        let is_keyed = !last.awaited.is_empty();
        let at_least = (last.cost * REST_FACTOR).min(REST_MAX);
        let told = last.next.map(|span| Duration::from_millis(span.0.max(0).unsigned_abs()));
        let usual = if is_keyed {
            // They came together; they need not look together.
            LOOK_AGAIN_KEYED + Duration::from_millis(self.id % 60_000)
        } else {
            LOOK_AGAIN
        };
        let at_most = told.map_or(usual, |told| told.min(usual)).max(at_least);
        PollInterval { is_keyed, at_most, at_least }
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let last = std::mem::take(self.last.get_mut().unwrap_or_else(PoisonError::into_inner));
        if last.awaited.is_empty() {
            return;
        }
        let mut table = self.waiters.table();
        for what in &last.awaited {
            table.remove(&(*what, self.id));
        }
    }
}

/// What the call under way says about waiting for its reply.
#[derive(Debug, Default)]
pub(crate) struct WaitHints {
    pub(crate) awaited: Vec<Awaited>,
    pub(crate) look_again: Option<Millis>,
}

/// What a group of calls has changed.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    pub(crate) topics: [bool; Topic::ALL.len()],
    pub(crate) awaited: Vec<Awaited>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(id: u64) -> Awaited {
        Awaited::File(FileId(id))
    }

    async fn is_woken(waiter: &Waiter) -> bool {
        tokio::time::timeout(Duration::ZERO, waiter.woken()).await.is_ok()
    }

    #[tokio::test]
    async fn only_who_waits_for_it_is_woken_and_who_leaves_leaves_nothing() {
        let waiters = Arc::new(Waiters::default());
        let [first, second] = [1, 2].map(|id| {
            let waiter = Waiter::new(&waiters);
            waiter.enter(vec![file(id), file(9)], None, Duration::ZERO);
            waiter
        });
        waiters.wake(&[file(1), Awaited::Job(JobId(2))]);
        assert!(is_woken(&first).await && !is_woken(&second).await);
        waiters.wake(&[file(9)]);
        assert!(is_woken(&first).await && is_woken(&second).await);
        // What it does not wait for any more.
        first.enter(vec![file(3)], None, Duration::ZERO);
        waiters.wake(&[file(1), file(9)]);
        assert!(!is_woken(&first).await && is_woken(&second).await);
        assert_eq!(waiters.len(), 3);
        drop((first, second));
        assert_eq!(waiters.len(), 0);
    }

    #[test]
    fn a_look_that_takes_long_is_repeated_less_often() {
        let waiter = Waiter::new(&Arc::default());
        waiter.enter(Vec::new(), None, Duration::from_millis(20));
        let pause = waiter.pause();
        assert_eq!(
            (pause.is_keyed, pause.at_least, pause.at_most),
            (false, Duration::from_millis(400), LOOK_AGAIN)
        );
        waiter.enter(vec![file(1)], Some(Millis(10)), Duration::from_secs(10));
        let pause = waiter.pause();
        assert_eq!((pause.is_keyed, pause.at_least, pause.at_most), (true, REST_MAX, REST_MAX));
    }
}
