//! Workers and queues in Slurm's words: nodes and partitions.

use crate::shims::Shim;
use base::Result;
use std::collections::BTreeSet;
use wire::control::{GetQueues, GetStatus, QueueInfo, WorkerInfo};

/// What `sinfo` and `scontrol` show.
#[derive(Debug)]
pub(crate) struct Nodes {
    pub(crate) workers: Vec<WorkerInfo>,
    pub(crate) queues: Vec<QueueInfo>,
}

impl Nodes {
    /// Asks the facility.
    pub(crate) fn ask(shim: &mut Shim) -> Result<Self> {
        let mut workers = shim.call(&GetStatus {})?.workers;
        workers.sort_by(|a, b| a.name.cmp(&b.name));
        let queues = shim.call(&GetQueues {})?.queues;
        Ok(Self { workers, queues })
    }

    /// The workers that run jobs of a queue.
    pub(crate) fn of<'a>(&'a self, queue: &QueueInfo) -> Vec<&'a WorkerInfo> {
        let names = self.names(queue, &mut BTreeSet::new());
        let is_one = |worker: &&WorkerInfo| names.as_ref().is_none_or(|names| names.contains(&worker.name));
        self.workers.iter().filter(is_one).collect()
    }

    /// Names of the workers of a queue, or of the queues that a pipe queue leads to; none: all workers.
    fn names(&self, queue: &QueueInfo, seen: &mut BTreeSet<String>) -> Option<BTreeSet<String>> {
        if !seen.insert(queue.name.clone()) {
            return Some(BTreeSet::new());
        }
        let settings = &queue.settings;
        if !settings.workers.is_empty() || settings.destinations.is_empty() {
            return (!settings.workers.is_empty()).then(|| settings.workers.iter().cloned().collect());
        }
        let mut names = BTreeSet::new();
        for queue in self.queues.iter().filter(|queue| settings.destinations.contains(&queue.name)) {
            names.extend(self.names(queue, seen)?);
        }
        Some(names)
    }

    /// The queues that a worker serves.
    pub(crate) fn serving(&self, worker: &WorkerInfo) -> Vec<&str> {
        let serves = |queue: &&QueueInfo| self.of(queue).iter().any(|one| one.name == worker.name);
        self.queues.iter().filter(serves).map(|queue| queue.name.as_str()).collect()
    }
}

/// The state of a node: long word and short one.
pub(crate) fn state(worker: &WorkerInfo) -> (&'static str, &'static str) {
    match worker.cpus_used {
        _ if !worker.is_available => ("down*", "down*"),
        0 if worker.is_draining => ("drained", "drain"),
        _ if worker.is_draining => ("draining", "drng"),
        0 => ("idle", "idle"),
        used if used >= worker.cpus => ("allocated", "alloc"),
        _ => ("mixed", "mix"),
    }
}

/// Whether a queue accepts and runs jobs, in Slurm's word for a partition.
pub(crate) fn partition_state(queue: &QueueInfo) -> &'static str {
    match (queue.is_enabled, queue.is_started) {
        (true, true) => "UP",
        (true, false) => "DOWN",
        (false, true) => "DRAIN",
        (false, false) => "INACTIVE",
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use wire::control::{JobUsers, QueueSettings};

    pub(crate) fn worker(name: &str, cpus_used: u32) -> WorkerInfo {
        WorkerInfo {
            name: name.to_owned(),
            host: name.to_owned(),
            is_available: true,
            cpus: 4,
            cpus_used,
            memory_bytes: 4000 << 20,
            not_enforced: Vec::new(),
            users: JobUsers::default(),
            labels: Vec::new(),
            architecture: String::new(),
            is_draining: false,
            load: None,
        }
    }

    pub(crate) fn queue(name: &str, settings: QueueSettings) -> QueueInfo {
        QueueInfo {
            name: name.to_owned(),
            settings,
            is_enabled: true,
            is_started: true,
            is_default: name == "batch",
            held: 0,
            queued: 0,
            running: 0,
        }
    }

    #[test]
    fn a_pipe_queue_has_the_workers_of_its_destinations() {
        let of = |names: &[&str]| QueueSettings {
            workers: names.iter().map(|name| (*name).to_owned()).collect(),
            ..QueueSettings::default()
        };
        let to = |names: &[&str]| QueueSettings {
            destinations: names.iter().map(|name| (*name).to_owned()).collect(),
            ..QueueSettings::default()
        };
        let nodes = Nodes {
            workers: vec![worker("n1", 0), worker("n2", 0), worker("n3", 0)],
            queues: vec![
                queue("batch", of(&[])),
                queue("short", of(&["n1"])),
                queue("long", of(&["n2"])),
                queue("pipe", to(&["short", "long", "pipe2"])),
                queue("pipe2", to(&["pipe"])),
            ],
        };
        let names = |at: usize| {
            nodes
                .of(&nodes.queues[at])
                .iter()
                .map(|worker| worker.name.as_str())
                .collect::<Vec<_>>()
                .join(" ")
        };
        assert_eq!((names(0).as_str(), names(1).as_str(), names(3).as_str()), ("n1 n2 n3", "n1", "n1 n2"));
        assert_eq!(nodes.serving(&nodes.workers[2]), ["batch"]);
    }

    #[test]
    fn nodes_and_partitions_have_slurms_states() {
        assert_eq!(state(&worker("a", 0)).0, "idle");
        assert_eq!(state(&worker("a", 2)).1, "mix");
        assert_eq!(state(&worker("a", 4)).1, "alloc");
        assert_eq!(state(&WorkerInfo { is_available: false, ..worker("a", 4) }).1, "down*");
        let mut stopped = queue("q", QueueSettings::default());
        stopped.is_started = false;
        assert_eq!(partition_state(&stopped), "DOWN");
    }
}
