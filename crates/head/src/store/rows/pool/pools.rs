//! Policies of pools, and files with fewer replicas than the policy asks for.

use crate::store::{Store, StoreResult, document, json};
use base::{FileId, Timestamp};
use std::{collections::BTreeMap, sync::Arc};
use wire::control::Pool;

/// Policies by pool.
pub(crate) type Policies = BTreeMap<String, Arc<Pool>>;

impl Store {
    /// Policies of pools, where one was set.
    pub(crate) fn policies(&self) -> StoreResult<Arc<Policies>> {
        if let Some(known) = &*self.policies.borrow() {
            return Ok(Arc::clone(known));
        }
        let rows = self.all_now("SELECT name, policy FROM pool", (), |row| {
            let policy: Pool = document(row, 1)?;
            Ok((row.get(0)?, Arc::new(policy)))
        })?;
        let policies = Arc::new(rows.into_iter().collect::<Policies>());
        *self.policies.borrow_mut() = Some(Arc::clone(&policies));
        Ok(policies)
    }

    /// The policy of a pool.
    pub(crate) fn policy(&self, pool: &str) -> StoreResult<Arc<Pool>> {
        let known = self.policies()?.get(pool).cloned();
        Ok(known.unwrap_or_else(|| Arc::new(Pool { name: pool.to_owned(), ..Pool::default() })))
    }

    pub(crate) fn set_policy(&self, policy: &Pool) -> StoreResult<()> {
        self.policies.take();
        self.run(
            "INSERT INTO pool (name, policy) VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET policy = ?2",
            (&policy.name, json(policy)),
        )
    }

    /// Whether pieces of coded files lie in a pool.
    pub(crate) fn has_pieces(&self, pool: &str) -> StoreResult<bool> {
        let sql = "SELECT EXISTS (SELECT 1 FROM replica r JOIN partition p ON p.name = r.partition
            WHERE p.pool = ?1 AND r.parity IS NOT NULL)";
        self.one_now(sql, (pool,), |row| row.get(0))
    }

    /// Notes that a file has only `good` replicas that can be read.
    pub(crate) fn put_shortage(
        &self,
        file: FileId,
        pool: &str,
        good: usize,
        now: Timestamp,
    ) -> StoreResult<()> {
        self.run(
            "INSERT INTO shortage (file, pool, good, since, due) VALUES (?1, ?2, ?3, ?4, ?4)
             ON CONFLICT (file) DO UPDATE SET pool = ?2, good = ?3",
            (file.0, pool, good, now.0),
        )
    }

    pub(crate) fn delete_shortage(&self, file: FileId) -> StoreResult<()> {
        self.run("DELETE FROM shortage WHERE file = ?1", (file.0,))
    }

    /// Why a file of a partition could not be copied elsewhere when that was tried last.
    pub(crate) fn shortage_reason_on(&self, partition: &str) -> StoreResult<Option<String>> {
        const SQL: &str = "SELECT s.reason FROM shortage s JOIN replica r ON r.file = s.file
             WHERE r.partition = ?1 AND s.reason IS NOT NULL ORDER BY s.file LIMIT 1";
        self.maybe(SQL, (partition,), |row| row.get(0))
    }

    /// Nothing is tried for a file before `due`. A `reason` counts as an attempt that failed.
    pub(crate) fn delay_shortage(
        &self,
        file: FileId,
        due: Timestamp,
        reason: Option<&str>,
    ) -> StoreResult<()> {
        self.run(
            "UPDATE shortage SET due = ?2, reason = coalesce(?3, reason),
             attempts = attempts + CASE WHEN ?3 IS NULL THEN 0 ELSE 1 END WHERE file = ?1",
            (file.0, due.0, reason),
        )
    }

    /// Files to be looked after at `now`: those with the fewest replicas first, then those that wait longest.
    pub(crate) fn shortages(&self, now: Timestamp, limit: usize) -> StoreResult<Vec<FileId>> {
        let sql = "SELECT file FROM shortage WHERE due <= ?1 ORDER BY good, since LIMIT ?2";
        self.all_now(sql, (now.0, limit), |row| row.get(0).map(FileId))
    }

    /// Copies of a file that failed since it is short of replicas.
    pub(crate) fn shortage_attempts(&self, file: FileId) -> StoreResult<u64> {
        let sql = "SELECT attempts FROM shortage WHERE file = ?1";
        Ok(self.maybe_now(sql, (file.0,), |row| row.get(0))?.unwrap_or(0))
    }

    /// Copies under way, by partition.
    pub(crate) fn copying_counts(&self) -> StoreResult<BTreeMap<String, u64>> {
        let sql = "SELECT partition, count(*) FROM replica
            WHERE state = 'copying' AND state <> 'online' GROUP BY partition";
        Ok(self.all(sql, (), |row| Ok((row.get(0)?, row.get(1)?)))?.into_iter().collect())
    }

    /// Files that have too few replicas, by pool.
    pub(crate) fn shortage_counts(&self) -> StoreResult<BTreeMap<String, u64>> {
        let rows = self.all_now("SELECT pool, count(*) FROM shortage GROUP BY pool", (), |row| {
            Ok((row.get(0)?, row.get(1)?))
        })?;
        Ok(rows.into_iter().collect())
    }
}
