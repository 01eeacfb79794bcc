//! How many jobs run, by what bounds them: kept as jobs start and end, so that nobody counts them.

use super::active::ActiveJob;
use base::JobId;
use std::collections::BTreeMap;

/// Jobs that run in a queue.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct OfQueue {
    all: u32,
    users: BTreeMap<String, u32>,
}

/// Jobs that run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Running {
    all: u32,
    queues: BTreeMap<String, OfQueue>,
    /// Of arrays that have a bound.
    arrays: BTreeMap<JobId, u32>,
}

impl Running {
    /// All of them.
    pub(crate) fn all(&self) -> u32 {
        self.all
    }

    /// Those of a queue.
    pub(crate) fn of_queue(&self, queue: &str) -> u32 {
        self.queues.get(queue).map_or(0, |counts| counts.all)
    }

    /// Those of a user in a queue.
    pub(crate) fn of_user(&self, queue: &str, user: &str) -> u32 {
        self.queues.get(queue).and_then(|counts| counts.users.get(user)).copied().unwrap_or(0)
    }

    /// Those of an array that has a bound.
    pub(crate) fn of_array(&self, array: JobId) -> u32 {
        self.arrays.get(&array).copied().unwrap_or(0)
    }

    /// So many jobs, all alike, run from now on.
    pub(super) fn add(&mut self, job: &ActiveJob, count: u32) {
        self.all += count;
        let queue = self.queues.entry(job.queue.clone()).or_default();
        queue.all += count;
        *queue.users.entry(job.member.user.clone()).or_default() += count;
        if let Some(array) = job.wish.array {
            *self.arrays.entry(array).or_default() += count;
        }
    }

    /// They run no more.
    pub(super) fn remove(&mut self, job: &ActiveJob, count: u32) {
        self.all = self.all.saturating_sub(count);
        if let Some(queue) = self.queues.get_mut(&job.queue) {
            queue.all = queue.all.saturating_sub(count);
            subtract(&mut queue.users, &job.member.user, count);
            if queue.all == 0 {
                self.queues.remove(&job.queue);
            }
        }
        if let Some(array) = job.wish.array {
            subtract(&mut self.arrays, &array, count);
        }
    }
}

fn subtract<K: Ord>(counts: &mut BTreeMap<K, u32>, key: &K, count: u32) {
    let Some(number) = counts.get_mut(key) else { return };
    *number = number.saturating_sub(count);
    if *number == 0 {
        counts.remove(key);
    }
}
