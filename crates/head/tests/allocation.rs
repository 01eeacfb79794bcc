//! Reservations: room in a pool for a file that is written later.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod support;

use base::{ErrorKind, Millis, ObjectId, Result};
use head::Principal;
use sim::{Content, World};
use support::*;
use wire::control::{
    AbandonWrite, Allocate, Allocated, Allocation, CommitWrite, DiskServer, Disposition, GetEntry, GetQuotas,
    GetSpace, Mkdir, NextRemovals, OpenRead, PartitionState, PlaceMirrors, Pool, QuotaKind,
    RegisterPartition, Remove, ReportSpace, Role, SetPartition, SetPool, SetQuota, WriteGrant,
};

const HOUR: Millis = Millis::from_seconds(3600);
const TOTAL: u64 = 1000;

/// A facility with a second pool, and a directory for everybody.
fn facility() -> World {
    let mut world = world();
    register(&mut world, "raw1", 1);
    share(&mut world, 1000);
    world.user(Mkdir { path: path("/d"), parents: false, mode: 0o777 }).unwrap();
    world
}

/// Says what part of the second pool one user may reserve.
fn share(world: &mut World, permille: u16) {
    let pool = Pool { name: "raw".into(), user_reserved_permille: permille, ..Pool::default() };
    world.user(SetPool { pool }).unwrap();
}

fn register(world: &mut World, partition: &str, boot: u64) {
    // On the head's own host: it is never silent.
    let server = DiskServer { name: "sim".into(), root: "sim:1094".into(), https: "sim:8443".into() };
    let (total_bytes, free_bytes) = (TOTAL, TOTAL);
    let (pool, partition) = ("raw".into(), partition.into());
    world.room(RegisterPartition { server, boot, pool, partition, total_bytes, free_bytes }).unwrap();
}

fn report(world: &mut World, partition: &str, writing: Vec<ObjectId>) {
    let (total_bytes, free_bytes) = (TOTAL, TOTAL);
    let (partition, written, claimed) = (partition.into(), Vec::new(), Vec::new());
    let (boot, readers, trouble) = (1, 0, None);
    world
        .room(ReportSpace {
            partition,
            boot,
            writing,
            written,
            claimed,
            total_bytes,
            free_bytes,
            readers,
            trouble,
        })
        .unwrap();
}

fn ask(at: &str, size: u64) -> Allocate {
    let (path, pool) = (path(at), "raw".to_owned());
    Allocate { path, pool, size, lifetime: None, mode: 0o644, parents: false }
}

fn reserve(world: &mut World, who: &str, ask: Allocate) -> Result<Allocation> {
    world.call(user(who), ask)
}

fn open(world: &mut World, who: &str, at: &str, disposition: Disposition) -> Result<WriteGrant> {
    let open = wire::control::OpenWrite { parents: false, ..open_write(at, disposition, 0) };
    world.call(user(who), open)
}

fn commit(world: &mut World, grant: &WriteGrant, size: u64) -> Result<()> {
    let checksums = Content::numbered(size, 1).sums;
    world
        .room(CommitWrite { object: grant.object, size, checksums, mirrors: Vec::new(), pieces: Vec::new() })
        .map(drop)
}

fn free(world: &mut World) -> u64 {
    let pools = world.user(wire::control::GetPools {}).unwrap().pools;
    let raw = pools.into_iter().find(|pool| pool.name == "raw").unwrap();
    raw.partitions.iter().map(|partition| partition.free_bytes).sum()
}

