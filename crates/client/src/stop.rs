//! A stop signal that wakes the threads of a service, whatever they wait for.
//!
//! A room waits for its head for half a minute at a time, but must stop sooner. [`Stop::ask`] makes such a call on its
//! own thread, which the caller can leave behind. Waiting costs nothing: the signal wakes a thread, and no thread
//! polls.

use base::{Failure, Result};
use std::{
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc},
    thread,
    time::{Duration, Instant},
};

/// How long an answer is waited for: longer than any call to the head may take, which have deadlines of their own.
const ANSWER_MAX: Duration = Duration::from_secs(3600);

/// Tells all threads of a room to stop. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Stop(
    /// Whether it is time to stop; held for a few instructions, and while a thread looks at what it waits for.
    Arc<(Mutex<bool>, Condvar)>,
);

impl Stop {
    /// Tells everybody.
    pub fn set(&self) {
        *self.lock() = true;
        self.0.1.notify_all();
    }

    /// Whether it is time to stop.
    #[must_use]
    pub fn is_set(&self) -> bool {
        *self.lock()
    }

    /// Has all who wait look again: what one of them waits for may have happened.
    pub fn nudge(&self) {
        // Nobody is between a look and its wait then, where a notice would be lost.
        drop(self.lock());
        self.0.1.notify_all();
    }

    /// Waits for `span`, less if it is time to stop; whether it is.
    pub fn wait(&self, span: Duration) -> bool {
        self.wait_until(span, || false)
    }

    /// Waits for `span`, less if it is time to stop or `is_enough`, which is looked at again after each [`Self::nudge`]; whether it
    /// is time to stop. `is_enough` must be quick and must not use this [`Stop`].
    pub fn wait_until(&self, span: Duration, mut is_enough: impl FnMut() -> bool) -> bool {
        let until = Instant::now() + span;
        let mut is_set = self.lock();
        while !*is_set && !is_enough() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let woken = self.0.1.wait_timeout(is_set, left);
            is_set = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        *is_set
    }

    /// Makes a call on a thread of its own; `None` if it is time to stop before the answer is there.
    pub fn ask<T: Send + 'static>(
        &self,
        name: &str,
        call: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Option<Result<T>> {
        let (sender, receiver) = mpsc::sync_channel(1);
        let nudge = WakeOnDrop(self.clone());
        let caller = thread::Builder::new().name(name.to_owned()).spawn(move || {
            // Dropped after the sender, also when the call panics.
            let _nudge = nudge;
            let sender = sender;
            // Nobody listens after a stop: the head asks or is asked again.
            let _ = sender.send(call());
        });
        if let Err(cause) = caller {
            return Some(Err(Failure::io("start a thread for a call", &cause)));
        }
        let mut answer = None;
        let is_stopping = self.wait_until(ANSWER_MAX, || {
            answer = match receiver.try_recv() {
                Ok(outcome) => Some(outcome),
                Err(mpsc::TryRecvError::Empty) => None,
                Err(mpsc::TryRecvError::Disconnected) => {
                    Some(Err(Failure::internal("a call to the head panicked")))
                }
            };
            answer.is_some()
        });
        let overdue = || Failure::timeout("the head has not answered for one hour").hint("see its log");
        answer.or_else(|| (!is_stopping).then(|| Err(overdue())))
    }

    fn lock(&self) -> MutexGuard<'_, bool> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Nudges when it is dropped.
struct WakeOnDrop(Stop);

impl Drop for WakeOnDrop {
    fn drop(&mut self) {
        self.0.nudge();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::ErrorKind;

    #[test]
    fn an_answer_wakes_whoever_asked_and_a_stop_leaves_the_call_behind() {
        let stop = Stop::default();
        assert_eq!(stop.ask("call", || Ok(7)), Some(Ok(7)));
        let panicked = stop.ask("call", || -> Result<()> { panic!("as a test") });
        assert_eq!(panicked.unwrap().unwrap_err().kind, ErrorKind::Internal);
        let (release, held) = mpsc::channel::<()>();
        let other = stop.clone();
        let left = stop.ask("call", move || {
            other.set();
            // Until the test has seen that nobody waited for it.
            held.recv().map_err(|_| Failure::internal("released"))
        });
        assert_eq!(left, None);
        drop(release);
        assert!(stop.wait(Duration::from_secs(3600)), "it is time to stop");
    }

    #[test]
    fn a_nudge_has_everybody_look_again() {
        let (stop, flag) = (Stop::default(), Arc::new(Mutex::new(false)));
        let (nudger, set) = (stop.clone(), Arc::clone(&flag));
        let thread = thread::spawn(move || {
            *set.lock().unwrap() = true;
            nudger.nudge();
        });
        assert!(!stop.wait_until(Duration::from_secs(3600), || *flag.lock().unwrap()));
        thread.join().unwrap();
    }
}
