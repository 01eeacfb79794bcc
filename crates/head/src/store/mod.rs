//! The only SQL of the facility, and the rows that are kept in memory in front of it.
//!
//! One thread owns the [`Store`]. Callers group their changes between [`Store::begin`] and [`Store::commit`]; what was
//! not committed was never acknowledged. A group or a call that changes nothing costs no transaction. What changes often is
//! changed in memory and written when the group commits (`pending`, `flush`).

mod accounts;
mod attributes;
mod engine;
mod flush;
mod ids;
mod jobs;
mod node_cache;
mod nodes;
mod partitions;
mod pending;
mod replicas;
mod requests;
#[cfg(test)]
mod row_tests;
mod volumes;

pub(crate) use accounts::Charge;
pub(crate) use jobs::{JobFileRole, JobRow, WorkerRow};
pub(crate) use nodes::{NewNode, Node};
pub(crate) use replicas::{Replica, ReplicaState};
pub(crate) use requests::{RequestRow, SessionRow};
pub(crate) use volumes::{CopyRow, DriveRow, VolumeRow};

use base::{ErrorKind, Failure, Timestamp};
use engine::{Engine, Params, Row, Sqlite};
use ids::AllIds;
use node_cache::NodeCache;
use pending::Pending;
use serde::de::IntoDeserializer;
use std::{
    cell::{Cell, RefCell},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

/// What the database refused, or what is wrong with it.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The engine failed.
    #[error("catalogue: {0}")]
    Sqlite(#[from] rusqlite::Error),
    /// A stored document cannot be read.
    #[error("catalogue: {what} is damaged: {cause}")]
    Damaged {
        /// Which one.
        what: String,
        /// Why.
        cause: String,
    },
    /// The file was written by a newer release.
    #[error("catalogue has schema {found}, this release knows up to {known}")]
    Newer {
        /// In the file.
        found: usize,
        /// Here.
        known: usize,
    },
    /// The engine gave the group up by itself, as it does on a full disk.
    #[error("catalogue: the group of changes was rolled back by the engine")]
    RolledBack,
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        use rusqlite::ErrorCode as Code;
        let (kind, hint) = match &error {
            StoreError::Sqlite(cause) => match cause.sqlite_error_code() {
                Some(Code::DiskFull) => {
                    (ErrorKind::NoSpace, "free space on the disk that holds the catalogue")
                }
                Some(Code::DatabaseCorrupt | Code::NotADatabase) => {
                    (ErrorKind::Corrupt, "restore the catalogue from its backup")
                }
                Some(Code::DatabaseBusy | Code::DatabaseLocked) => {
                    (ErrorKind::Busy, "another process has the catalogue open")
                }
                _ => (ErrorKind::Io, "look at the disk that holds the catalogue"),
            },
            StoreError::Damaged { .. } => (ErrorKind::Corrupt, "restore the catalogue from its backup"),
            StoreError::RolledBack => (ErrorKind::Io, "look at the disk that holds the catalogue"),
            StoreError::Newer { .. } => (ErrorKind::Unsupported, "use the newer release"),
        };
        Self::new(kind, error.to_string()).hint(hint)
    }
}

/// Result of a store operation.
pub type StoreResult<T> = Result<T, StoreError>;

/// The facility's row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FacilityRow {
    /// Id made at creation.
    pub id: String,
    /// Name given at creation.
    pub name: String,
    /// Who may do everything.
    pub owner: String,
    /// When it was made.
    pub created: Timestamp,
    /// Starts of the head.
    pub incarnation: u64,
}

/// How deep inside transactions the store is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Depth {
    /// Every statement is its own transaction.
    Outside,
    /// In a group of calls: a transaction.
    Group,
    /// In a call of the group: a savepoint.
    Call,
}

/// The catalogue.
pub struct Store {
    engine: Box<dyn Engine>,
    /// Files that were read lately, as they were last committed.
    cache: RefCell<NodeCache>,
    /// Changes of the group under way.
    pending: RefCell<Pending>,
    ids: AllIds,
    /// What the caller began.
    wanted: Cell<Depth>,
    /// What the engine was told of it: it is told when the first row is written.
    entered: Cell<Depth>,
    version: Arc<AtomicU64>,
    changes: Cell<u64>,
}

