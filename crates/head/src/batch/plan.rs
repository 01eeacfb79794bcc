//! Which queued jobs a worker starts, as a pure function.
//!
//! The order: the priority of the queue, then that of the job, then fair share says whose turn it is, then the oldest goes. A pass looks
//! at the first job of each line ([`ActiveJobs`]) once, and then takes one job after the other from an index of them ([`Order`]): it
//! costs as much as there are owners who wait, not jobs, and each job that starts costs the logarithm of that.

mod order;

use self::order::{Cursor, Next, OpenLine, Order};
use super::{refusals::Submitter, windows::is_open};
use crate::store::{ActiveJobs, FairShare, Line, Member, QueueRow, QueueTable, Running, Wish};
use base::{JobId, Timestamp};
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};
use wire::control::{JobUsers, QueueKind};

/// Whether a worker runs jobs of `who`, or may do so.
pub(crate) fn admits(users: &JobUsers, who: &Submitter<'_>) -> bool {
    users.everybody
        || users.maybe_others
        || users.owner && who.is_facility_owner
        || users.users.iter().any(|user| user == who.name)
}

/// What a worker has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slots {
    pub(crate) cpus: u32,
    pub(crate) cpus_free: u32,
    pub(crate) memory: u64,
    pub(crate) memory_free: u64,
}

impl Slots {
    /// Whether a job could ever run here.
    pub(crate) fn can_hold(&self, wish: &Wish) -> bool {
        wish.cpus <= self.cpus && wish.memory <= self.memory
    }

    fn has_room(&self, wish: &Wish) -> bool {
        wish.cpus <= self.cpus_free && wish.memory <= self.memory_free
    }
}

/// Whether a worker has all labels of a wish; its own name counts as one.
pub(crate) fn has_labels(wish: &str, worker: &str, labels: &[String]) -> bool {
    wish.split(',')
        .filter(|label| !label.is_empty())
        .all(|wanted| wanted == worker || labels.iter().any(|label| label == wanted))
}

/// How many jobs run, by what bounds them: those of the store, which counts them, and those that a pass has chosen.
#[derive(Debug, Default)]
pub(crate) struct Limits<'a> {
    run_limit: Option<u32>,
    running: Option<&'a Running>,
    all: u32,
    queues: BTreeMap<&'a str, u32>,
    users: BTreeMap<(&'a str, &'a str), u32>,
    arrays: BTreeMap<JobId, u32>,
}

/// The limit that keeps a job from starting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Limited {
    /// As many jobs run in the facility as may.
    Facility(u32),
    /// In its queue.
    Queue(u32),
    /// Of its user in the queue.
    User(u32),
    /// Of its array.
    Array(u32),
}

impl<'a> Limits<'a> {
    /// What runs now.
    pub(crate) fn of(active: &'a ActiveJobs, run_limit: Option<u32>) -> Self {
        Self { run_limit, running: Some(active.counts_running()), ..Self::default() }
    }

    fn take(&mut self, queue: &'a str, user: &'a str, wish: &Wish) {
        self.all += 1;
        *self.queues.entry(queue).or_default() += 1;
        *self.users.entry((queue, user)).or_default() += 1;
        if let Some(array) = wish.array {
            *self.arrays.entry(array).or_default() += 1;
        }
    }

    /// What keeps a job of a line from starting.
    pub(crate) fn limit(
        &self,
        queue: &QueueRow,
        user: &str,
        (wish, cap): (&Wish, Option<u32>),
    ) -> Option<Limited> {
        let (name, settings) = (queue.name.as_str(), &queue.settings);
        let ran =
            |count: fn(&Running, &str, &str) -> u32| self.running.map_or(0, |all| count(all, name, user));
        let chosen = |count: Option<&u32>| count.copied().unwrap_or(0);
        let reached = |limit: &u32, running: u32| running >= *limit;
        let array = || {
            let array = wish.array?;
            let ran = self.running.map_or(0, |all| all.of_array(array));
            cap.filter(|cap| reached(cap, ran + chosen(self.arrays.get(&array))))
        };
        self.run_limit
            .filter(|limit| reached(limit, ran(|all, _, _| all.all()) + self.all))
            .map(Limited::Facility)
            .or_else(|| {
                let of_queue = || ran(|all, queue, _| all.of_queue(queue)) + chosen(self.queues.get(name));
                settings.run_limit.filter(|limit| reached(limit, of_queue())).map(Limited::Queue)
            })
            .or_else(|| {
                let of_user = || ran(Running::of_user) + chosen(self.users.get(&(name, user)));
                settings.user_run_limit.filter(|limit| reached(limit, of_user())).map(Limited::User)
            })
            .or_else(|| array().map(Limited::Array))
    }
}

