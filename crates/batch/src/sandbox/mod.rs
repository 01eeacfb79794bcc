//! Isolates a job from other jobs, the facility's directory, and the rest of the host as far as its user
//! has no right to it.
//!
//! Between the shepherd and the job are three stages of our program, each started by the one before. None needs `fork` or code
//! between fork and exec: each is a fresh process that changes only itself.
//!
//! ```text
//! sandbox   leaves the host's namespaces, starts init in the new ones, waits for it
//! init      arranges the mounts; process 1 of the job: starts it, reaps what it leaves behind, tells how it ended
//! job       sets limits on itself, becomes the job's user for good, becomes the job
//! ```
//!
//! With a PID namespace the end of init is the end of every process of the job, whatever it did. Without one (a kernel or a
//! container that refuses it) the same stages run, and the shepherd ends what is left as subreaper.
//!
//! The stages have a file for standard input: the shepherd writes there what they need, they write what they have to say. An open
//! file survives the mounts that hide its name and the change of the user; the job itself does not get it.

mod execute;
mod mounts;
mod probe;
mod stages;

pub(crate) use probe::{Finding, probe};
pub(crate) use stages::{JOB_UMASK, become_job, init, sandbox};

use crate::{
    cgroup::Enforced,
    identity::Identity,
    run_dir::{RunDir, RunOrder},
};
use base::{Failure, Result};
use serde::{Deserialize, Serialize};
use std::{
    fs::File,
    io::{self, Write},
    os::{
        fd::AsFd,
        unix::fs::{FileExt, OpenOptionsExt},
    },
    path::PathBuf,
};

/// What the stages are told and tell is far smaller; the largest part is the job's environment.
const STAGE_FILE_BYTES_MAX: u64 = 16 << 20;

/// Which of the host's namespaces a job leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Namespaces {
    /// A user namespace first: only who is not root needs it, to be allowed the others.
    pub user: bool,
    /// Mounts and System V IPC.
    pub mounts: bool,
    /// Processes.
    pub processes: bool,
    /// A `/proc` that shows these only. Who is not root may not mount one where parts of the host's are covered, as in containers
    /// and under systemd's `ProtectKernelTunables`.
    pub proc: bool,
}

impl Namespaces {
    /// All that there are, for root or for somebody else.
    #[must_use]
    pub fn all(is_root: bool) -> Self {
        Self { user: !is_root, mounts: true, processes: true, proc: true }
    }
}

/// How much a job may use of what no cgroup counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Bytes in its scratch and temporary directories.
    pub scratch_bytes: u64,
    /// Bytes of standard output and of standard error, each.
    pub output_bytes: u64,
    /// Processes and threads.
    pub processes: u64,
}

impl Default for Limits {
    /// Far more than a usual job needs, far less than what stops a host.
    fn default() -> Self {
        Self { scratch_bytes: 64 << 30, output_bytes: 256 << 20, processes: 4096 }
    }
}

/// How far a job is kept from everything else.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Confinement {
    /// Whom it runs as.
    pub identity: Identity,
    /// What it leaves.
    pub namespaces: Namespaces,
    /// Files and directories that it does not see; what of its own is below them, it does.
    pub hidden: Vec<PathBuf>,
    /// What it may use.
    pub limits: Limits,
}

/// What the stages need.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Plan {
    pub(crate) order: RunOrder,
    pub(crate) confinement: Confinement,
    pub(crate) run_dir: PathBuf,
    /// Who started the stage `sandbox`.
    pub(crate) shepherd: i32,
    /// What control groups enforce for the whole job.
    pub(crate) enforced: Enforced,
    /// The file descriptor of the shepherd that is the mount of the facility for the job.
    #[serde(default)]
    pub(crate) mount: Option<i32>,
}

/// What a stage tells the shepherd.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Report {
    /// The program could not be executed.
    NotStarted(Failure),
    /// It returned this code.
    Code(i32),
    /// This signal ended it.
    Signal(i32),
}

/// The file that the stages have for standard input.
pub(crate) struct StageFile(File);

impl StageFile {
    /// Makes it, with what the stages need.
    pub(crate) fn make(dir: &RunDir, plan: &Plan) -> Result<Self> {
        let path = dir.file("stages.jsonl");
        let make = || -> io::Result<File> {
            match std::fs::remove_file(&path) {
                Err(cause) if cause.kind() != io::ErrorKind::NotFound => return Err(cause),
                _ => {}
            }
            let mut file =
                File::options().read(true).append(true).create_new(true).mode(0o600).open(&path)?;
            let mut line = serde_json::to_vec(plan)?;
            line.push(b'\n');
            file.write_all(&line)?;
            Ok(file)
        };
        make().map(Self).map_err(|cause| dir.failed("write what the stages need", &cause))
    }

    /// Standard input of this stage.
    fn of_this_stage() -> io::Result<Self> {
        Ok(Self(File::from(io::stdin().as_fd().try_clone_to_owned()?)))
    }

    /// A copy for the next stage.
    pub(crate) fn try_clone(&self) -> io::Result<File> {
        self.0.try_clone()
    }

    fn text(&self) -> io::Result<String> {
        let size = self.0.metadata()?.len();
        if size > STAGE_FILE_BYTES_MAX {
            return Err(io::Error::from(io::ErrorKind::FileTooLarge));
        }
        let mut bytes = vec![0; size as usize];
        self.0.read_exact_at(&mut bytes, 0)?;
        String::from_utf8(bytes).map_err(io::Error::other)
    }

    fn plan(&self) -> Result<Plan> {
        let failed = |cause: io::Error| Failure::io("read what the job needs", &cause);
        let text = self.text().map_err(failed)?;
        serde_json::from_str(text.lines().next().unwrap_or_default()).map_err(|cause| failed(cause.into()))
    }

    fn report(&self, report: &Report) -> Result<()> {
        let failed = |cause: io::Error| Failure::io("report to the shepherd", &cause);
        let mut line = serde_json::to_vec(report).map_err(|cause| failed(cause.into()))?;
        line.push(b'\n');
        (&self.0).write_all(&line).map_err(failed)
    }

    /// What the stages had to say: why the job did not start, else how it ended.
    pub(crate) fn outcome(&self) -> Result<Option<Report>> {
        let text = self.text().map_err(|cause| Failure::io("read what the stages say", &cause))?;
        let mut found = None;
        for line in text.lines().skip(1) {
            let report = serde_json::from_str(line)
                .map_err(|cause| Failure::corrupt(format!("a stage said what is no report: {cause}")))?;
            if matches!(report, Report::NotStarted(_)) {
                return Ok(Some(report));
            }
            found = Some(report);
        }
        Ok(found)
    }
}
