//! How large a simulated facility is, and what happens to it.

use base::Millis;
use head::pool::decide::policy::{Coding, Collection, FailureDomain, Pool, Rate};

const GB: u64 = 1_000_000_000;
const TB: u64 = 1000 * GB;

/// A facility and its year.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Every choice comes from here.
    pub seed: u64,
    /// Days with load and faults.
    pub days: i64,
    /// Days without, at the end: after them everything must be whole.
    pub quiet_days: i64,
    /// Servers at the beginning.
    pub servers: usize,
    /// Racks.
    pub racks: usize,
    /// How often servers are bought.
    pub growths: i64,
    /// How many partitions are drained.
    pub drains: i64,
    /// Pools.
    pub pools: Vec<PoolPlan>,
    /// What breaks.
    pub faults: Faults,
}

/// A pool of a plan.
#[derive(Debug, Clone)]
pub struct PoolPlan {
    /// Its policy.
    pub policy: Pool,
    /// Servers that have a partition of it.
    pub servers: std::ops::Range<usize>,
    /// Bytes of each partition.
    pub capacity_bytes: u64,
    /// Files that are written each day.
    pub files_per_day: u64,
    /// Bytes of a file, on average.
    pub file_bytes: u64,
    /// Of a hundred files so many are archived.
    pub archived_percent: u64,
    /// For a hundred files that are written so many are deleted.
    pub deleted_percent: u64,
}

/// How often things break in a thousand days, in the whole facility.
#[derive(Debug, Clone, Copy)]
pub struct Faults {
    /// A server cannot be reached for minutes.
    pub blips: u64,
    /// A server is down for hours or days, and comes back with all, some or none of its files.
    pub crashes: u64,
    /// A disk is replaced by an empty one.
    pub disk_losses: u64,
    /// Racks cannot be reached, up to two thirds of them.
    pub splits: u64,
    /// Some pieces are damaged, and nobody notices.
    pub corruptions: u64,
}

fn policy(name: &str, pool_copies: u32) -> Pool {
    Pool {
        name: name.into(),
        failure_domain: FailureDomain::Label("rack".to_owned()),
        reserved_bytes: 50 * GB,
        verify_interval: Millis::from_seconds(30 * 86_400),
        repair: Rate { server_copies: 8, server_bytes: 2 * TB, pool_copies, pool_bytes: 40 * TB },
        moves: Rate {
            server_copies: 3,
            server_bytes: 500 * GB,
            pool_copies: pool_copies / 4,
            pool_bytes: 10 * TB,
        },
        ..Pool::default()
    }
}

impl Plan {
    /// A year on 200 servers: a mirrored pool, a cache before tape, a coded pool for cold files.
    #[must_use]
    pub fn year(seed: u64) -> Self {
        let mirrored = Pool { copies: 3, acknowledged_copies: 2, ..policy("mirror", 256) };
        let cache = Pool { collection: Some(Collection::default()), ..policy("cache", 64) };
        let cold = Pool { coding: Some(Coding { data: 4, parity: 2 }), ..policy("cold", 256) };
        let pool = |policy, servers, capacity_bytes, files_per_day, file_bytes| PoolPlan {
            policy,
            servers,
            capacity_bytes,
            files_per_day,
            file_bytes,
            archived_percent: 0,
            deleted_percent: 50,
        };
        let mut pools = vec![
            pool(mirrored, 0..200, 50 * TB, 400, 30 * GB),
            pool(cache, 0..60, 6 * TB, 500, 10 * GB),
            pool(cold, 60..200, 80 * TB, 150, 150 * GB),
        ];
        pools[1].archived_percent = 95;
        pools[1].deleted_percent = 5;
        pools[2].deleted_percent = 20;
        Self {
            seed,
            days: 365,
            quiet_days: 40,
            servers: 200,
            racks: 20,
            growths: 3,
            drains: 12,
            pools,
            faults: Faults { blips: 3000, crashes: 550, disk_losses: 60, splits: 30, corruptions: 1500 },
        }
    }

    /// Weeks on a score of servers where much breaks: for many seeds.
    #[must_use]
    pub fn short(seed: u64) -> Self {
        let mut plan = Self::year(seed);
        plan.days = 25;
        (plan.servers, plan.racks, plan.growths, plan.drains) = (20, 10, 1, 2);
        let sizes = [(0..20, 2 * TB, 12), (0..6, 500 * GB, 12), (0..20, 4 * TB, 6)];
        for (pool, (servers, capacity, files)) in plan.pools.iter_mut().zip(sizes) {
            pool.servers = servers;
            pool.capacity_bytes = capacity;
            pool.files_per_day = files;
            pool.policy.repair.pool_copies = 12;
            pool.policy.moves.pool_copies = 6;
            pool.policy.verify_interval = Millis::from_seconds(10 * 86_400);
        }
        plan.quiet_days = 16;
        plan.faults = Faults { blips: 2000, crashes: 500, disk_losses: 80, splits: 80, corruptions: 800 };
        plan
    }
}
