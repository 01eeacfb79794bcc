//! The only SQL of the facility, and the rows that are kept in memory in front of it.
//!
//! One thread owns the [`Store`]. Callers group their changes between [`Store::begin`] and [`Store::commit`]; what was
//! not committed was never acknowledged. A group or a call that changes nothing costs no transaction. What changes often is
//! changed in memory and written when the group commits (`pending`, `flush`).

mod cache;
mod engine;
mod rows;
#[cfg(test)]
pub(crate) mod testing;
mod transfer;

pub use engine::leadership::{ActiveHead, HeadAddress, Watch};
pub use rows::facility::catalogue::Catalogue;
pub(crate) use rows::{
    account::{
        accounts::Charge,
        ledger::{AccountKey, AccountUsage, Payer, Quota, Used},
    },
    counts::volume_counts,
    facility::{hosts::HostRow, labels::HostLabels, restored::RestoreRow},
    fair_share::{FairShare, Member, ShareAccount},
    jobs::{JobFileRole, JobOwner, JobRow, WorkerRow},
    namespace::{
        adoptions::AdoptionRow,
        grants::GrantRow,
        nodes::{NewContent, NewNode, Node},
        referrals::{ReferralRow, ReferralTable},
        trash::{TRASH, TrashQuery, TrashRow},
    },
    pool::{
        maintenance::{Candidate, WalkPosition},
        partitions::Partition,
        replicas::{NOT_BEGUN, Piece, Replica, ReplicaState},
        scans::{FindingRow, ScanRow, ScannedReplica},
        scrubs::ScrubRow,
        sole_copies::SoleQuery,
        strays::StrayRow,
    },
    requests::{RequestRow, SessionRow},
    share::{LiveObject, MountRow, Opens, SharedFile},
    volumes::{CopyRow, DriveRow, VolumeRow},
};
pub use transfer::{
    backup::{Sink, Snapshot},
    restore::{Restored, relocate, restore},
};

use crate::waiters::Awaited;
use base::{ErrorKind, Failure, Millis, Timestamp};
use cache::{cached_table::CachedTable, node_cache::NodeCache, pending::Pending};
use engine::{Engine, Params, Row};
use rows::{
    facility::ids::AllIds,
    pool::{pools::Policies, uses::Uses},
};
use serde::de::IntoDeserializer;
use std::{
    cell::{Cell, RefCell},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};
use tokio_postgres::error::SqlState;

/// An error of the store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The embedded engine failed.
    #[error("catalogue: {0}")]
    Sqlite(#[from] rusqlite::Error),
    /// The database refused something, or cannot be reached.
    #[error("catalogue: {}", told(.0))]
    Postgres(tokio_postgres::Error),
    /// There is no good way to the database.
    #[error("catalogue: {0}")]
    Unreached(Failure),
    /// Another head was started on the same catalogue.
    #[error("catalogue: another head has taken over")]
    Superseded,
    /// There is no runtime for the connection.
    #[error("catalogue: cannot start its runtime: {cause}")]
    Unstarted {
        /// Why.
        cause: std::io::Error,
    },
    /// A stored document cannot be read.
    #[error("catalogue: {what} is damaged: {cause}")]
    Damaged {
        /// Which one.
        what: String,
        /// Why.
        cause: String,
    },
    /// The file was written by a newer release.
    #[error("catalogue has schema {found}, this release knows up to {known}")]
    Newer {
        /// In the file.
        found: usize,
        /// Here.
        known: usize,
    },
    /// The engine gave the group up by itself, as it does on a full disk.
    #[error("catalogue: the group of changes was rolled back by the engine")]
    RolledBack,
}

/// What the server said: the error itself names only where it came from.
fn told(error: &tokio_postgres::Error) -> String {
    match (error.as_db_error(), std::error::Error::source(error)) {
        (Some(refused), _) => format!("{} ({})", refused.message(), refused.code().code()),
        (None, Some(cause)) => format!("{error}: {cause}"),
        (None, None) => error.to_string(),
    }
}

