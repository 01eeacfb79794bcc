//! Verification by the pools' intervals: when it begins, that it makes way, that it is resumed, and what becomes of damage.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod support;

use base::{ErrorKind, Millis, ObjectId};
use sim::World;
use support::*;
use wire::control::{
    FileState, Finding, FindingKind, GetFindings, GetPools, GetScans, MendFinding, Mending, NextScan,
    OpenRead, PartitionInfo, Pool, ReadGrant, ReportScan, RequestKind, RunMaintenance, ScanCursor, ScanOrder,
    ScanPace, ScanState, ScanWork, ScrubInfo, SetPool, StartScan, StopScan,
};

const INTERVAL: Millis = Millis::from_seconds(1000);

/// A facility whose pool wants every byte to be verified; the partition was seen.
fn verified() -> World {
    let mut world = world();
    world.user(SetPool { pool: Pool { verify_interval: INTERVAL, ..Pool::default() } }).unwrap();
    maintain(&mut world);
    world
}

fn maintain(world: &mut World) {
    world.advance(Millis(6000));
    world.room(world.report()).unwrap();
    while world.room(RunMaintenance {}).unwrap().is_more {}
}

/// Lets the interval pass.
fn wait(world: &mut World) {
    world.advance(INTERVAL);
    maintain(world);
}

fn order(world: &mut World) -> Option<ScanOrder> {
    world.room(NextScan { partition: PARTITION.into() }).unwrap().order
}

fn scrub(world: &mut World) -> ScrubInfo {
    world.user(GetScans {}).unwrap().scrubs.remove(0)
}

fn partition(world: &mut World) -> PartitionInfo {
    world.user(GetPools {}).unwrap().pools.remove(0).partitions.remove(0)
}

fn report(scan: u64, damaged: &[ObjectId]) -> ReportScan {
    let kind = FindingKind::WrongChecksum;
    let finding = |object: &ObjectId| Finding { object: *object, kind, file: None, detail: "x".into() };
    ReportScan {
        partition: PARTITION.into(),
        scan,
        cursor: ScanCursor { through: ObjectId(7) },
        looks: 10,
        bytes: 100,
        findings: damaged.iter().map(finding).collect(),
        is_done: false,
        trouble: None,
    }
}

fn end(scan: u64) -> ReportScan {
    ReportScan { is_done: true, ..report(scan, &[]) }
}

fn object_of(world: &mut World, at: &str) -> ObjectId {
    match world.user(OpenRead { path: path(at) }).unwrap() {
        ReadGrant::Online(grant) => grant.object,
        ReadGrant::Recalling { .. } => panic!("{at} is online"),
    }
}

fn mend(world: &mut World, scan: u64, object: ObjectId, mending: Mending) -> base::Result<()> {
    let call = MendFinding { partition: PARTITION.into(), scan, object, mending };
    world.room(call).map(drop)
}

#[test]
fn bytes_are_verified_once_in_the_interval() {
    let mut world = verified();
    assert_eq!(order(&mut world), None, "what is new was compared when it was written");
    assert_eq!(partition(&mut world).verified, None);
    wait(&mut world);
    let first = order(&mut world).unwrap();
    assert_eq!((first.work, first.pace.is_checksummed), (ScanWork::Scrub, true));
    assert_eq!(partition(&mut world).verified_percent, Some(0));
    wait(&mut world);
    assert_eq!(order(&mut world).unwrap().scan, first.scan, "one at a time");
    assert!(!world.room(end(first.scan)).unwrap().goes_on);
    let finished = world.now;
    assert_eq!(
        (scrub(&mut world).finished, partition(&mut world).verified),
        (Some(finished), Some(finished))
    );
    assert_eq!(partition(&mut world).verified_percent, None);
    world.crash();
    assert_eq!(partition(&mut world).verified, Some(finished), "it is durable");
    // The interval counts from beginning to beginning, and one has passed since.
    maintain(&mut world);
    let second = order(&mut world).unwrap();
    assert!(second.scan > first.scan);
    world.room(end(second.scan)).unwrap();
    maintain(&mut world);
    assert_eq!(order(&mut world), None);
}

#[test]
fn it_is_taken_up_where_it_was() {
    let mut world = verified();
    wait(&mut world);
    let scan = order(&mut world).unwrap().scan;
    assert!(world.room(report(scan, &[])).unwrap().goes_on);
    assert!(partition(&mut world).verified_percent.is_some());
    world.crash();
    let again = order(&mut world).unwrap();
    assert_eq!((again.scan, again.cursor), (scan, ScanCursor { through: ObjectId(7) }));
    assert_eq!(scrub(&mut world).scan.unwrap().looks, 10);
}

