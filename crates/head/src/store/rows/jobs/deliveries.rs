//! Rows of what waits for workers: signals, messages, changed limits.

use crate::store::{Store, StoreResult, document, json};
use base::JobId;
use wire::control::{JobRun, RunDelivery};

impl Store {
    pub(crate) fn insert_delivery(&self, worker: &str, delivery: &RunDelivery) -> StoreResult<()> {
        let RunDelivery { number, run, what } = delivery;
        self.run(
            "INSERT INTO job_delivery (number, worker, job, attempt, what) VALUES (?1, ?2, ?3, ?4, ?5)",
            (*number, worker, run.job.0, run.attempt, json(what)),
        )
    }

    /// How many wait for a worker.
    pub(crate) fn deliveries_len(&self, worker: &str) -> StoreResult<u64> {
        self.one("SELECT count(*) FROM job_delivery WHERE worker = ?1", (worker,), |row| row.get(0))
    }

    /// The number of the newest that waits for any worker; 0: there is none.
    pub(crate) fn last_delivery(&self) -> StoreResult<u64> {
        self.one("SELECT coalesce(max(number), 0) FROM job_delivery", (), |row| row.get(0))
    }

    /// What waits for a worker, the oldest first.
    pub(crate) fn deliveries(&self, worker: &str) -> StoreResult<Vec<RunDelivery>> {
        let sql = "SELECT number, job, attempt, what FROM job_delivery WHERE worker = ?1 ORDER BY number";
        self.all(sql, (worker,), |row| {
            let run = JobRun { job: JobId(row.get(1)?), attempt: row.get(2)? };
            Ok(RunDelivery { number: row.get(0)?, run, what: document(row, 3)? })
        })
    }

    /// A worker has carried out all up to this number.
    pub(crate) fn delete_deliveries(&self, worker: &str, last: u64) -> StoreResult<()> {
        self.run("DELETE FROM job_delivery WHERE worker = ?1 AND number <= ?2", (worker, last))
    }
}
