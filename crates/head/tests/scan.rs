//! Scans: what disk servers are told of the catalogue, and what becomes of what they find.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod support;

use base::{ErrorKind, Millis, ObjectId};
use head::Principal;
use sim::World;
use support::*;
use wire::control::{
    AskObjects, CatalogueWindow, FINDINGS_MAX, FileState, Finding, FindingKind, GetFindings, GetScans, Known,
    MendFinding, Mending, NextFindings, NextScan, OpenRead, ReadGrant, Remove, RepairScan, ReportScan,
    ResumeScan, SCAN_OBJECTS_MAX, ScanCursor, ScanInfo, ScanOrder, ScanPace, ScanState, StartScan, StopScan,
};

const PACE: ScanPace = ScanPace { is_checksummed: false, objects_per_s: 10, bytes_per_s: 10 };

fn start(world: &mut World) -> base::Result<()> {
    world.user(StartScan { partition: None, pace: PACE }).map(drop)
}

fn order(world: &mut World) -> Option<ScanOrder> {
    world.room(NextScan { partition: PARTITION.into() }).unwrap().order
}

fn known(world: &mut World, object: ObjectId) -> Known {
    world.room(AskObjects { partition: PARTITION.into(), objects: vec![object] }).unwrap().known.remove(0)
}

fn info(world: &mut World) -> ScanInfo {
    world.user(GetScans {}).unwrap().scans.remove(0)
}

fn report(scan: u64, kind: FindingKind, objects: &[ObjectId]) -> ReportScan {
    let finding = |object: &ObjectId| Finding { object: *object, kind, file: None, detail: "x".into() };
    ReportScan {
        partition: PARTITION.into(),
        scan,
        cursor: ScanCursor { through: ObjectId(7) },
        looks: 10,
        bytes: 100,
        findings: objects.iter().map(finding).collect(),
        is_done: false,
        trouble: None,
    }
}

fn object_of(world: &mut World, at: &str) -> ObjectId {
    match world.user(OpenRead { path: path(at) }).unwrap() {
        ReadGrant::Online(grant) => grant.object,
        ReadGrant::Recalling { .. } => panic!("{at} is online"),
    }
}

#[test]
fn the_catalogue_tells_what_it_knows_of_an_object_all_its_life() {
    let mut world = world();
    put(&mut world, "/f", 10);
    let object = object_of(&mut world, "/f");
    assert!(matches!(known(&mut world, object), Known::Online(known) if known.size == 10));
    let grant = begin_write(&mut world, "/g", 10);
    assert_eq!(known(&mut world, grant.object), Known::Moving, "it is being written");
    world.user(Remove { path: path("/f") }).unwrap();
    assert_eq!(known(&mut world, object), Known::Moving, "it is to be deleted");
    world.clean(false);
    assert_eq!(known(&mut world, object), Known::Unknown);
    assert_eq!(known(&mut world, ObjectId(1_000_000)), Known::Unheard);
    world.crash();
    assert_eq!(
        (known(&mut world, object), known(&mut world, ObjectId(1_000_000))),
        (Known::Unknown, Known::Unheard)
    );
}

#[test]
fn windows_go_through_the_whole_catalogue() {
    let mut world = world();
    let mut expected = Vec::new();
    for number in 0..=SCAN_OBJECTS_MAX {
        put(&mut world, &format!("/{number}"), 10);
        expected.push(object_of(&mut world, &format!("/{number}")));
        if number == 2 {
            // Numbers are set aside by the thousand: after a restart there is a gap.
            world.crash();
        }
    }
    begin_write(&mut world, "/writing", 10);
    for span in [7, SCAN_OBJECTS_MAX] {
        let (mut found, mut after, mut windows) = (Vec::new(), Some(ObjectId(0)), 0);
        while let Some(at) = after {
            let window = world.room(window(at, span)).unwrap();
            for known in window.objects {
                assert_eq!((known.size, known.object > at), (10, true));
                found.push(known.object);
            }
            after = window.next;
            windows += 1;
        }
        assert_eq!(found, expected);
        assert!(windows > 1, "the test is about more than one");
    }
    for span in [0, SCAN_OBJECTS_MAX + 1, usize::MAX] {
        assert_eq!(refusal(world.room(window(ObjectId(0), span))), ErrorKind::Invalid);
    }
}

fn window(after: ObjectId, span: usize) -> CatalogueWindow {
    CatalogueWindow { partition: PARTITION.into(), after, span }
}

