//! What `sinfo` can show of a partition and nodes of it that are alike.

use crate::shims::slurm::{
    CLUSTER, VERSION,
    columns::Field,
    hostlist, memory,
    nodes::{partition_state, state},
    site::Site,
    span,
};
use wire::control::{QueueInfo, WorkerInfo};

/// A partition, and nodes of it that are alike.
#[derive(Debug, Clone)]
pub(super) struct Group<'a> {
    pub(super) queue: &'a QueueInfo,
    pub(super) workers: Vec<&'a WorkerInfo>,
}

/// An owned form of a group: columns are made once for all groups.
#[derive(Debug, Clone)]
pub(super) struct Row {
    pub(super) queue: QueueInfo,
    pub(super) workers: Vec<WorkerInfo>,
}

impl From<&Group<'_>> for Row {
    fn from(group: &Group<'_>) -> Self {
        Self { queue: group.queue.clone(), workers: group.workers.iter().copied().cloned().collect() }
    }
}

impl Row {
    /// Nodes: allocated, idle, other.
    fn counts(&self) -> (usize, usize, usize) {
        let other = self.workers.iter().filter(|worker| !worker.is_available).count();
        let idle = self.workers.iter().filter(|worker| worker.is_available && worker.cpus_used == 0).count();
        (self.workers.len() - other - idle, idle, other)
    }

    /// CPU slots: allocated, idle, other, all.
    fn slots(&self) -> (u64, u64, u64, u64) {
        let sum =
            |of: &dyn Fn(&WorkerInfo) -> u32| self.workers.iter().map(|worker| u64::from(of(worker))).sum();
        let all: u64 = sum(&|worker| worker.cpus);
        let other: u64 = sum(&|worker| if worker.is_available { 0 } else { worker.cpus });
        let used: u64 = sum(&|worker| if worker.is_available { worker.cpus_used } else { 0 });
        (used, all.saturating_sub(other + used), other, all)
    }

    fn first<T>(&self, of: impl Fn(&WorkerInfo) -> T) -> Option<T> {
        self.workers.first().map(of)
    }

    fn state(&self) -> (&'static str, &'static str) {
        self.first(state).unwrap_or(("n/a", "n/a"))
    }

    fn names(&self) -> String {
        hostlist::compressed(&self.workers.iter().map(|worker| worker.name.clone()).collect::<Vec<_>>())
    }

    fn hosts(&self) -> String {
        hostlist::compressed(&self.workers.iter().map(|worker| worker.host.clone()).collect::<Vec<_>>())
    }
}

fn constant(text: &str) -> String {
    text.to_owned()
}

const fn field(
    code: char,
    name: &'static str,
    heading: &'static str,
    value: fn(&Row, &Site) -> String,
) -> Field<Row, Site> {
    Field { code, name, heading, value }
}

/// Letters of fields that tell nodes apart: nodes that differ in one of those that are shown stand in lines of their own.
pub(super) const APART: &str = "tTcmnoNv";
/// Letters of fields of the partition: without one of them, every node stands once.
pub(super) const OF_PARTITION: &str = "aghlLpPrRsSMI";

