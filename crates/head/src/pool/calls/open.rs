//! Opening files to read them.

use crate::pool::{
    act::{
        allocation::FileReservation,
        out_of_reach::{self, out_of_reach, state_of},
    },
    source,
};
use crate::{
    Apply, Context, Core,
    executor::core::unknown_partition,
    namespace::{Right, require, resolve_file},
    share,
    store::{Node, Replica, ReplicaState},
    tape,
    waiters::Awaited,
};
use base::{Failure, FilePath, Result};
use wire::{
    auth::capability::NEVER_JOINED,
    control::{DiskServer, FileState, OpenRead, ReadGrant, ReadObject},
};

pub(super) fn read_object(core: &Core, node: &Node, replica: &Replica) -> Result<ReadObject> {
    let checksums = node
        .checksums
        .ok_or_else(|| Failure::locked(format!("{} is being written for the first time", node.name)))?;
    let server = server_of(core, &replica.partition)?;
    Ok(ReadObject {
        file: node.id,
        object: replica.object,
        partition: replica.partition.clone(),
        size: node.size,
        modified: node.modified,
        source_modified: node.source_modified,
        checksums,
        mode: node.mode,
        joined: server.as_ref().map_or(Ok(NEVER_JOINED), |server| core.joined(&server.name))?,
        server,
        fence: core.fence(),
        is_piece: replica.piece.is_some(),
    })
}

/// Who serves a partition, unless it is the disk server in this process.
pub(super) fn server_of(core: &Core, partition: &str) -> Result<Option<DiskServer>> {
    let partition = core.store.partition(partition)?.ok_or_else(|| unknown_partition(partition))?;
    let is_remote = partition.server.name != core.config.server.name;
    Ok(is_remote.then(|| (*partition.server).clone()))
}

impl Apply for OpenRead {
    fn paths(&self) -> Vec<FilePath> {
        vec![self.path.clone()]
    }

    fn apply(self, core: &mut Core, context: &Context) -> Result<ReadGrant> {
        let node = resolve_file(core, &context.who, &self.path)?;
        require(core, &context.who, &node, Right::Read, &self.path)?;
        if !share::settle_for_door(core, context, &node)? {
            return Ok(ReadGrant::Recalling { file: node.id });
        }
        if let Some(replica) = source(core, &node, node.id.0 ^ context.now.0.unsigned_abs(), context.now)? {
            core.store.note_use(&replica, context.now);
            return read_object(core, &node, &replica).map(ReadGrant::Online);
        }
        match state_of(core, &node) {
            FileState::Writing => Err(unwritten(&node, &self.path)),
            FileState::OutOfReach | FileState::Online => wait_for_host(core, context, &node, &self.path),
            FileState::Lost => Err(lost(core, &node, &self.path)?),
            _ => {
                let row = tape::request_recall(core, context, &node)?;
                tape::refuse_hopeless(&row, &self.path)?;
                core.awaits(Awaited::File(node.id));
                core.awaits(Awaited::Hosts);
                Ok(ReadGrant::Recalling { file: node.id })
            }
        }
    }
}

/// What is said to whoever opens a file out of reach: to wait for a disk server that may only be starting again, or why it cannot
/// be read.
fn wait_for_host(core: &Core, context: &Context, node: &Node, path: &FilePath) -> Result<ReadGrant> {
    let Some(span) = out_of_reach::returns_within(core, node, context.now) else {
        return Err(out_of_reach(core, node, path, context.now));
    };
    core.awaits(Awaited::File(node.id));
    core.awaits(Awaited::Hosts);
    core.look_again_in(span);
    Ok(ReadGrant::Recalling { file: node.id })
}

/// Says where a file was whose bytes are nowhere.
fn lost(core: &Core, node: &Node, path: &FilePath) -> Result<Failure> {
    let mut what = format!("{path} has no disk replica and no tape copy");
    for replica in node.replicas.iter().filter(|replica| replica.state == ReplicaState::Lost) {
        if let Some(row) = core.store.partition(&replica.partition)? {
            let (partition, server) = (&replica.partition, &row.server.name);
            what.push_str(&format!("; object {} is gone from {partition} of {server}", replica.object));
        }
    }
    Ok(Failure::corrupt(what).hint("write it again from its source"))
}

fn unwritten(node: &Node, path: &FilePath) -> Failure {
    if FileReservation::of(node).is_some_and(|held| !held.is_begun) {
        return Failure::busy(format!("{path} is empty: its space is reserved, but nothing was written yet"))
            .hint(format!("open it again once it is written; `bp stat {path}` shows who reserved it"));
    }
    Failure::locked(format!("{path} is being written for the first time"))
        .hint("open it again when its writer has closed it")
}
