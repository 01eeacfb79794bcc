//! The flag of files that may lack what a mount had written: its host froze or went away, and others did not wait for it.
//!
//! Whoever wrote is told by its own `fsync`. But the host may never come back, and then only the flag tells that something is missing.

use super::{opens::shown_path, waits::mount_words};
use crate::{Core, store::SharedFile};
use ::share::{ClientId, Mode, Stage};
use base::{FileId, Result, Timestamp, calendar::Civil};
use tracing::warn;

/// Flags a file if a session that is evicted may have written what it has not committed.
pub(super) fn note(
    core: &Core,
    (file, shared): (FileId, &SharedFile),
    client: ClientId,
    now: Timestamp,
) -> Result<()> {
    let mut grants = shared.grants.grants().iter();
    let is_writer = grants
        .any(|grant| grant.client == client && grant.mode == Mode::Write && grant.stage != Stage::Ending);
    let node = core.store.node(file)?.filter(|node| is_writer && !node.is_in_trash());
    let Some(node) = node else { return Ok(()) };
    let mount = mount_words(core, client)?;
    warn!(file = %shown_path(core, &node)?, mount, "the mount was writing to the file when it was evicted: \
        what it had not synced is lost; the file has the attribute user.bp.unsynced");
    let when = Civil::of(now.0 / 1000).to_the_minute();
    Ok(core.store.flag_unsynced(file, &format!("{when} UTC: {mount} was evicted"))?)
}

/// Other content takes the place of what may lack something.
pub(crate) fn content_is_whole(core: &Core, file: FileId) -> Result<()> {
    Ok(core.store.unflag_unsynced(file)?)
}
