//! Rows of the comparisons of bytes with checksums that the pools' intervals ask for.

use crate::store::{ScanRow, Store, StoreResult, engine::Row, json, maybe_document};
use base::Timestamp;

/// How far the bytes of a partition were compared.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ScrubRow {
    /// When the last one began; until the first, when the partition was seen first.
    pub(crate) begun: Timestamp,
    /// When the last one came to its end.
    pub(crate) finished: Option<Timestamp>,
    /// The one under way, or the last.
    pub(crate) scan: Option<ScanRow>,
}

fn scrub(row: &Row<'_>, first: usize) -> StoreResult<ScrubRow> {
    Ok(ScrubRow {
        begun: Timestamp(row.get(first)?),
        finished: row.get::<Option<i64>>(first + 1)?.map(Timestamp),
        scan: maybe_document(row, first + 2)?,
    })
}

impl Store {
    pub(crate) fn scrub(&self, partition: &str) -> StoreResult<Option<ScrubRow>> {
        let sql = "SELECT begun, finished, document FROM scrub WHERE partition = ?1";
        self.maybe_now(sql, (partition,), |row| scrub(row, 0))
    }

    /// All of them by partition.
    pub(crate) fn scrubs(&self) -> StoreResult<Vec<(String, ScrubRow)>> {
        let sql = "SELECT partition, begun, finished, document FROM scrub ORDER BY partition";
        self.all_now(sql, (), |row| Ok((row.get(0)?, scrub(row, 1)?)))
    }

    pub(crate) fn put_scrub(&self, partition: &str, row: &ScrubRow) -> StoreResult<()> {
        self.run(
            "INSERT INTO scrub (partition, begun, finished, document) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT (partition) DO UPDATE SET begun = ?2, finished = ?3, document = ?4",
            (partition, row.begun.0, row.finished.map(|at| at.0), row.scan.as_ref().map(json)),
        )
    }

    /// Forgets findings of a partition about which something was done or said. What a person has not decided yet stays.
    pub(crate) fn forget_answered(&self, partition: &str) -> StoreResult<()> {
        self.run("DELETE FROM finding WHERE partition = ?1 AND outcome <> ''", (partition,))
    }
}
