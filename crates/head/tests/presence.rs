//! Hosts that say goodbye, that do not answer, and that are silent.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod support;

use base::{ErrorKind, Millis, ObjectId};
use head::Principal;
use sim::World;
use support::*;
use wire::control::{
    BeginWrite, DiskServer, Disposition, GetHosts, GetStatus, HostHeartbeat, HostLeaves, HostUnanswered,
    PartitionState, Presence, RegisterPartition, ReportObjects, ReportSpace, Role, RunMaintenance,
    SetPartition,
};

const HOSTS: [&str; 2] = ["a", "b"];

fn server(name: &str) -> DiskServer {
    DiskServer { name: name.into(), root: format!("{name}:1094"), https: format!("{name}:8443") }
}

fn start(world: &mut World, name: &str, boot: u64) {
    take_in(world, name, Role::Disk);
    let (who, server) = (Principal::host(name), server(name));
    world.call(who.clone(), HostHeartbeat { server: server.clone(), boot }).unwrap();
    let (partition, pool) = (format!("{name}.disk"), "main".into());
    let (total_bytes, free_bytes) = (1_000_000, 900_000);
    let call =
        RegisterPartition { server, boot, pool, partition: partition.clone(), total_bytes, free_bytes };
    world.call(who.clone(), call).unwrap();
    let roll = ReportObjects { partition, boot, after: ObjectId(0), upto: None, objects: Vec::new() };
    world.call(who, roll).unwrap();
}

/// Two disk servers; that of the simulation takes nothing new.
fn two() -> World {
    let mut world = world();
    let state = PartitionState::ReadOnly;
    world.user(SetPartition { partition: PARTITION.into(), state }).unwrap();
    for name in HOSTS {
        start(&mut world, name, 1);
    }
    world
}

fn leave(world: &mut World, name: &str, boot: u64) {
    world.call(Principal::host(name), HostLeaves { host: name.into(), boot }).unwrap();
}

fn presence(world: &mut World, name: &str) -> Presence {
    let hosts = world.user(GetHosts {}).unwrap().hosts;
    hosts.into_iter().find(|host| host.name == name).unwrap().presence
}

fn is_available(world: &mut World, name: &str) -> bool {
    let pools = world.user(GetStatus {}).unwrap().pools;
    let mut all = pools.into_iter().flat_map(|pool| pool.partitions);
    all.find(|one| one.server == name).unwrap().is_available
}

fn report(world: &mut World, name: &str, boot: u64) {
    let report = ReportSpace {
        partition: format!("{name}.disk"),
        boot,
        writing: Vec::new(),
        written: Vec::new(),
        claimed: Vec::new(),
        total_bytes: 1_000_000,
        free_bytes: 900_000,
        readers: 0,
        trouble: None,
    };
    world.call(Principal::host(name), report).unwrap();
}

#[test]
fn nobody_is_sent_to_a_host_that_said_goodbye_until_it_is_started_again() {
    let mut world = two();
    assert!(is_available(&mut world, "a"));
    leave(&mut world, "a", 1);
    assert_eq!((presence(&mut world, "a"), is_available(&mut world, "a")), (Presence::Stopped, false));
    for number in 0..10 {
        assert_eq!(begin_write(&mut world, &format!("/f{number}"), 100).partition, "b.disk");
    }
    // What it says while it brings its work to an end does not call it back.
    report(&mut world, "a", 1);
    assert!(!is_available(&mut world, "a"));
    start(&mut world, "a", 2);
    assert_eq!((presence(&mut world, "a"), is_available(&mut world, "a")), (Presence::Here, true));
    // Said by the one before, and late.
    leave(&mut world, "a", 1);
    assert_eq!(presence(&mut world, "a"), Presence::Here);
}

#[test]
fn who_does_not_answer_is_silent_until_it_is_heard() {
    let mut world = two();
    let (host, asked) = ("a".to_owned(), world.now);
    world.advance(Millis(10));
    report(&mut world, "a", 1);
    world.room(HostUnanswered { host: host.clone(), asked }).unwrap();
    assert!(is_available(&mut world, "a"), "it was heard since");
    let asked = world.now;
    world.room(HostUnanswered { host, asked }).unwrap();
    assert_eq!((presence(&mut world, "a"), is_available(&mut world, "a")), (Presence::Silent, false));
    assert!(!world.user(GetStatus {}).unwrap().pools[0].partitions.iter().any(|one| one.is_given_up));
    report(&mut world, "a", 1);
    assert!(is_available(&mut world, "a"));
}

#[test]
fn a_host_of_any_role_is_silent_as_soon_as_a_disk_server() {
    let mut world = two();
    take_in(&mut world, "t", Role::Tape);
    world.call(Principal::host("t"), HostHeartbeat { server: server("t"), boot: 7 }).unwrap();
    assert_eq!(presence(&mut world, "t"), Presence::Here);
    world.advance(Millis::from_seconds(16));
    world.room(RunMaintenance {}).unwrap();
    assert_eq!(presence(&mut world, "t"), Presence::Silent);
    assert_eq!(presence(&mut world, "a"), Presence::Silent);
}

#[test]
fn a_write_on_a_host_that_died_is_begun_anew_elsewhere() {
    let mut world = two();
    let grant = begin_write(&mut world, "/f", 100);
    let name = grant.server.unwrap().name;
    let begun = BeginWrite { object: grant.object, is_update: false };
    world.call(Principal::host(&name), begun.clone()).unwrap();
    let again = || open_write("/f", Disposition::Replace, 100);
    assert_eq!(refusal(world.user(again())), ErrorKind::Locked);
    // It may still bring it to an end.
    leave(&mut world, &name, 1);
    assert_eq!(refusal(world.user(again())), ErrorKind::Locked);
    let asked = world.now;
    world.room(HostUnanswered { host: name.clone(), asked }).unwrap();
    assert_ne!(world.user(again()).unwrap().server.unwrap().name, name);
    assert_eq!(refusal(world.call(Principal::host(&name), begun)), ErrorKind::NotFound);
}

#[test]
fn a_host_speaks_for_itself_and_of_its_own_doors() {
    let mut world = two();
    let call = HostHeartbeat { server: server("b"), boot: 1 };
    assert_eq!(refusal(world.call(Principal::host("a"), call)), ErrorKind::Permission);
    let elsewhere = DiskServer { root: "elsewhere:1".into(), ..server("a") };
    let call = HostHeartbeat { server: elsewhere, boot: 1 };
    assert_eq!(refusal(world.call(Principal::host("a"), call)), ErrorKind::Permission);
    let call = HostLeaves { host: "b".into(), boot: 1 };
    assert_eq!(refusal(world.call(Principal::host("a"), call)), ErrorKind::Permission);
    let call = HostHeartbeat { server: server("x"), boot: 1 };
    assert_eq!(refusal(world.room(call)), ErrorKind::NotFound);
}
