//! Replicas of a partition in the order of their last use, page by page, for collection and balancing.

use crate::store::{
    Replica, Store, StoreResult,
    rows::{
        pool::replicas::{COLUMNS, replica},
        volumes::UNREADABLE,
    },
};
use base::{FileId, ObjectId, Timestamp};

/// The position of a walk over a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct WalkPosition {
    pub(crate) used: Timestamp,
    pub(crate) object: ObjectId,
}

impl WalkPosition {
    /// Before all that is there.
    pub(crate) const START: Self = Self { used: Timestamp(i64::MIN), object: ObjectId(0) };
}

/// A replica that may have to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Candidate {
    /// Where it stands: by the last use that is written.
    pub(crate) place: WalkPosition,
    /// Its last use.
    pub(crate) used: Timestamp,
    pub(crate) file: FileId,
    pub(crate) size: u64,
    pub(crate) created: Timestamp,
    /// Its file has a copy on a volume that nobody suspects and lacks none, and nobody has pinned it.
    pub(crate) may_go: bool,
}

fn candidates() -> String {
    format!(
        "SELECT r.used, r.object, r.file, r.size, r.created,
     (SELECT 1 FROM copy c JOIN volume v ON v.vid = c.vid WHERE c.file = r.file AND v.state NOT IN {UNREADABLE} LIMIT 1) IS NOT NULL
     AND (SELECT 1 FROM missing_copy m WHERE m.file = r.file LIMIT 1) IS NULL
     AND (SELECT 1 FROM pin p WHERE p.file = r.file AND (p.expires IS NULL OR p.expires > ?5) LIMIT 1) IS NULL
     FROM replica r WHERE r.partition = ?1 AND r.state = 'online' AND (r.used, r.object) > (?2, ?3)
     AND r.used <= ?4 ORDER BY r.used, r.object LIMIT ?6"
    )
}
const FILES_BY_USE: &str = "SELECT used, object, file FROM replica WHERE partition = ?1 AND state = 'online'
     AND (used, object) > (?2, ?3) ORDER BY used, object LIMIT ?4";

/// The queue has no index that begins with the file.
const REQUESTED: &str = "SELECT 1 FROM request WHERE kind IN ('archive', 'recall') AND file = ?1";

/// In no order: for any order but that of its index the engine would go through all replicas.
fn copying() -> String {
    format!("SELECT {COLUMNS} FROM replica WHERE state = 'copying' AND state <> 'online'")
}

impl Store {
    /// Replicas of a partition that were not used after `until`, least recently used first. Also those that may not go: the
    /// work is bounded by `limit`, not by what is found.
    pub(crate) fn candidates(
        &self,
        partition: &str,
        after: WalkPosition,
        (until, now): (Timestamp, Timestamp),
        limit: usize,
    ) -> StoreResult<Vec<Candidate>> {
        let params = (partition, after.used.0, after.object.0, until.0, now.0, limit);
        let mut found = self.all(&candidates(), params, |row| {
            let place = WalkPosition { used: Timestamp(row.get(0)?), object: ObjectId(row.get(1)?) };
            Ok(Candidate {
                place,
                used: place.used,
                file: FileId(row.get(2)?),
                size: row.get(3)?,
                created: Timestamp(row.get(4)?),
                may_go: row.get(5)?,
            })
        })?;
        for candidate in &mut found {
            candidate.used =
                self.noted_use(candidate.file).map_or(candidate.used, |noted| noted.max(candidate.used));
            candidate.may_go &= candidate.used <= until;
        }
        Ok(found)
    }

    /// Files of a partition, least recently used first.
    pub(crate) fn files_by_use(
        &self,
        partition: &str,
        after: WalkPosition,
        limit: usize,
    ) -> StoreResult<Vec<(WalkPosition, FileId)>> {
        self.all(FILES_BY_USE, (partition, after.used.0, after.object.0, limit), |row| {
            let place = WalkPosition { used: Timestamp(row.get(0)?), object: ObjectId(row.get(1)?) };
            Ok((place, FileId(row.get(2)?)))
        })
    }

    /// Replicas that disk servers fetch from others.
    pub(crate) fn copying(&self) -> StoreResult<Vec<Replica>> {
        let mut copying = self.all(&copying(), (), replica)?;
        copying.sort_by_key(|copy| copy.object);
        Ok(copying)
    }

    /// Whether the tape queue has something about a file.
    pub(crate) fn is_requested(&self, file: FileId) -> StoreResult<bool> {
        Ok(self.maybe_now(REQUESTED, (file.0,), |_| Ok(()))?.is_some())
    }

    /// Copies of a file on volumes that nobody suspects.
    pub(crate) fn good_copies(&self, file: FileId) -> StoreResult<u32> {
        let sql = format!(
            "SELECT count(*) FROM copy c JOIN volume v ON v.vid = c.vid
             WHERE c.file = ?1 AND v.state NOT IN {UNREADABLE}"
        );
        self.one(&sql, (file.0,), |row| row.get(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{engine::Params, testing::TestCatalogue as Catalogue};

    fn plan(store: &Store, sql: &str, params: impl Params) -> String {
        let steps = store.all_now(&format!("EXPLAIN QUERY PLAN {sql}"), params, |row| row.get::<String>(3));
        steps.unwrap().join("; ")
    }

    #[test]
    fn pages_are_read_by_an_index_and_never_sorted() {
        let catalogue = Catalogue::file();
        let store = catalogue.create();
        let plans = [
            plan(&store, &candidates(), ("p", 0i64, 0u64, 9i64, 5i64, 10u64)),
            plan(&store, FILES_BY_USE, ("p", 0i64, 0u64, 10u64)),
            plan(&store, &copying(), ()),
        ];
        for (plan, index) in plans.iter().zip(["replica_used", "replica_used", "replica_unsettled"]) {
            assert!(plan.contains(&format!("USING INDEX {index}")), "{plan}");
            assert!(!plan.contains("TEMP B-TREE"), "{plan}");
        }
        let plan = plan(&store, REQUESTED, (7u64,));
        assert!(plan.starts_with("SEARCH request USING"), "{plan}");
    }
}
