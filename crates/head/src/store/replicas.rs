//! Rows of partitions, replicas and pins.

use super::{Store, StoreResult, word};
use base::{FileId, Millis, ObjectId, Timestamp};
use rusqlite::Row;
use serde::Deserialize;

/// Where a replica is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ReplicaState {
    /// A user writes it.
    Writing,
    /// The tape room writes it.
    Recalling,
    /// Can be read.
    Online,
    /// The disk server is to delete it.
    Removing,
}

impl ReplicaState {
    fn as_str(self) -> &'static str {
        match self {
            Self::Writing => "writing",
            Self::Recalling => "recalling",
            Self::Online => "online",
            Self::Removing => "removing",
        }
    }
}

/// An object in the catalogue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Replica {
    pub(crate) object: ObjectId,
    pub(crate) file: FileId,
    pub(crate) partition: String,
    pub(crate) state: ReplicaState,
    pub(crate) owner: String,
    pub(crate) size: u64,
    pub(crate) created: Timestamp,
    /// Last open, as far as it was noted.
    pub(crate) used: Timestamp,
}

/// A use is noted at most this often: a read must not cost a commit.
const USE_NOTED_EVERY: Millis = Millis::from_seconds(60);

impl Replica {
    /// Whether an open at `now` is worth noting.
    pub(crate) fn is_use_due(&self, now: Timestamp) -> bool {
        self.used + USE_NOTED_EVERY < now
    }
}

/// A partition in the catalogue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PartitionRow {
    pub(crate) name: String,
    pub(crate) pool: String,
    pub(crate) total: u64,
    /// As last reported by the disk server.
    pub(crate) free: u64,
    pub(crate) replicas: u64,
    pub(crate) replica_bytes: u64,
    /// Promised to objects that are being written.
    pub(crate) reserved_bytes: u64,
    pub(crate) pinned: u64,
}

/// Room on a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PartitionSpace {
    pub(crate) name: String,
    pub(crate) pool: String,
    pub(crate) total: u64,
    /// As last reported by the disk server.
    pub(crate) free: u64,
    /// Promised to objects that are being written.
    pub(crate) reserved: u64,
}

const COLUMNS: &str = "object, file, partition, state, owner, size, created, used";

fn replica(row: &Row<'_>) -> rusqlite::Result<Replica> {
    Ok(Replica {
        object: ObjectId(row.get(0)?),
        file: FileId(row.get(1)?),
        partition: row.get(2)?,
        state: word(row, 3)?,
        owner: row.get(4)?,
        size: row.get(5)?,
        created: Timestamp(row.get(6)?),
        used: Timestamp(row.get(7)?),
    })
}

impl Store {
    pub(crate) fn put_partition(&self, pool: &str, name: &str, total: u64, free: u64) -> StoreResult<()> {
        self.run(
            "INSERT INTO partition (name, pool, total, free) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT (name) DO UPDATE SET pool = ?2, total = ?3, free = ?4",
            (name, pool, total, free),
        )?;
        Ok(())
    }

    pub(crate) fn set_space(&self, name: &str, total: u64, free: u64) -> StoreResult<bool> {
        let changed = self.run(
            "UPDATE partition SET total = ?2, free = ?3 WHERE name = ?1 AND (total <> ?2 OR free <> ?3)",
            (name, total, free),
        )?;
        Ok(changed > 0)
    }

    pub(crate) fn partitions(&self, now: Timestamp) -> StoreResult<Vec<PartitionRow>> {
        const SQL: &str = "SELECT p.name, p.pool, p.total, p.free,
            count(r.object) FILTER (WHERE r.state = 'online'),
            coalesce(sum(r.size) FILTER (WHERE r.state = 'online'), 0),
            coalesce(sum(r.size) FILTER (WHERE r.state IN ('writing', 'recalling')), 0),
            count(r.object) FILTER (WHERE r.state = 'online' AND EXISTS
                (SELECT 1 FROM pin WHERE pin.file = r.file AND (expires IS NULL OR expires > ?1)))
            FROM partition p LEFT JOIN replica r ON r.partition = p.name GROUP BY p.name ORDER BY p.pool, p.name";
        self.all(SQL, (now.0,), |row| {
            Ok(PartitionRow {
                name: row.get(0)?,
                pool: row.get(1)?,
                total: row.get(2)?,
                free: row.get(3)?,
                replicas: row.get(4)?,
                replica_bytes: row.get(5)?,
                reserved_bytes: row.get(6)?,
                pinned: row.get(7)?,
            })
        })
    }

    pub(crate) fn partition_pool(&self, name: &str) -> StoreResult<Option<String>> {
        self.maybe("SELECT pool FROM partition WHERE name = ?1", (name,), |row| row.get(0))
    }

    /// What placement needs of every partition.
    pub(crate) fn partition_space(&self) -> StoreResult<Vec<PartitionSpace>> {
        const SQL: &str = "SELECT name, pool, total, free,
            (SELECT coalesce(sum(size), 0) FROM replica r
             WHERE r.partition = p.name AND r.state <> 'online' AND r.state IN ('writing', 'recalling'))
            FROM partition p ORDER BY name";
        self.all(SQL, (), |row| {
            Ok(PartitionSpace {
                name: row.get(0)?,
                pool: row.get(1)?,
                total: row.get(2)?,
                free: row.get(3)?,
                reserved: row.get(4)?,
            })
        })
    }

