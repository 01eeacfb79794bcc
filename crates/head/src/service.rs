//! The head on its thread: calls queue up, are committed in groups, and are answered once they are durable.

use crate::{
    Apply, Core, Principal, Topic,
    apply::Context,
    steps::Steps,
    store::{StoreError, StoreResult},
};
use base::{
    Failure, FilePath, Millis, Result, Timestamp,
    limits::{HEAD_BATCH_LEN_MAX, HEAD_QUEUE_LEN_MAX},
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};
use tokio::sync::{oneshot, watch};
use tracing::error;

/// Reads the time. Injected, so that nothing in the head reads a clock by itself.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// Uses of files that are written when the head stops: what takes a moment.
const LAST_USES_LEN: usize = 10_000;
/// A waiting caller looks again after this long even if nothing was announced: back-off times pass without a change.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// A call under way, with its type forgotten.
pub(crate) trait Pending: Send {
    fn paths(&self) -> Vec<FilePath>;
    fn apply(&mut self, core: &mut Core, now: Timestamp);
    /// What is left to do once the group is durable.
    fn follow(&mut self, _core: &mut Core, _now: Timestamp) {}
    fn answer(self: Box<Self>, committed: &Result<()>);
}

struct Ask<C: Apply> {
    call: Option<C>,
    who: Principal,
    result: Option<Result<C::Reply>>,
    reply: oneshot::Sender<Result<C::Reply>>,
}

impl<C: Apply> Pending for Ask<C> {
    fn paths(&self) -> Vec<FilePath> {
        self.call.as_ref().map(Apply::paths).unwrap_or_default()
    }

    fn apply(&mut self, core: &mut Core, now: Timestamp) {
        let context = Context { who: self.who.clone(), now };
        self.result = self.call.take().map(|call| core.apply(&context, call));
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
}

/// A handle on the running head. Clones reach the same head; it stops when the last one is gone.
#[derive(Clone)]
pub struct Head {
    queue: mpsc::SyncSender<Box<dyn Pending>>,
    changes: Arc<[watch::Sender<u64>; Topic::ALL.len()]>,
    namespace_version: Arc<AtomicU64>,
    /// Another head has taken over.
    pub(crate) superseded: Arc<watch::Sender<bool>>,
}

impl Head {
    /// Puts `core` on its thread. Join the handle after dropping the last [`Head`] to be sure that it has stopped.
    pub fn start(core: Core, clock: Clock) -> Result<(Self, JoinHandle<()>)> {
        let (queue, calls) = mpsc::sync_channel(HEAD_QUEUE_LEN_MAX);
        let changes = Arc::new(Topic::ALL.map(|_| watch::Sender::new(0)));
        let namespace_version = core.shared_namespace_version();
        let superseded = Arc::new(watch::Sender::new(false));
        let head = Self {
            queue,
            changes: Arc::clone(&changes),
            namespace_version,
            superseded: Arc::clone(&superseded),
        };
        let thread = std::thread::Builder::new()
            .name("head".into())
            .spawn(move || run(core, &calls, &clock, (&changes, &superseded)))
            .map_err(|cause| Failure::io("start the head's thread", &cause))?;
        Ok((head, thread))
    }

    /// Makes a call and waits until its effect is durable.
    pub async fn call<C: Apply>(&self, who: &Principal, call: C) -> Result<C::Reply> {
        let (reply, answer) = oneshot::channel();
        let ask = Ask { call: Some(call), who: who.clone(), result: None, reply };
        self.enqueue(Box::new(ask))?;
        answer.await.map_err(|_| stopped())?
    }

    /// Puts something that is no call in the queue.
    pub(crate) fn enqueue(&self, pending: Box<dyn Pending>) -> Result<()> {
        self.queue.try_send(pending).map_err(|cause| match cause {
            mpsc::TrySendError::Full(_) => {
                Failure::busy(format!("the head has {HEAD_QUEUE_LEN_MAX} calls waiting"))
                    .hint("try again later")
            }
            mpsc::TrySendError::Disconnected(_) => stopped(),
        })
    }

    /// Makes a call again and again until its reply is not pending any more or `wait` is over.
    pub async fn call_waiting<C: Apply>(&self, who: &Principal, call: C, wait: Millis) -> Result<C::Reply> {
        let mut changes = self.watch(C::TOPIC);
        let deadline = tokio::time::Instant::now() + Duration::from_millis(wait.0.max(0).unsigned_abs());
        loop {
            changes.borrow_and_update();
            let reply = self.call(who, call.clone()).await?;
            let left = deadline.saturating_duration_since(tokio::time::Instant::now());
            if left.is_zero() || !C::is_pending(&reply) {
                return Ok(reply);
            }
            if let Ok(Err(_)) = tokio::time::timeout(left.min(LOOK_AGAIN), changes.changed()).await {
                return Ok(reply);
            }
        }
    }

