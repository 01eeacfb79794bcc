//! Rows of scans and of what they have found.

use crate::store::{
    Replica, ReplicaState, Store, StoreResult, document, engine::Row, json, rows::facility::ids::Sequence,
    word,
};
use base::{Adler32, Checksums, Crc32c, FileId, ObjectId, Timestamp};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use wire::control::{Finding, ScanCursor, ScanPace, ScanState, ScanWork};

/// A scan of a partition.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ScanRow {
    /// Tells a scan from the next one of the partition.
    pub(crate) scan: u64,
    pub(crate) work: ScanWork,
    pub(crate) state: ScanState,
    pub(crate) pace: ScanPace,
    pub(crate) cursor: ScanCursor,
    pub(crate) older_than: Timestamp,
    pub(crate) started: Timestamp,
    pub(crate) updated: Timestamp,
    pub(crate) looks: u64,
    /// How much of it is done, from 0 to 1.
    pub(crate) progress: f64,
    pub(crate) bytes: u64,
    /// When a disk server took it up last, and how far it was then: for the rate.
    pub(crate) resumed: Timestamp,
    pub(crate) looks_before: u64,
    pub(crate) progress_before: f64,
    pub(crate) found: [u64; 5],
    pub(crate) mended: u64,
    pub(crate) trouble: Option<String>,
}

/// What was found, and what came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FindingRow {
    pub(crate) finding: Finding,
    pub(crate) outcome: String,
}

/// A replica, with what a scan has to know of its file. It is not kept in memory: a scan would push out what is in use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ScannedReplica {
    pub(crate) object: ObjectId,
    pub(crate) partition: String,
    pub(crate) state: ReplicaState,
    pub(crate) file: FileId,
    /// Of the file, or of the piece of it.
    pub(crate) size: u64,
    pub(crate) checksums: Option<Checksums>,
}

const SCANNED: &str = "SELECT r.object, r.partition, r.state, r.file,
     CASE WHEN r.parity IS NULL THEN n.size ELSE r.size END,
     CASE WHEN r.parity IS NULL THEN n.adler32 ELSE r.adler32 END,
     CASE WHEN r.parity IS NULL THEN n.crc32c ELSE r.crc32c END
     FROM replica r JOIN node n ON n.id = r.file";

fn scanned(row: &Row<'_>) -> StoreResult<ScannedReplica> {
    let (adler32, crc32c): (Option<u32>, Option<u32>) = (row.get(5)?, row.get(6)?);
    let sums = |(adler32, crc32c)| Checksums { adler32: Adler32(adler32), crc32c: Crc32c(crc32c) };
    Ok(ScannedReplica {
        object: ObjectId(row.get(0)?),
        partition: row.get(1)?,
        state: word(row, 2)?,
        file: FileId(row.get(3)?),
        size: row.get(4)?,
        checksums: adler32.zip(crc32c).map(sums),
    })
}

fn finding(row: &Row<'_>) -> StoreResult<FindingRow> {
    Ok(FindingRow { finding: document(row, 0)?, outcome: row.get(1)? })
}

impl Store {
    pub(crate) fn scan(&self, partition: &str) -> StoreResult<Option<ScanRow>> {
        self.maybe("SELECT document FROM scan WHERE partition = ?1", (partition,), |row| document(row, 0))
    }

    /// All scans by partition.
    pub(crate) fn scans(&self) -> StoreResult<Vec<(String, ScanRow)>> {
        // What has a slash in its name is an adoption.
        let sql = "SELECT partition, document FROM scan WHERE partition NOT LIKE '%/%' ORDER BY partition";
        self.all(sql, (), |row| Ok((row.get(0)?, document(row, 1)?)))
    }

    pub(crate) fn put_scan(&self, partition: &str, scan: &ScanRow) -> StoreResult<()> {
        self.run(
            "INSERT INTO scan (partition, document) VALUES (?1, ?2)
             ON CONFLICT (partition) DO UPDATE SET document = ?2",
            (partition, json(scan)),
        )
    }

