//! Listings of directories.

use super::{file_state, kind, posix, sums};
use crate::store::{Store, StoreResult, engine::Row};
use base::{FileId, Timestamp};
use std::collections::HashSet;
use wire::control::{Entry, FileState, NodeKind, TYPE_BITS};

/// An entry of a listing, without where its bytes are: that is read for many at once. Of a hard link with the node that it leads to.
fn entry(row: &Row<'_>) -> StoreResult<(Entry, FileId)> {
    let checksums = sums(row, 8)?;
    let kind = kind(row, 2, 5)?;
    let entry = Entry {
        id: FileId(row.get(0)?),
        name: row.get(1)?,
        kind,
        owner: row.get(3)?,
        group: row.get(4)?,
        mode: row.get::<u32>(5)? & !TYPE_BITS,
        size: row.get(6)?,
        modified: Timestamp(row.get(7)?),
        source_modified: row.get::<Option<i64>>(10)?.map(Timestamp),
        checksums,
        state: (kind == NodeKind::File).then(|| match row.get::<u64>(11) {
            Ok(1..) => FileState::Live,
            _ => file_state(checksums.is_some(), false, false),
        }),
        posix: posix(row, 12)?,
    };
    Ok((entry, FileId(row.get(16)?)))
}

impl Store {
    /// Entries of a directory in name order, after `after`.
    pub(crate) fn children(&self, parent: FileId, after: &str, limit: usize) -> StoreResult<Vec<Entry>> {
        const SQL: &str =
            "SELECT id, name, kind, owner, grp, mode, size, modified, adler32, crc32c, source_modified, live,
             further_links, accessed, changed, modified_nanos, hard_link
             FROM node WHERE parent = ?1 AND name > ?2 AND id <> 1 ORDER BY name LIMIT ?3";
        let mut entries = Vec::new();
        for (entry, hard_link) in self.all(SQL, (parent.0, after, limit), entry)? {
            let node = if hard_link.0 == 0 { None } else { self.node(hard_link)? };
            let name = entry.name.clone();
            entries.push(node.map_or(entry, |node| Entry { name, ..node.entry() }));
        }
        let is_sealed = |entry: &Entry| entry.state.is_some_and(|state| state != FileState::Live);
        let files: Vec<_> =
            entries.iter().filter(|entry| is_sealed(entry)).map(|entry| entry.id.0 as i64).collect();
        let (archived, readable) = (self.archived(files.clone())?, self.readable(files)?);
        for Entry { id, state, checksums, .. } in entries.iter_mut().filter(|entry| is_sealed(entry)) {
            *state =
                state.map(|_| file_state(checksums.is_some(), readable.contains(id), archived.contains(id)));
        }
        Ok(entries)
    }

    /// Those of the files that have a copy on tape.
    fn archived(&self, files: Vec<i64>) -> StoreResult<HashSet<FileId>> {
        let copies =
            self.rows_by_key("SELECT file FROM copy", "file", files, |row| row.get(0).map(FileId))?;
        Ok(copies.into_iter().collect())
    }

    /// Those of the files that can be read from disk: a replica, or enough different pieces, can.
    fn readable(&self, files: Vec<i64>) -> StoreResult<HashSet<FileId>> {
        // Nothing that the index of replicas by file would not have.
        let select = "SELECT file, state = 'online', needed, piece FROM replica";
        let rows = self.rows_by_key(select, "file", files, |row| {
            let (file, needed, piece): (u64, usize, u64) = (row.get(0)?, row.get(2)?, row.get(3)?);
            Ok(row.get::<bool>(1)?.then_some((FileId(file), piece, needed)))
        })?;
        let mut online: Vec<_> = rows.into_iter().flatten().collect();
        online.sort_unstable();
        online.dedup_by_key(|&mut (file, piece, _)| (file, piece));
        let of_file = online.chunk_by(|one, next| one.0 == next.0);
        // A replica is the only piece that its file needs.
        let is_enough = |pieces: &&[_]| pieces.iter().any(|&(_, _, needed)| needed <= pieces.len());
        Ok(of_file.filter(is_enough).map(|pieces| pieces[0].0).collect())
    }
}
