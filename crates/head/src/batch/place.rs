//! Which worker a job goes to, of those that could start it now.
//!
//! Workers ask for jobs; nothing is pushed to them. So a worker that asks is not given a job that another one, which asks as well, should
//! rather have: the one that holds most of the job's inputs, among equals the one with the least load.

use super::{
    plan::has_labels,
    refusals::refusal,
    routes::{labels_of, serves},
};
use crate::{
    Core,
    store::{JobFileRole, JobRow, WorkerRow},
};
use base::{Millis, Result, Timestamp};
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

/// A worker that was not heard for longer does not ask for jobs: its call waits for half a minute.
const ASKS_WITHIN: Millis = Millis::from_seconds(35);
/// Inputs that are looked up for one job: with more of them the first say enough.
const INPUTS_LOOKED_AT_MAX: usize = 100;

/// What a worker has to offer now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Offer {
    pub(crate) name: String,
    pub(crate) cpus: u32,
    pub(crate) cpus_free: u32,
    pub(crate) memory_free: u64,
    /// Its load average in thousandths of a processor; 0 if it did not say.
    pub(crate) load_permille: u64,
}

/// What a job needs of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Needs {
    pub(crate) cpus: u32,
    pub(crate) memory: u64,
}

impl Offer {
    fn has_room(&self, needs: Needs) -> bool {
        needs.cpus <= self.cpus_free && needs.memory <= self.memory_free
    }

    /// How busy it is with the job, in thousandths: by slots or by what runs there, whichever is more.
    fn busy_permille(&self, needs: Needs) -> u64 {
        let cpus = u64::from(self.cpus.max(1));
        let taken = u64::from(self.cpus.saturating_sub(self.cpus_free)) + u64::from(needs.cpus);
        (taken * 1000 / cpus).max(self.load_permille / cpus)
    }
}

/// Chooses the worker that should have a job: that with most bytes of its inputs, then that with the least load, then by name, so that
/// all who ask come to the same answer. `None` if no worker has room.
pub(crate) fn choose<'a>(
    offers: impl IntoIterator<Item = &'a Offer>,
    needs: Needs,
    local_bytes: &BTreeMap<&str, u64>,
) -> Option<&'a Offer> {
    let able = offers.into_iter().filter(|offer| offer.has_room(needs));
    able.min_by_key(|offer| {
        let local = local_bytes.get(&*offer.name).copied().unwrap_or(0);
        (Reverse(local), offer.busy_permille(needs), offer.name.clone())
    })
}

/// Workers that ask for jobs, with what they have to offer; computed once for each call of a worker.
pub(super) struct Offers {
    workers: Vec<(WorkerRow, Offer)>,
}

impl Offers {
    pub(super) fn now(core: &Core, now: Timestamp) -> Result<Self> {
        let mut taken: BTreeMap<String, (u32, u64)> = BTreeMap::new();
        for job in core.store.active()?.running() {
            let of_worker = taken.entry(job.worker.clone().unwrap_or_default()).or_default();
            of_worker.0 += job.wish.cpus;
            of_worker.1 += job.wish.memory;
        }
        let offer = |row: WorkerRow| {
            let live = core.live.workers.get(&row.name).filter(|live| now - live.heard <= ASKS_WITHIN)?;
            if row.is_draining || !super::is_available(core, &row.name, now) {
                return None;
            }
            let (cpus, memory) = taken.get(&row.name).copied().unwrap_or_default();
            let offer = Offer {
                name: row.name.clone(),
                cpus: row.cpus,
                cpus_free: row.cpus.saturating_sub(cpus),
                memory_free: row.memory.saturating_sub(memory),
                load_permille: live.load.map_or(0, |load| load.running_permille),
            };
            Some((row, offer))
        };
        Ok(Self { workers: core.store.workers()?.into_iter().filter_map(offer).collect() })
    }

    /// Notes that a worker got a job.
    pub(super) fn take(&mut self, worker: &str, job: &JobRow) {
        let wish = job.spec.resources;
        for (_, offer) in self.workers.iter_mut().filter(|(row, _)| row.name == worker) {
            offer.cpus_free = offer.cpus_free.saturating_sub(wish.cpus);
            offer.memory_free = offer.memory_free.saturating_sub(wish.memory_bytes);
        }
    }

