//! Hosts join by invitation, speak for themselves only, and are turned away.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod support;

use base::{
    ErrorKind, Millis, ObjectId, Result,
    limits::{OBJECT_BYTES_MAX, PARTITIONS_PER_HOST_MAX},
};
use head::Principal;
use sim::World;
use std::collections::BTreeSet;
use support::{open_write, path, refusal, take_in, world};
use wire::{
    auth::capability::CapKeys,
    control::{
        AbandonWrite, AddInvitation, Admission, AdmitHost, Admitted, Allocate, Allocated, BeginWrite,
        ChangeCertificate, CheckAdmission, CommitWrite, DiskServer, Disposition, Done, GetBill, GetHosts,
        GetSpace, GetStatus, HostNames, NextRemovals, OpenRead, PlaceMirrors, ReadGrant, RegisterPartition,
        RemoveHost, ReportObjects, ReportSpace, ReportTraffic, ReportUse, Role, WriteGrant,
    },
};

const HOUR: Millis = Millis::from_seconds(3600);

fn invite(world: &mut World, hash: &str) {
    let expires = world.now + HOUR;
    let call = AddInvitation { hash: hash.into(), roles: vec![Role::Disk], expires };
    world.room(call).expect("the head keeps an invitation");
}

fn admit(world: &mut World, hash: &str, name: &str, key: &str) -> Result<Admitted> {
    admit_as(world, admission(hash, name, key))
}

fn admit_as(world: &mut World, admission: Admission) -> Result<Admitted> {
    // Whoever is refused is refused before anything is signed.
    let looked = world.room(CheckAdmission { admission: admission.clone() }).map_err(|failure| failure.what);
    let certificate = format!("certificate of {}", admission.key);
    let admitted = world.room(AdmitHost { admission, certificate });
    assert_eq!(looked.err(), admitted.as_ref().err().map(|failure| failure.what.clone()));
    admitted
}

fn admission(hash: &str, name: &str, key: &str) -> Admission {
    Admission {
        hash: hash.into(),
        name: name.into(),
        roles: vec![Role::Disk],
        key: key.into(),
        reached: reached(&[name, "localhost"], &["127.0.0.1"]),
        head: reached(&["localhost", "head.example.org"], &["127.0.0.1", "192.0.2.1"]),
    }
}

fn reached(names: &[&str], addresses: &[&str]) -> HostNames {
    HostNames {
        names: names.iter().map(|name| (*name).to_owned()).collect(),
        addresses: addresses.iter().map(|address| address.parse().unwrap()).collect(),
    }
}

/// A partition of `host`, in a pool that nobody else has.
fn registration(host: &str, boot: u64) -> RegisterPartition {
    RegisterPartition {
        server: DiskServer { name: host.into(), root: format!("{host}:1094"), https: format!("{host}:8443") },
        boot,
        pool: "main".into(),
        partition: format!("{host}-disk1"),
        total_bytes: 1 << 40,
        free_bytes: 1 << 40,
    }
}

/// A world in which the most room is on another host.
fn with_remote_disk() -> World {
    let mut world = world();
    take_in(&mut world, "d1", Role::Disk);
    world.call(Principal::host("d1"), registration("d1", 1)).expect("a host may register its own");
    world
}

fn begin_remote(world: &mut World) -> WriteGrant {
    let grant = world.user(open_write("/f", Disposition::Replace, 10)).expect("there is room");
    assert_eq!(grant.server.as_ref().map(|server| &*server.root), Some("d1:1094"));
    grant
}

fn commit(grant: &WriteGrant) -> CommitWrite {
    CommitWrite {
        object: grant.object,
        size: 9,
        checksums: base::Checksums::of(b"123456789"),
        mirrors: Vec::new(),
        pieces: Vec::new(),
    }
}

fn report(boot: u64, writing: &[&WriteGrant]) -> ReportSpace {
    ReportSpace {
        partition: "d1-disk1".into(),
        boot,
        writing: writing.iter().map(|grant| grant.object).collect(),
        written: Vec::new(),
        claimed: Vec::new(),
        total_bytes: 1 << 40,
        free_bytes: 1 << 40,
        readers: 0,
        trouble: None,
    }
}

