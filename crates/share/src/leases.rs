//! Leases on names and attributes: who may cache what, and who has to forget it before it changes.
//!
//! A lease on a node covers its attributes and, of a directory, its names: those that exist, and that others do not. A change
//! first asks all other sessions that have a lease on the node to forget ([`Leases::ask_back`]). It is made when none of them is
//! in its way any more: each has acknowledged that, or its session's lease is over. Meanwhile nobody is given a lease on the
//! node, so that a change is not put off for ever.
//!
//! The table lives in the memory of the head. After a start it does not know what sessions have cached: each is in the way of
//! everything until it has said that it has forgotten all ([`Leases::confirm`]), or until its lease must be over.
//!
//! As Gray and Cheriton have it (SOSP 1989).

use crate::{ClientId, Session};
use base::{FileId, Millis, Timestamp};
use std::collections::{BTreeMap, HashMap, HashSet};

/// Leases of one session at most: each is some 100 bytes of the head, and a working tree has fewer nodes.
const OF_SESSION_MAX: usize = 100_000;
/// Leases of all sessions at most.
const MAX: usize = 1_000_000;

/// What is in the way of a change.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InTheWay {
    /// Sessions that have to forget; none: the change may be made.
    pub sessions: Vec<ClientId>,
    /// Those of them that are to be told, because they were not yet.
    pub to_tell: Vec<ClientId>,
    /// When the first of them is not in the way any more, whatever it does.
    pub next: Option<Millis>,
}

/// Who may cache what.
#[derive(Debug, Default)]
pub struct Leases {
    holders: BTreeMap<ClientId, Holder>,
    /// Who has a lease on a node, and until when at most.
    nodes: HashMap<FileId, Vec<(ClientId, Timestamp)>>,
    /// Nodes that are about to change, and until when that is believed if it never happens.
    breaking: HashMap<FileId, Timestamp>,
    /// Leases of all.
    count: usize,
    /// Sessions that have not said since the start of the head that they have forgotten all.
    unconfirmed: usize,
}

/// A session.
#[derive(Debug)]
struct Holder {
    /// When it renewed last; of one that is not confirmed: when the head started.
    renewed: Timestamp,
    is_confirmed: bool,
    /// It has ended, but not said that it serves nothing from its cache.
    has_ended: bool,
    nodes: HashSet<FileId>,
    /// What it was asked to forget, in order.
    asked: BTreeMap<u64, FileId>,
    /// The last number in `asked` so far.
    number: u64,
}

impl Holder {
    fn session(&self) -> Session {
        Session { renewed: self.renewed, is_evicted: false }
    }

    /// When it serves nothing from its cache any more, whatever it does.
    fn left(&self, now: Timestamp) -> Millis {
        let end = self.renewed + Session::LEASE + Session::MARGIN;
        Millis((end - now).0.max(0) + 1)
    }
}

impl Leases {
    /// How long a lease on a node lasts, as long as its session renews its own. It is asked for anew then, so that a right that
    /// was withdrawn from a whole group counts after that.
    pub const SPAN: Millis = Millis::from_seconds(300);
    /// How long a node is kept free for a change whose caller may be gone: longer than the lease of a session.
    const BREAKING: Millis = Millis::from_seconds(30);

    /// A session is there. `is_new`: it has cached nothing yet; else the head has started since.
    pub fn begin(&mut self, client: ClientId, now: Timestamp, is_new: bool) {
        self.forget(client);
        let (nodes, asked) = (HashSet::new(), BTreeMap::new());
        let holder = Holder { renewed: now, is_confirmed: is_new, has_ended: false, nodes, asked, number: 0 };
        self.unconfirmed += usize::from(!is_new);
        self.holders.insert(client, holder);
    }

