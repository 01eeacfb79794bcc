//! Arrays of jobs: their indices, and what they bound.

use crate::store::{Store, StoreResult};
use base::JobId;
use wire::control::ArrayRange;

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
}
