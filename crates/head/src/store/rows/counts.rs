//! Jobs and tape requests for the status: exact counts, and the most important rows.

use crate::store::{
    Store, StoreResult, VolumeRow,
    rows::{jobs, requests},
    word,
};
use base::Timestamp;
use std::collections::BTreeMap;
use wire::control::{JobCount, RequestCount, VolumeCount, VolumeState};

impl Store {
    /// Jobs by state, of those that are not over.
    pub(crate) fn job_counts(&self) -> StoreResult<Vec<JobCount>> {
        const SQL: &str =
            "SELECT state, count(*) FROM job WHERE state IN ('held','queued','running','archiving')
             GROUP BY state ORDER BY state";
        self.all(SQL, (), |row| Ok(JobCount { state: word(row, 0)?, jobs: row.get(1)? }))
    }

    /// Held, queued, and running or archiving jobs of each queue that has some.
    pub(crate) fn queue_counts(&self) -> StoreResult<BTreeMap<String, (u64, u64, u64)>> {
        const SQL: &str = "SELECT queue, CAST(sum(CASE WHEN state = 'held' THEN 1 ELSE 0 END) AS BIGINT),
                 CAST(sum(CASE WHEN state = 'queued' THEN 1 ELSE 0 END) AS BIGINT),
                 CAST(sum(CASE WHEN state IN ('running','archiving') THEN 1 ELSE 0 END) AS BIGINT)
             FROM job WHERE state IN ('held','queued','running','archiving') GROUP BY queue";
        let rows = self.all(SQL, (), |row| Ok((row.get(0)?, (row.get(1)?, row.get(2)?, row.get(3)?))))?;
        Ok(rows.into_iter().collect())
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
        const SQL: &str = "SELECT worker, CAST(sum(cpus) AS BIGINT) FROM job
             WHERE state = 'running' AND worker IS NOT NULL GROUP BY worker";
        Ok(self.all(SQL, (), |row| Ok((row.get(0)?, row.get(1)?)))?.into_iter().collect())
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