    /// A session renewed its lease. If that was over, it has forgotten all meanwhile. Yields what it had.
    pub fn renew(&mut self, client: ClientId, now: Timestamp) -> Vec<FileId> {
        let Some(holder) = self.holders.get_mut(&client).filter(|holder| holder.is_confirmed) else {
            return Vec::new();
        };
        let was_over = holder.session().is_lease_over(now);
        holder.renewed = holder.renewed.max(now);
        if was_over { self.drop_all(client) } else { Vec::new() }
    }

    /// A session has forgotten all that it had from before the start of the head. Yields whether that is news.
    pub fn confirm(&mut self, client: ClientId, now: Timestamp) -> bool {
        let Some(holder) = self.holders.get_mut(&client).filter(|holder| !holder.is_confirmed) else {
            return false;
        };
        (holder.is_confirmed, holder.renewed) = (true, now);
        self.unconfirmed -= 1;
        true
    }

    /// A session has ended, but may serve from its cache until its lease is over.
    pub fn end(&mut self, client: ClientId) {
        if let Some(holder) = self.holders.get_mut(&client) {
            holder.has_ended = true;
        }
    }

    /// A session has nothing any more. Yields what it had.
    pub fn forget(&mut self, client: ClientId) -> Vec<FileId> {
        let had = self.drop_all(client);
        if self.holders.remove(&client).is_some_and(|holder| !holder.is_confirmed) {
            self.unconfirmed -= 1;
        }
        had
    }

