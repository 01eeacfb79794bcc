//! Rows about restores, and about starts of the head.

use crate::store::{Row, Store, StoreResult};
use base::{ObjectId, Timestamp};
use std::{collections::BTreeSet, ops::Range};

/// The catalogue went back to an older state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RestoreRow {
    pub(crate) epoch: u64,
    pub(crate) noticed: Timestamp,
    pub(crate) taken: Option<Timestamp>,
    pub(crate) reason: String,
    pub(crate) settled: Option<Timestamp>,
    /// What is found on disks is taken in.
    pub(crate) is_recovering: bool,
}

impl Store {
    /// All restores, the last one first.
    pub(crate) fn restores(&self) -> StoreResult<Vec<RestoreRow>> {
        const SQL: &str =
            "SELECT epoch, noticed, taken, reason, settled, recovering FROM restored ORDER BY epoch DESC";
        self.all_now(SQL, (), |row| {
            Ok(RestoreRow {
                epoch: row.get(0)?,
                noticed: Timestamp(row.get(1)?),
                taken: row.get::<Option<i64>>(2)?.map(Timestamp),
                reason: row.get(3)?,
                settled: row.get::<Option<i64>>(4)?.map(Timestamp),
                is_recovering: row.get(5)?,
            })
        })
    }

    /// The last restore, 0 if there was none; and the last tick of a start.
    pub(crate) fn progress(&self, incarnation: u64) -> StoreResult<(u64, u64)> {
        const SQL: &str = "SELECT (SELECT coalesce(max(epoch), 0) FROM restored),
            coalesce((SELECT tick FROM head_start WHERE incarnation = ?1), 0)";
        self.one_now(SQL, (incarnation,), |row| Ok((row.get(0)?, row.get(1)?)))
    }

    /// Notes that the catalogue turned out to be older than it should be. Disk servers say again what they have.
    pub(crate) fn add_restore(&self, restore: &RestoreRow) -> StoreResult<()> {
        self.forget_strays()?;
        let sql =
            "INSERT INTO restored (epoch, noticed, taken, reason, recovering) VALUES (?1, ?2, ?3, ?4, ?5)";
        let RestoreRow { epoch, noticed, taken, reason, is_recovering, .. } = restore;
        self.run(sql, (*epoch, noticed.0, taken.map(|at| at.0), reason, *is_recovering))
    }

    /// An operator has looked.
    pub(crate) fn settle_restores(&self, now: Timestamp) -> StoreResult<()> {
        self.forget_strays()?;
        self.run("UPDATE restored SET settled = ?1 WHERE settled IS NULL", (now.0,))
    }

    /// Keeps on disk what was to be deleted.
    pub(crate) fn forget_removals(&self) -> StoreResult<()> {
        // What is not written yet is one of them.
        self.flush()?;
        self.run("DELETE FROM removal", ())?;
        for (name, partition) in self.partition_space()? {
            self.end_leaving(&name, partition.leaving)?;
        }
        Ok(())
    }

    /// Notes a start of the head.
    pub(crate) fn add_head_start(&self, incarnation: u64, at: Timestamp) -> StoreResult<()> {
        self.run("INSERT INTO head_start (incarnation, at, tick) VALUES (?1, ?2, 0)", (incarnation, at.0))
    }

    /// When the head was started for the so many-th time, and its last tick.
    pub(crate) fn head_start(&self, incarnation: u64) -> StoreResult<Option<(Timestamp, u64)>> {
        self.maybe_now("SELECT at, tick FROM head_start WHERE incarnation = ?1", (incarnation,), |row| {
            Ok((Timestamp(row.get(0)?), row.get(1)?))
        })
    }

    /// How often the head was started in a time, but for its first start.
    pub(crate) fn restarts(&self, span: Range<Timestamp>) -> StoreResult<u64> {
        let sql = "SELECT count(*) FROM head_start WHERE at >= ?1 AND at < ?2
             AND incarnation > (SELECT min(incarnation) FROM head_start)";
        self.one_now(sql, (span.start.0, span.end.0), |row| row.get(0))
    }

    /// Notes that the catalogue has changed.
    pub(crate) fn set_tick(&self, incarnation: u64, tick: u64) -> StoreResult<()> {
        self.run("UPDATE head_start SET tick = ?2 WHERE incarnation = ?1", (incarnation, tick))
    }

    /// Those of the objects that belong to files.
    pub(crate) fn known_objects(&self, objects: &[ObjectId]) -> StoreResult<BTreeSet<ObjectId>> {
        let objects = objects.iter().map(|object| object.0 as i64).collect();
        let id = |row: &Row<'_>| row.get(0).map(ObjectId);
        Ok(self.rows_by_key("SELECT object FROM replica", "object", objects, id)?.into_iter().collect())
    }
}
