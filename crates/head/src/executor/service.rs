//! The head on its thread: calls queue up, are committed in groups, and are answered once they are durable.

use crate::{
    Apply, Core, Principal, Topic, Waits,
    executor::{apply::Context, group_executor::GroupExecutor},
    waiters::{Waiter, Waiters},
};
use base::{Clock, ErrorKind, Failure, FilePath, Millis, Result, Timestamp, limits::HEAD_QUEUE_LEN_MAX};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
        mpsc,
    },
    thread::{self, JoinHandle, Thread},
    time::Duration,
};
use tokio::{
    sync::{
        oneshot::{self, error::TryRecvError},
        watch,
    },
    time::{Instant, sleep, timeout},
};

/// A waiting caller that finds the queue full comes again after this long: many are woken at once.
const COME_AGAIN: Duration = Duration::from_millis(50);

/// A call under way, with its type forgotten.
pub(crate) trait Pending: Send {
    fn paths(&self) -> Vec<FilePath>;
    fn apply(&mut self, core: &mut Core, now: Timestamp);
    /// What is left to do once the group is durable.
    fn follow(&mut self, _core: &mut Core, _now: Timestamp) {}
    fn answer(self: Box<Self>, committed: &Result<()>);
    /// Wakes a caller that may carry this out itself now.
    fn wake(&self) {}
}

struct Ask<C: Apply> {
    call: Option<C>,
    who: Principal,
    result: Option<Result<C::Reply>>,
    reply: oneshot::Sender<Result<C::Reply>>,
    /// Dropped after the answer is there.
    caller: Option<Caller>,
    /// Waits if the reply is pending.
    waiter: Option<Arc<Waiter>>,
}

/// A thread that waits beside the seat. It is woken when its call is answered or dropped.
struct Caller(Thread);

impl Drop for Caller {
    fn drop(&mut self) {
        self.0.unpark();
    }
}

impl<C: Apply> Pending for Ask<C> {
    fn paths(&self) -> Vec<FilePath> {
        self.call.as_ref().map(Apply::paths).unwrap_or_default()
    }

    fn apply(&mut self, core: &mut Core, now: Timestamp) {
        let context = Context { who: self.who.clone(), now };
        let begun = self.waiter.as_ref().map(|_| std::time::Instant::now());
        self.result = self.call.take().map(|call| core.apply(&context, call));
        let is_pending = matches!(&self.result, Some(Ok(reply)) if C::is_pending(reply));
        if let (Some(waiter), Some(begun), true) = (&self.waiter, begun, is_pending) {
            let hints = core.take_hints();
            waiter.enter(hints.awaited, hints.look_again, begun.elapsed());
        }
    }

    fn answer(self: Box<Self>, committed: &Result<()>) {
        let result = match (committed, self.result) {
            (Err(failure), _) => Err(failure.clone()),
            (Ok(()), Some(result)) => result,
            (Ok(()), None) => Err(Failure::internal("call was not carried out")),
        };
        // The caller may have given up waiting; what it asked for is done all the same.
        let _ = self.reply.send(result);
    }

    fn wake(&self) {
        if let Some(Caller(thread)) = &self.caller {
            thread.unpark();
        }
    }
}

/// The callers that wait for a change.
pub(crate) struct Watched {
    pub(crate) changes: [watch::Sender<u64>; Topic::ALL.len()],
    /// The callers that wait for single files or jobs.
    pub(crate) waiters: Arc<Waiters>,
    /// Another head has taken over.
    pub(crate) superseded: watch::Sender<bool>,
    /// Calls in the queue, and those of the group under way.
    pub(crate) waiting: AtomicUsize,
}

/// A handle on the running head. Clones reach the same head; it stops when the last one is gone.
#[derive(Clone)]
pub struct Head {
    /// Let go before the queue, whose end ends the thread: that one closes the catalogue.
    executor: Arc<GroupExecutor>,
    queue: mpsc::SyncSender<Box<dyn Pending>>,
    pub(crate) watched: Arc<Watched>,
    namespace_version: Arc<AtomicU64>,
    waits: Arc<Waits>,
}

