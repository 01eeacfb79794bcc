//! Reports of disk servers: partitions, space, and deleted objects.

use super::write::abandon;
use crate::pool::act::{
    allocation::{self},
    bounds::believed,
    out_of_reach::{self},
    reservation::release_idle,
    run_maintenance::end_coming,
    space::{incoming_bytes, note_claims},
};
use crate::{
    Apply, Context, Core, Topic,
    executor::core::{PartitionLive, unknown_partition},
    hosts::{presence, require_doors, require_name},
    store::{Partition, ReplicaState},
};
use base::{
    Failure, Millis, Result, Timestamp,
    limits::{LIST_ENTRIES_MAX, PARTITIONS_PER_HOST_MAX},
};
use std::collections::BTreeSet;
use tracing::{info, warn};
use wire::control::{
    Done, EventType, GetSpace, NextRemovals, ObjectsRemoved, PartitionTrouble, RegisterPartition, Removals,
    ReportSpace, Space, SpaceReported,
};

/// How long a reservation may wait for its writer: twice the life of the capability that goes with it.
const UNBEGUN_MAX: Millis = Millis(2 * wire::auth::capability::OPEN_LIFETIME.0);

impl Apply for RegisterPartition {
    fn apply(self, core: &mut Core, context: &Context) -> Result<Done> {
        context.who.require_host(&self.server.name)?;
        require_name(core, context, "a partition", &self.partition)?;
        let (name, boot, server) = (self.partition.clone(), self.boot, self.server.name.clone());
        let known = core.store.partition(&name)?;
        if let Some(known) = &known {
            // Another host with the same disk, or with a copy of it.
            context.who.require_host(&known.server.name)?;
        } else {
            require_room(core, context)?;
        }
        require_doors(core, context, &self.server)?;
        let (total_bytes, free_bytes) = believed(self.total_bytes, self.free_bytes);
        if let Some(known) = known.as_ref().filter(|known| known.pool != self.pool) {
            let (pool, said) = (&known.pool, &self.pool);
            info!(
                partition = name,
                pool,
                said,
                "the partition stays in its pool; the pool in its host's configuration is ignored"
            );
        }
        core.store.put_partition(RegisterPartition { total_bytes, free_bytes, ..self })?;
        if known.is_none_or(|known| known.boot != boot) {
            // A disk server that starts has no writer: what was being written was never acknowledged.
            for replica in core.store.unsettled(&name, ReplicaState::Writing)? {
                if replica.state == ReplicaState::Writing {
                    abandon(core, &replica, context)?;
                }
            }
            end_coming(core, &name)?;
            core.live.claims.forget(&name);
        }
        core.live.object_reports.insert(name.clone(), (boot, Some(context.now)));
        core.live.partitions.insert(name, PartitionLive { heard: context.now, trouble: None, transfers: 0 });
        presence::note_heard(core, &server, boot, context.now);
        out_of_reach::notice(core, context.now)?;
        core.touch(Topic::Copies);
        core.touch(Topic::Removals);
        Ok(Done {})
    }
}

/// Refuses more partitions of one host than it can have disks.
fn require_room(core: &Core, context: &Context) -> Result<()> {
    let Some(host) = context.who.as_host() else { return Ok(()) };
    let own = core.store.map_partitions(|(_, known)| (known.server.name == host).then_some(()))?.len();
    if own < PARTITIONS_PER_HOST_MAX {
        return Ok(());
    }
    Err(Failure::busy(format!("host {host} has {own} partitions, and no more are taken"))
        .hint("use larger partitions, or more hosts"))
}

