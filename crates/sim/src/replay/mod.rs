//! Replays traces of other batch systems through the scheduler of the head, and beside it through two others.
//!
//! Jobs are submitted when the trace says and run as long as they ran there; when they start is up to the scheduler. The machine is one
//! pool of processors. No scheduler here fills the gap before a wide job with narrow ones (backfill), so that the comparison is one of
//! the order alone.

mod classic;
mod figures;
mod swf;

pub use classic::Classic;
pub use figures::{Figures, WaitsOfUser};
pub use swf::{Trace, TraceJob, fuzz_trace};

use base::{JobId, Millis, Timestamp};
use head::{Replay, ReplayedJob};
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque},
};

/// Time in which usage counts half.
pub const HALF_LIFE: Millis = Millis::from_seconds(7 * 24 * 3600);

/// Who decides which job starts next.
pub enum Scheduler {
    /// The head's own code.
    Backplane(Box<Replay>),
    /// First come, first served.
    Fifo {
        /// Jobs that wait, by number.
        waiting: VecDeque<usize>,
        /// Processors that nobody has.
        free: u32,
    },
    /// Decayed usage that is looked at every five minutes.
    Classic(Box<Classic>),
}

impl Scheduler {
    /// The head's own code, with the queues of a trace as its queues, all of the same priority.
    pub fn backplane(trace: &Trace) -> Self {
        let queues: BTreeSet<String> = trace.jobs.iter().map(|job| job.queue.to_string()).collect();
        let queues = queues.iter().map(|name| (&**name, 0));
        Self::Backplane(Box::new(Replay::new(trace.cpus, HALF_LIFE, queues)))
    }

    /// First come, first served.
    pub fn fifo(trace: &Trace) -> Self {
        Self::Fifo { waiting: VecDeque::new(), free: trace.cpus }
    }

    /// The fair share that others have.
    pub fn classic(trace: &Trace) -> Self {
        Self::Classic(Box::new(Classic::new(trace.cpus)))
    }

    fn submit(&mut self, number: usize, job: &TraceJob) {
        match self {
            Self::Backplane(replay) => replay.submit(ReplayedJob {
                id: JobId(number as u64),
                queue: job.queue.to_string(),
                // One group: the trace says nothing of shares, and its groups are as many as its users.
                group: "all".to_owned(),
                user: job.user.to_string(),
                cpus: job.cpus,
            }),
            Self::Fifo { waiting, .. } => waiting.push_back(number),
            Self::Classic(classic) => classic.submit(number, job),
        }
    }

    fn end(&mut self, number: usize, job: &TraceJob, now: i64) {
        match self {
            Self::Backplane(replay) => replay.end(JobId(number as u64), seconds(now)),
            Self::Fifo { free, .. } => *free += job.cpus,
            Self::Classic(classic) => classic.end(job, now),
        }
    }

    fn start(&mut self, jobs: &[TraceJob], now: i64) -> Vec<usize> {
        match self {
            Self::Backplane(replay) => {
                replay.start(seconds(now)).into_iter().map(|id| id.0 as usize).collect()
            }
            Self::Fifo { waiting, free } => {
                let mut started = Vec::new();
                while let Some(number) = waiting.front().copied().filter(|number| jobs[*number].cpus <= *free)
                {
                    *free -= jobs[number].cpus;
                    started.extend(waiting.pop_front());
                }
                started
            }
            Self::Classic(classic) => classic.start(jobs, now),
        }
    }
}

fn seconds(now: i64) -> Timestamp {
    Timestamp(now * 1000)
}

/// Replays a trace; yields when each job started, in seconds of the trace.
pub fn replay(trace: &Trace, mut scheduler: Scheduler) -> Vec<i64> {
    let mut started = vec![0; trace.jobs.len()];
    let mut ends: BinaryHeap<Reverse<(i64, usize)>> = BinaryHeap::new();
    let mut submitted = 0;
    loop {
        let next_submit = trace.jobs.get(submitted).map(|job| job.submitted);
        let next_end = ends.peek().map(|Reverse((at, _))| *at);
        let Some(now) = next_submit.into_iter().chain(next_end).min() else { break };
        while let Some(Reverse((_, number))) = ends.peek().copied().filter(|Reverse((at, _))| *at == now) {
            ends.pop();
            scheduler.end(number, &trace.jobs[number], now);
        }
        while let Some(job) = trace.jobs.get(submitted).filter(|job| job.submitted == now) {
            scheduler.submit(submitted, job);
            submitted += 1;
        }
        for number in scheduler.start(&trace.jobs, now) {
            started[number] = now;
            // A job of no length ends after those of the same second have started.
            ends.push(Reverse((now + trace.jobs[number].ran.max(1), number)));
        }
    }
    started
}

/// Jobs of each user.
pub(crate) fn by_user(trace: &Trace) -> BTreeMap<u32, Vec<usize>> {
    let mut users: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for (number, job) in trace.jobs.iter().enumerate() {
        users.entry(job.user).or_default().push(number);
    }
    users
}
