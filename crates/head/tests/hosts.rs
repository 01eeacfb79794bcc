//! Hosts join by invitation, speak for themselves only, and are turned away.

mod support;

use base::{ErrorKind, Millis, Result};
use head::Principal;
use sim::World;
use support::{open_write, path, refusal, world};
use wire::control::{
    AbandonWrite, AddInvitation, AdmitHost, BeginWrite, ChangeCertificate, CommitWrite, DiskServer,
    Disposition, Done, GetHosts, NextRemovals, OpenRead, ReadGrant, RegisterPartition, RemoveHost,
    ReportSpace, Role, WriteGrant,
};

const HOUR: Millis = Millis::from_seconds(3600);

fn invite(world: &mut World, hash: &str) {
    let expires = world.now + HOUR;
    let call = AddInvitation { hash: hash.into(), roles: vec![Role::Disk], expires };
    world.room(call).expect("the head keeps an invitation");
}

fn admit(world: &mut World, hash: &str, name: &str, key: &str) -> Result<Done> {
    let certificate = format!("certificate of {key}");
    let roles = vec![Role::Disk];
    world.room(AdmitHost { hash: hash.into(), name: name.into(), roles, key: key.into(), certificate })
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
fn with_far_disk() -> World {
    let mut world = world();
    world.call(Principal::host("d1"), registration("d1", 1)).expect("a host may register its own");
    world
}

fn begin_far(world: &mut World) -> WriteGrant {
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
        total_bytes: 1 << 40,
        free_bytes: 1 << 40,
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
    let call = AdmitHost {
        hash: "h".into(),
        name: "t1".into(),
        roles: vec![Role::Tape],
        key: "k".into(),
        certificate: "c".into(),
    };
    assert!(world.room(call).unwrap_err().what.contains("not for the role tape"));
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
    world.user(RemoveHost { name: "d1".into() }).unwrap();
    let hosts = world.user(GetHosts {}).unwrap().hosts;
    assert!(hosts[0].removed.is_some() && hosts[0].certificates.is_empty());
    assert_eq!(refusal(world.user(RemoveHost { name: "d1".into() })), ErrorKind::NotFound);
    admit(&mut world, "b", "d1", "other").unwrap();
}

#[test]
fn a_new_certificate_replaces_the_old_one_when_it_is_used() {
    let mut world = world();
    invite(&mut world, "h");
    admit(&mut world, "h", "d1", "k").unwrap();
    let change = ChangeCertificate { name: "d1".into(), certificate: "new".into() };
    let shown = |world: &mut World| world.user(GetHosts {}).unwrap().hosts[0].certificates.clone();
    world.call(Principal::host("d1"), change.clone()).unwrap();
    assert_eq!(shown(&mut world), ["certificate of k", "new"]);
    world.call(Principal::host("d1"), change.clone()).unwrap();
    assert_eq!(shown(&mut world), ["new"]);
    assert_eq!(refusal(world.call(Principal::host("d2"), change)), ErrorKind::Permission);
}

#[test]
fn a_host_speaks_for_its_own_partitions_only() {
    let mut world = with_far_disk();
    let grant = begin_far(&mut world);
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
fn a_write_elsewhere_is_begun_and_committed_by_its_disk_server() {
    let mut world = with_far_disk();
    let grant = begin_far(&mut world);
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
    let mut world = with_far_disk();
    let grant = begin_far(&mut world);
    world.crash();
    world.call(Principal::host("d1"), registration("d1", 1)).unwrap();
    world.call(Principal::host("d1"), commit(&grant)).unwrap();
    let second = begin_far(&mut world);
    world.call(Principal::host("d1"), registration("d1", 2)).unwrap();
    assert_eq!(refusal(world.call(Principal::host("d1"), commit(&second))), ErrorKind::NotFound);
}

#[test]
fn a_reservation_that_nobody_begins_is_given_up() {
    let mut world = with_far_disk();
    let (begun, other) = (begin_far(&mut world), open_write("/g", Disposition::Replace, 10));
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
    let mut world = with_far_disk();
    assert_eq!(refusal(world.call(Principal::host("d1"), report(2, &[]))), ErrorKind::NotFound);
    world.crash();
    world.call(Principal::host("d1"), report(1, &[])).unwrap();
    begin_far(&mut world);
}
