//! Replicas and pins.

use crate::store::{
    Store, StoreResult,
    cache::pending::Removal,
    engine::Row,
    rows::{facility::ids::Sequence, volumes::UNREADABLE},
    word,
};
use base::{Adler32, Checksums, Crc32c, FileId, ObjectId, Timestamp};
use serde::Deserialize;
use wire::control::Coding;

/// The state of a replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ReplicaState {
    /// A user writes it.
    Writing,
    /// Room for what a user will write; nobody has begun. In the database a row that is being written since time 0.
    #[serde(skip_deserializing)]
    Reserved,
    /// A disk server writes it together with one that a user writes.
    Mirroring,
    /// A disk server fetches it from another one.
    Copying,
    /// The tape room writes it.
    Recalling,
    /// Can be read.
    Online,
    /// Its disk server does not have it any more.
    Lost,
    /// Its bytes are not what they should be; that it is there does not change that. In the database a row that is lost since
    /// time 0.
    #[serde(skip_deserializing)]
    Damaged,
}

impl ReplicaState {
    pub(in crate::store) fn as_str(self) -> &'static str {
        match self {
            Self::Writing | Self::Reserved => "writing",
            Self::Mirroring => "mirroring",
            Self::Copying => "copying",
            Self::Recalling => "recalling",
            Self::Online => "online",
            Self::Lost | Self::Damaged => "lost",
        }
    }

    /// Whether it has, or should have, the whole content.
    pub(crate) fn is_settled(self) -> bool {
        matches!(self, Self::Online | Self::Lost | Self::Damaged)
    }

    /// Whether nobody but its pool wants it: it can go without the end of a write or of a recall.
    pub(crate) fn is_of_pool(self) -> bool {
        self.is_settled() || self == Self::Copying
    }

    /// Whether it has the content that its file has now, or is to have it again; what is being written is the next one.
    pub(crate) fn is_content(self) -> bool {
        self.is_of_pool() || self == Self::Recalling
    }

    /// Whether room is kept for it.
    pub(in crate::store) fn is_promised(self) -> bool {
        !self.is_settled()
    }
}

/// Which piece of a coded file an object is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) coding: Coding,
    /// Bytes of a full cell.
    pub(crate) cell_bytes: u32,
    pub(crate) index: u8,
    /// Of the piece itself; `None`: it was not made yet.
    pub(crate) checksums: Option<Checksums>,
}

/// The piece in the columns of `parity` to `crc32c`, of which the first is at `at`.
pub(in crate::store) fn piece(row: &Row<'_>, at: usize) -> StoreResult<Option<Piece>> {
    let Some(parity) = row.get::<Option<u8>>(at)? else { return Ok(None) };
    let (adler32, crc32c): (Option<u32>, Option<u32>) = (row.get(at + 4)?, row.get(at + 5)?);
    let sums = |(adler32, crc32c)| Checksums { adler32: Adler32(adler32), crc32c: Crc32c(crc32c) };
    Ok(Some(Piece {
        coding: Coding { data: row.get(at + 1)?, parity },
        index: row.get(at + 2)?,
        cell_bytes: row.get(at + 3)?,
        checksums: adler32.zip(crc32c).map(sums),
    }))
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
    /// Last open, as far as it was noted. Of what holds a reservation: when that ends.
    pub(crate) used: Timestamp,
    /// Which piece it is of a coded file; `None`: all of the file.
    pub(crate) piece: Option<Piece>,
}

/// When room was reserved, in the database: what nobody has begun to write was not made yet.
pub(crate) const NOT_BEGUN: Timestamp = Timestamp(0);
/// When a damaged replica was made, in the database.
const DAMAGED: Timestamp = Timestamp(0);

/// Pages of replicas that are looked at for some that may be evicted.
const EVICTABLE_PAGES_MAX: usize = 4;

impl Replica {
    /// When the reservation ends that it is, or was made from: room that a write keeps if it is given up before.
    pub(crate) fn held_until(&self) -> Option<Timestamp> {
        match self.state {
            ReplicaState::Reserved => Some(self.used),
            ReplicaState::Writing | ReplicaState::Mirroring => {
                Some(self.used).filter(|at| *at > self.created)
            }
            _ => None,
        }
    }
}

