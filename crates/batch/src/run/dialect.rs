//! The variables by which programs written for Slurm or PBS learn about their job.
//!
//! What the submitting command has set stays, for only it knows how tasks were asked for; what names the run and its host is ours.

use std::collections::BTreeMap;
use wire::control::{JobDialect, JobOrder};

/// The host and the user of a run, as its environment names them.
pub(super) struct RunHost<'a> {
    /// The worker, as lists of jobs name it.
    pub(super) node: &'a str,
    pub(super) user: &'a str,
    pub(super) uid: u32,
    pub(super) gid: u32,
    /// A file with the name of the node, once for each slot.
    pub(super) node_file: &'a str,
}

/// Sets the variables of the order's dialect.
pub(super) fn set_variables(
    environment: &mut BTreeMap<String, String>,
    order: &JobOrder,
    host: &RunHost<'_>,
) {
    let (ours, defaults) = match order.spec.dialect {
        JobDialect::None => return,
        JobDialect::Slurm => (slurm(order, host), slurm_defaults(order)),
        JobDialect::Pbs => (pbs(order, host), pbs_defaults(order)),
    };
    for (name, value) in ours {
        environment.insert(name.to_owned(), value);
    }
    for (name, value) in defaults {
        environment.entry(name.to_owned()).or_insert(value);
    }
}

