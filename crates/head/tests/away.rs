//! Files whose only disk servers do not answer.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod support;

use base::{ErrorKind, Millis, ObjectId};
use head::Principal;
use sim::{Content, World};
use support::*;
use wire::control::{
    ArchivedCopy, AwayReason, CommitWrite, DiskServer, Disposition, FileState, FilesArchived, GetStatus,
    HostHeartbeat, HostLeaves, HostUnanswered, JobState, List, OpenRead, PartitionState, ReadGrant,
    RegisterPartition, Remove, ReportObjects, Role, RunMaintenance, SetPartition, TapeWork,
};

const HOST: &str = "d1";
const MINUTE: Millis = Millis::from_seconds(60);

fn start(world: &mut World, boot: u64, objects: Vec<ObjectId>) {
    take_in(world, HOST, Role::Disk);
    let server =
        DiskServer { name: HOST.into(), root: format!("{HOST}:1094"), https: format!("{HOST}:8443") };
    let who = Principal::host(HOST);
    world.call(who.clone(), HostHeartbeat { server: server.clone(), boot }).unwrap();
    let (partition, pool) = ("d1-disk1".to_owned(), "main".into());
    let (total_bytes, free_bytes) = (1_000_000, 900_000);
    let call =
        RegisterPartition { server, boot, pool, partition: partition.clone(), total_bytes, free_bytes };
    world.call(who.clone(), call).unwrap();
    let roll = ReportObjects { partition, boot, after: ObjectId(0), upto: None, objects };
    world.call(who, roll).unwrap();
}

fn leave(world: &mut World) {
    world.call(Principal::host(HOST), HostLeaves { host: HOST.into(), boot: 1 }).unwrap();
}

/// A facility with a file on a second disk server.
fn with_file(at: &str) -> (World, ObjectId) {
    let mut world = world();
    start(&mut world, 1, Vec::new());
    let closed = |state| SetPartition { partition: PARTITION.into(), state };
    world.user(closed(PartitionState::ReadOnly)).unwrap();
    let grant = world.user(open_write(at, Disposition::CreateNew, 100)).unwrap();
    assert_eq!(grant.partition, "d1-disk1");
    let checksums = Content::numbered(100, 1).sums;
    let (mirrors, pieces) = (Vec::new(), Vec::new());
    let commit = CommitWrite { object: grant.object, size: 100, checksums, mirrors, pieces };
    world.call(Principal::host(HOST), commit).unwrap();
    world.user(closed(PartitionState::InUse)).unwrap();
    (world, grant.object)
}

/// Says that the drive has written the only file that is to be archived.
fn archive(world: &mut World, at: &str) {
    ask_archive(world, at).unwrap();
    let session = archive_session(world);
    let TapeWork::Archive { append, files } = &session.work else { panic!("{session:?}") };
    let (fseq, block, end_block) = (append.fseq, append.block, append.block + 4);
    let copies = vec![ArchivedCopy { request: files[0].request, fseq, block, end_block, member: None }];
    world.room(FilesArchived { session: session.id, copies, used_bytes: 200_000 }).unwrap();
    end_session(world, &session, 0);
    assert_eq!(state(world, at), FileState::Both);
}

fn open(world: &mut World, at: &str) -> base::Result<ReadGrant> {
    world.user(OpenRead { path: path(at) })
}

fn is_online(world: &mut World, at: &str) -> bool {
    matches!(open(world, at), Ok(ReadGrant::Online(_)))
}

fn is_waiting(world: &mut World, at: &str) -> bool {
    matches!(open(world, at), Ok(ReadGrant::Recalling { .. }))
}

#[test]
fn what_is_on_a_host_that_stopped_alone_is_out_of_reach_until_it_is_back() {
    let (mut world, object) = with_file("/f");
    assert!(is_online(&mut world, "/f"));
    let version = world.namespace_version();
    leave(&mut world);
    assert_ne!(world.namespace_version(), version, "doors ask again");
    let info = stat(&mut world, "/f").unwrap();
    assert_eq!(info.entry.state, Some(FileState::OutOfReach));
    let away: Vec<_> = info.away.iter().map(|away| (away.host.as_str(), away.reason)).collect();
    assert_eq!(away, [(HOST, AwayReason::Stopped)]);
    let listed = world.user(List { path: path("/"), after: String::new() }).unwrap().entries;
    assert_eq!(listed[0].state, Some(FileState::OutOfReach));
    // It may only be started again: whoever opens the file waits for a minute.
    assert!(is_waiting(&mut world, "/f"));
    assert!(requests(&mut world).is_empty(), "there is nothing to recall");
    world.advance(MINUTE);
    let refused = open(&mut world, "/f").unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Unavailable);
    assert_eq!(refused.what, "/f is out of reach: on host d1, stopped 1 min 00 s ago");
    assert_eq!(stage(&mut world, "/f", None).unwrap_err().kind, ErrorKind::Unavailable);
    let update = open_write("/f", Disposition::Update, 0);
    assert_eq!(refusal(world.user(update)), ErrorKind::Unavailable);
    start(&mut world, 2, vec![object]);
    assert_eq!(state(&mut world, "/f"), FileState::Online);
    assert!(is_online(&mut world, "/f"));
}