#[test]
fn what_is_reserved_is_written_there_by_whoever_opens_the_file_next() {
    let mut world = facility();
    let made = reserve(&mut world, "bob", ask("/d/f", 600)).unwrap();
    assert_eq!((made.outcome, made.pool.as_str(), made.size), (Allocated::New, "raw", 600));
    assert_eq!(made.until, Some(world.now + Millis::from_seconds(86_400)));
    assert_eq!(free(&mut world), 400, "it is promised");
    assert!(
        stat(&mut world, "/d/f").unwrap().pins[0].starts_with("bob: 600 B in pool raw reserved until 20")
    );
    // It is no file that anybody could go on with or read, and clients do not ask whether to replace it.
    assert_eq!(refusal(world.user(GetEntry { path: path("/d/f") })), ErrorKind::NotFound);
    assert_eq!(refusal(open(&mut world, "bob", "/d/f", Disposition::Update)), ErrorKind::NotFound);
    assert_eq!(refusal(world.user(OpenRead { path: path("/d/f") })), ErrorKind::Busy);
    assert_eq!(refusal(open(&mut world, "eve", "/d/f", Disposition::Replace)), ErrorKind::Permission);
    // Clients that insist on a new file are let in, and so are those that replace.
    for disposition in [Disposition::CreateNew, Disposition::Replace] {
        let grant = open(&mut world, "bob", "/d/f", disposition).unwrap();
        assert_eq!((grant.partition.as_str(), grant.expected_bytes), ("raw1", 600));
        assert_eq!(free(&mut world), 400, "it is promised once");
        let version = world.namespace_version();
        world.user(GetEntry { path: path("/d/f") }).unwrap();
        assert_eq!(refusal(open(&mut world, "bob", "/d/f", disposition)), ErrorKind::Locked);
        world.room(AbandonWrite { object: grant.object }).unwrap();
        assert!(world.namespace_version() > version, "what doors have kept of it is wrong");
    }
    let grant = open(&mut world, "bob", "/d/f", Disposition::CreateNew).unwrap();
    commit(&mut world, &grant, 100).unwrap();
    assert_eq!(stat(&mut world, "/d/f").unwrap().replicas, ["raw/raw1"]);
    assert_eq!(free(&mut world), 900, "what was not needed is free again");
    assert_eq!(refusal(open(&mut world, "bob", "/d/f", Disposition::CreateNew)), ErrorKind::Exists);
    let found = reserve(&mut world, "bob", ask("/d/f", 600)).unwrap();
    assert_eq!((found.outcome, found.pool.as_str(), found.size), (Allocated::Written, "raw", 100));
    assert_eq!((found.until, free(&mut world)), (None, 900));
}

#[test]
fn asking_again_yields_the_same_and_may_make_it_larger_or_longer() {
    let mut world = facility();
    let first = reserve(&mut world, "bob", ask("/d/f", 300)).unwrap();
    let again = reserve(&mut world, "bob", ask("/d/f", 200)).unwrap();
    assert_eq!(again, Allocation { outcome: Allocated::Known, ..first.clone() });
    assert_eq!(refusal(reserve(&mut world, "eve", ask("/d/f", 1))), ErrorKind::Exists);
    let elsewhere = Allocate { pool: "main".into(), ..ask("/d/f", 300) };
    assert_eq!(refusal(reserve(&mut world, "bob", elsewhere)), ErrorKind::Exists);
    let larger = Allocate { lifetime: Some(HOUR), ..ask("/d/f", 900) };
    let larger = reserve(&mut world, "bob", larger).unwrap();
    assert_eq!((larger.size, larger.until), (900, first.until), "it does not end earlier");
    let longer = Allocate { lifetime: Some(Millis(HOUR.0 * 48)), ..ask("/d/f", 900) };
    assert_eq!(reserve(&mut world, "bob", longer).unwrap().until, Some(world.now + Millis(HOUR.0 * 48)));
    assert_eq!(refusal(reserve(&mut world, "bob", ask("/d/f", 1001))), ErrorKind::NoSpace);
    assert_eq!(
        reserve(&mut world, "bob", ask("/d/f", 1)).unwrap().size,
        900,
        "the refusal took nothing away"
    );
    assert_eq!(free(&mut world), 100);
    world.user(Remove { path: path("/d/f") }).unwrap();
    assert_eq!(free(&mut world), 1000, "removing the file gives the room back");
}

#[test]
fn a_reservation_ends_when_it_said_but_not_under_a_writer() {
    let mut world = facility();
    reserve(&mut world, "bob", Allocate { lifetime: Some(HOUR), ..ask("/d/f", 300) }).unwrap();
    reserve(&mut world, "bob", Allocate { lifetime: Some(HOUR), ..ask("/d/g", 300) }).unwrap();
    reserve(&mut world, "bob", Allocate { lifetime: Some(HOUR), ..ask("/d/h", 300) }).unwrap();
    world.advance(Millis(HOUR.0 / 2));
    report(&mut world, "raw1", Vec::new());
    assert_eq!(free(&mut world), 100, "long after writes without a writer are given up");
    // A write whose client never came does not cost the reservation.
    open(&mut world, "bob", "/d/f", Disposition::Replace).unwrap();
    world.advance(Millis(HOUR.0 / 4));
    report(&mut world, "raw1", Vec::new());
    let grant = open(&mut world, "bob", "/d/f", Disposition::Replace).unwrap();
    world.advance(Millis(HOUR.0 / 2));
    // Nobody has reported since it is over: whoever asks first gets the name.
    let taken = reserve(&mut world, "eve", ask("/d/h", 1)).unwrap();
    assert_eq!(taken.outcome, Allocated::New);
    report(&mut world, "raw1", vec![grant.object]);
    assert_eq!(refusal(stat(&mut world, "/d/g")), ErrorKind::NotFound);
    commit(&mut world, &grant, 300).unwrap();
    // One that is given up after the end leaves nothing.
    reserve(&mut world, "bob", Allocate { lifetime: Some(HOUR), ..ask("/d/i", 300) }).unwrap();
    let grant = open(&mut world, "bob", "/d/i", Disposition::Replace).unwrap();
    world.advance(Millis(HOUR.0 * 2));
    world.room(AbandonWrite { object: grant.object }).unwrap();
    assert_eq!(refusal(stat(&mut world, "/d/i")), ErrorKind::NotFound);
}