type Variables = Vec<(&'static str, String)>;

/// sbatch(1), "OUTPUT ENVIRONMENT VARIABLES": what names the run.
fn slurm(order: &JobOrder, host: &RunHost<'_>) -> Variables {
    let (job, spec) = (order.run.job.to_string(), &order.spec);
    let cpus = spec.resources.cpus.to_string();
    let mut found = vec![
        ("SLURM_JOB_ID", job.clone()),
        ("SLURM_JOBID", job),
        ("SLURM_CPUS_ON_NODE", cpus.clone()),
        ("SLURM_JOB_CPUS_PER_NODE", cpus),
        ("SLURM_NODELIST", host.node.to_owned()),
        ("SLURM_JOB_NODELIST", host.node.to_owned()),
        ("SLURMD_NODENAME", host.node.to_owned()),
        ("SLURM_JOB_PARTITION", order.queue.clone()),
        ("SLURM_JOB_USER", host.user.to_owned()),
        ("SLURM_JOB_UID", host.uid.to_string()),
        ("SLURM_JOB_GID", host.gid.to_string()),
        ("ENVIRONMENT", "BATCH".to_owned()),
    ];
    for name in ["SLURM_NNODES", "SLURM_JOB_NUM_NODES"] {
        found.push((name, "1".to_owned()));
    }
    for name in ["SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID", "SLURM_GTIDS"] {
        found.push((name, "0".to_owned()));
    }
    if spec.resources.memory_bytes > 0 {
        // In MiB, as everything of Slurm.
        found.push(("SLURM_MEM_PER_NODE", spec.resources.memory_bytes.div_ceil(1 << 20).to_string()));
    }
    if let Some(array) = &order.array {
        found.push(("SLURM_ARRAY_JOB_ID", array.element.array.to_string()));
        found.push(("SLURM_ARRAY_TASK_ID", array.element.index.to_string()));
        found.push(("SLURM_ARRAY_TASK_COUNT", array.count.to_string()));
        found.push(("SLURM_ARRAY_TASK_MIN", array.index_min.to_string()));
        found.push(("SLURM_ARRAY_TASK_MAX", array.index_max.to_string()));
    }
    if order.run.attempt > 1 {
        found.push(("SLURM_RESTART_COUNT", (order.run.attempt - 1).to_string()));
    }
    found
}

fn slurm_defaults(order: &JobOrder) -> Variables {
    let spec = &order.spec;
    let mut found = vec![
        ("SLURM_JOB_NAME", spec.name.clone()),
        ("SLURM_NTASKS", "1".to_owned()),
        ("SLURM_NPROCS", "1".to_owned()),
        ("SLURM_TASKS_PER_NODE", "1".to_owned()),
    ];
    found.extend(spec.directory.clone().map(|directory| ("SLURM_SUBMIT_DIR", directory)));
    found.extend(spec.account.clone().map(|account| ("SLURM_JOB_ACCOUNT", account)));
    found
}

/// qsub of POSIX.1-2008 and of PBS: what names the run.
fn pbs(order: &JobOrder, host: &RunHost<'_>) -> Variables {
    let cpus = order.spec.resources.cpus.to_string();
    let mut found = vec![
        ("PBS_JOBID", order.run.job.to_string()),
        ("PBS_QUEUE", order.queue.clone()),
        ("PBS_ENVIRONMENT", "PBS_BATCH".to_owned()),
        ("PBS_NODEFILE", host.node_file.to_owned()),
        ("PBS_NODENUM", "0".to_owned()),
        ("PBS_TASKNUM", "1".to_owned()),
        ("NCPUS", cpus.clone()),
        ("ENVIRONMENT", "BATCH".to_owned()),
    ];
    if let Some(array) = &order.array {
        // PBS Pro and OpenPBS call it index, Torque id.
        for name in ["PBS_ARRAY_INDEX", "PBS_ARRAYID"] {
            found.push((name, array.element.index.to_string()));
        }
        found.push(("PBS_ARRAY_ID", array.element.array.to_string()));
    }
    found
}

fn pbs_defaults(order: &JobOrder) -> Variables {
    let spec = &order.spec;
    let mut found = vec![
        ("PBS_JOBNAME", spec.name.clone()),
        ("PBS_O_QUEUE", order.queue.clone()),
        ("OMP_NUM_THREADS", spec.resources.cpus.to_string()),
    ];
    found.extend(spec.directory.clone().map(|directory| ("PBS_O_WORKDIR", directory)));
    found.extend(spec.account.clone().map(|account| ("PBS_ACCOUNT", account)));
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::JobId;
    use wire::control::{ArrayElement, ArrayOrder, JobRun, JobSpec, Resources};

    fn order(dialect: JobDialect) -> JobOrder {
        let element = ArrayElement { array: JobId(7), index: 5 };
        JobOrder {
            run: JobRun { job: JobId(9), attempt: 2 },
            owner: "ada".to_owned(),
            is_of_facility_owner: false,
            spec: JobSpec {
                name: "fit".to_owned(),
                directory: Some("/home/ada".to_owned()),
                resources: Resources { cpus: 2, memory_bytes: (1 << 30) + 1, ..Resources::default() },
                dialect,
                ..JobSpec::default()
            },
            queue: "long".to_owned(),
            array: Some(ArrayOrder { element, count: 3, index_min: 1, index_max: 9 }),
            inputs: Vec::new(),
            outputs: String::new(),
        }
    }

    fn variables(dialect: JobDialect, set: &[(&str, &str)]) -> BTreeMap<String, String> {
        let host = RunHost { node: "w1", user: "ada", uid: 1001, gid: 1001, node_file: "/nodes" };
        let mut found = set.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        set_variables(&mut found, &order(dialect), &host);
        found
    }

    #[test]
    fn a_job_of_sbatch_finds_what_slurm_tells() {
        let found = variables(JobDialect::Slurm, &[("SLURM_NTASKS", "2"), ("SLURM_JOB_ID", "1")]);
        for (name, value) in [
            ("SLURM_JOB_ID", "9"),
            ("SLURM_ARRAY_JOB_ID", "7"),
            ("SLURM_ARRAY_TASK_ID", "5"),
            ("SLURM_ARRAY_TASK_COUNT", "3"),
            ("SLURM_JOB_PARTITION", "long"),
            ("SLURM_SUBMIT_DIR", "/home/ada"),
            ("SLURM_MEM_PER_NODE", "1025"),
            ("SLURM_RESTART_COUNT", "1"),
            ("SLURM_NTASKS", "2"),
        ] {
            assert_eq!(found[name], value, "{name}");
        }
        assert!(!found.keys().any(|name| name.starts_with("PBS_")));
    }

    #[test]
    fn a_job_of_qsub_finds_what_pbs_tells() {
        let found = variables(JobDialect::Pbs, &[("PBS_O_WORKDIR", "/elsewhere"), ("PBS_O_HOST", "h")]);
        for (name, value) in [
            ("PBS_JOBID", "9"),
            ("PBS_ARRAY_INDEX", "5"),
            ("PBS_JOBNAME", "fit"),
            ("PBS_O_WORKDIR", "/elsewhere"),
            ("PBS_O_HOST", "h"),
            ("PBS_NODEFILE", "/nodes"),
            ("NCPUS", "2"),
        ] {
            assert_eq!(found[name], value, "{name}");
        }
        assert!(variables(JobDialect::None, &[]).is_empty());
    }
}
