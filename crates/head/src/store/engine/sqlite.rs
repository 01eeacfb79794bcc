//! The embedded engine: one file, write-ahead log, full sync.

mod schema;

pub(super) use schema::MIGRATIONS;

use super::{
    super::{StoreError, StoreResult},
    Cell, Cells, Engine, Row, Rows, Shape, Table,
};
use rusqlite::{
    Connection, OpenFlags, Statement, ToSql,
    config::DbConfig,
    types::{ToSqlOutput, ValueRef},
};
use std::{
    cell::Cell as Shared,
    path::{Path, PathBuf},
    sync::Arc,
};

/// Least memory for pages: what a statement needs at once.
const PAGES_KIB_MIN: usize = 1 << 10;

/// Columns that the other engine does without: long values have rows with a number here.
const OWN_COLUMNS: [(&str, &str); 1] = [("attribute", "id")];

/// A catalogue in one file.
pub(in crate::store) struct Sqlite {
    db: Connection,
    file: PathBuf,
    /// Also held by every snapshot that is read: as long as there is one, the file is not held alone.
    readers: Arc<()>,
    is_shared: Shared<bool>,
}

impl Sqlite {
    /// Opens a catalogue, or makes an empty one, and brings its schema up to date.
    pub(in crate::store) fn open(file: &Path, create: bool) -> StoreResult<Self> {
        Self::open_up_to(file, create, MIGRATIONS.len())
    }

    /// As [`Self::open`], but up to an older schema.
    pub(in crate::store) fn open_up_to(file: &Path, create: bool, schema: usize) -> StoreResult<Self> {
        let mut flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        flags.set(OpenFlags::SQLITE_OPEN_CREATE, create);
        let db = Connection::open_with_flags(file, flags)?;
        // Pages, unless somebody says otherwise: a directory of a million entries, in whatever order they were made, is listed from
        // memory. FULL: a commit is on the disk when it returns. EXCLUSIVE: nobody else may change it under us; said only once the
        // log is open, or it could not be taken back for snapshots.
        db.execute_batch(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA cache_size = -262144;
             PRAGMA temp_store = MEMORY; PRAGMA foreign_keys = OFF; SELECT count(*) FROM sqlite_schema;
             PRAGMA locking_mode = EXCLUSIVE; BEGIN IMMEDIATE; COMMIT",
        )?;
        // The same plan whatever is bound: otherwise many statements are parsed and planned anew for every new value.
        db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        db.set_prepared_statement_cache_capacity(256);
        migrate(&db, schema)?;
        Ok(Self::of(db, file, Arc::default()))
    }

    fn of(db: Connection, file: &Path, readers: Arc<()>) -> Self {
        Self { db, file: file.to_owned(), readers, is_shared: Shared::new(false) }
    }

    fn run(&self, sql: &str) -> StoreResult<()> {
        self.db.prepare_cached(sql)?.execute(())?;
        Ok(())
    }

    /// Holds the file alone again, once no snapshot is read any more.
    fn hold_alone(&self) -> StoreResult<()> {
        if self.is_shared.get() && Arc::strong_count(&self.readers) == 1 {
            self.db.execute_batch("PRAGMA locking_mode = EXCLUSIVE")?;
            self.is_shared.set(false);
        }
        Ok(())
    }
}

/// Brings the schema up to date.
fn migrate(db: &Connection, known: usize) -> StoreResult<()> {
    let found: usize = db.query_row("PRAGMA user_version", (), |row| row.get(0))?;
    if found > known {
        return Err(StoreError::Newer { found, known });
    }
    for (number, sql) in MIGRATIONS.iter().enumerate().take(known).skip(found) {
        db.execute_batch(&format!("BEGIN; {sql}; PRAGMA user_version = {}; COMMIT;", number + 1))?;
    }
    Ok(())
}

impl ToSql for Cell<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match *self {
            Cell::Null => ValueRef::Null,
            Cell::Integer(value) => ValueRef::Integer(value),
            Cell::Real(value) => ValueRef::Real(value),
            Cell::Text(text) => ValueRef::Text(text.as_bytes()),
            Cell::Blob(bytes) => ValueRef::Blob(bytes),
            Cell::Integers(_) | Cell::Texts(_) => return Err(rusqlite::Error::InvalidQuery),
        }))
    }
}

impl Cells for rusqlite::Row<'_> {
    fn cell(&self, column: usize) -> StoreResult<Cell<'_>> {
        Ok(match self.get_ref(column)? {
            ValueRef::Null => Cell::Null,
            ValueRef::Integer(value) => Cell::Integer(value),
            ValueRef::Real(value) => Cell::Real(value),
            ValueRef::Text(bytes) => Cell::Text(std::str::from_utf8(bytes).map_err(|cause| {
                StoreError::Damaged { what: format!("text in column {column}"), cause: cause.to_string() }
            })?),
            ValueRef::Blob(bytes) => Cell::Blob(bytes),
        })
    }
}

