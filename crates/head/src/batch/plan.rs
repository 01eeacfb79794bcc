//! Which queued jobs a worker starts, as a pure function.

use super::refusals::Submitter;
use crate::store::{FairShare, Member};
use base::{JobId, Timestamp};
use std::collections::{BTreeMap, VecDeque};
use wire::control::JobUsers;

/// Whether a worker runs jobs of `who`, or may do so.
pub(crate) fn admits(users: &JobUsers, who: &Submitter<'_>) -> bool {
    users.everybody
        || users.maybe_others
        || users.owner && who.is_facility_owner
        || users.users.iter().any(|user| user == who.name)
}

/// A job that could start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub(crate) id: JobId,
    pub(crate) member: Member,
    pub(crate) cpus: u32,
    pub(crate) memory: u64,
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
    /// Whether the job could ever run here.
    pub(crate) fn can_hold(&self, job: &Candidate) -> bool {
        job.cpus <= self.cpus && job.memory <= self.memory
    }

    fn has_room(&self, job: &Candidate) -> bool {
        job.cpus <= self.cpus_free && job.memory <= self.memory_free
    }
}

/// Queued jobs in the order of their numbers, by whose they are.
pub(crate) struct Queue {
    of: BTreeMap<Member, VecDeque<Candidate>>,
}

impl Queue {
    /// Of jobs in the order of their numbers.
    pub(crate) fn new(jobs: impl IntoIterator<Item = Candidate>) -> Self {
        let mut of: BTreeMap<Member, VecDeque<Candidate>> = BTreeMap::new();
        for job in jobs {
            of.entry(job.member.clone()).or_default().push_back(job);
        }
        Self { of }
    }

    /// Takes the job that goes next: the oldest of whom fair share says; among equals the oldest of all.
    pub(crate) fn next(&self, fair: &FairShare, now: Timestamp) -> Option<&Candidate> {
        let mut members: Vec<_> = self.of.iter().collect();
        members.sort_by_key(|(_, jobs)| jobs.front().map(|job| job.id));
        let next = fair.next(members.iter().map(|(member, _)| *member), now)?;
        self.of.get(next)?.front()
    }

    /// The oldest job of a user is gone.
    pub(crate) fn take(&mut self, member: &Member) -> Option<Candidate> {
        let jobs = self.of.get_mut(member)?;
        let job = jobs.pop_front();
        if jobs.is_empty() {
            self.of.remove(member);
        }
        job
    }
}

/// Chooses jobs to start now, in order, of those that the worker runs at all.
///
/// Fair share says whose turn it is; the oldest job of that user goes. A job that would fit an empty worker but not the free slots
/// holds them until it fits: otherwise small jobs would starve it.
pub(crate) fn dispatch(
    mut slots: Slots,
    queue: impl IntoIterator<Item = Candidate>,
    mut fair: FairShare,
    now: Timestamp,
) -> Vec<JobId> {
    let mut queue = Queue::new(queue.into_iter().filter(|job| slots.can_hold(job)));
    let mut chosen = Vec::new();
    while let Some(member) =
        queue.next(&fair, now).filter(|job| slots.has_room(job)).map(|job| job.member.clone())
    {
        let Some(job) = queue.take(&member) else { break };
        slots.cpus_free -= job.cpus;
        slots.memory_free -= job.memory;
        fair.change(&member, job.cpus.into(), now);
        chosen.push(job.id);
    }
    chosen
}

/// How many jobs go before one of those that wait, if slots came free one after the other; at most `most`.
pub(crate) fn ahead_of(
    job: JobId,
    queue: impl IntoIterator<Item = Candidate>,
    (mut fair, now): (FairShare, Timestamp),
    most: usize,
) -> usize {
    let mut queue = Queue::new(queue);
    for ahead in 0..most {
        let Some(next) = queue.next(&fair, now).cloned() else { return ahead };
        if next.id == job {
            return ahead;
        }
        queue.take(&next.member);
        fair.change(&next.member, next.cpus.into(), now);
    }
    most
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn job(id: u64, owner: &str, cpus: u32) -> Candidate {
        let member = Member { group: "g".into(), user: owner.into() };
        Candidate { id: JobId(id), member, cpus, memory: 0 }
    }

    fn choose(slots: Slots, queue: Vec<Candidate>) -> Vec<JobId> {
        dispatch(slots, queue, nobody(), Timestamp(0))
    }

    /// Nobody has used anything.
    fn nobody() -> FairShare {
        FairShare::new(base::Millis(1000), BTreeMap::new())
    }

    fn slots(cpus: u32, cpus_free: u32) -> Slots {
        Slots { cpus, cpus_free, memory: 0, memory_free: 0 }
    }

    #[test]
    fn owners_take_turns_and_among_equals_the_oldest_goes_first() {
        let queue = vec![job(1, "ada", 1), job(2, "ada", 1), job(3, "bob", 1)];
        let ids = choose(slots(3, 3), queue);
        assert_eq!(ids, [JobId(1), JobId(3), JobId(2)]);
    }

    #[test]
    fn a_worker_runs_jobs_of_those_whom_it_names() {
        let nobody = JobUsers { everybody: false, ..JobUsers::default() };
        let [ada, owner] = [("ada", false), ("root", true)]
            .map(|(name, is_facility_owner)| Submitter { name, is_facility_owner });
        let unproven = Submitter { is_facility_owner: false, ..owner };
        assert!(admits(&JobUsers::default(), &ada), "a worker that does not say it runs all");
        assert!(!admits(&nobody, &ada) && !admits(&nobody, &owner));
        let for_owner = JobUsers { owner: true, ..nobody.clone() };
        assert!(admits(&for_owner, &owner) && !admits(&for_owner, &ada));
        assert!(!admits(&for_owner, &unproven), "a name proves nothing");
        let for_ada = JobUsers { users: vec!["ada".into()], ..nobody.clone() };
        assert!(admits(&for_ada, &ada) && !admits(&for_ada, &owner));
        assert!(admits(&JobUsers { maybe_others: true, ..nobody }, &ada));
    }

    #[test]
    fn a_wide_job_is_not_starved_by_narrow_ones() {
        let queue = vec![job(1, "ada", 2), job(2, "ada", 1)];
        assert_eq!(choose(slots(2, 1), queue.clone()), []);
        assert_eq!(choose(slots(2, 2), queue), [JobId(1)]);
    }

    #[test]
    fn a_job_that_never_fits_blocks_nobody() {
        let queue = vec![job(1, "ada", 9), job(2, "ada", 1)];
        assert_eq!(choose(slots(2, 2), queue), [JobId(2)]);
    }

    #[test]
    fn the_place_in_line_is_that_of_the_dispatch() {
        let queue = vec![job(1, "ada", 1), job(2, "ada", 1), job(3, "bob", 1)];
        let ahead = |id| ahead_of(JobId(id), queue.clone(), (nobody(), Timestamp(0)), 9);
        assert_eq!([ahead(1), ahead(3), ahead(2)], [0, 1, 2]);
    }

    proptest! {
        #[test]
        fn slots_are_never_overcommitted(cpus in prop::collection::vec(0u32..6, 0..40), free in 0u32..8) {
            let queue: Vec<_> = cpus.iter().enumerate().map(|(id, cpus)| job(id as u64, "ada", *cpus)).collect();
            let ids = choose(slots(8, free), queue.clone());
            let used: u32 = ids.iter().map(|id| queue[id.0 as usize].cpus).sum();
            prop_assert!(used <= free);
        }
    }
}