pub(in crate::store) const COLUMNS: &str =
    "object, file, partition, state, owner, size, created, used, parity, needed, piece, cell,
     adler32, crc32c";
/// Replicas by a list of files.
pub(in crate::store) const REPLICAS_OF_FILES: &str =
    "SELECT object, file, partition, state, owner, size, created, used, parity, needed, piece,
     cell, adler32, crc32c FROM replica WHERE file = ANY (?1::bigint[]) ORDER BY object";

pub(in crate::store) fn replica(row: &Row<'_>) -> StoreResult<Replica> {
    let created = Timestamp(row.get(6)?);
    Ok(Replica {
        object: ObjectId(row.get(0)?),
        file: FileId(row.get(1)?),
        partition: row.get(2)?,
        state: match word(row, 3)? {
            ReplicaState::Writing if created == NOT_BEGUN => ReplicaState::Reserved,
            ReplicaState::Lost if created == DAMAGED => ReplicaState::Damaged,
            state => state,
        },
        owner: row.get(4)?,
        size: row.get(5)?,
        created,
        used: Timestamp(row.get(7)?),
        piece: piece(row, 8)?,
    })
}

impl Store {
    /// Replicas of a file as they are in the database.
    pub(in crate::store) fn read_replicas(&self, file: FileId) -> StoreResult<Vec<Replica>> {
        let sql = format!("SELECT {COLUMNS} FROM replica WHERE file = ?1 ORDER BY object");
        self.all_now(&sql, (file.0,), replica)
    }

    pub(crate) fn insert_replica(&self, new: Replica) -> StoreResult<Replica> {
        let object = ObjectId(self.next_id(Sequence::Object)?);
        let replica = Replica { object, ..new };
        let added = replica.clone();
        self.change_node(replica.file, |node| node.replicas.push(added))?;
        Ok(replica)
    }

    /// Adds a replica whose number was given by a catalogue that is lost.
    pub(crate) fn insert_known_replica(&self, replica: Replica) -> StoreResult<()> {
        self.pass(Sequence::Object, replica.object.0)?;
        self.change_node(replica.file, |node| node.replicas.push(replica)).map(drop)
    }

    pub(crate) fn replica(&self, object: ObjectId) -> StoreResult<Option<Replica>> {
        let Some(file) = self.file_of(object)? else { return Ok(None) };
        let node = self.node(file)?;
        Ok(node.and_then(|node| node.replicas.iter().find(|replica| replica.object == object).cloned()))
    }

    /// The file that an object belongs to, or belonged to in this group.
    fn file_of(&self, object: ObjectId) -> StoreResult<Option<FileId>> {
        let changed = self.pending.borrow().file_of(object);
        let known = changed.or_else(|| self.cache.borrow_mut().file_of(object));
        match known {
            Some(file) => Ok(Some(file)),
            None => {
                let sql = "SELECT file FROM replica WHERE object = ?1";
                self.maybe_now(sql, (object.0,), |row| row.get(0).map(FileId))
            }
        }
    }

    /// Changes a replica that exists.
    fn change_replica(&self, object: ObjectId, change: impl FnOnce(&mut Replica)) -> StoreResult<()> {
        let Some(file) = self.file_of(object)? else { return Ok(()) };
        self.change_node(file, |node| {
            if let Some(replica) = node.replicas.iter_mut().find(|replica| replica.object == object) {
                change(replica);
            }
        })?;
        Ok(())
    }

    /// Puts another state of a replica in its place.
    pub(crate) fn put_replica(&self, replica: &Replica) -> StoreResult<()> {
        self.change_replica(replica.object, |known| known.clone_from(replica))
    }

    /// Replicas of a partition that are in a state other than online. What is reserved is among what is being written.
    pub(crate) fn unsettled(&self, partition: &str, state: ReplicaState) -> StoreResult<Vec<Replica>> {
        let sql = format!(
            "SELECT {COLUMNS} FROM replica WHERE partition = ?1 AND state = ?2 AND state <> 'online' ORDER BY object"
        );
        self.all(&sql, (partition, state.as_str()), replica)
    }

