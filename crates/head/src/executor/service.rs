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
/// How long a call is put off at most: several leases of mounts that do not answer, one after the other.
const PUT_OFF_MAX: Duration = Duration::from_secs(120);

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

/// What became of a call.
enum Answered<C: Apply> {
    Reply(C::Reply),
    /// It was undone: mounts have to forget first what it changes. It is made again when they have.
    PutOff(C, Arc<Waiter>),
}

struct Ask<C: Apply> {
    call: Option<C>,
    who: Principal,
    result: Option<Result<Answered<C>>>,
    reply: oneshot::Sender<Result<Answered<C>>>,
    /// Where it waits if it is put off.
    waiters: Arc<Waiters>,
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
        let again = self.call.as_ref().filter(|_| core.may_put_off()).cloned();
        self.result = self.call.take().map(|call| core.apply(&context, call).map(Answered::Reply));
        if let (true, Some(call)) = (core.take_put_off(), again) {
            let (hints, waiter) = (core.take_hints(), Waiter::new(&self.waiters));
            waiter.enter(hints.awaited, hints.look_again, Duration::ZERO);
            self.result = Some(Ok(Answered::PutOff(call, waiter)));
        }
        let is_pending = matches!(&self.result, Some(Ok(Answered::Reply(reply))) if C::is_pending(reply));
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
            waiters: Arc::clone(&self.watched.waiters),
            caller,
            waiter: None,
        }));
        let answered = loop {
            self.executor.serve();
            if let Some(answered) = answered(&mut answer) {
                break answered;
            }
            thread::park();
            if let Some(answered) = answered(&mut answer) {
                break answered;
            }
        };
        match answered {
            Ok(Answered::Reply(reply)) => Some(Ok(reply)),
            Err(failure) => Some(Err(failure)),
            // This thread is for what is quick.
            Ok(Answered::PutOff(..)) => None,
        }
    }

    /// Makes a call and waits until its effect is durable.
    pub async fn call<C: Apply>(&self, who: &Principal, call: C) -> Result<C::Reply> {
        let asked = self.ask(who, call, None)?;
        self.carry_out(who, asked, None).await
    }

    /// Waits for an answer. A call that was put off is made again when mounts have forgotten what it changes.
    async fn carry_out<C: Apply>(
        &self,
        who: &Principal,
        mut asked: oneshot::Receiver<Result<Answered<C>>>,
        waiter: Option<&Arc<Waiter>>,
    ) -> Result<C::Reply> {
        let deadline = Instant::now() + PUT_OFF_MAX;
        loop {
            let (call, put_off) = match asked.await.map_err(|_| stopped())?? {
                Answered::Reply(reply) => return Ok(reply),
                Answered::PutOff(call, waiter) => (call, waiter),
            };
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Failure::busy("mounts have not forgotten in time what this changes")
                    .hint("try again; `bp lease` shows the mounts"));
            }
            // When the wait is over the call is made all the same: a lease may be over then.
            let _ = timeout(left.min(put_off.pause().at_most), put_off.woken()).await;
            asked = self.ask_again(who, call, waiter, deadline).await?;
        }
    }

    /// Puts a call in the queue again. So many may be woken at once that not all find a place.
    async fn ask_again<C: Apply>(
        &self,
        who: &Principal,
        call: C,
        waiter: Option<&Arc<Waiter>>,
        deadline: Instant,
    ) -> Result<oneshot::Receiver<Result<Answered<C>>>> {
        loop {
            match self.ask(who, call.clone(), waiter.cloned()) {
                Err(failure) if failure.kind == ErrorKind::Busy && Instant::now() < deadline => {
                    sleep(COME_AGAIN).await;
                }
                asked => return asked,
            }
        }
    }

    /// Puts a call in the queue.
    fn ask<C: Apply>(
        &self,
        who: &Principal,
        call: C,
        waiter: Option<Arc<Waiter>>,
    ) -> Result<oneshot::Receiver<Result<Answered<C>>>> {
        let (reply, answer) = oneshot::channel();
        let waiters = Arc::clone(&self.watched.waiters);
        let ask =
            Ask { call: Some(call), who: who.clone(), result: None, reply, waiters, caller: None, waiter };
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
        let mut asked = self.ask(who, call.clone(), Some(Arc::clone(&waiter)))?;
        loop {
            let reply = self.carry_out(who, asked, Some(&waiter)).await?;
            if !C::is_pending(&reply) || is_news(&reply) || Instant::now() >= deadline {
                return Ok(reply);
            }
            drop(reply);
            self.rest(&waiter, &mut changes, deadline).await;
            changes.borrow_and_update();
            asked = self.ask_again(who, call.clone(), Some(&waiter), deadline).await?;
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
