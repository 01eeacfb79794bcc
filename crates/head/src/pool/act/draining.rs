//! Drains partitions. Refuses without force if files would stay: none can take them, or they cannot be copied.
//!
//! The moves are those of [`crate::pool::decide::repair`]: a copy elsewhere, then the replica goes.

use crate::{
    Apply, Context, Core,
    executor::core::unknown_partition,
    hosts::unknown,
    namespace::path_of,
    pool::{act::snapshot::snapshot, decide::view::PartitionState},
    store::{Partition, SoleQuery},
};
use base::{
    Failure, FileId, Result, Timestamp,
    limits::LIST_ENTRIES_MAX,
    units::{counted, human_bytes},
};
use std::collections::BTreeMap;
use wire::control::{Drain, Drained, DrainedPartition};

/// Replicas of a partition that are looked at one by one: some seconds. Of more only the sums are compared.
const REPLICAS_MAX: u64 = 200_000;
/// Files that a refusal names.
const NAMED: usize = 10;

impl Apply for Drain {
    fn apply(self, core: &mut Core, context: &Context) -> Result<Drained> {
        context.who.require_operator("drain partitions")?;
        let names = names(core, &self)?;
        for name in &names {
            core.store.set_partition_state(name, PartitionState::Draining)?;
        }
        if !self.force {
            refuse_stuck(core, &names, context.now)?;
        }
        core.live.maintenance.look_again();
        core.sweep_again();
        let told = |name: String| {
            let row = known(core, &name)?;
            Ok(DrainedPartition { name, replicas: row.replicas, bytes: row.replica_bytes })
        };
        Ok(Drained { partitions: names.into_iter().map(told).collect::<Result<_>>()? })
    }
}

fn known(core: &Core, name: &str) -> Result<Partition> {
    core.store.partition(name)?.ok_or_else(|| unknown_partition(name))
}

/// The partitions that are meant: those named, and all of the host that are in use.
fn names(core: &Core, call: &Drain) -> Result<Vec<String>> {
    let mut names = call.partitions.clone();
    for name in &names {
        if known(core, name)?.state == PartitionState::Retired {
            return Err(Failure::invalid(format!("partition {name} is retired, and empty")));
        }
    }
    if let Some(host) = &call.host {
        let own = core
            .store
            .map_partitions(|(name, row)| (row.server.name == *host).then(|| (name.clone(), row.state)))?;
        if own.is_empty() {
            core.store.host(host)?.ok_or_else(|| unknown(host))?;
            return Err(Failure::invalid(format!("host {host} has no partitions")));
        }
        let used = own.into_iter().filter(|(_, state)| *state != PartitionState::Retired);
        names.extend(used.map(|(name, _)| name));
    }
    names.sort_unstable();
    names.dedup();
    Ok(names)
}

/// Space on the other partitions of a pool.
#[derive(Debug, Clone, Copy, Default)]
struct Space {
    largest_bytes: u64,
    total_bytes: u64,
    partitions: usize,
}

fn space_elsewhere(core: &Core, pool: &str, now: Timestamp) -> Result<Space> {
    let snapshot = snapshot(core, pool, now)?;
    let reserved = snapshot.pool.reserved_bytes;
    let takes = |state| state == PartitionState::InUse;
    let open = snapshot.partitions().iter().filter(|one| takes(one.state) && snapshot.answers(one));
    Ok(open.fold(Space::default(), |sum, one| {
        let room = one.room_bytes().saturating_sub(reserved);
        Space {
            largest_bytes: sum.largest_bytes.max(room),
            total_bytes: sum.total_bytes.saturating_add(room),
            partitions: sum.partitions + 1,
        }
    }))
}

/// Refuses to drain partitions whose only copies of files cannot go elsewhere. They are draining already: what lies on two of them is
/// nowhere else.
fn refuse_stuck(core: &Core, names: &[String], now: Timestamp) -> Result<()> {
    let mut pools: BTreeMap<String, Vec<(&str, Partition)>> = BTreeMap::new();
    for name in names {
        let row = known(core, name)?;
        if row.replicas > 0 {
            pools.entry(row.pool.clone()).or_default().push((name, row));
        }
    }
    for (pool, partitions) in pools {
        let space = space_elsewhere(core, &pool, now)?;
        let mut bytes = 0u64;
        for (name, row) in &partitions {
            bytes = bytes.saturating_add(refuse_partition(core, (name, row), (&pool, space))?);
        }
        if bytes > space.total_bytes {
            let (name, _) = partitions[0];
            let why = format!(
                "they have {}, and the other partitions of pool {pool} have {} free",
                human_bytes(bytes),
                human_bytes(space.total_bytes)
            );
            return Err(refusal(core, name, &sole(core, name, None)?, &why)?);
        }
    }
    Ok(())
}

/// The bytes of files that are on a partition alone; refused if one of them cannot go.
fn refuse_partition(
    core: &Core,
    (name, row): (&str, &Partition),
    (pool, space): (&str, Space),
) -> Result<u64> {
    if row.replicas > REPLICAS_MAX {
        return Ok(row.replica_bytes);
    }
    let (larger_than, why) = match core.live.away.get(name) {
        Some(away) => {
            let why = format!("host {} is {}, so its files cannot be read", away.host, away.reason.as_str());
            (None, why)
        }
        None if space.partitions == 0 => (None, format!("no other partition of pool {pool} accepts files")),
        None => {
            let largest = human_bytes(space.largest_bytes);
            let why = format!("no other partition of pool {pool} has more than {largest} free");
            (Some(space.largest_bytes), why)
        }
    };
    let stuck = sole(core, name, larger_than)?;
    if stuck.is_empty() {
        return Ok(core.store.sole_bytes(name)?);
    }
    Err(refusal(core, name, &stuck, &why)?)
}

fn sole(core: &Core, partition: &str, larger_than: Option<u64>) -> Result<Vec<FileId>> {
    let query = SoleQuery { partition, larger_than, limit: LIST_ENTRIES_MAX };
    Ok(core.store.sole_files_on(&query)?)
}

fn refusal(core: &Core, partition: &str, files: &[FileId], why: &str) -> Result<Failure> {
    let mut named = Vec::new();
    for id in files.iter().take(NAMED) {
        named.push(path_of(core, *id)?.to_string());
    }
    let more = if files.len() > NAMED { ", ..." } else { "" };
    let count = match files.len() {
        LIST_ENTRIES_MAX => format!("{LIST_ENTRIES_MAX} files or more are"),
        len => counted(len as u64, "file is", "files are"),
    };
    let what = format!(
        "{count} only on partition {partition} and cannot be moved: {why}: {}{more}",
        named.join(", ")
    );
    Ok(Failure::busy(what).hint("archive them or add disks to the pool; `--force` moves the other files"))
}
