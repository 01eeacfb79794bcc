//! The scheduler of the head without its store, for replays of traces: the same lines, the same shares, the same pass.

use super::plan::{Pass, Slots};
use crate::store::{ActiveJob, ActiveJobs, FairShare, Member, QueueRow, QueueTable, Wish};
use base::{JobId, Millis, Timestamp};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};
use wire::control::{JobState, QueueSettings};

/// A job of a trace.
#[derive(Debug, Clone)]
pub struct ReplayedJob {
    /// Its number; among equals the lowest goes first.
    pub id: JobId,
    /// Name of a queue of the replay; a job of another queue never starts.
    pub queue: String,
    /// Group of its owner.
    pub group: String,
    /// Its owner.
    pub user: String,
    /// Slots that it holds while it runs.
    pub cpus: u32,
}

/// Queues, shares and jobs of one worker that has all slots.
pub struct Replay {
    active: ActiveJobs,
    queues: QueueTable,
    fair: Arc<FairShare>,
    running: BTreeMap<JobId, ActiveJob>,
    waiting: BTreeMap<JobId, ActiveJob>,
    cpus: u32,
    cpus_free: u32,
}

impl Replay {
    /// Nothing waits yet. Queues are named with their priorities; usage counts half after `half_life`.
    pub fn new<'a>(cpus: u32, half_life: Millis, queues: impl IntoIterator<Item = (&'a str, i32)>) -> Self {
        let row = |(name, priority): (&str, i32)| QueueRow {
            name: name.to_owned(),
            settings: QueueSettings { priority, ..QueueSettings::default() },
            is_enabled: true,
            is_started: true,
            is_default: false,
        };
        let queues = queues.into_iter().map(row).map(|row| (row.name.clone(), row)).collect();
        Self {
            active: ActiveJobs::default(),
            queues: QueueTable { queues, run_limit: None },
            fair: Arc::new(FairShare::new(half_life, BTreeMap::new())),
            running: BTreeMap::new(),
            waiting: BTreeMap::new(),
            cpus,
            cpus_free: cpus,
        }
    }

    /// A job waits for slots from now on.
    pub fn submit(&mut self, job: ReplayedJob) {
        let job = ActiveJob {
            id: job.id,
            state: JobState::Queued,
            queue: job.queue,
            member: Member { group: job.group, user: job.user },
            priority: 0,
            wish: Wish {
                cpus: job.cpus,
                memory: 0,
                labels: String::new(),
                is_of_facility_owner: false,
                array: None,
            },
            worker: None,
        };
        self.active.add(&job, 1);
        self.waiting.insert(job.id, job);
    }

    /// Starts what goes next, in order.
    pub fn start(&mut self, now: Timestamp) -> Vec<JobId> {
        static NONE: BTreeSet<JobId> = BTreeSet::new();
        let pass = Pass {
            active: &self.active,
            queues: &self.queues,
            fair: self.fair.clone(),
            held_back: &NONE,
            now,
        };
        let slots = Slots { cpus: self.cpus, cpus_free: self.cpus_free, memory: 0, memory_free: 0 };
        let chosen = pass.dispatch(slots, &|_, _, _| true);
        for id in &chosen {
            let Some(mut job) = self.waiting.remove(id) else { continue };
            self.active.remove(&job, 1);
            job.state = JobState::Running;
            self.active.add(&job, 1);
            self.cpus_free -= job.wish.cpus;
            Arc::make_mut(&mut self.fair).change(&job.member, job.wish.cpus.into(), now);
            self.running.insert(*id, job);
        }
        chosen
    }

    /// A job that ran has ended: its slots are free.
    pub fn end(&mut self, id: JobId, now: Timestamp) {
        let Some(job) = self.running.remove(&id) else { return };
        self.active.remove(&job, 1);
        self.cpus_free += job.wish.cpus;
        Arc::make_mut(&mut self.fair).change(&job.member, -f64::from(job.wish.cpus), now);
    }

    /// Jobs that wait.
    pub fn waiting_len(&self) -> usize {
        self.waiting.len()
    }
}
