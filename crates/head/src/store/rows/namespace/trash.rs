//! Rows of the trash.
//!
//! A file in the trash is a node in the directory [`TRASH`], which has no row and no name, so no path leads there. Its
//! replicas and copies are maintained like those of other files.

use crate::store::{
    Node, ReplicaState, Store, StoreResult, engine::Row, rows::facility::ids::Sequence, word,
};
use base::{FileId, FilePath, ObjectId, Timestamp};
use wire::control::TrashReason;

/// The directory of what is in the trash. The root is 1.
pub(crate) const TRASH: FileId = FileId(0);

/// A file in the trash, besides its node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TrashRow {
    pub(crate) file: FileId,
    /// Where it was.
    pub(crate) path: FilePath,
    pub(crate) removed: Timestamp,
    pub(crate) remover: String,
    pub(crate) why: TrashReason,
}

/// Which rows of the trash are wanted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TrashQuery<'a> {
    /// Whose they must be: removed by this user, or their file; `None`: anybody's.
    pub(crate) of: Option<&'a str>,
    /// At this path or below it.
    pub(crate) within: Option<&'a FilePath>,
    /// Removed before this one.
    pub(crate) before: (Timestamp, FileId),
    pub(crate) limit: usize,
}

const COLUMNS: &str = "t.file, t.path, t.removed, t.remover, t.why";

fn trash(row: &Row<'_>) -> StoreResult<TrashRow> {
    Ok(TrashRow {
        file: FileId(row.get(0)?),
        path: row.parse(1, str::parse::<FilePath>)?,
        removed: Timestamp(row.get(2)?),
        remover: row.get(3)?,
        why: word(row, 4)?,
    })
}

impl Node {
    /// Whether it was removed and is kept for a while.
    pub(crate) fn is_in_trash(&self) -> bool {
        self.parent == TRASH
    }

    /// The number of the file that labels on tape and coded cells of its content name.
    pub(crate) fn label(&self) -> FileId {
        if self.label.0 == 0 { self.id } else { self.label }
    }
}

impl Store {
    /// Puts a file into the trash, with its content.
    pub(crate) fn put_trash(&self, row: &TrashRow) -> StoreResult<()> {
        self.move_node(row.file, TRASH, &row.file.to_string())?;
        self.delete_grants(row.file)?;
        self.run(
            "INSERT INTO trash (file, path, removed, remover, why) VALUES (?1, ?2, ?3, ?4, ?5)",
            (row.file.0, row.path.as_str(), row.removed.0, &row.remover, row.why.as_str()),
        )
    }

    /// Makes the content of a file that of a new one in the trash: its settled replicas but those of `keep`, and its copies.
    pub(crate) fn split_content(&self, node: &Node, keep: &[ObjectId], row: TrashRow) -> StoreResult<FileId> {
        let goes = |object: ObjectId, state: ReplicaState| state.is_settled() && !keep.contains(&object);
        let id = FileId(self.next_id(Sequence::Node)?);
        let name = id.to_string();
        let mut replicas: Vec<_> =
            node.replicas.iter().filter(|old| goes(old.object, old.state)).cloned().collect();
        for replica in &mut replicas {
            replica.file = id;
        }
        self.change_node(node.id, |node| {
            node.replicas.retain(|old| !goes(old.object, old.state));
            node.is_archived = false;
            node.lacks_copies = false;
        })?;
        let (parent, label) = (TRASH, node.label());
        let live = ObjectId(0);
        let lacks_copies = false;
        self.insert_whole(Node { id, parent, name, replicas, lacks_copies, label, live, ..node.clone() })?;
        self.run("DELETE FROM missing_copy WHERE file = ?1", (node.id.0,))?;
        self.run("UPDATE copy SET file = ?2 WHERE file = ?1", (node.id.0, id.0))?;
        self.put_trash(&TrashRow { file: id, ..row })?;
        Ok(id)
    }

    /// The row of a file in the trash.
    pub(crate) fn trash(&self, file: FileId) -> StoreResult<Option<TrashRow>> {
        self.maybe_now(&format!("SELECT {COLUMNS} FROM trash t WHERE t.file = ?1"), (file.0,), trash)
    }

    /// A file is not in the trash any more.
    pub(crate) fn delete_trash(&self, file: FileId) -> StoreResult<()> {
        self.run("DELETE FROM trash WHERE file = ?1", (file.0,))
    }

    /// What is in the trash, removed last first.
    pub(crate) fn trash_rows(&self, query: &TrashQuery<'_>) -> StoreResult<Vec<TrashRow>> {
        let TrashQuery { of, within, before, limit } = *query;
        let mut sql = format!(
            "SELECT {COLUMNS} FROM trash t JOIN node n ON n.id = t.file
             WHERE (t.removed, t.file) < (?1, ?2) AND (?3 = '' OR t.remover = ?3 OR n.owner = ?3)"
        );
        // What is below a directory comes right after `DIRECTORY/` and before `DIRECTORY0`.
        if within.is_some() {
            sql.push_str(" AND (t.path = ?5 OR (t.path > ?6 AND t.path < ?7))");
        } else {
            sql.push_str(" AND ?5 = '' AND ?6 = '' AND ?7 = ''");
        }
        sql.push_str(" ORDER BY t.removed DESC, t.file DESC LIMIT ?4");
        let at = within.map_or("", FilePath::as_str);
        let stem = at.trim_end_matches('/');
        let (first, last) =
            if within.is_some() { (format!("{stem}/"), format!("{stem}0")) } else { Default::default() };
        let params = (before.0.0, before.1.0, of.unwrap_or(""), limit, at, &first, &last);
        self.all(&sql, params, trash)
    }

