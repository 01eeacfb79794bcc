//! Balancing: what is too much on one partition moves to others, within bounds, once, and nothing is lost on the way.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod support;

use base::{ErrorKind, Failure, Millis, ObjectId};
use head::Principal;
use sim::{Content, World};
use std::collections::BTreeMap;
use support::*;
use wire::control::{
    CommitWrite, CopyEnded, CopyOrder, DiskServer, GetPools, MovePartition, NextCopies, NextRemovals,
    ObjectsRemoved, PartitionState, PlaceMirrors, Pool, PoolInfo, RegisterPartition, ReportObjects,
    ReportSpace, ResizePartition, Role, RunMaintenance, SetPartition, SetPool,
};

const CAPACITY: u64 = 1_000_000;
const SIZE: u64 = 50_000;

/// Disk servers with what lies on them, beside the one of the simulation, which takes nothing new.
struct Servers {
    world: World,
    disks: BTreeMap<&'static str, BTreeMap<ObjectId, u64>>,
}

impl Servers {
    fn new(names: &[&'static str], pool: Pool) -> Self {
        let mut servers = Self { world: world(), disks: BTreeMap::new() };
        servers.world.user(SetPool { pool }).unwrap();
        servers.set(PARTITION, PartitionState::ReadOnly);
        for name in names {
            servers.add(name);
        }
        servers
    }

    fn set(&mut self, partition: &str, state: PartitionState) {
        self.world.user(SetPartition { partition: partition.into(), state }).unwrap();
    }

    fn host<C: head::Apply>(&mut self, name: &str, call: C) -> base::Result<C::Reply> {
        self.world.call(Principal::host(name), call)
    }

    fn add(&mut self, name: &'static str) {
        self.disks.entry(name).or_default();
        support::take_in(&mut self.world, name, Role::Disk);
        let server =
            DiskServer { name: name.into(), root: format!("{name}:1094"), https: format!("{name}:8443") };
        let call = RegisterPartition {
            server,
            boot: 1,
            pool: "main".into(),
            partition: format!("{name}.disk"),
            total_bytes: CAPACITY,
            free_bytes: self.free(name),
        };
        self.host(name, call).unwrap();
        let objects = self.disks[name].keys().copied().collect();
        let (partition, upto, after) = (format!("{name}.disk"), None, ObjectId(0));
        self.host(name, ReportObjects { partition, boot: 1, after, upto, objects }).unwrap();
    }

    fn free(&self, name: &str) -> u64 {
        CAPACITY - self.disks[name].values().sum::<u64>()
    }

    /// Everybody reports and deletes.
    fn report(&mut self) {
        for name in self.disks.keys().copied().collect::<Vec<_>>() {
            let partition = format!("{name}.disk");
            let objects = self.host(name, NextRemovals { partition: partition.clone() }).unwrap().objects;
            self.disks.get_mut(name).unwrap().retain(|object, _| !objects.contains(object));
            self.host(name, ObjectsRemoved { partition: partition.clone(), objects }).unwrap();
            let (free_bytes, writing) = (self.free(name), Vec::new());
            let (total_bytes, readers, trouble) = (CAPACITY, 0, None);
            let report = ReportSpace {
                partition,
                boot: 1,
                writing,
                written: Vec::new(),
                claimed: Vec::new(),
                total_bytes,
                free_bytes,
                readers,
                trouble,
            };
            self.host(name, report).unwrap();
        }
    }

    fn maintain(&mut self) {
        self.world.advance(Millis(1000));
        self.report();
        while self.world.room(RunMaintenance {}).unwrap().is_more {}
    }

    fn orders(&mut self) -> Vec<(&'static str, CopyOrder)> {
        let mut all = Vec::new();
        for name in self.disks.keys().copied().collect::<Vec<_>>() {
            let ask = NextCopies { partition: format!("{name}.disk"), under_way: Vec::new() };
            all.extend(self.host(name, ask).unwrap().orders.into_iter().map(|order| (name, order)));
        }
        all
    }

    fn end(&mut self, name: &'static str, order: &CopyOrder, failure: Option<Failure>) {
        if failure.is_none() {
            assert!(self.disks.values().any(|disk| disk.contains_key(&order.source)), "nothing to copy from");
            self.disks.get_mut(name).unwrap().insert(order.object, order.size);
        }
        self.host(
            name,
            CopyEnded {
                object: order.object,
                source: order.source,
                failure,
                checksums: None,
                damaged: Vec::new(),
            },
        )
        .unwrap();
    }

    /// Lets time pass and copies be made until none is begun any more; yields how many were made.
    fn settle(&mut self, files: u64, copies: usize) -> usize {
        let (mut made, mut quiet) = (0, 0);
        while quiet < 5 {
            self.maintain();
            let orders = self.orders();
            quiet = if orders.is_empty() { quiet + 1 } else { 0 };
            for (name, order) in orders {
                self.end(name, &order, None);
                made += 1;
            }
            assert!(made < 200, "files go in circles: {:?}", self.pool());
            for number in 0..files {
                let there = self.replicas(number).len();
                assert!(there >= copies, "/f{number} has {there} replicas");
            }
        }
        made
    }

    fn write(&mut self, number: u64) {
        let grant = begin_write(&mut self.world, &format!("/f{number}"), SIZE);
        let home = grant.server.clone().unwrap().name;
        let Content { size, sums } = Content::numbered(SIZE, 1);
        let failed = Vec::new();
        let place = PlaceMirrors { object: grant.object, size, checksums: sums, failed };
        let mut objects = vec![(home.clone(), grant.object)];
        if grant.is_mirrored {
            let mirrors = self.host(&home, place).unwrap().mirrors;
            let server = |url: &str| url["root://".len()..].split(':').next().unwrap().to_owned();
            objects.extend(mirrors.iter().map(|mirror| (server(&mirror.url), mirror.object)));
        }
        for (name, object) in &objects {
            let disk = self.disks.iter_mut().find(|(known, _)| *known == name).unwrap().1;
            disk.insert(*object, size);
        }
        let mirrors = objects[1..].iter().map(|(_, object)| *object).collect();
        let commit = CommitWrite { object: grant.object, size, checksums: sums, mirrors, pieces: Vec::new() };
        self.host(&home, commit).unwrap();
        self.report();
    }

    fn replicas(&mut self, number: u64) -> Vec<String> {
        stat(&mut self.world, &format!("/f{number}")).unwrap().replicas
    }

    fn pool(&mut self) -> PoolInfo {
        let pools = self.world.user(GetPools {}).unwrap().pools;
        pools.into_iter().find(|pool| pool.name == "main").unwrap()
    }

    fn resize(&mut self, partition: &str, size_max_bytes: Option<u64>) {
        self.world.user(ResizePartition { partition: partition.into(), size_max_bytes }).unwrap();
    }

    /// Bytes in all and free bytes, as the pool has them.
    fn space(&mut self, partition: &str) -> (u64, u64) {
        let found = self.pool().partitions.into_iter().find(|known| known.name == partition).unwrap();
        (found.total_bytes, found.free_bytes)
    }

    fn used(&self, name: &str) -> u64 {
        CAPACITY - self.free(name)
    }
}

fn pool(copies: u8) -> Pool {
    Pool { copies, acknowledged_copies: copies, ..Pool::default() }
}

#[test]
fn a_new_disk_server_gets_its_share_and_then_all_is_quiet() {
    let mut servers = Servers::new(&["a", "b"], pool(1));
    (0..24).for_each(|number| servers.write(number));
    let before = servers.used("a") + servers.used("b");
    assert_eq!(servers.pool().uneven_bytes, 0);
    servers.add("c");
    assert!(servers.pool().uneven_bytes > 0);
    let made = servers.settle(24, 1);
    assert!(made > 0);
    assert_eq!(
        servers.used("a") + servers.used("b") + servers.used("c"),
        before,
        "what has moved is deleted"
    );
    let fill = |name: &str| servers.used(name) as f64 / CAPACITY as f64;
    for name in ["a", "b", "c"] {
        assert!((fill(name) - 0.4).abs() <= 0.1 + 0.05, "{name} is filled {}", fill(name));
    }
    assert_eq!((servers.pool().uneven_bytes, servers.pool().moves_under_way), (0, 0));
    assert_eq!(servers.settle(24, 1), 0, "nothing goes back");
}

#[test]
fn two_copies_stay_on_two_servers() {
    let mut servers = Servers::new(&["a", "b", "c"], pool(2));
    (0..20).for_each(|number| servers.write(number));
    servers.add("d");
    assert!(servers.settle(20, 2) > 0);
    for number in 0..20 {
        let mut replicas = servers.replicas(number);
        replicas.sort();
        replicas.dedup();
        assert_eq!(replicas.len(), 2);
    }
    assert!(servers.used("d") > 0);
}

#[test]
fn the_bounds_count_where_copies_come_from_also_after_a_restart() {
    let mut policy = pool(1);
    policy.moves.server_copies = 1;
    let mut servers = Servers::new(&["a"], policy);
    (0..16).for_each(|number| servers.write(number));
    servers.add("b");
    servers.add("c");
    (0..5).for_each(|_| servers.maintain());
    // There is room for more at b and c, but a would have to send them all.
    assert_eq!(servers.orders().len(), 1);
    assert_eq!(servers.pool().moves_under_way, 1);
    servers.world.crash();
    for name in ["a", "b", "c"] {
        servers.add(name);
    }
    (0..5).for_each(|_| servers.maintain());
    assert_eq!((servers.orders().len(), servers.pool().moves_under_way), (1, 1));
    let (name, order) = servers.orders().remove(0);
    servers.end(name, &order, None);
    servers.maintain();
    assert_eq!(servers.orders().len(), 1, "the next one follows");
    servers.settle(16, 1);
    assert_eq!(servers.pool().uneven_bytes, 0);
}

#[test]
fn a_copy_comes_from_where_the_bounds_say() {
    let mut policy = pool(2);
    policy.repair.server_copies = 1;
    let mut servers = Servers::new(&["a", "b"], policy.clone());
    (0..6).for_each(|number| servers.write(number));
    policy.copies = 3;
    policy.acknowledged_copies = 3;
    servers.world.user(SetPool { pool: policy }).unwrap();
    servers.add("c");
    servers.maintain();
    assert_eq!(servers.orders().len(), 1, "c may be sent one at a time");
    let (name, order) = servers.orders().remove(0);
    assert_eq!(name, "c");
    servers.end(name, &order, None);
    servers.settle(6, 2);
    for number in 0..6 {
        assert_eq!(servers.replicas(number).len(), 3);
    }
}

#[test]
fn what_cannot_be_copied_is_not_tried_again_at_once() {
    let mut servers = Servers::new(&["a"], pool(1));
    (0..16).for_each(|number| servers.write(number));
    servers.add("b");
    servers.maintain();
    let orders = servers.orders();
    assert!(!orders.is_empty());
    for (name, order) in orders {
        servers.end(name, &order, Some(Failure::unavailable("cannot connect")));
    }
    (0..10).for_each(|_| servers.maintain());
    assert_eq!(servers.orders(), []);
    assert!(servers.pool().uneven_bytes > 0);
    (0..60).for_each(|_| servers.maintain());
    assert!(!servers.orders().is_empty());
}

#[test]
fn nothing_moves_where_the_pool_forbids_it() {
    let mut policy = pool(1);
    policy.moves.server_copies = 0;
    let mut servers = Servers::new(&["a"], policy);
    (0..16).for_each(|number| servers.write(number));
    servers.add("b");
    assert_eq!(servers.settle(16, 1), 0);
}

#[test]
fn what_is_too_much_leaves_a_partition_that_is_made_smaller() {
    let mut servers = Servers::new(&["a", "b", "c"], pool(1));
    (0..24).for_each(|number| servers.write(number));
    let most = servers.used("a") / 2;
    servers.resize("a.disk", Some(most));
    assert_eq!(servers.space("a.disk"), (most, 0), "it takes nothing new");
    assert!(servers.settle(24, 1) > 0);
    assert!(servers.used("a") <= most, "{} are left", servers.used("a"));
    let left = servers.used("a");
    assert_eq!(servers.space("a.disk"), (most, most - left));
    servers.world.crash();
    for name in ["a", "b", "c"] {
        servers.add(name);
    }
    assert_eq!(servers.space("a.disk"), (most, most - left), "also after a restart");
    servers.resize("a.disk", None);
    assert_eq!(servers.space("a.disk"), (CAPACITY, CAPACITY - left));
    let nothing = ResizePartition { partition: "a.disk".into(), size_max_bytes: Some(0) };
    assert_eq!(refusal(servers.world.user(nothing)), ErrorKind::Invalid);
    let unknown = ResizePartition { partition: "z.disk".into(), size_max_bytes: None };
    assert_eq!(refusal(servers.world.user(unknown)), ErrorKind::NotFound);
}

#[test]
fn what_is_a_little_too_much_leaves_too() {
    let mut servers = Servers::new(&["a", "b", "c"], pool(1));
    (0..48).for_each(|number| servers.write(number));
    let most = servers.used("a") - 10_000;
    servers.resize("a.disk", Some(most));
    // No partition is fuller than the pool bears; one file is more than what is too much.
    servers.settle(48, 1);
    assert!(servers.used("a") <= most, "{} are left", servers.used("a"));
}

#[test]
fn an_empty_partition_goes_to_another_pool() {
    let mut servers = Servers::new(&["a", "b"], pool(1));
    (0..8).for_each(|number| servers.write(number));
    let to = |pool: &str| MovePartition { partition: "b.disk".into(), pool: pool.into() };
    assert_eq!(refusal(servers.world.user(to("fast"))), ErrorKind::Busy, "files are there");
    servers.set("b.disk", PartitionState::Draining);
    servers.settle(8, 1);
    assert_eq!(servers.used("b"), 0);
    assert_eq!(refusal(servers.world.user(to(""))), ErrorKind::Invalid);
    servers.world.user(to("fast")).unwrap();
    // Its host says main again: the operator has said otherwise.
    servers.add("b");
    (8..14).for_each(|number| servers.write(number));
    assert_eq!(servers.used("b"), 0, "new files are for another pool");
    let pools = servers.world.user(GetPools {}).unwrap().pools;
    let fast = pools.into_iter().find(|pool| pool.name == "fast").unwrap();
    assert_eq!((fast.partitions.len(), fast.partitions[0].state), (1, PartitionState::InUse));
    assert_eq!(servers.space("a.disk").0, CAPACITY);
}

#[test]
fn a_partition_to_which_something_comes_stays_in_its_pool() {
    let mut servers = Servers::new(&["a"], pool(1));
    begin_write(&mut servers.world, "/f", SIZE);
    let away = MovePartition { partition: "a.disk".into(), pool: "fast".into() };
    assert_eq!(refusal(servers.world.user(away)), ErrorKind::Busy);
}
