//! Leases on names and attributes: what mounts may cache of the catalogue, and what is asked back before it changes.
//!
//! The rules are in [`share::Leases`](::share::Leases). A call that would change what other sessions have cached is found by the
//! store ([`crate::store::Store::require_forgotten`]), undone, and made again when they have forgotten it.

use super::{ShareLive, note_live, note_recalls, shared_file};
use crate::{
    Core,
    store::{Node, PutOff, Store},
    waiters::Awaited,
};
use ::share::{ClientId, Leases, Mode};
use base::{Failure, FileId, Millis, ObjectId, Result, Timestamp};

/// Stands for what sessions have cached before the head started.
const BEFORE_START: FileId = FileId(0);
/// No lease.
const NONE: Millis = Millis(0);

/// The head has started: sessions may have cached anything.
pub(crate) fn expect_sessions(store: &Store, now: Timestamp) -> Result<()> {
    for client in store.mounts()?.keys() {
        store.leases().begin(*client, now, false);
    }
    Ok(())
}

/// Has a session cache the attributes of a node, and the names of a directory. Yields how long it may.
pub(super) fn give(core: &Core, client: ClientId, node: &Node, now: Timestamp) -> Result<Millis> {
    if node.is_in_trash() || is_written_by_other(core, client, node.id)? {
        return Ok(NONE);
    }
    Ok(give_known(core, client, node.id, now))
}

/// The same, of a node that nobody else writes to.
pub(super) fn give_known(core: &Core, client: ClientId, node: FileId, now: Timestamp) -> Millis {
    if core.store.leases().give(client, node, now) { Leases::SPAN } else { NONE }
}

/// Whether somebody else may write to a file: its size is what it was at the last commit only.
fn is_written_by_other(core: &Core, client: ClientId, file: FileId) -> Result<bool> {
    if !core.live.share.written.contains(&file) {
        return Ok(false);
    }
    let shared = shared_file(core, file)?;
    Ok(shared.grants.grants().iter().any(|grant| grant.mode == Mode::Write && grant.client != client))
}

/// Says what the call waits for that is put off.
pub(crate) fn put_off(core: &mut Core, what: &PutOff) -> Failure {
    core.take_hints();
    await_leases(core, what);
    let client = what.client;
    Failure::busy(format!("mount {client} has to forget first what this changes"))
        .hint("try again in a moment; `bp lease` shows the mounts")
}

/// Has the call under way look again when leases have ended.
pub(super) fn await_leases(core: &Core, what: &PutOff) {
    for node in &what.nodes {
        core.awaits(Awaited::Leases(*node));
    }
    if core.store.leases().is_waiting_for_sessions() {
        core.awaits(Awaited::Leases(BEFORE_START));
    }
    core.look_again_in(what.next);
}

/// Leases have ended: who waits for that looks again.
pub(super) fn ended(core: &Core, nodes: Vec<FileId>) {
    for node in nodes {
        core.store.note_changed(Awaited::Leases(node));
    }
}

/// A session has forgotten what it had from before the start of the head.
pub(super) fn confirm(core: &Core, client: ClientId, now: Timestamp) {
    if core.store.leases().confirm(client, now) {
        core.store.note_changed(Awaited::Leases(BEFORE_START));
    }
}

/// A session has nothing any more.
pub(super) fn forget(core: &Core, client: ClientId) {
    let had = core.store.leases().forget(client);
    ended(core, had);
    core.store.note_changed(Awaited::Leases(BEFORE_START));
}

/// A call was undone: what is remembered of files that it changed is what the rows say.
pub(crate) fn undone(core: &mut Core, now: Timestamp) -> Result<()> {
    for file in std::mem::take(&mut core.live.share.put) {
        let shared = shared_file(core, file)?;
        note_recalls(core, file, &shared);
        note_live(core, file, &shared, now);
    }
    Ok(())
}

impl ShareLive {
    /// A call begins.
    pub(crate) fn begin_call(&mut self) {
        self.put.clear();
    }

    /// A live object is none any more.
    pub(super) fn forget_object(&mut self, object: ObjectId) {
        self.objects.remove(&object);
        self.starts.remove(&object);
    }

    /// The clock was set: times move along.
    pub(crate) fn shift(&mut self, by: Millis) {
        let renewed = self.renewed.values_mut().map(|(_, at)| at);
        renewed.chain(self.quiet.values_mut()).for_each(|at| *at = *at + by);
    }
}
