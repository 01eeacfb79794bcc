//! What the head orders about objects that change in place: to fence them, and to seal them.

use crate::{Partition, object::live::Seal, port::Head, upkeep::copier::Copier};
use base::{Clock, ErrorKind, Failure, Millis, ObjectId, Result};
use net::{blocking, shutdown::Token};
use share::Fence;
use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};
use tokio::{
    task::{JoinError, JoinSet},
    time::Instant,
};
use tracing::{debug, warn};
use wire::{
    control::{BeginLive, Layout, LiveFenced, LiveOrder, LiveSealed, NextLiveOrders},
    media::object::Label,
};

/// How long the head may hold back its answer while there is nothing to do.
const ASK_EVERY: Millis = Millis::from_seconds(10);
/// Pause after something did not work.
const PAUSE: Duration = Duration::from_secs(1);
/// When a seal that failed is tried again.
const SEAL_AGAIN: Duration = Duration::from_secs(10);
/// Pause while all that is ordered is under way: the head tells an order until it was carried out.
const UNDER_WAY: Duration = Duration::from_millis(10);
/// Objects that are sealed at a time: the syncs of small ones go together, and a disk need not seek between many large ones.
const SEALS_MAX: usize = 4;

/// Carries out the orders about live objects of one partition.
#[derive(Clone)]
pub struct LiveKeeper {
    head: Head,
    copier: Copier,
    partition: Arc<Partition>,
    clock: Clock,
}

/// An object that was to be sealed, and what came of it.
type Ended = (ObjectId, Result<()>);

/// Objects that are being sealed.
#[derive(Default)]
struct Seals {
    tasks: JoinSet<Ended>,
    under_way: HashSet<ObjectId>,
    /// Those that failed, and when they are tried again: they keep no others waiting.
    failed: HashMap<ObjectId, Instant>,
}

impl Seals {
    /// Whether an object is to be sealed now.
    fn admit(&mut self, object: ObjectId) -> bool {
        let now = Instant::now();
        self.failed.retain(|_, again| *again > now);
        self.under_way.len() < SEALS_MAX
            && !self.failed.contains_key(&object)
            && self.under_way.insert(object)
    }

    /// Notes that one has ended.
    fn ended(&mut self, ended: Result<Ended, JoinError>, partition: &str) {
        match ended {
            Ok((object, outcome)) => {
                self.under_way.remove(&object);
                if let Err(failure) = outcome {
                    warn!(partition, %object, %failure, "cannot seal a live object; retrying");
                    self.failed.insert(object, Instant::now() + SEAL_AGAIN);
                }
            }
            Err(cause) => {
                warn!(partition, %cause, "the task that sealed an object panicked");
                // Nobody knows which one it was: those that still run are refused as busy.
                self.under_way.clear();
            }
        }
    }
}

impl LiveKeeper {
    /// Keeps the live objects of `partition`; `clock` says when they were sealed. Columns of files are fetched by `copier`.
    #[must_use]
    pub fn new(head: Head, partition: Arc<Partition>, copier: &Copier, clock: &Clock) -> Self {
        Self { head, partition, copier: copier.clone(), clock: Arc::clone(clock) }
    }

    fn name(&self) -> String {
        self.partition.identity().partition.clone()
    }

    /// Carries out orders until it is time to stop. What is under way then is ordered again.
    pub async fn keep(self, token: Token) {
        let (mut seals, mut rest) = (Seals::default(), Duration::ZERO);
        loop {
            rest = tokio::select! {
                () = token.stopped() => return,
                Some(ended) = seals.tasks.join_next(), if !seals.tasks.is_empty() => {
                    seals.ended(ended, &self.name());
                    Duration::ZERO
                }
                asked = self.next(rest) => match asked {
                    Ok(orders) => self.begin(orders, &mut seals).await,
                    // It registers in a moment.
                    Err(failure) if failure.kind == ErrorKind::NotFound => PAUSE,
                    Err(failure) => {
                        warn!(partition = self.name(), %failure, "cannot ask the head about live objects; retrying");
                        PAUSE
                    }
                },
            };
        }
    }

    /// Rests, and asks for orders.
    async fn next(&self, rest: Duration) -> Result<Vec<LiveOrder>> {
        tokio::time::sleep(rest).await;
        let call = NextLiveOrders { partition: self.name() };
        Ok(self.head.call_waiting(call, ASK_EVERY).await?.orders)
    }

