//! Queues of jobs, and numbers that bound the whole facility.

use crate::store::{Store, StoreResult, document, json};
use std::{collections::BTreeMap, sync::Arc};
use wire::control::QueueSettings;

/// The name of the setting that says how many jobs run in the facility at most.
const RUN_LIMIT: &str = "run_limit";

/// A queue in the catalogue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct QueueRow {
    pub(crate) name: String,
    pub(crate) settings: QueueSettings,
    pub(crate) is_enabled: bool,
    pub(crate) is_started: bool,
    pub(crate) is_default: bool,
}

/// All queues by name, and what bounds them together.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct QueueTable {
    pub(crate) queues: BTreeMap<String, QueueRow>,
    /// Jobs that run in the facility at the same time at most.
    pub(crate) run_limit: Option<u32>,
}

impl Store {
    /// All queues.
    pub(crate) fn queues(&self) -> StoreResult<Arc<QueueTable>> {
        self.queues.get(|| {
            let sql = "SELECT name, document, is_enabled, is_started, is_default FROM queue";
            // Nothing of these tables waits to be written.
            let queues = self.all_now(sql, (), |row| {
                let row = QueueRow {
                    name: row.get(0)?,
                    settings: document(row, 1)?,
                    is_enabled: row.get(2)?,
                    is_started: row.get(3)?,
                    is_default: row.get(4)?,
                };
                Ok((row.name.clone(), row))
            })?;
            let run_limit =
                self.maybe_now("SELECT value FROM setting WHERE name = ?1", (RUN_LIMIT,), |row| row.get(0))?;
            Ok(QueueTable { queues: queues.into_iter().collect(), run_limit })
        })
    }

    /// Adds a queue, or writes all of one that is there.
    pub(crate) fn put_queue(&self, queue: &QueueRow) -> StoreResult<()> {
        self.queues.change();
        self.run(
            "INSERT INTO queue (name, document, is_enabled, is_started, is_default) VALUES (?1, ?2, ?3, ?4, ?5)
             ON CONFLICT (name) DO UPDATE SET document = ?2, is_enabled = ?3, is_started = ?4, is_default = ?5",
            (&queue.name, json(&queue.settings), queue.is_enabled, queue.is_started, queue.is_default),
        )
    }

    pub(crate) fn delete_queue(&self, name: &str) -> StoreResult<()> {
        self.queues.change();
        self.run("DELETE FROM queue WHERE name = ?1", (name,))
    }

    /// Says how many jobs run in the facility at the same time at most.
    pub(crate) fn set_run_limit(&self, limit: Option<u32>) -> StoreResult<()> {
        self.queues.change();
        match limit {
            None => self.run("DELETE FROM setting WHERE name = ?1", (RUN_LIMIT,)),
            Some(limit) => self.run(
                "INSERT INTO setting (name, value) VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET value = ?2",
                (RUN_LIMIT, limit),
            ),
        }
    }
}
