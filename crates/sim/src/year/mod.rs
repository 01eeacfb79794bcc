//! A year of pools: placement, repair, balancing and garbage collection on many servers with all kinds of faults.
//!
//! Servers and disks are models with a truth of their own; what is decided is decided by the functions of `head::pool`, from what a
//! catalogue would know. After every step the checkers compare the two (`check`). The same plan gives the same year.

mod check;
mod faults;
mod keeper;
mod load;
mod plan;
mod site;

pub use plan::{Faults, Plan, PoolPlan};

use base::{Millis, Timestamp, rng::Rng};
use site::{PoolSite, Server};
use std::{cmp::Reverse, collections::BinaryHeap};

/// What happened in a year.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Report {
    /// Events.
    pub steps: u64,
    /// Files that were acknowledged.
    pub written: u64,
    /// Writes that were refused or failed.
    pub failed: u64,
    /// Files that users deleted.
    pub deleted: u64,
    /// Files of which more was destroyed within the time of a repair than their pool bears.
    ///
    /// One for each pool.
    pub lost: Vec<u64>,
    /// Pieces that faults destroyed.
    pub destroyed: u64,
    /// Of these, silently damaged ones.
    pub corrupted: u64,
    /// Damaged pieces that were found by looking at them.
    pub found: u64,
    /// Partitions that were given up.
    pub given_up: u64,
    /// Copies that repair finished.
    pub repairs: u64,
    /// Bytes of these.
    pub repair_bytes: u64,
    /// Copies that drained, spread or balanced.
    pub moves: u64,
    /// Copies that were cut off by faults.
    pub cut_off: u64,
    /// Pieces that were deleted because they were surplus.
    pub surplus: u64,
    /// Files that were evicted to make room.
    pub evicted: u64,
    /// Partitions that were drained and retired.
    pub drained: u64,
    /// Pieces in all pools at the end.
    pub pieces: u64,
    /// Fill of the emptiest partition of each pool at the end, in thousandths.
    pub fill_least: Vec<u64>,
    /// Fill of the fullest.
    pub fill_most: Vec<u64>,
}

/// Runs a plan to its end, with all its checks.
///
/// Panics with what is wrong.
#[must_use]
pub fn run(plan: &Plan) -> Report {
    let mut year = Year::new(plan);
    year.begin();
    while let Some(Reverse((when, _, event))) = year.events.pop() {
        if when > year.end {
            break;
        }
        year.advance(when);
        year.happen(event);
        year.check_step();
    }
    year.check_end();
    year.report
}

/// What happens at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// The head looks after a pool.
    Keep { pool: usize },
    /// The head collects, balances and lets look at pieces.
    Hour,
    /// A user begins to write.
    Write { pool: usize },
    /// A piece of a write is durable.
    Written { pool: usize, file: u64, object: u64 },
    /// A copy has come.
    Copied { pool: usize, object: u64 },
    /// A file is on tape.
    Archived { pool: usize, file: u64 },
    /// A job lets a file go.
    Unpinned { pool: usize, file: u64 },
    /// Something breaks.
    Fault,
    /// A server can be reached again.
    Return { server: usize, is_restart: bool },
    /// A server has said what it has.
    Registered { server: usize },
    /// Servers are bought, disks are enlarged.
    Grow,
    /// A partition is to be emptied.
    Drain,
}

/// The facility in the middle of its year.
struct Year {
    plan: Plan,
    rng: Rng,
    now: Timestamp,
    /// When faults and users stop.
    quiet: Timestamp,
    end: Timestamp,
    events: BinaryHeap<Reverse<(Timestamp, u64, Event)>>,
    sequence: u64,
    object_next: u64,
    file_next: u64,
    servers: Vec<Server>,
    pools: Vec<PoolSite>,
    report: Report,
}

const DAY: Millis = Millis::from_seconds(86_400);
const HOUR: Millis = Millis::from_seconds(3600);
/// How often the head looks for silent servers, and for what it may have left.
const KEEP_INTERVAL: Millis = Millis::from_seconds(600);

impl Year {
    fn new(plan: &Plan) -> Self {
        let now = Timestamp(1_700_000_000_000);
        let quiet = now + Millis(DAY.0 * plan.days);
        let mut year = Self {
            plan: plan.clone(),
            rng: Rng::new(plan.seed),
            now,
            quiet,
            end: quiet + Millis(DAY.0 * plan.quiet_days),
            events: BinaryHeap::new(),
            sequence: 0,
            object_next: 1,
            file_next: 1,
            servers: (0..plan.servers).map(|number| Server::new(number, plan.racks)).collect(),
            pools: Vec::new(),
            report: Report::default(),
        };
        year.report.lost = vec![0; plan.pools.len()];
        for pool in &plan.pools {
            year.pools.push(PoolSite::new(pool, &year.servers, now));
        }
        year
    }

    fn begin(&mut self) {
        for pool in 0..self.pools.len() {
            self.after(KEEP_INTERVAL, Event::Keep { pool });
            self.after(Millis(0), Event::Write { pool });
        }
        self.after(HOUR, Event::Hour);
        self.after(Millis(DAY.0 / 2), Event::Fault);
        for part in 1..=self.plan.growths {
            self.after(Millis(DAY.0 * self.plan.days * part / (self.plan.growths + 1)), Event::Grow);
        }
        for part in 1..=self.plan.drains {
            self.after(Millis(DAY.0 * self.plan.days * part / (self.plan.drains + 2)), Event::Drain);
        }
    }

    fn after(&mut self, span: Millis, event: Event) {
        self.sequence += 1;
        self.events.push(Reverse((self.now + span, self.sequence, event)));
    }

    fn advance(&mut self, when: Timestamp) {
        self.now = when;
        for pool in &mut self.pools {
            pool.snapshot.now = when;
        }
        self.report.steps += 1;
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Keep { pool } => {
                self.after(KEEP_INTERVAL, event);
                self.give_up(pool);
                self.keep(pool);
            }
            Event::Hour => {
                self.after(HOUR, event);
                self.every_hour();
            }
            Event::Write { pool } => self.write(pool),
            Event::Written { pool, file, object } => self.written(pool, file, object),
            Event::Copied { pool, object } => self.copied(pool, object),
            Event::Archived { pool, file } => self.archived(pool, file),
            Event::Unpinned { pool, file } => self.unpinned(pool, file),
            Event::Fault => self.fault(),
            Event::Return { server, is_restart } => self.come_back(server, is_restart),
            Event::Registered { server } => self.registered(server),
            Event::Grow => self.grow(),
            Event::Drain => self.drain(),
        }
    }
}
