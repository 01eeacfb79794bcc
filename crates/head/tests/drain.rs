//! Emptying partitions: what cannot go is asked about first.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod support;

use base::ErrorKind;
use head::Principal;
use sim::{Content, World};
use support::*;
use wire::control::{
    CommitWrite, DiskServer, Disposition, Drain, GetPools, HostHeartbeat, HostLeaves, PartitionState,
    RegisterPartition, Role, SetPartition,
};

const HOST: &str = "d1";
const THERE: &str = "d1-disk1";

/// A facility with a second disk server, which alone has taken files of these sizes.
fn with_files(sizes: &[u64]) -> World {
    let mut world = world();
    take_in(&mut world, HOST, Role::Disk);
    let server =
        DiskServer { name: HOST.into(), root: format!("{HOST}:1094"), https: format!("{HOST}:8443") };
    let who = Principal::host(HOST);
    world.call(who.clone(), HostHeartbeat { server: server.clone(), boot: 1 }).unwrap();
    let (total_bytes, free_bytes) = (10_000_000, 9_000_000);
    let (pool, partition) = ("main".into(), THERE.into());
    let register = RegisterPartition { server, boot: 1, pool, partition, total_bytes, free_bytes };
    world.call(who.clone(), register).unwrap();
    set(&mut world, PARTITION, PartitionState::ReadOnly);
    for (number, size) in sizes.iter().enumerate() {
        let grant = world.user(open_write(&format!("/f{number}"), Disposition::CreateNew, *size)).unwrap();
        assert_eq!(grant.partition, THERE);
        let checksums = Content::numbered(*size, 1).sums;
        let (mirrors, pieces) = (Vec::new(), Vec::new());
        let commit = CommitWrite { object: grant.object, size: *size, checksums, mirrors, pieces };
        world.call(who.clone(), commit).unwrap();
    }
    set(&mut world, PARTITION, PartitionState::InUse);
    world
}

fn set(world: &mut World, partition: &str, state: PartitionState) {
    world.user(SetPartition { partition: partition.into(), state }).unwrap();
}

fn drain(world: &mut World, force: bool) -> base::Result<wire::control::Drained> {
    world.user(Drain { partitions: vec![THERE.into()], host: None, force })
}

fn state_of(world: &mut World) -> PartitionState {
    let pools = world.user(GetPools {}).unwrap().pools;
    pools.into_iter().flat_map(|pool| pool.partitions).find(|one| one.name == THERE).unwrap().state
}

#[test]
fn what_fits_elsewhere_is_moved_and_the_answer_says_how_much_that_is() {
    let mut world = with_files(&[1000, 2000]);
    let drained = world.user(Drain { host: Some(HOST.into()), ..Drain::default() }).unwrap().partitions;
    assert_eq!((&*drained[0].name, drained[0].replicas, drained[0].bytes), (THERE, 2, 3000));
    assert_eq!(state_of(&mut world), PartitionState::Draining);
    // Saying it again is fine.
    drain(&mut world, false).unwrap();
    set(&mut world, THERE, PartitionState::InUse);
    assert_eq!(state_of(&mut world), PartitionState::InUse);
}

#[test]
fn what_is_too_large_for_the_others_is_named_and_nothing_drains() {
    let mut world = with_files(&[1000, 2_000_000]);
    let refused = drain(&mut world, false).unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Busy);
    assert!(refused.what.starts_with("1 file is only on partition d1-disk1"), "{refused}");
    assert!(refused.what.ends_with(": /f1"), "{refused}");
    assert_eq!(state_of(&mut world), PartitionState::InUse);
    drain(&mut world, true).unwrap();
    assert_eq!(state_of(&mut world), PartitionState::Draining);
}

#[test]
fn what_is_too_much_for_the_others_together_is_refused() {
    let mut world = with_files(&[800_000, 800_000]);
    let refused = drain(&mut world, false).unwrap_err();
    assert!(refused.what.contains("they have 1.53 MiB"), "{refused}");
}

#[test]
fn what_is_on_tape_too_does_not_count() {
    let mut world = with_files(&[1000]);
    let copy = ask_archive(&mut world, "/f0").map(|_| archive_session(&mut world)).unwrap();
    let wire::control::TapeWork::Archive { append, files } = &copy.work else { panic!("{copy:?}") };
    let (fseq, block, end_block) = (append.fseq, append.block, append.block + 4);
    let copies =
        vec![wire::control::ArchivedCopy { request: files[0].request, fseq, block, end_block, member: None }];
    world.room(wire::control::FilesArchived { session: copy.id, copies, used_bytes: 200_000 }).unwrap();
    set(&mut world, PARTITION, PartitionState::ReadOnly);
    drain(&mut world, false).unwrap();
}

#[test]
fn without_another_partition_or_without_its_host_nothing_can_be_moved() {
    let mut world = with_files(&[1000]);
    set(&mut world, PARTITION, PartitionState::ReadOnly);
    let refused = drain(&mut world, false).unwrap_err();
    assert!(refused.what.contains("no other partition of pool main accepts files: /f0"), "{refused}");
    set(&mut world, PARTITION, PartitionState::InUse);
    world.call(Principal::host(HOST), HostLeaves { host: HOST.into(), boot: 1 }).unwrap();
    let refused = drain(&mut world, false).unwrap_err();
    assert!(refused.what.contains("host d1 is stopped, so its files cannot be read"), "{refused}");
}

#[test]
fn only_operators_drain_what_there_is() {
    let mut world = with_files(&[]);
    let call = || Drain { partitions: vec![THERE.into()], ..Drain::default() };
    assert_eq!(refusal(world.call(user("ann"), call())), ErrorKind::Permission);
    drain(&mut world, false).unwrap();
    let none = Drain { partitions: vec!["none".into()], ..Drain::default() };
    assert_eq!(refusal(world.user(none)), ErrorKind::NotFound);
    let nobody = Drain { host: Some("nobody".into()), ..Drain::default() };
    assert_eq!(refusal(world.user(nobody)), ErrorKind::NotFound);
}
