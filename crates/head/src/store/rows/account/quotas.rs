//! Rows of quotas. All are kept in memory, with what is used of them (`ledger`).

use crate::store::{Node, Store, StoreResult, rows::account::ledger::Quota, word};
use wire::control::QuotaKind;

impl Store {
    /// All quotas as the database has them; nothing is used yet.
    pub(in crate::store) fn read_quotas(&self) -> StoreResult<Vec<(QuotaKind, String, Quota)>> {
        self.all_now("SELECT kind, name, bytes, files FROM quota", (), |row| {
            let quota = Quota { bytes: row.get(2)?, files: row.get(3)?, ..Quota::default() };
            Ok((word(row, 0)?, row.get(1)?, quota))
        })
    }

    /// Sets a quota; one without limits is lifted.
    pub(crate) fn set_quota(
        &self,
        (kind, name): (QuotaKind, &str),
        bytes: Option<u64>,
        files: Option<u64>,
    ) -> StoreResult<()> {
        self.load_ledger()?;
        if bytes.is_none() && files.is_none() {
            self.run("DELETE FROM quota WHERE kind = ?1 AND name = ?2", (kind.as_str(), name))?;
        } else {
            self.run(
                "INSERT INTO quota (kind, name, bytes, files) VALUES (?1, ?2, ?3, ?4)
                 ON CONFLICT (kind, name) DO UPDATE SET bytes = ?3, files = ?4",
                (kind.as_str(), name, bytes, files),
            )?;
        }
        let quota = Quota { bytes, files, ..Quota::default() };
        self.pending.borrow_mut().set_quota(kind, name, quota);
        Ok(())
    }

    /// All quotas with what is used of them, by kind and name.
    pub(crate) fn quotas(&self) -> StoreResult<Vec<(QuotaKind, String, Quota)>> {
        self.load_ledger()?;
        Ok(self.pending.borrow().ledger().map(|ledger| ledger.quotas().collect()).unwrap_or_default())
    }

    /// The quotas to which a file is counted.
    pub(crate) fn quotas_of(&self, file: &Node) -> StoreResult<Vec<(QuotaKind, String, Quota)>> {
        self.load_ledger()?;
        let pending = self.pending.borrow();
        let Some(ledger) = pending.ledger() else { return Ok(Vec::new()) };
        let names = [&file.owner, &file.group, &file.project];
        let found = QuotaKind::ALL
            .into_iter()
            .zip(names)
            .filter_map(|(kind, name)| Some((kind, name.clone(), ledger.quota(kind, name)?)));
        Ok(found.collect())
    }
}