impl Store {
    /// Makes the catalogue of a new facility at `file`, which must not exist, with the root directory.
    pub fn create(file: &Path, facility: &FacilityRow) -> Result<Self, Failure> {
        if file.exists() {
            return Err(Failure::exists(format!("catalogue {} exists", file.display())));
        }
        let mut store = Self::new(Box::new(Sqlite::open(file, true)?));
        store.begin();
        store.run(
            "INSERT INTO facility VALUES (1, ?1, ?2, ?3, ?4, ?5)",
            (&facility.id, &facility.name, &facility.owner, facility.created.0, facility.incarnation),
        )?;
        store.run(
            "INSERT INTO node (id, parent, name, kind, owner, grp, mode, modified)
             VALUES (1, 1, '/', 'directory', ?1, ?1, 493, ?2)",
            (&facility.owner, facility.created.0),
        )?;
        store.commit()?;
        Ok(store)
    }

    /// Opens an existing catalogue. Never makes one.
    pub fn open(file: &Path) -> Result<Self, Failure> {
        let engine = Sqlite::open(file, false)
            .map_err(|error| Failure::from(error).during(format!("open {}", file.display())))?;
        Ok(Self::new(Box::new(engine)))
    }

    fn new(engine: Box<dyn Engine>) -> Self {
        Self {
            engine,
            cache: RefCell::default(),
            pending: RefCell::default(),
            ids: AllIds::default(),
            wanted: Cell::new(Depth::Outside),
            entered: Cell::new(Depth::Outside),
            version: Arc::new(AtomicU64::new(1)),
            changes: Cell::new(0),
        }
    }

    /// The version of the namespace, raised by [`Self::commit`]; see [`crate::Head::namespace_version`].
    pub(crate) fn namespace_version(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.version)
    }

    /// Starts a group of changes.
    pub fn begin(&mut self) {
        debug_assert_eq!(self.wanted.get(), Depth::Outside);
        self.wanted.set(Depth::Group);
    }

    /// Makes the group durable, and says so to those who keep answers about the namespace.
    pub fn commit(&mut self) -> StoreResult<()> {
        self.flush()?;
        if self.entered.get() > Depth::Outside {
            self.engine.commit()?;
        }
        self.leave();
        let (files, is_visible) = self.pending.get_mut().commit();
        let cache = self.cache.get_mut();
        for (id, now) in files {
            cache.forget(id);
            if let Some(node) = now {
                cache.insert(&node);
            }
        }
        // Whoever waits for the group is answered after this.
        if is_visible {
            self.version.fetch_add(1, Ordering::Release);
        }
        Ok(())
    }

    /// Forgets the group. Also right when the engine has rolled back by itself, as it does on a full disk.
    pub fn rollback(&mut self) -> StoreResult<()> {
        self.leave();
        self.pending.get_mut().forget();
        self.ids.forget();
        self.engine.rollback()
    }

    fn leave(&self) {
        self.wanted.set(Depth::Outside);
        self.entered.set(Depth::Outside);
    }

    /// Starts one call inside the group, so that a refused call leaves nothing behind.
    pub fn begin_call(&mut self) {
        debug_assert_eq!(self.wanted.get(), Depth::Group);
        self.wanted.set(Depth::Call);
        self.pending.get_mut().begin_call();
    }

    /// Ends the call: keeps its changes or drops them.
    pub fn end_call(&mut self, keep: bool) -> StoreResult<()> {
        self.wanted.set(Depth::Group);
        if !keep {
            for (sequence, ids) in self.pending.get_mut().undo_call() {
                self.ids.set(sequence, Some(ids));
            }
        }
        if self.entered.get() < Depth::Call {
            return Ok(());
        }
        self.entered.set(Depth::Group);
        if keep { self.engine.release_mark() } else { self.engine.return_to_mark() }
    }

    /// Enters what the caller began, before the first row is written.
    fn enter(&self) -> StoreResult<()> {
        let (wanted, entered) = (self.wanted.get(), self.entered.get());
        // What is written now would be durable alone, while the rest of the group is reported as failed.
        if entered > Depth::Outside && !self.engine.is_in_transaction() {
            return Err(StoreError::RolledBack);
        }
        if entered >= wanted {
            return Ok(());
        }
        if entered == Depth::Outside {
            self.engine.begin()?;
            self.entered.set(Depth::Group);
        }
        if wanted == Depth::Call {
            self.engine.mark()?;
            self.entered.set(Depth::Call);
        }
        Ok(())
    }

    /// Changes since the store was opened.
    pub fn changes(&self) -> u64 {
        self.changes.get()
    }

    fn count_change(&self) {
        debug_assert!(self.wanted.get() > Depth::Outside, "a change outside a group is never written");
        self.changes.set(self.changes.get() + 1);
    }

    /// The facility's row.
    pub fn facility(&self) -> StoreResult<FacilityRow> {
        self.one("SELECT id, name, owner, created, incarnation FROM facility", (), |row| {
            Ok(FacilityRow {
                id: row.get(0)?,
                name: row.get(1)?,
                owner: row.get(2)?,
                created: Timestamp(row.get(3)?),
                incarnation: row.get(4)?,
            })
        })
    }

    /// Counts a start of the head.
    pub fn next_incarnation(&mut self) -> StoreResult<u64> {
        self.run("UPDATE facility SET incarnation = incarnation + 1", ())?;
        Ok(self.facility()?.incarnation)
    }

    /// Carries out a statement that changes rows; yields how many.
    fn run(&self, sql: &str, params: impl Params) -> StoreResult<u64> {
        self.enter()?;
        self.count_change();
        params.with(|params| self.engine.execute(sql, params))
    }

    /// The rows of a query, of tables that are not changed in memory or were not changed there.
    fn all_now<T>(
        &self,
        sql: &str,
        params: impl Params,
        mut read: impl FnMut(&Row<'_>) -> StoreResult<T>,
    ) -> StoreResult<Vec<T>> {
        let mut rows = Vec::new();
        params.with(|params| {
            self.engine.query(sql, params, &mut |row| {
                rows.push(read(row)?);
                Ok(())
            })
        })?;
        Ok(rows)
    }

    /// As [`Self::all_now`], for a query that finds one row at most.
    fn maybe_now<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnMut(&Row<'_>) -> StoreResult<T>,
    ) -> StoreResult<Option<T>> {
        Ok(self.all_now(sql, params, read)?.into_iter().next())
    }

    /// As [`Self::all_now`], for a query that finds one row.
    fn one_now<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnMut(&Row<'_>) -> StoreResult<T>,
    ) -> StoreResult<T> {
        self.maybe_now(sql, params, read)?.ok_or_else(|| StoreError::Damaged {
            what: format!("`{sql}`"),
            cause: "finds nothing".to_owned(),
        })
    }

    /// The rows of a query.
    fn all<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnMut(&Row<'_>) -> StoreResult<T>,
    ) -> StoreResult<Vec<T>> {
        self.flush()?;
        self.all_now(sql, params, read)
    }

    fn maybe<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnMut(&Row<'_>) -> StoreResult<T>,
    ) -> StoreResult<Option<T>> {
        self.flush()?;
        self.maybe_now(sql, params, read)
    }

    fn one<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnMut(&Row<'_>) -> StoreResult<T>,
    ) -> StoreResult<T> {
        self.flush()?;
        self.one_now(sql, params, read)
    }
}