/// Binds `cells` to the parameters of a statement.
fn bind(statement: &mut Statement<'_>, cells: &[Cell<'_>]) -> StoreResult<()> {
    for (index, cell) in cells.iter().enumerate() {
        statement.raw_bind_parameter(index + 1, cell)?;
    }
    Ok(())
}

fn insert_sql(table: &Table) -> String {
    let marks: Vec<_> = (1..=table.columns.len()).map(|number| format!("?{number}")).collect();
    format!("INSERT INTO {} ({}) VALUES ({})", table.name, table.columns.join(", "), marks.join(", "))
}

fn update_sql(table: &Table) -> String {
    let columns = table.columns.iter().enumerate().skip(1);
    let sets: Vec<_> = columns.map(|(at, name)| format!("{name} = ?{}", at + 1)).collect();
    format!("UPDATE {} SET {} WHERE {} = ?1", table.name, sets.join(", "), table.columns[0])
}

impl Engine for Sqlite {
    fn execute(&self, sql: &str, params: &[Cell<'_>]) -> StoreResult<()> {
        self.count(sql, params).map(drop)
    }

    fn count(&self, sql: &str, params: &[Cell<'_>]) -> StoreResult<u64> {
        let mut statement = self.db.prepare_cached(sql)?;
        bind(&mut statement, params)?;
        Ok(statement.raw_execute()? as u64)
    }

    fn query(
        &self,
        sql: &str,
        params: &[Cell<'_>],
        each: &mut dyn FnMut(&Row<'_>) -> StoreResult<()>,
    ) -> StoreResult<()> {
        let mut statement = self.db.prepare_cached(sql)?;
        bind(&mut statement, params)?;
        let mut rows = statement.raw_query();
        while let Some(row) = rows.next()? {
            each(&Row(row))?;
        }
        Ok(())
    }

    fn insert(&self, rows: &Rows<'_>) -> StoreResult<()> {
        self.each_row(&insert_sql(rows.table), rows)
    }

    fn update(&self, rows: &Rows<'_>) -> StoreResult<()> {
        self.each_row(&update_sql(rows.table), rows)
    }

    fn delete(&self, table: &'static Table, keys: &[i64]) -> StoreResult<()> {
        let sql = format!("DELETE FROM {} WHERE {} = ?1", table.name, table.columns[0]);
        if keys.is_empty() {
            return Ok(());
        }
        let mut statement = self.db.prepare_cached(&sql)?;
        for key in keys {
            statement.execute((key,))?;
        }
        Ok(())
    }

    fn is_remote(&self) -> bool {
        false
    }

    fn is_in_transaction(&self) -> bool {
        !self.db.is_autocommit()
    }

    fn begin(&self) -> StoreResult<()> {
        self.hold_alone()?;
        self.run("BEGIN IMMEDIATE")
    }

    fn commit(&self) -> StoreResult<()> {
        self.run("COMMIT")
    }

    fn rollback(&self) -> StoreResult<()> {
        if self.is_in_transaction() {
            self.db.execute_batch("ROLLBACK")?;
        }
        Ok(())
    }

    fn mark(&self) -> StoreResult<()> {
        self.run("SAVEPOINT mark")
    }

    fn release_mark(&self) -> StoreResult<()> {
        self.run("RELEASE mark")
    }

    fn return_to_mark(&self) -> StoreResult<()> {
        self.run("ROLLBACK TO mark")?;
        self.release_mark()
    }

    fn shapes(&self) -> StoreResult<Vec<Shape>> {
        let mut shapes = Shape::collect(
            self,
            "SELECT t.name, c.name FROM pragma_table_list t JOIN pragma_table_info(t.name) c
             WHERE t.schema = 'main' AND t.type = 'table' AND t.name NOT LIKE 'sqlite_%' ORDER BY t.name, c.cid",
        )?;
        for (table, column) in OWN_COLUMNS {
            for shape in shapes.iter_mut().filter(|shape| shape.name == table) {
                shape.columns.retain(|name| name != column);
            }
        }
        Ok(shapes)
    }

    fn stream(&self, sql: &str, each: &mut dyn FnMut(&Row<'_>) -> StoreResult<()>) -> StoreResult<()> {
        self.query(sql, &[], each)
    }

    fn limit_cache(&self, bytes_max: usize) -> StoreResult<usize> {
        // In KiB, with the sign that says so.
        let kib = (bytes_max >> 10).max(PAGES_KIB_MIN);
        self.db.execute_batch(&format!("PRAGMA cache_size = -{kib}"))?;
        Ok(bytes_max)
    }

    fn be_patient(&self) -> StoreResult<()> {
        Ok(())
    }

    fn snapshot(&self) -> StoreResult<Box<dyn Engine>> {
        // The lock is given back with the read that follows.
        self.db.execute_batch("PRAGMA locking_mode = NORMAL; SELECT count(*) FROM sqlite_schema")?;
        self.is_shared.set(true);
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let db = Connection::open_with_flags(&self.file, flags)?;
        db.execute_batch("BEGIN; SELECT count(*) FROM sqlite_schema")?;
        Ok(Box::new(Self::of(db, &self.file, Arc::clone(&self.readers))))
    }

    fn is_fenced(&self) -> bool {
        false
    }

    fn set_incarnation(&self, _: u64) {
        // Nobody else can open the file meanwhile.
    }
}

impl Sqlite {
    fn each_row(&self, sql: &str, rows: &Rows<'_>) -> StoreResult<()> {
        if rows.is_empty() {
            return Ok(());
        }
        let mut statement = self.db.prepare_cached(sql)?;
        for row in rows.iter() {
            bind(&mut statement, row)?;
            statement.raw_execute()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{FacilityRow, Store};
    use base::{ErrorKind, FileId, Timestamp};
    use rusqlite::StatementStatus;

    fn facility() -> FacilityRow {
        let (id, name, owner) = ("f".into(), "test".into(), "ada".into());
        FacilityRow { id, name, owner, created: Timestamp(1), incarnation: 0 }
    }

    #[test]
    fn statements_are_planned_once_whatever_is_bound() {
        let dir = tempfile::tempdir().unwrap();
        let engine = Sqlite::open(&dir.path().join("c"), true).unwrap();
        for sql in [
            "SELECT q.id, n.size FROM request q JOIN node n ON n.id = q.file WHERE q.kind = ?1 AND q.file = ?2",
            "SELECT DISTINCT j.id FROM job_file f JOIN job j ON j.id = f.job WHERE f.file = ?2 AND j.state = ?1",
        ] {
            let mut statement = engine.db.prepare(sql).unwrap();
            for value in 0..5 {
                assert!(!statement.exists((value.to_string(), value)).unwrap());
            }
            assert_eq!(statement.get_status(StatementStatus::RePrepare), 0, "{sql}");
        }
    }

    #[test]
    fn what_a_disk_server_should_have_is_found_without_what_others_have() {
        let dir = tempfile::tempdir().unwrap();
        let engine = Sqlite::open(&dir.path().join("c"), true).unwrap();
        let sql = "EXPLAIN QUERY PLAN SELECT object FROM replica WHERE object > ?1 AND object <= ?2 AND partition = ?3
                   AND state IN ('online', 'lost')";
        let plan: String = engine.db.query_row(sql, (1, 2, "p"), |row| row.get(3)).unwrap();
        assert!(plan.contains("replica_here (partition=? AND object>? AND object<?)"), "{plan}");
    }

    #[test]
    fn a_newer_schema_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("catalogue.sqlite");
        Sqlite::open(&file, true).unwrap().db.execute_batch("PRAGMA user_version = 999").unwrap();
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
            // Since the third the head gives the ids, and what is to be deleted has a table.
            let deleted = if known < 3 {
                "INSERT INTO node (id, parent, name, kind, owner, grp, mode, modified)
                 VALUES (7, 1, 'f', 'file', 'ada', 'ada', 420, 1);
                 DELETE FROM node WHERE id = 7;
                 INSERT INTO replica (object, file, partition, state, owner, size, created, used)
                 VALUES (3, 7, 'p', 'removing', 'ada', 1, 1, 1);"
            } else {
                "UPDATE sequence SET next = 8 WHERE name = 'node'; INSERT INTO removal (object, partition) VALUES (3, 'p');"
            };
            old.execute_batch(&format!(
                "INSERT INTO facility VALUES (1, 'f', 'test', 'ada', 1, 0);
                 INSERT INTO node (id, parent, name, kind, owner, grp, mode, modified)
                 VALUES (1, 1, '/', 'directory', 'ada', 'ada', 493, 1);
                 {deleted}
                 PRAGMA user_version = {known}"
            ))
            .unwrap();
            drop(old);
            let mut store = Store::open(&file).unwrap();
            assert_eq!(store.facility().unwrap(), facility());
            assert_eq!(store.attributes(FileId(1)).unwrap(), []);
            assert_eq!(store.removals("p", 9).unwrap(), [base::ObjectId(3)]);
            store.begin();
            let kind = wire::control::NodeKind::File;
            let (parent, owner, now) = (FileId(1), "ada", Timestamp(1));
            let new = crate::store::NewNode { parent, name: "g", kind, owner, mode: 0, now };
            assert_eq!(store.insert_node(&new).unwrap(), FileId(8), "no number is used twice");
            store.commit().unwrap();
        }
    }
}
