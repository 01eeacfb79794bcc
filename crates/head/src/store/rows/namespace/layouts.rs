//! Rules for files that are changed in place, of directories and files. They are few, so all of them are kept in memory.

use crate::store::{Store, StoreResult, document, json};
use base::FileId;
use std::{collections::BTreeMap, sync::Arc};
use wire::control::LayoutRule;

/// All rules, by directory or file.
pub(crate) type LayoutTable = BTreeMap<FileId, LayoutRule>;

impl Store {
    /// All rules.
    pub(crate) fn layouts(&self) -> StoreResult<Arc<LayoutTable>> {
        self.layouts.get(|| {
            let row = |row: &crate::store::engine::Row<'_>| Ok((FileId(row.get(0)?), document(row, 1)?));
            // Nothing of this table waits to be written.
            Ok(self.all_now("SELECT file, document FROM layout", (), row)?.into_iter().collect())
        })
    }

    /// Sets a rule, or takes it away.
    pub(crate) fn set_layout(&self, file: FileId, rule: Option<&LayoutRule>) -> StoreResult<()> {
        self.layouts.change();
        let Some(rule) = rule else { return self.run("DELETE FROM layout WHERE file = ?1", (file.0,)) };
        let sql = "INSERT INTO layout (file, document) VALUES (?1, ?2)
                   ON CONFLICT (file) DO UPDATE SET document = ?2";
        self.run(sql, (file.0, json(rule)))
    }

    /// The file or directory is gone.
    pub(in crate::store) fn delete_layout(&self, file: FileId) -> StoreResult<()> {
        if self.layouts()?.contains_key(&file) { self.set_layout(file, None) } else { Ok(()) }
    }
}