#[test]
fn an_invitation_is_good_once() {
    let mut world = world();
    assert_eq!(refusal(admit(&mut world, "h", "d1", "k")), ErrorKind::Permission, "nobody is invited");
    invite(&mut world, "h");
    admit(&mut world, "h", "d1", "k").unwrap();
    assert_eq!(refusal(admit(&mut world, "h", "d2", "k2")), ErrorKind::Permission, "used by another");
    assert_eq!(refusal(admit(&mut world, "h", "d1", "k2")), ErrorKind::Permission, "used with another key");
    admit(&mut world, "h", "d1", "k").unwrap();
    assert_eq!(world.user(GetHosts {}).unwrap().hosts.len(), 1);
}

#[test]
fn an_invitation_ends_and_allows_what_it_says() {
    let mut world = world();
    invite(&mut world, "h");
    let call = Admission { roles: vec![Role::Tape], ..admission("h", "t1", "k") };
    assert!(admit_as(&mut world, call).unwrap_err().what.contains("not for the role tape"));
    world.advance(HOUR);
    assert!(admit(&mut world, "h", "d1", "k").unwrap_err().what.contains("expired"));
}

#[test]
fn a_name_is_taken_once_and_must_be_plain() {
    let mut world = world();
    for hash in ["a", "b", "c"] {
        invite(&mut world, hash);
    }
    admit(&mut world, "a", "d1", "k").unwrap();
    assert_eq!(refusal(admit(&mut world, "b", "d1", "other")), ErrorKind::Exists);
    for name in ["", "D1", "a b", "a/b", "sim", &"x".repeat(65)] {
        assert!(admit(&mut world, "b", name, "other").is_err(), "{name:?}");
    }
    world.user(RemoveHost { name: "d1".into(), force: true }).unwrap();
    let hosts = world.user(GetHosts {}).unwrap().hosts;
    assert!(hosts[0].removed.is_some() && hosts[0].certificates.is_empty());
    assert_eq!(refusal(world.user(RemoveHost { name: "d1".into(), force: true })), ErrorKind::NotFound);
    admit(&mut world, "b", "d1", "other").unwrap();
}

#[test]
fn no_host_is_called_as_another() {
    let mut world = world();
    invite(&mut world, "a");
    invite(&mut world, "b");
    let first = admission("a", "d1", "k");
    let of_first = reached(&["d1", "localhost", "disk01.example.org"], &["127.0.0.1", "192.0.2.7"]);
    admit_as(&mut world, Admission { reached: of_first.clone(), ..first.clone() }).unwrap();
    for (names, addresses, whose) in [
        (vec!["head.example.org"], vec![], "head.example.org is host sim"),
        (vec!["sim"], vec![], "sim is host sim"),
        (vec![], vec!["192.0.2.1"], "192.0.2.1 is host sim"),
        (vec!["disk01.example.org"], vec![], "disk01.example.org is host d1"),
        (vec!["d1"], vec![], "d1 is host d1"),
        (vec![], vec!["192.0.2.7"], "192.0.2.7 is host d1"),
    ] {
        let call = Admission { reached: reached(&names, &addresses), ..admission("b", "d2", "k2") };
        let refused = admit_as(&mut world, call).unwrap_err();
        assert!(refused.what.starts_with(whose) && refused.hint.is_some(), "{refused}");
    }
    let other = reached(&["d2", "localhost"], &["127.0.0.1", "192.0.2.8"]);
    admit_as(&mut world, Admission { reached: other, ..admission("b", "d2", "k2") }).unwrap();
    // It may come again, and be reached otherwise.
    let moved = reached(&["d1", "disk01.example.org"], &["192.0.2.9"]);
    admit_as(&mut world, Admission { reached: moved.clone(), ..first }).unwrap();
    let hosts = world.user(GetHosts {}).unwrap().hosts;
    assert_eq!(hosts[0].reached, moved);
    // What a host was called that was removed is free.
    world.user(RemoveHost { name: "d1".into(), force: true }).unwrap();
    invite(&mut world, "c");
    let named = reached(&["d3", "disk01.example.org"], &[]);
    admit_as(&mut world, Admission { reached: named, ..admission("c", "d3", "k3") }).unwrap();
}

fn renew(world: &mut World, key: &str, shown: &str, certificate: &str) -> Result<Done> {
    let (name, key) = ("d1".into(), key.into());
    let call = ChangeCertificate { name, key, shown: shown.into(), certificate: certificate.into() };
    world.call(Principal::host("d1"), call)
}

