//! Pools with several disk servers: mirrors, copies, silence, lost disks, draining.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod support;

use base::{ErrorKind, Failure, Millis, ObjectId};
use head::Principal;
use sim::{Content, World};
use std::collections::{BTreeMap, BTreeSet};
use support::*;
use wire::control::{
    AbandonWrite, ArchivedCopy, AvoidServers, BeginWrite, CommitWrite, CopyEnded, CopyOrder, DiskServer,
    FailureDomain, FileState, FilesArchived, GetPools, LabelHost, Mirror, NextCopies, NextRemovals,
    ObjectsRemoved, OpenRead, PartitionState, PartitionTrouble, PlaceMirrors, Pool, PoolInfo, ReadGrant,
    ReadObject, RegisterPartition, Remove, Rename, ReportDamage, ReportMissing, ReportSpace, Role, RollCall,
    SetPartition, SetPool, TapeWork, Tend,
};

const SERVERS: [&str; 3] = ["a", "b", "c"];

/// Three disk servers of the pool `main` beside the one of the simulation, which takes nothing new.
struct Pools {
    world: World,
    /// What lies on each of them.
    disks: BTreeMap<&'static str, BTreeSet<ObjectId>>,
    /// Those that say nothing.
    silent: BTreeSet<&'static str>,
    /// What users are writing on whichever of them.
    writing: Vec<ObjectId>,
    /// What is wrong with the disks of others.
    troubles: BTreeMap<&'static str, PartitionTrouble>,
    boot: u64,
    free_bytes: u64,
}

impl Pools {
    fn new(copies: u8, acknowledged_copies: u8) -> Self {
        let mut pools = Self {
            world: world(),
            disks: SERVERS.into_iter().map(|name| (name, BTreeSet::new())).collect(),
            silent: BTreeSet::new(),
            writing: Vec::new(),
            troubles: BTreeMap::new(),
            boot: 1,
            free_bytes: 900_000,
        };
        let policy = Pool { copies, acknowledged_copies, ..Pool::default() };
        pools.world.user(SetPool { pool: policy }).unwrap();
        let state = PartitionState::ReadOnly;
        pools.world.user(SetPartition { partition: PARTITION.into(), state }).unwrap();
        pools.register_all();
        pools
    }

    fn host<C: head::Apply>(&mut self, name: &str, call: C) -> base::Result<C::Reply> {
        self.world.call(Principal::host(name), call)
    }

    fn register(&mut self, name: &'static str) {
        support::take_in(&mut self.world, name, Role::Disk);
        let server =
            DiskServer { name: name.into(), root: format!("{name}:1094"), https: format!("{name}:8443") };
        let (partition, boot) = (format!("{name}.disk"), self.boot);
        let (total_bytes, free_bytes) = (1_000_000, 900_000);
        let pool = "main".into();
        let call = RegisterPartition { server, boot, pool, partition, total_bytes, free_bytes };
        self.host(name, call).unwrap();
        self.call_the_roll(name).unwrap();
    }

    fn register_all(&mut self) {
        for name in SERVERS {
            self.register(name);
        }
    }

    fn call_the_roll(&mut self, name: &'static str) -> base::Result<wire::control::Done> {
        let objects = self.disks[name].iter().copied().collect();
        let (partition, boot) = (format!("{name}.disk"), self.boot);
        self.host(name, RollCall { partition, boot, after: ObjectId(0), upto: None, objects })
    }

    /// Two seconds pass: who is not silent reports and deletes; copies are made; the head tends its pools.
    fn tick(&mut self) {
        self.world.advance(Millis(2000));
        for name in SERVERS {
            if self.silent.contains(name) {
                continue;
            }
            let report = self.report(name);
            let partition = report.partition.clone();
            if self.host(name, report).is_err_and(|failure| failure.kind == ErrorKind::NotFound) {
                self.register(name);
            }
            let objects = self.host(name, NextRemovals { partition: partition.clone() }).unwrap().objects;
            for object in &objects {
                self.disks.get_mut(name).unwrap().remove(object);
            }
            self.host(name, ObjectsRemoved { partition, objects }).unwrap();
            for order in self.orders(name) {
                let source = order.source;
                let has_it = self.disks.values().any(|disk| disk.contains(&source));
                let failure = (!has_it).then(|| Failure::not_found("it is not here"));
                self.end_copy(name, &order, failure);
            }
        }
        while self.world.room(Tend {}).unwrap().is_more {}
    }

