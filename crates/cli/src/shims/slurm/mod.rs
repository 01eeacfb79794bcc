//! Slurm's commands. What they print was compared with Slurm 22.05 for the same jobs; `docs/shims.md` says what differs.

pub(crate) mod accounts;
mod columns;
mod help;
mod hostlist;
mod line;
mod memory;
mod nodes;
pub(crate) mod sacct;
pub(crate) mod sbatch;
pub(crate) mod scancel;
pub(crate) mod scontrol;
mod selection;
pub(crate) mod sinfo;
mod span;
pub(crate) mod squeue;
pub(crate) mod srun;
mod state;

#[cfg(test)]
use super::sample;
use super::{jobs, moment, signal, site};

/// What `--version` says: tools choose their options by it. `--help` says what this is.
const VERSION: &str = "slurm 23.11.4";
/// Stands where Slurm has the name of a cluster.
const CLUSTER: &str = "backplane";
/// How long a job that is over is still shown by `squeue` and `scontrol`, in seconds; `scontrol show config` says it.
const MIN_JOB_AGE_S: i64 = 3600;

/// The refusal of a cluster that is not this one, as the originals say it.
fn check_cluster(given: Option<&str>) -> Result<(), String> {
    match given {
        None | Some("" | "all" | CLUSTER) => Ok(()),
        Some(other) => Err(format!(
            "'{other}' can't be reached now, or it is an invalid entry for --cluster.  Use 'sacctmgr list \
                clusters' to see available clusters."
        )),
    }
}
