//! What is done to jobs that exist: holds, moves, changes, reruns, signals, messages.

use super::{JobDependency, JobSelection};
use base::{Failure, Millis, Timestamp};
use serde::{Deserialize, Serialize};

/// Who holds a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HoldKind {
    /// Its owner, who may release it.
    User,
    /// An operator.
    Operator,
    /// The facility itself; operators may release it.
    System,
}

impl HoldKind {
    /// The word people read.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Operator => "operator",
            Self::System => "system",
        }
    }
}

/// What a job waits for that has not started, or not ended its life. Programs read it; people read the reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitCause {
    /// Its user holds it.
    HeldByUser,
    /// An operator holds it.
    HeldByOperator,
    /// The facility holds it.
    HeldBySystem,
    /// Another job has to come first.
    Dependency,
    /// A dependency can never be fulfilled.
    DependencyNeverSatisfied,
    /// A time has to come first.
    BeginTime,
    /// It failed, and is tried again later.
    Retry,
    /// Inputs are not online.
    Inputs,
    /// Its queue is stopped.
    QueueStopped,
    /// The time window of its queue is closed.
    QueueWindow,
    /// As many jobs of its queue run as may.
    QueueLimit,
    /// As many jobs of its user run in the queue as may.
    UserLimit,
    /// As many jobs run in the facility as may.
    RunLimit,
    /// As many elements of its array run as may.
    ArrayLimit,
    /// No worker has enough slots or memory free.
    Resources,
    /// Other jobs go before it.
    Priority,
    /// No worker that may run it is there.
    NoWorker,
    /// Its worker does not answer.
    WorkerSilent,
    /// Outputs are not on tape.
    Outputs,
    /// A cause that this version does not know.
    #[serde(other)]
    Other,
}

/// Keeps jobs from starting; a job that runs goes on.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct HoldJobs {
    /// The jobs.
    pub jobs: Vec<JobSelection>,
    /// Whose hold; none: the user's for their own jobs, else the operator's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold: Option<HoldKind>,
}

/// Takes holds away.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ReleaseJobs {
    /// The jobs.
    pub jobs: Vec<JobSelection>,
    /// Whose hold; none: every hold. Refused if one that is meant is an operator's or the facility's, and the caller is
    /// no operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold: Option<HoldKind>,
}

/// Moves jobs that have not started to another queue.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct MoveJobs {
    /// The jobs.
    pub jobs: Vec<JobSelection>,
    /// The queue.
    pub queue: String,
}

/// Changes jobs that have not started. Of those that run only the wall limit and the deadline can change.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct AlterJobs {
    /// The jobs.
    pub jobs: Vec<JobSelection>,
    /// What is different from now on.
    pub change: JobChange,
}

/// What changes of a job; what is not named stays.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct JobChange {
    /// Name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Priority.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// CPU slots.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus: Option<u32>,
    /// Bytes of memory; 0: no limit requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// Longest run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wall: Option<Millis>,
    /// Does not start before this time; the past: starts when it can.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub begin: Option<Timestamp>,
    /// Fails if it is not over by this time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Timestamp>,
    /// The jobs that it waits for, instead of those it waits for now. Elements of an array wait for the same: it changes for all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dependencies: Option<Vec<JobDependency>>,
    /// Elements of its array that run at the same time at most; 0: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running_max: Option<u32>,
}

/// Ends runs, and runs the jobs again from the beginning: only jobs that allow it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RerunJobs {
    /// The jobs; also such that are over.
    pub jobs: Vec<JobSelection>,
}

/// Sends a signal to the processes of running jobs.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SignalJobs {
    /// The jobs.
    pub jobs: Vec<JobSelection>,
    /// Number of the signal, 1 to 64.
    pub signal: i32,
}

/// Writes a line to the output of running jobs.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct MessageJobs {
    /// The jobs.
    pub jobs: Vec<JobSelection>,
    /// The text, without its end of line.
    pub text: String,
    /// To standard output; else to standard error.
    #[serde(default)]
    pub to_stdout: bool,
}

/// Bytes of a message to a job: a line, not a file.
pub const JOB_MESSAGE_BYTES_MAX: usize = 4096;

/// Ends jobs, whatever their state.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CancelJobs {
    /// The jobs.
    pub jobs: Vec<JobSelection>,
}

/// Selections of jobs that one call may name.
pub const SELECTIONS_MAX: usize = 10_000;

/// What came of a call for jobs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobOutcomes {
    /// For each selection of the call, in its order.
    pub outcomes: Vec<JobOutcome>,
}

/// What came of it for one selection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobOutcome {
    /// The selection.
    pub jobs: JobSelection,
    /// Jobs that were changed.
    pub changed: u64,
    /// Why others, or all, were not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
}
