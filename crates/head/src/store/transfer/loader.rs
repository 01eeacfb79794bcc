//! Filling an empty catalogue: from a backup, or from another catalogue.

use crate::store::{
    StoreResult,
    engine::{Cell, Engine, Shape},
    transfer::backup::content,
};
use base::{Failure, Result};
use std::collections::BTreeMap;
use wire::backup::{Content, Value, put_row};

/// The table whose row makes a catalogue one: it is written last where that must not happen early.
const LAST: &str = "facility";

/// A row that is kept for later: how it is written, and its cells as a backup has them.
pub(in crate::store) struct Withheld {
    sql: String,
    row: Vec<u8>,
    columns: usize,
}

/// Fills the tables of a catalogue, inside a transaction of its engine.
pub(in crate::store) struct Loader<'a> {
    engine: &'a dyn Engine,
    /// Tables that were not filled yet.
    left: BTreeMap<String, Shape>,
    current: Option<Current>,
    filled: Vec<(Shape, Content)>,
    withhold: bool,
    withheld: Vec<Withheld>,
}

struct Current {
    shape: Shape,
    sql: String,
    content: Content,
}

impl<'a> Loader<'a> {
    /// Fills the catalogue of `engine`; with `withhold` it does not become one before [`write_withheld`].
    pub(in crate::store) fn new(engine: &'a dyn Engine, withhold: bool) -> StoreResult<Self> {
        let shapes = engine.shapes()?.into_iter();
        let left: BTreeMap<_, _> = shapes.map(|shape| (shape.name.clone(), shape)).collect();
        // What the schema itself has put there.
        for table in left.keys() {
            engine.execute(&format!("DELETE FROM {table}"), &[])?;
        }
        Ok(Self { engine, left, current: None, filled: Vec::new(), withhold, withheld: Vec::new() })
    }

    /// The rows that follow belong to this table.
    pub(in crate::store) fn begin_table(&mut self, name: &str, columns: &[String]) -> Result<()> {
        self.end_table();
        // Names go into statements: only those that the schema has.
        let known = self.left.remove(name).filter(|shape| shape.columns == columns);
        let shape = known.ok_or_else(|| {
            Failure::corrupt(format!("table {name:?} is not one of this catalogue, or has other columns"))
                .hint("was it made by a release that was never published?")
        })?;
        let marks: Vec<_> = (1..=columns.len()).map(|number| format!("?{number}")).collect();
        let sql = format!("INSERT INTO {name} ({}) VALUES ({})", columns.join(", "), marks.join(", "));
        self.current = Some(Current { shape, sql, content: Content::default() });
        Ok(())
    }

    fn end_table(&mut self) {
        self.filled.extend(self.current.take().map(|current| (current.shape, current.content)));
    }

    /// Columns of the table under way; none if there is no table.
    pub(in crate::store) fn columns(&self) -> usize {
        self.current.as_ref().map_or(0, |current| current.shape.columns.len())
    }

    /// Adds a row to the table under way.
    pub(in crate::store) fn add(&mut self, row: &[Value<'_>]) -> StoreResult<()> {
        let Some(current) = &mut self.current else { return Ok(()) };
        let mut bytes = Vec::new();
        put_row(&mut bytes, row.iter().copied());
        current.content.add(&bytes);
        if self.withhold && current.shape.name == LAST {
            let (sql, columns) = (current.sql.clone(), row.len());
            self.withheld.push(Withheld { sql, row: bytes, columns });
            return Ok(());
        }
        let cells: Vec<_> = row.iter().copied().map(cell).collect();
        self.engine.execute(&current.sql, &cells)
    }

    /// Reads everything back, before it is committed, and compares it with what was to be there.
    pub(in crate::store) fn finish(mut self, expected: &BTreeMap<String, Content>) -> Result<Vec<Withheld>> {
        self.end_table();
        if let Some(forgotten) = self.left.keys().next() {
            return Err(Failure::corrupt(format!("the rows of table {forgotten} are missing"))
                .hint("take another backup"));
        }
        for (shape, given) in &self.filled {
            let is_withheld = self.withhold && shape.name == LAST;
            let found = if is_withheld { *given } else { content(self.engine, shape)? };
            if expected.get(&shape.name) != Some(&found) {
                let what =
                    format!("table {} differs from the backup: it has {} rows", shape.name, found.rows);
                return Err(Failure::corrupt(what).hint("nothing was restored; use another backup"));
            }
        }
        if self.filled.len() != expected.len() {
            return Err(Failure::corrupt("the backup names tables that it does not hold"));
        }
        Ok(self.withheld)
    }
}

/// Writes what was withheld.
pub(in crate::store) fn write_withheld(engine: &dyn Engine, rows: &[Withheld]) -> Result<()> {
    for withheld in rows {
        let row = wire::backup::take_row(&mut &withheld.row[..], withheld.columns)?;
        let cells: Vec<_> = row.into_iter().map(cell).collect();
        engine.execute(&withheld.sql, &cells)?;
    }
    Ok(())
}

fn cell(value: Value<'_>) -> Cell<'_> {
    match value {
        Value::Null => Cell::Null,
        Value::Integer(value) => Cell::Integer(value),
        Value::Real(value) => Cell::Real(value),
        Value::Text(text) => Cell::Text(text),
        Value::Blob(bytes) => Cell::Blob(bytes),
    }
}

/// Fills an empty catalogue with all that another one holds, inside a transaction of each.
pub(in crate::store) fn copy_all(from: &dyn Engine, to: &dyn Engine) -> Result<BTreeMap<String, Content>> {
    let mut loader = Loader::new(to, false)?;
    let mut contents = BTreeMap::new();
    for shape in from.shapes()? {
        loader.begin_table(&shape.name, &shape.columns)?;
        from.stream(&crate::store::transfer::backup::select(&shape), &mut |row| {
            let cells = (0..shape.columns.len())
                .map(|column| row.cell(column).map(crate::store::transfer::backup::value));
            loader.add(&cells.collect::<StoreResult<Vec<_>>>()?)
        })?;
        contents.insert(shape.name.clone(), content(from, &shape)?);
    }
    loader.finish(&contents)?;
    Ok(contents)
}
