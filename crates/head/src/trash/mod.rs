//! The trash: removed files stay for a while, and go when their time is over or their space is needed.
//!
//! A removed file keeps its node, replicas and copies. The node moves to a directory that has no path
//! ([`crate::store::TRASH`]). Overwritten content gets a new node there. The trash is not charged to users, because they did not
//! ask for it. In return its files go first: for a write that needs space, at low water, and, once the trash is full, for a file
//! that was removed later.

mod calls;

use crate::{
    Core,
    namespace::path_of,
    pool::{drop_content, evict},
    store::{Node, TrashRow},
};
use base::{FileId, Millis, ObjectId, Result, Timestamp};
use tracing::debug;
use wire::control::{FileCounts, TrashLimit, TrashReason};

/// Most files in the trash: each costs some hundred bytes of the catalogue. The oldest go first.
const FILES_MAX: u64 = 1_000_000;
/// Files that go in one call: some milliseconds.
const TURN_LEN: usize = 64;
/// Files of a partition that are looked at to make room for one object.
const VICTIMS_MAX: usize = 1000;

/// How long what was removed is kept, and how much of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrashPolicy {
    /// How long; 0: not at all.
    pub retention: Millis,
    /// How much of it on disk.
    pub max_size: TrashLimit,
}

impl TrashPolicy {
    /// Nothing is kept.
    pub const NONE: Self = Self { retention: Millis(0), max_size: TrashLimit::Percent(0) };

    fn is_kept(self) -> bool {
        self.retention > Millis(0)
    }
}

/// Who removed a file, when and how.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Removal<'a> {
    pub(crate) remover: &'a str,
    pub(crate) why: TrashReason,
    pub(crate) now: Timestamp,
}

/// Whether there is something of a file that somebody could want back: content that was acknowledged and is somewhere.
fn is_worth_keeping(core: &Core, node: &Node) -> bool {
    let is_there = node.is_archived || node.replicas.iter().any(|replica| replica.state.is_settled());
    core.trash.is_kept() && node.checksums.is_some() && is_there
}

/// Puts a file into the trash that nothing else belongs to any more. Yields whether it did; else its content is to be dropped.
pub(crate) fn keep_file(core: &mut Core, node: &Node, removal: Removal<'_>) -> Result<bool> {
    if !is_worth_keeping(core, node) {
        return Ok(false);
    }
    let path = path_of(core, node.id)?;
    // What is being written to it, or comes from tape, ends.
    for replica in node.replicas.iter().filter(|replica| !replica.state.is_settled()) {
        crate::pool::retire(core, replica)?;
    }
    let Removal { remover, why, now } = removal;
    core.store.put_trash(&TrashRow { file: node.id, path, removed: now, remover: remover.into(), why })?;
    Ok(true)
}

/// Puts what a file has into the trash, because other content takes its place, which is in the objects `keep`.
pub(crate) fn keep_content(
    core: &mut Core,
    file: FileId,
    keep: &[ObjectId],
    (remover, now): (&str, Timestamp),
) -> Result<()> {
    let Some(node) = core.store.node(file)?.filter(|node| is_worth_keeping(core, node)) else {
        return Ok(());
    };
    let (path, why) = (path_of(core, file)?, TrashReason::Overwritten);
    let row = TrashRow { file, path, removed: now, remover: remover.into(), why };
    core.store.split_content(&node, keep, row)?;
    Ok(())
}

/// A file in the trash goes for good. Yields its bytes on disk.
fn purge(core: &mut Core, file: FileId) -> Result<u64> {
    let Some(node) = core.store.node(file)?.filter(|node| node.is_in_trash()) else {
        core.store.delete_trash(file)?;
        return Ok(0);
    };
    let bytes = node.online().map(|replica| replica.size).sum();
    drop_content(core, file, &[])?;
    for request in core.store.requests_of_file(file)? {
        core.store.delete_request(request.id)?;
    }
    core.store.delete_pins(file)?;
    core.store.delete_trash(file)?;
    core.store.delete_node(file)?;
    Ok(bytes)
}

