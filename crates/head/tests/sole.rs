//! Operators are asked before data goes out of reach.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod support;

use base::{ErrorKind, FileId};
use sim::World;
use support::*;
use wire::control::{
    CommitWrite, DisableDrive, DiskServer, Disposition, EnableDrive, GetSoleFiles, GetStatus, PartitionState,
    RegisterPartition, RemoveHost, Role, SetPartition,
};

const HOST: &str = "d1";

/// A facility with a second disk server, which alone takes new files.
fn with_host() -> World {
    let mut world = world();
    take_in(&mut world, HOST, Role::Disk);
    let server =
        DiskServer { name: HOST.into(), root: format!("{HOST}:1094"), https: format!("{HOST}:8443") };
    let register = RegisterPartition {
        server,
        boot: 1,
        pool: "main".into(),
        partition: "d1-disk1".into(),
        total_bytes: 1_000_000,
        free_bytes: 900_000,
    };
    world.call(head::Principal::host(HOST), register).unwrap();
    let closed = SetPartition { partition: PARTITION.into(), state: PartitionState::ReadOnly };
    world.user(closed).unwrap();
    world
}

/// Writes a file on the second disk server.
fn put_there(world: &mut World, at: &str) {
    let grant = world.user(open_write(at, Disposition::CreateNew, 100)).unwrap();
    assert_eq!(grant.partition, "d1-disk1");
    let checksums = sim::Content::numbered(100, 1).sums;
    let (mirrors, pieces) = (Vec::new(), Vec::new());
    let commit = CommitWrite { object: grant.object, size: 100, checksums, mirrors, pieces };
    world.call(head::Principal::host(HOST), commit).unwrap();
}

fn turn_away(world: &mut World, force: bool) -> base::Result<wire::control::Done> {
    world.user(RemoveHost { name: HOST.into(), force })
}

#[test]
fn a_host_with_what_is_nowhere_else_is_turned_away_by_force_only() {
    let mut world = with_host();
    for at in ["/d/a", "/d/b", "/d/c", "/d/d"] {
        put_there(&mut world, at);
    }
    let refused = turn_away(&mut world, false).unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Busy);
    assert_eq!(refused.what, "4 files are only on host d1: /d/a, /d/b, /d/c, ...");
    assert!(refused.hint.unwrap().contains("--force"));
    let ask = |after| GetSoleFiles { host: HOST.into(), after };
    let files = world.user(ask(None)).unwrap().files;
    assert_eq!(
        files.iter().map(|file| file.path.as_str()).collect::<Vec<_>>(),
        ["/d/a", "/d/b", "/d/c", "/d/d"]
    );
    assert_eq!(world.user(ask(Some(files[2].id))).unwrap().files, files[3..]);
    assert_eq!(refusal(world.call(user("eve"), ask(None))), ErrorKind::Permission);
    let unknown = GetSoleFiles { host: "x".into(), after: Some(FileId(1)) };
    assert_eq!(refusal(world.user(unknown)), ErrorKind::NotFound);
    turn_away(&mut world, true).unwrap();
}

#[test]
fn a_host_whose_files_are_elsewhere_too_is_turned_away_without_force() {
    let mut world = with_host();
    turn_away(&mut world, false).unwrap();
    let mut world = with_host();
    put_there(&mut world, "/a");
    ask_archive(&mut world, "/a").unwrap();
    let session = archive_session(&mut world);
    assert_eq!(turn_away(&mut world, false).unwrap_err().kind, ErrorKind::Busy, "it is not on tape yet");
    let wire::control::TapeWork::Archive { append, files } = &session.work else { panic!("{session:?}") };
    let copy = wire::control::ArchivedCopy {
        request: files[0].request,
        fseq: append.fseq,
        block: append.block,
        end_block: append.block + 4,
        member: None,
    };
    let (session, copies, used_bytes) = (session.id, vec![copy], 1000);
    world.room(wire::control::FilesArchived { session, copies, used_bytes }).unwrap();
    turn_away(&mut world, false).unwrap();
}

#[test]
fn a_drive_that_a_person_takes_out_of_use_does_nothing_until_it_is_put_back() {
    let mut world = world();
    put(&mut world, "/f", 100);
    ask_archive(&mut world, "/f").unwrap();
    for drive in ["drv0", "drv1"] {
        let reason = "heads are worn".to_owned();
        world.user(DisableDrive { drive: drive.into(), reason }).unwrap();
    }
    assert_eq!(next_session(&mut world), None);
    let drives = world.user(GetStatus {}).unwrap().drives;
    assert_eq!(drives[0].trouble.as_deref(), Some("disabled by ada: heads are worn"));
    let unknown = DisableDrive { drive: "x".into(), reason: String::new() };
    assert_eq!(refusal(world.user(unknown)), ErrorKind::NotFound);
    let eves = DisableDrive { drive: DRIVE.into(), reason: String::new() };
    assert_eq!(refusal(world.call(user("eve"), eves)), ErrorKind::Permission);
    world.user(EnableDrive { drive: DRIVE.into() }).unwrap();
    assert!(next_session(&mut world).is_some());
}
