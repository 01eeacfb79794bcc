//! Jobs that are not over, as the scheduler needs them: kept in memory beside the rows, and changed with them.
//!
//! Jobs that wait for a slot lie by queue, owner and wish, so that a pass looks at the first of each line only, however long the lines
//! are. A job that waits costs 16 bytes there, and nothing while nothing changes. What a call that is refused changed is changed back;
//! the whole is read anew only after a group was given up.

use super::{JobRow, running::Running};
use crate::store::{Member, Store, StoreResult, engine::Row, word};
use base::JobId;
use std::{
    cell::{Ref, RefCell},
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};
use wire::control::JobState;

/// What jobs of one line have in common: they fit the same workers.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Wish {
    pub(crate) cpus: u32,
    pub(crate) memory: u64,
    /// Labels that the worker must have, with commas between them.
    pub(crate) labels: String,
    pub(crate) is_of_facility_owner: bool,
    /// The array, if it bounds how many of its elements run.
    pub(crate) array: Option<JobId>,
}

/// Jobs of one line: the highest priority first, then the oldest.
pub(crate) type Line = BTreeSet<(Reverse<i32>, JobId)>;
/// The lines of each owner in a queue.
pub(crate) type Lines = BTreeMap<Member, BTreeMap<Wish, Line>>;

/// Where a job stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ActiveJob {
    pub(crate) id: JobId,
    pub(crate) state: JobState,
    pub(crate) queue: String,
    pub(crate) member: Member,
    pub(crate) priority: i32,
    pub(crate) wish: Wish,
    pub(crate) worker: Option<String>,
}

/// Jobs of a queue that are not over.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct QueueCounts {
    pub(crate) held: u64,
    pub(crate) queued: u64,
    pub(crate) running: u64,
    pub(crate) archiving: u64,
}

impl QueueCounts {
    /// All of them.
    pub(crate) fn all(&self) -> u64 {
        self.held + self.queued + self.running + self.archiving
    }

    /// Those of two queues together.
    pub(crate) fn plus(self, other: &Self) -> Self {
        Self {
            held: self.held + other.held,
            queued: self.queued + other.queued,
            running: self.running + other.running,
            archiving: self.archiving + other.archiving,
        }
    }

    fn of(&mut self, state: JobState) -> Option<&mut u64> {
        match state {
            JobState::Held => Some(&mut self.held),
            JobState::Queued => Some(&mut self.queued),
            JobState::Running => Some(&mut self.running),
            JobState::Archiving => Some(&mut self.archiving),
            JobState::Done | JobState::Failed | JobState::Cancelled => None,
        }
    }
}

/// Jobs that are not over.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ActiveJobs {
    waiting: BTreeMap<String, Lines>,
    running: BTreeMap<JobId, ActiveJob>,
    /// How many of them run, by what bounds that.
    counts_running: Running,
    counts: BTreeMap<String, QueueCounts>,
    /// Bounds of arrays that have one.
    caps: BTreeMap<JobId, u32>,
}

impl ActiveJobs {
    /// The lines of a queue.
    pub(crate) fn lines(&self, queue: &str) -> Option<&Lines> {
        self.waiting.get(queue)
    }

    /// Jobs that run.
    pub(crate) fn running(&self) -> impl Iterator<Item = &ActiveJob> {
        self.running.values()
    }

    /// Slots that a job holds.
    pub(crate) fn slots_of(&self, job: JobId) -> u32 {
        self.running.get(&job).map_or(0, |job| job.wish.cpus)
    }

    /// How many run, by what bounds that.
    pub(crate) fn counts_running(&self) -> &Running {
        &self.counts_running
    }

    /// Jobs of each queue that has some.
    pub(crate) fn counts(&self) -> &BTreeMap<String, QueueCounts> {
        &self.counts
    }

    /// How many of an array run at the same time at most.
    pub(crate) fn cap(&self, array: JobId) -> Option<u32> {
        self.caps.get(&array).copied()
    }

    /// All of them.
    pub(crate) fn len(&self) -> u64 {
        self.counts.values().map(QueueCounts::all).sum()
    }

