//! Copies in progress against the limits of the pool. A copy counts at each server that it comes from or goes to.

use crate::pool::decide::policy::{Pool, Rate};
use base::{FileId, ObjectId};
use std::{collections::BTreeMap, sync::Arc};

/// The reason for a copy, in order of priority.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// The promise does not hold.
    Repair,
    /// A partition is to be emptied.
    Drain,
    /// Two pieces share a failure domain, and need not.
    Spread,
    /// A partition is fuller than the pool.
    Balance,
}

impl Reason {
    /// Whether the bounds of repair count for it; else those of moves do.
    #[must_use]
    pub fn is_repair(self) -> bool {
        self == Self::Repair
    }
}

/// A piece to read from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// The object.
    pub object: ObjectId,
    /// Where it is.
    pub partition: Arc<str>,
    /// Its server.
    pub server: Arc<str>,
    /// Which piece it is.
    pub index: u8,
}

/// A copy to make: reserve an object on `target` (a piece that is coming), then let its server fetch it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyOrder {
    /// The file.
    pub file: FileId,
    /// Which piece is made.
    pub index: u8,
    /// Bytes of the piece.
    pub size_bytes: u64,
    /// One piece with the same index, or as many others as give the file.
    pub sources: Vec<Source>,
    /// Where it goes.
    pub target: Arc<str>,
    /// The server of that partition.
    pub target_server: Arc<str>,
    /// Why.
    pub reason: Reason,
    /// For [`Reason::Balance`]: the partition that is relieved.
    pub relieves: Option<Arc<str>>,
}

/// Copies in progress at one server or in the pool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ActiveCopies {
    /// Copies.
    pub copies: u32,
    /// Bytes of these.
    pub bytes: u64,
}

impl ActiveCopies {
    fn fits(self, bytes: u64, copies_max: u32, bytes_max: u64) -> bool {
        // A copy larger than the bound must still be made: alone.
        self.copies < copies_max && (self.bytes.saturating_add(bytes) <= bytes_max || self.copies == 0)
    }

