//! Free space for what is written: a pool of files that are safe on tape is not full.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod support;

use base::{ErrorKind, Millis, ObjectId, rng::Rng};
use sim::World;
use std::collections::BTreeMap;
use support::*;
use wire::control::{
    AbandonWrite, CommitWrite, Disposition, Done, FileState, FreeSpace, GetSpace, Mkdir, NextRemovals,
    ObjectsRemoved, OpenWrite, QuotaKind, ReportSpace, SetQuota,
};

/// The partition of the simulation has room for ten of these.
const LARGE: u64 = 100_000;

fn free_up(world: &mut World, object: ObjectId, bytes: u64) -> base::Result<Done> {
    world.room(FreeSpace { object, bytes })
}

/// Files on disk and on tape, each used later than the one before.
fn put_all(world: &mut World, count: u64) {
    for number in 0..count {
        put_archived(world, &format!("/f{number}"), LARGE);
        world.advance(Millis(1000));
    }
    world.room(world.report()).unwrap();
}

fn on_disk(world: &mut World, count: u64) -> usize {
    (0..count).filter(|number| state(world, &format!("/f{number}")) != FileState::Nearline).count()
}

#[test]
fn what_is_being_deleted_counts_as_free_and_is_not_evicted_twice() {
    let mut world = world();
    put_all(&mut world, 9);
    begin_write(&mut world, "/a", LARGE / 2);
    assert_eq!(on_disk(&mut world, 9), 9);
    begin_write(&mut world, "/b", LARGE);
    assert_eq!(on_disk(&mut world, 9), 8);
    // Nothing was deleted yet: the next write counts on it all the same.
    begin_write(&mut world, "/c", LARGE / 4);
    assert_eq!(on_disk(&mut world, 9), 8);
    for number in 0..8 {
        begin_write(&mut world, &format!("/d{number}"), LARGE);
    }
    assert_eq!(on_disk(&mut world, 9), 0);
    assert_eq!(refusal(world.user(open_write("/e", Disposition::CreateNew, LARGE))), ErrorKind::NoSpace);
}

#[test]
fn what_a_write_has_taken_is_not_subtracted_twice() {
    let mut world = world();
    let grants: Vec<_> =
        (0..9).map(|number| begin_write(&mut world, &format!("/w{number}"), LARGE)).collect();
    // The disk server has taken the space of all of them from what is free.
    let report = |free_bytes| ReportSpace {
        free_bytes,
        writing: grants.iter().map(|grant| grant.object).collect(),
        written: vec![0; grants.len()],
        claimed: grants.iter().map(|grant| (grant.object, LARGE)).collect(),
        ..world.report()
    };
    world.room(report(LARGE)).unwrap();
    assert_eq!(world.user(GetSpace {}).unwrap().free_bytes, LARGE);
    let last = begin_write(&mut world, "/last", LARGE / 2);
    assert_eq!(world.user(GetSpace {}).unwrap().free_bytes, LARGE / 2);
    // Neither when it ends, before the next report.
    let sums = sim::Content::numbered(LARGE, 7).sums;
    let commit = CommitWrite {
        object: grants[0].object,
        size: LARGE,
        checksums: sums,
        mirrors: vec![],
        pieces: vec![],
    };
    world.room(commit).unwrap();
    assert_eq!(world.user(GetSpace {}).unwrap().free_bytes, LARGE / 2);
    world.room(AbandonWrite { object: last.object }).unwrap();
    assert_eq!(world.user(GetSpace {}).unwrap().free_bytes, LARGE);
}

#[test]
fn space_that_a_write_has_taken_at_once_is_not_waited_for_again() {
    let mut world = world();
    put_all(&mut world, 9);
    let first = begin_write(&mut world, "/a", LARGE / 2);
    let second = begin_write(&mut world, "/b", LARGE);
    assert_eq!(on_disk(&mut world, 9), 8);
    let partition = PARTITION.to_owned();
    let objects = world.room(NextRemovals { partition: partition.clone() }).unwrap().objects;
    world.room(ObjectsRemoved { partition, objects }).unwrap();
    // Both waited for it, and have it before the disk server says what is free.
    let claimed = vec![(first.object, LARGE / 2), (second.object, LARGE)];
    let (writing, written) = (vec![first.object, second.object], vec![0, 0]);
    let report = ReportSpace { free_bytes: LARGE / 2, writing, written, claimed, ..world.report() };
    world.room(report).unwrap();
    begin_write(&mut world, "/c", LARGE);
    assert_eq!(on_disk(&mut world, 9), 7, "nothing is being deleted that it could wait for");
}

