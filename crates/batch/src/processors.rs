//! Gives each run processors of its own: as many as it has CPU slots.
//!
//! Two jobs share a processor only where the worker offers more slots than it has processors.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::{
    collections::BTreeMap,
    io,
    sync::{Mutex, MutexGuard, PoisonError},
};
use wire::control::JobRun;

/// The processors of this host that the worker may use, and which runs have them.
pub(crate) struct Processors {
    /// Ascending.
    all: Vec<u32>,
    /// A short lock.
    assigned: Mutex<BTreeMap<JobRun, Vec<u32>>>,
}

impl Processors {
    /// Those that this process may use.
    pub(crate) fn of_this_process() -> Self {
        let set = sched_getaffinity(None).unwrap_or_else(|_| CpuSet::new());
        let all = (0..CpuSet::MAX_CPU).filter(|number| set.is_set(*number));
        Self::new(all.map(|number| number as u32).collect())
    }

    fn new(all: Vec<u32>) -> Self {
        Self { all, assigned: Mutex::default() }
    }

    fn assigned(&self) -> MutexGuard<'_, BTreeMap<JobRun, Vec<u32>>> {
        // A map of numbers is sound after any panic.
        self.assigned.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Assigns processors to a run: the same again if it has some. Empty: all of the host, unbound.
    pub(crate) fn assign(&self, run: JobRun, slots: u32) -> Vec<u32> {
        let mut assigned = self.assigned();
        if let Some(known) = assigned.get(&run) {
            return known.clone();
        }
        let chosen = choose(&self.all, assigned.values().flatten().copied(), slots);
        assigned.insert(run, chosen.clone());
        chosen
    }

    /// Notes what an earlier room assigned.
    pub(crate) fn restore(&self, run: JobRun, processors: Vec<u32>) {
        self.assigned().insert(run, processors);
    }

    /// The run is over.
    pub(crate) fn release(&self, run: JobRun) {
        self.assigned().remove(&run);
    }
}

/// Chooses the processors that fewest runs have, the lowest numbers first: neighbours share caches and memory nodes. A job that
/// wants all of them, or more, is not bound.
fn choose(all: &[u32], assigned: impl Iterator<Item = u32>, slots: u32) -> Vec<u32> {
    if slots as usize >= all.len() {
        return Vec::new();
    }
    let mut users: BTreeMap<u32, u32> = all.iter().map(|processor| (*processor, 0)).collect();
    for processor in assigned {
        users.entry(processor).and_modify(|count| *count += 1);
    }
    let mut by_use: Vec<_> = users.into_iter().map(|(processor, count)| (count, processor)).collect();
    by_use.sort_unstable();
    let mut chosen: Vec<u32> =
        by_use.into_iter().take(slots as usize).map(|(_, processor)| processor).collect();
    chosen.sort_unstable();
    chosen
}

/// Binds this thread, and all that it starts, to processors. Fails if this host does not have them any more.
pub(crate) fn bind_to(processors: &[u32]) -> io::Result<()> {
    let mut set = CpuSet::new();
    for processor in processors.iter().filter(|processor| (**processor as usize) < CpuSet::MAX_CPU) {
        set.set(*processor as usize);
    }
    Ok(sched_setaffinity(None, &set)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::JobId;
    use proptest::prelude::*;

    fn run(job: u64) -> JobRun {
        JobRun { job: JobId(job), attempt: 1 }
    }

    #[test]
    fn two_jobs_on_two_processors_do_not_share_one() {
        let processors = Processors::new(vec![0, 1]);
        assert_eq!(processors.assign(run(1), 1), [0]);
        assert_eq!(processors.assign(run(2), 1), [1]);
        assert_eq!(processors.assign(run(1), 1), [0], "it has some already");
        processors.release(run(1));
        assert_eq!(processors.assign(run(3), 1), [0]);
        assert!(processors.assign(run(4), 2).is_empty(), "the whole host");
    }

    #[test]
    fn what_an_earlier_room_assigned_is_not_free() {
        let processors = Processors::new(vec![2, 5, 7]);
        processors.restore(run(1), vec![2, 9]);
        assert_eq!(processors.assign(run(2), 2), [5, 7]);
    }

    proptest! {
        #[test]
        fn processors_are_shared_only_when_all_have_a_run(slots in prop::collection::vec(1u32..5, 1..20)) {
            let all: Vec<u32> = (0..16).collect();
            let processors = Processors::new(all);
            let mut users = [0u32; 16];
            for (index, slots) in slots.into_iter().enumerate() {
                let chosen = processors.assign(run(index as u64 + 1), slots);
                prop_assert_eq!(chosen.len(), slots as usize);
                for processor in chosen {
                    users[processor as usize] += 1;
                }
                let (least, most) = (users.iter().min().unwrap(), users.iter().max().unwrap());
                prop_assert!(most - least <= 1);
            }
        }
    }
}
