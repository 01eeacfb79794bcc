//! The configuration of a worker.

use crate::{
    cgroup::{Parents, V1Parents},
    identity::UserPolicy,
    sandbox::Limits,
    slurm::SlurmConfig,
};
use std::{collections::BTreeMap, path::PathBuf};

/// The configuration of a worker.
#[derive(Debug, Clone)]
pub struct WorkerConfig {
    /// Where runs live; made if it is missing.
    pub directory: PathBuf,
    /// Its name in the facility.
    pub name: String,
    /// CPU slots it offers.
    pub cpus: u32,
    /// Bytes of memory it offers.
    pub memory_bytes: u64,
    /// What its operator says of it, for jobs that ask for it.
    pub labels: Vec<String>,
    /// The program that is started as `PROGRAM shepherd RUN_DIR` and calls [`crate::shepherd_main`].
    pub shepherd: PathBuf,
    /// Certificates of the authorities that vouch for the data doors; without it those that a client trusts anyway.
    pub ca_file: Option<PathBuf>,
    /// What jobs find in `BP_FACILITY`: where their token is taken.
    pub facility: String,
    /// The same for jobs of the daemon's own user, whom a door of this host may know without a token. Theirs is for files only.
    pub facility_of_owner: Option<String>,
    /// What jobs find in their environment unless they set it themselves.
    pub environment: BTreeMap<String, String>,
    /// Where control groups may be made; [`crate::cgroup::find`] looks for such a place.
    pub cgroup: Option<PathBuf>,
    /// Where groups of other hierarchies of version 1 may be made; found by [`crate::cgroup::find_v1`].
    pub cgroup_v1: V1Parents,
    /// Whom jobs run as.
    pub users: UserPolicy,
    /// What a job may use.
    pub limits: Limits,
    /// Runs are started by a Slurm cluster, whose nodes see `directory` and `shepherd`; `None`: by this host.
    pub slurm: Option<SlurmConfig>,
    /// Bytes that are kept of each output of a job, its standard output and error.
    pub log_bytes: u64,
    /// Where jobs find the facility that want it mounted, a directory of this host; none: below the directory of their run.
    pub mount: Option<PathBuf>,
    /// Files and directories that jobs do not see: those of the facility.
    pub hidden: Vec<PathBuf>,
    /// A directory with certificates of authorities, of which jobs get a copy, named by `X509_CERT_DIR`.
    pub authorities: Option<PathBuf>,
}

impl WorkerConfig {
    pub(crate) fn cgroup_parents(&self) -> Parents<'_> {
        Parents { main: self.cgroup.as_deref(), v1: &self.cgroup_v1 }
    }
}