    /// Replicas of all files in the order of their objects, some at a time.
    pub(crate) fn replicas_after(
        &self,
        after: ObjectId,
        limit: usize,
    ) -> StoreResult<Vec<(ObjectId, FileId)>> {
        let sql = "SELECT object, file FROM replica WHERE object > ?1 ORDER BY object LIMIT ?2";
        self.all(sql, (after.0, limit), |row| Ok((ObjectId(row.get(0)?), FileId(row.get(1)?))))
    }

    /// Objects of a partition and their files behind an object, in their order; what is missing there is left out.
    pub(crate) fn online_on(
        &self,
        partition: &str,
        after: ObjectId,
        limit: usize,
    ) -> StoreResult<Vec<(ObjectId, FileId)>> {
        // Written so that the index of what is on a partition serves it.
        let sql = "SELECT object, file FROM replica WHERE partition = ?1 AND object > ?2
             AND state IN ('online', 'lost') AND state = 'online' ORDER BY object LIMIT ?3";
        self.all(sql, (partition, after.0, limit), |row| Ok((ObjectId(row.get(0)?), FileId(row.get(1)?))))
    }

    /// What should be on a partition, of a range of objects.
    pub(crate) fn replicas_between(
        &self,
        partition: &str,
        (after, upto): (ObjectId, ObjectId),
    ) -> StoreResult<Vec<Replica>> {
        let sql = format!(
            "SELECT {COLUMNS} FROM replica WHERE object > ?1 AND object <= ?2 AND partition = ?3
             AND state IN ('online', 'lost')"
        );
        self.all(&sql, (after.0, upto.0, partition), replica)
    }

    /// Notes that a replica is there, that it is not, or that it is damaged.
    pub(crate) fn set_replica_state(&self, object: ObjectId, state: ReplicaState) -> StoreResult<()> {
        self.change_replica(object, |replica| {
            replica.state = state;
            replica.created = match state {
                ReplicaState::Damaged => DAMAGED,
                _ => Timestamp(replica.created.0.max(DAMAGED.0 + 1)),
            };
        })
    }

    pub(crate) fn set_replica_online(&self, object: ObjectId, size: u64, now: Timestamp) -> StoreResult<()> {
        let Some(online) = self.replica(object)? else { return Ok(()) };
        self.change_replica(object, |replica| {
            *replica =
                Replica { state: ReplicaState::Online, size, created: now, used: now, ..replica.clone() };
        })?;
        // It is not promised any more but used; the disk server says so itself only with its next report.
        match self.partition(&online.partition)? {
            Some(space) => self.set_space(&online.partition, space.total, space.free.saturating_sub(size)),
            None => Ok(()),
        }
    }

    /// Gives a replica to its disk server for deletion.
    pub(crate) fn remove_replica(&self, replica: &Replica) -> StoreResult<()> {
        let Replica { object, file, ref partition, size, .. } = *replica;
        self.change_node(file, |node| node.replicas.retain(|replica| replica.object != object))?;
        self.pending.borrow_mut().add_removal(Removal { object, partition: partition.clone(), size });
        Ok(())
    }

    /// Objects that a disk server is to delete.
    pub(crate) fn removals(&self, partition: &str, limit: usize) -> StoreResult<Vec<ObjectId>> {
        let sql = "SELECT object FROM removal WHERE partition = ?1 ORDER BY object LIMIT ?2";
        self.all(sql, (partition, limit), |row| row.get(0).map(ObjectId))
    }

    /// Objects were deleted. Yields their bytes.
    pub(crate) fn end_removals(&self, partition: &str, objects: &[ObjectId]) -> StoreResult<u64> {
        let keys = objects.iter().map(|object| object.0 as i64).collect();
        let size = |row: &Row<'_>| Ok(if row.get::<&str>(1)? == partition { row.get(2)? } else { 0 });
        let sizes: Vec<u64> =
            self.rows_by_key("SELECT object, partition, size FROM removal", "object", keys, size)?;
        let freed = sizes.iter().sum();
        for object in objects {
            let sql = "DELETE FROM removal WHERE object = ?1 AND partition = ?2";
            self.run(sql, (object.0, partition))?;
        }
        self.end_leaving(partition, freed)?;
        Ok(freed)
    }