/// A file in the trash leaves the disks: what is on tape, too, can be restored still. Yields its bytes on disk.
fn give_up_disk(core: &mut Core, file: FileId) -> Result<u64> {
    let Some(node) = core.store.node(file)? else { return Ok(0) };
    if !node.is_archived {
        return purge(core, file);
    }
    evict(core, file)?;
    Ok(node.online().map(|replica| replica.size).sum())
}

/// How many of the oldest files are due: `removed` says when each was removed.
fn due(removed: &[Timestamp], policy: TrashPolicy, files: u64, now: Timestamp) -> usize {
    let too_many = usize::try_from(files.saturating_sub(FILES_MAX)).unwrap_or(usize::MAX);
    let is_over = |when: &&Timestamp| now - **when >= policy.retention;
    removed.iter().take_while(is_over).count().max(too_many.min(removed.len()))
}

/// Lets some of the trash go: what is over its time, and what is more than its room. Yields whether there may be more.
pub(crate) fn expire(core: &mut Core, now: Timestamp) -> Result<bool> {
    let FileCounts { trash_files, trash_bytes, .. } = core.store.file_counts()?;
    if trash_files == 0 {
        return Ok(false);
    }
    let oldest = core.store.oldest_trash(TURN_LEN)?;
    let removed: Vec<_> = oldest.iter().map(|(removed, _)| *removed).collect();
    let count = due(&removed, core.trash, trash_files, now);
    let mut freed = 0;
    for (_, file) in &oldest[..count] {
        freed += purge(core, *file)?;
    }
    let spaces = core.store.partition_space()?;
    let total = spaces.values().fold(0u64, |sum, space| sum.saturating_add(space.capacity_bytes()));
    let mut over = trash_bytes.saturating_sub(freed).saturating_sub(core.trash.max_size.bytes(total));
    let mut gone = count;
    if over > 0 && count < TURN_LEN {
        for file in core.store.oldest_trash_on_disk(TURN_LEN)? {
            if over == 0 {
                break;
            }
            over = over.saturating_sub(give_up_disk(core, file)?);
            gone += 1;
        }
    }
    if gone > 0 {
        debug!(files = gone, "files deleted from the trash");
    }
    Ok(gone >= TURN_LEN)
}

/// Files of the trash on a partition, the oldest first, with their bytes there.
pub(crate) fn on_partition(core: &Core, partition: &str) -> Result<Vec<(FileId, u64)>> {
    if core.unsettled()?.is_some() {
        // Nothing is deleted now.
        return Ok(Vec::new());
    }
    Ok(core.store.trash_on(partition, VICTIMS_MAX)?)
}

/// Bytes that a partition has free once the trash on it is given up.
pub(crate) fn bytes_on(core: &Core, partition: &str) -> Result<u64> {
    Ok(on_partition(core, partition)?.iter().fold(0, |sum, (_, bytes)| sum.saturating_add(*bytes)))
}

/// Gives up trash on a partition, the oldest first, until `missing` bytes will be free. Yields how many will be.
pub(crate) fn make_room(core: &mut Core, partition: &str, missing: u64) -> Result<u64> {
    let mut freed = 0;
    for (file, bytes) in on_partition(core, partition)? {
        if freed > missing {
            break;
        }
        give_up_disk(core, file)?;
        freed += bytes;
    }
    Ok(freed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_are_due_when_their_time_is_over_or_there_are_too_many() {
        let policy = TrashPolicy { retention: Millis(100), max_size: TrashLimit::Percent(10) };
        let removed = [Timestamp(0), Timestamp(50), Timestamp(100)];
        for (files, now, expected) in [
            (3, 99, 0),
            (3, 100, 1),
            (3, 150, 2),
            (3, 9999, 3),
            (FILES_MAX + 2, 99, 2),
            (FILES_MAX + 2, 9999, 3),
            (FILES_MAX + 99, 0, 3),
        ] {
            assert_eq!(due(&removed, policy, files, Timestamp(now)), expected, "{files} {now}");
        }
        assert_eq!(due(&removed, TrashPolicy::NONE, 3, Timestamp(100)), 3, "nothing is kept any more");
    }
}