impl Head {
    /// Puts `core` on its thread. Join the handle after dropping the last [`Head`] to be sure that it has stopped.
    pub fn start(core: Core, clock: Clock) -> Result<(Self, JoinHandle<()>)> {
        let (queue, calls) = mpsc::sync_channel(HEAD_QUEUE_LEN_MAX);
        let (namespace_version, waits) = (core.shared_namespace_version(), core.shared_waits());
        let watched = Arc::new(Watched {
            changes: Topic::ALL.map(|_| watch::Sender::new(0)),
            waiters: Arc::default(),
            superseded: watch::Sender::new(false),
            waiting: AtomicUsize::new(0),
        });
        let executor = Arc::new(GroupExecutor::new(core, clock, Arc::clone(&watched)));
        let thread = thread::Builder::new()
            .name("head".into())
            .spawn({
                let executor = Arc::clone(&executor);
                move || executor.run(&calls)
            })
            .map_err(|cause| Failure::io("start the head's thread", &cause))?;
        Ok((Self { executor, queue, watched, namespace_version, waits }, thread))
    }

    /// Makes a call on this thread, or with another caller that is there already, if nobody waits for the head's thread and
    /// its catalogue is at hand: fewer threads need to wake each other then. For quick calls, from threads that may wait for
    /// a disk.
    pub fn call_inline<C: Apply>(&self, who: &Principal, call: C) -> Option<Result<C::Reply>> {
        if !self.executor.may_execute_inline() {
            return None;
        }
        let (reply, mut answer) = oneshot::channel();
        let caller = Some(Caller(thread::current()));
        self.executor.enqueue(Box::new(Ask {
            call: Some(call),
            who: who.clone(),
            result: None,
            reply,
            caller,
            waiter: None,
        }));
        loop {
            self.executor.serve();
            if let Some(reply) = answered(&mut answer) {
                return Some(reply);
            }
            thread::park();
            if let Some(reply) = answered(&mut answer) {
                return Some(reply);
            }
        }
    }

    /// Makes a call and waits until its effect is durable.
    pub async fn call<C: Apply>(&self, who: &Principal, call: C) -> Result<C::Reply> {
        let answer = self.ask(who, call, None)?;
        answer.await.map_err(|_| stopped())?
    }

    /// Puts a call in the queue.
    fn ask<C: Apply>(
        &self,
        who: &Principal,
        call: C,
        waiter: Option<Arc<Waiter>>,
    ) -> Result<oneshot::Receiver<Result<C::Reply>>> {
        let (reply, answer) = oneshot::channel();
        let ask = Ask { call: Some(call), who: who.clone(), result: None, reply, caller: None, waiter };
        self.enqueue_for_thread(Box::new(ask))?;
        Ok(answer)
    }

    /// Puts something that is no call in the queue.
    pub(crate) fn enqueue_for_thread(&self, pending: Box<dyn Pending>) -> Result<()> {
        self.watched.waiting.fetch_add(1, Ordering::AcqRel);
        self.queue.try_send(pending).map_err(|cause| {
            self.watched.waiting.fetch_sub(1, Ordering::AcqRel);
            refused(&cause)
        })
    }

    /// Makes a call until its reply is not pending any more or `wait` is over: again whenever something has changed that the reply
    /// waits for.
    pub async fn call_waiting<C: Apply>(&self, who: &Principal, call: C, wait: Millis) -> Result<C::Reply> {
        self.call_until(who, call, wait, |_| false).await
    }

