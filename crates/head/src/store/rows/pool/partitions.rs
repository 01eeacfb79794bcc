//! Partitions, cached in memory with the space reserved on them.

use crate::store::{Replica, ReplicaState, Store, StoreResult, word};
use base::Timestamp;
use std::{collections::BTreeMap, sync::Arc};
use wire::control::{DiskServer, PartitionState, RegisterPartition};

/// A partition as the head knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Partition {
    pub(crate) pool: String,
    /// Who serves it, as it said last.
    pub(crate) server: Arc<DiskServer>,
    /// Which start of the disk server that was.
    pub(crate) boot: u64,
    pub(crate) total: u64,
    /// As last reported by the disk server, less what came online since.
    pub(crate) free: u64,
    /// Promised to objects that are being written.
    pub(crate) promised: u64,
    /// Of objects that are to be deleted.
    pub(crate) leaving: u64,
    /// What may be done with it.
    pub(crate) state: PartitionState,
    /// Since when its replicas do not count, because nothing was heard of it.
    pub(crate) given_up: Option<Timestamp>,
    /// Replicas on it that can be read.
    pub(crate) replicas: u64,
    /// Bytes of these.
    pub(crate) replica_bytes: u64,
    /// Most bytes of replicas that the operator wants on it.
    pub(crate) size_max: Option<u64>,
    pub(in crate::store) is_changed: bool,
}

impl Partition {
    /// Bytes that it may hold: what its disk server says, or what the operator says if that is less.
    pub(crate) fn capacity_bytes(&self) -> u64 {
        self.size_max.map_or(self.total, |most| most.min(self.total))
    }

    /// Bytes of it that are neither taken nor to be given back.
    pub(crate) fn free_bytes(&self) -> u64 {
        self.size_max.map_or(self.free, |most| most.saturating_sub(self.held_bytes()).min(self.free))
    }

    /// Bytes of replicas that are too much for what the operator says.
    pub(crate) fn over_bytes(&self) -> u64 {
        self.size_max.map_or(0, |most| self.held_bytes().saturating_sub(most))
    }

    fn held_bytes(&self) -> u64 {
        self.replica_bytes.saturating_add(self.leaving)
    }

    /// A replica on it is there from now on, or is not any more.
    pub(in crate::store) fn hold(&mut self, replica: &Replica, is_there: bool) {
        let change: fn(u64, u64) -> u64 = if is_there { u64::saturating_add } else { u64::saturating_sub };
        if replica.state.is_promised() {
            self.promised = change(self.promised, replica.size);
        }
        if replica.state == ReplicaState::Online {
            self.replicas = change(self.replicas, 1);
            self.replica_bytes = change(self.replica_bytes, replica.size);
            self.is_changed = true;
        }
    }
}

/// A partition with what is on it, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PartitionRow {
    pub(crate) name: String,
    pub(crate) space: Partition,
    pub(crate) pinned: u64,
}

impl Store {
    /// Reads the partitions, if that was not done.
    pub(in crate::store) fn load_partitions(&self) -> StoreResult<()> {
        if self.pending.borrow().partitions().is_some() {
            return Ok(());
        }
        const SQL: &str =
            "SELECT p.name, p.pool, p.total, p.free, p.server, p.root, p.https, p.boot, p.state, p.given_up,
            (SELECT CAST(coalesce(sum(r.size), 0) AS BIGINT) FROM replica r
             WHERE r.partition = p.name AND r.state <> 'online' AND r.state <> 'lost'),
            (SELECT CAST(coalesce(sum(d.size), 0) AS BIGINT) FROM removal d WHERE d.partition = p.name),
            p.replicas, p.replica_bytes, p.size_max
            FROM partition p";
        let rows = self.all_now(SQL, (), |row| {
            let space = Partition {
                pool: row.get(1)?,
                total: row.get(2)?,
                free: row.get(3)?,
                server: Arc::new(DiskServer { name: row.get(4)?, root: row.get(5)?, https: row.get(6)? }),
                boot: row.get(7)?,
                state: word(row, 8)?,
                given_up: row.get::<Option<i64>>(9)?.map(Timestamp),
                promised: row.get(10)?,
                leaving: row.get(11)?,
                replicas: row.get(12)?,
                replica_bytes: row.get(13)?,
                size_max: row.get(14)?,
                is_changed: false,
            };
            Ok((row.get(0)?, space))
        })?;
        self.pending.borrow_mut().set_partitions(rows.into_iter().collect());
        Ok(())
    }

    /// All partitions by name.
    pub(crate) fn partition_space(&self) -> StoreResult<BTreeMap<String, Partition>> {
        self.load_partitions()?;
        Ok(self.pending.borrow().partitions().cloned().unwrap_or_default())
    }

    /// What `map` yields of partitions, in the order of their names.
    pub(crate) fn map_partitions<T>(
        &self,
        map: impl FnMut((&String, &Partition)) -> Option<T>,
    ) -> StoreResult<Vec<T>> {
        self.load_partitions()?;
        Ok(self.pending.borrow().partitions().into_iter().flatten().filter_map(map).collect())
    }

