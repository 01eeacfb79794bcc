//! Exact numbers of things whose lists are cut off.

use crate::control::{JobState, RequestKind, RequestState, VolumeState};
use base::Timestamp;
use serde::{Deserialize, Serialize};

/// Exact numbers of jobs, tape requests and volumes, independent of the lists.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Jobs by state, of those that are not over.
    pub jobs: Vec<JobCount>,
    /// Tape requests by kind and state.
    pub requests: Vec<RequestCount>,
    /// Volumes by state.
    pub volumes: Vec<VolumeCount>,
}

/// Jobs in one state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobCount {
    /// The state.
    pub state: JobState,
    /// Their number.
    pub jobs: u64,
}

/// Tape requests of one kind in one state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestCount {
    /// To or from tape.
    pub kind: RequestKind,
    /// The state.
    pub state: RequestState,
    /// Their number.
    pub requests: u64,
    /// When the oldest of them was made.
    pub oldest: Timestamp,
}

/// Volumes in one state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumeCount {
    /// The state.
    pub state: VolumeState,
    /// Their number.
    pub volumes: u64,
    /// Bytes of copies that count.
    pub live_bytes: u64,
    /// Bytes that are used, dead ones too.
    pub used_bytes: u64,
    /// Bytes that they can hold.
    pub capacity_bytes: u64,
}

impl Counts {
    /// Jobs in a state; those that are over are not counted.
    #[must_use]
    pub fn jobs_in(&self, state: JobState) -> u64 {
        self.jobs.iter().filter(|count| count.state == state).map(|count| count.jobs).sum()
    }

    /// Jobs that are not over.
    #[must_use]
    pub fn active_jobs(&self) -> u64 {
        self.jobs.iter().map(|count| count.jobs).sum()
    }

    /// Tape requests in a state.
    #[must_use]
    pub fn requests_in(&self, state: RequestState) -> u64 {
        self.requests.iter().filter(|count| count.state == state).map(|count| count.requests).sum()
    }

    /// Volumes in all.
    #[must_use]
    pub fn all_volumes(&self) -> u64 {
        self.volumes.iter().map(|count| count.volumes).sum()
    }
}