    /// Adds `count` jobs that follow each other, all alike.
    pub(crate) fn add(&mut self, job: &ActiveJob, count: u64) {
        if job.state.is_over() {
            return;
        }
        if let Some(number) = self.counts.entry(job.queue.clone()).or_default().of(job.state) {
            *number += count;
        }
        let ids = (job.id.0..job.id.0 + count).map(JobId);
        match job.state {
            JobState::Queued => {
                let lines = self.waiting.entry(job.queue.clone()).or_default();
                let line = lines.entry(job.member.clone()).or_default().entry(job.wish.clone()).or_default();
                line.extend(ids.map(|id| (Reverse(job.priority), id)));
            }
            JobState::Running => {
                self.counts_running.add(job, count as u32);
                self.running.extend(ids.map(|id| (id, ActiveJob { id, ..job.clone() })));
            }
            _ => {}
        }
    }

    /// Takes them away again.
    pub(crate) fn remove(&mut self, job: &ActiveJob, count: u64) {
        let Some(counts) = self.counts.get_mut(&job.queue) else { return };
        let Some(number) = counts.of(job.state) else { return };
        *number = number.saturating_sub(count);
        if counts.all() == 0 {
            self.counts.remove(&job.queue);
        }
        let ids = (job.id.0..job.id.0 + count).map(JobId);
        match job.state {
            JobState::Queued => self.remove_waiting(job, ids),
            JobState::Running => {
                self.counts_running.remove(job, count as u32);
                ids.for_each(|id| drop(self.running.remove(&id)));
            }
            _ => {}
        }
    }

    fn remove_waiting(&mut self, job: &ActiveJob, ids: impl Iterator<Item = JobId>) {
        let Some(lines) = self.waiting.get_mut(&job.queue) else { return };
        let Some(of_member) = lines.get_mut(&job.member) else { return };
        if let Some(line) = of_member.get_mut(&job.wish) {
            for id in ids {
                line.remove(&(Reverse(job.priority), id));
            }
            if line.is_empty() {
                of_member.remove(&job.wish);
            }
        }
        if of_member.is_empty() {
            lines.remove(&job.member);
        }
        if lines.is_empty() {
            self.waiting.remove(&job.queue);
        }
    }

    pub(crate) fn set_cap(&mut self, array: JobId, cap: Option<u32>) {
        match cap {
            Some(cap) => drop(self.caps.insert(array, cap)),
            None => drop(self.caps.remove(&array)),
        }
    }
}

/// One change, to be undone if its call is refused.
#[derive(Debug)]
enum Change {
    Added(ActiveJob, u64),
    Removed(ActiveJob),
    Cap(JobId, Option<u32>),
}

/// The jobs in memory, once somebody asked for them.
#[derive(Debug, Default)]
pub(in crate::store) struct ActiveTable {
    jobs: Option<ActiveJobs>,
    changes: Vec<Change>,
    /// Changes before the call under way.
    before_call: usize,
}

impl ActiveTable {
    pub(in crate::store) fn begin_call(&mut self) {
        self.before_call = self.changes.len();
    }

    /// The call under way was refused.
    pub(in crate::store) fn undo_call(&mut self) {
        while self.changes.len() > self.before_call {
            let (Some(change), Some(jobs)) = (self.changes.pop(), &mut self.jobs) else { break };
            match change {
                Change::Added(job, count) => jobs.remove(&job, count),
                Change::Removed(job) => jobs.add(&job, 1),
                Change::Cap(array, cap) => jobs.set_cap(array, cap),
            }
        }
    }

    /// The group is durable.
    pub(in crate::store) fn commit(&mut self) {
        self.changes.clear();
        self.before_call = 0;
    }

    /// The group is gone.
    pub(in crate::store) fn forget(&mut self) {
        *self = Self::default();
    }

    fn add(&mut self, job: ActiveJob, count: u64) {
        let Some(jobs) = &mut self.jobs else { return };
        jobs.add(&job, count);
        self.changes.push(Change::Added(job, count));
    }

    fn remove(&mut self, job: ActiveJob) {
        let Some(jobs) = &mut self.jobs else { return };
        jobs.remove(&job, 1);
        self.changes.push(Change::Removed(job));
    }
}