    /// Notes a finding. Yields whether it is new.
    pub(crate) fn put_finding(&self, partition: &str, finding: &Finding) -> StoreResult<bool> {
        let added = self.run_counted(
            "INSERT INTO finding (partition, object, document) VALUES (?1, ?2, ?3)
             ON CONFLICT (partition, object) DO NOTHING",
            (partition, finding.object.0, json(finding)),
        )?;
        Ok(added > 0)
    }

    pub(crate) fn set_outcome(&self, partition: &str, object: ObjectId, outcome: &str) -> StoreResult<()> {
        let sql = "UPDATE finding SET outcome = ?3 WHERE partition = ?1 AND object = ?2";
        self.run(sql, (partition, object.0, outcome))
    }

    pub(crate) fn finding(&self, partition: &str, object: ObjectId) -> StoreResult<Option<FindingRow>> {
        let sql = "SELECT document, outcome FROM finding WHERE partition = ?1 AND object = ?2";
        self.maybe(sql, (partition, object.0), finding)
    }

    /// Findings by object.
    pub(crate) fn findings(
        &self,
        partition: &str,
        (after, is_open): (ObjectId, bool),
        limit: usize,
    ) -> StoreResult<Vec<FindingRow>> {
        // What was left alone may be mended by a later repair.
        let only = if is_open { "AND (outcome = '' OR outcome LIKE 'left:%')" } else { "" };
        let sql = format!(
            "SELECT document, outcome FROM finding WHERE partition = ?1 AND object > ?2 {only}
             ORDER BY object LIMIT ?3"
        );
        self.all(&sql, (partition, after.0, limit), finding)
    }

    pub(crate) fn forget_findings(&self, partition: &str) -> StoreResult<()> {
        self.run("DELETE FROM finding WHERE partition = ?1", (partition,))
    }

    /// The replicas that these objects are.
    pub(crate) fn scanned_replicas(
        &self,
        objects: &[ObjectId],
    ) -> StoreResult<HashMap<ObjectId, ScannedReplica>> {
        let objects = objects.iter().map(|object| object.0 as i64).collect();
        let replicas = self.rows_by_key(SCANNED, "r.object", objects, scanned)?;
        Ok(replicas.into_iter().map(|replica| (replica.object, replica)).collect())
    }

    /// Whether an object is to be deleted from a partition.
    pub(crate) fn is_to_be_removed(&self, partition: &str, object: ObjectId) -> StoreResult<bool> {
        let sql = "SELECT 1 FROM removal WHERE object = ?1 AND partition = ?2";
        Ok(self.maybe(sql, (object.0, partition), |_| Ok(()))?.is_some())
    }

    /// Of the `span` replicas of all partitions after `after`, those on a partition; and the last of all, if there may be later
    /// ones.
    pub(crate) fn scanned_after(
        &self,
        partition: &str,
        after: ObjectId,
        span: usize,
    ) -> StoreResult<(Vec<ScannedReplica>, Option<ObjectId>)> {
        let sql = format!("{SCANNED} WHERE r.object > ?1 ORDER BY r.object LIMIT ?2");
        let replicas = self.all(&sql, (after.0, span), scanned)?;
        let last = replicas.last().filter(|_| replicas.len() == span).map(|replica| replica.object);
        Ok((replicas.into_iter().filter(|replica| replica.partition == partition).collect(), last))
    }

    /// The first object that the catalogue knows, and the last.
    pub(crate) fn objects_known(&self) -> StoreResult<(u64, u64)> {
        let sql = "SELECT coalesce((SELECT min(object) FROM replica), 0),
                          coalesce((SELECT max(object) FROM replica), 0)";
        self.one(sql, (), |row| Ok((row.get(0)?, row.get(1)?)))
    }

    /// The number after the last that was given to an object, or set aside for one.
    pub(crate) fn objects_end(&self) -> StoreResult<u64> {
        self.sequence_end(Sequence::Object)
    }

    /// Takes a replica out of the catalogue. Its object is not deleted: somebody may want to look at it.
    pub(crate) fn drop_replica(&self, replica: &Replica) -> StoreResult<()> {
        self.change_node(replica.file, |node| node.replicas.retain(|known| known.object != replica.object))?;
        Ok(())
    }
}