/// Every field, in the order of `--format=%all`.
pub(super) const FIELDS: &[Field<Row, Site>] = &[
    field('a', "available", "AVAIL", |row, _| partition_state(&row.queue).to_ascii_lowercase()),
    field('b', "features_act", "ACTIVE_FEATURES", |_, _| constant("(null)")),
    field('c', "cpus", "CPUS", |row, _| row.first(|one| one.cpus).unwrap_or(0).to_string()),
    field('d', "disk", "TMP_DISK", |_, _| constant("0")),
    field('e', "freemem", "FREE_MEM", |_, _| constant("N/A")),
    field('f', "features", "AVAIL_FEATURES", |_, _| constant("(null)")),
    field('g', "groups", "GROUPS", |_, _| constant("all")),
    field('h', "oversubscribe", "OVERSUBSCRIBE", |_, _| constant("NO")),
    field('l', "time", "TIMELIMIT", |row, _| {
        row.queue.settings.ceilings.wall.map_or_else(|| constant("infinite"), span::short)
    }),
    field('m', "memory", "MEMORY", |row, _| {
        memory::mebibytes(row.first(|one| one.memory_bytes).unwrap_or(0)).to_string()
    }),
    field('n', "nodehost", "HOSTNAMES", |row, _| row.hosts()),
    field('o', "nodeaddr", "NODE_ADDR", |row, _| row.hosts()),
    field('p', "prioritytier", "PRIO_TIER", |row, _| row.queue.settings.priority.to_string()),
    field('r', "root", "ROOT", |_, _| constant("no")),
    field('s', "size", "JOB_SIZE", |_, _| constant("1")),
    field('t', "statecompact", "STATE", |row, _| constant(row.state().1)),
    field('u', "user", "USER", |_, _| constant("Unknown")),
    field('v', "version", "VERSION", |_, _| constant(VERSION.rsplit(' ').next().unwrap_or_default())),
    field('w', "weight", "WEIGHT", |_, _| constant("1")),
    field('z', "socketcorethread", "S:C:T", |row, _| {
        format!("{}:1:1", row.first(|one| one.cpus).unwrap_or(0))
    }),
    field('A', "nodeai", "NODES(A/I)", |row, _| format!("{}/{}", row.counts().0, row.counts().1)),
    field('B', "maxcpuspernode", "MAX_CPUS_PER_NODE", |row, _| {
        row.queue.settings.ceilings.cpus.map_or_else(|| constant("UNLIMITED"), |cpus| cpus.to_string())
    }),
    field('C', "cpusstate", "CPUS(A/I/O/T)", |row, _| {
        let (used, idle, other, all) = row.slots();
        format!("{used}/{idle}/{other}/{all}")
    }),
    field('D', "nodes", "NODES", |row, _| row.workers.len().to_string()),
    field('E', "reason", "REASON", |row, _| {
        constant(if row.counts().2 > 0 { "Not responding" } else { "none" })
    }),
    field('F', "nodeaiot", "NODES(A/I/O/T)", |row, _| {
        let (used, idle, other) = row.counts();
        format!("{used}/{idle}/{other}/{}", row.workers.len())
    }),
    field('G', "gres", "GRES", |_, _| constant("(null)")),
    field('H', "timestamp", "TIMESTAMP", |_, _| constant("Unknown")),
    field('I', "priorityjobfactor", "PRIO_JOB_FACTOR", |_, _| constant("1")),
    field('L', "defaulttime", "DEFAULTTIME", |row, _| {
        row.queue.settings.defaults.wall.map_or_else(|| constant("n/a"), span::short)
    }),
    field('M', "preemptmode", "PREEMPT_MODE", |_, _| constant("OFF")),
    field('N', "nodelist", "NODELIST", |row, _| row.names()),
    field('O', "cpusload", "CPU_LOAD", |_, _| constant("N/A")),
    field('P', "partition", "PARTITION", |row, _| {
        format!("{}{}", row.queue.name, if row.queue.is_default { "*" } else { "" })
    }),
    field('R', "partitionname", "PARTITION", |row, _| row.queue.name.clone()),
    field('S', "allocnodes", "ALLOCNODES", |_, _| constant("all")),
    field('T', "statelong", "STATE", |row, _| constant(row.state().0)),
    field('U', "userlong", "USER", |_, _| constant("Unknown")),
    field('V', "cluster", "CLUSTER", |_, _| constant(CLUSTER)),
    field('X', "sockets", "SOCKETS", |row, _| row.first(|one| one.cpus).unwrap_or(0).to_string()),
    field('Y', "cores", "CORES", |_, _| constant("1")),
    field('Z', "threads", "THREADS", |_, _| constant("1")),
];
