//! Labels of hosts. They are few and asked for with every placement, so all of them are kept in memory.

use crate::store::{Store, StoreResult};
use std::{collections::BTreeMap, sync::Arc};
use wire::control::HostLabel;

/// Values by host and name of the label.
pub(crate) type HostLabels = BTreeMap<String, BTreeMap<String, String>>;

impl Store {
    /// The labels of all hosts.
    pub(crate) fn host_labels(&self) -> StoreResult<Arc<HostLabels>> {
        if let Some(known) = &*self.labels.borrow() {
            return Ok(Arc::clone(known));
        }
        let mut labels = HostLabels::new();
        let row = |row: &crate::store::engine::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
        for (host, name, value) in self.all_now("SELECT host, name, value FROM host_label", (), row)? {
            labels.entry(host).or_default().insert(name, value);
        }
        let labels = Arc::new(labels);
        *self.labels.borrow_mut() = Some(Arc::clone(&labels));
        Ok(labels)
    }

    /// Sets a label of a host; one without a value is taken away.
    pub(crate) fn set_host_label(&self, host: &str, label: &HostLabel) -> StoreResult<()> {
        self.labels.take();
        let HostLabel { name, value } = label;
        if value.is_empty() {
            return self.run("DELETE FROM host_label WHERE host = ?1 AND name = ?2", (host, name));
        }
        self.run(
            "INSERT INTO host_label (host, name, value) VALUES (?1, ?2, ?3)
             ON CONFLICT (host, name) DO UPDATE SET value = ?3",
            (host, name, value),
        )
    }
}
