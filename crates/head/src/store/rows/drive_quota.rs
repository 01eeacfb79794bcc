//! Rows of quotas of drives. They are few.

use crate::store::{Store, StoreResult, word};
use wire::control::RequestKind;

/// How many drives the files of a group may have for one direction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DriveQuotaRow {
    pub(crate) group: String,
    pub(crate) kind: RequestKind,
    pub(crate) drives: u32,
}

impl Store {
    /// All of them.
    pub(crate) fn drive_quotas(&self) -> StoreResult<Vec<DriveQuotaRow>> {
        self.all("SELECT grp, kind, drives FROM drive_quota ORDER BY grp, kind", (), |row| {
            Ok(DriveQuotaRow { group: row.get(0)?, kind: word(row, 1)?, drives: row.get(2)? })
        })
    }

    /// Sets one, or takes it away.
    pub(crate) fn set_drive_quota(
        &self,
        group: &str,
        kind: RequestKind,
        drives: Option<u32>,
    ) -> StoreResult<()> {
        self.run("DELETE FROM drive_quota WHERE grp = ?1 AND kind = ?2", (group, kind.as_str()))?;
        let Some(drives) = drives else { return Ok(()) };
        self.run(
            "INSERT INTO drive_quota (grp, kind, drives) VALUES (?1, ?2, ?3)",
            (group, kind.as_str(), drives),
        )
    }
}
