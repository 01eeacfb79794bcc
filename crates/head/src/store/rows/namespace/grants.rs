//! Rows of grants on directories. They are few and asked for often, so all of them are kept in memory.

use crate::store::{Store, StoreResult, engine::Row};
use base::{FileId, Timestamp};
use std::{collections::BTreeMap, sync::Arc};
use wire::control::{Rights, Subject};

/// A grant on a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GrantRow {
    pub(crate) directory: FileId,
    pub(crate) subject: Subject,
    pub(crate) rights: Rights,
    pub(crate) giver: String,
    pub(crate) made: Timestamp,
}

/// All grants by directory, each list by subject.
pub(crate) type GrantTable = BTreeMap<FileId, Vec<GrantRow>>;

fn grant(row: &Row<'_>) -> StoreResult<GrantRow> {
    Ok(GrantRow {
        directory: FileId(row.get(0)?),
        subject: row.parse(1, str::parse)?,
        rights: row.parse(2, str::parse)?,
        giver: row.get(3)?,
        made: Timestamp(row.get(4)?),
    })
}

impl Store {
    /// All grants.
    pub(crate) fn grants(&self) -> StoreResult<Arc<GrantTable>> {
        const SQL: &str = "SELECT directory, subject, rights, giver, made FROM directory_grant
            ORDER BY directory, subject";
        self.grants.get(|| {
            let mut table = GrantTable::new();
            // Nothing of this table waits to be written.
            for row in self.all_now(SQL, (), grant)? {
                table.entry(row.directory).or_default().push(row);
            }
            Ok(table)
        })
    }

    /// Adds a grant, or replaces that of the same subject.
    pub(crate) fn put_grant(&self, grant: &GrantRow) -> StoreResult<()> {
        // Who may see names is no attribute, but mounts show them.
        self.require_forgotten(&[grant.directory])?;
        self.grants.change();
        self.pending.borrow_mut().set_visible();
        let (subject, rights) = (grant.subject.to_string(), grant.rights.as_str());
        self.run(
            "INSERT INTO directory_grant (directory, subject, rights, giver, made) VALUES (?1, ?2, ?3, ?4, ?5)
             ON CONFLICT (directory, subject) DO UPDATE SET rights = ?3, giver = ?4, made = ?5",
            (grant.directory.0, &subject, rights, &grant.giver, grant.made.0),
        )
    }

    /// Takes a grant away.
    pub(crate) fn delete_grant(&self, directory: FileId, subject: &Subject) -> StoreResult<()> {
        self.require_forgotten(&[directory])?;
        self.grants.change();
        self.pending.borrow_mut().set_visible();
        let sql = "DELETE FROM directory_grant WHERE directory = ?1 AND subject = ?2";
        self.run(sql, (directory.0, &subject.to_string()))
    }

    /// The directory is gone.
    pub(in crate::store) fn delete_grants(&self, directory: FileId) -> StoreResult<()> {
        if !self.grants()?.contains_key(&directory) {
            return Ok(());
        }
        self.require_forgotten(&[directory])?;
        self.grants.change();
        self.run("DELETE FROM directory_grant WHERE directory = ?1", (directory.0,))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{NewNode, testing::TestCatalogue};
    use std::sync::atomic::Ordering;
    use wire::control::NodeKind;

    fn row(directory: u64, subject: &str, rights: Rights) -> GrantRow {
        let (subject, giver) = (subject.parse().unwrap(), "ada".to_owned());
        GrantRow { directory: FileId(directory), subject, rights, giver, made: Timestamp(7) }
    }

    fn all(store: &Store) -> Vec<GrantRow> {
        store.grants().unwrap().values().flatten().cloned().collect()
    }

    /// Does something in a group of one call; keeps the call, and the group.
    fn group(store: &mut Store, (keep, is_committed): (bool, bool), change: impl Fn(&Store)) {
        store.begin();
        store.begin_call();
        change(store);
        store.end_call(keep).unwrap();
        if is_committed { store.commit().unwrap() } else { store.rollback().unwrap() }
    }

    #[test]
    fn what_is_kept_is_what_the_database_has() {
        for place in TestCatalogue::all() {
            let mut store = place.create();
            let (one, other) = (row(1, "group:prod", Rights::Read), row(1, "user:ann", Rights::ReadWrite));
            let version = store.version.load(Ordering::Acquire);
            group(&mut store, (true, true), |store| {
                store.put_grant(&other).unwrap();
                store.put_grant(&one).unwrap();
            });
            assert_eq!(all(&store), [one.clone(), other.clone()]);
            assert_ne!(store.version.load(Ordering::Acquire), version, "doors must not keep old answers");
            let changed = row(1, "group:prod", Rights::Write);
            for lost in [(false, true), (true, false), (false, false)] {
                group(&mut store, lost, |store| {
                    store.put_grant(&changed).unwrap();
                    store.delete_grant(FileId(1), &other.subject).unwrap();
                    assert_eq!(all(store), std::slice::from_ref(&changed));
                });
                assert_eq!(all(&store), [one.clone(), other.clone()], "{lost:?}");
            }
            group(&mut store, (true, true), |store| {
                store.put_grant(&changed).unwrap();
                store.delete_grant(FileId(1), &other.subject).unwrap();
                store.delete_grant(FileId(1), &"user:nobody".parse().unwrap()).unwrap();
            });
            assert_eq!(all(&store), std::slice::from_ref(&changed));
            drop(store);
            assert_eq!(all(&Store::open(&place.catalogue).unwrap()), [changed]);
        }
    }

    #[test]
    fn grants_go_with_their_directory() {
        for place in TestCatalogue::all() {
            let mut store = place.create();
            store.begin();
            let (parent, kind, now) = (FileId(1), NodeKind::Directory, Timestamp(5));
            let new = NewNode { parent, name: "d", kind, owner: "ada", mode: 0, now };
            let directory = store.insert_node(&new).unwrap();
            store.put_grant(&row(directory.0, "user:ann", Rights::Read)).unwrap();
            store.put_grant(&row(1, "user:ann", Rights::Read)).unwrap();
            store.commit().unwrap();
            group(&mut store, (false, true), |store| store.delete_node(directory).unwrap());
            assert_eq!(all(&store).len(), 2);
            group(&mut store, (true, true), |store| store.delete_node(directory).unwrap());
            assert_eq!(all(&store), [row(1, "user:ann", Rights::Read)]);
        }
    }
}
