//! What the files of a run say: what the shepherd runs, who it is, how the job ended.

use crate::{
    cgroup::{Parents, V1Parents},
    sandbox::Confinement,
};
use base::{Millis, Timestamp};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, path::PathBuf};
use wire::control::{JobExit, Usage};

/// What a shepherd runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunOrder {
    /// Program and arguments.
    pub command: Vec<String>,
    /// The whole environment.
    pub environment: BTreeMap<String, String>,
    /// Its working directory; none: scratch.
    #[serde(default)]
    pub directory: Option<PathBuf>,
    /// Files of the host that it prints to.
    #[serde(default)]
    pub files: OutputFiles,
    /// Longest run.
    pub wall: Millis,
    /// From the polite to the final signal.
    pub grace: Millis,
    /// Bytes of memory; 0 for no limit.
    pub memory_bytes: u64,
    /// Where a control group may be made: of version 2, or of the memory hierarchy of version 1.
    pub cgroup: Option<PathBuf>,
    /// Where groups of other hierarchies of version 1 may be made.
    #[serde(default)]
    pub cgroup_v1: V1Parents,
    /// Processors that the job is bound to; none: all of the host.
    #[serde(default)]
    pub processors: Vec<u32>,
    /// How far the job is kept from everything else; not in runs of older releases.
    #[serde(default)]
    pub confinement: Option<Confinement>,
    /// The mount of the facility that the job gets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mount: Option<MountOrder>,
}

/// The facility as a file system of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MountOrder {
    /// The address of the head, which takes the token.
    pub facility: String,
    /// With whose rights.
    pub owner: String,
    /// A file with the token, renewed while the job runs.
    pub token_file: PathBuf,
    /// Authorities that vouch for the facility; `None`: those that a client trusts anyway.
    pub ca_file: Option<PathBuf>,
    /// Where the job finds it.
    pub directory: PathBuf,
    /// What `bp lease` calls it.
    pub name: String,
}

impl RunOrder {
    pub(crate) fn cgroup_parents(&self) -> Parents<'_> {
        Parents { main: self.cgroup.as_deref(), v1: &self.cgroup_v1 }
    }
}

/// Files of the host that a job prints to; none: files of the run directory.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutputFiles {
    /// For standard output.
    pub stdout: Option<PathBuf>,
    /// For standard error; the same one: both in one, in order.
    pub stderr: Option<PathBuf>,
    /// Written from their beginning; else what they hold stays.
    pub truncate: bool,
}

/// A file of the host that a job prints to, as it was opened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OpenedFile {
    /// Where it is.
    pub path: PathBuf,
    /// Device and inode: a file that takes its name later is not it.
    pub inode: (u64, u64),
    /// Bytes that it had before.
    pub start: u64,
    /// A plain file that the job's user may read: what is in it can be shown.
    pub is_readable: bool,
}

/// Who runs it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Started {
    /// Process id of the shepherd.
    pub pid: i32,
    /// Its start time in clock ticks since boot: tells it from a later process of the same id.
    pub start_ticks: u64,
    /// When.
    pub at: Timestamp,
    /// Whether a control group holds the memory limit for the whole tree.
    pub holds_memory: bool,
    /// Files of the host for standard output and error. If both are in one, the second is none.
    #[serde(default)]
    pub outputs: [Option<OpenedFile>; 2],
}

/// How a job ended; the only thing that can say it went well.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExitRecord {
    /// How the process ended.
    pub exit: JobExit,
    /// The resource usage of the process tree.
    pub usage: Usage,
    /// Limits that were asked for but could not be held.
    pub not_enforced: Vec<String>,
    /// Processes that even the final signal did not end.
    pub left_behind: Vec<i32>,
    /// The shepherd that wrote it, by process id and start time; not in records of older releases.
    #[serde(default)]
    pub by: Option<(i32, u64)>,
}
