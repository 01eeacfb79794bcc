//! Checkers: what must hold, counted anew from the truth and from the catalogue, not by the functions that decided.

use super::{
    Year,
    site::{FileRow, PoolSite, Truth},
};
use base::Millis;
use head::pool::decide::{
    policy::Rate,
    surplus::Removal,
    view::{Layout, PartitionState, PieceState},
};
use std::collections::{BTreeMap, BTreeSet};

/// Within this time what was noticed is repaired: the longest silence, and what bounds let wait.
const REPAIR_TIME: Millis = Millis::from_seconds(8 * 86_400);
/// Steps after which the accounts of partitions are checked in full.
const ACCOUNT_STEPS: u64 = 200_000;

impl Year {
    /// After each step that destroyed or deleted something of a file.
    ///
    /// A file that cannot be read any more must have lost more pieces, within the time of a repair, than was promised.
    pub(super) fn check_lost(&mut self, pool: usize, file: u64) {
        let site = &self.pools[pool];
        let Some(row) = site.files.get(&file) else { return };
        if !row.is_acknowledged || row.tape_copies > 0 || row.is_readable() {
            return;
        }
        let unnoticed = Millis(site.policy().verify_interval.0 + REPAIR_TIME.0);
        let recent = row.destroyed.iter().filter(|(when, is_noticed)| {
            self.now - *when <= if *is_noticed { REPAIR_TIME } else { unnoticed }
        });
        let (destroyed, tolerated) = (recent.count(), tolerated(site, row));
        assert!(
            destroyed > tolerated,
            "seed {}: file {file} of pool {} is lost, but of its pieces only {destroyed} were destroyed: {:?} {:?}",
            self.plan.seed,
            site.policy().name,
            row.pieces,
            row.destroyed,
        );
        self.report.lost[pool] += 1;
        self.forget(pool, file);
    }

    /// Before each deletion of surplus: the file keeps all its pieces, verified, on servers that can be reached.
    pub(super) fn check_removals(&self, pool: usize, file: u64, removals: &[Removal]) {
        let site = &self.pools[pool];
        let row = &site.files[&file];
        let is_gone = |object: u64| removals.iter().any(|removal| removal.object.0 == object);
        let mut left: BTreeMap<u8, usize> = BTreeMap::new();
        for piece in &row.pieces {
            let is_silent = self.is_silent(pool, site.server_of[piece.at]);
            if !is_gone(piece.object) && !is_silent && piece.state == PieceState::Verified {
                *left.entry(piece.index).or_default() += 1;
            }
        }
        let is_kept = match row.layout {
            Layout::Copies(copies) => left.get(&0).is_some_and(|count| *count >= usize::from(copies)),
            Layout::Coded(coding) => left.len() >= usize::from(coding.pieces()),
        };
        assert!(is_kept, "seed {}: file {file} would keep {left:?} of {:?}", self.plan.seed, row.pieces);
    }

    /// Whether a server was away for so long that the head must know it.
    pub(super) fn is_silent(&self, pool: usize, server: usize) -> bool {
        let server = &self.servers[server];
        !server.is_up && self.now - server.down > self.pools[pool].policy().heard_bound
    }

    /// Before each eviction: the file is on tape and nobody wants it here.
    pub(super) fn check_evicted(&self, pool: usize, file: u64) {
        let row = &self.pools[pool].files[&file];
        assert!(
            row.tape_copies > 0 && !row.is_pinned && row.is_acknowledged,
            "file {file} must not be evicted"
        );
    }

    /// When a write is acknowledged, so many pieces are really there as was promised.
    pub(super) fn check_acknowledged(&self, pool: usize, file: u64) {
        let site = &self.pools[pool];
        let row = &site.files[&file];
        let promised = match row.layout {
            Layout::Copies(_) => usize::from(site.policy().acknowledged_copies),
            Layout::Coded(coding) => usize::from(coding.pieces()),
        };
        assert!(row.true_pieces() >= promised, "file {file} is acknowledged with {:?}", row.pieces);
    }

    /// Who is given up is really away, and most others are not.
    pub(super) fn check_given_up(&self, pool: usize, name: &str) {
        let site = &self.pools[pool];
        let at = site.number(name);
        assert!(!self.servers[site.server_of[at]].is_up, "{name} is given up but can be reached");
        let retired = |at: &usize| site.snapshot.partitions()[*at].state == PartitionState::Retired;
        let servers: BTreeSet<_> =
            (0..site.server_of.len()).filter(|at| !retired(at)).map(|at| site.server_of[at]).collect();
        let bound = site.policy().heard_bound;
        let is_away =
            |server: &&usize| !self.servers[**server].is_up && self.now - self.servers[**server].down > bound;
        let away = servers.iter().filter(is_away).count();
        assert!(2 * away <= servers.len(), "{name} is given up while {away} of {} are away", servers.len());
    }

