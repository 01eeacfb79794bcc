//! `scontrol show config`: the settings that tools look for, in the shape of the original.

use crate::{
    context::Run,
    shims::{
        Shim,
        slurm::{CLUSTER, MIN_JOB_AGE_S, VERSION, site::Site},
    },
};
use wire::control::ARRAY_LEN_MAX;

/// Shows the settings.
pub(super) fn show(shim: &mut Shim) -> Run {
    let site = Site::here();
    shim.line(format!("Configuration data as of {}", site.time(site.now)))?;
    for (key, value) in settings() {
        shim.line(format!("{key:<23} = {value}"))?;
    }
    Ok(0)
}

fn settings() -> Vec<(&'static str, String)> {
    let word = |text: &str| text.to_owned();
    vec![
        ("AccountingStorageType", word("accounting_storage/backplane")),
        ("ClusterName", word(CLUSTER)),
        ("DefMemPerNode", word("UNLIMITED")),
        ("JobAcctGatherType", word("jobacct_gather/cgroup")),
        ("JobRequeue", word("1")),
        // Indices run up to this, as in Slurm one less than the number.
        ("MaxArraySize", ARRAY_LEN_MAX.to_string()),
        ("MaxJobCount", word("100000")),
        ("MaxMemPerNode", word("UNLIMITED")),
        ("MinJobAge", format!("{MIN_JOB_AGE_S} sec")),
        ("SchedulerType", word("sched/backplane")),
        ("SelectType", word("select/cons_tres")),
        ("SelectTypeParameters", word("CR_CPU_MEMORY")),
        ("SLURM_VERSION", word(VERSION.rsplit(' ').next().unwrap_or_default())),
    ]
}
