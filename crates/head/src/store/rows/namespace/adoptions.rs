//! Rows of adoptions, and of what they left alone.
//!
//! They stand in the tables of scans: both are orders to a partition, and what came of them. No partition has a slash in its name.

use crate::store::{Store, StoreResult, document, json};
use base::{FilePath, Timestamp};
use serde::{Deserialize, Serialize};
use wire::control::{AdoptionState, Amount, LeftAlone};

/// An adoption on a partition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AdoptionRow {
    /// Tells an adoption from the next one of the partition.
    pub(crate) adoption: u64,
    pub(crate) state: AdoptionState,
    pub(crate) directory: String,
    pub(crate) path: FilePath,
    pub(crate) is_moving: bool,
    pub(crate) bytes_per_s: u64,
    pub(crate) started: Timestamp,
    pub(crate) updated: Timestamp,
    pub(crate) total: Option<Amount>,
    /// In the pass under way.
    pub(crate) seen: Amount,
    pub(crate) adopted: Amount,
    /// In the pass under way.
    pub(crate) left_alone: u64,
    pub(crate) unowned: u64,
    pub(crate) trouble: Option<base::Failure>,
}

const PREFIX: &str = "adopt/";

fn key(partition: &str) -> String {
    [PREFIX, partition].concat()
}

impl Store {
    pub(crate) fn adoption(&self, partition: &str) -> StoreResult<Option<AdoptionRow>> {
        self.maybe("SELECT document FROM scan WHERE partition = ?1", (key(partition),), |row| {
            document(row, 0)
        })
    }

    /// All adoptions by partition.
    pub(crate) fn adoptions(&self) -> StoreResult<Vec<(String, AdoptionRow)>> {
        let sql = "SELECT partition, document FROM scan WHERE partition LIKE 'adopt/%' ORDER BY partition";
        self.all(sql, (), |row| {
            let key: String = row.get(0)?;
            Ok((key.trim_start_matches(PREFIX).to_owned(), document(row, 1)?))
        })
    }

    pub(crate) fn put_adoption(&self, partition: &str, adoption: &AdoptionRow) -> StoreResult<()> {
        self.run(
            "INSERT INTO scan (partition, document) VALUES (?1, ?2)
             ON CONFLICT (partition) DO UPDATE SET document = ?2",
            (key(partition), json(adoption)),
        )
    }

    /// Notes what was left alone as number `number`.
    pub(crate) fn put_left_alone(&self, partition: &str, number: u64, left: &LeftAlone) -> StoreResult<()> {
        self.run(
            "INSERT INTO finding (partition, object, document) VALUES (?1, ?2, ?3)
             ON CONFLICT (partition, object) DO UPDATE SET document = ?3",
            (key(partition), number, json(left)),
        )
    }

    /// What was left alone after number `after`, with its number.
    pub(crate) fn left_alone(
        &self,
        partition: &str,
        after: u64,
        limit: usize,
    ) -> StoreResult<Vec<(u64, LeftAlone)>> {
        let sql = "SELECT object, document FROM finding WHERE partition = ?1 AND object > ?2
                   ORDER BY object LIMIT ?3";
        self.all(sql, (key(partition), after, limit), |row| Ok((row.get(0)?, document(row, 1)?)))
    }

    pub(crate) fn forget_left_alone(&self, partition: &str) -> StoreResult<()> {
        self.run("DELETE FROM finding WHERE partition = ?1", (key(partition),))
    }
}
