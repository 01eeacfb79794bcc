//! The status of the facility, for the console, `bp status` and scripts.

use crate::control::{
    Counts, DriveDevice, JobInfo, JobUsers, OperatorRequest, PartitionState, PartitionTrouble, Pool,
    Presence, RestoredInfo, Role, TapePhase, VolumeState, WorkerLoad,
};
use base::{FilePath, Millis, RequestId, Timestamp, Vid};
use serde::{Deserialize, Serialize};

/// Shows the facility.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct GetStatus {}

/// The facility at a glance.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// Name given at creation.
    pub name: String,
    /// Id made at creation.
    pub facility: String,
    /// The XRootD door, `root://host:port`.
    pub root: String,
    /// Version of the head.
    pub version: String,
    /// Starts of the head since creation.
    pub incarnation: u64,
    /// The head's clock.
    pub now: Timestamp,
    /// When the head started.
    pub started: Timestamp,
    /// Files and where they are.
    pub files: FileCounts,
    /// Disk.
    pub pools: Vec<PoolInfo>,
    /// Drives.
    pub drives: Vec<DriveInfo>,
    /// Volumes, at most 1000.
    pub volumes: Vec<VolumeInfo>,
    /// Tape requests that are not done, at most 1000: active ones, then failed ones, then the oldest that wait.
    pub requests: Vec<RequestInfo>,
    /// How many there are.
    pub requests_len: u64,
    /// Workers.
    pub workers: Vec<WorkerInfo>,
    /// Hosts that joined and were not turned away, by name.
    #[serde(default)]
    pub hosts: Vec<HostStatus>,
    /// Jobs, at most 200: those that run, then those that wait, then the newest that ended.
    pub jobs: Vec<JobInfo>,
    /// Exact numbers of jobs, tape requests and volumes, even where the lists are cut off.
    #[serde(default)]
    pub counts: Counts,
    /// What operators are asked to do with volumes: what is open, then the newest answers, 100 at most.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub operator_requests: Vec<OperatorRequest>,
    /// The restore that no operator has accepted yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restored: Option<RestoredInfo>,
}

/// A host that joined.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostStatus {
    /// Its name.
    pub name: String,
    /// Its roles.
    pub roles: Vec<Role>,
    /// Its presence.
    pub presence: Presence,
    /// When it was heard last; `None`: not since the head started.
    pub heard: Option<Timestamp>,
}

/// Numbers of files by state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileCounts {
    /// Files.
    pub files: u64,
    /// Directories.
    pub directories: u64,
    /// Files with a disk replica that can be read.
    pub online: u64,
    /// Files that only a recall from tape brings back.
    pub nearline: u64,
    /// Files whose only replicas are on disk servers that do not answer. A recount takes a moment where there are millions.
    #[serde(default)]
    pub out_of_reach: u64,
    /// Bytes of all files.
    pub bytes: u64,
    /// Files that were removed and can be restored.
    #[serde(default)]
    pub trash_files: u64,
    /// Bytes of these on disk.
    #[serde(default)]
    pub trash_bytes: u64,
}

/// One pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolInfo {
    /// Its name.
    pub name: String,
    /// Its policy.
    #[serde(default)]
    pub policy: Pool,
    /// Its partitions.
    pub partitions: Vec<PartitionInfo>,
    /// Files with fewer replicas than the policy asks for, or with replicas that must move.
    #[serde(default)]
    pub files_short: u64,
    /// Copies between disk servers that are under way.
    #[serde(default)]
    pub copies_under_way: u64,
    /// Copies in progress that drain, spread or balance.
    #[serde(default)]
    pub moves_under_way: u64,
    /// Bytes to move until its partitions are balanced as the policy asks.
    #[serde(default)]
    pub uneven_bytes: u64,
}

/// One partition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartitionInfo {
    /// Its name.
    pub name: String,
    /// Bytes in all.
    pub total_bytes: u64,
    /// Bytes that can still be written.
    pub free_bytes: u64,
    /// The operator's limit on bytes of replicas; `None`: the limit of its host.
    #[serde(default)]
    pub size_max_bytes: Option<u64>,
    /// Files that are open on its host for reading, or are written on it by users.
    #[serde(default)]
    pub transfers: u32,
    /// Replicas on it.
    pub replicas: u64,
    /// Bytes of these.
    pub replica_bytes: u64,
    /// Replicas that may not be dropped.
    pub pinned: u64,
    /// Whether its disk server was heard lately.
    pub is_available: bool,
    /// The disk server.
    #[serde(default)]
    pub server: String,
    /// The failure domain: the disk server, or a label of it.
    #[serde(default)]
    pub domain: String,
    /// Its state.
    #[serde(default)]
    pub state: PartitionState,
    /// Its disk server was silent for so long that its replicas are replaced.
    #[serde(default)]
    pub is_given_up: bool,
    /// The trouble that its disk server reports.
    #[serde(default)]
    pub trouble: Option<PartitionTrouble>,
    /// Bytes that files which are safe on tape are to free; as far as nothing may go, [`Self::stuck_bytes`].
    #[serde(default)]
    pub collecting_bytes: u64,
    /// Bytes missing to the high water that no eviction can free.
    #[serde(default)]
    pub stuck_bytes: u64,
    /// Why the last attempt to move a file of a draining partition failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stuck: Option<String>,
    /// Progress of the current verification.
    #[serde(default)]
    pub verified_percent: Option<u8>,
    /// When the last verification ended.
    #[serde(default)]
    pub verified: Option<Timestamp>,
    /// Replicas that were found damaged or missing then, and could not be made anew from other copies.
    #[serde(default)]
    pub damaged: u64,
}

