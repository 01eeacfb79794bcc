//! Partitions of removed hosts: their replicas do not count, and nothing is written there any more.
//!
//! A host may join again with what it has: its partitions count again when it has said what is on them.

use crate::{
    Context, Core, Topic,
    pool::{
        act::{allocation, run_maintenance::end_coming},
        calls::abandon,
    },
    store::ReplicaState,
};
use base::Result;

/// A host was removed: nobody will end the writes on it, and readers are sent elsewhere.
pub(crate) fn host_removed(core: &mut Core, context: &Context, host: &str) -> Result<()> {
    let own = core.store.map_partitions(|(name, row)| (row.server.name == host).then(|| name.clone()))?;
    for partition in own {
        core.store.set_given_up(&partition, Some(context.now))?;
        core.live.partitions.remove(&partition);
        core.live.object_reports.remove(&partition);
        end_writes(core, context, &partition)?;
        end_coming(core, &partition)?;
    }
    core.live.maintenance.look_again();
    core.sweep_again();
    core.touch(Topic::Copies);
    core.touch(Topic::Files);
    Ok(())
}

fn end_writes(core: &mut Core, context: &Context, partition: &str) -> Result<()> {
    // Room that was reserved for a write stays reserved when that ends: so what is reserved comes second.
    for state in [ReplicaState::Writing, ReplicaState::Reserved] {
        for replica in core.store.unsettled(partition, ReplicaState::Writing)? {
            // What ended before may have taken it along.
            let there = core.store.replica(replica.object)?.filter(|there| there.state == state);
            match there {
                Some(there) if state == ReplicaState::Writing => abandon(core, &there, context)?,
                Some(there) => allocation::move_away(core, &there, context.now)?,
                None => {}
            }
        }
    }
    Ok(())
}