#[test]
fn a_scan_is_taken_up_where_it_was_and_ends_once() {
    let mut world = world();
    for number in 0..31 {
        put(&mut world, &format!("/{number}"), 10);
    }
    assert_eq!((object_of(&mut world, "/0"), object_of(&mut world, "/30")), (ObjectId(1), ObjectId(31)));
    assert_eq!(order(&mut world), None);
    start(&mut world).unwrap();
    assert_eq!(refusal(start(&mut world)), ErrorKind::Busy);
    let first = order(&mut world).unwrap();
    assert_eq!(first.cursor, ScanCursor::START);
    world.advance(Millis(2000));
    assert!(world.room(report(first.scan, FindingKind::Lost, &[ObjectId(7)])).unwrap().goes_on);
    let running = info(&mut world);
    assert_eq!((running.looks, running.found, running.looks_per_s), (10, [1, 0, 0, 0, 0], 5.0));
    // From the first of 31 objects to the seventh in 2 s.
    assert_eq!(running.left, Some(Millis::from_seconds(8)));
    world.crash();
    let again = order(&mut world).unwrap();
    assert_eq!((again.scan, again.cursor), (first.scan, ScanCursor { through: ObjectId(7) }));
    // What was told before the interruption is told again.
    world.room(report(again.scan, FindingKind::Lost, &[ObjectId(7), ObjectId(8)])).unwrap();
    assert_eq!(info(&mut world).found, [2, 0, 0, 0, 0]);
    let end = ReportScan { is_done: true, ..report(again.scan, FindingKind::Lost, &[]) };
    assert!(!world.room(end.clone()).unwrap().goes_on);
    assert!(!world.room(end).unwrap().goes_on, "it was told twice");
    assert_eq!((info(&mut world).state, order(&mut world)), (ScanState::Done, None));
    start(&mut world).unwrap();
    assert!(
        world
            .user(GetFindings { partition: PARTITION.into(), after: ObjectId(0) })
            .unwrap()
            .findings
            .is_empty()
    );
    assert!(
        !world.room(report(first.scan, FindingKind::Lost, &[])).unwrap().goes_on,
        "it is another scan now"
    );
    world.user(StopScan { partition: None }).unwrap();
    assert_eq!((info(&mut world).state, order(&mut world)), (ScanState::Stopped, None));
}

#[test]
fn what_was_stopped_goes_on_where_it_had_come_to() {
    let mut world = world();
    put(&mut world, "/a", 10);
    let resume = |partition: Option<&str>| ResumeScan { partition: partition.map(str::to_owned) };
    assert_eq!(refusal(world.user(resume(None))), ErrorKind::NotFound, "there is none");
    start(&mut world).unwrap();
    let begun = order(&mut world).unwrap();
    assert_eq!(refusal(world.user(resume(Some(PARTITION)))), ErrorKind::NotFound, "it was not stopped");
    let object = object_of(&mut world, "/a");
    assert!(world.room(report(begun.scan, FindingKind::Lost, &[object])).unwrap().goes_on);
    world.user(StopScan { partition: None }).unwrap();
    // What was done before the disk server heard of it.
    let cursor = ScanCursor { through: ObjectId(9) };
    let late = ReportScan { cursor, ..report(begun.scan, FindingKind::Lost, &[]) };
    assert!(!world.room(late).unwrap().goes_on);
    assert_eq!((info(&mut world).state, info(&mut world).looks), (ScanState::Stopped, 20));
    world.user(resume(Some(PARTITION))).unwrap();
    assert_eq!(order(&mut world), Some(ScanOrder { cursor, ..begun }));
    assert_eq!((info(&mut world).state, info(&mut world).found), (ScanState::Running, [1, 0, 0, 0, 0]));
    assert_eq!(refusal(world.user(resume(Some("nowhere")))), ErrorKind::NotFound);
}

