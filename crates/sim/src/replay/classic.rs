//! Fair share as others have it, to compare with: usage decays with the same half-life, but it and the factor 2^(−U/S) are looked at
//! every five minutes only, and a job is charged for what it ran until then.

use super::{HALF_LIFE, TraceJob};
use std::collections::{BTreeMap, BTreeSet};

/// Seconds between two looks: what Slurm does when nobody says another.
const PERIOD: i64 = 300;

#[derive(Debug, Default)]
struct User {
    used: f64,
    /// Processors that they hold.
    holds: u32,
    /// Processor seconds of jobs that ended since the last look, less those that began late in it.
    since: f64,
    waiting: BTreeSet<usize>,
}

/// Users, what they have used as of the last look, and their jobs that wait.
#[derive(Debug)]
pub struct Classic {
    users: BTreeMap<u32, User>,
    /// Users who have jobs that wait, the one with the least usage first. Usage is a number that is not negative.
    order: BTreeSet<(u64, u32)>,
    looked: i64,
    free: u32,
}

impl Classic {
    /// Nobody has used anything.
    pub fn new(cpus: u32) -> Self {
        Self { users: BTreeMap::new(), order: BTreeSet::new(), looked: 0, free: cpus }
    }

    pub(super) fn submit(&mut self, number: usize, job: &TraceJob) {
        let user = self.users.entry(job.user).or_default();
        user.waiting.insert(number);
        // All shares are equal: the least used has the highest factor.
        self.order.insert((user.used.to_bits(), job.user));
    }

    pub(super) fn end(&mut self, job: &TraceJob, now: i64) {
        self.free += job.cpus;
        let looked = self.looked;
        if let Some(user) = self.users.get_mut(&job.user) {
            user.holds -= job.cpus;
            user.since += f64::from(job.cpus) * (now - looked) as f64;
        }
    }

    fn look(&mut self, now: i64) {
        if now - self.looked < PERIOD {
            return;
        }
        let span = (now - self.looked) as f64;
        let decay = (-std::f64::consts::LN_2 * span / (HALF_LIFE.0 as f64 / 1000.0)).exp();
        for user in self.users.values_mut() {
            let ran = user.since + f64::from(user.holds) * span;
            user.used = user.used * decay + ran.max(0.0);
            user.since = 0.0;
        }
        self.looked = now;
        let waiting = self.users.iter().filter(|(_, user)| !user.waiting.is_empty());
        self.order = waiting.map(|(name, user)| (user.used.to_bits(), *name)).collect();
    }

    pub(super) fn start(&mut self, jobs: &[TraceJob], now: i64) -> Vec<usize> {
        self.look(now);
        let mut started = Vec::new();
        while let Some(&(used, name)) = self.order.first() {
            // Among users who have used the same, the oldest job goes.
            let equals = self.order.range((used, 0)..=(used, u32::MAX)).count();
            let name = if equals > 1 { self.oldest(used) } else { name };
            let Some(user) = self.users.get_mut(&name) else { break };
            let Some(number) = user.waiting.first().copied().filter(|number| jobs[*number].cpus <= self.free)
            else {
                break;
            };
            user.waiting.pop_first();
            user.holds += jobs[number].cpus;
            user.since -= f64::from(jobs[number].cpus) * (now - self.looked) as f64;
            self.free -= jobs[number].cpus;
            if user.waiting.is_empty() {
                self.order.remove(&(used, name));
            }
            started.push(number);
        }
        started
    }

    /// Of the users with this usage the one whose first job is the oldest.
    fn oldest(&self, used: u64) -> u32 {
        let equals = self.order.range((used, 0)..=(used, u32::MAX)).map(|(_, name)| *name);
        let first = |name: &u32| self.users.get(name).and_then(|user| user.waiting.first().copied());
        equals.min_by_key(first).unwrap_or_default()
    }
}
