//! The interface of a database engine. Statements are written once, in the common subset of SQLite and PostgreSQL:
//! parameters are `?1`, numbers are `BIGINT` or `DOUBLE PRECISION`, sums are cast, conflicts name their columns.

mod address;
mod cell;
#[cfg(test)]
pub(crate) mod database_tests;
pub(crate) mod leadership;
#[cfg(test)]
pub(crate) mod leadership_tests;
mod postgres;
mod sqlite;

pub(super) use address::Address;
use cell::Cells;
pub(super) use cell::{Cell, Params, Row, ToCell};
pub(super) use postgres::{Postgres, has_table};
pub(super) use sqlite::Sqlite;

use super::StoreResult;

/// What the database says to a head that another one has taken over from; see `migrations/postgres`.
pub(super) const FENCED: &str = "BPF01";

/// A table whose rows the head writes in batches.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) name: &'static str,
    /// The first is the primary key, an integer.
    pub(super) columns: &'static [&'static str],
}

/// Rows of a [`Table`], one after the other.
#[derive(Debug)]
pub(super) struct Rows<'a> {
    pub(super) table: &'static Table,
    pub(super) cells: Vec<Cell<'a>>,
}

impl<'a> Rows<'a> {
    pub(super) fn new(table: &'static Table) -> Self {
        Self { table, cells: Vec::new() }
    }

    /// Adds a row with all its columns.
    pub(super) fn push<const COLUMNS: usize>(&mut self, row: [Cell<'a>; COLUMNS]) {
        assert_eq!(COLUMNS, self.table.columns.len(), "{} has other columns", self.table.name);
        self.cells.extend(row);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    /// The rows.
    fn iter(&self) -> impl Iterator<Item = &[Cell<'a>]> {
        self.cells.chunks_exact(self.table.columns.len())
    }
}

/// A table as the schema has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) name: String,
    pub(super) columns: Vec<String>,
}

impl Shape {
    /// Reads rows of tables and columns, ordered by table.
    fn collect(engine: &dyn Engine, sql: &str) -> StoreResult<Vec<Self>> {
        let mut shapes: Vec<Self> = Vec::new();
        engine.query(sql, &[], &mut |row| {
            let (table, column): (&str, String) = (row.get(0)?, row.get(1)?);
            match shapes.last_mut().filter(|shape| shape.name == table) {
                Some(shape) => shape.columns.push(column),
                None => shapes.push(Self { name: table.to_owned(), columns: vec![column] }),
            }
            Ok(())
        })?;
        Ok(shapes)
    }
}

/// The schemas that this release makes, by engine. Those of one release hold the same.
pub(super) fn schemas() -> [(&'static str, usize); 2] {
    [("sqlite", sqlite::MIGRATIONS.len()), ("postgresql", postgres::MIGRATIONS.len())]
}

/// A database under a catalogue.
pub(super) trait Engine: Send {
    /// Carries out a statement. What goes wrong may be told by a later call, by the commit at the latest.
    fn execute(&self, sql: &str, params: &[Cell<'_>]) -> StoreResult<()>;

    /// Carries out a statement now; yields how many rows it changed.
    fn count(&self, sql: &str, params: &[Cell<'_>]) -> StoreResult<u64>;

    /// Gives each row of a query to `each`.
    fn query(
        &self,
        sql: &str,
        params: &[Cell<'_>],
        each: &mut dyn FnMut(&Row<'_>) -> StoreResult<()>,
    ) -> StoreResult<()>;

    /// Adds rows.
    fn insert(&self, rows: &Rows<'_>) -> StoreResult<()>;

    /// Replaces all columns of rows that have these keys.
    fn update(&self, rows: &Rows<'_>) -> StoreResult<()>;

    /// Deletes the rows that have these keys.
    fn delete(&self, table: &'static Table, keys: &[i64]) -> StoreResult<()>;

    /// Whether a query costs as much as many rows: then one asks for many at once.
    fn is_remote(&self) -> bool;

    /// Whether a transaction is open: an engine may give one up by itself.
    fn is_in_transaction(&self) -> bool;

    /// Begins a transaction.
    fn begin(&self) -> StoreResult<()>;

    /// Makes it durable.
    fn commit(&self) -> StoreResult<()>;

    /// Gives it up, if one is open.
    fn rollback(&self) -> StoreResult<()>;

    /// Marks the point to which [`Self::return_to_mark`] goes back; there is one at a time.
    fn mark(&self) -> StoreResult<()>;

    /// Forgets the mark.
    fn release_mark(&self) -> StoreResult<()>;

    /// Undoes what was done since the mark, and forgets it.
    fn return_to_mark(&self) -> StoreResult<()>;

    /// All tables with their columns, by name, but for what only this engine needs.
    fn shapes(&self) -> StoreResult<Vec<Shape>>;

    /// As [`Self::query`] without parameters, inside a transaction; holds few rows at a time.
    fn stream(&self, sql: &str, each: &mut dyn FnMut(&Row<'_>) -> StoreResult<()>) -> StoreResult<()>;

    /// Says how many bytes of the database it may keep in memory; yields how many it makes use of.
    fn limit_cache(&self, bytes_max: usize) -> StoreResult<usize>;

    /// A transaction may rest while others work: for long copies, not for a head.
    fn be_patient(&self) -> StoreResult<()>;

    /// A way to what is committed now and to nothing that comes later, inside a transaction of its own.
    fn snapshot(&self) -> StoreResult<Box<dyn Engine>>;

    /// Whether what was begun last is refused because another head has taken over.
    fn is_fenced(&self) -> bool;

    /// From now on commits only as long as the head with this number is the last that was started.
    fn set_incarnation(&self, mine: u64);
}