/// Reads a stored word into its enum.
fn word<T: serde::de::DeserializeOwned>(row: &Row<'_>, column: usize) -> StoreResult<T> {
    row.parse(column, |text| {
        let read: Result<T, serde::de::value::Error> = T::deserialize(text.into_deserializer());
        read
    })
}

/// Reads a stored JSON document.
fn document<T: serde::de::DeserializeOwned>(row: &Row<'_>, column: usize) -> StoreResult<T> {
    row.parse(column, |text| serde_json::from_str(text))
}

/// Reads a stored JSON document that may be NULL.
fn maybe_document<T: serde::de::DeserializeOwned>(row: &Row<'_>, column: usize) -> StoreResult<Option<T>> {
    let text: Option<&str> = row.get(column)?;
    text.map(|_| document(row, column)).transpose()
}

/// Writes a document for a TEXT column.
fn json<T: serde::Serialize>(value: &T) -> String {
    serde_json::to_string(value).expect("plain data always serialises")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facility() -> FacilityRow {
        FacilityRow {
            id: "f".into(),
            name: "test".into(),
            owner: "ada".into(),
            created: Timestamp(1),
            incarnation: 0,
        }
    }

    #[test]
    fn create_refuses_what_exists_and_open_what_does_not() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("catalogue.sqlite");
        assert!(Store::open(&file).is_err());
        assert!(!file.exists(), "opening never makes a catalogue");
        drop(Store::create(&file, &facility()).unwrap());
        assert_eq!(Store::create(&file, &facility()).err().unwrap().kind, ErrorKind::Exists);
        assert_eq!(Store::open(&file).unwrap().facility().unwrap(), facility());
    }

    #[test]
    fn a_refused_call_leaves_nothing_and_the_group_goes_on() {
        let dir = tempfile::tempdir().unwrap();
        let mut store = Store::create(&dir.path().join("c"), &facility()).unwrap();
        store.begin();
        for keep in [true, false] {
            store.begin_call();
            store.next_incarnation().unwrap();
            store.end_call(keep).unwrap();
        }
        store.commit().unwrap();
        assert_eq!(store.facility().unwrap().incarnation, 1);
    }
}