    /// The version of the namespace, for doors that keep answers. It begins at 1 and costs one load.
    ///
    /// Read it *before* a call and keep the answer under what was read: as long as the version is the same, the answer
    /// is right. A commit that changes anything of these answers raises it before any caller of that commit is
    /// answered, so that whoever was told of a change never finds the state before it.
    ///
    /// It stands for: [`GetEntry`], [`List`]; of [`Stat`] all but `pins` and `waits`, which change with time and with
    /// the tape queue; of [`OpenRead`] the grant of an object, and refusals that do not speak of the tape queue: all but
    /// `Unavailable`. An answer holds for the principal that asked. Whoever opens from a kept grant tells the head of
    /// the use by [`ReportUse`], or the replica looks idle and is evicted first.
    ///
    /// [`GetEntry`]: wire::control::GetEntry
    /// [`List`]: wire::control::List
    /// [`Stat`]: wire::control::Stat
    /// [`OpenRead`]: wire::control::OpenRead
    /// [`ReportUse`]: wire::control::ReportUse
    pub fn namespace_version(&self) -> u64 {
        self.namespace_version.load(Ordering::Acquire)
    }

    /// Counts the commits that touched `topic`.
    pub fn watch(&self, topic: Topic) -> watch::Receiver<u64> {
        self.changes[topic.index()].subscribe()
    }
}

pub(crate) fn stopped() -> Failure {
    Failure::unavailable("the head has stopped").hint("look at the daemon's log")
}

/// The thread: takes what has queued up, carries it out, commits once, answers everybody.
fn run(
    mut core: Core,
    calls: &mpsc::Receiver<Box<dyn Pending>>,
    clock: &Clock,
    (changes, superseded): (&[watch::Sender<u64>; Topic::ALL.len()], &watch::Sender<bool>),
) {
    let (mut steps, begun) = (Steps::default(), Instant::now());
    while let Ok(first) = calls.recv() {
        let mut group = vec![first];
        group.extend(calls.try_iter().take(HEAD_BATCH_LEN_MAX - 1));
        let now = clock();
        if let Some(by) = steps.look(now, begun.elapsed()) {
            core.clock_was_set(by);
        }
        let committed = carry_out(&mut core, &mut group, now);
        if committed.as_ref().is_err_and(|cause| matches!(cause, StoreError::Superseded)) {
            superseded.send_replace(true);
        }
        let committed = committed.map_err(Failure::from);
        for ask in group.iter_mut().filter(|_| committed.is_ok()) {
            ask.follow(&mut core, now);
        }
        let touched = core.take_touched();
        for ask in group {
            ask.answer(&committed);
        }
        if committed.is_ok() {
            for (change, _) in changes.iter().zip(touched).filter(|(_, touched)| *touched) {
                change.send_modify(|count| *count += 1);
            }
        }
    }
    end(&mut core);
}

/// Writes what nobody was promised, but would be missed a little.
fn end(core: &mut Core) {
    core.store.begin();
    let written = core.store.write_uses(LAST_USES_LEN).and_then(|()| core.store.commit());
    if let Err(cause) = written {
        tracing::debug!(%cause, "the last uses of files are not noted");
    }
}

fn carry_out(core: &mut Core, group: &mut [Box<dyn Pending>], now: Timestamp) -> StoreResult<()> {
    core.store.begin();
    if let Err(cause) = core.beat(now) {
        // A head that may have been replaced answers nobody, not even from memory.
        return Err(give_up(core, cause, group.len()));
    }
    if core.store.looks_ahead() {
        let paths: Vec<_> = group.iter().flat_map(|ask| ask.paths()).collect();
        if let Err(cause) = core.store.look_ahead(&paths) {
            // The calls will meet the same, each with what it was for.
            tracing::debug!(%cause, "nothing was read ahead");
        }
    }
    for ask in group.iter_mut() {
        ask.apply(core, now);
    }
    core.store.commit().map_err(|cause| give_up(core, cause, group.len()))?;
    core.has_beaten();
    Ok(())
}

fn give_up(core: &mut Core, cause: StoreError, calls: usize) -> StoreError {
    let cause = if core.store.is_fenced() { StoreError::Superseded } else { cause };
    error!(%cause, calls, "commit failed; nothing of this group happened");
    if let Err(cause) = core.store.rollback() {
        error!(%cause, "rollback failed");
    }
    cause
}
