//! A call that the mover thread carries out itself, if it is quick and the only call of its session.
//!
//! Other calls are tasks. Such a call wakes a thread of the runtime, that thread wakes the session when it has the
//! answer, and the session wakes a mover. On a virtual machine this takes longer than most calls. A client that sends
//! one request after the other waits for the answer anyway.

use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Wake, Waker},
    thread::{self, Thread},
    time::{Duration, Instant},
};

type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A call under way. Nobody ever waits for the lock: it lets the session be looked at from several threads.
pub(super) struct Call(Mutex<Work>);

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

thread_local! {
    static WAKER: Waker = Waker::from(Arc::new(Unpark(thread::current())));
}

impl Call {
    pub(super) fn new(work: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(Mutex::new(Box::pin(work)))
    }

    /// Goes on with it on this thread for `patience` at most; whether it has ended.
    pub(super) fn carry_on(&mut self, patience: Duration) -> bool {
        let work = self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        let began = Instant::now();
        WAKER.with(|waker| {
            let mut context = Context::from_waker(waker);
            loop {
                if work.as_mut().poll(&mut context).is_ready() {
                    return true;
                }
                let left = patience.saturating_sub(began.elapsed());
                if left.is_zero() {
                    return false;
                }
                thread::park_timeout(left);
            }
        })
    }

    /// The rest of the call, for a task.
    pub(super) fn rest(self) -> impl Future<Output = ()> + Send + 'static {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::oneshot;

    fn waits() -> (oneshot::Sender<()>, Call) {
        let (answer, answered) = oneshot::channel();
        (answer, Call::new(async { drop(answered.await) }))
    }

    #[test]
    fn what_is_answered_meanwhile_ends_here() {
        let (answer, mut call) = waits();
        let other = thread::spawn(|| answer.send(()));
        assert!(call.carry_on(Duration::MAX));
        other.join().unwrap().unwrap();
    }

    #[tokio::test]
    async fn what_takes_longer_ends_in_a_task() {
        let (answer, mut call) = waits();
        assert!(!call.carry_on(Duration::from_millis(1)));
        let task = tokio::spawn(call.rest());
        answer.send(()).unwrap();
        task.await.unwrap();
    }
}