const ACTIVE: &str =
    "j.id, j.state, j.queue, j.grp, j.owner, j.priority, j.cpus, j.memory, j.labels, j.by_facility_owner,
    j.worker, a.id FROM job j LEFT JOIN job_array a ON a.id = j.array_of AND a.running_max IS NOT NULL";

fn active_job(row: &Row<'_>) -> StoreResult<ActiveJob> {
    Ok(ActiveJob {
        id: JobId(row.get(0)?),
        state: word(row, 1)?,
        queue: row.get(2)?,
        member: Member { group: row.get(3)?, user: row.get(4)? },
        priority: row.get(5)?,
        wish: Wish {
            cpus: row.get(6)?,
            memory: row.get(7)?,
            labels: row.get(8)?,
            is_of_facility_owner: row.get(9)?,
            array: row.get::<Option<u64>>(11)?.map(JobId),
        },
        worker: row.get(10)?,
    })
}

impl Store {
    /// The jobs that are not over.
    pub(crate) fn active(&self) -> StoreResult<Ref<'_, ActiveJobs>> {
        if self.active.borrow().jobs.is_none() {
            let jobs = self.read_active()?;
            // What was changed before it was read cannot be undone one by one.
            let mut table = self.active.borrow_mut();
            table.jobs = Some(jobs);
        }
        Ok(Ref::map(self.active.borrow(), |table| table.jobs.as_ref().expect("it was read above")))
    }

    fn read_active(&self) -> StoreResult<ActiveJobs> {
        let mut jobs = ActiveJobs::default();
        let caps = "SELECT id, running_max FROM job_array WHERE running_max IS NOT NULL";
        jobs.caps =
            self.all_now(caps, (), |row| Ok((JobId(row.get(0)?), row.get(1)?)))?.into_iter().collect();
        let sql = format!("SELECT {ACTIVE} WHERE j.state IN ('held','queued','running','archiving')");
        self.all_now(&sql, (), |row| {
            jobs.add(&active_job(row)?, 1);
            Ok(())
        })?;
        Ok(jobs)
    }

    fn active_job(&self, id: JobId) -> StoreResult<Option<ActiveJob>> {
        self.maybe_now(&format!("SELECT {ACTIVE} WHERE j.id = ?1"), (id.0,), active_job)
    }

    /// A job is about to be written as `row`: the memory follows.
    pub(super) fn follow(&self, row: &JobRow) -> StoreResult<()> {
        if self.active.borrow().jobs.is_none() {
            self.read_late();
            return Ok(());
        }
        let running = self.active()?.running.get(&row.id).cloned();
        let before = match running {
            Some(job) => Some(job),
            None => self.active_job(row.id)?,
        };
        let Some(before) = before else { return Ok(()) };
        let after = ActiveJob {
            id: row.id,
            state: row.state,
            queue: row.queue.clone(),
            member: before.member.clone(),
            priority: row.spec.priority,
            wish: Wish {
                cpus: row.spec.resources.cpus,
                memory: row.spec.resources.memory_bytes,
                ..before.wish.clone()
            },
            worker: row.worker.clone(),
        };
        if before != after {
            let mut table = self.active.borrow_mut();
            table.remove(before);
            table.add(after, 1);
        }
        Ok(())
    }

    /// Jobs were added: `count` of them, from this one, all alike.
    pub(super) fn added(&self, first: JobId, count: u64, cap: Option<u32>) -> StoreResult<()> {
        if self.active.borrow().jobs.is_none() {
            self.read_late();
            return Ok(());
        }
        let job = self.active_job(first)?;
        let mut table = self.active.borrow_mut();
        if let (Some(cap), Some(jobs)) = (cap, &mut table.jobs) {
            jobs.set_cap(first, Some(cap));
            table.changes.push(Change::Cap(first, None));
        }
        if let Some(job) = job {
            table.add(job, count);
        }
        Ok(())
    }

    /// The bound of an array changes: its elements stand in another line from now on.
    pub(super) fn forget_active(&self) {
        self.active.borrow_mut().forget();
        self.is_active_stale.set(true);
    }

    /// Rows were changed that are not in memory yet: what is read before the group ends may be given up.
    fn read_late(&self) {
        self.is_active_stale.set(true);
    }
}

/// As the store holds it.
pub(in crate::store) type ActiveCell = RefCell<ActiveTable>;
