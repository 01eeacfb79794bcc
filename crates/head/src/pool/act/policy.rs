//! Calls of operators on pools and partitions.

use crate::{
    Apply, Context, Core,
    executor::core::unknown_partition,
    namespace::path_of,
    pool::act::run_maintenance::pools_to_keep,
    status,
    store::{Partition, ReplicaState},
};
use base::{Failure, Result, units::counted};
use wire::control::{
    Done, GetPools, MovePartition, PartitionState, Pool, Pools, ResizePartition, SetPartition, SetPool,
};

impl Apply for SetPool {
    fn apply(self, core: &mut Core, context: &Context) -> Result<Done> {
        context.who.require_operator("change pools")?;
        self.pool.check()?;
        core.store.set_policy(&self.pool)?;
        core.live.maintenance.look_again();
        core.sweep_again();
        Ok(Done {})
    }
}

impl Apply for SetPartition {
    fn apply(self, core: &mut Core, context: &Context) -> Result<Done> {
        context.who.require_operator("change partitions")?;
        let partition = known(core, &self.partition)?;
        if self.state == PartitionState::Retired {
            require_empty(core, &self.partition, &partition)?;
        }
        core.store.set_partition_state(&self.partition, self.state)?;
        core.live.maintenance.look_again();
        core.sweep_again();
        Ok(Done {})
    }
}

fn known(core: &Core, partition: &str) -> Result<Partition> {
    core.store.partition(partition)?.ok_or_else(|| unknown_partition(partition))
}

/// Refuses a partition on which something lies, or to which something comes.
fn require_empty(core: &Core, name: &str, partition: &Partition) -> Result<()> {
    if partition.replicas > 0 {
        let replicas = counted(partition.replicas, "replica", "replicas");
        let what = format!("partition {name} still holds {replicas}");
        return Err(Failure::busy(what).hint(format!("`bp pool drain {name}` moves them elsewhere")));
    }
    for state in COMING {
        if let Some(coming) = core.store.unsettled(name, state)?.first() {
            let what = format!(
                "{} is being written to partition {name}, or has space reserved there",
                path_of(core, coming.file)?
            );
            return Err(Failure::busy(what).hint(format!(
                "`bp pool drain {name}` stops new writes; try again when the current ones have ended"
            )));
        }
    }
    Ok(())
}

impl Apply for ResizePartition {
    fn apply(self, core: &mut Core, context: &Context) -> Result<Done> {
        context.who.require_operator("change partitions")?;
        known(core, &self.partition)?;
        if self.size_max_bytes == Some(0) {
            return Err(Failure::invalid("a partition of 0 bytes cannot hold files")
                .hint(format!("`bp pool drain {}` empties it", self.partition)));
        }
        // More than a partition can have is all of it.
        let size_max = self.size_max_bytes.map(|most| most.min(i64::MAX.unsigned_abs()));
        core.store.set_size_max(&self.partition, size_max)?;
        core.live.maintenance.look_again();
        core.sweep_again();
        Ok(Done {})
    }
}

impl Apply for MovePartition {
    fn apply(self, core: &mut Core, context: &Context) -> Result<Done> {
        context.who.require_operator("change partitions")?;
        let (name, partition) = (&self.partition, known(core, &self.partition)?);
        Pool { name: self.pool.clone(), ..Pool::default() }.check()?;
        if partition.pool == self.pool {
            return Ok(Done {});
        }
        if partition.state == PartitionState::Retired {
            let what = format!("partition {name} is retired");
            return Err(Failure::busy(what).hint(format!("run `bp pool use {name}` first")));
        }
        require_empty(core, name, &partition)?;
        if let Some(lost) = core.store.unsettled(name, ReplicaState::Lost)?.first() {
            // What is found again would lie in another pool than the rest of its file.
            let what = format!(
                "object {} of partition {name} is lost or damaged, and its file has no other",
                lost.object
            );
            return Err(Failure::busy(what)
                .hint(format!("`bp scan start {name}`, or remove {}", path_of(core, lost.file)?)));
        }
        core.store.set_partition_pool(name, &self.pool)?;
        if partition.state == PartitionState::Draining {
            core.store.set_partition_state(name, PartitionState::InUse)?;
        }
        core.live.maintenance.look_again();
        core.sweep_again();
        Ok(Done {})
    }
}

impl Apply for GetPools {
    fn apply(self, core: &mut Core, context: &Context) -> Result<Pools> {
        Ok(Pools { pools: status::pools(core, context.now)? })
    }
}

/// States of what is on its way to a partition.
const COMING: [ReplicaState; 4] =
    [ReplicaState::Writing, ReplicaState::Mirroring, ReplicaState::Copying, ReplicaState::Recalling];

/// Whether there is anything to look for after a start.
pub(crate) fn is_sweep_due(core: &Core) -> Result<bool> {
    Ok(!pools_to_keep(core)?.is_empty())
}
