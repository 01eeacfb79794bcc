//! Where symbolic links lead, and which devices special files are.

use crate::store::{Store, StoreResult};
use base::FileId;

impl Store {
    /// The target of a link.
    pub(crate) fn link(&self, file: FileId) -> StoreResult<Option<String>> {
        self.maybe("SELECT target FROM link WHERE file = ?1", (file.0,), |row| row.get(0))
    }

    /// Gives a new node its target; its size is the length of that, as POSIX has it.
    pub(crate) fn set_link(&self, file: FileId, target: &str) -> StoreResult<()> {
        self.change_node(file, |node| node.size = target.len() as u64)?;
        self.run("INSERT INTO link (file, target) VALUES (?1, ?2)", (file.0, target))
    }

    pub(in crate::store) fn delete_link(&self, file: FileId) -> StoreResult<()> {
        self.run("DELETE FROM link WHERE file = ?1", (file.0,))
    }
}