    pub(crate) fn put_pin(&self, file: FileId, holder: &str, expires: Option<Timestamp>) -> StoreResult<()> {
        // A later, longer wish of the same holder wins; a shorter one changes nothing.
        self.run(
            "INSERT INTO pin (file, holder, expires) VALUES (?1, ?2, ?3) ON CONFLICT (file, holder) DO UPDATE SET
             expires = CASE WHEN pin.expires IS NULL OR excluded.expires IS NULL THEN NULL
                 WHEN pin.expires < excluded.expires THEN excluded.expires ELSE pin.expires END",
            (file.0, holder, expires.map(|at| at.0)),
        )
    }

    pub(crate) fn pins(&self, file: FileId, now: Timestamp) -> StoreResult<Vec<String>> {
        self.all(
            "SELECT holder FROM pin WHERE file = ?1 AND (expires IS NULL OR expires > ?2) ORDER BY holder",
            (file.0, now.0),
            |row| row.get(0),
        )
    }

    /// Ends the pin of a holder at `until`, if it would last longer; `None`: now. Yields whether there was one.
    pub(crate) fn shorten_pin(
        &self,
        file: FileId,
        holder: &str,
        until: Option<Timestamp>,
        now: Timestamp,
    ) -> StoreResult<bool> {
        let changed = match until {
            None => self.run_counted(
                "DELETE FROM pin WHERE file = ?1 AND holder = ?2 AND (expires IS NULL OR expires > ?3)",
                (file.0, holder, now.0),
            )?,
            Some(until) => self.run_counted(
                "UPDATE pin SET expires = CASE WHEN expires IS NULL OR expires > ?4 THEN ?4 ELSE expires END
                 WHERE file = ?1 AND holder = ?2 AND (expires IS NULL OR expires > ?3)",
                (file.0, holder, now.0, until.0),
            )?,
        };
        Ok(changed > 0)
    }

    pub(crate) fn release_pins_of(&self, holder: &str) -> StoreResult<()> {
        self.run("DELETE FROM pin WHERE holder = ?1", (holder,))
    }

    pub(crate) fn delete_pins(&self, file: FileId) -> StoreResult<()> {
        self.run("DELETE FROM pin WHERE file = ?1", (file.0,))
    }

    /// Unpinned replicas of a partition that are on volumes which nobody suspects, least recently used first.
    ///
    /// Those whose last use is not written yet come last; behind many of them, others may not be found.
    pub(crate) fn evictable(
        &self,
        partition: &str,
        now: Timestamp,
        limit: usize,
    ) -> StoreResult<Vec<Replica>> {
        let sql = format!(
            "SELECT {COLUMNS} FROM replica r WHERE partition = ?1 AND state = 'online' AND (used, object) > (?4, ?5)
             AND EXISTS (SELECT 1 FROM copy c JOIN volume v ON v.vid = c.vid
                         WHERE c.file = r.file AND v.state NOT IN {UNREADABLE})
             AND NOT EXISTS (SELECT 1 FROM missing_copy m WHERE m.file = r.file)
             AND NOT EXISTS (SELECT 1 FROM pin p WHERE p.file = r.file AND (p.expires IS NULL OR p.expires > ?2))
             ORDER BY used, object LIMIT ?3"
        );
        let (mut cold, mut hot, mut after) = (Vec::new(), Vec::new(), (i64::MIN, 0));
        for _ in 0..EVICTABLE_PAGES_MAX {
            let page = self.all(&sql, (partition, now.0, limit, after.0, after.1), replica)?;
            let is_last = page.len() < limit;
            after = page.last().map_or(after, |last| (last.used.0, last.object.0));
            for replica in page {
                match self.noted_use(replica.file) {
                    Some(used) => hot.push((used, replica)),
                    None => cold.push(replica),
                }
            }
            if is_last || cold.len() >= limit {
                break;
            }
        }
        hot.sort_by_key(|(used, replica)| (*used, replica.object));
        cold.extend(hot.into_iter().map(|(_, replica)| replica));
        cold.truncate(limit);
        Ok(cold)
    }
}