    /// Whether nothing can be in the way of anything, and nothing is about to change.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.count == 0 && self.unconfirmed == 0 && self.breaking.is_empty()
    }

    /// Whether some session has not said yet that it has forgotten what it had from before the start.
    #[must_use]
    pub fn is_waiting_for_sessions(&self) -> bool {
        self.unconfirmed > 0
    }

    /// Gives a session leave to cache a node for [`Self::SPAN`], unless it is about to change or the table is full.
    pub fn give(&mut self, client: ClientId, node: FileId, now: Timestamp) -> bool {
        if self.breaking.get(&node).is_some_and(|until| *until > now) {
            return false;
        }
        let (is_full, until) = (self.count >= MAX, now + Self::SPAN + Session::MARGIN);
        let Some(holder) = self.holders.get_mut(&client) else { return false };
        let is_live = now - holder.renewed <= Session::LEASE;
        // What it acknowledges later would end a lease that is given now.
        let is_asked = holder.asked.values().any(|asked| *asked == node);
        if !holder.is_confirmed || holder.has_ended || !is_live || is_asked {
            return false;
        }
        let had = self.nodes.entry(node).or_default();
        if let Some(lease) = had.iter_mut().find(|lease| lease.0 == client) {
            lease.1 = until;
            return true;
        }
        if is_full || holder.nodes.len() >= OF_SESSION_MAX {
            if had.is_empty() {
                self.nodes.remove(&node);
            }
            self.drop_old(client, now);
            return false;
        }
        had.push((client, until));
        holder.nodes.insert(node);
        self.count += 1;
        true
    }

    /// Asks all sessions but `own` that may have cached a node to forget it. Yields who is in the way of its change.
    pub fn ask_back(&mut self, node: FileId, own: Option<ClientId>, now: Timestamp) -> InTheWay {
        let mut found = InTheWay::default();
        if self.is_idle() {
            return found;
        }
        let leases = self.nodes.get(&node).into_iter().flatten();
        let has = leases.filter(|(_, until)| *until > now).map(|(client, _)| *client);
        let unknown =
            self.holders.iter().filter(|(_, holder)| !holder.is_confirmed).map(|(client, _)| *client);
        let clients: Vec<_> = has.chain(unknown).filter(|client| Some(*client) != own).collect();
        for client in clients {
            let Some(holder) = self.holders.get_mut(&client) else { continue };
            if holder.session().is_lease_over(now) {
                continue;
            }
            let left = holder.left(now);
            found.sessions.push(client);
            found.next = Some(found.next.map_or(left, |next| next.min(left)));
            let can_be_told = holder.is_confirmed && !holder.has_ended;
            if can_be_told && !holder.asked.values().any(|asked| *asked == node) {
                holder.number += 1;
                holder.asked.insert(holder.number, node);
                found.to_tell.push(client);
            }
        }
        if !found.sessions.is_empty() {
            self.breaking.retain(|_, until| *until > now);
            self.breaking.insert(node, now + Self::BREAKING);
        }
        found
    }

    /// Whether a session other than `own` may have cached a node. Nobody is asked for anything.
    #[must_use]
    pub fn is_leased(&self, node: FileId, own: ClientId, now: Timestamp) -> bool {
        let mut leases = self.nodes.get(&node).into_iter().flatten();
        let is_live =
            |client: &ClientId| self.holders.get(client).is_some_and(|it| !it.session().is_lease_over(now));
        let is_given = leases.any(|(client, until)| *client != own && *until > now && is_live(client));
        let mut unknown = self.holders.iter().filter(|(client, it)| !it.is_confirmed && **client != own);
        is_given || unknown.any(|(client, _)| is_live(client))
    }

    /// A node was changed: it may be cached again.
    pub fn changed(&mut self, node: FileId) {
        self.breaking.remove(&node);
    }

    /// What a session is to forget, and the number by which it acknowledges that.
    #[must_use]
    pub fn asked(&self, client: ClientId) -> (u64, Vec<FileId>) {
        let Some(holder) = self.holders.get(&client) else { return (0, Vec::new()) };
        (holder.number, holder.asked.values().copied().collect())
    }

    /// A session has forgotten all that it was asked to up to a number. Yields what that was.
    pub fn acknowledge(&mut self, client: ClientId, number: u64) -> Vec<FileId> {
        let Some(holder) = self.holders.get_mut(&client) else { return Vec::new() };
        let later = holder.asked.split_off(&number.saturating_add(1));
        let forgotten: Vec<_> = std::mem::replace(&mut holder.asked, later).into_values().collect();
        for node in &forgotten {
            if holder.nodes.remove(node) {
                self.count -= 1;
                remove(&mut self.nodes, *node, client);
            }
        }
        forgotten
    }

    /// The clock was set: times move along.
    pub fn shift(&mut self, by: Millis) {
        self.holders.values_mut().for_each(|holder| holder.renewed = holder.renewed + by);
        self.nodes.values_mut().flatten().for_each(|lease| lease.1 = lease.1 + by);
        self.breaking.values_mut().for_each(|until| *until = *until + by);
    }

    /// Leases that a session has.
    #[must_use]
    pub fn count_of(&self, client: ClientId) -> usize {
        self.holders.get(&client).map_or(0, |holder| holder.nodes.len())
    }

    fn drop_all(&mut self, client: ClientId) -> Vec<FileId> {
        let Some(holder) = self.holders.get_mut(&client) else { return Vec::new() };
        holder.asked.clear();
        let had: Vec<_> = std::mem::take(&mut holder.nodes).into_iter().collect();
        for node in &had {
            self.count -= 1;
            remove(&mut self.nodes, *node, client);
        }
        had
    }

    /// Drops leases of a session that have run out: it asks for what it needs.
    fn drop_old(&mut self, client: ClientId, now: Timestamp) {
        let Some(holder) = self.holders.get_mut(&client) else { return };
        let (nodes, count) = (&mut self.nodes, &mut self.count);
        holder.nodes.retain(|node| {
            let mut leases = nodes.get(node).into_iter().flatten();
            let is_held = leases.any(|(other, until)| *other == client && *until > now);
            if !is_held {
                *count -= 1;
                remove(nodes, *node, client);
            }
            is_held
        });
    }
}

fn remove(nodes: &mut HashMap<FileId, Vec<(ClientId, Timestamp)>>, node: FileId, client: ClientId) {
    if let Some(leases) = nodes.get_mut(&node) {
        leases.retain(|(other, _)| *other != client);
        if leases.is_empty() {
            nodes.remove(&node);
        }
    }
}

#[cfg(test)]
mod tests;