#[test]
fn a_reservation_outlives_restarts_of_head_and_disk_server() {
    let mut world = facility();
    let made = reserve(&mut world, "bob", ask("/d/f", 300)).unwrap();
    reserve(&mut world, "bob", ask("/d/g", 200)).unwrap();
    let grant = open(&mut world, "bob", "/d/g", Disposition::Replace).unwrap();
    world.crash();
    register(&mut world, "raw1", 2);
    assert_eq!(free(&mut world), 500);
    assert_eq!(refusal(commit(&mut world, &grant, 200)), ErrorKind::NotFound, "its writer is gone");
    let removals = world.room(NextRemovals { partition: "raw1".into() }).unwrap().objects;
    assert!(removals.contains(&grant.object), "what was begun is deleted");
    let again = reserve(&mut world, "bob", ask("/d/f", 300)).unwrap();
    assert_eq!(again, Allocation { outcome: Allocated::Known, ..made });
    let grant = open(&mut world, "bob", "/d/g", Disposition::CreateNew).unwrap();
    commit(&mut world, &grant, 200).unwrap();
}

#[test]
fn quotas_count_what_is_reserved() {
    let mut world = facility();
    let limit = SetQuota { kind: QuotaKind::User, name: "bob".into(), bytes: Some(500), files: Some(2) };
    world.user(limit).unwrap();
    reserve(&mut world, "bob", ask("/d/f", 300)).unwrap();
    let failure = reserve(&mut world, "bob", ask("/d/g", 201)).unwrap_err();
    assert_eq!(failure.kind, ErrorKind::OverQuota);
    assert_eq!(refusal(stat(&mut world, "/d/g")), ErrorKind::NotFound, "nothing is left of it");
    assert_eq!(refusal(reserve(&mut world, "bob", ask("/d/f", 501))), ErrorKind::OverQuota);
    world.crash();
    register(&mut world, "raw1", 2);
    let quota = world.user(GetQuotas {}).unwrap().quotas.remove(0);
    assert_eq!((quota.bytes, quota.reserved_bytes, quota.files), (0, 300, 1));
    reserve(&mut world, "bob", ask("/d/g", 200)).unwrap();
    assert_eq!(refusal(reserve(&mut world, "bob", ask("/d/h", 1))), ErrorKind::OverQuota, "a file too many");
    let grant = open(&mut world, "bob", "/d/f", Disposition::Replace).unwrap();
    commit(&mut world, &grant, 300).unwrap();
    let quota = world.user(GetQuotas {}).unwrap().quotas.remove(0);
    assert_eq!((quota.bytes, quota.reserved_bytes, quota.files), (300, 200, 2));
}