#[test]
fn a_certificate_is_good_until_a_newer_one_is_shown() {
    let mut world = world();
    invite(&mut world, "h");
    admit(&mut world, "h", "d1", "k").unwrap();
    let shown = |world: &mut World| world.user(GetHosts {}).unwrap().hosts[0].certificates.clone();
    let first = "certificate of k";
    renew(&mut world, "k", first, "second").unwrap();
    assert_eq!(shown(&mut world), [first, "second"]);
    // The answer was lost: it is still the first that is shown.
    renew(&mut world, "k", first, "third").unwrap();
    assert_eq!(shown(&mut world), [first, "third"]);
    // A year later, and the year after, also when answers are lost then.
    renew(&mut world, "k", "third", "fourth").unwrap();
    assert_eq!(shown(&mut world), ["third", "fourth"]);
    renew(&mut world, "k", "third", "fifth").unwrap();
    assert_eq!(shown(&mut world), ["third", "fifth"]);
    renew(&mut world, "k", "fifth", "sixth").unwrap();
    assert_eq!(shown(&mut world), ["fifth", "sixth"]);
    assert_eq!(refusal(renew(&mut world, "k", first, "seventh")), ErrorKind::Permission);
    assert_eq!(refusal(renew(&mut world, "k2", "fifth", "seventh")), ErrorKind::Permission, "another key");
    let (name, key, shown) = ("d1".into(), "k".into(), "fifth".into());
    let change = ChangeCertificate { name, key, shown, certificate: "seventh".into() };
    assert_eq!(refusal(world.call(Principal::host("d2"), change)), ErrorKind::Permission);
}

#[test]
fn whoever_joins_anew_has_another_key() {
    let mut world = world();
    let mut keys = Vec::new();
    for hash in ["a", "b"] {
        invite(&mut world, hash);
        // Each on the same host, with the same key for its certificates, and in the same moment.
        keys.push(admit(&mut world, hash, "d1", "k").unwrap().joined);
        world.call(Principal::host("d1"), registration("d1", keys.len() as u64)).unwrap();
        report_objects(&mut world, keys.len() as u64, Vec::new());
        let grant = begin_remote(&mut world);
        assert_eq!(grant.joined, *keys.last().unwrap());
        world.call(Principal::host("d1"), commit(&grant)).unwrap();
        let ReadGrant::Online(object) = world.user(OpenRead { path: path("/f") }).unwrap() else { panic!() };
        assert_eq!(object.joined, grant.joined);
        world.user(RemoveHost { name: "d1".into(), force: true }).unwrap();
    }
    assert_ne!(keys[0], keys[1]);
    let keys = keys.into_iter().map(|joined| CapKeys::derive(&[7; 32]).of("d1", joined).reveal());
    assert_eq!(keys.collect::<BTreeSet<_>>().len(), 2);
}

/// A world in which d1 has joined and has the most room.
fn with_member() -> World {
    let mut world = world();
    join(&mut world, "d1");
    world.call(Principal::host("d1"), registration("d1", 1)).unwrap();
    world
}

fn join(world: &mut World, name: &str) {
    let hash = format!("hash at {}", world.now.0);
    invite(world, &hash);
    admit(world, &hash, name, "k").unwrap();
}

/// Writes a file on d1.
fn put_remote(world: &mut World, at: &str) -> WriteGrant {
    let grant = world.user(open_write(at, Disposition::Replace, 10)).unwrap();
    assert_eq!(grant.partition, "d1-disk1");
    world.call(Principal::host("d1"), commit(&grant)).unwrap();
    grant
}

/// d1 says what it has.
fn report_objects(world: &mut World, boot: u64, objects: Vec<ObjectId>) {
    let all = ReportObjects { partition: "d1-disk1".into(), boot, after: ObjectId(0), upto: None, objects };
    world.call(Principal::host("d1"), all).unwrap();
}