    /// Carries out fences, for which clients wait, and begins to seal as much as there is room for. Yields how long to rest.
    async fn begin(&self, orders: Vec<LiveOrder>, seals: &mut Seals) -> Duration {
        let (mut is_under_way, mut has_failed) = (!orders.is_empty(), false);
        // Syncs of several fences go together.
        let mut fences = JoinSet::new();
        for order in orders {
            match order {
                LiveOrder::Fence { object, fence } => {
                    let own = self.clone();
                    fences.spawn(async move { (object, own.fence(object, fence).await) });
                }
                LiveOrder::Join { object, content, file, path, holder, size, layout } => {
                    if seals.admit(object) {
                        let label = Label { file, path, generation: content, holder, piece: None };
                        seals.tasks.spawn(self.clone().join(object, label, (size, layout)));
                    }
                }
                LiveOrder::Seal { object, content, file, path, holder, size } => {
                    if seals.admit(object) {
                        let generation = if content == 0 { object.0 } else { content };
                        let label = Label { file, path, generation, holder, piece: None };
                        seals.tasks.spawn(self.clone().seal(object, label, size));
                    }
                }
            }
        }
        while let Some(ended) = fences.join_next().await {
            match ended {
                Ok((_, Ok(()))) => is_under_way = false,
                Ok((object, Err(failure))) => {
                    warn!(partition = self.name(), %object, %failure, "cannot fence a live object; retrying");
                    has_failed = true;
                }
                Err(cause) => {
                    warn!(partition = self.name(), %cause, "the task that fenced an object panicked");
                    has_failed = true;
                }
            }
        }
        match (has_failed, is_under_way) {
            (true, _) => PAUSE,
            (false, true) => UNDER_WAY,
            (false, false) => Duration::ZERO,
        }
    }

    async fn join(self, object: ObjectId, label: Label, content: (u64, Layout)) -> Ended {
        (object, self.try_join(object, label, content).await)
    }

    async fn try_join(&self, object: ObjectId, label: Label, content: (u64, Layout)) -> Result<()> {
        let wanted = content.0;
        let (size, checksums) = self.copier.join(object, label, content).await?;
        if size != wanted {
            let what = format!("object {object} was made with {size} bytes, {wanted} were committed");
            return Err(Failure::corrupt(what).hint("look at the disk, or replace the file"));
        }
        self.head.call(LiveSealed { partition: self.name(), object, size, checksums }).await?;
        debug!(%object, size, "the columns of a live file are one object");
        Ok(())
    }

    async fn fence(&self, object: ObjectId, fence: Fence) -> Result<()> {
        let (partition, generation) = (Arc::clone(&self.partition), fence.generation);
        blocking(move || partition.live(object)?.fence(&fence)).await?;
        self.head.call(LiveFenced { partition: self.name(), object, generation }).await?;
        debug!(%object, %generation, "a live object is fenced");
        Ok(())
    }

    async fn seal(self, object: ObjectId, label: Label, size: u64) -> Ended {
        (object, self.try_seal(object, label, size).await)
    }

    async fn try_seal(&self, object: ObjectId, label: Label, size: u64) -> Result<()> {
        let base = self.base(object, size).await?;
        let (partition, now) = (Arc::clone(&self.partition), (self.clock)());
        let info = blocking(move || {
            let seal = Seal { label: &label, size, base, now };
            partition.seal_live(object, &seal)
        })
        .await?;
        if info.size != size {
            let what = format!("object {object} was sealed with {} bytes, {size} were committed", info.size);
            return Err(Failure::corrupt(what).hint("look at the disk, or replace the file"));
        }
        let checksums = info.checksums;
        self.head.call(LiveSealed { partition: self.name(), object, size, checksums }).await?;
        debug!(%object, size, "a live object is sealed");
        let partition = Arc::clone(&self.partition);
        blocking(move || partition.forget_fences(object)).await
    }

    /// With what an object begins that is to be sealed although nobody has begun it.
    async fn base(&self, object: ObjectId, size: u64) -> Result<Option<ObjectId>> {
        let partition = Arc::clone(&self.partition);
        let is_begun = blocking(move || Ok(partition.live(object)?.is_begun())).await?;
        if is_begun || size == 0 {
            return Ok(None);
        }
        Ok(self.head.call(BeginLive { object, start: None }).await?.object)
    }
}
