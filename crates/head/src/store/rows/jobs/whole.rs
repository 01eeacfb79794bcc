//! Whole arrays, changed in one statement each, however many elements they have.

use super::{DependencyRow, HOLDS};
use crate::{
    store::{Store, StoreResult},
    waiters::Awaited,
};
use base::{JobId, Millis, Timestamp};
use wire::control::{HoldKind, JobState, Resources};

impl Store {
    /// Ends all elements of an array whose process does not run.
    pub(crate) fn cancel_array(&self, array: JobId, reason: &str, now: Timestamp) -> StoreResult<()> {
        let sql = "SELECT id FROM job WHERE array_of = ?1 AND state IN ('held','queued','archiving')";
        self.all(sql, (array.0,), |row| {
            self.note_changed(Awaited::Job(JobId(row.get(0)?)));
            Ok(())
        })?;
        self.forget_active();
        self.run(
            "UPDATE job SET state = 'cancelled', reason = ?2, ended = ?3
             WHERE array_of = ?1 AND state IN ('held','queued','archiving')",
            (array.0, reason, now.0),
        )
    }

    /// Sets a hold of all elements that are not over, or lifts it. Those that waited for a slot are held, too.
    pub(crate) fn hold_array(&self, array: JobId, hold: HoldKind, is_set: bool) -> StoreResult<()> {
        // The letters stay in their order.
        let letters = HOLDS.iter().map(|(kind, letter)| match (*kind == hold, is_set) {
            (true, true) => format!("'{letter}'"),
            (true, false) => "''".to_owned(),
            (false, _) => format!("CASE WHEN holds LIKE '%{letter}%' THEN '{letter}' ELSE '' END"),
        });
        let holds = letters.collect::<Vec<_>>().join(" || ");
        let state = if is_set { "CASE WHEN state = 'queued' THEN 'held' ELSE state END" } else { "state" };
        self.forget_active();
        self.run(
            &format!(
                "UPDATE job SET holds = {holds}, state = {state}
                 WHERE array_of = ?1 AND state IN ('held','queued','running','archiving')"
            ),
            (array.0,),
        )
    }

    /// Moves all elements that have not started to another queue.
    pub(crate) fn move_array(&self, array: JobId, queue: &str) -> StoreResult<()> {
        self.forget_active();
        self.run(
            "UPDATE job SET queue = ?2 WHERE array_of = ?1 AND state IN ('held','queued')",
            (array.0, queue),
        )
    }

    /// What elements ask for that have not started: most arrays have one answer.
    pub(crate) fn array_wishes(&self, array: JobId) -> StoreResult<Vec<Resources>> {
        let sql =
            "SELECT DISTINCT cpus, memory, wall FROM job WHERE array_of = ?1 AND state IN ('held','queued')";
        self.all(sql, (array.0,), |row| {
            Ok(Resources { cpus: row.get(0)?, memory_bytes: row.get(1)?, wall: Millis(row.get(2)?) })
        })
    }

    /// Holds that elements have which are not over, as letters.
    pub(crate) fn array_holds(&self, array: JobId) -> StoreResult<Vec<HoldKind>> {
        let sql = "SELECT DISTINCT holds FROM job WHERE array_of = ?1
             AND state IN ('held','queued','running','archiving')";
        let texts = self.all(sql, (array.0,), |row| row.get::<String>(0))?;
        let mut holds: Vec<_> = texts.iter().flat_map(|text| super::read_holds(text)).collect();
        holds.sort_unstable();
        holds.dedup();
        Ok(holds)
    }

    /// Elements in a state.
    pub(crate) fn array_elements_in(&self, array: JobId, state: JobState) -> StoreResult<Vec<JobId>> {
        let sql = "SELECT id FROM job WHERE array_of = ?1 AND state = ?2 ORDER BY id";
        self.all(sql, (array.0, state.as_str()), |row| row.get(0).map(JobId))
    }

    /// Dependencies that are not decided yet on an array of so many elements, or on one of them.
    pub(crate) fn dependents_of_array(&self, array: JobId, count: u64) -> StoreResult<Vec<DependencyRow>> {
        let sql = format!(
            "SELECT {} WHERE state = 'waiting' AND ((on_job >= ?1 AND on_job < ?2 AND whole = 0)
             OR (on_job = ?1 AND whole = 1)) ORDER BY job, idx",
            super::dependencies::DEPENDENCY
        );
        self.all(&sql, (array.0, array.0 + count), super::dependencies::dependency)
    }
}
