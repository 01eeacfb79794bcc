//! The head without a thread: catalogue, volatile knowledge, and the topics that a group of calls changed.

mod drive_live;
mod urls;

use crate::{
    Waits, batch,
    events::EventRing,
    executor::{
        apply::{Apply, Context, Topic},
        leadership::Heartbeat,
    },
    hosts::presence::{self, HostLive},
    pool,
    recovery::restored::Progress,
    share,
    store::{Catalogue, FacilityRow, Partition, Store},
    tape,
    trash::TrashPolicy,
    waiters::{Awaited, Changes, WaitHints},
};
use base::{Failure, FileId, JobId, Millis, ObjectId, Result, Timestamp, Vid};
pub(crate) use drive_live::DriveLive;
use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};
pub(crate) use urls::CapFor;
use wire::{
    auth::{
        capability::{CapKeys, NEVER_JOINED},
        token::TokenKey,
    },
    control::{DiskServer, EventType, PartitionTrouble, Pool},
};

/// How long a capability lasts that the head gives to a room: a full cartridge takes half a day to read.
pub(crate) const CAP_LIFETIME: Millis = Millis::from_seconds(24 * 3600);
/// The same, for whoever gathers a coded file: as long as it is open, another piece may be needed in place of one that went bad.
pub(crate) const GATHER_LIFETIME: Millis = Millis::from_seconds(7 * 24 * 3600);

/// The configuration of the head.
#[derive(Clone)]
pub struct HeadConfig {
    /// Sign capabilities.
    pub keys: CapKeys,
    /// Signs tokens of jobs.
    pub tokens: TokenKey,
    /// The disk server that runs in the same process.
    pub server: DiskServer,
    /// Where objects go.
    pub pool: String,
}

/// The last report of a disk server about a partition.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PartitionLive {
    /// When it was there last.
    pub(crate) heard: Timestamp,
    pub(crate) trouble: Option<PartitionTrouble>,
    /// Files that are open on it.
    pub(crate) transfers: u32,
}

/// Knowledge that is not worth a commit: the rooms tell it again after a start.
#[derive(Debug, Default)]
pub(crate) struct Live {
    /// When the head started.
    pub(crate) since: Timestamp,
    /// How long requests and jobs had to wait.
    pub(crate) waits: Arc<Waits>,
    /// How long sessions of recalls took lately.
    pub(crate) recall_pace: tape::Pace,
    pub(crate) drives: BTreeMap<String, DriveLive>,
    /// Partitions whose disk server has registered since the head started.
    pub(crate) partitions: BTreeMap<String, PartitionLive>,
    /// Hosts that have said that they are there since the head started.
    pub(crate) hosts: BTreeMap<String, HostLive>,
    /// Partitions from which nothing can be read, when somebody looked last.
    pub(crate) away: pool::AwayPartitions,
    /// Files that cannot be read because of these.
    pub(crate) reach: pool::ReachCount,
    /// Jobs that are not started because an input cannot be read; asked again when that changes.
    pub(crate) jobs_held_back: BTreeSet<JobId>,
    /// Partitions of kept pools that were silent when somebody looked last.
    pub(crate) silent: BTreeSet<String>,
    /// Disk servers that have not said yet what they have: which of their starts it is, and when they registered; `None`: they
    /// must register again, because the clock was set.
    pub(crate) object_reports: BTreeMap<String, (u64, Option<Timestamp>)>,
    /// Files of later objects are to be looked at for missing replicas.
    pub(crate) sweep: Option<ObjectId>,
    /// What is being collected, moved and verified.
    pub(crate) maintenance: pool::MaintenanceState,
    /// Workers that have registered since the head started.
    pub(crate) workers: BTreeMap<String, batch::WorkerLive>,
    /// Workers that refused the jobs of a user, by worker and user, lately.
    pub(crate) refusals: batch::Refusals,
    pub(crate) deliveries: batch::Deliveries,
    /// What jobs print that somebody follows.
    pub(crate) outputs: batch::Outputs,
    /// Disk servers that a client could not reach, and until when others are preferred.
    pub(crate) avoided: BTreeMap<String, Timestamp>,
    /// Volumes that an operator has loaded, as they say, and when: a library is to find them.
    pub(crate) loads_awaited: BTreeMap<Vid, Timestamp>,
    /// Volumes whose survey was interrupted, and when it may go on.
    pub(crate) surveys_due: BTreeMap<Vid, Timestamp>,
    /// When files are looked for next that lack tape copies and have no request.
    pub(crate) copy_repairs_due: Timestamp,
    /// Objects that disk servers are adopting, by partition.
    pub(crate) adopting: BTreeMap<String, BTreeSet<ObjectId>>,
    /// Objects that disk servers have begun to write for users, by partition.
    pub(crate) begun: BTreeMap<String, BTreeSet<ObjectId>>,
    /// When what is being written changed where it comes from, as its writer says.
    pub(crate) sources: pool::Sources,
    /// How far writes have come that have reserved room.
    pub(crate) reservations: pool::Reservations,
    /// Space that is taken by objects under way, as disk servers said last.
    pub(crate) claims: pool::Claims,
    /// Objects whose disk servers wait for space.
    pub(crate) space_waits: BTreeMap<ObjectId, pool::SpaceWait>,
    /// Files whose last write was cut off, and when.
    pub(crate) cut_off: BTreeMap<FileId, Timestamp>,
    /// How often somebody lost a right since the head started.
    pub(crate) losses: u32,
    /// What happened lately.
    pub(crate) events: EventRing,
    /// What mounts are to return, and disk servers to do with live objects.
    pub(crate) share: share::ShareLive,
    /// Since when files have had too few copies, and whether that was said.
    pub(crate) repair: Option<(Timestamp, bool)>,
}