    fn change(&mut self, bytes: u64, is_begun: bool) {
        if is_begun {
            self.copies += 1;
            self.bytes += bytes;
        } else {
            self.copies = self.copies.saturating_sub(1);
            self.bytes = self.bytes.saturating_sub(bytes);
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Ledger {
    servers: BTreeMap<Arc<str>, ActiveCopies>,
    pool: ActiveCopies,
}

/// Copies in progress in a pool, and the number that may still begin.
///
/// A decision charges the copies that it orders; the caller gives them back when they have ended. The budget can be
/// made anew from the copies in progress, in any order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Budget {
    repair_rate: Rate,
    move_rate: Rate,
    repairs: Ledger,
    moves: Ledger,
    /// Bytes of moves that relieve a partition.
    relieved: BTreeMap<Arc<str>, u64>,
}

impl Budget {
    /// With nothing under way.
    #[must_use]
    pub fn new(pool: &Pool) -> Self {
        Self {
            repair_rate: pool.repair,
            move_rate: pool.moves,
            repairs: Ledger::default(),
            moves: Ledger::default(),
            relieved: BTreeMap::new(),
        }
    }

    /// With these copies under way.
    #[must_use]
    pub fn with<'a>(pool: &Pool, orders: impl IntoIterator<Item = &'a CopyOrder>) -> Self {
        let mut budget = Self::new(pool);
        for order in orders {
            budget.take(order);
        }
        budget
    }

    /// A copy begins.
    pub fn take(&mut self, order: &CopyOrder) {
        self.change(order, true);
    }

    /// A copy has ended, well or not.
    pub fn give_back(&mut self, order: &CopyOrder) {
        self.change(order, false);
    }

    fn change(&mut self, order: &CopyOrder, is_begun: bool) {
        let ledger = if order.reason.is_repair() { &mut self.repairs } else { &mut self.moves };
        ledger.pool.change(order.size_bytes, is_begun);
        for server in servers_of(order) {
            let entry = ledger.servers.entry(server.clone()).or_default();
            entry.change(order.size_bytes, is_begun);
            if entry.copies == 0 {
                ledger.servers.remove(server);
            }
        }
        if let Some(partition) = &order.relieves {
            let bytes = self.relieved.entry(partition.clone()).or_default();
            *bytes =
                if is_begun { *bytes + order.size_bytes } else { bytes.saturating_sub(order.size_bytes) };
            if *bytes == 0 {
                self.relieved.remove(partition);
            }
        }
    }

    /// Whether a copy may begin.
    #[must_use]
    pub fn allows(&self, order: &CopyOrder) -> bool {
        self.allows_in_pool(order.reason, order.size_bytes)
            && servers_of(order).iter().all(|server| self.allows_at(order.reason, server, order.size_bytes))
    }

    /// Whether the pool as a whole allows a copy.
    #[must_use]
    pub fn allows_in_pool(&self, reason: Reason, bytes: u64) -> bool {
        let (ledger, rate) = self.of(reason);
        ledger.pool.fits(bytes, rate.pool_copies, rate.pool_bytes)
    }

    /// Whether a server allows a copy.
    #[must_use]
    pub fn allows_at(&self, reason: Reason, server: &str, bytes: u64) -> bool {
        let (ledger, rate) = self.of(reason);
        let at = ledger.servers.get(server).copied().unwrap_or_default();
        at.fits(bytes, u32::from(rate.server_copies), rate.server_bytes)
    }

    /// What is under way in the pool: repairs, or moves.
    #[must_use]
    pub fn under_way(&self, is_repair: bool) -> ActiveCopies {
        if is_repair { self.repairs.pool } else { self.moves.pool }
    }

    /// What is under way at each server: repairs, or moves.
    pub fn servers(&self, is_repair: bool) -> impl Iterator<Item = (&str, ActiveCopies)> {
        let ledger = if is_repair { &self.repairs } else { &self.moves };
        ledger.servers.iter().map(|(server, at)| (&**server, *at))
    }

    /// Bytes that are on their way from a partition that is too full.
    #[must_use]
    pub fn relieved_bytes(&self, partition: &str) -> u64 {
        self.relieved.get(partition).copied().unwrap_or(0)
    }

    fn of(&self, reason: Reason) -> (&Ledger, Rate) {
        if reason.is_repair() { (&self.repairs, self.repair_rate) } else { (&self.moves, self.move_rate) }
    }
}

/// Servers at which a copy counts, each once.
fn servers_of(order: &CopyOrder) -> Vec<&Arc<str>> {
    let mut servers: Vec<_> = order.sources.iter().map(|source| &source.server).collect();
    servers.push(&order.target_server);
    servers.sort_unstable();
    servers.dedup();
    servers
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(from: &str, to: &str, size_bytes: u64, reason: Reason) -> CopyOrder {
        let source = Source { object: ObjectId(1), partition: from.into(), server: from.into(), index: 0 };
        let relieves = (reason == Reason::Balance).then(|| from.into());
        CopyOrder {
            file: FileId(1),
            index: 0,
            size_bytes,
            sources: vec![source],
            target: to.into(),
            target_server: to.into(),
            reason,
            relieves,
        }
    }

    fn pool() -> Pool {
        let rate = Rate { server_copies: 2, server_bytes: 100, pool_copies: 3, pool_bytes: 200 };
        Pool { repair: rate, moves: rate, ..Pool::default() }
    }

    #[test]
    fn bounds_hold_at_both_ends_and_in_the_pool() {
        let mut budget = Budget::new(&pool());
        budget.take(&order("a", "b", 60, Reason::Repair));
        assert!(!budget.allows(&order("a", "c", 41, Reason::Repair)), "bytes at the source");
        assert!(!budget.allows(&order("c", "b", 41, Reason::Repair)), "bytes at the target");
        assert!(budget.allows(&order("a", "c", 40, Reason::Repair)));
        budget.take(&order("a", "c", 10, Reason::Repair));
        assert!(!budget.allows(&order("a", "d", 1, Reason::Repair)), "copies at the source");
        budget.take(&order("e", "f", 100, Reason::Repair));
        assert!(!budget.allows(&order("g", "h", 1, Reason::Repair)), "copies in the pool");
        assert!(budget.allows(&order("a", "d", 1, Reason::Drain)), "moves have bounds of their own");
    }

    #[test]
    fn what_is_larger_than_the_bound_goes_alone() {
        let mut budget = Budget::new(&pool());
        let large = order("a", "b", 1000, Reason::Repair);
        assert!(budget.allows(&large));
        budget.take(&large);
        assert!(!budget.allows(&order("a", "c", 1, Reason::Repair)));
        budget.give_back(&large);
        assert_eq!(budget, Budget::new(&pool()));
    }

    #[test]
    fn the_order_of_what_is_under_way_does_not_matter() {
        let orders = [
            order("a", "b", 1, Reason::Repair),
            order("b", "c", 2, Reason::Balance),
            order("a", "c", 3, Reason::Drain),
        ];
        let budget = Budget::with(&pool(), &orders);
        assert_eq!(budget, Budget::with(&pool(), orders.iter().rev()));
        assert_eq!(budget.relieved_bytes("b"), 2);
        assert_eq!(budget.under_way(false), ActiveCopies { copies: 2, bytes: 5 });
    }
}
