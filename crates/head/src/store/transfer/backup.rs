//! Backups: what a snapshot of the catalogue holds, as a stream that either engine can be filled from.

use crate::store::{
    StoreError, StoreResult,
    engine::{Cell, Engine, Row, Shape, schemas},
};
use base::{Failure, Result, Timestamp};
use std::collections::BTreeMap;
use wire::backup::{self, Begin, Content, End, Frame, Rows, Value, put_row};

/// Bytes of rows that are packed together.
const PACK_BYTES: usize = 1 << 20;
/// How hard zstd tries: its default.
const PACK_LEVEL: i32 = 3;

/// The catalogue as it was at one moment; it can be read while the head goes on.
pub struct Snapshot {
    engine: Box<dyn Engine>,
    taken: Timestamp,
}

/// Who takes what is written; an error ends the backup.
pub type Sink<'a> = dyn FnMut(Vec<u8>) -> Result<()> + 'a;

impl Snapshot {
    pub(in crate::store) fn new(engine: Box<dyn Engine>, taken: Timestamp) -> Self {
        Self { engine, taken }
    }

    /// Writes the backup; yields how many rows it has.
    pub fn write(self, to: &mut Sink<'_>) -> Result<u64> {
        let mut put = |frame: &Frame| {
            let mut bytes = Vec::new();
            frame.put(&mut bytes);
            to(bytes)
        };
        put(&Frame::Begin(self.begin()?))?;
        let mut tables = BTreeMap::new();
        for shape in self.engine.shapes()? {
            put(&Frame::Table(backup::Table { table: shape.name.clone(), columns: shape.columns.clone() }))?;
            let content = write_rows(&*self.engine, &shape, &mut put)?;
            tables.insert(shape.name, content);
        }
        let rows = tables.values().map(|content| content.rows).sum();
        put(&Frame::End(End { tables }))?;
        Ok(rows)
    }

    fn begin(&self) -> StoreResult<Begin> {
        let mut found = None;
        self.engine.query("SELECT id, name, incarnation FROM facility", &[], &mut |row| {
            found = Some((row.get(0)?, row.get(1)?, row.get(2)?));
            Ok(())
        })?;
        let (facility, name, incarnation) = found.ok_or_else(|| StoreError::Damaged {
            what: "the facility's row".to_owned(),
            cause: "it is missing".to_owned(),
        })?;
        Ok(Begin {
            facility,
            name,
            release: env!("CARGO_PKG_VERSION").to_owned(),
            taken: self.taken,
            incarnation,
            schema: schemas()
                .into_iter()
                .map(|(engine, version)| (engine.to_owned(), version as u64))
                .collect(),
        })
    }
}

/// All rows of a table.
pub(in crate::store) fn select(shape: &Shape) -> String {
    format!("SELECT {} FROM {}", shape.columns.join(", "), shape.name)
}

/// A cell as backups have it.
pub(in crate::store) fn value(cell: Cell<'_>) -> Value<'_> {
    match cell {
        Cell::Integer(value) => Value::Integer(value),
        Cell::Real(value) => Value::Real(value),
        Cell::Text(text) => Value::Text(text),
        Cell::Blob(bytes) => Value::Blob(bytes),
        // Lists are parameters and never stand in rows.
        Cell::Null | Cell::Integers(_) | Cell::Texts(_) => Value::Null,
    }
}

/// Adds a row to `out`; yields where it begins.
fn put(out: &mut Vec<u8>, row: &Row<'_>, columns: usize) -> StoreResult<usize> {
    let begin = out.len();
    for column in 0..columns {
        put_row(out, [value(row.cell(column)?)]);
    }
    Ok(begin)
}

/// Counts and sums what a table holds, inside a transaction.
pub(in crate::store) fn content(engine: &dyn Engine, shape: &Shape) -> StoreResult<Content> {
    let (mut content, mut bytes) = (Content::default(), Vec::new());
    engine.stream(&select(shape), &mut |row| {
        bytes.clear();
        put(&mut bytes, row, shape.columns.len())?;
        content.add(&bytes);
        Ok(())
    })?;
    Ok(content)
}

fn write_rows(
    engine: &dyn Engine,
    shape: &Shape,
    to: &mut dyn FnMut(&Frame) -> Result<()>,
) -> Result<Content> {
    let (mut content, mut rows) = (Content::default(), Vec::new());
    // The store's own errors and those of the taker come back by different ways.
    let mut refused = None;
    let outcome = engine.stream(&select(shape), &mut |row| {
        let begin = put(&mut rows, row, shape.columns.len())?;
        content.add(&rows[begin..]);
        if rows.len() >= PACK_BYTES
            && let Err(failure) = pack(&mut rows).and_then(|frame| to(&frame))
        {
            refused = Some(failure);
            return Err(StoreError::RolledBack);
        }
        Ok(())
    });
    match refused {
        Some(failure) => return Err(failure),
        None => outcome?,
    }
    if !rows.is_empty() {
        to(&pack(&mut rows)?)?;
    }
    Ok(content)
}

fn pack(rows: &mut Vec<u8>) -> Result<Frame> {
    let packed = zstd::bulk::compress(rows, PACK_LEVEL)
        .map_err(|cause| Failure::internal(format!("cannot pack rows: {cause}")))?;
    let plain_bytes = rows.len() as u32;
    rows.clear();
    Ok(Frame::Rows(Rows { plain_bytes, packed }))
}
