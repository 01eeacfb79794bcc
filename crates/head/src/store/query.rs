//! Statements and queries, and documents in columns.

use super::{
    Store,
    engine::{Params, Row},
    error::{StoreError, StoreResult},
};
use serde::de::IntoDeserializer;

impl Store {
    /// Carries out a statement that changes rows.
    pub(super) fn run(&self, sql: &str, params: impl Params) -> StoreResult<()> {
        self.enter()?;
        self.count_change();
        params.with(|params| self.engine.execute(sql, params))
    }

    /// As [`Self::run`]; yields how many rows were changed.
    pub(super) fn run_counted(&self, sql: &str, params: impl Params) -> StoreResult<u64> {
        self.enter()?;
        self.count_change();
        params.with(|params| self.engine.count(sql, params))
    }

    /// The rows of a query, of tables that are not changed in memory or were not changed there.
    pub(super) fn all_now<T>(
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
    pub(super) fn maybe_now<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnMut(&Row<'_>) -> StoreResult<T>,
    ) -> StoreResult<Option<T>> {
        Ok(self.all_now(sql, params, read)?.into_iter().next())
    }

    /// As [`Self::all_now`], for a query that finds one row.
    pub(super) fn one_now<T>(
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
    pub(super) fn all<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnMut(&Row<'_>) -> StoreResult<T>,
    ) -> StoreResult<Vec<T>> {
        self.flush()?;
        self.all_now(sql, params, read)
    }

    pub(super) fn maybe<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnMut(&Row<'_>) -> StoreResult<T>,
    ) -> StoreResult<Option<T>> {
        self.flush()?;
        self.maybe_now(sql, params, read)
    }

    pub(super) fn one<T>(
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
pub(super) fn word<T: serde::de::DeserializeOwned>(row: &Row<'_>, column: usize) -> StoreResult<T> {
    row.parse(column, |text| {
        let read: Result<T, serde::de::value::Error> = T::deserialize(text.into_deserializer());
        read
    })
}

/// Reads a stored JSON document.
pub(super) fn document<T: serde::de::DeserializeOwned>(row: &Row<'_>, column: usize) -> StoreResult<T> {
    row.parse(column, |text| serde_json::from_str(text))
}

/// Reads a stored JSON document that may be NULL.
pub(super) fn maybe_document<T: serde::de::DeserializeOwned>(
    row: &Row<'_>,
    column: usize,
) -> StoreResult<Option<T>> {
    let text: Option<&str> = row.get(column)?;
    text.map(|_| document(row, column)).transpose()
}

/// Writes a document for a TEXT column.
pub(super) fn json<T: serde::Serialize>(value: &T) -> String {
    serde_json::to_string(value).expect("plain data always serialises")
}