impl From<tokio_postgres::Error> for StoreError {
    fn from(error: tokio_postgres::Error) -> Self {
        match error.code() {
            Some(code) if code.code() == engine::FENCED => Self::Superseded,
            _ => Self::Postgres(error),
        }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        use rusqlite::ErrorCode as Code;
        let (kind, hint) = match &error {
            StoreError::Sqlite(cause) => match cause.sqlite_error_code() {
                Some(Code::DiskFull) => {
                    (ErrorKind::NoSpace, "free space on the disk that holds the catalogue")
                }
                Some(Code::DatabaseCorrupt | Code::NotADatabase) => {
                    (ErrorKind::Corrupt, "restore the catalogue from its backup")
                }
                Some(Code::DatabaseBusy | Code::DatabaseLocked) => {
                    (ErrorKind::Busy, "another process has the catalogue open")
                }
                _ => (ErrorKind::Io, "look at the disk that holds the catalogue"),
            },
            StoreError::Postgres(cause) => match cause.code() {
                Some(&SqlState::DISK_FULL) => {
                    (ErrorKind::NoSpace, "free space on the disk that holds the database")
                }
                Some(_) => (ErrorKind::Io, "look at the database's log"),
                None => (ErrorKind::Unavailable, "look whether the database is running and reachable"),
            },
            StoreError::Unreached(failure) => return failure.clone().during("catalogue"),
            StoreError::Superseded => (ErrorKind::Unavailable, "ask the head that runs now"),
            StoreError::Unstarted { .. } => (ErrorKind::Io, "look at the limits of the daemon"),
            StoreError::Damaged { .. } => (ErrorKind::Corrupt, "restore the catalogue from its backup"),
            StoreError::RolledBack => (ErrorKind::Io, "look at the disk that holds the catalogue"),
            StoreError::Newer { .. } => (ErrorKind::Unsupported, "use the newer release"),
        };
        Self::new(kind, error.to_string()).hint(hint)
    }
}

/// Result of a store operation.
pub type StoreResult<T> = Result<T, StoreError>;

/// The facility's row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FacilityRow {
    /// Id made at creation.
    pub id: String,
    /// Name given at creation.
    pub name: String,
    /// Who may do everything.
    pub owner: String,
    /// When it was made.
    pub created: Timestamp,
    /// Starts of the head.
    pub incarnation: u64,
}

/// The nesting of transactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Depth {
    /// Every statement is its own transaction.
    Outside,
    /// In a group of calls: a transaction.
    Group,
    /// In a call of the group: a savepoint.
    Call,
}

/// The catalogue.
pub struct Store {
    engine: Box<dyn Engine>,
    /// Files that were read lately, as they were last committed.
    cache: RefCell<NodeCache>,
    /// Changes of the group under way.
    pending: RefCell<Pending>,
    /// Uses of replicas that are not written yet.
    uses: RefCell<Uses>,
    ids: AllIds,
    grants: CachedTable<rows::namespace::grants::GrantTable>,
    referrals: CachedTable<rows::namespace::referrals::ReferralTable>,
    mounts: CachedTable<rows::share::MountTable>,
    fair_share: CachedTable<FairShare>,
    /// Time in which usage of batch counts half.
    half_life: Cell<Millis>,
    /// Jobs that are not over, if they were counted since one of them changed.
    active_jobs: Cell<Option<usize>>,
    /// What pools promise, if that was read.
    policies: RefCell<Option<Arc<Policies>>>,
    /// Hosts, if they were read.
    hosts: RefCell<Option<Arc<rows::facility::hosts::HostRows>>>,
    /// Labels of hosts, if they were read.
    labels: RefCell<Option<Arc<HostLabels>>>,
    /// What the caller began.
    wanted: Cell<Depth>,
    /// What the engine was told of it: it is told when the first row is written.
    entered: Cell<Depth>,
    version: Arc<AtomicU64>,
    changes: Cell<u64>,
    /// What was changed since somebody asked, for those who wait for it.
    changed: RefCell<Vec<Awaited>>,
}

impl Store {
    /// Makes the catalogue of a new facility, which must not exist, with the root directory.
    pub fn create(catalogue: impl Into<Catalogue>, facility: &FacilityRow) -> Result<Self, Failure> {
        Self::create_with(&catalogue.into(), facility, |_| Ok(()))
    }