    pub(crate) fn insert_replica(&self, new: &Replica) -> StoreResult<ObjectId> {
        let id = self.insert(
            "INSERT INTO replica (file, partition, state, owner, size, created, used)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6)",
            (new.file.0, &new.partition, new.state.as_str(), &new.owner, new.size, new.created.0),
        )?;
        Ok(ObjectId(id))
    }

    pub(crate) fn replica(&self, object: ObjectId) -> StoreResult<Option<Replica>> {
        self.maybe(&format!("SELECT {COLUMNS} FROM replica WHERE object = ?1"), (object.0,), replica)
    }

    pub(crate) fn replicas_of(&self, file: FileId) -> StoreResult<Vec<Replica>> {
        self.all(
            &format!("SELECT {COLUMNS} FROM replica WHERE file = ?1 ORDER BY object"),
            (file.0,),
            replica,
        )
    }

    /// Replicas of a partition in a state other than online.
    pub(crate) fn unsettled(
        &self,
        partition: &str,
        state: ReplicaState,
        limit: usize,
    ) -> StoreResult<Vec<Replica>> {
        let sql = format!(
            "SELECT {COLUMNS} FROM replica WHERE partition = ?1 AND state = ?2 AND state <> 'online' LIMIT ?3"
        );
        self.all(&sql, (partition, state.as_str(), limit as i64), replica)
    }

    pub(crate) fn online_replica(&self, file: FileId) -> StoreResult<Option<Replica>> {
        self.maybe(
            &format!(
                "SELECT {COLUMNS} FROM replica WHERE file = ?1 AND state = 'online' ORDER BY object LIMIT 1"
            ),
            (file.0,),
            replica,
        )
    }

    pub(crate) fn set_replica_online(&self, object: ObjectId, size: u64, now: Timestamp) -> StoreResult<()> {
        self.run(
            "UPDATE replica SET state = 'online', size = ?2, created = ?3, used = ?3 WHERE object = ?1",
            (object.0, size, now.0),
        )?;
        // It is not promised any more but used; the disk server says so itself only with its next report.
        self.run(
            "UPDATE partition SET free = max(free - ?2, 0)
             WHERE name = (SELECT partition FROM replica WHERE object = ?1)",
            (object.0, size),
        )?;
        Ok(())
    }

    pub(crate) fn set_replica_removing(&self, object: ObjectId) -> StoreResult<()> {
        self.run("UPDATE replica SET state = 'removing' WHERE object = ?1", (object.0,))?;
        Ok(())
    }

    pub(crate) fn delete_removed(&self, partition: &str, object: ObjectId) -> StoreResult<()> {
        self.run(
            "DELETE FROM replica WHERE object = ?1 AND partition = ?2 AND state = 'removing'",
            (object.0, partition),
        )?;
        Ok(())
    }

    pub(crate) fn put_pin(&self, file: FileId, holder: &str, expires: Option<Timestamp>) -> StoreResult<()> {
        // A later, longer wish of the same holder wins; a shorter one changes nothing.
        self.run(
            "INSERT INTO pin (file, holder, expires) VALUES (?1, ?2, ?3) ON CONFLICT (file, holder) DO UPDATE SET
             expires = CASE WHEN expires IS NULL OR ?3 IS NULL THEN NULL ELSE max(expires, ?3) END",
            (file.0, holder, expires.map(|at| at.0)),
        )?;
        Ok(())
    }

    pub(crate) fn pins(&self, file: FileId, now: Timestamp) -> StoreResult<Vec<String>> {
        self.all(
            "SELECT holder FROM pin WHERE file = ?1 AND (expires IS NULL OR expires > ?2) ORDER BY holder",
            (file.0, now.0),
            |row| row.get(0),
        )
    }

    pub(crate) fn release_pins_of(&self, holder: &str) -> StoreResult<()> {
        self.run("DELETE FROM pin WHERE holder = ?1", (holder,))?;
        Ok(())
    }

    pub(crate) fn delete_pins(&self, file: FileId) -> StoreResult<()> {
        self.run("DELETE FROM pin WHERE file = ?1", (file.0,))?;
        Ok(())
    }

    /// Archived, unpinned replicas of a partition, least recently used first.
    pub(crate) fn evictable(
        &self,
        partition: &str,
        now: Timestamp,
        limit: usize,
    ) -> StoreResult<Vec<Replica>> {
        let sql = format!(
            "SELECT {COLUMNS} FROM replica r WHERE partition = ?1 AND state = 'online'
             AND EXISTS (SELECT 1 FROM copy c WHERE c.file = r.file)
             AND NOT EXISTS (SELECT 1 FROM pin p WHERE p.file = r.file AND (p.expires IS NULL OR p.expires > ?2))
             ORDER BY used LIMIT ?3"
        );
        self.all(&sql, (partition, now.0, limit as i64), replica)
    }

    /// Notes a use, unless one was noted a short while ago.
    pub(crate) fn touch_replica(&self, object: ObjectId, now: Timestamp) -> StoreResult<()> {
        self.run(
            "UPDATE replica SET used = ?2 WHERE object = ?1 AND used < ?2 - ?3",
            (object.0, now.0, USE_NOTED_EVERY.0),
        )?;
        Ok(())
    }
}
