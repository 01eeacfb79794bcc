//! The disk server's chores: deletes objects that nothing refers to and reports the room that is left.

mod cleaning;

use crate::{
    Partition, Space,
    clock::HeadTime,
    port::Head,
    serve::{
        free_space::SpaceWait,
        local_objects::{Fence, Objects, WithdrawnObjects, Writing},
        usage::Uses,
    },
    upkeep::{adoption::Adopter, copier::Copier, live_orders::LiveKeeper, scan::Scanner},
};
use base::{Clock, ErrorKind, ObjectId, Result};
pub use cleaning::maintain;
use net::{blocking, shutdown::Token};
use std::{
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::sync::Notify;
use tracing::{debug, info, warn};
use wire::control::{
    DiskServer, PartitionTrouble, REPORT_OBJECTS_LEN_MAX, RegisterPartition, ReportObjects, ReportSpace,
    SpaceReported,
};

/// Room is reported at least this often.
const REPORT_EVERY: Duration = Duration::from_secs(2);
/// And not more often, whatever happens.
const REPORT_AT_MOST_EVERY: Duration = Duration::from_millis(20);
/// Pause after something did not work.
const PAUSE: Duration = Duration::from_secs(1);

/// A disk server as the head is to know it.
#[derive(Clone)]
pub struct ServerRegistration {
    /// Name and addresses.
    pub server: DiskServer,
    /// Drawn when the process started.
    pub boot: u64,
    /// Pool of its partitions, as long as the operator does not say another.
    pub pool: String,
    /// The page cache is left out, whatever the pool wants.
    pub is_direct: bool,
}

/// Keeps one partition.
#[derive(Clone)]
pub struct Janitor {
    head: Head,
    registration: ServerRegistration,
    partition: Arc<Partition>,
    withdrawn: Arc<WithdrawnObjects>,
    fence: Arc<Fence>,
    writing: Writing,
    space: SpaceWait,
    uses: Arc<Uses>,
    /// What was wrong with the partition when it was last looked at.
    trouble: Arc<Mutex<Option<PartitionTrouble>>>,
    /// Told what time it is at the head, if that is another host.
    time: Option<Arc<HeadTime>>,
}

impl Janitor {
    /// The janitor of a partition whose objects are served from `objects`.
    #[must_use]
    pub fn new(
        head: Head,
        registration: ServerRegistration,
        partition: Arc<Partition>,
        objects: &Objects,
    ) -> Self {
        let (withdrawn, fence, writing) = (objects.withdrawn(), objects.fence(), objects.writing());
        let (space, uses, trouble) = (objects.space(), Arc::clone(objects.uses()), Arc::default());
        Self { head, registration, partition, withdrawn, fence, writing, space, uses, trouble, time: None }
    }

    /// Lets `time` know what the head says.
    #[must_use]
    pub fn with_time(self, time: Arc<HeadTime>) -> Self {
        Self { time: Some(time), ..self }
    }

    fn name(&self) -> String {
        self.partition.identity().partition.clone()
    }

    /// Scans the partition when the head says so.
    pub fn scanner(&self, token: Token) -> Scanner {
        Scanner::new(self.head.clone(), Arc::clone(&self.partition), token)
    }

    /// Fences and seals live objects of the partition when the head says so.
    pub fn live_keeper(&self, copier: &Copier, clock: &Clock) -> LiveKeeper {
        LiveKeeper::new(self.head.clone(), Arc::clone(&self.partition), copier, clock)
    }

    /// Adopts files below `allowed` when the head says so.
    pub fn adopter(&self, allowed: &[PathBuf], clock: &Clock, token: Token) -> Adopter {
        Adopter {
            head: self.head.clone(),
            partition: Arc::clone(&self.partition),
            writing: self.writing.clone(),
            boot: self.registration.boot,
            allowed: Arc::new(allowed.to_vec()),
            clock: Arc::clone(clock),
            token,
        }
    }

    /// Announces the partition to the head.
    pub async fn register(&self) -> Result<()> {
        let space = self.partition.space()?;
        let ServerRegistration { server, boot, pool, is_direct: _ } = self.registration.clone();
        let pool = self.remembered_pool().await.unwrap_or(pool);
        let call = RegisterPartition {
            server,
            boot,
            pool,
            partition: self.name(),
            total_bytes: space.total_bytes,
            free_bytes: space.free_bytes,
        };
        self.head.call(call).await?;
        info!(partition = self.name(), "partition registered with the head");
        Ok(())
    }

    /// Says what is here, so that the head can tell what is lost.
    async fn call_the_roll(&self) -> Result<()> {
        let partition = Arc::clone(&self.partition);
        let objects = blocking(move || partition.objects()).await?;
        let mut after = ObjectId(0);
        let mut pages = objects.chunks(REPORT_OBJECTS_LEN_MAX).peekable();
        loop {
            let page = pages.next().unwrap_or_default();
            let upto = pages.peek().and(page.last()).copied();
            let call = ReportObjects {
                partition: self.name(),
                boot: self.registration.boot,
                after,
                upto,
                objects: page.to_vec(),
            };
            self.head.call(call).await?;
            match upto {
                Some(last) => after = last,
                None => return Ok(()),
            }
        }
    }

    /// Does the chores until it is time to stop. None waits for another: a head that hears nothing while many objects are
    /// deleted would take the disk server for lost.
    pub async fn keep(self, token: Token) {
        let roll_is_due = Notify::new();
        tokio::select! {
            () = token.stopped() => {}
            () = self.stay_known(&token, &roll_is_due) => {}
            () = self.answer_the_roll(&token, &roll_is_due) => {}
            () = self.stay_clean(&token) => {}
        }
    }

    /// Registers, and reports again and again.
    async fn stay_known(&self, token: &Token, roll_is_due: &Notify) {
        let mut is_known = false;
        // What is noted on the partition, once that is certain.
        let mut noted = None;
        loop {
            let reported = async {
                let (space, found) = self.look().await?;
                // Nobody knows what is there when it comes back.
                let is_gone = found == Some(PartitionTrouble::Gone);
                if !is_known && is_gone {
                    return Ok(false);
                }
                if !is_known {
                    self.register().await?;
                    roll_is_due.notify_one();
                }
                is_known = true;
                let told = self.report(space, found).await?;
                self.fence.set(told.fence);
                let told = (told.fence, told.pool);
                // What takes nothing now is told again when it is well.
                if found.is_none() && noted.as_ref() != Some(&told) {
                    self.note(told.clone()).await?;
                    noted = Some(told);
                }
                Ok(!is_gone)
            };
            let outcome: Result<bool> = reported.await;
            is_known = match &outcome {
                Ok(is_known) => *is_known,
                // A head that does not know us, took us for an earlier start, or has not heard of us for long.
                Err(failure) => is_known && failure.kind != ErrorKind::NotFound,
            };
            match outcome {
                Err(failure) if failure.kind != ErrorKind::NotFound => {
                    warn!(partition = self.name(), %failure, "the partition cannot report to the head; retrying");
                    pause(token, PAUSE).await;
                }
                Err(_) => pause(token, PAUSE).await,
                Ok(_) => self.rest(token).await,
            }
        }
    }

    /// Waits until it is time to report again, or somebody doubts what time it is at the head.
    async fn rest(&self, token: &Token) {
        let doubted = async {
            match &self.time {
                Some(time) => time.doubted().await,
                None => std::future::pending().await,
            }
        };
        // However many rights are refused.
        pause(token, REPORT_AT_MOST_EVERY).await;
        tokio::select! {
            () = pause(token, REPORT_EVERY) => {}
            () = doubted => {}
        }
    }

    /// Says what is here whenever it registered.
    async fn answer_the_roll(&self, token: &Token, roll_is_due: &Notify) {
        loop {
            roll_is_due.notified().await;
            if let Err(failure) = self.call_the_roll().await {
                warn!(partition = self.name(), %failure, "could not send the list of objects to the head; retrying");
                pause(token, PAUSE).await;
                roll_is_due.notify_one();
            }
        }
    }

    /// Remembers which rights to read hold and to which pool it belongs, also after a restart.
    async fn note(&self, (fence, pool): (u64, String)) -> Result<()> {
        let partition = Arc::clone(&self.partition);
        blocking(move || {
            partition.note_fence(fence)?;
            // A head of an older release does not say it.
            if pool.is_empty() { Ok(()) } else { partition.note_pool(&pool) }
        })
        .await
    }

    /// The pool to which the partition belonged when the head spoke of it last.
    async fn remembered_pool(&self) -> Option<String> {
        let partition = Arc::clone(&self.partition);
        blocking(move || partition.seen_pool()).await.unwrap_or_else(|failure| {
            warn!(partition = self.name(), %failure, "cannot read the pool that the head assigned; using the \
                configured one");
            None
        })
    }

    /// Held to read or to write it.
    fn trouble(&self) -> MutexGuard<'_, Option<PartitionTrouble>> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at the partition, and says in the log what has changed since it was last looked at.
    async fn look(&self) -> Result<(Space, Option<PartitionTrouble>)> {
        let partition = Arc::clone(&self.partition);
        let look = move || Ok(partition.check_in_place().and_then(|()| partition.space()));
        let place = blocking(look).await?;
        let trouble = match &place {
            Err(_) => Some(PartitionTrouble::Gone),
            Ok(space) => space.is_read_only.then_some(PartitionTrouble::ReadOnly),
        };
        let space = place.as_ref().ok().copied().unwrap_or_default();
        let before = std::mem::replace(&mut *self.trouble(), trouble);
        if before != trouble {
            match (trouble, place) {
                (_, Err(failure)) => {
                    warn!(partition = self.name(), %failure, "the partition is offline; nothing is served from it");
                }
                (Some(trouble), _) => warn!(partition = self.name(), "partition is {}", trouble.words()),
                (None, _) => info!(partition = self.name(), "partition has recovered"),
            }
        }
        Ok((space, trouble))
    }

    /// Says how much room there is; yields what the head says of the partition.
    async fn report(&self, space: Space, trouble: Option<PartitionTrouble>) -> Result<SpaceReported> {
        let partition = self.name();
        let (writing, written) = self.writing.on(&partition);
        let report = ReportSpace {
            boot: self.registration.boot,
            writing,
            written,
            claimed: self.partition.claimed(),
            partition,
            total_bytes: space.total_bytes,
            free_bytes: space.free_bytes,
            readers: self.uses.readers(),
            trouble,
        };
        let told = self.head.call(report).await?;
        if let Some(time) = &self.time {
            time.heard(told.now);
        }
        self.partition.set_direct(self.registration.is_direct || told.is_direct);
        self.release(&told.released).await?;
        Ok(told)
    }
}

impl Janitor {
    /// Gives back room that writes without progress have taken in advance.
    async fn release(&self, objects: &[ObjectId]) -> Result<()> {
        if objects.is_empty() {
            return Ok(());
        }
        let (writing, partition, objects) = (self.writing.clone(), self.name(), objects.to_vec());
        blocking(move || {
            for object in objects {
                // One that ended in this moment has nothing to give back any more.
                if let Err(failure) = writing.release_unused(&partition, object) {
                    debug!(%object, %failure, "could not release the space reserved for a write");
                }
            }
            Ok(())
        })
        .await
    }
}

async fn pause(token: &Token, length: Duration) {
    // Stopping ends the pause; running out of time is the usual way.
    let _ = tokio::time::timeout(length, token.stopped()).await;
}