#[test]
fn what_is_lost_is_read_from_tape_and_what_is_nowhere_else_is_refused() {
    let mut world = world();
    put_archived(&mut world, "/both", 10);
    put(&mut world, "/alone", 10);
    let objects = [object_of(&mut world, "/both"), object_of(&mut world, "/alone")];
    start(&mut world).unwrap();
    let scan = order(&mut world).unwrap().scan;
    let done = ReportScan { is_done: true, ..report(scan, FindingKind::Lost, &objects) };
    world.room(done).unwrap();
    let mend = |scan, object, mending| MendFinding { partition: PARTITION.into(), scan, object, mending };
    assert_eq!(
        refusal(world.room(mend(scan, objects[0], Mending::Drop))),
        ErrorKind::NotFound,
        "nobody asked for it"
    );
    world.user(RepairScan { partition: PARTITION.into(), older_than: Millis(0) }).unwrap();
    let scan = order(&mut world).unwrap().scan;
    let open = world.room(NextFindings { partition: PARTITION.into(), after: ObjectId(0) }).unwrap().findings;
    assert_eq!(open.len(), 2);
    for object in objects {
        world.room(mend(scan, object, Mending::Drop)).unwrap();
        world.room(mend(scan, object, Mending::Drop)).unwrap();
        assert_eq!(
            known(&mut world, object),
            Known::Unknown,
            "its bytes are kept: nobody is told to delete them"
        );
        world.room(mend(scan, object, Mending::Mended("gone".into()))).unwrap();
    }
    assert_eq!(
        (state(&mut world, "/both"), state(&mut world, "/alone")),
        (FileState::Nearline, FileState::Lost)
    );
    assert_eq!(refusal(world.user(OpenRead { path: path("/alone") })), ErrorKind::Corrupt);
    assert_eq!(info(&mut world).mended, 2);
    assert!(
        world
            .room(NextFindings { partition: PARTITION.into(), after: ObjectId(0) })
            .unwrap()
            .findings
            .is_empty()
    );
    stage(&mut world, "/both", None).unwrap();
    run_drive(&mut world);
    assert_eq!(state(&mut world, "/both"), FileState::Both);
}

#[test]
fn nothing_but_what_was_found_wrong_is_dropped() {
    let mut world = world();
    put(&mut world, "/f", 10);
    let object = object_of(&mut world, "/f");
    start(&mut world).unwrap();
    let scan = order(&mut world).unwrap().scan;
    let done = ReportScan { is_done: true, ..report(scan, FindingKind::Orphan, &[ObjectId(900)]) };
    world.room(done).unwrap();
    world.user(RepairScan { partition: PARTITION.into(), older_than: Millis(0) }).unwrap();
    let scan = order(&mut world).unwrap().scan;
    for (object, kind) in [(object, ErrorKind::NotFound), (ObjectId(900), ErrorKind::Invalid)] {
        let drop = MendFinding { partition: PARTITION.into(), scan, object, mending: Mending::Drop };
        assert_eq!(refusal(world.room(drop)), kind);
    }
    assert_eq!(state(&mut world, "/f"), FileState::Online);
}

#[test]
fn findings_are_bounded_and_counted() {
    let mut world = world();
    start(&mut world).unwrap();
    let scan = order(&mut world).unwrap().scan;
    for first in (1..=FINDINGS_MAX + 1000).step_by(1000) {
        let objects: Vec<_> = (first..first + 1000).map(ObjectId).collect();
        world.room(report(scan, FindingKind::Orphan, &objects)).unwrap();
    }
    assert_eq!(info(&mut world).found[1], FINDINGS_MAX + 1000);
    let last = GetFindings { partition: PARTITION.into(), after: ObjectId(FINDINGS_MAX) };
    assert!(world.user(last).unwrap().findings.is_empty(), "more are not kept");
    let too_many: Vec<_> = (0..1001).map(ObjectId).collect();
    let ask = AskObjects { partition: PARTITION.into(), objects: too_many };
    assert_eq!(refusal(world.room(ask)), ErrorKind::Invalid);
}

#[test]
fn operators_scan_and_hosts_speak_for_their_own_partitions() {
    let mut world = world();
    let start = StartScan { partition: None, pace: PACE };
    assert_eq!(refusal(world.call(user("bob"), start)), ErrorKind::Permission);
    let repair = RepairScan { partition: PARTITION.into(), older_than: Millis(0) };
    assert_eq!(refusal(world.call(user("bob"), repair.clone())), ErrorKind::Permission);
    assert_eq!(refusal(world.user(repair)), ErrorKind::NotFound, "it was never scanned");
    let ask = AskObjects { partition: PARTITION.into(), objects: Vec::new() };
    assert_eq!(refusal(world.call(Principal::host("other"), ask)), ErrorKind::Permission);
    let nowhere = StartScan { partition: Some("nowhere".into()), pace: PACE };
    assert_eq!(refusal(world.user(nowhere)), ErrorKind::NotFound);
    let still = StartScan { partition: None, pace: ScanPace { objects_per_s: 0, ..PACE } };
    assert_eq!(refusal(world.user(still)), ErrorKind::Invalid);
}