#[test]
fn what_does_not_fit_or_makes_no_sense_is_refused_with_the_next_step() {
    let mut world = facility();
    reserve(&mut world, "bob", ask("/d/f", 300)).unwrap();
    let full = reserve(&mut world, "bob", ask("/d/g", 800)).unwrap_err();
    assert_eq!(full.kind, ErrorKind::NoSpace);
    assert_eq!(
        full.what,
        "pool raw has 700 B free, 700 B on one partition; 800 B are needed on one partition"
    );
    assert!(full.hint.unwrap().contains("add a partition to the pool"));
    assert_eq!(refusal(stat(&mut world, "/d/g")), ErrorKind::NotFound);
    let unknown = reserve(&mut world, "bob", Allocate { pool: "row".into(), ..ask("/d/g", 1) }).unwrap_err();
    assert_eq!((unknown.kind, unknown.what.as_str()), (ErrorKind::NotFound, "there is no pool row"));
    for (ask, kind) in [
        (ask("/d/g", 0), ErrorKind::Invalid),
        (ask("/d/g", u64::MAX), ErrorKind::NoSpace),
        (Allocate { lifetime: Some(Millis(HOUR.0 * 24 * 8)), ..ask("/d/g", 1) }, ErrorKind::Invalid),
        (Allocate { lifetime: Some(Millis(0)), ..ask("/d/g", 1) }, ErrorKind::Invalid),
        (ask("/d", 1), ErrorKind::IsDirectory),
        (ask("/", 1), ErrorKind::IsDirectory),
        (ask("/e/g", 1), ErrorKind::NotFound),
        (ask("/g", 1), ErrorKind::Permission),
    ] {
        assert_eq!(refusal(reserve(&mut world, "bob", ask.clone())), kind, "{ask:?}");
    }
    world.call(user("bob"), open_write("/d/w", Disposition::Replace, 0)).unwrap();
    assert_eq!(
        refusal(reserve(&mut world, "bob", ask("/d/w", 1))),
        ErrorKind::Locked,
        "a write like any other"
    );
    let below = Allocate { parents: true, ..ask("/d/x/y/f", 1) };
    assert_eq!(reserve(&mut world, "bob", below).unwrap().outcome, Allocated::New);
}

#[test]
fn a_partition_that_takes_nothing_any_more_is_left_for_another_of_the_pool() {
    let mut world = facility();
    reserve(&mut world, "bob", ask("/d/f", 300)).unwrap();
    world.user(SetPartition { partition: "raw1".into(), state: PartitionState::Draining }).unwrap();
    assert_eq!(refusal(open(&mut world, "bob", "/d/f", Disposition::Replace)), ErrorKind::Unavailable);
    register(&mut world, "raw2", 1);
    let grant = open(&mut world, "bob", "/d/f", Disposition::Replace).unwrap();
    assert_eq!((grant.partition.as_str(), grant.expected_bytes), ("raw2", 300));
    world.room(AbandonWrite { object: grant.object }).unwrap();
    // More than was reserved is taken if it fits.
    let more = wire::control::OpenWrite { parents: false, ..open_write("/d/f", Disposition::Replace, 999) };
    assert_eq!(world.call(user("bob"), more).unwrap().expected_bytes, 999);
}

#[test]
fn room_for_mirrors_is_reserved_and_used() {
    let mut world = facility();
    for (name, partition) in [("a", "a.disk"), ("b", "b.disk")] {
        support::take_in(&mut world, name, Role::Disk);
        let server =
            DiskServer { name: name.into(), root: format!("{name}:1094"), https: format!("{name}:8443") };
        let (pool, partition, boot) = ("raw".into(), partition.into(), 1);
        let call = RegisterPartition { server, boot, pool, partition, total_bytes: TOTAL, free_bytes: TOTAL };
        world.call(Principal::host(name), call).unwrap();
    }
    world.user(SetPartition { partition: "raw1".into(), state: PartitionState::ReadOnly }).unwrap();
    let policy = Pool {
        name: "raw".into(),
        copies: 2,
        acknowledged_copies: 2,
        user_reserved_permille: 1000,
        ..Pool::default()
    };
    world.user(SetPool { pool: policy }).unwrap();
    let before = free(&mut world);
    let limit = SetQuota { kind: QuotaKind::User, name: "bob".into(), bytes: Some(900), files: None };
    world.user(limit).unwrap();
    let made = reserve(&mut world, "bob", ask("/d/f", 900)).unwrap();
    assert_eq!((made.partitions.len(), before - free(&mut world)), (2, 1800));
    let Content { size, sums: checksums } = Content::numbered(800, 1);
    let mut last = None;
    for is_kept in [false, true] {
        let grant = open(&mut world, "bob", "/d/f", Disposition::Replace).unwrap();
        let place = PlaceMirrors { object: grant.object, size, checksums, failed: Vec::new() };
        let mirrors = world.room(place.clone()).unwrap().mirrors;
        assert_eq!(mirrors.len(), 1, "there is no room but what was reserved");
        assert_eq!(world.room(place).unwrap().mirrors, mirrors);
        assert_eq!(before - free(&mut world), 1800);
        last = Some((grant.object, mirrors[0].object));
        if !is_kept {
            world.room(AbandonWrite { object: grant.object }).unwrap();
            assert_eq!(before - free(&mut world), 1800, "both are reserved again");
        }
    }
    let (object, mirror) = last.unwrap();
    world.room(CommitWrite { object, size, checksums, mirrors: vec![mirror], pieces: Vec::new() }).unwrap();
    assert_eq!(stat(&mut world, "/d/f").unwrap().replicas.len(), 2);
    assert_eq!(before - free(&mut world), 1600);
    let space = world.user(GetSpace {}).unwrap();
    assert!(space.free_bytes > 0);
}