/// Files online, nearline and out of reach, as the status has them when all was counted that there is to count.
fn counts(world: &mut World) -> (u64, u64, u64) {
    while world.room(RunMaintenance {}).unwrap().is_more {}
    let files = world.user(GetStatus {}).unwrap().files;
    (files.online, files.nearline, files.out_of_reach)
}

#[test]
fn the_counts_know_what_is_out_of_reach() {
    let (mut world, object) = with_file("/f");
    put(&mut world, "/here", 10);
    assert_eq!(counts(&mut world), (2, 0, 0));
    leave(&mut world);
    assert_eq!(counts(&mut world), (1, 0, 1));
    // What goes meanwhile is counted again after a minute.
    world.user(Remove { path: path("/f") }).unwrap();
    world.advance(MINUTE);
    assert_eq!(counts(&mut world), (1, 0, 0));
    start(&mut world, 2, vec![object]);
    assert_eq!(counts(&mut world), (1, 0, 0));
    let (mut world, object) = with_file("/f");
    archive(&mut world, "/f");
    leave(&mut world);
    assert_eq!(counts(&mut world), (0, 1, 0));
    start(&mut world, 2, vec![object]);
    assert_eq!(counts(&mut world), (1, 0, 0));
}

#[test]
fn who_does_not_answer_and_who_is_silent_is_out_of_reach() {
    let (mut world, object) = with_file("/f");
    let asked = world.now;
    world.room(HostUnanswered { host: HOST.into(), asked }).unwrap();
    assert_eq!(state(&mut world, "/f"), FileState::OutOfReach);
    start(&mut world, 2, vec![object]);
    assert_eq!(state(&mut world, "/f"), FileState::Online);
    world.advance(Millis::from_seconds(16));
    world.room(RunMaintenance {}).unwrap();
    assert_eq!(state(&mut world, "/f"), FileState::OutOfReach);
    // After a start of the head hosts have time to say that they are there.
    world.crash();
    assert_eq!(state(&mut world, "/f"), FileState::Online);
    world.advance(Millis::from_seconds(16));
    world.room(world.report()).unwrap();
    world.room(RunMaintenance {}).unwrap();
    assert_eq!(state(&mut world, "/f"), FileState::OutOfReach);
}

#[test]
fn what_is_on_tape_too_is_recalled_at_once_and_no_more_when_its_host_is_back() {
    let (mut world, object) = with_file("/f");
    archive(&mut world, "/f");
    leave(&mut world);
    assert_eq!(state(&mut world, "/f"), FileState::Nearline);
    assert!(is_waiting(&mut world, "/f"));
    let reason = request(&mut world).reason;
    assert!(reason.ends_with("; its disk replica is out of reach, on host d1, stopped 0 s ago"), "{reason}");
    assert_eq!(stat(&mut world, "/f").unwrap().waits, Some(reason));
    start(&mut world, 2, vec![object]);
    assert_eq!((requests(&mut world).len(), is_online(&mut world, "/f")), (0, true));
}

#[test]
fn the_recall_brings_it_to_another_disk() {
    let (mut world, _) = with_file("/f");
    archive(&mut world, "/f");
    leave(&mut world);
    assert!(is_waiting(&mut world, "/f"));
    let session = next_session(&mut world).unwrap();
    let TapeWork::Recall { files } = &session.work else { panic!("{session:?}") };
    assert!(files[0].sink.contains("sim:"), "{}", files[0].sink);
}

#[test]
fn what_cannot_be_read_now_is_archived_when_it_can() {
    let (mut world, object) = with_file("/f");
    leave(&mut world);
    ask_archive(&mut world, "/f").unwrap();
    while let Some(session) = next_session(&mut world) {
        assert_eq!(session.work, TapeWork::Label);
        end_session(&mut world, &session, 1);
    }
    let request = request(&mut world);
    assert_eq!(request.attempts, 0);
    assert!(request.reason.contains("out of reach: on host d1"), "{}", request.reason);
    start(&mut world, 2, vec![object]);
    world.advance(MINUTE);
    assert!(matches!(next_session(&mut world).unwrap().work, TapeWork::Archive { .. }));
}

#[test]
fn a_job_waits_for_the_host_of_its_input_and_others_go_before_it() {
    let (mut world, object) = with_file("/f");
    put(&mut world, "/g", 10);
    leave(&mut world);
    let submit =
        |at: &str, world: &mut World| world.submit(&[path(at)], &path(&format!("{at}-out"))).unwrap();
    let (first, second) = (submit("/f", &mut world), submit("/g", &mut world));
    let begun = started(&mut world);
    assert_eq!(begun.iter().map(|run| run.job).collect::<Vec<_>>(), [second]);
    let info = job(&mut world, first);
    assert_eq!(info.state, JobState::Queued);
    assert!(info.reason.as_ref().unwrap().contains("/f is out of reach, on host d1"), "{info:?}");
    start(&mut world, 2, vec![object]);
    assert_eq!(orders(&mut world, &begun).start[0].run.job, first);
}
