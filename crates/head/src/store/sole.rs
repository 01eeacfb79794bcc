//! Files that lie on one host only.

use super::{Store, StoreResult, TRASH};
use base::FileId;

impl Store {
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
