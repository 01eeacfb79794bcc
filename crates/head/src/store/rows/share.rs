//! Rows of what mounts use: their sessions, and files that change in place.

use crate::{
    store::{
        Store, StoreResult,
        cache::pending::Removal,
        document,
        engine::Row,
        json,
        rows::{facility::ids::Sequence, live::LiveContent},
    },
    waiters::Awaited,
};
use base::{FileId, FilePath, ObjectId, Timestamp};
use serde::{Deserialize, Serialize};
use share::{ClientId, FileGrants, FileLocks};
use std::{collections::BTreeMap, sync::Arc};

/// A session of a mount.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MountRow {
    /// Who mounted; nobody else acts for the session.
    pub(crate) user: String,
    /// Where, for people.
    pub(crate) host: String,
    /// The directory of the namespace.
    pub(crate) path: FilePath,
    pub(crate) since: Timestamp,
}

/// All sessions.
pub(crate) type MountTable = BTreeMap<ClientId, MountRow>;

/// How often a session has a file open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Opens {
    pub(crate) client: ClientId,
    pub(crate) readers: u32,
    pub(crate) writers: u32,
}

/// What mounts do with a file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SharedFile {
    pub(crate) live: Option<LiveContent>,
    pub(crate) grants: FileGrants,
    pub(crate) posix: FileLocks,
    pub(crate) flock: FileLocks,
    pub(crate) opens: Vec<Opens>,
}

impl SharedFile {
    /// Whether nothing of it is left to be remembered.
    fn is_over(&self) -> bool {
        self.live.is_none()
            && self.grants.grants().is_empty()
            && self.posix.is_empty()
            && self.flock.is_empty()
            && self.opens.is_empty()
    }
}

fn mount(row: &Row<'_>) -> StoreResult<(ClientId, MountRow)> {
    Ok((ClientId(row.get(0)?), document(row, 1)?))
}

impl Store {
    /// All sessions.
    pub(crate) fn mounts(&self) -> StoreResult<Arc<MountTable>> {
        // Nothing of this table waits to be written.
        let sql = "SELECT id, document FROM mount";
        self.mounts.get(|| Ok(self.all_now(sql, (), mount)?.into_iter().collect()))
    }

    /// Adds a session.
    pub(crate) fn add_mount(&self, row: &MountRow) -> StoreResult<ClientId> {
        let id = self.next_id(Sequence::Mount)?;
        self.mounts.change();
        self.run("INSERT INTO mount (id, document) VALUES (?1, ?2)", (id, json(row)))?;
        Ok(ClientId(id))
    }

    /// Ends a session.
    pub(crate) fn delete_mount(&self, client: ClientId) -> StoreResult<()> {
        self.mounts.change();
        self.run("DELETE FROM mount WHERE id = ?1", (client.0,))
    }

    /// What mounts do with a file.
    pub(crate) fn shared_file(&self, file: FileId) -> StoreResult<Option<SharedFile>> {
        let sql = "SELECT document FROM shared_file WHERE file = ?1";
        self.maybe_now(sql, (file.0,), |row| document(row, 0))
    }

    /// All files that mounts use, in the order of their numbers, after one of them.
    pub(crate) fn shared_files(&self, after: FileId, limit: usize) -> StoreResult<Vec<(FileId, SharedFile)>> {
        let sql = "SELECT file, document FROM shared_file WHERE file > ?1 ORDER BY file LIMIT ?2";
        self.all_now(sql, (after.0, limit), |row| Ok((FileId(row.get(0)?), document(row, 1)?)))
    }

    /// Writes what mounts do with a file; who waits for it looks again.
    pub(crate) fn put_shared_file(&self, file: FileId, shared: &SharedFile) -> StoreResult<()> {
        self.note_changed(Awaited::File(file));
        if shared.is_over() {
            return self.delete_shared_file(file);
        }
        let sql = "INSERT INTO shared_file (file, document) VALUES (?1, ?2)
                   ON CONFLICT (file) DO UPDATE SET document = ?2";
        self.run(sql, (file.0, json(shared)))
    }

    /// Forgets what mounts did with a file.
    pub(crate) fn delete_shared_file(&self, file: FileId) -> StoreResult<()> {
        self.note_changed(Awaited::File(file));
        self.run("DELETE FROM shared_file WHERE file = ?1", (file.0,))
    }

    /// The number of a live object that is to be made.
    pub(crate) fn next_object(&self) -> StoreResult<ObjectId> {
        Ok(ObjectId(self.next_id(Sequence::Object)?))
    }

    /// Has a disk server delete an object that no file has.
    pub(crate) fn remove_object(&self, partition: &str, object: ObjectId, size: u64) -> StoreResult<()> {
        // Removals are written with the files of a group.
        self.load_partitions()?;
        self.count_change();
        self.pending.borrow_mut().add_removal(Removal { object, partition: partition.to_owned(), size });
        Ok(())
    }

    /// Has a file's directory entry go; the node stays until its last user is gone.
    pub(crate) fn hide_node(&self, file: FileId) -> StoreResult<()> {
        self.move_node(file, super::namespace::trash::TRASH, &format!("open {file}"))?;
        self.delete_grants(file)
    }
}