    /// Whether a job that `worker` could start now should rather go to another one, which asks as well.
    pub(super) fn has_better(&self, core: &Core, job: &JobRow, worker: &str, now: Timestamp) -> Result<bool> {
        let wish = job.spec.resources;
        let needs = Needs { cpus: wish.cpus, memory: wish.memory_bytes };
        let mut able = Vec::new();
        for one in self.workers.iter().filter(|(_, offer)| offer.has_room(needs)) {
            if takes(core, &one.0, job, now)? {
                able.push(one);
            }
        }
        if able.len() < 2 {
            return Ok(false);
        }
        let by_host = local_bytes(core, job)?;
        let local = able.iter().map(|(row, _)| (&*row.name, by_host.get(&row.host).copied().unwrap_or(0)));
        let best = choose(able.iter().map(|(_, offer)| offer), needs, &local.collect());
        Ok(best.is_some_and(|best| best.name != worker))
    }
}

/// Whether a worker runs such jobs at all.
fn takes(core: &Core, worker: &WorkerRow, job: &JobRow, now: Timestamp) -> Result<bool> {
    let (labels, queues) = (labels_of(core, worker)?, core.store.queues()?);
    Ok(queues.queues.get(&job.queue).is_none_or(|queue| serves(queue, &worker.name, &labels))
        && has_labels(&job.spec.constraints.join(","), &worker.name, &labels)
        && refusal(core, worker, &job.into(), now).is_none())
}

/// Bytes of a job's inputs by host that has a replica; the head's own host is the empty name.
fn local_bytes(core: &Core, job: &JobRow) -> Result<BTreeMap<String, u64>> {
    let mut found: BTreeMap<String, u64> = BTreeMap::new();
    if job.spec.inputs.is_empty() {
        return Ok(found);
    }
    let own = &core.config.server.name;
    let files = core.store.job_files(job.shared(), JobFileRole::Input)?;
    for file in files.into_iter().take(INPUTS_LOOKED_AT_MAX) {
        let Some(node) = core.store.node(file)? else { continue };
        let mut hosts = BTreeSet::new();
        for replica in &node.replicas {
            if let Some(partition) = core.store.partition(&replica.partition)? {
                let host = &partition.server.name;
                hosts.insert(if host == own { String::new() } else { host.clone() });
            }
        }
        for host in hosts {
            *found.entry(host).or_default() += node.size;
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn offer(name: &str, cpus: u32, cpus_free: u32, load_permille: u64) -> Offer {
        Offer { name: name.to_owned(), cpus, cpus_free, memory_free: 100, load_permille }
    }

    const ONE: Needs = Needs { cpus: 1, memory: 10 };

    fn chosen(offers: &[Offer], local: &[(&'static str, u64)]) -> Option<String> {
        choose(offers, ONE, &local.iter().copied().collect()).map(|offer| offer.name.clone())
    }

    #[test]
    fn the_least_loaded_worker_that_has_room_is_chosen() {
        let offers = [offer("a", 4, 2, 0), offer("b", 4, 3, 0), offer("c", 2, 0, 0)];
        assert_eq!(chosen(&offers, &[]).as_deref(), Some("b"));
        let busy = [offer("a", 4, 2, 0), offer("b", 4, 3, 9000)];
        assert_eq!(chosen(&busy, &[]).as_deref(), Some("a"), "others use its processors");
        assert_eq!(chosen(&[offer("c", 2, 0, 0)], &[]), None);
        assert_eq!(chosen(&[offer("b", 2, 2, 0), offer("a", 2, 2, 0)], &[]).as_deref(), Some("a"));
    }

    #[test]
    fn a_job_goes_to_its_inputs() {
        let offers = [offer("a", 4, 4, 0), offer("b", 4, 1, 3000)];
        assert_eq!(chosen(&offers, &[("b", 1 << 30)]).as_deref(), Some("b"));
        assert_eq!(chosen(&[offer("a", 4, 4, 0), offer("b", 4, 0, 0)], &[("b", 1)]).as_deref(), Some("a"));
    }

    proptest! {
        #[test]
        fn all_who_ask_come_to_the_same_answer_whatever_the_order(
            free in prop::collection::vec((0u32..5, 0u64..5000), 1..8), turn in 0usize..8,
        ) {
            let mut offers: Vec<Offer> = free
                .iter()
                .enumerate()
                .map(|(index, (free, load))| offer(&format!("w{index}"), 4, *free, *load))
                .collect();
            let first = chosen(&offers, &[]);
            let turn = turn % offers.len();
            offers.rotate_left(turn);
            prop_assert_eq!(&first, &chosen(&offers, &[]));
            // A job waits only if nobody has room.
            prop_assert_eq!(first.is_some(), free.iter().any(|(free, _)| *free > 0));
        }
    }
}