    /// Whoever keeps answers about files must ask again.
    pub(crate) fn set_visible(&self) {
        self.pending.borrow_mut().set_visible();
    }

    pub(crate) fn partition(&self, name: &str) -> StoreResult<Option<Partition>> {
        self.load_partitions()?;
        Ok(self.pending.borrow().partitions().and_then(|all| all.get(name).cloned()))
    }

    /// Adds a partition, or changes what is known of one. In which pool it is, its host says only the first time.
    pub(crate) fn put_partition(&self, said: RegisterPartition) -> StoreResult<()> {
        let (total, free, boot) = (said.total_bytes, said.free_bytes, said.boot);
        let server = Arc::new(said.server);
        let Some(known) = self.partition(&said.partition)? else {
            let partition = Partition {
                pool: said.pool,
                server,
                boot,
                total,
                free,
                promised: 0,
                leaving: 0,
                state: PartitionState::default(),
                given_up: None,
                replicas: 0,
                replica_bytes: 0,
                size_max: None,
                is_changed: true,
            };
            self.change_partition(&said.partition, partition);
            return Ok(());
        };
        if known.server != server {
            // Its replicas are elsewhere.
            self.pending.borrow_mut().set_visible();
        }
        self.change_partition(
            &said.partition,
            Partition { server, boot, total, free, is_changed: true, ..known },
        );
        Ok(())
    }

    /// It belongs to another pool from now on.
    pub(crate) fn set_partition_pool(&self, name: &str, pool: &str) -> StoreResult<()> {
        match self.partition(name)? {
            Some(known) if known.pool != pool => {
                self.change_partition(name, Partition { pool: pool.to_owned(), is_changed: true, ..known });
            }
            _ => {}
        }
        Ok(())
    }

    /// Says how much may lie on it, whatever its host allows.
    pub(crate) fn set_size_max(&self, name: &str, size_max: Option<u64>) -> StoreResult<()> {
        match self.partition(name)? {
            Some(known) if known.size_max != size_max => {
                self.change_partition(name, Partition { size_max, is_changed: true, ..known });
            }
            _ => {}
        }
        Ok(())
    }

    /// Notes what a disk server says of its room. A partition that nobody knows stays unknown.
    pub(crate) fn set_space(&self, name: &str, total: u64, free: u64) -> StoreResult<()> {
        match self.partition(name)? {
            Some(known) if (known.total, known.free) != (total, free) => {
                self.change_partition(name, Partition { total, free, is_changed: true, ..known });
            }
            _ => {}
        }
        Ok(())
    }

    /// Says what may be done with a partition.
    pub(crate) fn set_partition_state(&self, name: &str, state: PartitionState) -> StoreResult<()> {
        match self.partition(name)? {
            Some(known) if known.state != state => {
                self.change_partition(name, Partition { state, is_changed: true, ..known });
            }
            _ => {}
        }
        Ok(())
    }

    /// Its replicas do not count from now on, or count again.
    pub(crate) fn set_given_up(&self, name: &str, given_up: Option<Timestamp>) -> StoreResult<()> {
        if let Some(known) = self.partition(name)? {
            // Another replica may be the one to read.
            self.pending.borrow_mut().set_visible();
            self.change_partition(name, Partition { given_up, is_changed: true, ..known });
        }
        Ok(())
    }

    /// So much of it is given back, or is not to be deleted any more.
    pub(in crate::store) fn end_leaving(&self, name: &str, bytes: u64) -> StoreResult<()> {
        if let Some(known) = self.partition(name)?.filter(|_| bytes > 0) {
            // Its row does not say it.
            let leaving = known.leaving.saturating_sub(bytes);
            self.count_change();
            self.pending.borrow_mut().set_partition(name, Partition { leaving, ..known });
        }
        Ok(())
    }

    fn change_partition(&self, name: &str, partition: Partition) {
        self.count_change();
        self.pending.borrow_mut().set_partition(name, partition);
    }

    /// What is on each partition.
    pub(crate) fn partitions(&self, now: Timestamp) -> StoreResult<Vec<PartitionRow>> {
        // There are few pins: the replicas are looked up from them.
        const SQL: &str = "SELECT r.partition, count(*) FROM
            (SELECT DISTINCT file FROM pin WHERE expires IS NULL OR expires > ?1) p
            CROSS JOIN replica r WHERE r.file = p.file AND r.state = 'online' GROUP BY r.partition";
        let pinned = self.all(SQL, (now.0,), |row| Ok((row.get(0)?, row.get(1)?)))?;
        let pinned: BTreeMap<String, u64> = pinned.into_iter().collect();
        let rows = self.partition_space()?.into_iter().map(|(name, space)| {
            let pinned = pinned.get(&name).copied().unwrap_or_default();
            PartitionRow { name, space, pinned }
        });
        let mut rows: Vec<_> = rows.collect();
        rows.sort_by(|a, b| (&a.space.pool, &a.name).cmp(&(&b.space.pool, &b.name)));
        Ok(rows)
    }
}