#[test]
fn a_write_of_unknown_length_evicts_as_it_grows() {
    let mut world = world();
    put_all(&mut world, 9);
    let grant = begin_write(&mut world, "/stream", 0);
    assert_eq!(on_disk(&mut world, 9), 9, "a part of it is free");
    free_up(&mut world, grant.object, LARGE).unwrap();
    assert!((7..9).contains(&on_disk(&mut world, 9)));
    let waits = stat(&mut world, "/stream").unwrap().waits.unwrap();
    assert!(waits.contains("space") && waits.contains(PARTITION), "{waits}");
    free_up(&mut world, grant.object, 9 * LARGE).unwrap();
    assert_eq!(on_disk(&mut world, 9), 1);
    free_up(&mut world, grant.object, 10 * LARGE).unwrap();
    assert_eq!(on_disk(&mut world, 9), 0);
    assert_eq!(refusal(free_up(&mut world, grant.object, 11 * LARGE)), ErrorKind::NoSpace);
    // What it asked for is promised to it.
    assert_eq!(refusal(world.user(open_write("/other", Disposition::CreateNew, LARGE))), ErrorKind::NoSpace);
    world.advance(Millis(60_000));
    assert_eq!(stat(&mut world, "/stream").unwrap().waits, None, "nobody has asked for long");
}

#[test]
fn what_is_not_safe_elsewhere_or_is_pinned_is_not_evicted_for_a_write() {
    let mut world = world();
    for number in 0..8 {
        put(&mut world, &format!("/f{number}"), LARGE);
    }
    put_archived(&mut world, "/pinned", LARGE);
    stage(&mut world, "/pinned", Some(Millis(1_000_000))).unwrap();
    world.room(world.report()).unwrap();
    let grant = begin_write(&mut world, "/stream", 0);
    let failure = free_up(&mut world, grant.object, 2 * LARGE).unwrap_err();
    assert_eq!(failure.kind, ErrorKind::NoSpace);
    assert!(failure.what.contains(PARTITION) && failure.hint.is_some(), "{failure:?}");
    assert_eq!(state(&mut world, "/pinned"), FileState::Both);
    free_up(&mut world, grant.object, LARGE).unwrap();
}

#[test]
fn a_quota_holds_as_a_write_grows() {
    let mut world = world();
    put_all(&mut world, 9);
    let (kind, name, bytes) = (QuotaKind::User, "bob".to_owned(), Some(2 * LARGE));
    world.user(SetQuota { kind, name, bytes, files: None }).unwrap();
    let open = OpenWrite { parents: false, ..open_write("/home/stream", Disposition::CreateNew, 0) };
    world.user(Mkdir { path: path("/home"), mode: 0o777, parents: false }).unwrap();
    let grant = world.call(user("bob"), open).unwrap();
    free_up(&mut world, grant.object, LARGE).unwrap();
    assert_eq!(refusal(free_up(&mut world, grant.object, 3 * LARGE)), ErrorKind::OverQuota);
}

/// Whatever is written, evicted and deleted when: a write is refused only where it does not fit beside what must stay.
#[test]
fn a_write_that_fits_beside_what_must_stay_is_never_refused() {
    for seed in 0..20 {
        let mut rng = Rng::new(seed);
        let mut world = world();
        let (mut staying, mut written) = (0, BTreeMap::new());
        for number in 0..40_u64 {
            let at = format!("/f{number}");
            let size = 1 + rng.below(4 * LARGE);
            let fits = size + staying < world.disk.capacity;
            let outcome = world.write(&path(&at), sim::Content::numbered(size, number));
            assert_eq!(outcome.is_ok(), fits, "seed {seed}, {at}: {size} beside {staying}: {outcome:?}");
            if outcome.is_err() {
                continue;
            }
            if rng.chance(4, 5) {
                ask_archive(&mut world, &at).unwrap();
                run_drive(&mut world);
            }
            // Also what no volume had room for.
            if state(&mut world, &at) != FileState::Both {
                staying += size;
            }
            written.insert(at, size);
            world.advance(Millis(1 + rng.below(4000) as i64));
            if rng.chance(1, 2) {
                world.clean(false);
            }
        }
        assert!(written.len() > 5, "seed {seed}");
        for (at, size) in written {
            assert_eq!(stat(&mut world, &at).unwrap().entry.size, size);
        }
    }
}
