//! Which queued jobs a worker starts, as a pure function.
//!
//! The order: the priority of the queue, then that of the job, then fair share says whose turn it is, then the oldest goes. A pass looks
//! at the first job of each line ([`ActiveJobs`]), so that it costs as much as there are owners who wait, not jobs.

use super::{fair_share::Rank, refusals::Submitter, windows::is_open};
use crate::store::{ActiveJobs, FairShare, Line, Member, QueueRow, QueueTable, Wish};
use base::{JobId, Timestamp};
use std::{
    cmp::{Ordering, Reverse},
    collections::{BTreeMap, BTreeSet},
    iter::Peekable,
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

/// How many more jobs may start, by what bounds them.
#[derive(Debug, Default)]
pub(crate) struct Limits<'a> {
    run_limit: Option<u32>,
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
        let mut limits = Self { run_limit, ..Self::default() };
        for job in active.running() {
            limits.take(&job.queue, &job.member.user, &job.wish);
        }
        limits
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
        let name = queue.name.as_str();
        let reached = |limit: Option<u32>, running: Option<&u32>| {
            limit.filter(|limit| running.copied().unwrap_or(0) >= *limit)
        };
        let array = wish.array.and_then(|array| self.arrays.get(&array));
        reached(self.run_limit, Some(&self.all))
            .map(Limited::Facility)
            .or_else(|| reached(queue.settings.run_limit, self.queues.get(name)).map(Limited::Queue))
            .or_else(|| {
                reached(queue.settings.user_run_limit, self.users.get(&(name, user))).map(Limited::User)
            })
            .or_else(|| reached(cap, array).map(Limited::Array))
    }
}

/// What is left of a line.
type OpenLine<'a> = Peekable<Box<dyn Iterator<Item = &'a (Reverse<i32>, JobId)> + 'a>>;
/// What decides which job goes next: the lowest.
type Key = (Reverse<i32>, (Rank, Rank), JobId);

/// A line that may give the next job.
struct Cursor<'a> {
    queue: &'a QueueRow,
    wish: &'a Wish,
    line: OpenLine<'a>,
}

/// An owner who waits, with their lines.
struct Waiting<'a> {
    member: &'a Member,
    rank: (Rank, Rank),
    lines: Vec<Cursor<'a>>,
}

/// The job that goes next.
struct Next<'a> {
    at: (usize, usize),
    id: JobId,
    queue: &'a QueueRow,
    wish: &'a Wish,
    member: &'a Member,
}

/// What a pass looks at.
pub(crate) struct Pass<'a> {
    pub(crate) active: &'a ActiveJobs,
    pub(crate) queues: &'a QueueTable,
    /// Usage, as it is and as it would be with the jobs that were chosen.
    pub(crate) fair: FairShare,
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

    /// Owners who wait in these queues, with the lines that `takes` accepts.
    fn waiting(
        &self,
        queues: &[&'a QueueRow],
        takes: &dyn Fn(&QueueRow, &Member, &Wish) -> bool,
    ) -> Vec<Waiting<'a>> {
        let mut lines: BTreeMap<&'a Member, Vec<Cursor<'a>>> = BTreeMap::new();
        for queue in queues {
            for (member, wishes) in self.active.lines(&queue.name).into_iter().flatten() {
                for (wish, line) in wishes.iter().filter(|(wish, _)| takes(queue, member, wish)) {
                    let line = self.open(line);
                    lines.entry(member).or_default().push(Cursor { queue, wish, line });
                }
            }
        }
        let ranked = lines.into_iter().map(|(member, lines)| Waiting {
            member,
            rank: self.fair.rank(member, self.now),
            lines,
        });
        ranked.collect()
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
    fn next(&self, waiting: &mut [Waiting<'a>], limits: &Limits<'_>) -> Option<Next<'a>> {
        let mut best: Option<(Key, Next<'a>)> = None;
        for (at, owner) in waiting.iter_mut().enumerate() {
            let (rank, member) = (owner.rank, owner.member);
            for (line_at, line) in owner.lines.iter_mut().enumerate() {
                let Some((priority, id)) = line.line.peek().copied().copied() else { continue };
                let key = (priority, rank, id);
                if best.as_ref().is_some_and(|(other, _)| compare(&key, other) != Ordering::Less) {
                    continue;
                }
                let cap = line.wish.array.and_then(|array| self.active.cap(array));
                if limits.limit(line.queue, &member.user, (line.wish, cap)).is_some() {
                    continue;
                }
                let (queue, wish) = (line.queue, line.wish);
                best = Some((key, Next { at: (at, line_at), id, queue, wish, member }));
            }
        }
        best.map(|(_, next)| next)
    }

    /// The job that was chosen is gone, and its owner has used more.
    fn take(&mut self, next: &Next<'a>, waiting: &mut [Waiting<'a>], limits: &mut Limits<'a>) {
        waiting[next.at.0].lines[next.at.1].line.next();
        limits.take(&next.queue.name, &next.member.user, next.wish);
        self.fair.change(next.member, next.wish.cpus.into(), self.now);
        for other in waiting.iter_mut().filter(|other| other.member.group == next.member.group) {
            other.rank = self.fair.rank(other.member, self.now);
        }
    }

    /// Chooses jobs to start now, in order, of the lines that `takes` accepts for a worker.
    ///
    /// A job that would fit an empty worker but not the free slots holds them until it fits: otherwise small jobs would starve it.
    pub(crate) fn dispatch(
        mut self,
        mut slots: Slots,
        takes: &dyn Fn(&QueueRow, &Member, &Wish) -> bool,
    ) -> Vec<JobId> {
        let takes = |queue: &QueueRow, member: &Member, wish: &Wish| {
            slots.can_hold(wish) && takes(queue, member, wish)
        };
        let tiers = self.tiers();
        let mut limits = Limits::of(self.active, self.queues.run_limit);
        let mut chosen = Vec::new();
        if slots.cpus_free == 0 {
            return chosen;
        }
        let lines: Vec<_> = tiers.values().map(|queues| self.waiting(queues, &takes)).collect();
        for mut waiting in lines {
            while let Some(next) = self.next(&mut waiting, &limits) {
                if !slots.has_room(next.wish) {
                    return chosen;
                }
                slots.cpus_free -= next.wish.cpus;
                slots.memory_free -= next.wish.memory;
                self.take(&next, &mut waiting, &mut limits);
                chosen.push(next.id);
            }
        }
        chosen
    }

    /// How many jobs go before one of those that wait, if slots came free one after the other; at most `most`.
    pub(crate) fn ahead_of(mut self, job: JobId, most: usize) -> usize {
        let mut limits = Limits::default();
        let (mut ahead, tiers) = (0, self.tiers());
        let lines: Vec<_> = tiers.values().map(|queues| self.waiting(queues, &|_, _, _| true)).collect();
        for mut waiting in lines {
            while ahead < most {
                // Nothing bounds it: what runs now will have ended.
                let Some(next) = self.next(&mut waiting, &Limits::default()) else { break };
                if next.id == job {
                    return ahead;
                }
                self.take(&next, &mut waiting, &mut limits);
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

/// Ranks are numbers that are never NaN: what cannot be compared is equal.
fn compare(one: &Key, other: &Key) -> Ordering {
    one.0
        .cmp(&other.0)
        .then_with(|| one.1.partial_cmp(&other.1).unwrap_or(Ordering::Equal))
        .then_with(|| one.2.cmp(&other.2))
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
