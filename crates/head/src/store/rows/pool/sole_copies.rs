//! Files whose only copy is on one host.

use crate::store::{Store, StoreResult, TRASH};
use base::FileId;

/// Which files are asked for.
pub(crate) struct SoleQuery<'a> {
    pub(crate) partition: &'a str,
    /// Only those with replicas or pieces of more bytes.
    pub(crate) larger_than: Option<u64>,
    pub(crate) limit: usize,
}

/// Replicas of partition ?1 without which their file could not be read once what drains is empty.
const SOLE_ON: &str = "FROM replica r JOIN node n ON n.id = r.file
     WHERE r.partition = ?1 AND r.state = 'online' AND n.parent <> ?2
     AND NOT EXISTS (SELECT 1 FROM copy c WHERE c.file = r.file)
     AND NOT EXISTS (SELECT 1 FROM replica o JOIN partition q ON q.name = o.partition
         WHERE o.file = r.file AND o.state = 'online' AND o.parity IS NULL AND q.state <> 'draining'
         AND q.given_up IS NULL)
     AND (SELECT count(DISTINCT o.piece) FROM replica o JOIN partition q ON q.name = o.partition
         WHERE o.file = r.file AND o.state = 'online' AND o.parity IS NOT NULL AND q.state <> 'draining'
         AND q.given_up IS NULL) < r.needed";

impl Store {
    /// Files that only partitions which drain have, one of them this one: neither a replica, nor enough pieces, nor a tape copy is
    /// elsewhere.
    pub(crate) fn sole_files_on(&self, query: &SoleQuery<'_>) -> StoreResult<Vec<FileId>> {
        let sql = format!("SELECT DISTINCT r.file {SOLE_ON} AND r.size > ?3 ORDER BY r.file LIMIT ?4");
        let larger_than = query.larger_than.map_or(-1, |bytes| i64::try_from(bytes).unwrap_or(i64::MAX));
        self.all(&sql, (query.partition, TRASH.0, larger_than, query.limit), |row| row.get(0).map(FileId))
    }

    /// Bytes of their replicas and pieces.
    pub(crate) fn sole_bytes(&self, partition: &str) -> StoreResult<u64> {
        let sql = format!("SELECT CAST(coalesce(sum(r.size), 0) AS BIGINT) {SOLE_ON}");
        self.one(&sql, (partition, TRASH.0), |row| row.get(0))
    }

    /// Files that could not be read without a host: neither a replica, nor enough pieces, nor a tape copy is elsewhere within
    /// reach. What is in the trash is nobody's loss.
    pub(crate) fn sole_files(&self, host: &str, after: FileId, limit: usize) -> StoreResult<Vec<FileId>> {
        const SQL: &str = "SELECT DISTINCT r.file FROM replica r
             JOIN partition p ON p.name = r.partition JOIN node n ON n.id = r.file
             WHERE p.server = ?1 AND p.given_up IS NULL AND r.state = 'online' AND r.file > ?2 AND n.parent <> ?3
             AND NOT EXISTS (SELECT 1 FROM copy c JOIN volume v ON v.vid = c.vid WHERE c.file = r.file
                 AND v.library NOT IN (SELECT d.library FROM drive d WHERE d.host = ?1))
             AND NOT EXISTS (SELECT 1 FROM replica o JOIN partition q ON q.name = o.partition
                 WHERE o.file = r.file AND o.state = 'online' AND o.parity IS NULL AND q.server <> ?1
                 AND q.given_up IS NULL)
             AND (SELECT count(DISTINCT o.piece) FROM replica o JOIN partition q ON q.name = o.partition
                 WHERE o.file = r.file AND o.state = 'online' AND o.parity IS NOT NULL AND q.server <> ?1
                 AND q.given_up IS NULL) < r.needed
             ORDER BY r.file LIMIT ?4";
        self.all(SQL, (host, after.0, TRASH.0, limit), |row| row.get(0).map(FileId))
    }
}
