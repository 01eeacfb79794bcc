//! Between a worker and the head: runs of jobs, their tokens and what they print.

use crate::control::{ArrayElement, JobExit, JobSpec, JobText, JobUsers, OutputPiece, Usage};
use base::{Checksums, FilePath, JobId, Millis};
use serde::{Deserialize, Serialize};

/// A run of a job that a worker knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct JobRun {
    /// The job.
    pub job: JobId,
    /// Which run of it, from 1.
    pub attempt: u32,
}

/// A worker announces itself and every run it still holds. A run the head believes there and that is not named is lost.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RegisterWorker {
    /// Its name.
    pub worker: String,
    /// CPU slots.
    pub cpus: u32,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// Limits that this host cannot enforce, in words.
    pub not_enforced: Vec<String>,
    /// Runs that are being staged, run or ended here.
    pub runs: Vec<JobRun>,
    /// The users whose jobs it runs.
    #[serde(default)]
    pub users: JobUsers,
    /// What its operator says of it, for jobs that ask for it.
    #[serde(default)]
    pub labels: Vec<String>,
    /// Of its processors, as compilers call it: `x86_64`, `aarch64`.
    #[serde(default)]
    pub architecture: String,
}

/// The answer to [`RegisterWorker`].
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct WorkerOrders {
    /// Runs that the head gave up: end them and forget them.
    pub drop: Vec<JobRun>,
    /// The data door now, `root://host:port`; it may have moved since a run was ordered.
    pub root: String,
}

/// A worker asks for work.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct NextJob {
    /// The worker.
    pub worker: String,
    /// Runs it holds: orders for these are not repeated, every other order for this worker comes again.
    pub runs: Vec<JobRun>,
    /// Runs it is ending already: orders to kill these are not repeated.
    pub killing: Vec<JobRun>,
    /// The last of [`JobOrders::deliver`] that it has carried out; 0: none.
    #[serde(default)]
    pub delivered: u64,
    /// How busy its host is.
    #[serde(default)]
    pub load: Option<WorkerLoad>,
}

/// How busy the host of a worker is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerLoad {
    /// Processes that run or want to, in thousandths, averaged over a minute.
    pub running_permille: u64,
    /// Bytes of memory that programs could get.
    pub memory_free_bytes: u64,
    /// Bytes that can be written where jobs have their scratch directories.
    pub scratch_free_bytes: u64,
}

/// Lets a worker take no more jobs, or take jobs again. What runs there goes on.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct DrainWorker {
    /// The worker.
    pub worker: String,
    /// It takes no more jobs; else it takes jobs again.
    pub drain: bool,
}

/// The answer to [`NextJob`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobOrders {
    /// Start these.
    pub start: Vec<JobOrder>,
    /// End these; report them as cancelled.
    pub kill: Vec<JobRun>,
    /// Report the output of these: clients follow them.
    #[serde(default)]
    pub report: Vec<JobRun>,
    /// Signals and messages for runs, in the order of their numbers; those that were carried out already are to be left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deliver: Vec<RunDelivery>,
    /// Which state of the facility's keys signs tokens: after another one the tokens of all runs are asked for anew.
    #[serde(default)]
    pub keys: u64,
}

impl JobOrders {
    /// Whether there is nothing to do.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.start.is_empty() && self.kill.is_empty() && self.report.is_empty() && self.deliver.is_empty()
    }
}

/// Something for the processes of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunDelivery {
    /// Numbers rise; a worker says the last one that it has carried out.
    pub number: u64,
    /// The run.
    pub run: JobRun,
    /// What is delivered.
    pub what: Delivered,
}

/// What is delivered to a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Delivered {
    /// A signal for its processes.
    Signal(i32),
    /// A line for its standard output.
    ToStdout(String),
    /// A line for its standard error.
    ToStderr(String),
    /// Its wall limit has changed.
    Wall(Millis),
}

/// Which element of an array runs, and what the array is: a job sees it in its environment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArrayOrder {
    /// Array and index.
    pub element: ArrayElement,
    /// Elements of the array.
    pub count: u64,
    /// The lowest index.
    pub index_min: u32,
    /// The highest index.
    pub index_max: u32,
}

/// A run to start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobOrder {
    /// The run.
    pub run: JobRun,
    /// The user to run for.
    pub owner: String,
    /// Whether the owner of the facility has submitted it, as the head has proven then.
    #[serde(default)]
    pub is_of_facility_owner: bool,
    /// What to run.
    pub spec: JobSpec,
    /// Its queue.
    #[serde(default)]
    pub queue: String,
    /// Which element of an array it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub array: Option<ArrayOrder>,
    /// The sources of the inputs, in the order of the specification.
    pub inputs: Vec<InputSource>,
    /// Where the outputs go: `root://host:port`; the path is in the specification.
    pub outputs: String,
}

/// The source of one input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputSource {
    /// `root://` URL with a capability to read the replica.
    pub url: String,
    /// Bytes.
    pub size: u64,
    /// Of the whole file; compared after the copy.
    pub checksums: Checksums,
}

/// A run has a shepherd. From here on only its exit record decides how it ended.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct JobStarted {
    /// The run.
    pub run: JobRun,
    /// The user of the worker's host that it runs as.
    #[serde(default)]
    pub run_as: Option<String>,
    /// What the worker cannot enforce for it, in words.
    #[serde(default)]
    pub not_enforced: Vec<String>,
}

impl JobStarted {
    /// A start of which nothing else is to be said.
    #[must_use]
    pub fn new(run: JobRun) -> Self {
        Self { run, run_as: None, not_enforced: Vec::new() }
    }
}

/// A run is over and its outputs are stored, or not.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct JobEnded {
    /// The run.
    pub run: JobRun,
    /// How the process ended.
    pub exit: JobExit,
    /// Its resource usage.
    pub usage: Usage,
    /// Its output, as far as it is kept.
    pub text: JobText,
    /// Where its outputs are; of older workers nothing, whose outputs are as they were ordered.
    #[serde(default)]
    pub stored: Vec<FilePath>,
}

impl JobEnded {
    /// The end of a run of which nothing is left.
    #[must_use]
    pub fn without_text(run: JobRun, exit: JobExit) -> Self {
        Self { run, exit, usage: Usage::default(), text: JobText::default(), stored: Vec::new() }
    }
}

/// A worker asks for the token of a run, which acts for the owner of the job. Only the worker that has the run gets it.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct GetJobToken {
    /// The run.
    pub run: JobRun,
}

/// The answer to [`GetJobToken`]. It is a secret.
#[derive(Clone, Serialize, Deserialize)]
pub struct JobToken {
    /// A bearer token of the owner, with the groups that were proven at the submission.
    pub token: String,
    /// How long it is valid.
    pub lifetime: Millis,
}

/// Bytes of each output that a worker tells at once: even if every byte needs six to be written, both fit a call.
pub const OUTPUT_PIECE_BYTES_MAX: usize = 64 << 10;

/// A worker reports the output of a run that a client follows.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ReportOutput {
    /// The run.
    pub run: JobRun,
    /// Of standard output and of standard error what was not told yet, at most [`OUTPUT_PIECE_BYTES_MAX`] bytes of each.
    pub pieces: [Option<OutputPiece>; 2],
    /// There is nothing more at the moment.
    pub is_all: bool,
}

/// The answer to [`ReportOutput`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputReported {
    /// Clients still follow the run.
    pub is_followed: bool,
    /// Bytes of standard output and of standard error that were told already, perhaps before the worker started anew.
    pub next: [u64; 2],
}
