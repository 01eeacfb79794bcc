//! The only SQL of the facility: one SQLite file, write-ahead log, full sync.
//!
//! One thread owns the [`Store`]. Callers group their changes between [`Store::begin`] and [`Store::commit`]; what was
//! not committed was never acknowledged. A group or a call that changes nothing costs no transaction.

mod accounts;
mod attributes;
mod changes;
mod jobs;
mod node_cache;
mod nodes;
mod replicas;
mod requests;
mod volumes;

pub(crate) use accounts::Charge;
pub(crate) use jobs::{JobFileRole, JobRow, WorkerRow};
pub(crate) use nodes::{NewNode, Node};
pub(crate) use replicas::{Replica, ReplicaState};
pub(crate) use requests::{RequestRow, SessionRow};
pub(crate) use volumes::{CopyRow, DriveRow, VolumeRow};

use base::{ErrorKind, Failure, Timestamp};
use changes::Changes;
use rusqlite::{Connection, OpenFlags, Params, Row, config::DbConfig};
use serde::de::IntoDeserializer;
use std::{
    cell::Cell,
    path::Path,
    sync::{Arc, atomic::AtomicU64},
};

/// Schema changes in order; the database's `user_version` counts those that were applied.
const MIGRATIONS: &[&str] = &[include_str!("migrations/0001.sql"), include_str!("migrations/0002.sql")];

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
    db: Connection,
    changes: Changes,
    /// What the caller began.
    wanted: Cell<Depth>,
    /// What the engine was told of it: it is told when the first row is written.
    entered: Cell<Depth>,
    /// Where the changes of the call under way begin.
    call_mark: Cell<usize>,
}

impl Store {
    /// Makes the catalogue of a new facility at `file`, which must not exist, with the root directory.
    pub fn create(file: &Path, facility: &FacilityRow) -> Result<Self, Failure> {
        if file.exists() {
            return Err(Failure::exists(format!("catalogue {} exists", file.display())));
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
        let mut db = connect(file, flags)?;
        migrate(&mut db)?;
        let mut store = Self::new(db)?;
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
        let mut db = connect(file, OpenFlags::SQLITE_OPEN_READ_WRITE)
            .map_err(|error| Failure::from(error).during(format!("open {}", file.display())))?;
        migrate(&mut db)?;
        Ok(Self::new(db)?)
    }

    fn new(db: Connection) -> StoreResult<Self> {
        let changes = Changes::watch(&db)?;
        let outside = || Cell::new(Depth::Outside);
        Ok(Self { db, changes, wanted: outside(), entered: outside(), call_mark: Cell::new(0) })
    }

    /// The version of the namespace, raised by [`Self::commit`]; see [`crate::Head::namespace_version`].
    pub(crate) fn namespace_version(&self) -> Arc<AtomicU64> {
        self.changes.version()
    }

    /// Starts a group of changes.
    pub fn begin(&mut self) {
        debug_assert_eq!(self.wanted.get(), Depth::Outside);
        self.wanted.set(Depth::Group);
    }

    /// Makes the group durable, and says so to those who keep answers about the namespace.
    pub fn commit(&mut self) -> StoreResult<()> {
        if self.entered.get() > Depth::Outside {
            self.db.prepare_cached("COMMIT")?.execute(())?;
        }
        self.leave();
        self.changes.commit();
        Ok(())
    }

    /// Forgets the group. Also right when the engine has rolled back by itself, as it does on a full disk.
    pub fn rollback(&mut self) -> StoreResult<()> {
        self.leave();
        self.changes.undo_to(0);
        if !self.db.is_autocommit() {
            self.db.execute_batch("ROLLBACK")?;
        }
        Ok(())
    }

    fn leave(&self) {
        self.wanted.set(Depth::Outside);
        self.entered.set(Depth::Outside);
    }

    /// Starts one call inside the group, so that a refused call leaves nothing behind.
    pub fn begin_call(&mut self) {
        debug_assert_eq!(self.wanted.get(), Depth::Group);
        self.wanted.set(Depth::Call);
        self.call_mark.set(self.changes.mark());
    }

    /// Ends the call: keeps its changes or drops them.
    pub fn end_call(&mut self, keep: bool) -> StoreResult<()> {
        self.wanted.set(Depth::Group);
        if self.entered.get() < Depth::Call {
            return Ok(());
        }
        if !keep {
            self.changes.undo_to(self.call_mark.get());
            self.db.prepare_cached("ROLLBACK TO call")?.execute(())?;
        }
        self.db.prepare_cached("RELEASE call")?.execute(())?;
        self.entered.set(Depth::Group);
        Ok(())
    }

    /// Enters what the caller began, before the first row is written.
    fn enter(&self) -> StoreResult<()> {
        let (wanted, entered) = (self.wanted.get(), self.entered.get());
        // What is written now would be durable alone, while the rest of the group is reported as failed.
        if entered > Depth::Outside && self.db.is_autocommit() {
            return Err(StoreError::RolledBack);
        }
        if entered >= wanted {
            return Ok(());
        }
        if entered == Depth::Outside {
            self.db.prepare_cached("BEGIN IMMEDIATE")?.execute(())?;
            self.entered.set(Depth::Group);
        }
        if wanted == Depth::Call {
            self.db.prepare_cached("SAVEPOINT call")?.execute(())?;
            self.entered.set(Depth::Call);
        }
        Ok(())
    }

    /// Rows changed since the store was opened.
    pub fn changes(&self) -> u64 {
        self.db.total_changes()
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

    /// Writes. Every change of the catalogue comes through here.
    fn run(&self, sql: &str, params: impl Params) -> StoreResult<usize> {
        self.enter()?;
        Ok(self.db.prepare_cached(sql)?.execute(params)?)
    }

    fn insert(&self, sql: &str, params: impl Params) -> StoreResult<u64> {
        self.run(sql, params)?;
        Ok(self.db.last_insert_rowid().unsigned_abs())
    }

    fn one<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    ) -> StoreResult<T> {
        Ok(self.db.prepare_cached(sql)?.query_row(params, read)?)
    }

    fn maybe<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    ) -> StoreResult<Option<T>> {
        match self.db.prepare_cached(sql)?.query_row(params, read) {
            Ok(value) => Ok(Some(value)),
            Err(rusqlite::Error::QueryReturnedNoRows) => Ok(None),
            Err(cause) => Err(cause.into()),
        }
    }

