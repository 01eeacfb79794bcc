//! The file system that several hosts share: who may cache and write what, and where the bytes of files lie that change in place.
//!
//! A file is sealed, as all files of this facility are that were not written through a mount, or *live*: then its content lies in a
//! live object, which changes under write grants (docs/design/0008-live-files.md). The rules of grants, fences and locks are pure
//! and in crate `share`; here they meet the catalogue. What mounts do with a file is one row ([`SharedFile`]), so that a grant is
//! durable before anybody is told of it.
//!
//! Doors never see a live object: before one opens the file, its write grants are asked back and it is sealed ([`settle_for_door`]).

mod attributes;
mod grants;
mod leases;
mod live;
mod locks;
mod nodes;
mod opens;
mod sessions;
mod status;
mod unsynced;
mod waits;

pub(crate) use leases::{expect_sessions, put_off, undone};
use live::live_waits;
pub(crate) use live::{being_written, content_replaced, live_layout, settle_for_door};
pub(crate) use opens::keep_for_opens;
pub(crate) use unsynced::content_is_whole;
pub(crate) use waits::waits;

use crate::{
    Context, Core,
    namespace::{ROOT, Right, parents, path_of, require},
    store::{MountRow, Node, SharedFile},
    waiters::Awaited,
};
use ::share::{ClientId, Generation, Mode, Session, Stage};
use base::{Failure, FileId, FilePath, ObjectId, Result, Timestamp};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};
use wire::control::LiveStart;

/// What the head knows of mounts that need not outlive it: it is found again in the rows.
#[derive(Debug, Default)]
pub(crate) struct ShareLive {
    /// The rows were read since the start.
    is_loaded: bool,
    /// When each session renewed its lease last, and by which of its calls. Those that are not here have not done so since the
    /// start.
    renewed: BTreeMap<ClientId, (u64, Timestamp)>,
    /// Grants that were asked back, perhaps some that are over.
    recalls: BTreeMap<ClientId, BTreeSet<(FileId, Generation)>>,
    /// The start of each live object at its disk server that was told which grants have ended.
    starts: BTreeMap<ObjectId, LiveStart>,
    /// Files with live objects, by object.
    objects: BTreeMap<ObjectId, FileId>,
    /// Files with a grant that is to be ended at a disk server.
    fencing: BTreeSet<FileId>,
    /// Since when nobody has written to a live file.
    quiet: BTreeMap<FileId, Timestamp>,
    /// Files that are to be sealed at once: somebody waits for that.
    hasty: BTreeSet<FileId>,
    /// Files with a grant to write, or one that is not fenced yet.
    written: BTreeSet<FileId>,
    /// Files whose rows the call under way has written.
    put: Vec<FileId>,
    /// Who waits for what.
    waiting: waits::Waiting,
}

/// Rows that are read at once at the start.
const PAGE_LEN: usize = 1000;

/// Reads what the rows say, once after a start.
fn load(core: &mut Core, now: Timestamp) -> Result<()> {
    if core.live.share.is_loaded {
        return Ok(());
    }
    let mut after = FileId(0);
    loop {
        let page = core.store.shared_files(after, PAGE_LEN)?;
        for (file, shared) in &page {
            note_recalls(core, *file, shared);
            note_live(core, *file, shared, now);
        }
        match page.last() {
            Some((last, _)) => after = *last,
            None => break,
        }
    }
    core.live.share.is_loaded = true;
    Ok(())
}

/// Has the holders of recalled grants told.
fn note_recalls(core: &mut Core, file: FileId, shared: &SharedFile) {
    for grant in shared.grants.grants().iter().filter(|grant| grant.stage == Stage::Recalled) {
        let recalls = core.live.share.recalls.entry(grant.client).or_default();
        if recalls.insert((file, grant.generation)) {
            core.store.note_changed(Awaited::Mount(grant.client));
        }
    }
}

