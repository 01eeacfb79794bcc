//! Jobs and tape requests for the status: exact counts, and the most important rows.

use crate::store::{
    Store, StoreResult, VolumeRow,
    rows::{
        jobs::{self, QueueCounts},
        requests,
    },
    word,
};
use base::Timestamp;
use std::collections::BTreeMap;
use wire::control::{JobCount, JobState, RequestCount, VolumeCount, VolumeState};

impl Store {
    /// Jobs by state, of those that are not over.
    pub(crate) fn job_counts(&self) -> StoreResult<Vec<JobCount>> {
        let active = self.active()?;
        let sum = active.counts().values().fold(QueueCounts::default(), QueueCounts::plus);
        let states = [
            (JobState::Archiving, sum.archiving),
            (JobState::Held, sum.held),
            (JobState::Queued, sum.queued),
            (JobState::Running, sum.running),
        ];
        let there = states.into_iter().filter(|(_, jobs)| *jobs > 0);
        Ok(there.map(|(state, jobs)| JobCount { state, jobs }).collect())
    }

    /// Tape requests by kind and state.
    pub(crate) fn request_counts(&self) -> StoreResult<Vec<RequestCount>> {
        const SQL: &str = "SELECT kind, state, count(*), min(created) FROM request
             GROUP BY kind, state ORDER BY kind, state";
        self.all(SQL, (), |row| {
            Ok(RequestCount {
                kind: word(row, 0)?,
                state: word(row, 1)?,
                requests: row.get(2)?,
                oldest: Timestamp(row.get(3)?),
            })
        })
    }

    /// Jobs that are not over: those that run, then those that are written to tape, then those that wait, the oldest first.
    pub(crate) fn active_jobs_shown(&self, limit: usize) -> StoreResult<Vec<jobs::JobRow>> {
        let sql = format!(
            "SELECT {} WHERE state IN ('held','queued','running','archiving')
             ORDER BY CASE state WHEN 'running' THEN 0 WHEN 'archiving' THEN 1 ELSE 2 END, id LIMIT ?1",
            jobs::JOB
        );
        self.all(&sql, (limit,), jobs::job)
    }

    /// Jobs that are over, those that were submitted last first.
    pub(crate) fn ended_jobs_shown(&self, limit: usize) -> StoreResult<Vec<jobs::JobRow>> {
        let sql = format!(
            "SELECT {} WHERE state IN ('done','failed','cancelled') ORDER BY id DESC LIMIT ?1",
            jobs::JOB
        );
        self.all(&sql, (limit,), jobs::job)
    }

    /// CPU slots that running jobs hold, by worker.
    pub(crate) fn slots_taken(&self) -> StoreResult<BTreeMap<String, u32>> {
        let mut taken = BTreeMap::new();
        for job in self.active()?.running() {
            if let Some(worker) = &job.worker {
                *taken.entry(worker.clone()).or_default() += job.wish.cpus;
            }
        }
        Ok(taken)
    }

    /// Tape requests: active ones, then failed ones, then the oldest that wait.
    pub(crate) fn requests_shown(&self, limit: usize) -> StoreResult<Vec<requests::RequestRow>> {
        let sql = format!(
            "SELECT {} ORDER BY CASE q.state WHEN 'active' THEN 0 WHEN 'failed' THEN 1 ELSE 2 END, q.created, q.id
             LIMIT ?1",
            requests::REQUEST
        );
        self.all(&sql, (limit,), requests::request)
    }
}

/// Volumes by state.
pub(crate) fn volume_counts(volumes: &[VolumeRow]) -> Vec<VolumeCount> {
    let count = |state| {
        let nothing = VolumeCount { state, volumes: 0, live_bytes: 0, used_bytes: 0, capacity_bytes: 0 };
        let rows = volumes.iter().filter(|row| row.state == state);
        rows.fold(nothing, |sum, row| VolumeCount {
            volumes: sum.volumes + 1,
            live_bytes: sum.live_bytes.saturating_add(row.live_bytes),
            used_bytes: sum.used_bytes.saturating_add(row.used),
            capacity_bytes: sum.capacity_bytes.saturating_add(row.capacity),
            ..sum
        })
    };
    VolumeState::ALL.map(count).into_iter().filter(|count| count.volumes > 0).collect()
}
