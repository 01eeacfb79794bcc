//! What is on partitions in the order of its use, page by page: for collection and balancing.

use super::{
    Replica, Store, StoreResult,
    replicas::{COLUMNS, replica},
};
use base::{FileId, ObjectId, Timestamp};

/// Where a walk over a partition has come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) used: Timestamp,
    pub(crate) object: ObjectId,
}

impl Place {
    /// Before all that is there.
    pub(crate) const START: Self = Self { used: Timestamp(i64::MIN), object: ObjectId(0) };
}

/// A replica that may have to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub(crate) place: Place,
    pub(crate) file: FileId,
    pub(crate) size: u64,
    pub(crate) created: Timestamp,
    /// Its file has a copy on a volume that nobody suspects, and nobody has pinned it.
    pub(crate) may_go: bool,
}

impl Store {
    /// Replicas of a partition that were not used after `until`, least recently used first. Also those that may not go: the
    /// work is bounded by `limit`, not by what is found.
    pub(crate) fn candidates(
        &self,
        partition: &str,
        after: Place,
        (until, now): (Timestamp, Timestamp),
        limit: usize,
    ) -> StoreResult<Vec<Candidate>> {
        const SQL: &str = "SELECT r.used, r.object, r.file, r.size, r.created,
            EXISTS (SELECT 1 FROM copy c JOIN volume v ON v.vid = c.vid
                    WHERE c.file = r.file AND v.state <> 'suspect')
            AND NOT EXISTS (SELECT 1 FROM pin p WHERE p.file = r.file AND (p.expires IS NULL OR p.expires > ?5))
            FROM replica r WHERE r.partition = ?1 AND r.state = 'online' AND (r.used, r.object) > (?2, ?3)
            AND r.used <= ?4 ORDER BY r.used, r.object LIMIT ?6";
        let params = (partition, after.used.0, after.object.0, until.0, now.0, limit);
        self.all(SQL, params, |row| {
            Ok(Candidate {
                place: Place { used: Timestamp(row.get(0)?), object: ObjectId(row.get(1)?) },
                file: FileId(row.get(2)?),
                size: row.get(3)?,
                created: Timestamp(row.get(4)?),
                may_go: row.get(5)?,
            })
        })
    }

    /// Files of a partition, least recently used first.
    pub(crate) fn files_by_use(
        &self,
        partition: &str,
        after: Place,
        limit: usize,
    ) -> StoreResult<Vec<(Place, FileId)>> {
        let sql = "SELECT used, object, file FROM replica WHERE partition = ?1 AND state = 'online'
                   AND (used, object) > (?2, ?3) ORDER BY used, object LIMIT ?4";
        self.all(sql, (partition, after.used.0, after.object.0, limit), |row| {
            let place = Place { used: Timestamp(row.get(0)?), object: ObjectId(row.get(1)?) };
            Ok((place, FileId(row.get(2)?)))
        })
    }

    /// Replicas that disk servers fetch from others.
    pub(crate) fn copying(&self) -> StoreResult<Vec<Replica>> {
        let sql = format!(
            "SELECT {COLUMNS} FROM replica WHERE state = 'copying' AND state <> 'online' ORDER BY object"
        );
        self.all(&sql, (), replica)
    }

    /// Copies of a file on volumes that nobody suspects.
    pub(crate) fn good_copies(&self, file: FileId) -> StoreResult<u32> {
        let sql = "SELECT count(*) FROM copy c JOIN volume v ON v.vid = c.vid
                   WHERE c.file = ?1 AND v.state <> 'suspect'";
        self.one(sql, (file.0,), |row| row.get(0))
    }
}
