//! Rows of what jobs cost. They stay when jobs are over, as the jobs do.

use crate::store::{Store, StoreResult};
use base::{FileId, JobId};
use std::{collections::BTreeMap, ops::RangeInclusive};

/// What the runs of a job cost beside processor time.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct CostRow {
    pub(crate) in_bytes: u64,
    pub(crate) out_bytes: u64,
    /// From the submission, so that a later run's includes that of an earlier one.
    pub(crate) disk_byte_ms: f64,
    pub(crate) memory_byte_ms: f64,
}

/// What was read from tape for a job, or for all elements of an array.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct TapeCost {
    pub(crate) bytes: u64,
    pub(crate) loads: f64,
}

impl Store {
    /// Adds what a run cost. Jobs that cost nothing have no row.
    pub(crate) fn add_job_cost(&self, job: JobId, cost: &CostRow) -> StoreResult<()> {
        if *cost == CostRow::default() {
            return Ok(());
        }
        self.run(
            "INSERT INTO job_cost (job, in_bytes, out_bytes, disk_byte_ms, memory_byte_ms) VALUES (?1, ?2, ?3, ?4, ?5)
             ON CONFLICT (job) DO UPDATE SET in_bytes = job_cost.in_bytes + ?2, out_bytes = ?3,
                 disk_byte_ms = ?4, memory_byte_ms = job_cost.memory_byte_ms + ?5",
            (job.0, cost.in_bytes, cost.out_bytes, cost.disk_byte_ms, cost.memory_byte_ms),
        )
    }

    /// What jobs cost whose ids lie in a range.
    pub(crate) fn job_costs(&self, ids: &RangeInclusive<JobId>) -> StoreResult<BTreeMap<JobId, CostRow>> {
        let sql = "SELECT job, in_bytes, out_bytes, disk_byte_ms, memory_byte_ms FROM job_cost
             WHERE job BETWEEN ?1 AND ?2";
        let rows = self.all(sql, (ids.start().0, ids.end().0), |row| {
            let cost = CostRow {
                in_bytes: row.get(1)?,
                out_bytes: row.get(2)?,
                disk_byte_ms: row.get(3)?,
                memory_byte_ms: row.get(4)?,
            };
            Ok((JobId(row.get(0)?), cost))
        })?;
        Ok(rows.into_iter().collect())
    }

    /// What was read from tape for jobs whose ids lie in a range; for an array under its first element.
    pub(crate) fn tape_costs(&self, ids: &RangeInclusive<JobId>) -> StoreResult<BTreeMap<JobId, TapeCost>> {
        let sql =
            "SELECT job, CAST(sum(bytes) AS BIGINT), sum(loads) FROM job_tape WHERE job BETWEEN ?1 AND ?2
             GROUP BY job";
        let rows = self.all(sql, (ids.start().0, ids.end().0), |row| {
            Ok((JobId(row.get(0)?), TapeCost { bytes: row.get(1)?, loads: row.get(2)? }))
        })?;
        Ok(rows.into_iter().collect())
    }

    /// Jobs that wait for a file, an array as its first element.
    pub(crate) fn holders_waiting_for(&self, file: FileId) -> StoreResult<Vec<JobId>> {
        let sql = "SELECT DISTINCT f.job FROM job_file f WHERE f.file = ?1 AND f.role = 'input'
             AND (EXISTS (SELECT 1 FROM job j WHERE j.id = f.job AND j.state = 'held')
               OR EXISTS (SELECT 1 FROM job j WHERE j.array_of = f.job AND j.state = 'held')) ORDER BY 1";
        self.all(sql, (file.0,), |row| row.get(0).map(JobId))
    }

    /// Notes what a session has read for a job.
    pub(crate) fn add_tape_cost(&self, job: JobId, session: u64, cost: TapeCost) -> StoreResult<()> {
        self.run(
            "INSERT INTO job_tape (job, session, bytes, loads) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT (job, session) DO UPDATE SET bytes = job_tape.bytes + ?3, loads = job_tape.loads + ?4",
            (job.0, session, cost.bytes, cost.loads),
        )
    }

    /// Jobs for which a session has read, each with its owner.
    pub(crate) fn jobs_of_session(&self, session: u64) -> StoreResult<Vec<(JobId, String)>> {
        let sql = "SELECT t.job, j.owner FROM job_tape t JOIN job j ON j.id = t.job WHERE t.session = ?1 ORDER BY 1";
        self.all(sql, (session,), |row| Ok((JobId(row.get(0)?), row.get(1)?)))
    }
}
