//! Partitions of hosts that were turned away: what is on them does not count, and nothing is written there any more.
//!
//! A host may join again with what it has: its partitions count again when it has said what is on them.

use super::{allocation, calls::abandon, tend::end_coming};
use crate::{
    Context, Core, Topic,
    store::{Node, Replica, ReplicaState},
};
use base::{Failure, FilePath, Result};

/// A host was turned away: nobody will end the writes on it, and readers are sent elsewhere.
pub(crate) fn host_removed(core: &mut Core, context: &Context, host: &str) -> Result<()> {
    let own = core.store.map_partitions(|(name, row)| (row.server.name == host).then(|| name.clone()))?;
    for partition in own {
        core.store.set_given_up(&partition, Some(context.now))?;
        core.live.partitions.remove(&partition);
        core.live.roll_calls.remove(&partition);
        end_writes(core, context, &partition)?;
        end_coming(core, &partition)?;
    }
    core.live.care.look_again();
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

/// Whether a partition is on a host that was turned away.
pub(super) fn is_turned_away(core: &Core, partition: &str) -> Result<bool> {
    if !core.store.is_given_up(partition)? {
        return Ok(false);
    }
    let (hosts, row) = (core.store.hosts()?, core.store.partition(partition)?);
    let host = row.and_then(|row| hosts.get(&row.server.name));
    Ok(host.is_some_and(|host| host.removed.is_some()))
}

/// Replicas of a file, or pieces of it, that are not on hosts that were turned away.
pub(super) fn within_reach<'a>(
    core: &Core,
    replicas: impl Iterator<Item = &'a Replica>,
) -> Result<Vec<&'a Replica>> {
    let mut within = Vec::new();
    for replica in replicas {
        if !is_turned_away(core, &replica.partition)? {
            within.push(replica);
        }
    }
    Ok(within)
}

/// Why a file cannot be read although it is on disk: whatever is needed of it is on hosts that were turned away.
pub(crate) fn out_of_reach(core: &Core, node: &Node, path: &FilePath) -> Result<Failure> {
    let mut hosts = Vec::new();
    for replica in node.online() {
        if is_turned_away(core, &replica.partition)? {
            let row = core.store.partition(&replica.partition)?;
            hosts.extend(row.map(|row| row.server.name.clone()).filter(|host| !hosts.contains(host)));
        }
    }
    Ok(Failure::unavailable(format!(
        "{path} is out of reach: on {}, which was turned away",
        hosts.join(", ")
    ))
    .hint("that host may join again with its directory: `bp host invite`"))
}