// What one user may have

/// Opens a file for writing whose length the client says.
fn open_long(world: &mut World, who: &str, at: &str, bytes: u64) -> Result<WriteGrant> {
    let open = wire::control::OpenWrite { parents: false, ..open_write(at, Disposition::CreateNew, bytes) };
    world.call(user(who), open)
}

/// Says how far the writes on the partition of new files have come; yields those whose room is given back.
fn come_so_far(world: &mut World, writes: &[(ObjectId, u64)]) -> Vec<ObjectId> {
    let report = ReportSpace {
        writing: writes.iter().map(|(object, _)| *object).collect(),
        written: writes.iter().map(|(_, bytes)| *bytes).collect(),
        ..world.report()
    };
    world.room(report).unwrap().released
}

#[test]
fn one_user_reserves_a_part_of_a_pool_and_no_more() {
    let mut world = facility();
    share(&mut world, 250);
    reserve(&mut world, "bob", ask("/d/a", 200)).unwrap();
    let refused = reserve(&mut world, "bob", ask("/d/b", 100)).unwrap_err();
    assert!(
        refused.kind == ErrorKind::NoSpace && refused.what.contains("bob would reserve 300 B"),
        "{refused}"
    );
    assert_eq!(refusal(reserve(&mut world, "bob", ask("/d/a", 300))), ErrorKind::NoSpace);
    assert_eq!(free(&mut world), 800, "a refusal leaves nothing");
    reserve(&mut world, "eve", ask("/d/b", 250)).unwrap();
    // The owner of the facility is not bound.
    world.user(ask("/d/c", 500)).unwrap();
}

#[test]
fn a_long_write_is_let_in_but_not_all_of_it_is_promised() {
    let mut world = facility();
    let total = world.report().free_bytes;
    let first = open_long(&mut world, "bob", "/d/a", total / 2).unwrap();
    assert_eq!(first.expected_bytes, total / 4);
    let second = open_long(&mut world, "bob", "/d/b", total / 2).unwrap();
    assert_eq!(second.expected_bytes, 0, "his share is used up");
    // Others are promised theirs.
    assert_eq!(open_long(&mut world, "eve", "/d/c", total / 8).unwrap().expected_bytes, total / 8);
    // What was written is not reserved any more.
    come_so_far(&mut world, &[(first.object, total / 4), (second.object, 0)]);
    let third = open_long(&mut world, "bob", "/d/d", total / 8).unwrap();
    assert!(third.expected_bytes > 0);
}

#[test]
fn room_of_a_write_that_stands_still_is_given_back() {
    let mut world = facility();
    let total = world.report().free_bytes;
    let idle = open_long(&mut world, "bob", "/d/a", total / 4).unwrap();
    let busy = open_long(&mut world, "eve", "/d/b", total / 4).unwrap();
    let mut seconds = 0;
    let released = loop {
        world.advance(Millis::from_seconds(10));
        seconds += 10;
        let released = come_so_far(&mut world, &[(idle.object, 7), (busy.object, seconds << 20)]);
        if !released.is_empty() {
            break released;
        }
    };
    assert!((1800..1830).contains(&seconds), "{seconds}");
    assert_eq!(released, [idle.object]);
    assert_eq!(come_so_far(&mut world, &[(idle.object, 7)]), [idle.object], "an answer may be lost");
    // The write goes on, and is committed as if nothing had been.
    commit(&mut world, &idle, total / 8).unwrap();
    assert_eq!(stat(&mut world, "/d/a").unwrap().entry.size, total / 8);
}

#[test]
fn room_that_others_wait_for_is_given_back_sooner() {
    let mut world = facility();
    let total = world.report().free_bytes;
    let idle = open_long(&mut world, "bob", "/d/a", total / 4).unwrap();
    come_so_far(&mut world, &[(idle.object, 0)]);
    world.advance(Millis::from_seconds(290));
    assert!(come_so_far(&mut world, &[(idle.object, 0)]).is_empty());
    let needed = total - total / 5;
    assert_eq!(refusal(open_long(&mut world, "eve", "/d/b", needed)), ErrorKind::NoSpace);
    world.advance(Millis::from_seconds(20));
    assert_eq!(come_so_far(&mut world, &[(idle.object, 0)]), [idle.object]);
    open_long(&mut world, "eve", "/d/b", needed).unwrap();
}