    /// Copies under way, counted anew, are within the bounds: no storm.
    pub(super) fn check_bounds(&self, pool: usize) {
        let site = &self.pools[pool];
        for (is_repair, rate) in [(true, site.policy().repair), (false, site.policy().moves)] {
            let mut servers = vec![(0, 0); self.servers.len()];
            let mut all = (0, 0);
            let orders = site.copies.values().map(|(order, _)| order);
            for order in orders.filter(|order| order.reason.is_repair() == is_repair) {
                all = (all.0 + 1, all.1 + order.size_bytes);
                let ends = order.sources.iter().map(|source| &source.partition).chain([&order.target]);
                let mut ends: Vec<_> = ends.map(|name| site.server_of[site.number(name)]).collect();
                ends.sort_unstable();
                ends.dedup();
                for server in ends {
                    let at: &mut (u32, u64) = &mut servers[server];
                    *at = (at.0 + 1, at.1 + order.size_bytes);
                }
            }
            let Rate { server_copies, server_bytes, pool_copies, pool_bytes } = rate;
            assert!(all.0 <= pool_copies && all.1 <= pool_bytes, "a storm: {all:?} above {rate:?}");
            for (at, server) in servers.iter().zip(&self.servers) {
                let is_bounded = at.0 <= u32::from(server_copies) && at.1 <= server_bytes;
                assert!(is_bounded, "a storm at {}: {at:?} above {rate:?}", server.name);
            }
        }
    }

    /// After every step.
    pub(super) fn check_step(&self) {
        if self.report.steps.is_multiple_of(ACCOUNT_STEPS) {
            self.pools.iter().for_each(check_accounts);
        }
    }

    /// When everything was quiet for a while: all is whole, apart, balanced, and nothing is under way.
    pub(super) fn check_end(&mut self) {
        let seed = self.plan.seed;
        for site in &self.pools {
            let name = &site.policy().name;
            check_accounts(site);
            for (file, row) in &site.files {
                let is_nearline = row.tape_copies > 0 && row.pieces.is_empty();
                assert!(
                    is_nearline || is_whole(site, row),
                    "seed {seed}: {name} file {file}: {:?}",
                    row.pieces
                );
            }
            assert!(
                site.queue.is_empty(),
                "seed {seed}: {name} has {} files left to repair",
                site.queue.len()
            );
            let under_way = site.copies.len();
            assert_eq!(under_way, 0, "seed {seed}: {name} has copies under way");
            let draining = site.snapshot.partitions().iter();
            let draining = draining.filter(|at| at.state == PartitionState::Draining).count();
            assert_eq!(draining, 0, "seed {seed}: {name} has partitions that are not empty yet");
            // Each copy was made for something: faults, or a copy that was cut off.
            let allowed = site.needed + self.report.cut_off;
            assert!(site.repairs <= allowed, "seed {seed}: {name}: {} repairs for {allowed}", site.repairs);
        }
        self.check_fill();
        self.report.pieces =
            self.pools.iter().flat_map(|site| &site.held).map(|held| held.len() as u64).sum();
    }

    fn check_fill(&mut self) {
        for site in &self.pools {
            let used = site.snapshot.partitions().iter().filter(|at| at.state == PartitionState::InUse);
            let fills: Vec<_> = used.map(|at| (at.fill() * 1000.0) as u64).collect();
            let (least, most) = (fills.iter().min().copied(), fills.iter().max().copied());
            let (least, most) = (least.unwrap_or(0), most.unwrap_or(0));
            self.report.fill_least.push(least);
            self.report.fill_most.push(most);
            let spread = u64::from(site.policy().spread_permille);
            let (seed, name) = (self.plan.seed, &site.policy().name);
            // As far below the pool's fill as above it, and the largest file.
            let file = 3 * site.plan.file_bytes * 1000 / site.plan.capacity_bytes;
            let bound = 2 * spread + file;
            assert!(
                most - least <= bound,
                "seed {seed}: {name} is filled {least} to {most}, {bound} is borne"
            );
        }
    }
}

/// Pieces of a file that may be destroyed at once.
fn tolerated(site: &PoolSite, row: &FileRow) -> usize {
    match row.layout {
        Layout::Copies(copies) if row.was_whole => usize::from(copies) - 1,
        Layout::Copies(_) => usize::from(site.policy().acknowledged_copies) - 1,
        Layout::Coded(coding) => usize::from(coding.parity),
    }
}

/// All pieces once, really there, known to be, in different racks.
fn is_whole(site: &PoolSite, row: &FileRow) -> bool {
    let is_good =
        |piece: &super::site::Piece| piece.truth == Truth::Good && piece.state == PieceState::Verified;
    let racks: BTreeSet<_> =
        row.pieces.iter().map(|piece| &site.snapshot.partitions()[piece.at].domain).collect();
    let pieces = usize::from(row.layout.pieces());
    row.pieces.len() == pieces
        && row.true_pieces() == pieces
        && row.pieces.iter().all(is_good)
        && racks.len() == pieces
}

/// What partitions say is free is what their pieces leave.
fn check_accounts(site: &PoolSite) {
    let mut used = vec![(0, 0); site.held.len()];
    for row in site.files.values() {
        for piece in &row.pieces {
            let (taken, incoming) = &mut used[piece.at];
            match piece.truth {
                Truth::Coming => *incoming += row.piece_bytes,
                Truth::Good | Truth::Corrupt => *taken += row.piece_bytes,
                Truth::Gone => {}
            }
        }
    }
    for ((at, (taken, incoming)), orphans) in
        site.snapshot.partitions().iter().zip(used).zip(&site.orphan_bytes)
    {
        assert_eq!(at.free_bytes + taken + orphans, at.capacity_bytes, "{}", at.name);
        assert_eq!(at.incoming_bytes, incoming, "{}", at.name);
    }
}
