//! What a job is: program, resources, files, and when and where it may run.

use super::JobDependency;
use base::{
    FilePath, Millis, Timestamp,
    limits::{NAME_BYTES_MAX, PATH_BYTES_MAX},
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The resource limits of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resources {
    /// CPU slots; 0 at submission: the default of the queue.
    pub cpus: u32,
    /// Bytes of memory; 0: no limit requested. At submission the default of the queue takes its place.
    pub memory_bytes: u64,
    /// Longest run; the job is ended after it. 0 at submission: the default of the queue.
    pub wall: Millis,
}

impl Default for Resources {
    fn default() -> Self {
        Self { cpus: 1, memory_bytes: 0, wall: Millis::from_seconds(24 * 3600) }
    }
}

/// A file that must be online before the job starts; it appears in the scratch directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobInput {
    /// In the facility.
    pub path: FilePath,
    /// In the scratch directory: a plain file name.
    pub name: String,
}

/// What the job leaves in the scratch directory and that is stored when it exits with 0: a file, a directory with all that is
/// below it, or files that match a pattern.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobOutput {
    /// In the scratch directory: a relative path without `.` and `..`. One that ends with `/` is a directory; one with `*`, `?` or
    /// `[` is a pattern. See [`JobOutput::kind`].
    pub name: String,
    /// In the facility: the file, or the directory that the files come into.
    pub path: FilePath,
}

/// What an output is; its name says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputKind {
    /// One file.
    File,
    /// Every file below a directory.
    Directory,
    /// Every file that matches.
    Pattern,
}

impl JobOutput {
    /// What it is.
    #[must_use]
    pub fn kind(&self) -> OutputKind {
        if self.name.ends_with('/') {
            OutputKind::Directory
        } else if base::pattern::is_pattern(&self.name) {
            OutputKind::Pattern
        } else {
            OutputKind::File
        }
    }

    /// Whether its name stays in the scratch directory: plain names, parted by single slashes.
    #[must_use]
    pub fn has_good_name(&self) -> bool {
        let name = self.name.strip_suffix('/').unwrap_or(&self.name);
        name.len() <= PATH_BYTES_MAX && name.split('/').all(is_plain_name)
    }
}

/// Whether a name may stand in a scratch directory.
#[must_use]
pub fn is_plain_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= NAME_BYTES_MAX
        && name != "."
        && name != ".."
        && !name.contains(|c: char| c == '/' || c.is_control())
}

/// Whose conventions a job expects in its environment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobDialect {
    /// Our own variables only.
    #[default]
    None,
    /// Also those of Slurm: `SLURM_JOB_ID` and others.
    Slurm,
    /// Also those of PBS and POSIX: `PBS_JOBID` and others.
    Pbs,
}

/// The specification of a job.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobSpec {
    /// For people.
    pub name: String,
    /// Program and arguments; not a shell line. With a script: the arguments of the script.
    #[serde(default)]
    pub command: Vec<String>,
    /// Text of a script that is the program: run by the interpreter that its first line names, or by `/bin/sh`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub script: Option<String>,
    /// Its resource limits.
    #[serde(default)]
    pub resources: Resources,
    /// All must exist at submission.
    #[serde(default)]
    pub inputs: Vec<JobInput>,
    /// All must exist when it exits with 0.
    #[serde(default)]
    pub outputs: Vec<JobOutput>,
    /// The job is done only when all outputs are on tape.
    #[serde(default)]
    pub archive: bool,
    /// Its outputs may replace files that exist.
    #[serde(default)]
    pub replace: bool,
    /// Added to the environment.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    /// The queue; none: the default queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// Among the jobs of its queue: -1024 to 1023, the highest goes first. Users may lower it, operators may raise it above 0.
    #[serde(default, skip_serializing_if = "is_default")]
    pub priority: i32,
    /// Other jobs that it waits for: for all of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dependencies: Vec<JobDependency>,
    /// A dependency that can never be fulfilled cancels the job; else the job waits until somebody alters or cancels it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub cancel_if_never: bool,
    /// Does not start before this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begin: Option<Timestamp>,
    /// Fails if it is not over by this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Timestamp>,
    /// Runs after a failed one, each after a longer pause.
    #[serde(default, skip_serializing_if = "is_default")]
    pub retries: u32,
    /// May be run again after a run that has begun: when an operator asks for it, or its worker is lost.
    #[serde(default, skip_serializing_if = "is_default")]
    pub rerunnable: bool,
    /// Submitted with a hold of its user.
    #[serde(default, skip_serializing_if = "is_default")]
    pub held: bool,
    /// Working directory on the worker's host; none: the scratch directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory: Option<String>,
    /// File on the worker's host for standard output. `%j` (job), `%A` (array), `%a` (index), `%x` (name), `%u` (user), `%N` (host)
    /// and `%%` are replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdout: Option<String>,
    /// The same for standard error; none, or the same file: both in one, in order, if `stdout` names a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stderr: Option<String>,
    /// The files are written from their beginning; else what they hold stays.
    #[serde(default, skip_serializing_if = "is_default")]
    pub truncate: bool,
    /// Labels that its worker must have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub constraints: Vec<String>,
    /// The facility is mounted for it, with the rights of its owner, in the directory that `BP_MOUNT` names. Its inputs are links that
    /// lead there. Its worker must have the label `mount`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub mount: bool,
    /// For people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// For accounting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// Whose conventions it expects in its environment.
    #[serde(default, skip_serializing_if = "is_default")]
    pub dialect: JobDialect,
}

/// The label that workers have which can mount the facility for jobs.
pub const MOUNT_LABEL: &str = "mount";

/// Whether a field is left out where it is written.
pub(super) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
