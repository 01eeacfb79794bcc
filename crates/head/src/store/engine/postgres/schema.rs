//! Schema of the database: brought up to date, and what is to be known of its columns.

use super::{
    MIGRATION_LOCK, Postgres,
    value::{Value, integer, text},
};
use crate::store::{
    StoreError, StoreResult,
    engine::{Engine, Rows, Table},
};
use std::collections::HashMap;

/// Schema changes in order; the table `schema` counts those that were applied.
pub(in crate::store::engine) const MIGRATIONS: &[&str] = &[
    include_str!("../../migrations/postgres/0001.sql"),
    include_str!("../../migrations/postgres/0002.sql"),
    include_str!("../../migrations/postgres/0003.sql"),
    include_str!("../../migrations/postgres/0004.sql"),
    include_str!("../../migrations/postgres/0005.sql"),
    include_str!("../../migrations/postgres/0006.sql"),
    include_str!("../../migrations/postgres/0007.sql"),
    include_str!("../../migrations/postgres/0008.sql"),
    include_str!("../../migrations/postgres/0009.sql"),
    include_str!("../../migrations/postgres/0011.sql"),
    include_str!("../../migrations/postgres/0012.sql"),
    include_str!("../../migrations/postgres/0013.sql"),
    include_str!("../../migrations/postgres/0014.sql"),
    include_str!("../../migrations/postgres/0015.sql"),
    include_str!("../../migrations/postgres/0016.sql"),
    include_str!("../../migrations/postgres/0017.sql"),
    include_str!("../../migrations/postgres/0018.sql"),
    include_str!("../../migrations/postgres/0019.sql"),
    include_str!("../../migrations/postgres/0020.sql"),
    include_str!("../../migrations/postgres/0021.sql"),
    include_str!("../../migrations/postgres/0022.sql"),
    include_str!("../../migrations/postgres/0023.sql"),
    include_str!("../../migrations/postgres/0024.sql"),
    include_str!("../../migrations/postgres/0025.sql"),
    include_str!("../../migrations/postgres/0026.sql"),
    include_str!("../../migrations/postgres/0027.sql"),
    include_str!("../../migrations/postgres/0028.sql"),
    include_str!("../../migrations/postgres/0029.sql"),
    include_str!("../../migrations/postgres/0030.sql"),
    include_str!("../../migrations/postgres/0031.sql"),
    include_str!("../../migrations/postgres/0032.sql"),
    include_str!("../../migrations/postgres/0033.sql"),
    include_str!("../../migrations/postgres/0034.sql"),
    include_str!("../../migrations/postgres/0035.sql"),
    include_str!("../../migrations/postgres/0036.sql"),
    include_str!("../../migrations/postgres/0037.sql"),
    include_str!("../../migrations/postgres/0038.sql"),
];

impl Postgres {
    /// Whether there is no facility in a database. Changes nothing there.
    pub(in crate::store) fn is_vacant(url: &str) -> StoreResult<bool> {
        let engine = Self::attach(url)?;
        if !has_table(&engine, "facility")? {
            return Ok(true);
        }
        let mut is_vacant = true;
        engine.query("SELECT 1 FROM facility", &[], &mut |_| {
            is_vacant = false;
            Ok(())
        })?;
        Ok(is_vacant)
    }

    /// Brings the schema up to date.
    pub(super) fn migrate(&self, known: usize) -> StoreResult<()> {
        let session = self.session.borrow();
        let client = &session.client;
        self.runtime.block_on(async {
            client.batch_execute(&format!("SELECT pg_advisory_lock({MIGRATION_LOCK})")).await?;
            client.batch_execute("CREATE TABLE IF NOT EXISTS schema (version BIGINT NOT NULL)").await?;
            let found = client.query_opt("SELECT version FROM schema", &[]).await?;
            let found = found.map_or(0, |row| row.get::<_, i64>(0)) as usize;
            if found > known {
                return Err(StoreError::Newer { found, known });
            }
            for (number, sql) in MIGRATIONS.iter().enumerate().take(known).skip(found) {
                let version = number + 1;
                let mark = format!("DELETE FROM schema; INSERT INTO schema VALUES ({version})");
                client.batch_execute(&format!("BEGIN; {sql}; {mark}; COMMIT")).await?;
            }
            client.batch_execute(&format!("SELECT pg_advisory_unlock({MIGRATION_LOCK})")).await?;
            Ok(())
        })
    }

    /// Learns which columns hold texts: arrays of rows have to say so.
    pub(super) fn read_columns(&self) -> StoreResult<()> {
        const SQL: &str =
            "SELECT CAST(table_name AS TEXT), CAST(column_name AS TEXT), CAST(data_type AS TEXT)
             FROM information_schema.columns WHERE table_schema = current_schema()";
        let mut texts = HashMap::new();
        self.query(SQL, &[], &mut |row| {
            let (table, column, kind): (&str, &str, &str) = (row.get(0)?, row.get(1)?, row.get(2)?);
            texts.insert(format!("{table}.{column}"), kind == "text");
            Ok(())
        })?;
        *self.texts.borrow_mut() = texts;
        Ok(())
    }

    fn is_text(&self, table: &Table, column: &str) -> bool {
        self.texts.borrow().get(&format!("{}.{column}", table.name)).copied().unwrap_or(false)
    }

    /// The parts of `unnest` for all columns of a table: `$1::bigint[], $2::text[]`.
    pub(super) fn arrays(&self, table: &Table) -> String {
        let part = |(at, column): (usize, &&str)| {
            let kind = if self.is_text(table, column) { "text" } else { "bigint" };
            format!("?{}::{kind}[]", at + 1)
        };
        table.columns.iter().enumerate().map(part).collect::<Vec<_>>().join(", ")
    }

    /// Rows as one array for each column.
    pub(super) fn transpose(&self, rows: &Rows<'_>) -> Vec<Value> {
        let column = |(at, name): (usize, &&str)| {
            let cells = rows.iter().map(|row| row[at]);
            if self.is_text(rows.table, name) {
                Value::Texts(cells.map(|cell| text(cell).map(str::to_owned)).collect())
            } else {
                Value::Integers(cells.map(integer).collect())
            }
        };
        rows.table.columns.iter().enumerate().map(column).collect()
    }
}

/// Whether the schema has a table.
pub(in crate::store) fn has_table(engine: &dyn Engine, table: &str) -> StoreResult<bool> {
    Ok(engine.shapes()?.iter().any(|shape| shape.name == table))
}