    /// The same, but a pending reply that `is_news` is given at once: for people who want to see how far it is.
    pub async fn call_until<C: Apply>(
        &self,
        who: &Principal,
        call: C,
        wait: Millis,
        is_news: impl Fn(&C::Reply) -> bool,
    ) -> Result<C::Reply> {
        if wait.0 <= 0 {
            return self.call(who, call).await;
        }
        let deadline = Instant::now() + Duration::from_millis(wait.0.unsigned_abs());
        let waiter = Waiter::new(&self.watched.waiters);
        let mut changes = self.watch(C::TOPIC);
        let mut answer = self.ask(who, call.clone(), Some(Arc::clone(&waiter)))?;
        loop {
            let reply = answer.await.map_err(|_| stopped())??;
            if !C::is_pending(&reply) || is_news(&reply) || Instant::now() >= deadline {
                return Ok(reply);
            }
            drop(reply);
            self.rest(&waiter, &mut changes, deadline).await;
            changes.borrow_and_update();
            answer = loop {
                match self.ask(who, call.clone(), Some(Arc::clone(&waiter))) {
                    // So many are woken at once that not all find a place in the queue.
                    Err(failure) if failure.kind == ErrorKind::Busy && Instant::now() < deadline => {
                        sleep(COME_AGAIN).await;
                    }
                    asked => break asked?,
                }
            };
        }
    }

    /// Returns when it is worth looking again, or at the deadline.
    async fn rest(&self, waiter: &Waiter, changes: &mut watch::Receiver<u64>, deadline: Instant) {
        let (begun, pause) = (Instant::now(), waiter.pause());
        let left = deadline.saturating_duration_since(begun);
        let change = async {
            if pause.is_keyed {
                waiter.woken().await;
            } else {
                // The sender lives as long as this handle.
                let _ = changes.changed().await;
            }
        };
        if timeout(left.min(pause.at_most), change).await.is_ok() {
            sleep(pause.at_least.min(left).saturating_sub(begun.elapsed())).await;
        }
    }

    /// The version of the namespace, for doors that keep answers. It begins at 1; reading it costs one load.
    ///
    /// Read it *before* a call, and keep the answer with that version. The answer is right as long as the version is
    /// the same. A commit that changes such an answer raises the version before it answers its callers. So a client
    /// that knows of a change never finds the state before it.
    ///
    /// The version covers [`GetEntry`] and [`List`]. It covers [`Stat`] without `pins` and `waits`, which change with
    /// time and with the tape queue. Of [`OpenRead`] it covers the grant of an object, and all refusals but
    /// `Unavailable`, which depends on the tape queue. An answer holds for the principal that asked. A door that opens
    /// from a kept grant must report the use by [`ReportUse`]; otherwise the replica looks idle and is evicted first.
    ///
    /// [`GetEntry`]: wire::control::GetEntry
    /// [`List`]: wire::control::List
    /// [`Stat`]: wire::control::Stat
    /// [`OpenRead`]: wire::control::OpenRead
    /// [`ReportUse`]: wire::control::ReportUse
    pub fn namespace_version(&self) -> u64 {
        self.namespace_version.load(Ordering::Acquire)
    }

    /// How long tape requests and jobs had to wait, since the start.
    #[must_use]
    pub fn waits(&self) -> &Waits {
        &self.waits
    }

    /// Counts the commits that touched `topic`.
    pub fn watch(&self, topic: Topic) -> watch::Receiver<u64> {
        self.watched.changes[topic.index()].subscribe()
    }
}

/// What a call was answered, if it was, or that it never will be.
fn answered<T>(answer: &mut oneshot::Receiver<Result<T>>) -> Option<Result<T>> {
    match answer.try_recv() {
        Ok(reply) => Some(reply),
        Err(TryRecvError::Empty) => None,
        Err(TryRecvError::Closed) => Some(Err(stopped())),
    }
}

/// Why a call was not put in the queue.
fn refused(cause: &mpsc::TrySendError<Box<dyn Pending>>) -> Failure {
    match cause {
        mpsc::TrySendError::Full(_) => {
            Failure::busy(format!("the head has {HEAD_QUEUE_LEN_MAX} calls waiting")).hint("try again later")
        }
        mpsc::TrySendError::Disconnected(_) => stopped(),
    }
}

pub(crate) fn stopped() -> Failure {
    Failure::unavailable("the head has stopped").hint("look at the daemon's log")
}
