//! The session with the head: its lease is renewed, grants are returned that the head asks back, and what is cached of names and
//! attributes is forgotten before it changes.

use crate::{
    head::{is_session_gone, now},
    mount::Mount,
};
use base::Millis;
use share::{ClientId, Incarnation};
use std::{
    collections::HashSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use wire::control::{NextRecalls, Recall, Recalls};

/// How long the head may hold an answer back: a fourth of a lease.
const RENEW: Millis = Millis::from_seconds(5);
/// How long a head that does not answer is left alone.
const PAUSE: Duration = Duration::from_millis(500);
/// How long a recall is left alone whose grant has not arrived yet.
const EARLY: Duration = Duration::from_millis(5);

/// Recalls that are worked on.
#[derive(Debug, Default)]
pub(crate) struct Recalling {
    files: Mutex<HashSet<Key>>,
}

type Key = (base::FileId, share::Generation);

impl Recalling {
    /// Notes that a recall is worked on. Yields whether it was not before.
    fn begin(&self, recall: &Recall) -> bool {
        self.lock().insert((recall.file, recall.generation))
    }

    fn end(&self, recall: &Recall) {
        self.lock().remove(&(recall.file, recall.generation));
    }

    /// All of them: the head need not tell them again.
    fn all(&self) -> Vec<Recall> {
        self.lock().iter().map(|&(file, generation)| Recall { file, generation }).collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<Key>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the next question says.
#[derive(Debug, Default)]
struct Renewal {
    client: ClientId,
    round: u64,
    /// The start of the head whose leases are used.
    start: Incarnation,
    /// Up to which number all was forgotten.
    acknowledged: u64,
}

impl Renewal {
    /// The next question. A new session has nothing cached; what belonged to the one before is forgotten.
    fn next(&mut self, mount: &Mount) -> NextRecalls {
        let client = mount.head.client();
        if self.client != client {
            mount.forget_all();
            *self = Self { client, start: mount.head.start(), ..Self::default() };
        }
        self.round += 1;
        let Self { round, start, acknowledged, .. } = *self;
        NextRecalls { client, round, start, acknowledged, working: mount.recalling.all() }
    }

    /// Forgets what the head wants to be forgotten, before the lease counts as renewed by its answer.
    fn take(&mut self, mount: &Mount, recalls: &Recalls, sent: i64) {
        if recalls.must_forget || !mount.head.is_lease_valid() {
            mount.forget_all();
        } else if !recalls.invalidations.is_empty() {
            mount.forget(&recalls.invalidations);
        }
        (self.start, self.acknowledged) = (recalls.start, recalls.number);
        mount.head.renewed(sent);
    }
}

/// Renews the lease until the mount ends. Nothing here waits for a request of this mount: such a request may wait for what is
/// forgotten here.
pub(crate) fn keep(mount: &Arc<Mount>) {
    let mut renewal = Renewal::default();
    while !mount.head.stop().is_set() {
        let (call, sent) = (renewal.next(mount), now());
        match mount.head.call_once(&call, RENEW) {
            Ok(recalls) => {
                mount.head.note_answer();
                renewal.take(mount, &recalls, sent);
                if recalls.recalls.is_empty() {
                    mount.send_old();
                }
                for recall in recalls.recalls.iter().filter(|recall| mount.recalling.begin(recall)) {
                    work(mount, call.client, recall);
                }
            }
            // The mount itself ended it.
            Err(_) if mount.head.stop().is_set() => break,
            Err(failure) if is_session_gone(&failure, call.client) => {
                if let Err(failure) = mount.head.begin_anew(call.client) {
                    tracing::warn!(%failure, "no new session can be begun");
                    mount.head.stop().wait(PAUSE);
                }
            }
            Err(failure) => {
                mount.head.note_silence(&failure);
                mount.head.stop().wait(PAUSE);
            }
        }
    }
}

/// Has a thread return a grant. There is always one: those who wait for grants do not use these.
fn work(mount: &Arc<Mount>, client: ClientId, recall: &Recall) {
    let (own, recall) = (Arc::clone(mount), recall.clone());
    let missed = recall.clone();
    let job = move || {
        // Its grant may still be on its way to the thread that has asked for it.
        while !own.recall(client, &recall) && !own.head.stop().wait(EARLY) {}
        own.recalling.end(&recall);
    };
    if !mount.recallers.run(job) {
        mount.recalling.end(&missed);
    }
}