    /// The same, with what `fill` adds to it.
    fn create_with(
        catalogue: &Catalogue,
        facility: &FacilityRow,
        fill: impl FnOnce(&Self) -> StoreResult<()>,
    ) -> Result<Self, Failure> {
        let mut store = Self::new(catalogue.open(true)?);
        if store.maybe_now("SELECT 1 FROM facility", (), |_| Ok(()))?.is_some() {
            return Err(Failure::exists(format!("{catalogue} holds a facility already")));
        }
        store.begin();
        store.run(
            "INSERT INTO facility VALUES (1, ?1, ?2, ?3, ?4, ?5)",
            (&facility.id, &facility.name, &facility.owner, facility.created.0, facility.incarnation),
        )?;
        store.run(
            "INSERT INTO node (id, parent, name, kind, owner, grp, mode, modified)
             VALUES (1, 1, '/', 'directory', ?1, ?1, 493, ?2)",
            (&facility.owner, facility.created.0),
        )?;
        store.run("UPDATE census SET directories = 1", ())?;
        fill(&store)?;
        store.commit()?;
        Ok(store)
    }

    /// Makes the catalogue of a facility whose old one is lost. It knows nothing of what lies on disks and tapes, so nothing is
    /// deleted or written over before an operator has looked; `now` is when that was noticed.
    ///
    /// Numbers begin at the microseconds since 1970, where none can have been given: no facility makes a million objects in every
    /// second of its life.
    pub fn rebuild(
        catalogue: impl Into<Catalogue>,
        facility: &FacilityRow,
        now: Timestamp,
    ) -> Result<Self, Failure> {
        Self::create_with(&catalogue.into(), facility, |store| {
            let first = now.0.unsigned_abs().saturating_mul(1000);
            store.run("UPDATE sequence SET next = ?1 WHERE name IN ('node', 'replica')", (first,))?;
            let others = "UPDATE sequence SET next = next + ?1 WHERE name NOT IN ('node', 'replica')";
            store.run(others, (transfer::restore::SMALL_IDS_SKIPPED,))?;
            store.add_restore(&RestoreRow {
                epoch: 1,
                noticed: now,
                taken: None,
                reason: "it was lost and made anew".to_owned(),
                settled: None,
                is_recovering: false,
            })
        })
    }

    /// Opens an existing catalogue. Never makes one.
    pub fn open(catalogue: impl Into<Catalogue>) -> Result<Self, Failure> {
        let catalogue = catalogue.into();
        let store = Self::new(catalogue.open(false)?);
        if store.maybe_now("SELECT 1 FROM facility", (), |_| Ok(()))?.is_none() {
            return Err(Failure::not_found(format!("{catalogue} holds no facility"))
                .hint("look whether the configuration names the right one; `bp create` makes a new one"));
        }
        Ok(store)
    }

    fn new(engine: Box<dyn Engine>) -> Self {
        Self {
            engine,
            cache: RefCell::default(),
            pending: RefCell::default(),
            uses: RefCell::default(),
            ids: AllIds::default(),
            grants: CachedTable::default(),
            referrals: CachedTable::default(),
            mounts: CachedTable::default(),
            fair_share: CachedTable::default(),
            half_life: Cell::new(rows::fair_share::HALF_LIFE),
            active_jobs: Cell::new(None),
            policies: RefCell::default(),
            hosts: RefCell::default(),
            labels: RefCell::default(),
            wanted: Cell::new(Depth::Outside),
            entered: Cell::new(Depth::Outside),
            version: Arc::new(AtomicU64::new(1)),
            changes: Cell::new(0),
            changed: RefCell::default(),
        }
    }

    /// Says how many bytes may be kept of the catalogue: half of them for files and directories that were read lately, and half for
    /// pages of the database, from which long directories are listed and others are found.
    pub(crate) fn limit_cache(&mut self, bytes_max: usize) -> StoreResult<()> {
        let pages = self.engine.limit_cache(bytes_max / 2)?;
        *self.cache.get_mut() = NodeCache::new(bytes_max - pages);
        Ok(())
    }

    /// What is committed now, for a reader that takes its time.
    pub(crate) fn snapshot(&self, now: Timestamp) -> StoreResult<Snapshot> {
        Ok(Snapshot::new(self.engine.snapshot()?, now))
    }