    fn report(&self, name: &str) -> ReportSpace {
        ReportSpace {
            partition: format!("{name}.disk"),
            boot: self.boot,
            writing: self.writing.clone(),
            written: Vec::new(),
            claimed: Vec::new(),
            total_bytes: 1_000_000,
            free_bytes: self.free_bytes,
            readers: 0,
            trouble: self.troubles.get(name).copied(),
        }
    }

    fn orders(&mut self, name: &str) -> Vec<CopyOrder> {
        let ask = NextCopies { partition: format!("{name}.disk"), under_way: Vec::new() };
        self.host(name, ask).unwrap().orders
    }

    fn end_copy(&mut self, name: &'static str, order: &CopyOrder, failure: Option<Failure>) {
        if failure.is_none() {
            self.disks.get_mut(name).unwrap().insert(order.object);
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

    fn place(&mut self, grant: &wire::control::WriteGrant, failed: Vec<ObjectId>) -> Vec<Mirror> {
        let name = grant.server.clone().unwrap().name;
        let Content { size, sums } = Content::numbered(100, 1);
        self.host(&name, PlaceMirrors { object: grant.object, size, checksums: sums, failed })
            .unwrap()
            .mirrors
    }

    fn commit(&mut self, grant: &wire::control::WriteGrant, mirrors: &[ObjectId]) -> base::Result<()> {
        let name = grant.server.clone().unwrap().name;
        let Content { size, sums } = Content::numbered(100, 1);
        let mirrors = mirrors.to_vec();
        self.host(
            &name,
            CommitWrite { object: grant.object, size, checksums: sums, mirrors, pieces: Vec::new() },
        )
        .map(drop)
    }

    /// Writes a file with its mirrors.
    fn write(&mut self, at: &str) {
        let grant = begin_write(&mut self.world, at, 100);
        let mirrors = self.place(&grant, Vec::new());
        let mut objects = vec![];
        let home = grant.partition.clone();
        self.store(&home, grant.object);
        for mirror in mirrors {
            let server = server_of(&mirror);
            self.store(&format!("{server}.disk"), mirror.object);
            objects.push(mirror.object);
        }
        self.commit(&grant, &objects).unwrap();
    }

    fn archive(&mut self, at: &str) {
        ask_archive(&mut self.world, at).unwrap();
        let session = archive_session(&mut self.world);
        let TapeWork::Archive { append, files } = &session.work else { panic!("{session:?}") };
        let (fseq, block, end_block) = (append.fseq, append.block, append.block + 4);
        let copies = vec![ArchivedCopy { request: files[0].request, fseq, block, end_block }];
        self.world.room(FilesArchived { session: session.id, copies, used_bytes: 1000 }).unwrap();
        end_session(&mut self.world, &session, 0);
    }

    fn fill(&mut self, free_bytes: u64) {
        self.free_bytes = free_bytes;
        let _reported = SERVERS.map(|name| self.host(name, self.report(name)).unwrap());
    }

    fn store(&mut self, partition: &str, object: ObjectId) {
        let name = SERVERS.into_iter().find(|name| partition == format!("{name}.disk")).unwrap();
        self.disks.get_mut(name).unwrap().insert(object);
    }

    fn replicas(&mut self, at: &str) -> Vec<String> {
        let mut replicas = stat(&mut self.world, at).unwrap().replicas;
        replicas.sort();
        replicas
    }

    fn pool(&mut self) -> PoolInfo {
        let pools = self.world.user(GetPools {}).unwrap().pools;
        pools.into_iter().find(|pool| pool.name == "main").unwrap()
    }

    fn until(&mut self, what: &str, is_so: impl Fn(&mut Self) -> bool) {
        for _ in 0..600 {
            if is_so(self) {
                return;
            }
            self.tick();
        }
        panic!("{what}: {:?}", self.pool());
    }

    /// Where readers are sent.
    fn reader(&mut self, at: &str) -> String {
        online(&mut self.world, at).partition
    }
}

fn online(world: &mut World, at: &str) -> ReadObject {
    match world.user(OpenRead { path: path(at) }).unwrap() {
        ReadGrant::Online(object) => object,
        ReadGrant::Recalling { .. } => panic!("it is on disk"),
    }
}

fn server_of(mirror: &Mirror) -> &'static str {
    let name = |name: &&str| mirror.url.starts_with(&format!("root://{name}:1094/"));
    SERVERS.into_iter().find(name).unwrap()
}

#[test]
fn mirrors_wait_for_disk_servers_that_were_not_heard_yet_if_they_were_promised() {
    for acknowledged in [2, 1] {
        let mut pools = Pools::new(2, acknowledged);
        let grant = begin_write(&mut pools.world, "/f", 100);
        pools.world.crash();
        let Content { size, sums: checksums } = Content::numbered(100, 1);
        let call = PlaceMirrors { object: grant.object, size, checksums, failed: Vec::new() };
        let home = grant.server.clone().unwrap().name;
        let placed = pools.host(&home, call);
        if acknowledged == 2 {
            assert_eq!(refusal(placed), ErrorKind::Unavailable);
        } else {
            assert_eq!(placed.unwrap().mirrors, [], "who is content with one need not wait");
        }
        pools.register_all();
        let mirrors = pools.place(&grant, Vec::new());
        pools.commit(&grant, &[mirrors[0].object]).unwrap();
    }
}

#[test]
fn a_write_is_acknowledged_with_its_mirrors_only() {
    let mut pools = Pools::new(2, 2);
    let grant = begin_write(&mut pools.world, "/f", 100);
    assert!(grant.is_mirrored);
    assert_eq!(refusal(pools.commit(&grant, &[])), ErrorKind::NoSpace);
    let mirrors = pools.place(&grant, Vec::new());
    assert_eq!(mirrors.len(), 1);
    assert_ne!(format!("{}.disk", server_of(&mirrors[0])), grant.partition);
    assert_eq!(pools.place(&grant, Vec::new())[0].object, mirrors[0].object, "asking twice places once");
    assert_eq!(refusal(pools.commit(&grant, &[ObjectId(999)])), ErrorKind::NoSpace, "a mirror of nobody");
    pools.commit(&grant, &[mirrors[0].object]).unwrap();
    assert_eq!(pools.replicas("/f").len(), 2);
    assert_eq!(pools.pool().files_short, 0);
}

#[test]
fn a_mirror_that_fails_is_placed_on_another_disk_server() {
    let mut pools = Pools::new(2, 2);
    let grant = begin_write(&mut pools.world, "/f", 100);
    let first = pools.place(&grant, Vec::new()).remove(0);
    let second = pools.place(&grant, vec![first.object]).remove(0);
    assert_ne!(server_of(&first), server_of(&second));
    assert_eq!(refusal(pools.commit(&grant, &[first.object])), ErrorKind::NoSpace);
    pools.commit(&grant, &[second.object]).unwrap();
}

#[test]
fn a_write_that_is_given_up_takes_its_mirrors_with_it() {
    let mut pools = Pools::new(2, 2);
    let grant = begin_write(&mut pools.world, "/f", 100);
    let mirror = pools.place(&grant, Vec::new()).remove(0);
    let name = server_of(&mirror);
    pools.store(&format!("{name}.disk"), mirror.object);
    pools.world.room(AbandonWrite { object: grant.object }).unwrap();
    pools.tick();
    assert!(pools.disks[name].is_empty());
    assert_eq!(refusal(stat(&mut pools.world, "/f")), ErrorKind::NotFound);
}

#[test]
fn what_was_acknowledged_with_fewer_replicas_is_copied_after() {
    let mut pools = Pools::new(3, 1);
    let grant = begin_write(&mut pools.world, "/f", 100);
    pools.store(&grant.partition.clone(), grant.object);
    pools.commit(&grant, &[]).unwrap();
    assert_eq!(pools.pool().files_short, 1);
    pools.until("three replicas", |pools| pools.replicas("/f").len() == 3);
    assert_eq!(pools.pool().files_short, 0);
}

#[test]
fn a_client_that_was_sent_in_vain_is_sent_elsewhere() {
    let mut pools = Pools::new(2, 1);
    pools.write("/f");
    let first = pools.reader("/f");
    let host = first.trim_end_matches(".disk").to_owned();
    let tried = |hosts: &[&str], at: &str| {
        let hosts = hosts.iter().map(|host| (*host).to_owned()).collect();
        AvoidServers { hosts, path: path(at), is_write: false }
    };
    let back = |host: &str, at: &str| AvoidServers { is_write: true, ..tried(&[host], at) };
    pools.world.user(tried(&[&host, "elsewhere.example"], "/f")).unwrap();
    for _ in 0..20 {
        assert_ne!(pools.reader("/f"), first);
        pools.world.advance(Millis(10));
    }
    // If all are avoided there is no elsewhere.
    pools.world.user(tried(&SERVERS, "/f")).unwrap();
    pools.reader("/f");
    assert_eq!(refusal(pools.world.user(tried(&["x"; 17], "/f"))), ErrorKind::Invalid);
    // A write that could not begin is given up, for who was to write it and nobody else.
    for _ in 0..8 {
        pools.tick();
    }
    let grant = begin_write(&mut pools.world, "/new", 100);
    let host = grant.server.unwrap().name;
    pools.world.call(Principal::operator("other"), back(&host, "/new")).unwrap();
    // Who only wants to read has not come back for it.
    pools.world.user(tried(&[&host], "/new")).unwrap();
    assert_eq!(stat(&mut pools.world, "/new").unwrap().entry.size, 0, "somebody writes it");
    pools.world.user(back(&host, "/new")).unwrap();
    assert_eq!(refusal(stat(&mut pools.world, "/new")), ErrorKind::NotFound);
    for number in 0..10 {
        let grant = begin_write(&mut pools.world, &format!("/new{number}"), 100);
        assert_ne!(grant.server.unwrap().name, host);
    }
}

#[test]
fn readers_and_writers_are_sent_where_less_is_to_do() {
    let mut pools = Pools::new(3, 3);
    pools.write("/f");
    let report = ReportSpace { readers: 999, ..pools.report("a") };
    assert!(!pools.host("a", report).unwrap().is_direct);
    let busy = pools.pool().partitions.into_iter().find(|partition| partition.name == "a.disk").unwrap();
    assert_eq!(busy.transfers, 999);
    let policy = Pool { copies: 1, acknowledged_copies: 1, direct: true, ..Pool::default() };
    pools.world.user(SetPool { pool: policy }).unwrap();
    let mut there = BTreeSet::new();
    for number in 0..20 {
        there.insert(pools.reader("/f"));
        there.insert(begin_write(&mut pools.world, &format!("/new{number}"), 100).partition);
        pools.world.advance(Millis(1));
    }
    assert_eq!(there, ["b.disk", "c.disk"].map(str::to_owned).into());
    let report = pools.report("a");
    assert!(pools.host("a", report).unwrap().is_direct, "the pool wants it");
}

#[test]
fn a_write_that_has_begun_is_not_given_up_for_who_comes_back_for_it() {
    let mut pools = Pools::new(1, 1);
    let grant = begin_write(&mut pools.world, "/f", 100);
    let host = grant.server.clone().unwrap().name;
    pools.world.room(BeginWrite { object: grant.object, is_update: false }).unwrap();
    let back = AvoidServers { hosts: vec![host], path: path("/f"), is_write: true };
    pools.world.user(back.clone()).unwrap();
    // Its disk server says every two seconds what it writes.
    pools.writing.push(grant.object);
    (0..5).for_each(|_| pools.tick());
    pools.world.user(back.clone()).unwrap();
    pools.store(&grant.partition.clone(), grant.object);
    pools.commit(&grant, &[]).unwrap();
    assert_eq!(stat(&mut pools.world, "/f").unwrap().entry.size, 100);
}

#[test]
fn a_disk_server_is_told_how_the_file_is_called_that_it_writes() {
    let mut pools = Pools::new(1, 1);
    let grant = begin_write(&mut pools.world, "/d/f", 100);
    assert_eq!(grant.path, path("/d/f"));
    pools.world.user(Rename { from: path("/d"), to: path("/e"), is_new: false, parents: false }).unwrap();
    let begun = pools.world.room(BeginWrite { object: grant.object, is_update: false }).unwrap();
    assert_eq!((begun.path.clone(), begun.label().path), (path("/e/f"), path("/e/f")));
}

#[test]
fn readers_are_not_sent_where_a_replica_is_missing() {
    let mut pools = Pools::new(2, 2);
    pools.write("/f");
    let grant = |pools: &mut Pools| pools.world.user(OpenRead { path: path("/f") });
    for left in [1, 0] {
        let Ok(ReadGrant::Online(object)) = grant(&mut pools) else { panic!("{left}") };
        let missing = ReportMissing { partition: object.partition.clone(), object: object.object };
        let server = object.server.unwrap().name;
        let other = SERVERS.into_iter().find(|name| *name != server).unwrap();
        assert_eq!(refusal(pools.host(other, missing.clone())), ErrorKind::Permission);
        pools.host(&server, missing.clone()).unwrap();
        pools.host(&server, missing).unwrap();
        if left == 1 {
            assert_ne!(pools.reader("/f"), object.partition);
        } else {
            let failure = grant(&mut pools).unwrap_err();
            assert_eq!(failure.kind, ErrorKind::Corrupt);
            let place = format!("is gone from {} of {server}", object.partition);
            assert!(failure.what.contains("/f has no disk") && failure.what.contains(&place), "{failure}");
        }
    }
    // At its next start a disk server says what it has.
    pools.boot += 1;
    pools.register_all();
    pools.reader("/f");
}

#[test]
fn readers_go_where_somebody_answers() {
    let mut pools = Pools::new(2, 2);
    pools.write("/f");
    let version = pools.world.namespace_version();
    let home = pools.reader("/f");
    let name = SERVERS.into_iter().find(|name| home == format!("{name}.disk")).unwrap();
    pools.silent.insert(name);
    (0..10).for_each(|_| pools.tick());
    assert_ne!(pools.reader("/f"), home);
    assert!(pools.world.namespace_version() > version, "kept answers are asked for again");
    assert_eq!(pools.replicas("/f").len(), 2, "silence is not death");
}

#[test]
fn a_disk_that_is_not_mounted_is_neither_read_nor_emptied_nor_taken_for_empty() {
    let mut pools = Pools::new(2, 2);
    pools.write("/f");
    let home = pools.reader("/f");
    let name = SERVERS.into_iter().find(|name| home == format!("{name}.disk")).unwrap();
    pools.troubles.insert(name, PartitionTrouble::Gone);
    pools.tick();
    assert_ne!(pools.reader("/f"), home, "at once");
    assert_eq!(pools.replicas("/f").len(), 2, "what lies there is not lost");
    let other = pools.reader("/f");
    pools.world.user(Remove { path: path("/f") }).unwrap();
    pools.tick();
    let held = |pools: &Pools, partition: &str| pools.disks[&partition[..1]].len();
    assert_eq!((held(&pools, &home), held(&pools, &other)), (1, 0), "nothing is deleted there");
    pools.write("/g");
    assert!(!pools.replicas("/g").iter().any(|replica| replica.ends_with(&home)));
    pools.until("it is given up", |pools| pools.pool().partitions.iter().any(|one| one.is_given_up));
    pools.troubles.clear();
    pools.until("it is cleaned", |pools| pools.disks.values().map(BTreeSet::len).sum::<usize>() == 2);
    assert_eq!(pools.pool().files_short, 0);
}

#[test]
fn a_disk_that_became_read_only_is_read_and_takes_nothing() {
    let mut pools = Pools::new(2, 2);
    pools.write("/f");
    let home = pools.reader("/f");
    let name = SERVERS.into_iter().find(|name| home == format!("{name}.disk")).unwrap();
    pools.troubles.insert(name, PartitionTrouble::ReadOnly);
    pools.tick();
    assert_eq!(pools.reader("/f"), home);
    for number in 0..10 {
        pools.write(&format!("/g{number}"));
        assert!(!pools.replicas(&format!("/g{number}")).iter().any(|replica| replica.ends_with(&home)));
    }
    let info = pools.pool().partitions.into_iter().find(|one| one.name == home).unwrap();
    assert_eq!((info.trouble, info.is_available), (Some(PartitionTrouble::ReadOnly), true));
    assert_eq!(info.state, PartitionState::InUse, "what a person said of it stays");
    pools.world.user(Remove { path: path("/f") }).unwrap();
    pools.tick();
    assert_eq!(pools.disks[name].len(), 1, "it cannot be deleted");
    pools.troubles.clear();
    pools.until("it is cleaned", |pools| pools.disks[name].is_empty());
}

#[test]
fn what_a_reader_cannot_read_is_read_elsewhere_and_made_anew() {
    let mut pools = Pools::new(2, 2);
    pools.write("/f");
    let node = online(&mut pools.world, "/f");
    let name = node.server.as_ref().unwrap().name.clone();
    let other = SERVERS.into_iter().find(|other| **other != name).unwrap();
    let report = ReportDamage { file: node.file, objects: vec![node.object] };
    assert_eq!(refusal(pools.host(other, report.clone())), ErrorKind::Permission, "of its own only");
    pools.host(&name, report).unwrap();
    assert_ne!(pools.reader("/f"), node.partition);
    pools.until("it is made anew", |pools| pools.pool().files_short == 0);
    assert_eq!(pools.replicas("/f").len(), 2);
    // The only one stays: nobody has anything better.
    let mut lonely = Pools::new(1, 1);
    lonely.write("/f");
    let node = online(&mut lonely.world, "/f");
    let name = node.server.as_ref().unwrap().name.clone();
    lonely.host(&name, ReportDamage { file: node.file, objects: vec![node.object] }).unwrap();
    assert_eq!(lonely.reader("/f"), node.partition);
}

#[test]
fn a_server_that_is_silent_for_long_is_given_up_and_what_is_too_much_goes_when_it_is_back() {
    let mut pools = Pools::new(2, 2);
    (0..20).for_each(|number| pools.write(&format!("/f{number}")));
    pools.silent.insert("a");
    let held = pools.disks["a"].len();
    assert!(held > 0, "something must be at stake");
    pools.until("a is given up", |pools| pools.pool().partitions.iter().any(|one| one.is_given_up));
    pools.until("all are whole", |pools| {
        let elsewhere = pools.disks["b"].len() + pools.disks["c"].len();
        elsewhere == 40 && pools.pool().files_short == 0
    });
    pools.silent.clear();
    pools.until("it is back, and what is too much is gone", |pools| {
        pools.disks.values().map(BTreeSet::len).sum::<usize>() == 40
    });
    for number in 0..20 {
        assert_eq!(pools.replicas(&format!("/f{number}")).len(), 2);
    }
    assert!(!pools.pool().partitions.iter().any(|one| one.is_given_up));
}

#[test]
fn what_is_too_much_goes_when_a_silent_server_is_heard_again() {
    let mut pools = Pools::new(3, 3);
    pools.write("/f");
    pools.silent.insert("a");
    (0..10).for_each(|_| pools.tick());
    pools
        .world
        .user(SetPool { pool: Pool { copies: 2, acknowledged_copies: 2, ..Pool::default() } })
        .unwrap();
    (0..10).for_each(|_| pools.tick());
    assert_eq!(pools.replicas("/f").len(), 3, "the silent one may be gone");
    pools.silent.clear();
    pools.until("one goes", |pools| pools.replicas("/f").len() == 2);
}

#[test]
fn nobody_is_given_up_while_most_are_silent() {
    let mut pools = Pools::new(2, 2);
    pools.write("/f");
    pools.silent.extend(["a", "b"]);
    // The disk server of the simulation answers, and is one of four.
    pools.silent.insert("c");
    (0..600).for_each(|_| pools.tick());
    assert!(!pools.pool().partitions.iter().any(|one| one.is_given_up));
}

#[test]
fn a_disk_that_comes_back_empty_is_filled_again() {
    let mut pools = Pools::new(2, 2);
    (0..10).for_each(|number| pools.write(&format!("/f{number}")));
    pools.world.advance(Millis(1));
    pools.disks.get_mut("b").unwrap().clear();
    pools.boot = 2;
    pools.register_all();
    pools.until("all are whole", |pools| {
        pools.disks.values().map(BTreeSet::len).sum::<usize>() == 20 && pools.pool().files_short == 0
    });
}

#[test]
fn what_a_server_had_lets_nothing_be_deleted_before_it_has_said_that_it_is_there() {
    let mut pools = Pools::new(3, 3);
    pools.write("/f");
    pools.world.advance(Millis(1));
    let (partition, boot) = ("a.disk".to_owned(), 2);
    let server = DiskServer { name: "a".into(), root: "a:1094".into(), https: "a:8443".into() };
    let (total_bytes, free_bytes, pool) = (1_000_000, 900_000, "main".into());
    let register = RegisterPartition { server, boot, pool, partition, total_bytes, free_bytes };
    pools.host("a", register).unwrap();
    // One too many, if what `a` had counts.
    pools
        .world
        .user(SetPool { pool: Pool { copies: 2, acknowledged_copies: 2, ..Pool::default() } })
        .unwrap();
    while pools.world.room(Tend {}).unwrap().is_more {}
    assert_eq!(pools.replicas("/f").len(), 3);
    assert_eq!(pools.pool().files_short, 0, "no copy is begun either");
    let call = RollCall {
        partition: "a.disk".into(),
        boot,
        after: ObjectId(0),
        upto: None,
        objects: pools.disks["a"].iter().copied().collect(),
    };
    pools.host("a", call).unwrap();
    pools.until("one goes", |pools| pools.replicas("/f").len() == 2);
}

#[test]
fn an_object_that_is_missing_and_comes_back_counts_again() {
    let mut pools = Pools::new(1, 1);
    pools.write("/f");
    let home = pools.replicas("/f").remove(0);
    let name = SERVERS.into_iter().find(|name| home == format!("main/{name}.disk")).unwrap();
    let disk = std::mem::take(pools.disks.get_mut(name).unwrap());
    pools.world.advance(Millis(1));
    pools.register(name);
    assert!(pools.replicas("/f").is_empty());
    pools.tick();
    pools.disks.insert(name, disk);
    pools.register(name);
    assert_eq!(pools.replicas("/f").len(), 1);
}

#[test]
fn a_drained_partition_gets_empty_and_can_be_retired() {
    let mut pools = Pools::new(1, 1);
    (0..20).for_each(|number| pools.write(&format!("/f{number}")));
    let partition = "a.disk".to_owned();
    assert!(!pools.disks["a"].is_empty());
    let retire = SetPartition { partition: partition.clone(), state: PartitionState::Retired };
    assert_eq!(refusal(pools.world.user(retire.clone())), ErrorKind::Busy);
    pools.world.user(SetPartition { partition, state: PartitionState::Draining }).unwrap();
    pools.until("a is empty", |pools| pools.disks["a"].is_empty());
    pools.world.user(retire).unwrap();
    for number in 0..20 {
        assert_eq!(pools.replicas(&format!("/f{number}")).len(), 1);
    }
}

#[test]
fn a_source_that_is_damaged_is_made_anew() {
    let mut pools = Pools::new(2, 2);
    pools.write("/f");
    pools
        .world
        .user(SetPool { pool: Pool { copies: 3, acknowledged_copies: 3, ..Pool::default() } })
        .unwrap();
    while pools.world.room(Tend {}).unwrap().is_more {}
    let (name, order) = SERVERS.into_iter().find_map(|name| Some((name, pools.orders(name).pop()?))).unwrap();
    pools.end_copy(name, &order, Some(Failure::corrupt("other bytes")));
    assert_eq!(pools.replicas("/f").len(), 1, "the damaged one does not count any more");
    pools.until("three replicas", |pools| pools.replicas("/f").len() == 3);
    pools.until("the damaged one is deleted", |pools| {
        !pools.disks.values().any(|disk| disk.contains(&order.source))
    });
}

#[test]
fn a_damaged_replica_counts_as_long_as_no_other_answers() {
    let mut pools = Pools::new(2, 2);
    pools.write("/f");
    let names: Vec<_> = SERVERS.into_iter().filter(|name| !pools.disks[name].is_empty()).collect();
    let (away, here) = (names[0], names[1]);
    let object = *pools.disks[here].first().unwrap();
    let reader = |pools: &mut Pools| match pools.world.user(OpenRead { path: path("/f") }).unwrap() {
        ReadGrant::Online(grant) => grant.server.unwrap().name,
        ReadGrant::Recalling { .. } => panic!("it is on no tape"),
    };
    pools.silent.insert(away);
    let report = |pools: &mut Pools| {
        let file = pools.world.user(OpenRead { path: path("/f") });
        let ReadGrant::Online(ReadObject { file, .. }) = file.unwrap() else { panic!("it is on no tape") };
        pools.host(here, ReportDamage { file, objects: vec![object] }).unwrap();
    };
    // Past the bound of silence, before and after it is given up.
    for seconds in [600, 2 * 3600] {
        pools.world.advance(Millis::from_seconds(seconds));
        let third = SERVERS.into_iter().find(|name| !names.contains(name)).unwrap();
        pools.silent.insert(third);
        (0..3).for_each(|_| pools.tick());
        report(&mut pools);
        assert_eq!(reader(&mut pools), here, "some of it is better than nothing");
    }
}

#[test]
fn a_replica_that_was_given_up_counts_again_when_it_is_the_last_one() {
    let mut pools = Pools::new(2, 2);
    pools.write("/f");
    let names: Vec<_> = SERVERS.into_iter().filter(|name| !pools.disks[name].is_empty()).collect();
    let object = *pools.disks[names[0]].first().unwrap();
    let read = |pools: &mut Pools| match pools.world.user(OpenRead { path: path("/f") }).unwrap() {
        ReadGrant::Online(grant) => (grant.file, grant.server.unwrap().name),
        ReadGrant::Recalling { .. } => panic!("it is on no tape"),
    };
    let (file, _) = read(&mut pools);
    pools.host(names[0], ReportDamage { file, objects: vec![object] }).unwrap();
    assert_eq!(read(&mut pools).1, names[1]);
    pools.silent.extend(SERVERS);
    pools.world.advance(Millis::from_seconds(600));
    pools.boot += 1;
    pools.register(names[0]);
    assert_eq!(read(&mut pools).1, names[0]);
}

fn label(pools: &mut Pools, host: &str, labels: &[&str]) -> base::Result<()> {
    let labels = labels.iter().map(|label| label.parse().unwrap()).collect();
    pools.world.user(LabelHost { name: host.to_owned(), labels }).map(drop)
}

#[test]
fn copies_that_share_a_rack_are_taken_apart() {
    let mut pools = Pools::new(2, 2);
    let beside = |pools: &mut Pools| {
        let is_on = |places: &[String], name: &str| places.contains(&format!("main/{name}.disk"));
        let names = (0..20).map(|number| format!("/f{number}"));
        let places = names.map(|name| pools.replicas(&name)).collect::<Vec<_>>();
        assert!(places.iter().all(|places| places.len() >= 2), "{places:?}");
        places.iter().filter(|places| !is_on(places, "c")).count()
    };
    (0..20).for_each(|number| pools.write(&format!("/f{number}")));
    assert!(beside(&mut pools) > 0, "something must be at stake");
    label(&mut pools, "a", &["rack=r1", "room=b1"]).unwrap();
    label(&mut pools, "b", &["rack=r1"]).unwrap();
    label(&mut pools, "c", &["rack=r2"]).unwrap();
    (0..20).for_each(|_| pools.tick());
    assert!(beside(&mut pools) > 0, "nobody has said that racks count");
    let failure_domain = FailureDomain::Label("rack".to_owned());
    let policy = Pool { copies: 2, acknowledged_copies: 2, failure_domain, ..Pool::default() };
    pools.world.user(SetPool { pool: policy }).unwrap();
    pools.until("no file is in one rack only", |pools| beside(pools) == 0);
    pools.until("what is too much is gone", |pools| {
        pools.disks.values().map(BTreeSet::len).sum::<usize>() == 40
    });
    assert_eq!(beside(&mut pools), 0);
    let grant = begin_write(&mut pools.world, "/new", 100);
    let mirror = pools.place(&grant, Vec::new()).remove(0);
    assert!(grant.partition == "c.disk" || server_of(&mirror) == "c");
    let domains: Vec<_> = pools.pool().partitions.into_iter().map(|one| one.domain).collect();
    assert_eq!(domains, ["rack=r1", "rack=r1", "rack=r2", "sim"]);
    // A server that moves to another rack.
    label(&mut pools, "b", &["rack=r2"]).unwrap();
    label(&mut pools, "c", &["rack=r1"]).unwrap();
    pools.until("files are apart again", |pools| {
        (0..20).all(|number| pools.replicas(&format!("/f{number}")).contains(&"main/b.disk".to_owned()))
    });
}

#[test]
fn only_known_hosts_are_labelled_and_not_without_end() {
    let mut pools = Pools::new(1, 1);
    assert_eq!(refusal(label(&mut pools, "nobody", &["rack=r1"])), ErrorKind::NotFound);
    let labels: Vec<String> = (0..17).map(|number| format!("l{number}=x")).collect();
    let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
    assert_eq!(refusal(label(&mut pools, "a", &labels)), ErrorKind::Busy);
    label(&mut pools, "a", &labels[1..]).unwrap();
    label(&mut pools, "a", &["l1=", "l0=x"]).unwrap();
    let asked = LabelHost { name: "a".into(), labels: Vec::new() };
    assert_eq!(refusal(pools.world.call(user("eve"), asked)), ErrorKind::Permission);
}

#[test]
fn only_operators_change_pools_and_nobody_promises_nonsense() {
    let mut pools = Pools::new(1, 1);
    let pool = Pool { copies: 2, acknowledged_copies: 2, ..Pool::default() };
    let asked = pools.world.call(user("eve"), SetPool { pool });
    assert_eq!(refusal(asked), ErrorKind::Permission);
    let state = PartitionState::Draining;
    let asked = pools.world.call(user("eve"), SetPartition { partition: "a.disk".into(), state });
    assert_eq!(refusal(asked), ErrorKind::Permission);
    let pool = Pool { copies: 1, acknowledged_copies: 2, ..Pool::default() };
    assert_eq!(refusal(pools.world.user(SetPool { pool })), ErrorKind::Invalid);
    let pool = Pool { coding: Some(wire::control::Coding { data: 31, parity: 2 }), ..Pool::default() };
    assert_eq!(refusal(pools.world.user(SetPool { pool })), ErrorKind::Invalid);
}

/// Disks that are full of files that are on tape, too.
fn full(copies: u8) -> Pools {
    let mut pools = Pools::new(copies, copies);
    for at in (0..9).map(|number| format!("/old{number}")) {
        pools.write(&at);
        pools.archive(&at);
    }
    // What they do not need any more is gone.
    pools.tick();
    pools.world.advance(Millis(20_000));
    pools.fill(50);
    pools
}

#[test]
fn mirrors_get_the_space_of_files_that_are_safe_on_tape() {
    let mut pools = full(2);
    let grant = begin_write(&mut pools.world, "/new", 100);
    let mirror = pools.place(&grant, Vec::new())[0].object;
    pools.commit(&grant, &[mirror]).unwrap();
    let mut state = |number| state(&mut pools.world, &format!("/old{number}"));
    let gone = (0..9).filter(|number| state(*number) == FileState::Nearline).count();
    assert!((1..9).contains(&gone), "{gone}");
}

#[test]
fn copies_get_the_space_of_files_that_are_safe_on_tape() {
    let mut pools = full(1);
    pools.write("/alone");
    pools.world.user(SetPool { pool: Pool { copies: 2, ..Pool::default() } }).unwrap();
    pools.until("there are two replicas", |pools| pools.replicas("/alone").len() == 2);
}