/// The head.
pub struct Core {
    pub(crate) store: Store,
    namespace_version: Arc<AtomicU64>,
    pub(crate) live: Live,
    pub(crate) config: HeadConfig,
    /// What becomes of what is removed.
    pub(crate) trash: TrashPolicy,
    /// Which files share a tape file.
    pub(crate) bundling: tape::Bundling,
    /// How long a volume may be unread before it is verified; 0: for ever.
    pub(crate) tape_verify_interval: Millis,
    pub(crate) facility: FacilityRow,
    /// Names this start: it stays what it was when somebody sets the clock.
    pub(crate) started: Timestamp,
    /// How far the catalogue has come since.
    pub(crate) progress: Progress,
    /// What it says where there can be other heads.
    pub(crate) beat: Option<Heartbeat>,
    /// When it said so in the group under way.
    pub(crate) beaten: Option<Timestamp>,
    /// What was read of the tape queue last, to explain it.
    pub(crate) explained: RefCell<Option<tape::Explained>>,
    /// What the call under way says about waiting for its reply.
    hints: RefCell<WaitHints>,
    /// Counts what was announced.
    pub(crate) announcements: u64,
    /// The last call was undone, because mounts have to forget first what it changes.
    is_put_off: bool,
    touched: [bool; Topic::ALL.len()],
}

impl Core {
    /// Makes the catalogue of a new facility.
    pub fn create(catalogue: impl Into<Catalogue>, facility: &FacilityRow) -> Result<()> {
        Store::create(catalogue, facility).map(drop)
    }

    /// Makes an empty catalogue for a facility that has lost its own; see [`Store::rebuild`].
    pub fn rebuild(catalogue: impl Into<Catalogue>, facility: &FacilityRow, now: Timestamp) -> Result<()> {
        Store::rebuild(catalogue, facility, now).map(drop)
    }