#[test]
fn what_is_on_a_host_that_was_turned_away_is_out_of_reach_until_it_joins_again() {
    let mut world = with_member();
    let file = put_remote(&mut world, "/f");
    world.user(RemoveHost { name: "d1".into(), force: true }).unwrap();
    let update = open_write("/f", Disposition::Update, 0);
    assert_eq!(refusal(world.user(update)), ErrorKind::Unavailable);
    let refused = world.user(OpenRead { path: path("/f") }).unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Unavailable, "{refused}");
    assert!(refused.what.contains("/f is out of reach: on host d1") && refused.hint.is_some(), "{refused}");
    assert!(world.user(GetStatus {}).unwrap().requests.is_empty(), "it is on no tape");
    // Also after a start of the head.
    world.crash();
    assert_eq!(refusal(world.user(OpenRead { path: path("/f") })), ErrorKind::Unavailable);
    join(&mut world, "d1");
    world.call(Principal::host("d1"), registration("d1", 2)).unwrap();
    report_objects(&mut world, 2, vec![file.object]);
    let ReadGrant::Online(object) = world.user(OpenRead { path: path("/f") }).unwrap() else { panic!() };
    assert_eq!(object.object, file.object);
}

#[test]
fn what_was_to_go_to_tape_waits_for_a_host_that_was_turned_away() {
    let mut world = with_member();
    put_remote(&mut world, "/g");
    support::ask_archive(&mut world, "/g").unwrap();
    let session = support::archive_session(&mut world);
    support::end_session(&mut world, &session, 1);
    world.user(RemoveHost { name: "d1".into(), force: true }).unwrap();
    // It is not forgotten that somebody wants it on tape: it waits, and says why.
    world.advance(HOUR);
    assert!(support::next_session(&mut world).is_none());
    let request = support::request(&mut world);
    assert!(request.reason.contains("out of reach"));
}

#[test]
fn writes_on_a_host_that_is_turned_away_end() {
    let mut world = with_member();
    put_remote(&mut world, "/old");
    for at in ["/new", "/old"] {
        world.user(open_write(at, Disposition::Replace, 10)).unwrap();
        assert_eq!(refusal(world.user(open_write(at, Disposition::Replace, 10))), ErrorKind::Locked);
    }
    world.user(RemoveHost { name: "d1".into(), force: true }).unwrap();
    assert_eq!(refusal(support::stat(&mut world, "/new")), ErrorKind::NotFound, "it never had content");
    for at in ["/new", "/old"] {
        let grant = world.user(open_write(at, Disposition::Replace, 10)).unwrap();
        assert_eq!(grant.partition, support::PARTITION, "the head's own");
    }
}

#[test]
fn room_on_a_host_that_is_turned_away_is_reserved_elsewhere() {
    let mut world = with_member();
    let ask = |at: &str, size| Allocate { size, ..room_for(at) };
    for (at, size) in [("/small", 1000), ("/begun", 1000), ("/large", 1 << 30)] {
        assert_eq!(world.user(ask(at, size)).unwrap().partitions, ["d1-disk1"]);
    }
    world.user(open_write("/begun", Disposition::Replace, 10)).unwrap();
    world.user(RemoveHost { name: "d1".into(), force: true }).unwrap();
    for at in ["/small", "/begun"] {
        let again = world.user(ask(at, 1000)).unwrap();
        assert_eq!((again.outcome, again.partitions), (Allocated::Known, vec!["disk1".to_owned()]), "{at}");
    }
    assert_eq!(refusal(support::stat(&mut world, "/large")), ErrorKind::NotFound, "it fits nowhere else");
}

#[test]
fn a_host_speaks_for_its_own_partitions_only() {
    let mut world = with_remote_disk();
    let grant = begin_remote(&mut world);
    let stranger = || Principal::host("d2");
    let partition = || "d1-disk1".to_owned();
    assert_eq!(refusal(world.call(stranger(), registration("d1", 2))), ErrorKind::Permission);
    let stolen = RegisterPartition { partition: partition(), ..registration("d2", 1) };
    assert_eq!(refusal(world.call(stranger(), stolen)), ErrorKind::Permission);
    assert_eq!(refusal(world.call(stranger(), report(1, &[]))), ErrorKind::Permission);
    let removals = NextRemovals { partition: partition() };
    assert_eq!(refusal(world.call(stranger(), removals)), ErrorKind::Permission);
    let begin = BeginWrite { object: grant.object, is_update: false };
    assert_eq!(refusal(world.call(stranger(), begin)), ErrorKind::Permission);
    assert_eq!(refusal(world.call(stranger(), commit(&grant))), ErrorKind::Permission);
    let abandon = AbandonWrite { object: grant.object };
    assert_eq!(refusal(world.call(stranger(), abandon)), ErrorKind::Permission);
}