impl Apply for ReportSpace {
    fn apply(self, core: &mut Core, context: &Context) -> Result<SpaceReported> {
        let partition = partition_of(core, context, &self.partition)?;
        let is_counted = match core.live.object_reports.get(&self.partition) {
            Some((_, begun)) => begun.is_some(),
            None => partition.given_up.is_none(),
        };
        if partition.boot != self.boot || !is_counted {
            return Err(unknown_partition(&self.partition));
        }
        note_live(core, &self, context.now);
        presence::note_heard(core, &partition.server.name, self.boot, context.now);
        if core.live.away.contains_key(&self.partition) || self.trouble.is_some() {
            out_of_reach::notice(core, context.now)?;
        }
        let is_direct = core.store.policy(&partition.pool)?.direct;
        let pool = partition.pool.clone();
        let told = SpaceReported {
            fence: core.fence(),
            now: context.now,
            is_direct,
            pool: partition.pool,
            released: Vec::new(),
        };
        if self.trouble == Some(PartitionTrouble::Gone) {
            return Ok(told);
        }
        let (total, free) = believed(self.total_bytes, self.free_bytes);
        core.store.set_space(&self.partition, total, free)?;
        note_claims(core, &self.partition, &self.claimed)?;
        let claimed = core.live.claims.total(&self.partition);
        core.live.maintenance.note_free(&self.partition, free.saturating_add(claimed));
        let mut begun = core.live.begun.remove(&self.partition).unwrap_or_default();
        let rows = core.store.unsettled(&self.partition, ReplicaState::Writing)?;
        let released = release_idle(core, (&self, &pool), &rows, context.now)?;
        let writing: BTreeSet<_> = self.writing.into_iter().collect();
        let mut unsettled = BTreeSet::new();
        for replica in rows {
            if replica.state == ReplicaState::Reserved {
                allocation::end_if_over(core, &replica, context.now)?;
                continue;
            }
            unsettled.insert(replica.object);
            if writing.contains(&replica.object) {
                begun.insert(replica.object);
            } else if replica.created + UNBEGUN_MAX < context.now {
                abandon(core, &replica, context)?;
            }
        }
        begun.retain(|object| unsettled.contains(object));
        core.live.begun.insert(self.partition, begun);
        Ok(SpaceReported { released, ..told })
    }
}

/// What is gone was there last before; whoever had registered is known without another word.
fn note_live(core: &mut Core, report: &ReportSpace, now: Timestamp) {
    let name = &report.partition;
    let live = core.live.partitions.entry(name.clone());
    let live = live.or_insert(PartitionLive { heard: now, trouble: None, transfers: 0 });
    live.transfers = report.readers.saturating_add(u32::try_from(report.writing.len()).unwrap_or(u32::MAX));
    if report.trouble != Some(PartitionTrouble::Gone) {
        live.heard = now;
    }
    if std::mem::replace(&mut live.trouble, report.trouble) != report.trouble {
        let subject = core.partition_subject(name);
        let (kind, what) = match report.trouble {
            Some(trouble) => {
                warn!(partition = name, "partition in trouble: {}", trouble.words());
                (EventType::PartitionTrouble, format!("partition {subject} is {}", trouble.words()))
            }
            None => {
                info!(partition = name, "partition has recovered");
                (EventType::PartitionWell, format!("partition {subject} has recovered"))
            }
        };
        core.say(now, kind, subject, what);
        core.touch(Topic::Copies);
        core.touch(Topic::Removals);
    }
}

/// A partition of the host that asks.
pub(crate) fn partition_of(core: &Core, context: &Context, name: &str) -> Result<Partition> {
    let partition = core.store.partition(name)?.ok_or_else(|| unknown_partition(name))?;
    context.who.require_host(&partition.server.name)?;
    Ok(partition)
}

impl Apply for GetSpace {
    fn apply(self, core: &mut Core, _: &Context) -> Result<Space> {
        let mut space = Space::default();
        for (name, row) in core.store.partition_space()? {
            let free = row.free_bytes().saturating_sub(incoming_bytes(core, &name, &row));
            space.total_bytes = space.total_bytes.saturating_add(row.capacity_bytes());
            space.free_bytes = space.free_bytes.saturating_add(free);
            space.largest_free_bytes = space.largest_free_bytes.max(free);
        }
        Ok(space)
    }
}

impl Apply for NextRemovals {
    const TOPIC: Topic = Topic::Removals;

    fn apply(self, core: &mut Core, context: &Context) -> Result<Removals> {
        partition_of(core, context, &self.partition)?;
        core.tick(context.now)?;
        let objects = match core.unsettled()? {
            // Nobody knows yet what was written since the backup.
            Some(_) => Vec::new(),
            // They would fail, or be taken for done.
            None if core.trouble(&self.partition).is_some() => Vec::new(),
            None => core.store.removals(&self.partition, LIST_ENTRIES_MAX)?,
        };
        Ok(Removals { objects, mark: core.mark()? })
    }
}

impl Apply for ObjectsRemoved {
    fn apply(self, core: &mut Core, context: &Context) -> Result<Done> {
        let partition = partition_of(core, context, &self.partition)?;
        let freed = core.store.end_removals(&self.partition, &self.objects)?;
        let before = partition.free.saturating_add(core.live.claims.total(&self.partition));
        core.live.maintenance.note_freed(&self.partition, (freed, before), context.now);
        Ok(Done {})
    }
}
