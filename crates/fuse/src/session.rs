//! The session with the head: its lease is renewed, and grants are returned that the head asks back.

use crate::{
    head::{is_session_gone, now},
    mount::Mount,
};
use base::Millis;
use std::{
    collections::HashSet,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use wire::control::{NextRecalls, Recall};

/// How long the head may hold an answer back: a fourth of a lease.
const RENEW: Millis = Millis::from_seconds(5);
/// How long a head that does not answer is left alone.
const PAUSE: Duration = Duration::from_millis(500);
/// How long recalls that are worked on are waited for before the head is asked again.
const WORK: Duration = Duration::from_secs(1);
/// How long a recall is left alone whose grant has not arrived yet.
const EARLY: Duration = Duration::from_millis(5);

/// Recalls that are worked on.
#[derive(Debug, Default)]
pub(crate) struct Recalling {
    files: Mutex<HashSet<Key>>,
    done: Condvar,
}

type Key = (base::FileId, share::Generation);

impl Recalling {
    /// Notes that a recall is worked on. Yields whether it was not before.
    fn begin(&self, recall: &Recall) -> bool {
        self.lock().insert((recall.file, recall.generation))
    }

    fn end(&self, recall: &Recall) {
        self.lock().remove(&(recall.file, recall.generation));
        self.done.notify_all();
    }

    /// Waits until one of them is done.
    fn wait(&self) {
        let files = self.lock();
        let count = files.len();
        let more = |files: &mut HashSet<Key>| count > 0 && files.len() >= count;
        drop(self.done.wait_timeout_while(files, WORK, more));
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<Key>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Renews the lease and returns grants until the mount ends.
pub(crate) fn keep(mount: &Arc<Mount>) {
    while !mount.head.stop().is_set() {
        let (client, sent) = (mount.head.client(), now());
        match mount.head.call_once(&NextRecalls { client }, RENEW) {
            Ok(recalls) => {
                mount.head.renewed(sent);
                mount.head.note_answer();
                let mut is_new = false;
                for recall in recalls.recalls.iter().filter(|recall| mount.recalling.begin(recall)) {
                    is_new = true;
                    work(mount, client, recall);
                }
                if !is_new && !recalls.recalls.is_empty() {
                    mount.recalling.wait();
                }
            }
            Err(failure) if is_session_gone(&failure, client) => {
                if let Err(failure) = mount.head.begin_anew(client) {
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
fn work(mount: &Arc<Mount>, client: share::ClientId, recall: &Recall) {
    let (own, recall) = (Arc::clone(mount), recall.clone());
    let missed = recall.clone();
    let job = move || {
        if !own.recall(client, &recall) {
            // The head repeats it.
            own.head.stop().wait(EARLY);
        }
        own.recalling.end(&recall);
    };
    if !mount.recallers.run(job) {
        mount.recalling.end(&missed);
    }
}
