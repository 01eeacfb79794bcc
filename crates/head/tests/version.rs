//! What raises the version of the namespace, and what does not.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod support;

use base::{Millis, ObjectId};
use sim::World;
use support::*;
use wire::control::{
    AbandonWrite, Disposition, GetBill, GetStatus, Mkdir, NextJob, NextRemovals, OpenRead, OpenWrite,
    ReadGrant, Remove, Rename, ReportSpace, ReportTraffic, ReportUse, SetMode, SetVolumeState, VolumeState,
};

/// How much `what` raises the version.
fn raised<T>(world: &mut World, what: impl FnOnce(&mut World) -> T) -> u64 {
    let before = world.namespace_version();
    what(world);
    world.namespace_version() - before
}

#[track_caller]
fn raises<T>(world: &mut World, what: impl FnOnce(&mut World) -> T) {
    assert_ne!(raised(world, what), 0);
}

fn traffic(owner: &str, out_bytes: u64) -> ReportTraffic {
    ReportTraffic { owner: owner.into(), out_bytes, out_transfers: 1, object: None }
}

#[track_caller]
fn leaves<T>(world: &mut World, what: impl FnOnce(&mut World) -> T) {
    assert_eq!(raised(world, what), 0);
}

fn read_object(world: &mut World, at: &str) -> ObjectId {
    match world.user(OpenRead { path: path(at) }).unwrap() {
        ReadGrant::Online(object) => object.object,
        ReadGrant::Recalling { .. } => panic!("{at} is online"),
    }
}

#[test]
fn what_names_and_replicas_show_raises_it() {
    let mut world = world();
    raises(&mut world, |world| put(world, "/d/f", 10));
    raises(&mut world, |world| put(world, "/d/f", 20));
    raises(&mut world, |world| world.user(Mkdir { path: path("/e"), mode: 0o755, parents: false }).unwrap());
    raises(&mut world, |world| world.user(SetMode { path: path("/d/f"), mode: 0o600 }).unwrap());
    raises(&mut world, |world| {
        world.user(Rename { from: path("/d/f"), to: path("/e/g"), is_new: false, parents: false }).unwrap()
    });
    ask_archive(&mut world, "/e/g").unwrap();
    raises(&mut world, run_drive);
    raises(&mut world, |world| evict(world, "/e/g").unwrap());
    world.clean(false);
    stage(&mut world, "/e/g", None).unwrap();
    raises(&mut world, run_drive);
    raises(&mut world, |world| world.user(Remove { path: path("/e/g") }).unwrap());
}

#[test]
fn a_copy_that_becomes_the_second_choice_raises_it() {
    let mut world = world();
    put_archived(&mut world, "/f", 10);
    let vid = stat(&mut world, "/f").unwrap().copies[0].vid.clone();
    raises(&mut world, |world| {
        world.user(SetVolumeState { vid, state: VolumeState::Suspect, reason: String::new() }).unwrap()
    });
}

#[test]
fn queues_reports_and_reads_leave_it() {
    let mut world = world();
    put_archived(&mut world, "/f", 10);
    put(&mut world, "/g", 10);
    evict(&mut world, "/f").unwrap();
    leaves(&mut world, |world| world.clean(false));
    leaves(&mut world, |world| stage(world, "/f", Some(Millis::from_seconds(60))).unwrap());
    leaves(&mut world, |world| ask_archive(world, "/g").unwrap());
    leaves(&mut world, |world| next_session(world).unwrap());
    leaves(&mut world, |world| {
        world.user(GetStatus {}).unwrap();
        world.user(GetBill {}).unwrap();
        world
            .room(NextJob {
                worker: WORKER.into(),
                runs: Vec::new(),
                killing: Vec::new(),
                delivered: 0,
                load: None,
            })
            .unwrap();
        world.room(NextRemovals { partition: PARTITION.into() }).unwrap();
        let report = ReportSpace { free_bytes: 5, ..world.report() };
        world.room(report).unwrap();
        let line = traffic("ada", 2);
        world.room(ReportUse { traffic: vec![line], opened: Vec::new() }).unwrap();
    });
    world.advance(Millis::from_seconds(3600));
    leaves(&mut world, |world| read_object(world, "/g"));
}

#[test]
fn a_write_over_an_old_file_raises_it_at_its_commit_only() {
    let mut world = world();
    put(&mut world, "/f", 10);
    let mut grant = None;
    leaves(&mut world, |world| grant = Some(begin_write(world, "/f", 20)));
    let object = grant.unwrap().object;
    leaves(&mut world, |world| world.room(AbandonWrite { object }).unwrap());
}

#[test]
fn a_refused_call_leaves_it() {
    let mut world = world();
    put(&mut world, "/f", 10);
    leaves(&mut world, |world| {
        let full: OpenWrite = open_write("/new/directory/f", Disposition::CreateNew, u64::MAX >> 2);
        world.user(full).unwrap_err();
        world.call(user("eve"), SetMode { path: path("/f"), mode: 0o600 }).unwrap_err();
        world
            .user(Rename { from: path("/nothing"), to: path("/f"), is_new: false, parents: false })
            .unwrap_err();
    });
}

#[test]
fn a_report_of_uses_bills_everybody_and_keeps_replicas() {
    let mut world = world();
    let mut objects = Vec::new();
    for name in ["/a", "/b", "/c"] {
        put_archived(&mut world, name, 290_000);
        objects.push(read_object(&mut world, name));
        world.advance(Millis::from_seconds(100));
    }
    world.clean(false);
    let traffic = vec![traffic("bob", 5), traffic("eve", 7), traffic("bob", 11)];
    let report = ReportUse { traffic, opened: vec![objects[0], ObjectId(999_999), objects[1]] };
    leaves(&mut world, |world| world.room(report).unwrap());
    begin_write(&mut world, "/new", 200_000);
    assert_eq!(state(&mut world, "/c"), wire::control::FileState::Nearline, "it was used longest ago");
    let bill = world.user(GetBill {}).unwrap().lines;
    let out = |name: &str| {
        bill.iter().find(|line| line.owner == name).map(|line| (line.in_bytes, line.out_bytes)).unwrap()
    };
    assert_eq!((out("bob"), out("eve")), ((0, 16), (0, 7)));
}

#[test]
fn a_report_that_is_too_long_is_refused() {
    let mut world = world();
    let report = ReportUse { traffic: Vec::new(), opened: vec![ObjectId(1); 65_537] };
    assert_eq!(refusal(world.room(report)), base::ErrorKind::Invalid);
}
