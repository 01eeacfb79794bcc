//! Rows of repacks, and what they still have to move.

use crate::store::{
    Store, StoreResult,
    engine::Row,
    rows::{
        requests::{REQUEST, RequestRow, request, vid},
        volumes::UNREADABLE,
    },
};
use base::{FileId, Timestamp, Vid};

/// A volume whose files are copied to others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RepackRow {
    pub(crate) vid: Vid,
    pub(crate) owner: String,
    /// Whether the volume is written from its beginning afterwards.
    pub(crate) reclaims: bool,
    pub(crate) started: Timestamp,
    pub(crate) finished: Option<Timestamp>,
    pub(crate) moved_files: u64,
    pub(crate) moved_bytes: u64,
}

fn repack(row: &Row<'_>) -> StoreResult<RepackRow> {
    Ok(RepackRow {
        vid: vid(row, 0)?,
        owner: row.get(1)?,
        reclaims: row.get(2)?,
        started: Timestamp(row.get(3)?),
        finished: row.get::<Option<i64>>(4)?.map(Timestamp),
        moved_files: row.get(5)?,
        moved_bytes: row.get(6)?,
    })
}

impl Store {
    /// All of them, oldest first.
    pub(crate) fn repacks(&self) -> StoreResult<Vec<RepackRow>> {
        let sql = "SELECT vid, owner, reclaims, started, finished, moved_files, moved_bytes FROM repack
             ORDER BY started, vid";
        self.all(sql, (), repack)
    }

    /// Begins one; what an earlier one of the volume left is forgotten.
    pub(crate) fn put_repack(
        &self,
        vid: &Vid,
        owner: &str,
        reclaims: bool,
        now: Timestamp,
    ) -> StoreResult<()> {
        self.delete_repack(vid)?;
        self.run(
            "INSERT INTO repack (vid, owner, reclaims, started) VALUES (?1, ?2, ?3, ?4)",
            (vid.as_str(), owner, reclaims, now.0),
        )
    }

    pub(crate) fn delete_repack(&self, vid: &Vid) -> StoreResult<()> {
        self.run("DELETE FROM repack WHERE vid = ?1", (vid.as_str(),))
    }

    pub(crate) fn finish_repack(&self, vid: &Vid, now: Timestamp) -> StoreResult<()> {
        self.run("UPDATE repack SET finished = ?2 WHERE vid = ?1", (vid.as_str(), now.0))
    }

    /// A copy on a volume is replaced by another one elsewhere.
    pub(crate) fn moved_from(&self, vid: &Vid, file: FileId, bytes: u64) -> StoreResult<()> {
        self.pending.borrow_mut().set_visible();
        self.run("DELETE FROM copy WHERE vid = ?1 AND file = ?2", (vid.as_str(), file.0))?;
        self.run(
            "UPDATE repack SET moved_files = moved_files + 1, moved_bytes = moved_bytes + ?2 WHERE vid = ?1",
            (vid.as_str(), bytes),
        )
    }

    /// Requests that repacks have made and that did not fail for good.
    pub(crate) fn repacks_under_way(&self) -> StoreResult<u64> {
        let sql = "SELECT count(*) FROM request q WHERE q.purpose <> 'user' AND q.state <> 'failed'
             AND NOT EXISTS (SELECT 1 FROM missing_copy m WHERE m.file = q.file)";
        self.one(sql, (), |row| row.get(0))
    }

    /// The same for files that lack copies by their storage class.
    pub(crate) fn copy_repairs_under_way(&self) -> StoreResult<u64> {
        let sql = "SELECT count(*) FROM request q WHERE q.purpose <> 'user' AND q.state <> 'failed'
             AND EXISTS (SELECT 1 FROM missing_copy m WHERE m.file = q.file)";
        self.one(sql, (), |row| row.get(0))
    }

    /// Files with a copy on a volume that can be read somewhere and for which there is no request, in the order of the tape.
    pub(crate) fn files_to_move(&self, vid: &Vid, limit: usize) -> StoreResult<Vec<FileId>> {
        let sql = format!(
            "SELECT c.file FROM copy c WHERE c.vid = ?1
             AND NOT EXISTS (SELECT 1 FROM request q WHERE q.file = c.file)
             AND (EXISTS (SELECT 1 FROM replica r WHERE r.file = c.file AND r.state = 'online')
                  OR EXISTS (SELECT 1 FROM copy o JOIN volume v ON v.vid = o.vid
                             WHERE o.file = c.file AND v.state NOT IN {UNREADABLE}))
             ORDER BY c.fseq, c.member_offset LIMIT ?2"
        );
        self.all(&sql, (vid.as_str(), limit), |row| row.get(0).map(FileId))
    }

    /// Requests that a repack of a volume has made.
    pub(crate) fn requests_of_repack(&self, vid: &Vid) -> StoreResult<Vec<RequestRow>> {
        let sql = format!(
            "SELECT {REQUEST} WHERE q.purpose <> 'user'
             AND EXISTS (SELECT 1 FROM copy c WHERE c.file = q.file AND c.vid = ?1) ORDER BY q.id"
        );
        self.all(&sql, (vid.as_str(),), request)
    }
}
