//! Jobs: what people submit, and what they see of it.

mod array;
mod change;
mod costs;
mod dependency;
mod output;
mod queue;
mod select;
mod spec;

pub use array::{ARRAY_LEN_MAX, ArrayElement, ArrayElements, ArrayRange, IndexRange};
use base::{ErrorKind, Failure, JobId, Millis, Timestamp};
pub use change::*;
pub use costs::JobCosts;
pub use dependency::{DependencyKind, JobDependency};
pub use output::{FollowJob, FollowedJob, JobLog, JobText, OUTPUT_KEPT_BYTES_MAX, OutputPiece};
pub use queue::*;
pub use select::JobSelection;
use serde::{Deserialize, Serialize};
pub use spec::{JobDialect, JobInput, JobOutput, JobSpec, MOUNT_LABEL, OutputKind, Resources, is_plain_name};
use std::fmt;

/// Submits a job. Fails at once if an input does not exist.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Submit {
    /// What to run.
    pub spec: JobSpec,
    /// Runs it once for each index: an array, whose elements are jobs of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub array: Option<ArrayRange>,
    /// Names this submission among those of its user: the same key again yields the same job, and submits nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

impl Submit {
    /// Submits one job.
    #[must_use]
    pub fn new(spec: JobSpec) -> Self {
        Self { spec, array: None, key: None }
    }
}

/// Bytes of a key of a submission: a UUID or a path fits.
pub const SUBMIT_KEY_BYTES_MAX: usize = 255;

/// The answer to [`Submit`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Submitted {
    /// The new job; of an array its first element, which the array is named after.
    pub job: JobId,
    /// Jobs that were submitted: more than one of an array.
    #[serde(default = "one")]
    pub count: u64,
}

fn one() -> u64 {
    1
}

/// The state of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobState {
    /// It may not run yet: an input is not online, somebody holds it, another job or a time has to come first. It has no slot.
    Held,
    /// Nothing keeps it but its turn; all inputs are online and pinned. It waits for a slot.
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobInfo {
    /// Its id.
    pub id: JobId,
    /// The user who submitted it.
    pub owner: String,
    /// The specification.
    pub spec: JobSpec,
    /// Its state.
    pub state: JobState,
    /// Its queue.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub queue: String,
    /// Among the jobs of its queue; the highest goes first.
    #[serde(default, skip_serializing_if = "spec::is_default")]
    pub priority: i32,
    /// Those who hold it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub holds: Vec<HoldKind>,
    /// Which element of an array it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub array: Option<ArrayElement>,
    /// The entry stands for a whole array, of which these are the elements.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elements: Option<ArrayElements>,
    /// What it waits for, as a word; the reason says it in a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<WaitCause>,
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
    /// What it cost, if that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub costs: Option<JobCosts>,
}

impl JobInfo {
    /// How people name it: an element of an array by its index.
    #[must_use]
    pub fn shown_id(&self) -> String {
        match self.array {
            Some(element) if self.elements.is_none() => format!("{}_{}", element.array, element.index),
            _ => self.id.to_string(),
        }
    }
}

/// Shows jobs.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Jobs {
    /// The jobs, each by itself, also the first element of an array; empty for the newest ones.
    #[serde(default)]
    pub ids: Vec<JobId>,
    /// Omit jobs that have ended.
    #[serde(default)]
    pub active_only: bool,
    /// These jobs, arrays or elements of arrays, beside `ids`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub select: Vec<JobSelection>,
    /// Only jobs to which this applies.
    #[serde(default, skip_serializing_if = "JobFilter::is_empty")]
    pub filter: JobFilter,
    /// Each element of an array by itself; else an array is one entry.
    #[serde(default)]
    pub elements: bool,
    /// Without scripts, environments, inputs and outputs, which are most of the reply where jobs are many.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub brief: bool,
    /// With what each cost.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub costs: bool,
    /// Most entries, up to 100,000; none: 1000, or all jobs that are named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// Jobs that are meant: all that is named must apply.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct JobFilter {
    /// In one of these states; empty: in any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub states: Vec<JobState>,
    /// In one of these queues; empty: in any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub queues: Vec<String>,
    /// Of one of these users; empty: of anybody.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub owners: Vec<String>,
    /// With one of these names; empty: with any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    /// Submitted, or over, at this time or later.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
}

impl JobFilter {
    /// Whether every job is meant.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Jobs, newest first.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct JobList {
    /// The jobs.
    pub jobs: Vec<JobInfo>,
    /// There are more than were shown.
    #[serde(default)]
    pub is_cut: bool,
}

/// Waits until all the named jobs are over. Each is told once, however often it is named.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct AwaitJobs {
    /// The jobs, each by itself, also the first element of an array.
    #[serde(default)]
    pub ids: Vec<JobId>,
    /// These jobs, all elements of these arrays, or these elements of arrays, beside `ids`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub select: Vec<JobSelection>,
}

/// The answer to [`AwaitJobs`].
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct AwaitedJobs {
    /// The jobs as they are, of arrays each element; at most 100,000.
    pub jobs: Vec<JobInfo>,
}

/// Ends a job, whatever its state. `cancel_jobs` ends whole arrays.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CancelJob {
    /// The job by itself, also the first element of an array.
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