/// Remembers the live object of a file, and since when it is quiet.
fn note_live(core: &mut Core, file: FileId, shared: &SharedFile, now: Timestamp) {
    let index = &mut core.live.share;
    index.fencing.remove(&file);
    if is_written(shared) {
        index.written.insert(file);
    } else {
        index.written.remove(&file);
    }
    let Some(live) = &shared.live else {
        index.quiet.remove(&file);
        return;
    };
    for copy in &live.copies {
        index.objects.insert(copy.object, file);
    }
    if let Some(joined) = &live.joined {
        index.objects.insert(joined.object, file);
    }
    if live.is_uneven {
        index.hasty.insert(file);
    }
    if is_written(shared) {
        index.quiet.remove(&file);
    } else {
        index.quiet.entry(file).or_insert(now);
    }
    if live::is_fencing(shared) {
        index.fencing.insert(file);
        core.store.note_changed(Awaited::LiveOrders);
    }
}

/// Whether a client may write, or have writes under way.
fn is_written(shared: &SharedFile) -> bool {
    shared.grants.grants().iter().any(|grant| grant.mode == Mode::Write)
}

/// Whether a client may have written what it has not committed yet.
fn has_writer(shared: &SharedFile) -> bool {
    shared.grants.grants().iter().any(|grant| grant.mode == Mode::Write && grant.stage != Stage::Ending)
}

/// The session of whoever calls.
fn session(core: &mut Core, context: &Context, client: ClientId) -> Result<MountRow> {
    load(core, context.now)?;
    core.store.set_session(client);
    let mounts = core.store.mounts()?;
    let row = mounts.get(&client).ok_or_else(|| {
        Failure::not_found(format!("mount {client} has no session"))
            .hint("it was evicted or ended; the mount begins a new one by itself")
    })?;
    if row.user != context.who.session_user() {
        let user = context.who.session_user();
        return Err(Failure::permission(format!("mount {client} is not one of {user}")));
    }
    Ok(row.clone())
}

/// How a session stands. Of one that was not heard since the start of the head the time counts from there.
fn standing(core: &Core, client: ClientId) -> Session {
    let since = core.live.since;
    let renewed = core.live.share.renewed.get(&client).map_or(since, |(_, at)| *at);
    Session { renewed, is_evicted: false }
}

/// What mounts do with a file.
fn shared_file(core: &Core, file: FileId) -> Result<SharedFile> {
    Ok(core.store.shared_file(file)?.unwrap_or_default())
}

/// Writes what mounts do with a file, and has those told who have to do something.
fn put(core: &mut Core, file: FileId, shared: &SharedFile, now: Timestamp) -> Result<()> {
    core.store.put_shared_file(file, shared)?;
    core.live.share.put.push(file);
    note_recalls(core, file, shared);
    note_live(core, file, shared, now);
    Ok(())
}

/// A node by its number, if the caller may search all directories above it. A file without a name is found by those who have it open.
fn reach(core: &Core, context: &Context, client: ClientId, file: FileId) -> Result<Arc<Node>> {
    let gone = || Failure::not_found(format!("file {file} no longer exists"));
    let node = core.store.node(file)?.ok_or_else(gone)?;
    if node.is_in_trash() {
        let is_open = shared_file(core, file)?.opens.iter().any(|open| open.client == client);
        return if is_open { Ok(node) } else { Err(gone()) };
    }
    if file == ROOT || context.who.agent.is_some() {
        // In the second case the kernel has searched them, or the program has the node open.
        return Ok(node);
    }
    let path = path_of(core, file)?;
    let mut refused = None;
    // Any of its names will do.
    for parent in parents(core, &node)? {
        match require_search(core, context, parent, &path) {
            Ok(()) => return Ok(node),
            Err(failure) => refused = refused.or(Some(failure)),
        }
    }
    // What is open can be used, whatever became of the directories above.
    if shared_file(core, file)?.opens.iter().any(|open| open.client == client) {
        return Ok(node);
    }
    Err(refused.unwrap_or_else(gone))
}

/// Refuses whoever may not search a directory, or one above it.
fn require_search(core: &Core, context: &Context, mut directory: FileId, path: &FilePath) -> Result<()> {
    loop {
        let gone = || Failure::not_found(format!("directory {directory} no longer exists"));
        let above = core.store.node(directory)?.ok_or_else(gone)?;
        require(core, &context.who, &above, Right::Search, path)?;
        if directory == ROOT {
            return Ok(());
        }
        directory = above.parent;
    }
}
