//! Which queued jobs a worker starts, as a pure function.

use super::refusals::Submitter;
use base::JobId;
use std::collections::HashMap;
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
    pub(crate) owner: String,
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

/// Chooses jobs to start now, in order, of those that the worker runs at all.
///
/// The owner with the fewest busy slots goes next, among equals the oldest job. A job that would fit an empty worker
/// but not the free slots holds them until it fits: otherwise small jobs would starve it.
pub(crate) fn dispatch(
    mut slots: Slots,
    mut queue: Vec<Candidate>,
    mut busy: HashMap<String, u32>,
) -> Vec<JobId> {
    queue.retain(|job| slots.can_hold(job));
    let mut chosen = Vec::new();
    while !queue.is_empty() {
        let next = (0..queue.len())
            .min_by_key(|&index| (busy.get(&queue[index].owner).copied().unwrap_or(0), queue[index].id))
            .expect("the queue is not empty");
        if !slots.has_room(&queue[next]) {
            break;
        }
        let job = queue.remove(next);
        slots.cpus_free -= job.cpus;
        slots.memory_free -= job.memory;
        *busy.entry(job.owner).or_default() += job.cpus;
        chosen.push(job.id);
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn job(id: u64, owner: &str, cpus: u32) -> Candidate {
        Candidate { id: JobId(id), owner: owner.into(), cpus, memory: 0 }
    }

    fn slots(cpus: u32, cpus_free: u32) -> Slots {
        Slots { cpus, cpus_free, memory: 0, memory_free: 0 }
    }

    #[test]
    fn owners_take_turns_and_among_equals_the_oldest_goes_first() {
        let queue = vec![job(1, "ada", 1), job(2, "ada", 1), job(3, "bob", 1)];
        let ids = dispatch(slots(3, 3), queue, HashMap::new());
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
        assert_eq!(dispatch(slots(2, 1), queue.clone(), HashMap::new()), []);
        assert_eq!(dispatch(slots(2, 2), queue, HashMap::new()), [JobId(1)]);
    }

    #[test]
    fn a_job_that_never_fits_blocks_nobody() {
        let queue = vec![job(1, "ada", 9), job(2, "ada", 1)];
        assert_eq!(dispatch(slots(2, 2), queue, HashMap::new()), [JobId(2)]);
    }

    proptest! {
        #[test]
        fn slots_are_never_overcommitted(cpus in prop::collection::vec(0u32..6, 0..40), free in 0u32..8) {
            let queue: Vec<_> = cpus.iter().enumerate().map(|(id, cpus)| job(id as u64, "ada", *cpus)).collect();
            let ids = dispatch(slots(8, free), queue.clone(), HashMap::new());
            let used: u32 = ids.iter().map(|id| queue[id.0 as usize].cpus).sum();
            prop_assert!(used <= free);
        }
    }
}