    /// The version of the namespace, raised by [`Self::commit`]; see [`crate::Head::namespace_version`].
    pub(crate) fn namespace_version(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.version)
    }

    /// Starts a group of changes.
    pub fn begin(&mut self) {
        debug_assert_eq!(self.wanted.get(), Depth::Outside);
        self.wanted.set(Depth::Group);
    }

    /// Makes the group durable, and says so to those who keep answers about the namespace.
    pub fn commit(&mut self) -> StoreResult<()> {
        self.flush()?;
        if self.entered.get() > Depth::Outside {
            self.engine.commit()?;
        }
        self.leave();
        self.grants.end_group();
        self.referrals.end_group();
        self.mounts.end_group();
        self.fair_share.end_group();
        let (files, is_visible) = self.pending.get_mut().commit();
        let (cache, changed) = (self.cache.get_mut(), self.changed.get_mut());
        for (id, now) in files {
            changed.push(Awaited::File(id));
            cache.forget(id);
            if let Some(node) = now {
                cache.insert(&node);
            }
        }
        // Whoever waits for the group is answered after this.
        if is_visible {
            self.version.fetch_add(1, Ordering::Release);
        }
        Ok(())
    }

    /// Forgets the group. Also right when the engine has rolled back by itself, as it does on a full disk.
    pub fn rollback(&mut self) -> StoreResult<()> {
        self.leave();
        self.changes.set(self.changes.get() + 1);
        self.grants.forget_changes();
        self.referrals.forget_changes();
        self.mounts.forget_changes();
        self.fair_share.forget_changes();
        self.grants.end_group();
        self.referrals.end_group();
        self.mounts.end_group();
        self.fair_share.end_group();
        self.pending.get_mut().forget();
        self.ids.forget();
        self.active_jobs.set(None);
        self.policies.take();
        self.hosts.take();
        self.labels.take();
        // A connection that broke during the commit does not tell whether that happened: nothing that was known counts.
        self.cache.get_mut().clear();
        self.engine.rollback()
    }

    fn leave(&self) {
        self.wanted.set(Depth::Outside);
        self.entered.set(Depth::Outside);
    }

    /// Starts one call inside the group, so that a refused call leaves nothing behind.
    pub fn begin_call(&mut self) {
        debug_assert_eq!(self.wanted.get(), Depth::Group);
        self.wanted.set(Depth::Call);
        self.pending.get_mut().begin_call();
    }

    /// Ends the call: keeps its changes or drops them.
    pub fn end_call(&mut self, keep: bool) -> StoreResult<()> {
        self.wanted.set(Depth::Group);
        if !keep {
            // What was derived from its changes does not hold.
            self.changes.set(self.changes.get() + 1);
            self.active_jobs.set(None);
            self.policies.take();
            self.hosts.take();
            self.labels.take();
            self.grants.forget_changes();
            self.referrals.forget_changes();
            self.mounts.forget_changes();
            self.fair_share.forget_changes();
            for (sequence, ids) in self.pending.get_mut().undo_call() {
                self.ids.set(sequence, Some(ids));
            }
        }
        if self.entered.get() < Depth::Call {
            return Ok(());
        }
        self.entered.set(Depth::Group);
        if keep { self.engine.release_mark() } else { self.engine.return_to_mark() }
    }

    /// Enters what the caller began, before the first row is written.
    fn enter(&self) -> StoreResult<()> {
        let (wanted, entered) = (self.wanted.get(), self.entered.get());
        // What is written now would be durable alone, while the rest of the group is reported as failed.
        if entered > Depth::Outside && !self.engine.is_in_transaction() {
            return Err(StoreError::RolledBack);
        }
        if entered >= wanted {
            return Ok(());
        }
        if entered == Depth::Outside {
            self.engine.begin()?;
            self.entered.set(Depth::Group);
        }
        if wanted == Depth::Call {
            self.engine.mark()?;
            self.entered.set(Depth::Call);
        }
        Ok(())
    }

    /// Notes a change for those who wait for it.
    pub(crate) fn note_changed(&self, what: Awaited) {
        self.changed.borrow_mut().push(what);
    }

    /// Takes the files and jobs that were changed since the last time, perhaps more.
    pub(crate) fn take_changed(&mut self) -> Vec<Awaited> {
        std::mem::take(self.changed.get_mut())
    }

    /// Changes since the store was opened.
    pub fn changes(&self) -> u64 {
        self.changes.get()
    }

    fn count_change(&self) {
        debug_assert!(self.wanted.get() > Depth::Outside, "a change outside a group is never written");
        self.changes.set(self.changes.get() + 1);
    }

    /// The facility's row.
    pub fn facility(&self) -> StoreResult<FacilityRow> {
        self.one("SELECT id, name, owner, created, incarnation FROM facility", (), |row| {
            Ok(FacilityRow {
                id: row.get(0)?,
                name: row.get(1)?,
                owner: row.get(2)?,
                created: Timestamp(row.get(3)?),
                incarnation: row.get(4)?,
            })
        })
    }

    /// Counts a start of the head.
    pub fn next_incarnation(&mut self) -> StoreResult<u64> {
        self.run("UPDATE facility SET incarnation = incarnation + 1", ())?;
        let incarnation = self.facility()?.incarnation;
        self.engine.set_incarnation(incarnation);
        Ok(incarnation)
    }

    /// Carries out a statement that changes rows.
    fn run(&self, sql: &str, params: impl Params) -> StoreResult<()> {
        self.enter()?;
        self.count_change();
        params.with(|params| self.engine.execute(sql, params))
    }

    /// As [`Self::run`]; yields how many rows were changed.
    fn run_counted(&self, sql: &str, params: impl Params) -> StoreResult<u64> {
        self.enter()?;
        self.count_change();
        params.with(|params| self.engine.count(sql, params))
    }

    /// The rows of a query, of tables that are not changed in memory or were not changed there.
    fn all_now<T>(
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
    fn maybe_now<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnMut(&Row<'_>) -> StoreResult<T>,
    ) -> StoreResult<Option<T>> {
        Ok(self.all_now(sql, params, read)?.into_iter().next())
    }

    /// As [`Self::all_now`], for a query that finds one row.
    fn one_now<T>(
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
    fn all<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnMut(&Row<'_>) -> StoreResult<T>,
    ) -> StoreResult<Vec<T>> {
        self.flush()?;
        self.all_now(sql, params, read)
    }

    fn maybe<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnMut(&Row<'_>) -> StoreResult<T>,
    ) -> StoreResult<Option<T>> {
        self.flush()?;
        self.maybe_now(sql, params, read)
    }

    fn one<T>(
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
fn word<T: serde::de::DeserializeOwned>(row: &Row<'_>, column: usize) -> StoreResult<T> {
    row.parse(column, |text| {
        let read: Result<T, serde::de::value::Error> = T::deserialize(text.into_deserializer());
        read
    })
}

/// Reads a stored JSON document.
fn document<T: serde::de::DeserializeOwned>(row: &Row<'_>, column: usize) -> StoreResult<T> {
    row.parse(column, |text| serde_json::from_str(text))
}

/// Reads a stored JSON document that may be NULL.
fn maybe_document<T: serde::de::DeserializeOwned>(row: &Row<'_>, column: usize) -> StoreResult<Option<T>> {
    let text: Option<&str> = row.get(column)?;
    text.map(|_| document(row, column)).transpose()
}

/// Writes a document for a TEXT column.
fn json<T: serde::Serialize>(value: &T) -> String {
    serde_json::to_string(value).expect("plain data always serialises")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facility() -> FacilityRow {
        FacilityRow {
            id: "f".into(),
            name: "test".into(),
            owner: "ada".into(),
            created: Timestamp(1),
            incarnation: 0,
        }
    }

    #[test]
    fn create_refuses_what_exists_and_open_what_does_not() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("catalogue.sqlite");
        assert!(Store::open(&file).is_err());
        assert!(!file.exists(), "opening never makes a catalogue");
        drop(Store::create(&file, &facility()).unwrap());
        assert_eq!(Store::create(&file, &facility()).err().unwrap().kind, ErrorKind::Exists);
        assert_eq!(Store::open(&file).unwrap().facility().unwrap(), facility());
    }

    #[test]
    fn a_refused_call_leaves_nothing_and_the_group_goes_on() {
        let dir = tempfile::tempdir().unwrap();
        let mut store = Store::create(&dir.path().join("c"), &facility()).unwrap();
        store.begin();
        for keep in [true, false] {
            store.begin_call();
            store.next_incarnation().unwrap();
            store.end_call(keep).unwrap();
        }
        store.commit().unwrap();
        assert_eq!(store.facility().unwrap().incarnation, 1);
    }
}