/// What a pass looks at.
pub(crate) struct Pass<'a> {
    pub(crate) active: &'a ActiveJobs,
    pub(crate) queues: &'a QueueTable,
    /// Usage, as it is and as it would be with the jobs that were chosen.
    pub(crate) fair: Arc<FairShare>,
    /// Jobs whose inputs cannot be read at the moment.
    pub(crate) held_back: &'a BTreeSet<JobId>,
    pub(crate) now: Timestamp,
}

impl<'a> Pass<'a> {
    /// Queues that run jobs now, those of the same priority together, the highest first.
    fn tiers(&self) -> BTreeMap<Reverse<i32>, Vec<&'a QueueRow>> {
        let mut tiers: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for queue in self.queues.queues.values().filter(|queue| runs_now(queue, self.now)) {
            tiers.entry(Reverse(queue.settings.priority)).or_default().push(queue);
        }
        tiers
    }

    /// The lines of these queues that `takes` accepts, in the order in which they go.
    fn order(&self, queues: &[&'a QueueRow], takes: &dyn Fn(&QueueRow, &Member, &Wish) -> bool) -> Order<'a> {
        let mut order = Order::default();
        for queue in queues {
            for (member, wishes) in self.active.lines(&queue.name).into_iter().flatten() {
                for (wish, line) in wishes.iter().filter(|(wish, _)| takes(queue, member, wish)) {
                    let rank = |member: &Member| self.fair.rank(member, self.now);
                    order.add(member, Cursor { queue, wish, line: self.open(line) }, rank);
                }
            }
        }
        order.begin();
        order
    }

    fn open(&self, line: &'a Line) -> OpenLine<'a> {
        let held_back = self.held_back;
        let line: Box<dyn Iterator<Item = _>> = if held_back.is_empty() {
            Box::new(line.iter())
        } else {
            Box::new(line.iter().filter(move |(_, id)| !held_back.contains(id)))
        };
        line.peekable()
    }

    /// The job that goes next of those that no limit keeps.
    fn next(&self, order: &mut Order<'a>, limits: &Limits<'_>) -> Option<Next<'a>> {
        order.next(|queue, member, wish| {
            let cap = wish.array.and_then(|array| self.active.cap(array));
            limits.limit(queue, &member.user, (wish, cap)).is_none()
        })
    }

    /// The job that was chosen is gone, and its owner has used more.
    fn take(&mut self, next: &Next<'a>, order: &mut Order<'a>, limits: &mut Limits<'a>) {
        limits.take(&next.queue.name, &next.member.user, next.wish);
        Arc::make_mut(&mut self.fair).change(next.member, next.wish.cpus.into(), self.now);
        order.take(next, self.fair.rank(next.member, self.now));
    }

    /// Chooses jobs to start now, in order, of the lines that `takes` accepts for a worker.
    ///
    /// A job that would fit an empty worker but not the free slots holds them until it fits: otherwise small jobs would starve it.
    pub(crate) fn dispatch(
        mut self,
        mut slots: Slots,
        takes: &dyn Fn(&QueueRow, &Member, &Wish) -> bool,
    ) -> Vec<JobId> {
        let whole = slots;
        let takes = |queue: &QueueRow, member: &Member, wish: &Wish| {
            whole.can_hold(wish) && takes(queue, member, wish)
        };
        let tiers = self.tiers();
        let mut limits = Limits::of(self.active, self.queues.run_limit);
        let mut chosen = Vec::new();
        if slots.cpus_free == 0 {
            return chosen;
        }
        for queues in tiers.values() {
            let mut order = self.order(queues, &takes);
            while let Some(next) = self.next(&mut order, &limits) {
                if !slots.has_room(next.wish) {
                    return chosen;
                }
                slots.cpus_free -= next.wish.cpus;
                slots.memory_free -= next.wish.memory;
                self.take(&next, &mut order, &mut limits);
                chosen.push(next.id);
            }
        }
        chosen
    }

    /// How many jobs go before one of those that wait, if slots came free one after the other; at most `most`.
    pub(crate) fn ahead_of(mut self, job: JobId, most: usize) -> usize {
        let mut limits = Limits::default();
        let (mut ahead, tiers) = (0, self.tiers());
        for queues in tiers.values() {
            let mut order = self.order(queues, &|_, _, _| true);
            while ahead < most {
                // Nothing bounds it: what runs now will have ended.
                let Some(next) = self.next(&mut order, &Limits::default()) else { break };
                if next.id == job {
                    return ahead;
                }
                self.take(&next, &mut order, &mut limits);
                ahead += 1;
            }
        }
        ahead
    }
}

/// Whether a queue starts jobs at this time.
pub(crate) fn runs_now(queue: &QueueRow, now: Timestamp) -> bool {
    queue.is_started && queue.settings.kind == QueueKind::Batch && is_open(&queue.settings.windows, now)
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
