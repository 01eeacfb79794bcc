//! Rows of verifications, and of the damage that they find.

use crate::store::{
    CopyRow, Store, StoreResult,
    rows::{
        requests::vid,
        volumes::{COPY, UNREADABLE, copy},
    },
};
use base::{FileId, Timestamp, Vid};

/// A copy that was found damaged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DamageRow {
    pub(crate) vid: Vid,
    pub(crate) fseq: u32,
    pub(crate) file: FileId,
    pub(crate) size: u64,
    pub(crate) found: Timestamp,
    pub(crate) reason: String,
}

impl Store {
    /// Says from which file on a volume is to be verified; 0: it is not.
    pub(crate) fn set_verify_next(&self, vid: &Vid, fseq: u32) -> StoreResult<()> {
        self.run("UPDATE volume SET verify_next = ?2 WHERE vid = ?1", (vid.as_str(), fseq))
    }

    pub(crate) fn set_verified(&self, vid: &Vid, now: Timestamp) -> StoreResult<()> {
        self.run("UPDATE volume SET verified = ?2, verify_next = 0 WHERE vid = ?1", (vid.as_str(), now.0))
    }

    /// Copies on a volume from a tape file on, in the order of the tape.
    pub(crate) fn copies_from(&self, vid: &Vid, fseq: u32, limit: usize) -> StoreResult<Vec<CopyRow>> {
        let sql = format!(
            "SELECT {COPY} WHERE c.vid = ?1 AND c.fseq >= ?2 ORDER BY c.fseq, c.member_offset LIMIT ?3"
        );
        self.all(&sql, (vid.as_str(), fseq, limit), copy)
    }

    pub(crate) fn copy_at(&self, vid: &Vid, fseq: u32, offset: u64) -> StoreResult<Option<CopyRow>> {
        let sql = format!("SELECT {COPY} WHERE c.vid = ?1 AND c.fseq = ?2 AND c.member_offset = ?3");
        self.maybe(&sql, (vid.as_str(), fseq, offset), copy)
    }

    /// Notes that a copy is damaged.
    pub(crate) fn put_damage(&self, copy: &CopyRow, reason: &str, now: Timestamp) -> StoreResult<()> {
        let offset = copy.member.map_or(0, |member| member.offset);
        self.run(
            "INSERT INTO damaged_copy (vid, fseq, member_offset, file, size, found, reason)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
             ON CONFLICT (vid, fseq, member_offset) DO UPDATE SET file = ?4, size = ?5, found = ?6, reason = ?7",
            (copy.vid.as_str(), copy.fseq, offset, copy.file.0, copy.size, now.0, reason),
        )
    }

    /// By volume, in the order of the tape.
    pub(crate) fn damaged_copies(&self, limit: usize) -> StoreResult<Vec<DamageRow>> {
        let sql = "SELECT vid, fseq, file, size, found, reason FROM damaged_copy
             ORDER BY vid, fseq, member_offset LIMIT ?1";
        self.all(sql, (limit,), |row| {
            Ok(DamageRow {
                vid: vid(row, 0)?,
                fseq: row.get(1)?,
                file: FileId(row.get(2)?),
                size: row.get(3)?,
                found: Timestamp(row.get(4)?),
                reason: row.get(5)?,
            })
        })
    }

    /// Forgets what is damaged of a file: it is gone, or good again.
    pub(crate) fn forget_damage(&self, file: FileId) -> StoreResult<()> {
        self.run("DELETE FROM damaged_copy WHERE file = ?1", (file.0,))
    }

    /// Forgets what is damaged on a volume that is written anew.
    pub(crate) fn forget_damage_on(&self, vid: &Vid) -> StoreResult<()> {
        self.run("DELETE FROM damaged_copy WHERE vid = ?1", (vid.as_str(),))
    }

    /// Whether a file has a copy on another volume that is read.
    pub(crate) fn has_other_copy(&self, file: FileId, vid: &Vid) -> StoreResult<bool> {
        let sql = format!(
            "SELECT count(*) FROM copy c JOIN volume v ON v.vid = c.vid
             WHERE c.file = ?1 AND c.vid <> ?2 AND v.state NOT IN {UNREADABLE}"
        );
        self.one(&sql, (file.0, vid.as_str()), |row| Ok(row.get::<u64>(0)? > 0))
    }

    /// Forgets one copy of a file.
    pub(crate) fn delete_copy(&self, copy: &CopyRow) -> StoreResult<()> {
        let others: u64 =
            self.one("SELECT count(*) FROM copy WHERE file = ?1", (copy.file.0,), |row| row.get(0))?;
        self.set_archived(copy.file, others > 1)?;
        let sql = "DELETE FROM copy WHERE file = ?1 AND vid = ?2 AND fseq = ?3";
        self.run(sql, (copy.file.0, copy.vid.as_str(), copy.fseq))
    }
}