/// One drive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DriveInfo {
    /// Its name.
    pub name: String,
    /// Its library.
    pub library: String,
    /// The host that it is on.
    #[serde(default)]
    pub host: String,
    /// The volume in it.
    pub vid: Option<Vid>,
    /// The phase of the session.
    pub phase: TapePhase,
    /// The file it works on.
    pub path: Option<FilePath>,
    /// Bytes of that file that are copied.
    pub bytes_done: u64,
    /// Bytes of that file.
    pub bytes_total: u64,
    /// Files of the session that are not done.
    pub files_left: u64,
    /// Why it is out of use, if it is.
    pub trouble: Option<String>,
    /// What it is.
    #[serde(default)]
    pub device: DriveDevice,
}

/// One volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumeInfo {
    /// Its label.
    pub vid: Vid,
    /// Its library.
    pub library: String,
    /// Its tape pool; empty: none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub pool: String,
    /// The state.
    pub state: VolumeState,
    /// Why, if an operator must check it.
    pub reason: Option<String>,
    /// Live copies on it.
    pub files: u64,
    /// Bytes of these.
    pub live_bytes: u64,
    /// Bytes of the cartridge that are used, dead ones too.
    pub used_bytes: u64,
    /// Bytes it can hold.
    pub capacity_bytes: u64,
    /// Times it was loaded.
    pub loads: u64,
    /// Drive it is in.
    pub drive: Option<String>,
}

/// The direction of a tape request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestKind {
    /// To tape.
    Archive,
    /// From tape.
    Recall,
}

impl RequestKind {
    /// The word people read.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Archive => "archive",
            Self::Recall => "recall",
        }
    }
}

/// The state of a tape request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestState {
    /// Waits.
    Queued,
    /// Belongs to a session.
    Active,
    /// Tried too often; an operator must check it.
    Failed,
}

impl RequestState {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Queued, Self::Active, Self::Failed];

    /// The word people read.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Active => "active",
            Self::Failed => "failed",
        }
    }
}

/// One row of the tape queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestInfo {
    /// Its id.
    pub id: RequestId,
    /// To or from tape.
    pub kind: RequestKind,
    /// The file.
    pub path: FilePath,
    /// Bytes.
    pub size: u64,
    /// The volume, once it is known.
    pub vid: Option<Vid>,
    /// Its state.
    pub state: RequestState,
    /// The user who asked first.
    pub owner: String,
    /// Tries that failed.
    pub attempts: u32,
    /// What it waits for, or why it failed.
    pub reason: String,
    /// When it was asked for.
    pub created: Timestamp,
}

impl RequestInfo {
    /// Whether it was tried, and waits to be tried again.
    #[must_use]
    pub fn waits_for_retry(&self) -> bool {
        self.state == RequestState::Queued && self.attempts > 0
    }

    /// The word people read for where it is in its life.
    #[must_use]
    pub fn state_word(&self) -> &'static str {
        if self.waits_for_retry() { "retry" } else { self.state.as_str() }
    }
}

/// One worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerInfo {
    /// Its name.
    pub name: String,
    /// The host that it is on.
    #[serde(default)]
    pub host: String,
    /// Whether it was heard lately. What runs on one that is silent goes on, as far as anybody knows.
    #[serde(default)]
    pub is_available: bool,
    /// CPU slots.
    pub cpus: u32,
    /// CPU slots taken.
    pub cpus_used: u32,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// Limits that it cannot enforce.
    pub not_enforced: Vec<String>,
    /// The users whose jobs it runs.
    #[serde(default)]
    pub users: JobUsers,
    /// What its operator says of it.
    #[serde(default)]
    pub labels: Vec<String>,
    /// Of its processors.
    #[serde(default)]
    pub architecture: String,
    /// It takes no more jobs, because an operator said so.
    #[serde(default)]
    pub is_draining: bool,
    /// How busy its host is, as it said last.
    #[serde(default)]
    pub load: Option<WorkerLoad>,
}

/// Returns the resources that each owner used.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct GetBill {}

/// The resources that each owner used.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Bill {
    /// A line for each owner.
    pub lines: Vec<BillLine>,
}

/// The resources that one owner used since the facility was made.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct BillLine {
    /// The owner.
    pub owner: String,
    /// Jobs that ran.
    pub jobs: u64,
    /// CPU time of jobs.
    pub cpu: Millis,
    /// Wall time of jobs times their slots.
    pub slot_wall: Millis,
    /// Volumes loaded for this owner's requests; a load that served several is split between them.
    pub tape_loads: f64,
    /// Bytes written to tape.
    pub tape_written_bytes: u64,
    /// Bytes read from tape.
    pub tape_read_bytes: u64,
    /// Bytes written into the facility.
    pub in_bytes: u64,
    /// Bytes read from it.
    pub out_bytes: u64,
    /// Disk space times time.
    pub disk_gb_hours: f64,
}
