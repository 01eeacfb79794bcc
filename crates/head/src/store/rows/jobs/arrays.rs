//! Arrays of jobs: their indices, and what they bound.

use crate::store::{Store, StoreResult, word};
use base::{JobId, Timestamp};
use std::collections::BTreeMap;
use wire::control::{ArrayRange, IndexRange, JobSpec, JobState};

/// Gives the outputs of an element paths of their own: `%a` is its index, `%A` the array, `%%` a per cent sign.
pub(super) fn name_outputs(spec: &mut JobSpec, array: u64, index: u32) {
    for output in spec.outputs.iter_mut().filter(|output| output.path.as_str().contains('%')) {
        let mut named = String::new();
        let mut parts = output.path.as_str().chars();
        while let Some(one) = parts.next() {
            match (one, parts.clone().next()) {
                ('%', Some('a')) => named.push_str(&index.to_string()),
                ('%', Some('A')) => named.push_str(&array.to_string()),
                ('%', Some('%')) => named.push('%'),
                _ => {
                    named.push(one);
                    continue;
                }
            }
            parts.next();
        }
        if let Ok(path) = named.parse() {
            output.path = path;
        }
    }
}

/// An array in the catalogue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ArrayRow {
    pub(crate) id: JobId,
    /// The indices as text: `1-10:2,20`.
    pub(crate) indices: String,
    pub(crate) count: u64,
    pub(crate) index_min: u32,
    pub(crate) index_max: u32,
    /// Elements that run at the same time at most.
    pub(crate) running_max: Option<u32>,
}

impl Store {
    pub(super) fn insert_array(&self, id: u64, array: &ArrayRange) -> StoreResult<()> {
        let indices = ArrayRange { indices: array.indices.clone(), running_max: None }.to_string();
        let bounds =
            array.indices().fold((u32::MAX, 0), |(min, max), index| (index.min(min), index.max(max)));
        self.run(
            "INSERT INTO job_array (id, indices, count, index_min, index_max, running_max)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            (id, indices, array.count(), bounds.0, bounds.1, array.running_max),
        )
    }

    /// An array by its number.
    pub(crate) fn job_array(&self, id: JobId) -> StoreResult<Option<ArrayRow>> {
        self.maybe(
            "SELECT id, indices, count, index_min, index_max, running_max FROM job_array WHERE id = ?1",
            (id.0,),
            |row| {
                Ok(ArrayRow {
                    id: JobId(row.get(0)?),
                    indices: row.get(1)?,
                    count: row.get(2)?,
                    index_min: row.get(3)?,
                    index_max: row.get(4)?,
                    running_max: row.get(5)?,
                })
            },
        )
    }

    /// Whether an element of an array is not over, or its process has not ended.
    pub(crate) fn array_needs_inputs(&self, id: JobId) -> StoreResult<bool> {
        let sql = "SELECT 1 FROM job WHERE array_of = ?1 AND state IN ('held','queued','running') LIMIT 1";
        Ok(self.maybe(sql, (id.0,), |_| Ok(()))?.is_some())
    }

    /// Elements of an array by their state.
    pub(crate) fn array_states(&self, id: JobId) -> StoreResult<BTreeMap<String, u64>> {
        let sql = "SELECT state, count(*) FROM job WHERE array_of = ?1 GROUP BY state";
        Ok(self.all(sql, (id.0,), |row| Ok((row.get(0)?, row.get(1)?)))?.into_iter().collect())
    }

    /// Indices of elements that have not started.
    pub(crate) fn array_waiting(&self, id: JobId) -> StoreResult<Vec<IndexRange>> {
        let mut ranges: Vec<IndexRange> = Vec::new();
        let sql = "SELECT idx FROM job WHERE array_of = ?1 AND state IN ('held','queued') ORDER BY idx";
        self.all(sql, (id.0,), |row| {
            let index: u32 = row.get(0)?;
            match ranges.last_mut().filter(|range| range.end.checked_add(1) == Some(index)) {
                Some(range) => range.end = index,
                None => ranges.push(IndexRange { start: index, end: index, step: 1 }),
            }
            Ok(())
        })?;
        Ok(ranges)
    }

    /// Elements of an array, with the state of each; all if no range is named.
    pub(crate) fn array_elements(
        &self,
        id: JobId,
        only: &[IndexRange],
    ) -> StoreResult<Vec<(JobId, JobState)>> {
        let sql = "SELECT id, state, idx FROM job WHERE array_of = ?1 ORDER BY id";
        let all =
            self.all(sql, (id.0,), |row| Ok((JobId(row.get(0)?), word(row, 1)?, row.get::<u32>(2)?)))?;
        let is_meant = |index: u32| only.is_empty() || only.iter().any(|range| range.contains(index));
        Ok(all
            .into_iter()
            .filter(|(_, _, index)| is_meant(*index))
            .map(|(id, state, _)| (id, state))
            .collect())
    }

    /// Queues all elements that are held for nothing but what the array waited for.
    pub(crate) fn queue_array(&self, id: JobId, now: Timestamp) -> StoreResult<()> {
        self.forget_active();
        self.run(
            "UPDATE job SET state = 'queued' WHERE array_of = ?1 AND state = 'held' AND holds = ''
             AND (begins IS NULL OR begins <= ?2)",
            (id.0, now.0),
        )
    }

    /// Says how many elements of an array run at the same time at most.
    pub(crate) fn set_running_max(&self, id: JobId, most: Option<u32>) -> StoreResult<()> {
        self.forget_active();
        self.run("UPDATE job_array SET running_max = ?2 WHERE id = ?1", (id.0, most))
    }
}