#[test]
fn sizes_that_cannot_be_are_not_believed() {
    let mut world = with_member();
    let registered =
        RegisterPartition { total_bytes: u64::MAX, free_bytes: u64::MAX, ..registration("d1", 1) };
    world.call(Principal::host("d1"), registered).unwrap();
    let space = ReportSpace { total_bytes: u64::MAX, free_bytes: u64::MAX, ..report(1, &[]) };
    world.call(Principal::host("d1"), space).unwrap();
    assert!(world.user(GetSpace {}).unwrap().total_bytes < 1 << 61);
    for size in [OBJECT_BYTES_MAX + 1, u64::MAX >> 1, u64::MAX] {
        let grant = world.user(open_write("/f", Disposition::Replace, 10)).unwrap();
        let (object, checksums) = (grant.object, base::Checksums::of(b""));
        let call = CommitWrite { size, ..commit(&grant) };
        assert_eq!(refusal(world.call(Principal::host("d1"), call)), ErrorKind::Invalid, "{size}");
        let place = PlaceMirrors { object, size, checksums, failed: Vec::new() };
        assert_eq!(refusal(world.call(Principal::host("d1"), place)), ErrorKind::Invalid, "{size}");
        world.call(Principal::host("d1"), AbandonWrite { object }).unwrap();
    }
    assert_eq!(refusal(world.user(open_write("/f", Disposition::Replace, u64::MAX))), ErrorKind::NoSpace);
    let grant = begin_remote(&mut world);
    world.call(Principal::host("d1"), CommitWrite { size: OBJECT_BYTES_MAX, ..commit(&grant) }).unwrap();
    world.crash();
}

#[test]
fn the_doors_of_a_host_are_where_it_joined_to_be_reached() {
    let mut world = with_member();
    let register = |world: &mut World, root: &str, https: &str| {
        let server = DiskServer { name: "d1".into(), root: root.into(), https: https.into() };
        world.call(Principal::host("d1"), RegisterPartition { server, ..registration("d1", 1) })
    };
    for own in ["d1:1", "D1:1", "127.0.0.1:1", "[::ffff:127.0.0.1]:1", "localhost:1"] {
        register(&mut world, own, own).unwrap();
    }
    for other in ["head.example.org:1", "d2:1", "192.0.2.1:1", "[::1]:1", "d1", "d1:x", "d1:1/../x", ""] {
        assert_eq!(refusal(register(&mut world, other, "d1:1")), ErrorKind::Permission, "{other:?}");
        assert_eq!(refusal(register(&mut world, "d1:1", other)), ErrorKind::Permission, "{other:?}");
    }
    world.user(RemoveHost { name: "d1".into(), force: true }).unwrap();
    assert_eq!(refusal(register(&mut world, "d1:1", "d1:1")), ErrorKind::NotFound);
}

#[test]
fn a_host_has_so_many_partitions_and_no_more() {
    let mut world = with_member();
    let register = |world: &mut World, number: usize| {
        let call = RegisterPartition { partition: format!("d1-disk{number}"), ..registration("d1", 1) };
        world.call(Principal::host("d1"), call)
    };
    for number in 2..=PARTITIONS_PER_HOST_MAX {
        register(&mut world, number).unwrap();
    }
    assert_eq!(refusal(register(&mut world, 0)), ErrorKind::Busy);
    register(&mut world, 1).unwrap();
}

#[test]
fn a_host_reports_the_use_of_its_own_objects_only() {
    let mut world = with_member();
    take_in(&mut world, "d2", Role::Disk);
    let grant = put_remote(&mut world, "/f");
    let report = |host: &str, object| {
        let line = ReportTraffic { owner: "bob".into(), out_bytes: 7, out_transfers: 1, object };
        (Principal::host(host), ReportUse { traffic: vec![line], opened: object.into_iter().collect() })
    };
    let billed = |world: &mut World| {
        let bill = world.user(GetBill {}).unwrap().lines;
        bill.iter().find(|line| line.owner == "bob").map_or(0, |line| line.out_bytes)
    };
    for (host, object) in [("d2", Some(grant.object)), ("d1", Some(ObjectId(999_999))), ("d1", None)] {
        let (who, call) = report(host, object);
        world.call(who, call).unwrap();
        assert_eq!(billed(&mut world), 0, "{host} {object:?}");
    }
    let (who, call) = report("d1", Some(grant.object));
    world.call(who, call).unwrap();
    assert_eq!(billed(&mut world), 7);
}