    fn all<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> StoreResult<Vec<T>> {
        let mut statement = self.db.prepare_cached(sql)?;
        let rows = statement.query_map(params, read)?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }
}

fn connect(file: &Path, flags: OpenFlags) -> StoreResult<Connection> {
    let db = Connection::open_with_flags(file, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    // FULL: a commit is on the disk when it returns. EXCLUSIVE: nobody else may change it under us.
    db.execute_batch(
        "PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
         PRAGMA cache_size = -65536; PRAGMA temp_store = MEMORY; PRAGMA foreign_keys = OFF;",
    )?;
    // The same plan whatever is bound: otherwise many statements are parsed and planned anew for every new value.
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    db.set_prepared_statement_cache_capacity(256);
    Ok(db)
}

/// Brings the schema up to date.
fn migrate(db: &mut Connection) -> StoreResult<()> {
    let found: usize = db.query_row("PRAGMA user_version", (), |row| row.get(0))?;
    if found > MIGRATIONS.len() {
        return Err(StoreError::Newer { found, known: MIGRATIONS.len() });
    }
    for (number, sql) in MIGRATIONS.iter().enumerate().skip(found) {
        db.execute_batch(&format!("BEGIN; {sql}; PRAGMA user_version = {}; COMMIT;", number + 1))?;
    }
    Ok(())
}

/// Reads a stored word into its enum.
fn word<T: serde::de::DeserializeOwned>(row: &Row<'_>, column: usize) -> rusqlite::Result<T> {
    let text = row.get_ref(column)?.as_str()?;
    let read: Result<T, serde::de::value::Error> = T::deserialize(text.into_deserializer());
    read.map_err(|cause| {
        rusqlite::Error::FromSqlConversionFailure(column, rusqlite::types::Type::Text, Box::new(cause))
    })
}

/// Reads a stored JSON document.
fn document<T: serde::de::DeserializeOwned>(row: &Row<'_>, column: usize) -> rusqlite::Result<T> {
    let text: String = row.get(column)?;
    document_text(column, &text)
}

/// Reads a stored JSON document that may be NULL.
fn maybe_document<T: serde::de::DeserializeOwned>(
    row: &Row<'_>,
    column: usize,
) -> rusqlite::Result<Option<T>> {
    let text: Option<String> = row.get(column)?;
    text.map(|text| document_text(column, &text)).transpose()
}

fn document_text<T: serde::de::DeserializeOwned>(column: usize, text: &str) -> rusqlite::Result<T> {
    serde_json::from_str(text).map_err(|cause| {
        rusqlite::Error::FromSqlConversionFailure(column, rusqlite::types::Type::Text, Box::new(cause))
    })
}

/// Writes a document for a TEXT column.
fn json<T: serde::Serialize>(value: &T) -> String {
    serde_json::to_string(value).expect("plain data always serialises")
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::StatementStatus;

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
    fn statements_are_planned_once_whatever_is_bound() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::create(&dir.path().join("c"), &facility()).unwrap();
        for sql in [
            "SELECT q.id, n.size FROM request q JOIN node n ON n.id = q.file WHERE q.kind = ?1 AND q.file = ?2",
            "SELECT DISTINCT j.id FROM job_file f JOIN job j ON j.id = f.job WHERE f.file = ?2 AND j.state = ?1",
        ] {
            let mut statement = store.db.prepare(sql).unwrap();
            for value in 0..5 {
                assert!(!statement.exists((value.to_string(), value)).unwrap());
            }
            assert_eq!(statement.get_status(StatementStatus::RePrepare), 0, "{sql}");
        }
    }

    #[test]
    fn a_newer_schema_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("catalogue.sqlite");
        let store = Store::create(&file, &facility()).unwrap();
        store.db.execute_batch("PRAGMA user_version = 999").unwrap();
        drop(store);
        assert_eq!(Store::open(&file).err().unwrap().kind, ErrorKind::Unsupported);
    }

    #[test]
    fn a_catalogue_of_every_older_schema_is_brought_up_to_date() {
        for known in 1..MIGRATIONS.len() {
            let dir = tempfile::tempdir().unwrap();
            let file = dir.path().join("catalogue.sqlite");
            let old = Connection::open(&file).unwrap();
            for sql in &MIGRATIONS[..known] {
                old.execute_batch(sql).unwrap();
            }
            old.execute_batch(&format!(
                "INSERT INTO facility VALUES (1, 'f', 'test', 'ada', 1, 0); PRAGMA user_version = {known}"
            ))
            .unwrap();
            drop(old);
            let store = Store::open(&file).unwrap();
            assert_eq!(store.facility().unwrap(), facility());
            assert_eq!(store.attributes(base::FileId(1)).unwrap(), []);
        }
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