    /// Opens an existing facility. The start is counted; nothing else changes.
    pub fn open(catalogue: impl Into<Catalogue>, config: HeadConfig, now: Timestamp) -> Result<Self> {
        let mut store = Store::open(catalogue)?;
        store.begin();
        let incarnation = store.next_incarnation()?;
        store.add_head_start(incarnation, now)?;
        store.commit()?;
        share::expect_sessions(&store, now)?;
        let facility = store.facility()?;
        let namespace_version = store.namespace_version();
        let mut core = Self {
            store,
            namespace_version,
            live: Live { since: now, ..Live::default() },
            config,
            trash: TrashPolicy::NONE,
            bundling: tape::Bundling::default(),
            tape_verify_interval: Millis(0),
            facility,
            started: now,
            progress: Progress::default(),
            beat: None,
            beaten: None,
            explained: RefCell::default(),
            hints: RefCell::default(),
            announcements: 0,
            is_put_off: false,
            touched: Default::default(),
        };
        if pool::is_sweep_due(&core)? {
            core.sweep_again();
        }
        // Of hosts that were turned away the catalogue knows.
        pool::notice_away(&mut core, now)?;
        let host = core.config.server.name.clone();
        core.say(
            now,
            EventType::HeadStarted,
            &host,
            format!("the head started on {host}: start {incarnation}"),
        );
        core.live.events.publish();
        Ok(core)
    }

    /// Says how many bytes may be kept in memory of the catalogue.
    pub fn with_cache(mut self, bytes_max: usize) -> Result<Self> {
        self.store.limit_cache(bytes_max)?;
        Ok(self)
    }

    /// Says how long what was removed is kept; without this word nothing is.
    #[must_use]
    pub fn with_trash(mut self, policy: TrashPolicy) -> Self {
        self.trash = policy;
        self
    }

    /// Says after which time what somebody has used of the CPU slots counts half.
    #[must_use]
    pub fn with_half_life(self, half_life: Millis) -> Self {
        self.store.set_half_life(half_life);
        self
    }

    /// The facility's row.
    pub fn facility(&self) -> &FacilityRow {
        &self.facility
    }

    /// Carries out a call alone and makes it durable: for simulation and tools. Daemons use [`crate::Head`], which makes a call
    /// again that was put off; here it is refused as `Busy`.
    pub fn call<C: Apply>(&mut self, context: &Context, call: C) -> Result<C::Reply> {
        self.store.begin();
        let reply = self.apply(context, call);
        if let Err(cause) = self.store.commit() {
            drop(self.store.rollback());
            self.live.events.take_back(0);
            return Err(cause.into());
        }
        self.live.events.publish();
        reply
    }

    /// The version of the namespace; see [`crate::Head::namespace_version`].
    pub fn namespace_version(&self) -> u64 {
        self.namespace_version.load(Ordering::Acquire)
    }

    /// How long requests and jobs had to wait, for readers on other threads.
    pub(crate) fn shared_waits(&self) -> Arc<Waits> {
        Arc::clone(&self.live.waits)
    }

