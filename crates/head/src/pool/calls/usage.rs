//! Reports of reads, for the bill and for the order of eviction; and evictions.

use crate::pool::evict as drop_from_disk;
use crate::{
    Apply, Context, Core,
    account::{self},
    namespace::{Right, require, resolve_file},
    store::Node,
    tape,
};
use base::{Cause, Failure, FilePath, ObjectId, Result};
use tracing::{debug, warn};
use wire::control::{
    Done, Evict, FileState, PathOutcome, PathOutcomes, REPORT_USE_LEN_MAX, ReportUse, VolumeState,
};

impl Apply for ReportUse {
    fn apply(self, core: &mut Core, context: &Context) -> Result<Done> {
        let longest = self.traffic.len().max(self.opened.len());
        if longest > REPORT_USE_LEN_MAX {
            return Err(Failure::invalid(format!(
                "a report of {longest} lines is longer than {REPORT_USE_LEN_MAX}"
            ))
            .hint("send several"));
        }
        let mut foreign = 0;
        for line in &self.traffic {
            match whose(core, context, line.object)? {
                ObjectOwner::Own => account::moved(core, line)?,
                ObjectOwner::Nobodys => debug!(
                    owner = line.owner,
                    "a file that was read no longer exists; the read is not billed"
                ),
                ObjectOwner::Anothers => foreign += 1,
            }
        }
        for object in self.opened {
            match (whose(core, context, Some(object))?, core.store.replica(object)?) {
                (ObjectOwner::Anothers, _) => foreign += 1,
                (ObjectOwner::Own, Some(replica)) => core.store.note_use(&replica, context.now),
                (ObjectOwner::Own, None) | (ObjectOwner::Nobodys, _) => {}
            }
        }
        if foreign > 0 {
            let host = context.who.as_host().unwrap_or_default();
            warn!(
                host,
                lines = foreign,
                "a host reported reads of objects that it does not hold; they are not counted"
            );
        }
        Ok(Done {})
    }
}

/// Which host has the object that a host reports as used.
enum ObjectOwner {
    Own,
    /// It was removed since.
    Nobodys,
    Anothers,
}

/// A host is believed about what it has. The rooms in the head's own process read from all hosts.
fn whose(core: &Core, context: &Context, object: Option<ObjectId>) -> Result<ObjectOwner> {
    let Some(host) = context.who.as_host() else { return Ok(ObjectOwner::Own) };
    let Some(object) = object else { return Ok(ObjectOwner::Anothers) };
    let Some(replica) = core.store.replica(object)? else { return Ok(ObjectOwner::Nobodys) };
    let partition = core.store.partition(&replica.partition)?;
    let is_own = partition.is_some_and(|partition| partition.server.name == host);
    Ok(if is_own { ObjectOwner::Own } else { ObjectOwner::Anothers })
}

impl Apply for Evict {
    fn apply(self, core: &mut Core, context: &Context) -> Result<PathOutcomes> {
        let files = self.paths.into_iter().map(|path| match evict(core, context, &path, self.releases) {
            Ok(state) => PathOutcome::accepted(path, state, None),
            Err(failure) => PathOutcome::refused(path, failure),
        });
        Ok(PathOutcomes { files: files.collect() })
    }
}

/// Refuses to drop the last good content: what is on tape cannot be read there any more.
fn refuse_broken(core: &Core, node: &Node, path: &FilePath) -> Result<()> {
    let copies = core.store.copies(node.id)?;
    // The best one comes first.
    let best = copies.first().map(|copy| core.store.volume(&copy.vid)).transpose()?.flatten();
    match best {
        Some(volume) if volume.state == VolumeState::Broken => Err(Failure::busy(format!(
            "{path} has its only tape copy on volume {}, which is broken",
            volume.vid
        ))
        .because(Cause::NoTapeCopy)
        .hint("keep it on disk until it has another copy")),
        _ => Ok(()),
    }
}

fn evict(core: &mut Core, context: &Context, path: &FilePath, releases: bool) -> Result<FileState> {
    let node = resolve_file(core, &context.who, path)?;
    let own = tape::pin_of(&context.who.name);
    if releases {
        require(core, &context.who, &node, Right::Read, path)?;
        core.store.shorten_pin(node.id, &own, None, context.now)?;
    } else {
        require(core, &context.who, &node, Right::Write, path)?;
    }
    match node.state() {
        FileState::Nearline => return Ok(FileState::Nearline),
        FileState::Both => refuse_broken(core, &node, path)?,
        FileState::Online if node.is_archived => {
            let missing = tape::missing_copies(core, &node)?;
            let routes = missing.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
            return Err(Failure::busy(format!(
                "{path} lacks tape copies that its storage class wants: {routes}"
            ))
            .because(Cause::NoTapeCopy)
            .hint(format!("`bp archive --wait {path}` makes them")));
        }
        state => {
            return Err(Failure::busy(format!("{path} has no tape copy (it is {})", state.as_str()))
                .because(Cause::NoTapeCopy)
                .hint(format!("`bp archive --wait {path}` makes one")));
        }
    }
    if let Some(holder) = core.store.pins(node.id, context.now)?.first() {
        let (cause, hint) = if *holder == own {
            (Cause::PinnedByCaller, format!("`bp release {path}`"))
        } else {
            (Cause::PinnedByOthers, "wait until it is released".to_owned())
        };
        return Err(Failure::busy(format!("{path} is pinned by {holder}")).because(cause).hint(hint));
    }
    // Who may only read it lets go of it; the disk keeps it until there is need for room.
    require(core, &context.who, &node, Right::Write, path)?;
    drop_from_disk(core, node.id)?;
    Ok(FileState::Nearline)
}
