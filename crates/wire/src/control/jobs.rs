//! Jobs: what people submit, and what they see of it.

mod output;

use base::{
    ErrorKind, Failure, FilePath, JobId, Millis, Timestamp,
    limits::{NAME_BYTES_MAX, PATH_BYTES_MAX},
};
pub use output::{FollowJob, FollowedJob, JobLog, JobText, OUTPUT_KEPT_BYTES_MAX, OutputPiece};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, fmt};

/// The resource limits of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resources {
    /// CPU slots.
    pub cpus: u32,
    /// Bytes of memory; 0: no limit requested.
    pub memory_bytes: u64,
    /// Longest run; the job is ended after it.
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

/// The specification of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobSpec {
    /// For people.
    pub name: String,
    /// Program and arguments; not a shell line.
    pub command: Vec<String>,
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
}

/// Submits a job. Fails at once if an input does not exist.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Submit {
    /// What to run.
    pub spec: JobSpec,
}

/// The answer to [`Submit`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Submitted {
    /// The new job.
    pub job: JobId,
}

/// The state of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobState {
    /// Not all inputs are online; it holds no slot.
    Held,
    /// All inputs are online and pinned; waits for a slot.
    Queued,
    /// Given to a worker: stage in, run, stage out.
    Running,
    /// Ran well; outputs are on their way to tape.
    Archiving,
    /// Ended well, and everything asked for is durable.
    Done,
    /// Ended badly.
    Failed,
    /// A user cancelled it.
    Cancelled,
}

impl fmt::Display for JobExit {
    /// As people read it: `exit 3`, `wall limit`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exit {code}"),
            Self::Signal(signal) => write!(f, "signal {signal}"),
            Self::WallLimit => f.write_str("wall limit"),
            Self::NotStarted(failure) => write!(f, "not started: {failure}"),
            Self::OutputFailed(failure) => write!(f, "output: {failure}"),
            Self::Limit(limit) => write!(f, "limit: {limit}"),
            Self::Refused(failure) => write!(f, "refused: {failure}"),
            Self::Lost => f.write_str("shepherd lost"),
            Self::Cancelled => f.write_str("cancelled"),
        }
    }
}

impl JobExit {
    /// The exit code as a shell would say it: 126 if the program could not be executed, 127 if there is none, 128 and the number of a
    /// signal; `None` if the job ended in a way that a shell does not know.
    #[must_use]
    pub fn shell_code(&self) -> Option<u8> {
        match self {
            Self::Code(code) => u8::try_from(*code).ok(),
            Self::Signal(signal @ 1..=127) => Some(128 + *signal as u8),
            Self::NotStarted(failure) if failure.kind == ErrorKind::NotFound => Some(127),
            Self::NotStarted(_) => Some(126),
            _ => None,
        }
    }
}

impl JobState {
    /// Whether nothing will happen to it any more.
    #[must_use]
    pub fn is_over(self) -> bool {
        matches!(self, Self::Done | Self::Failed | Self::Cancelled)
    }

    /// The word people read.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Archiving => "archiving",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

/// How the process ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobExit {
    /// It returned this code.
    Code(i32),
    /// This signal ended it.
    Signal(i32),
    /// It ran longer than its wall limit and was ended.
    WallLimit,
    /// It could not be started, or its inputs could not be fetched.
    NotStarted(Failure),
    /// It ran well but an output could not be stored.
    OutputFailed(Failure),
    /// It exceeded a limit, for example of its scratch directory, and was ended: the limit and its value.
    Limit(String),
    /// This worker does not run jobs of its owner; another one may.
    Refused(Failure),
    /// Its shepherd died; the outcome is unknown.
    Lost,
    /// It was ended because a user cancelled the job.
    Cancelled,
}

/// The resource usage of a job.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// CPU time of the process tree, user and system.
    pub cpu: Millis,
    /// From start to end.
    pub wall: Millis,
    /// Largest resident set of one process in bytes.
    pub memory_bytes_max: u64,
}

/// A job as people see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobInfo {
    /// Its id.
    pub id: JobId,
    /// The user who submitted it.
    pub owner: String,
    /// The specification.
    pub spec: JobSpec,
    /// Its state.
    pub state: JobState,
    /// The reason for the state: what the job waits for, or why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The worker that runs or ran it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    /// How the process ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<JobExit>,
    /// Its resource usage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// User of the worker's host whom it runs as: a name, or the number of a slot user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_as: Option<String>,
    /// What the worker cannot enforce for it, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_enforced: Vec<String>,
    /// Runs begun.
    pub attempt: u32,
    /// When it was submitted.
    pub submitted: Timestamp,
    /// When it was given to a worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<Timestamp>,
    /// When it was over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Timestamp>,
}

/// Shows jobs.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Jobs {
    /// The jobs; empty for the newest ones.
    #[serde(default)]
    pub ids: Vec<JobId>,
    /// Omit jobs that have ended.
    #[serde(default)]
    pub active_only: bool,
}

/// Jobs, newest first, at most 1000 unless named.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct JobList {
    /// The jobs.
    pub jobs: Vec<JobInfo>,
}

/// Waits until all the named jobs are over.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct AwaitJobs {
    /// The jobs.
    pub ids: Vec<JobId>,
}

/// The answer to [`AwaitJobs`].
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct AwaitedJobs {
    /// The jobs as they are.
    pub jobs: Vec<JobInfo>,
}

/// Ends a job, whatever its state.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CancelJob {
    /// The job.
    pub job: JobId,
}

/// The users whose jobs a worker runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct JobUsers {
    /// Jobs of all users.
    pub everybody: bool,
    /// Jobs that the owner of the facility submitted, as the head has authenticated.
    pub owner: bool,
    /// Jobs of these users.
    pub users: Vec<String>,
    /// Possibly jobs of other users of its host, whom it cannot list; it refuses a job after it looked its user up.
    pub maybe_others: bool,
    /// Why it does not run jobs of other users.
    pub why: String,
    /// What an operator can do about it.
    pub hint: String,
}

impl Default for JobUsers {
    /// What a worker does that does not say it: an older one.
    fn default() -> Self {
        Self {
            everybody: true,
            owner: false,
            users: Vec::new(),
            maybe_others: false,
            why: String::new(),
            hint: String::new(),
        }
    }
}
