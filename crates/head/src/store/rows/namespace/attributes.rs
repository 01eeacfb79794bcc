//! Rows of user attributes.

use crate::store::{Store, StoreResult, engine::Row};
use base::FileId;
use wire::control::{Attribute, AttributeChange};

fn attribute(row: &Row<'_>) -> StoreResult<Attribute> {
    Ok(Attribute {
        name: row.parse(0, |name| name.to_owned().try_into() as base::Result<_>)?,
        value: row.parse_bytes(1, |value| value.to_vec().try_into() as base::Result<_>)?,
    })
}

/// Says of a file that a mount may have written more than there is (spec/share.md §4).
const UNSYNCED: &str = "bp.unsynced";

impl Store {
    /// Attributes of a file, in name order.
    pub(crate) fn attributes(&self, file: FileId) -> StoreResult<Vec<Attribute>> {
        self.all("SELECT name, value FROM attribute WHERE file = ?1 ORDER BY name", (file.0,), attribute)
    }

    /// Number of the attributes of a file, and bytes of their names and values.
    pub(crate) fn attributes_size(&self, file: FileId) -> StoreResult<(usize, u64)> {
        const SQL: &str =
            "SELECT count(*), CAST(coalesce(sum(octet_length(name) + length(value)), 0) AS BIGINT)
             FROM attribute WHERE file = ?1";
        self.one(SQL, (file.0,), |row| Ok((row.get(0)?, row.get(1)?)))
    }

    pub(crate) fn has_attribute(&self, file: FileId, name: &str) -> StoreResult<bool> {
        let sql = "SELECT EXISTS (SELECT 1 FROM attribute WHERE file = ?1 AND name = ?2)";
        self.one(sql, (file.0, name), |row| row.get(0))
    }

    pub(crate) fn change_attribute(&self, file: FileId, change: &AttributeChange) -> StoreResult<()> {
        let name = change.name.as_str();
        self.change_dated(file, |_| {})?;
        match &change.value {
            Some(value) => self.run(
                "INSERT INTO attribute (file, name, value) VALUES (?1, ?2, ?3)
                 ON CONFLICT (file, name) DO UPDATE SET value = ?3",
                (file.0, name, value.as_bytes()),
            ),
            None => self.run("DELETE FROM attribute WHERE file = ?1 AND name = ?2", (file.0, name)),
        }
    }

    /// Flags a file. Nobody has changed it, so it has no new time.
    pub(crate) fn flag_unsynced(&self, file: FileId, what: &str) -> StoreResult<()> {
        self.run(
            "INSERT INTO attribute (file, name, value) VALUES (?1, ?2, ?3)
             ON CONFLICT (file, name) DO UPDATE SET value = ?3",
            (file.0, UNSYNCED, what.as_bytes()),
        )
    }

    pub(crate) fn unflag_unsynced(&self, file: FileId) -> StoreResult<()> {
        self.run("DELETE FROM attribute WHERE file = ?1 AND name = ?2", (file.0, UNSYNCED))
    }

    pub(in crate::store) fn delete_attributes(&self, file: FileId) -> StoreResult<()> {
        self.run("DELETE FROM attribute WHERE file = ?1", (file.0,))
    }
}