fn room_for(at: &str) -> Allocate {
    Allocate { path: path(at), size: 1000, pool: "main".into(), lifetime: None, mode: 0o644, parents: true }
}

#[test]
fn names_of_partitions_begin_with_that_of_their_host() {
    let mut world = with_member();
    let register = |world: &mut World, host: &str, name: &str| {
        let call = RegisterPartition { partition: name.into(), ..registration(host, 1) };
        world.call(Principal::host(host), call)
    };
    let long = format!("d1-{}", "x".repeat(300));
    for name in ["disk2", "d2-disk1", "d1", "d12-disk1", "d1/disk", "d1- x", "", &long] {
        assert_eq!(refusal(register(&mut world, "d1", name)), ErrorKind::Permission, "{name:?}");
    }
    register(&mut world, "d1", "d1-a-disk1").unwrap();
    world.advance(HOUR);
    join(&mut world, "d1-a");
    assert_eq!(refusal(register(&mut world, "d1", "d1-a-disk2")), ErrorKind::Permission, "d1-a's");
    register(&mut world, "d1-a", "d1-a-disk2").unwrap();
    register(&mut world, "d1", "d1-disk2").unwrap();
}

#[test]
fn a_write_elsewhere_is_begun_and_committed_by_its_disk_server() {
    let mut world = with_remote_disk();
    let grant = begin_remote(&mut world);
    let disk = || Principal::host("d1");
    let begun = world.call(disk(), BeginWrite { object: grant.object, is_update: false }).unwrap();
    assert_eq!((begun.object, begun.base, begun.expected_bytes), (grant.object, None, 10));
    world.call(disk(), commit(&grant)).unwrap();
    world.call(disk(), commit(&grant)).unwrap();
    let other = CommitWrite { size: 8, ..commit(&grant) };
    assert_eq!(refusal(world.call(disk(), other)), ErrorKind::NotFound);
    let ReadGrant::Online(object) = world.user(OpenRead { path: path("/f") }).unwrap() else { panic!() };
    assert_eq!((object.object, object.server.unwrap().name.as_str()), (grant.object, "d1"));
    let update = world.user(open_write("/f", Disposition::Update, 0)).unwrap();
    let begun = world.call(disk(), BeginWrite { object: update.object, is_update: true }).unwrap();
    assert_eq!(begun.base.unwrap().object, grant.object);
}

#[test]
fn a_head_that_starts_again_ends_no_write_of_a_disk_server_that_runs_on() {
    let mut world = with_remote_disk();
    let grant = begin_remote(&mut world);
    world.crash();
    world.call(Principal::host("d1"), registration("d1", 1)).unwrap();
    world.call(Principal::host("d1"), commit(&grant)).unwrap();
    let second = begin_remote(&mut world);
    world.call(Principal::host("d1"), registration("d1", 2)).unwrap();
    assert_eq!(refusal(world.call(Principal::host("d1"), commit(&second))), ErrorKind::NotFound);
}

#[test]
fn a_reservation_that_nobody_begins_is_given_up() {
    let mut world = with_remote_disk();
    let (begun, other) = (begin_remote(&mut world), open_write("/g", Disposition::Replace, 10));
    let unbegun = world.user(other).unwrap();
    let disk = || Principal::host("d1");
    world.call(disk(), report(1, &[&begun])).unwrap();
    world.advance(HOUR);
    world.call(disk(), report(1, &[&begun])).unwrap();
    world.call(disk(), commit(&begun)).unwrap();
    assert_eq!(refusal(world.call(disk(), commit(&unbegun))), ErrorKind::NotFound);
}

#[test]
fn a_disk_server_that_the_head_takes_for_an_earlier_start_registers_again() {
    let mut world = with_remote_disk();
    assert_eq!(refusal(world.call(Principal::host("d1"), report(2, &[]))), ErrorKind::NotFound);
    world.crash();
    world.call(Principal::host("d1"), report(1, &[])).unwrap();
    begin_remote(&mut world);
}
