//! Values as PostgreSQL sends and takes them.

use crate::store::{
    StoreResult,
    engine::{Cell, Cells},
};
use bytes::BytesMut;
use std::error::Error;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};

/// A value of a queued statement.
#[derive(Debug, Clone)]
pub(super) enum Value {
    Null,
    Integer(i64),
    Real(f64),
    Text(String),
    Blob(Vec<u8>),
    Integers(Vec<Option<i64>>),
    Texts(Vec<Option<String>>),
}

impl Value {
    pub(super) fn of(cell: Cell<'_>) -> Self {
        match cell {
            Cell::Null => Self::Null,
            Cell::Integer(value) => Self::Integer(value),
            Cell::Real(value) => Self::Real(value),
            Cell::Text(text) => Self::Text(text.to_owned()),
            Cell::Blob(bytes) => Self::Blob(bytes.to_vec()),
            Cell::Integers(values) => Self::Integers(values.iter().copied().map(Some).collect()),
            Cell::Texts(texts) => Self::Texts(texts.iter().map(|text| Some((*text).to_owned())).collect()),
        }
    }
}

impl ToSql for Value {
    fn to_sql(&self, kind: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        match (self, kind) {
            (Self::Null, _) => Ok(IsNull::Yes),
            (Self::Integer(value), &Type::INT4) => i32::try_from(*value)?.to_sql(kind, out),
            (Self::Integer(value), &Type::FLOAT8) => (*value as f64).to_sql(kind, out),
            (Self::Integer(value), _) => value.to_sql(kind, out),
            (Self::Real(value), _) => value.to_sql(kind, out),
            (Self::Text(text), _) => text.to_sql(kind, out),
            (Self::Blob(bytes), _) => bytes.to_sql(kind, out),
            (Self::Integers(values), _) => values.to_sql(kind, out),
            (Self::Texts(texts), _) => texts.to_sql(kind, out),
        }
    }

    fn accepts(_: &Type) -> bool {
        // The server says what it expects of each parameter; what does not fit is its error.
        true
    }

    to_sql_checked!();
}

impl Cells for tokio_postgres::Row {
    fn cell(&self, column: usize) -> StoreResult<Cell<'_>> {
        let kind = self.columns().get(column).map(tokio_postgres::Column::type_);
        let cell = match kind {
            Some(&Type::INT8) => self.try_get::<_, Option<i64>>(column)?.map(Cell::Integer),
            Some(&Type::INT4) => {
                self.try_get::<_, Option<i32>>(column)?.map(|value| Cell::Integer(value.into()))
            }
            Some(&Type::BOOL) => {
                self.try_get::<_, Option<bool>>(column)?.map(|value| Cell::Integer(value.into()))
            }
            Some(&Type::FLOAT8) => self.try_get::<_, Option<f64>>(column)?.map(Cell::Real),
            Some(&Type::BYTEA) => self.try_get::<_, Option<&[u8]>>(column)?.map(Cell::Blob),
            _ => self.try_get::<_, Option<&str>>(column)?.map(Cell::Text),
        };
        Ok(cell.unwrap_or(Cell::Null))
    }
}

pub(super) fn integer(cell: Cell<'_>) -> Option<i64> {
    match cell {
        Cell::Integer(value) => Some(value),
        _ => None,
    }
}

pub(super) fn text(cell: Cell<'_>) -> Option<&str> {
    match cell {
        Cell::Text(text) => Some(text),
        _ => None,
    }
}
