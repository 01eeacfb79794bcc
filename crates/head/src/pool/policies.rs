//! What operators say about pools and partitions.

use super::tend::pools_to_keep;
use crate::{Apply, Context, Core, core::unknown_partition, status};
use base::{Failure, Result};
use wire::control::{Done, GetPools, PartitionState, Pools, SetPartition, SetPool};

impl Apply for SetPool {
    fn apply(self, core: &mut Core, context: &Context) -> Result<Done> {
        context.who.require_operator("change pools")?;
        self.pool.check()?;
        core.store.set_policy(&self.pool)?;
        core.live.care.look_again();
        core.sweep_again();
        Ok(Done {})
    }
}

impl Apply for SetPartition {
    fn apply(self, core: &mut Core, context: &Context) -> Result<Done> {
        context.who.require_operator("change partitions")?;
        let rows = core.store.partitions(context.now)?;
        let row = rows.into_iter().find(|row| row.name == self.partition);
        let row = row.ok_or_else(|| unknown_partition(&self.partition))?;
        if self.state == PartitionState::Retired && row.space.replicas > 0 {
            return Err(Failure::busy(format!(
                "partition {} still holds {} replicas",
                self.partition, row.space.replicas
            ))
            .hint(format!("`bp pool drain {}` moves them elsewhere", self.partition)));
        }
        core.store.set_partition_state(&self.partition, self.state)?;
        core.live.care.look_again();
        core.sweep_again();
        Ok(Done {})
    }
}

impl Apply for GetPools {
    fn apply(self, core: &mut Core, context: &Context) -> Result<Pools> {
        Ok(Pools { pools: status::pools(core, context.now)? })
    }
}

/// Whether there is anything to look for after a start.
pub(crate) fn is_sweep_due(core: &Core) -> Result<bool> {
    Ok(!pools_to_keep(core)?.is_empty())
}
