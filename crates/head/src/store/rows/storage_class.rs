//! Storage classes of directories, and files that lack tape copies by them. Classes are few, so all of them are kept in memory.

use crate::store::{Store, StoreResult, document, engine::Row, json, rows::requests::vid};
use base::{FileId, RequestId, Vid};
use std::{collections::BTreeMap, sync::Arc};
use wire::control::{StorageClass, VolumeState};

/// All classes, by directory.
pub(crate) type ClassTable = BTreeMap<FileId, Arc<StorageClass>>;

/// A volume that has a copy, as far as classes ask.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CopyPlace {
    pub(crate) vid: Vid,
    pub(crate) library: String,
    pub(crate) pool: String,
    pub(crate) state: VolumeState,
}

fn copy_place(row: &Row<'_>) -> StoreResult<CopyPlace> {
    Ok(CopyPlace {
        vid: vid(row, 0)?,
        library: row.get(1)?,
        pool: row.get(2)?,
        state: crate::store::word(row, 3)?,
    })
}

impl Store {
    /// All classes.
    pub(crate) fn storage_classes(&self) -> StoreResult<Arc<ClassTable>> {
        self.storage_classes.get(|| {
            let row = |row: &Row<'_>| Ok((FileId(row.get(0)?), Arc::new(document(row, 1)?)));
            // Nothing of this table waits to be written.
            Ok(self.all_now("SELECT directory, document FROM storage_class", (), row)?.into_iter().collect())
        })
    }

    /// Sets a class, or takes it away.
    pub(crate) fn set_storage_class(
        &self,
        directory: FileId,
        class: Option<&StorageClass>,
    ) -> StoreResult<()> {
        self.storage_classes.change();
        let Some(class) = class else {
            return self.run("DELETE FROM storage_class WHERE directory = ?1", (directory.0,));
        };
        let sql = "INSERT INTO storage_class (directory, document) VALUES (?1, ?2)
                   ON CONFLICT (directory) DO UPDATE SET document = ?2";
        self.run(sql, (directory.0, json(class)))
    }

    /// The directory is gone.
    pub(in crate::store) fn delete_storage_class(&self, directory: FileId) -> StoreResult<()> {
        let is_known = self.storage_classes()?.contains_key(&directory);
        if is_known { self.set_storage_class(directory, None) } else { Ok(()) }
    }

    /// Volumes with copies of a file.
    pub(crate) fn copy_places(&self, file: FileId) -> StoreResult<Vec<CopyPlace>> {
        let sql = "SELECT v.vid, v.library, v.pool, v.state FROM copy c JOIN volume v ON v.vid = c.vid
             WHERE c.file = ?1 ORDER BY c.id";
        self.all(sql, (file.0,), copy_place)
    }

    /// The same for all queued archives.
    pub(crate) fn places_of_archives(&self) -> StoreResult<Vec<(RequestId, CopyPlace)>> {
        let sql =
            "SELECT v.vid, v.library, v.pool, v.state, q.id FROM request q JOIN copy c ON c.file = q.file
             JOIN volume v ON v.vid = c.vid
             WHERE q.kind = 'archive' AND q.state = 'queued' ORDER BY q.id, c.id";
        self.all(sql, (), |row| Ok((RequestId(row.get(4)?), copy_place(row)?)))
    }

    /// Notes whether a file that has copies lacks others.
    pub(crate) fn set_lacks_copies(&self, file: FileId, lacks: bool) -> StoreResult<()> {
        if self.node(file)?.is_none_or(|node| node.lacks_copies == lacks) {
            return Ok(());
        }
        self.pending.borrow_mut().set_visible();
        self.change_node(file, |node| node.lacks_copies = lacks)?;
        self.run(
            if lacks {
                "INSERT INTO missing_copy (file) VALUES (?1) ON CONFLICT (file) DO NOTHING"
            } else {
                "DELETE FROM missing_copy WHERE file = ?1"
            },
            (file.0,),
        )
    }

    /// How many files lack copies.
    pub(crate) fn missing_copies_len(&self) -> StoreResult<u64> {
        self.one("SELECT count(*) FROM missing_copy", (), |row| row.get(0))
    }

    /// Files that lack copies.
    pub(crate) fn missing_copies(&self, limit: usize) -> StoreResult<Vec<FileId>> {
        let sql = "SELECT file FROM missing_copy ORDER BY file LIMIT ?1";
        self.all(sql, (limit,), |row| row.get(0).map(FileId))
    }

    /// Those of them for which there is no request.
    pub(crate) fn missing_without_request(&self, limit: usize) -> StoreResult<Vec<FileId>> {
        let sql = "SELECT m.file FROM missing_copy m WHERE NOT EXISTS
             (SELECT 1 FROM request q WHERE q.kind IN ('archive', 'recall') AND q.file = m.file)
             ORDER BY m.file LIMIT ?1";
        self.all(sql, (limit,), |row| row.get(0).map(FileId))
    }

    /// The next file that is compared with its class; `None`: all were.
    pub(crate) fn copy_check(&self) -> StoreResult<Option<FileId>> {
        self.maybe("SELECT next_file FROM copy_check", (), |row| row.get(0).map(FileId))
    }

    /// Says which file is compared next.
    pub(crate) fn set_copy_check(&self, next: Option<FileId>) -> StoreResult<()> {
        match next {
            None => self.run("DELETE FROM copy_check", ()),
            Some(next) => self.run(
                "INSERT INTO copy_check (id, next_file) VALUES (1, ?1)
                 ON CONFLICT (id) DO UPDATE SET next_file = ?1",
                (next.0,),
            ),
        }
    }

    /// Files with tape copies, from one on.
    pub(crate) fn files_with_copies(&self, from: FileId, limit: usize) -> StoreResult<Vec<FileId>> {
        let sql = "SELECT DISTINCT file FROM copy WHERE file >= ?1 ORDER BY file LIMIT ?2";
        self.all(sql, (from.0, limit), |row| row.get(0).map(FileId))
    }

    /// Puts a volume into a tape pool; empty: into none. False if there is no such volume.
    pub(crate) fn set_volume_pool(&self, vid: &Vid, pool: &str) -> StoreResult<bool> {
        let sql = "UPDATE volume SET pool = ?2 WHERE vid = ?1";
        Ok(self.run_counted(sql, (vid.as_str(), pool))? > 0)
    }
}