    /// The file that was removed last at the path of a query, not below it.
    pub(crate) fn trash_at(&self, query: &TrashQuery<'_>) -> StoreResult<Option<TrashRow>> {
        let TrashQuery { of, within, before, .. } = *query;
        let sql = format!(
            "SELECT {COLUMNS} FROM trash t JOIN node n ON n.id = t.file
             WHERE (t.removed, t.file) < (?1, ?2) AND (?3 = '' OR t.remover = ?3 OR n.owner = ?3) AND t.path = ?4
             ORDER BY t.removed DESC, t.file DESC LIMIT 1"
        );
        let at = within.map_or("", FilePath::as_str);
        self.maybe(&sql, (before.0.0, before.1.0, of.unwrap_or(""), at), trash)
    }

    /// The files that went into the trash first, with when they did.
    pub(crate) fn oldest_trash(&self, limit: usize) -> StoreResult<Vec<(Timestamp, FileId)>> {
        let sql = "SELECT removed, file FROM trash ORDER BY removed, file LIMIT ?1";
        self.all(sql, (limit,), |row| Ok((Timestamp(row.get(0)?), FileId(row.get(1)?))))
    }

    /// The files on disk that went into the trash first.
    pub(crate) fn oldest_trash_on_disk(&self, limit: usize) -> StoreResult<Vec<FileId>> {
        let sql = "SELECT t.file FROM trash t
             WHERE (SELECT 1 FROM replica r WHERE r.file = t.file AND r.state = 'online' LIMIT 1) IS NOT NULL
             ORDER BY t.removed, t.file LIMIT ?1";
        self.all(sql, (limit,), |row| row.get(0).map(FileId))
    }

    /// Files in the trash that lie on a partition, with the bytes that they have there, those that went into it first.
    pub(crate) fn trash_on(&self, partition: &str, limit: usize) -> StoreResult<Vec<(FileId, u64)>> {
        if self.file_counts()?.trash_files == 0 {
            return Ok(Vec::new());
        }
        let sql = "SELECT t.file, r.size FROM trash t JOIN replica r ON r.file = t.file
             WHERE r.partition = ?1 AND r.state = 'online' ORDER BY t.removed, t.file LIMIT ?2";
        self.all(sql, (partition, limit), |row| Ok((FileId(row.get(0)?), row.get(1)?)))
    }

    /// Moves a file out of the trash.
    pub(crate) fn take_from_trash(&self, file: FileId, parent: FileId, name: &str) -> StoreResult<()> {
        self.delete_trash(file)?;
        self.move_node(file, parent, name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{NewNode, testing::TestCatalogue};
    use wire::control::NodeKind;

    /// A file of ada's that was removed.
    fn example(store: &Store, at: &str, removed: i64, remover: &str) -> FileId {
        let path: FilePath = at.parse().unwrap();
        let kind = NodeKind::File;
        let new = NewNode {
            parent: FileId(1),
            name: path.name(),
            kind,
            owner: "ada",
            mode: 0o644,
            now: Timestamp(1),
        };
        let file = store.insert_node(&new).unwrap();
        let (removed, remover) = (Timestamp(removed), remover.to_owned());
        store.put_trash(&TrashRow { file, path, removed, remover, why: TrashReason::Removed }).unwrap();
        file
    }

    fn found(store: &Store, of: Option<&str>, within: Option<&str>) -> Vec<FileId> {
        let within: Option<FilePath> = within.map(|path| path.parse().unwrap());
        let before = (Timestamp(i64::MAX), FileId(0));
        let query = TrashQuery { of, within: within.as_ref(), before, limit: 100 };
        store.trash_rows(&query).unwrap().into_iter().map(|row| row.file).collect()
    }

    #[test]
    fn rows_are_found_by_whom_and_where_and_no_path_leads_to_them() {
        for place in TestCatalogue::all() {
            let mut store = place.create();
            store.begin();
            let first = example(&store, "/d/a", 10, "bob");
            let second = example(&store, "/d0", 20, "eve");
            let third = example(&store, "/d/b/c", 20, "bob");
            store.commit().unwrap();
            assert_eq!(found(&store, None, None), [third, second, first]);
            assert_eq!(found(&store, Some("bob"), None), [third, first]);
            assert_eq!(found(&store, Some("ada"), None).len(), 3, "they were ada's files");
            assert_eq!(found(&store, None, Some("/d")), [third, first]);
            assert_eq!(found(&store, None, Some("/")).len(), 3);
            assert!(found(&store, Some("zoe"), None).is_empty());
            assert!(store.child(FileId(1), "a").unwrap().is_none());
            let counts = store.file_counts().unwrap();
            assert_eq!((counts.files, counts.trash_files), (0, 3));
            assert_eq!(store.oldest_trash(1).unwrap(), [(Timestamp(10), first)]);
            store.begin();
            store.take_from_trash(first, FileId(1), "a").unwrap();
            store.commit().unwrap();
            assert!(store.trash(first).unwrap().is_none());
            assert_eq!(store.child(FileId(1), "a").unwrap().unwrap().id, first);
            assert_eq!(store.file_counts().unwrap().files, 1);
        }
    }
}
