//! The only SQL of the facility, and the rows that are kept in memory in front of it.
//!
//! One thread owns the [`Store`]. Callers group their changes between [`Store::begin`] and [`Store::commit`]; what was
//! not committed was never acknowledged. A group or a call that changes nothing costs no transaction. What changes often is
//! changed in memory and written when the group commits (`pending`, `flush`).

mod cache;
mod engine;
mod error;
mod group;
mod leases;
mod query;
mod rows;
#[cfg(test)]
pub(crate) mod testing;
mod transfer;

use crate::waiters::Awaited;
use base::{Failure, Millis, Timestamp};
use cache::{cached_table::CachedTable, node_cache::NodeCache, pending::Pending};
pub use engine::leadership::{ActiveHead, HeadAddress, Watch};
use engine::{Engine, Row};
pub use error::{StoreError, StoreResult};
use group::Depth;
pub(crate) use leases::PutOff;
use query::{document, json, maybe_document, word};
pub use rows::facility::catalogue::Catalogue;
pub(crate) use rows::{
    account::{
        accounts::Charge,
        ledger::{AccountKey, AccountUsage, Payer, Quota, Used},
    },
    counts::volume_counts,
    drive_quota::DriveQuotaRow,
    facility::{hosts::HostRow, labels::HostLabels, restored::RestoreRow},
    fair_share::{FairShare, Member, ShareAccount},
    jobs::{
        ActiveJob, ActiveJobs, ArrayRow, CostRow, DependencyRow, DependencyState, JobFileRole, JobOwner,
        JobRow, Line, NewJobs, QueueRow, QueueTable, Running, TapeCost, Wish, WorkerRow,
    },
    live::{JoinedObject, LiveContent, LiveCopy},
    namespace::{
        adoptions::AdoptionRow,
        grants::GrantRow,
        nodes::{NewContent, NewNode, NewTimes, Node},
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
    repack::RepackRow,
    requests::{Purpose, RequestRow, SessionRow, TargetRow},
    share::{MountRow, Opens, SharedFile},
    stage::{StageFileRow, StageRequestRow},
    storage_class::CopyPlace,
    volumes::{CopyRow, DriveRow, VolumeRow},
};
use rows::{
    facility::ids::AllIds,
    jobs::ActiveCell,
    pool::{pools::Policies, uses::Uses},
};
use std::{
    cell::{Cell, RefCell},
    sync::{Arc, atomic::AtomicU64},
};
pub use transfer::{
    backup::{Sink, Snapshot},
    restore::{Restored, relocate, restore},
};

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
    layouts: CachedTable<rows::namespace::layouts::LayoutTable>,
    storage_classes: CachedTable<rows::storage_class::ClassTable>,
    mounts: CachedTable<rows::share::MountTable>,
    fair_share: CachedTable<FairShare>,
    queues: CachedTable<QueueTable>,
    /// What mounts may cache.
    leases: leases::LeaseCell,
    /// Time in which usage of batch counts half.
    half_life: Cell<Millis>,
    /// Jobs that are not over, if somebody asked for them.
    active: ActiveCell,
    /// The group under way changed jobs before they were in memory, or in a way that is not undone one by one.
    is_active_stale: Cell<bool>,
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
            layouts: CachedTable::default(),
            storage_classes: CachedTable::default(),
            queues: CachedTable::default(),
            leases: leases::LeaseCell::default(),
            half_life: Cell::new(rows::fair_share::HALF_LIFE),
            active: ActiveCell::default(),
            is_active_stale: Cell::new(false),
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::ErrorKind;

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