#[test]
fn it_makes_way_for_what_a_person_wants() {
    let mut world = verified();
    wait(&mut world);
    let scrub_number = order(&mut world).unwrap().scan;
    let pace = ScanPace { is_checksummed: true, objects_per_s: 10, bytes_per_s: 10 };
    world.user(StartScan { partition: None, pace }).unwrap();
    assert!(!world.room(report(scrub_number, &[])).unwrap().goes_on);
    let scan = order(&mut world).unwrap();
    assert_eq!(scan.work, ScanWork::Look);
    assert_ne!(scan.scan, scrub_number);
    assert!(world.room(report(scan.scan, &[])).unwrap().goes_on);
    world.room(end(scan.scan)).unwrap();
    let again = order(&mut world).unwrap();
    assert_eq!((again.scan, again.cursor.through), (scrub_number, ObjectId(7)), "it goes on where it was");
    world.user(StopScan { partition: None }).unwrap();
    assert_eq!(order(&mut world), None);
    assert_eq!(scrub(&mut world).scan.unwrap().state, ScanState::Stopped);
    wait(&mut world);
    assert!(order(&mut world).is_some(), "the next one begins in its time");
}

#[test]
fn a_scan_of_all_bytes_by_a_person_counts() {
    let mut world = verified();
    world.advance(Millis(INTERVAL.0 / 2));
    let pace = ScanPace { is_checksummed: true, objects_per_s: 10, bytes_per_s: 10 };
    world.user(StartScan { partition: None, pace }).unwrap();
    let scan = order(&mut world).unwrap().scan;
    world.room(end(scan)).unwrap();
    let finished = world.now;
    assert_eq!(partition(&mut world).verified, Some(finished));
    world.advance(Millis(INTERVAL.0 / 2));
    maintain(&mut world);
    assert_eq!(order(&mut world), None);
    world.advance(Millis(INTERVAL.0 / 2));
    maintain(&mut world);
    assert!(order(&mut world).is_some());
}

#[test]
fn what_is_damaged_comes_back_from_tape() {
    let mut world = verified();
    put_archived(&mut world, "/f", 10);
    let damaged = object_of(&mut world, "/f");
    wait(&mut world);
    let scan = order(&mut world).unwrap().scan;
    assert_eq!(refusal(mend(&mut world, scan, damaged, Mending::Drop)), ErrorKind::NotFound, "not found yet");
    world.room(report(scan, &[damaged])).unwrap();
    mend(&mut world, scan, damaged, Mending::Drop).unwrap();
    mend(&mut world, scan, damaged, Mending::Mended("moved".into())).unwrap();
    assert_eq!(state(&mut world, "/f"), FileState::Nearline);
    assert_eq!(request(&mut world).kind, RequestKind::Recall, "nobody has to ask for it");
    run_drive(&mut world);
    assert_eq!(state(&mut world, "/f"), FileState::Both);
    assert_ne!(object_of(&mut world, "/f"), damaged);
    let info = scrub(&mut world).scan.unwrap();
    assert_eq!((info.found.iter().sum::<u64>(), info.mended, partition(&mut world).damaged), (1, 1, 0));
    let findings = world.user(GetFindings { partition: PARTITION.into(), after: ObjectId(0) }).unwrap();
    assert_eq!(findings.findings[0].outcome, "moved");
}

#[test]
fn the_only_copy_is_never_dropped_and_reported_each_time() {
    let mut world = verified();
    put(&mut world, "/alone", 10);
    let damaged = object_of(&mut world, "/alone");
    for _ in 0..2 {
        wait(&mut world);
        let scan = order(&mut world).unwrap().scan;
        world.room(report(scan, &[damaged])).unwrap();
        assert_eq!(refusal(mend(&mut world, scan, damaged, Mending::Drop)), ErrorKind::Corrupt);
        mend(&mut world, scan, damaged, Mending::Left("it is the only one".into())).unwrap();
        world.room(end(scan)).unwrap();
        assert_eq!(state(&mut world, "/alone"), FileState::Online);
        assert_eq!(partition(&mut world).damaged, 1);
    }
}

#[test]
fn what_a_person_has_not_decided_yet_is_not_forgotten() {
    let mut world = verified();
    let pace = ScanPace { is_checksummed: false, objects_per_s: 10, bytes_per_s: 10 };
    world.user(StartScan { partition: None, pace }).unwrap();
    let scan = order(&mut world).unwrap().scan;
    world.room(report(scan, &[ObjectId(900)])).unwrap();
    world.room(end(scan)).unwrap();
    wait(&mut world);
    assert_eq!(order(&mut world).unwrap().work, ScanWork::Scrub);
    let findings = world.user(GetFindings { partition: PARTITION.into(), after: ObjectId(0) }).unwrap();
    assert_eq!(findings.findings.len(), 1);
}
