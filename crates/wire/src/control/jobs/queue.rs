//! Queues of jobs: what they accept, what of it runs, and how much at a time.

use base::Millis;
use serde::{Deserialize, Serialize};

/// The queue that every facility has from its beginning, and its default until an operator says another.
pub const FIRST_QUEUE: &str = "batch";
/// Queues of a facility.
pub const QUEUES_MAX: usize = 1000;
/// Destinations of a pipe queue.
pub const DESTINATIONS_MAX: usize = 100;
/// Time windows of a queue.
pub const WINDOWS_MAX: usize = 50;
/// Bounds of priorities, of jobs as in POSIX and of queues.
pub const PRIORITY: std::ops::RangeInclusive<i32> = -1024..=1023;

/// What a queue does with its jobs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QueueKind {
    /// Runs them.
    #[default]
    Batch,
    /// Routes them to another queue.
    Pipe,
}

impl QueueKind {
    /// The word of the kind.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Batch => "batch",
            Self::Pipe => "pipe",
        }
    }
}

/// Resources, as far as they are said.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct QueueResources {
    /// CPU slots.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus: Option<u32>,
    /// Bytes of memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// Longest run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wall: Option<Millis>,
}

/// A time of each week in which a queue starts jobs, in the time zone UTC.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TimeWindow {
    /// Days, 1 (Monday) to 7; empty: every day.
    #[serde(default)]
    pub days: Vec<u8>,
    /// Minutes after midnight at which it opens.
    pub opens: u16,
    /// Minutes after midnight at which it closes; before `opens`: on the next day.
    pub closes: u16,
}

/// The settings of a queue.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct QueueSettings {
    /// What it does with its jobs.
    pub kind: QueueKind,
    /// Of a pipe queue: the queues it routes to; the least loaded that accepts the job gets it.
    pub destinations: Vec<String>,
    /// Jobs that run at the same time at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_limit: Option<u32>,
    /// Jobs of one user that run at the same time at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_run_limit: Option<u32>,
    /// Among queues; the highest goes first.
    pub priority: i32,
    /// It starts jobs in these only; empty: always.
    pub windows: Vec<TimeWindow>,
    /// What a job gets that does not say it.
    pub defaults: QueueResources,
    /// What a job may ask for.
    pub ceilings: QueueResources,
    /// Workers that run its jobs, by name or label; empty: all.
    pub workers: Vec<String>,
}

/// A queue as people see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueInfo {
    /// Its name.
    pub name: String,
    /// Its settings.
    pub settings: QueueSettings,
    /// It accepts jobs.
    pub is_enabled: bool,
    /// It runs, or routes, jobs.
    pub is_started: bool,
    /// Jobs that name no queue come here.
    pub is_default: bool,
    /// Jobs that may not run yet.
    pub held: u64,
    /// Jobs that wait for a slot.
    pub queued: u64,
    /// Jobs that run.
    pub running: u64,
}

/// Shows all queues.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct GetQueues {}

/// All queues, by name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Queues {
    /// The queues.
    pub queues: Vec<QueueInfo>,
    /// Jobs that run in the facility at the same time at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_limit: Option<u32>,
}

/// Adds a queue: enabled and started.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct AddQueue {
    /// Its name.
    pub queue: String,
    /// Its settings.
    #[serde(default)]
    pub settings: QueueSettings,
}

/// Gives a queue other settings.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SetQueue {
    /// Its name.
    pub queue: String,
    /// All its settings.
    pub settings: QueueSettings,
}

/// Removes a queue that has no jobs and is not the default.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RemoveQueue {
    /// Its name.
    pub queue: String,
}

/// Switches a queue; what is not named stays.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SwitchQueue {
    /// Its name.
    pub queue: String,
    /// Whether it accepts jobs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// Whether it runs, or routes, jobs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started: Option<bool>,
    /// Makes it the default.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub default: bool,
}

/// Says how many jobs may run in the facility at the same time. Running ones go on.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SetRunLimit {
    /// The number; none: as many as there are slots for.
    #[serde(default)]
    pub run_limit: Option<u32>,
}