    /// The same, for readers on other threads.
    pub(crate) fn shared_namespace_version(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.namespace_version)
    }

    /// Carries out a call inside an open group; a refused one leaves nothing behind.
    pub(crate) fn apply<C: Apply>(&mut self, context: &Context, call: C) -> Result<C::Reply> {
        self.hints.take();
        self.is_put_off = false;
        self.store.set_time(context.now);
        self.store.begin_call();
        self.live.share.begin_call();
        let said = self.live.events.said_len();
        let mut reply = call.apply(self, context);
        if let Some(put_off) = self.store.take_put_off() {
            reply = Err(share::put_off(self, &put_off));
            self.is_put_off = true;
        }
        if reply.is_err() {
            self.live.events.take_back(said);
        }
        self.store.end_call(reply.is_ok())?;
        if reply.is_err() {
            share::undone(self, context.now)?;
        }
        reply
    }

    /// Whether a call may be undone because mounts have to forget first what it changes.
    pub(crate) fn may_put_off(&self) -> bool {
        !self.store.leases().is_idle()
    }

    /// Whether the last call was; it is to be made again.
    pub(crate) fn take_put_off(&mut self) -> bool {
        std::mem::take(&mut self.is_put_off)
    }

    /// When a partition was there last. The disk server in this process lives as long as the head does.
    pub(crate) fn heard(&self, name: &str, partition: &Partition, pool: &Pool, now: Timestamp) -> Timestamp {
        match self.live.partitions.get(name) {
            Some(PartitionLive { heard, trouble: Some(PartitionTrouble::Gone), .. }) => {
                (*heard).min(Timestamp(now.0 - pool.heard_bound.0 - 1))
            }
            Some(_) if partition.server.name == self.config.server.name => now,
            // It is silent at once, but not for longer than it really is.
            Some(live) if presence::is_known_to_be_away(self, &partition.server.name) => {
                live.heard.min(Timestamp(now.0 - pool.heard_bound.0 - 1))
            }
            Some(live) => live.heard,
            // Who has not registered yet does not answer, and has been silent since the start.
            None => Timestamp(self.live.since.0 - pool.heard_bound.0 - 1),
        }
    }

    /// Whether a disk server has registered and was heard lately.
    pub(crate) fn is_available(&self, name: &str, partition: &Partition, now: Timestamp) -> Result<bool> {
        let pool = self.store.policy(&partition.pool)?;
        Ok(now - self.heard(name, partition, &pool, now) <= pool.heard_bound)
    }

    /// What a disk server says is wrong with a partition.
    pub(crate) fn trouble(&self, partition: &str) -> Option<PartitionTrouble> {
        self.live.partitions.get(partition)?.trouble
    }

    /// Files that were open on a partition when its disk server said so last.
    pub(crate) fn transfers(&self, partition: &str) -> u32 {
        self.live.partitions.get(partition).map_or(0, |live| live.transfers)
    }

    /// All files are to be looked at for missing replicas, from the first.
    pub(crate) fn sweep_again(&mut self) {
        self.live.sweep = Some(ObjectId(0));
    }

    /// Generation of rights to read that are given now; disk servers refuse older ones. Each start of the head has its own:
    /// nobody need remember what was lost before it.
    pub(crate) fn fence(&self) -> u64 {
        self.facility.incarnation << 32 | u64::from(self.live.losses)
    }

    /// Somebody may read less than before: the rights that were given until now do not hold any more.
    pub(crate) fn raise_fence(&mut self) {
        self.live.losses = self.live.losses.saturating_add(1);
        // Doors have kept rights that are older.
        self.store.set_visible();
    }

    /// When the host of a disk server joined.
    pub(crate) fn joined(&self, server: &str) -> Result<Timestamp> {
        Ok(self.store.hosts()?.get(server).map_or(NEVER_JOINED, |host| host.joined))
    }

    /// Says that callers who wait for `topic` should look again.
    pub(crate) fn touch(&mut self, topic: Topic) {
        self.announcements += 1;
        self.touched[topic.index()] = true;
    }

    /// Says what the reply under way waits for, if it is pending: its caller is woken by nothing else.
    pub(crate) fn awaits(&self, what: Awaited) {
        self.hints.borrow_mut().awaited.push(what);
    }

    /// Says when a caller whose reply is pending should look again though nothing was announced.
    pub(crate) fn look_again_in(&self, span: Millis) {
        let look_again = &mut self.hints.borrow_mut().look_again;
        *look_again = Some(look_again.map_or(span, |other| other.min(span)));
    }

    /// Takes what the last call said about waiting for its reply.
    pub(crate) fn take_hints(&mut self) -> WaitHints {
        self.hints.take()
    }

    /// Takes what was touched since the last time.
    pub(crate) fn take_changes(&mut self) -> Changes {
        Changes { topics: std::mem::take(&mut self.touched), awaited: self.store.take_changed() }
    }
}

/// Nobody has registered a partition of this name.
pub(crate) fn unknown_partition(name: &str) -> Failure {
    Failure::not_found(format!("there is no partition {name}")).hint("its disk server must register it")
}
