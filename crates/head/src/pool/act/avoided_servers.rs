//! Disk servers that a client could not reach: the head may not have noticed yet that they are down.

use crate::{
    Apply, Context, Core,
    namespace::resolve_file,
    pool::calls::abandon,
    store::{Node, Replica, ReplicaState},
};
use base::{Failure, Millis, Result};
use std::{collections::BTreeSet, sync::Arc};
use tracing::info;
use wire::control::{AVOIDED_LEN_MAX, AvoidServers, Avoided};

/// How long others are preferred: by then a server that is gone is silent, and one that is not was not reached by accident.
const AVOIDED_FOR: Millis = Millis::from_seconds(15);

impl Apply for AvoidServers {
    fn apply(self, core: &mut Core, context: &Context) -> Result<Avoided> {
        if self.hosts.len() > AVOIDED_LEN_MAX {
            return Err(Failure::invalid(format!("{} hosts are too many at once", self.hosts.len())));
        }
        let avoided = servers(core, &self.hosts)?;
        core.live.avoided.retain(|_, until| context.now < *until);
        for server in &avoided {
            let until = context.now + AVOIDED_FOR;
            if core.live.avoided.insert(server.clone(), until).is_none() {
                info!(
                    server,
                    user = context.who.name,
                    "a client could not reach this server; it is offered others first"
                );
                // Doors have kept where files are.
                core.store.set_visible();
            }
        }
        // Who may not see the file hears of that when it is opened.
        if self.is_write
            && let Ok(node) = resolve_file(core, &context.who, &self.path)
        {
            give_back(core, context, &node, &avoided)?;
        }
        Ok(Avoided { servers: avoided.into_iter().collect() })
    }
}

/// The disk servers at these hosts. That of the head's own host answers here and now.
fn servers(core: &Core, hosts: &[String]) -> Result<BTreeSet<String>> {
    let is_meant = |root: &str| {
        let host = root.rsplit_once(':').map_or(root, |(host, _)| host);
        hosts.iter().any(|tried| tried.trim_matches(['[', ']']) == host.trim_matches(['[', ']']))
    };
    let found = core.store.map_partitions(|(_, row)| {
        let is_own = row.server.name == core.config.server.name;
        (!is_own && is_meant(&row.server.root)).then(|| row.server.name.clone())
    })?;
    Ok(found.into_iter().collect())
}

/// Gives up what this user was to write on one of `servers`: it comes back because it could not begin. What has begun is somebody's
/// work, perhaps of the same user in another place: only its disk server ends it.
fn give_back(core: &mut Core, context: &Context, node: &Arc<Node>, servers: &BTreeSet<String>) -> Result<()> {
    let writing = node
        .replicas
        .iter()
        .find(|replica| replica.state == ReplicaState::Writing && replica.owner == context.who.name);
    let Some(writing) = writing.filter(|writing| !may_have_begun(core, writing)) else { return Ok(()) };
    let partition = core.store.partition(&writing.partition)?;
    if !partition.is_some_and(|partition| servers.contains(&partition.server.name)) {
        return Ok(());
    }
    abandon(core, writing, context)?;
    // Nothing of it was sent, so that nobody tries to send the rest.
    core.live.cut_off.remove(&node.id);
    Ok(())
}

/// Of what was reserved before the head was started nobody here knows.
fn may_have_begun(core: &Core, writing: &Replica) -> bool {
    let is_begun = core.live.begun.get(&writing.partition).is_some_and(|all| all.contains(&writing.object));
    is_begun || writing.created < core.live.since
}
