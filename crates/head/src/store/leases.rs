//! Leases on names and attributes, where rows change: a call that would change what others cache is put off.
//!
//! Which leases a change breaks is found here, and not in each call, so that no call can forget it. The rules are pure, in
//! [`share::Leases`]; what has to be told to whom is in [`crate::share`].

use super::{Node, Store, StoreError, StoreResult, TRASH, group::Depth};
use crate::waiters::Awaited;
use base::{FileId, Millis};
use share::{ClientId, Leases};
use std::cell::{RefCell, RefMut};

/// Leases, and what the call under way has to do with them.
#[derive(Default)]
pub(super) struct LeaseCell {
    leases: RefCell<Leases>,
    call: RefCell<CallLeases>,
}

#[derive(Default)]
struct CallLeases {
    /// The session that makes the call: its own kernel knows what it changes.
    own: Option<ClientId>,
    /// A file that only this session may write to: nobody else has a lease on it.
    granted: Option<FileId>,
    /// What the call waits for.
    put_off: Option<PutOff>,
}

/// What a call waits for that was put off.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct PutOff {
    /// Nodes that others have cached.
    pub(crate) nodes: Vec<FileId>,
    /// A session that has to forget one.
    pub(crate) client: ClientId,
    /// When to look again though nobody has said that it has forgotten.
    pub(crate) next: Millis,
}

impl Store {
    /// The table of leases.
    pub(crate) fn leases(&self) -> RefMut<'_, Leases> {
        self.leases.leases.borrow_mut()
    }

    /// Says whose session makes the call.
    pub(crate) fn set_session(&self, client: ClientId) {
        self.leases.call.borrow_mut().own = Some(client);
    }

    /// Says that the session has a grant to write to a file: others have forgotten its size and time before it got that.
    pub(crate) fn set_granted(&self, file: FileId) {
        self.leases.call.borrow_mut().granted = Some(file);
    }

    pub(super) fn begin_call_leases(&self) {
        *self.leases.call.borrow_mut() = CallLeases::default();
    }

    /// What the call waits for, if it is to be undone and made again.
    pub(crate) fn take_put_off(&self) -> Option<PutOff> {
        self.leases.call.borrow_mut().put_off.take()
    }

    /// Asks all other sessions to forget these nodes. Yields what is waited for; none: they may be changed.
    pub(crate) fn ask_back(&self, nodes: &[FileId]) -> Option<PutOff> {
        let now = self.pending.borrow().time();
        let own = self.leases.call.borrow().own;
        let mut put_off: Option<PutOff> = None;
        let granted = self.leases.call.borrow().granted;
        for node in nodes.iter().filter(|node| Some(**node) != granted) {
            let found = self.leases().ask_back(*node, own, now);
            for client in found.to_tell {
                self.note_changed(Awaited::Mount(client));
            }
            let (Some(client), Some(next)) = (found.sessions.first(), found.next) else { continue };
            let all = put_off.get_or_insert_with(|| PutOff { next, client: *client, ..PutOff::default() });
            all.nodes.push(*node);
            all.next = all.next.min(next);
        }
        put_off
    }

    /// Puts the call off if others have cached one of these nodes. To be called before anything else is changed by it.
    pub(crate) fn require_forgotten(&self, nodes: &[FileId]) -> StoreResult<()> {
        if self.wanted.get() != Depth::Call || self.leases().is_idle() {
            return Ok(());
        }
        let put_off = self.ask_back(nodes);
        let Some(put_off) = put_off else {
            // Whoever reads them from now on reads what they are changed to.
            for node in nodes {
                self.leases().changed(*node);
            }
            return Ok(());
        };
        let client = put_off.client;
        self.leases.call.borrow_mut().put_off = Some(put_off);
        Err(StoreError::Leased { client })
    }

    /// The same for a row that is about to change.
    pub(super) fn require_row_forgotten(&self, before: Option<&Node>, now: Option<&Node>) -> StoreResult<()> {
        if self.wanted.get() != Depth::Call || self.leases().is_idle() {
            return Ok(());
        }
        self.require_forgotten(&touched(before, now))
    }
}

/// Nodes whose names or attributes are others when a row changes.
fn touched(before: Option<&Node>, now: Option<&Node>) -> Vec<FileId> {
    let name = |node: &Node| (node.parent, node.name.clone());
    let mut nodes = Vec::new();
    if before.map(name) != now.map(name) {
        // Nobody caches the names of the trash.
        let parents = before.into_iter().chain(now).map(|node| node.parent);
        nodes.extend(parents.filter(|parent| *parent != TRASH));
    }
    if let Some(before) = before
        && now.is_none_or(|now| !shows_the_same(before, now))
    {
        nodes.push(before.id);
    }
    nodes.dedup();
    nodes
}

/// Whether mounts are shown the same attributes.
fn shows_the_same(before: &Node, now: &Node) -> bool {
    let shown = |node: &Node| {
        let times = (node.modified, node.source_modified, node.posix);
        (node.kind, node.owner.clone(), node.group.clone(), node.mode, node.size, times, node.parent == TRASH)
    };
    shown(before) == shown(now)
}
