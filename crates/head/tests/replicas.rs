//! Rules of replicas: writers, evictions, pins, room, writes that were given up.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod support;

use base::{ErrorKind, Millis};
use sim::{Content, World};
use support::*;
use wire::control::{
    AbandonWrite, CommitWrite, Disposition, FileState, GetSpace, MovePartition, NextRemovals, OpenRead,
    ReadGrant, RequestKind,
};

fn removals(world: &mut World) -> usize {
    world.room(NextRemovals { partition: PARTITION.into() }).unwrap().objects.len()
}

#[test]
fn a_second_writer_is_told_to_wait() {
    let mut world = world();
    put(&mut world, "/f", 10);
    let grant = begin_write(&mut world, "/f", 20);
    for disposition in [Disposition::Replace, Disposition::Update] {
        let open = open_write("/f", disposition, 20);
        assert_eq!(refusal(world.user(open)), ErrorKind::Locked);
    }
    world.room(AbandonWrite { object: grant.object }).unwrap();
    begin_write(&mut world, "/f", 20);
}

#[test]
fn the_old_content_stays_readable_until_the_commit() {
    let mut world = world();
    let old = put(&mut world, "/f", 10);
    let grant = begin_write(&mut world, "/f", 20);
    let new = Content::numbered(20, 2);
    let ReadGrant::Online(object) = world.user(OpenRead { path: path("/f") }).unwrap() else {
        panic!("the old content is on disk");
    };
    assert_eq!((object.size, object.checksums), (10, old.sums));
    world
        .room(CommitWrite {
            object: grant.object,
            size: 20,
            checksums: new.sums,
            mirrors: Vec::new(),
            pieces: Vec::new(),
        })
        .unwrap();
    let entry = stat(&mut world, "/f").unwrap().entry;
    assert_eq!((entry.size, entry.checksums), (20, Some(new.sums)));
}

#[test]
fn a_file_that_is_written_for_the_first_time_cannot_be_read_staged_as_input_or_archived() {
    let mut world = world();
    begin_write(&mut world, "/f", 10);
    assert_eq!(state(&mut world, "/f"), FileState::Writing);
    assert_eq!(refusal(world.user(OpenRead { path: path("/f") })), ErrorKind::Locked);
    assert_eq!(refusal(ask_archive(&mut world, "/f")), ErrorKind::Locked);
    assert_eq!(refusal(world.submit(&[path("/f")], &path("/out"))), ErrorKind::Locked);
}

#[test]
fn a_nearline_file_is_not_updated_before_it_is_staged() {
    let mut world = world();
    put_nearline(&mut world, "/f", 10);
    let update = open_write("/f", Disposition::Update, 10);
    assert_eq!(refusal(world.user(update.clone())), ErrorKind::Busy);
    stage(&mut world, "/f", None).unwrap();
    run_drive(&mut world);
    let base = world.user(update).unwrap().base.expect("an update begins with the old content");
    assert_eq!(base.size, 10);
}

#[test]
fn an_update_needs_a_file() {
    let mut world = world();
    assert_eq!(refusal(world.user(open_write("/f", Disposition::Update, 1))), ErrorKind::NotFound);
}

#[test]
fn an_overwrite_drops_the_copy_of_the_old_content() {
    let mut world = world();
    put_archived(&mut world, "/f", 10);
    put(&mut world, "/f", 20);
    let info = stat(&mut world, "/f").unwrap();
    assert_eq!((info.entry.state, info.copies), (Some(FileState::Online), Vec::new()));
}

#[test]
fn an_overwrite_of_a_nearline_file_ends_its_recall() {
    let mut world = world();
    put_nearline(&mut world, "/f", 10);
    stage(&mut world, "/f", None).unwrap();
    put(&mut world, "/f", 20);
    assert_eq!(requests(&mut world), []);
    assert_eq!(state(&mut world, "/f"), FileState::Online);
}

#[test]
fn the_only_replica_is_not_evicted() {
    let mut world = world();
    put(&mut world, "/f", 10);
    assert_eq!(refusal(evict(&mut world, "/f")), ErrorKind::Busy);
    assert_eq!(state(&mut world, "/f"), FileState::Online);
}

#[test]
fn evicting_twice_is_the_same_as_once() {
    let mut world = world();
    put_archived(&mut world, "/f", 10);
    assert_eq!(evict(&mut world, "/f").unwrap(), FileState::Nearline);
    assert_eq!(evict(&mut world, "/f").unwrap(), FileState::Nearline);
    assert_eq!(removals(&mut world), 1);
}

#[test]
fn a_pinned_replica_is_not_evicted_until_the_pin_expires() {
    let mut world = world();
    put_archived(&mut world, "/f", 10);
    stage(&mut world, "/f", Some(Millis::from_seconds(60))).unwrap();
    assert_eq!(refusal(evict(&mut world, "/f")), ErrorKind::Busy);
    world.advance(Millis::from_seconds(61));
    evict(&mut world, "/f").unwrap();
}

#[test]
fn a_shorter_pin_does_not_shorten_a_longer_one() {
    let mut world = world();
    put_archived(&mut world, "/f", 10);
    stage(&mut world, "/f", Some(Millis::from_seconds(600))).unwrap();
    stage(&mut world, "/f", Some(Millis::from_seconds(1))).unwrap();
    world.advance(Millis::from_seconds(60));
    assert_eq!(refusal(evict(&mut world, "/f")), ErrorKind::Busy);
}

#[test]
fn an_input_of_a_job_is_not_evicted_until_the_job_is_over() {
    let mut world = world();
    put_archived(&mut world, "/f", 10);
    let job = world.submit(&[path("/f")], &path("/out")).unwrap();
    assert_eq!(refusal(evict(&mut world, "/f")), ErrorKind::Busy);
    world.user(wire::control::CancelJob { job }).unwrap();
    evict(&mut world, "/f").unwrap();
}

/// Three archived files of 290 kB on a disk of 1 MB.
fn nearly_full() -> World {
    let mut world = world();
    for name in ["/a", "/b", "/c"] {
        put_archived(&mut world, name, 290_000);
        world.advance(Millis::from_seconds(100));
    }
    world.clean(false);
    world
}

#[test]
fn room_is_made_by_evicting_the_least_recently_used() {
    let mut world = nearly_full();
    world.user(OpenRead { path: path("/a") }).unwrap();
    begin_write(&mut world, "/new", 200_000);
    let states = ["/a", "/b", "/c"].map(|name| state(&mut world, name));
    assert_eq!(states, [FileState::Both, FileState::Nearline, FileState::Both]);
    assert_eq!(removals(&mut world), 1);
}

#[test]
fn room_is_never_made_by_evicting_what_is_pinned_or_not_archived() {
    let mut world = world();
    put_archived(&mut world, "/a", 290_000);
    stage(&mut world, "/a", Some(Millis::from_seconds(3600))).unwrap();
    put(&mut world, "/b", 290_000);
    put(&mut world, "/c", 290_000);
    world.clean(false);
    let open = open_write("/new", Disposition::CreateNew, 200_000);
    assert_eq!(refusal(world.user(open)), ErrorKind::NoSpace);
    let states = ["/a", "/b", "/c"].map(|name| state(&mut world, name));
    assert_eq!(states, [FileState::Both, FileState::Online, FileState::Online]);
}

#[test]
fn nothing_is_evicted_for_a_file_that_would_not_fit_all_the_same() {
    let mut world = nearly_full();
    let open = open_write("/new", Disposition::CreateNew, 2_000_000);
    assert_eq!(refusal(world.user(open)), ErrorKind::NoSpace);
    assert_eq!(removals(&mut world), 0);
}

#[test]
fn room_that_is_promised_to_a_writer_is_not_promised_again() {
    let mut world = world();
    begin_write(&mut world, "/a", 600_000);
    let open = open_write("/b", Disposition::CreateNew, 600_000);
    assert_eq!(refusal(world.user(open)), ErrorKind::NoSpace);
}

#[test]
fn a_new_file_whose_disk_server_died_while_it_was_written_vanishes() {
    let mut world = world();
    begin_write(&mut world, "/f", 10);
    world.crash();
    assert_eq!(refusal(stat(&mut world, "/f")), ErrorKind::NotFound);
    assert_eq!(removals(&mut world), 1);
}

#[test]
fn a_file_whose_disk_server_died_while_it_was_overwritten_keeps_its_content() {
    let mut world = world();
    let content = put_archived(&mut world, "/f", 10);
    begin_write(&mut world, "/f", 20);
    world.crash();
    let info = stat(&mut world, "/f").unwrap();
    assert_eq!(info.entry.checksums, Some(content.sums));
    assert_eq!((info.entry.state, info.copies.len()), (Some(FileState::Both), 1));
    assert_eq!(removals(&mut world), 1);
}

#[test]
fn a_commit_that_comes_after_the_write_was_given_up_is_refused() {
    let mut world = world();
    let content = put(&mut world, "/f", 10);
    let grant = begin_write(&mut world, "/f", 20);
    world.room(AbandonWrite { object: grant.object }).unwrap();
    let commit = CommitWrite {
        object: grant.object,
        size: 20,
        checksums: Content::numbered(20, 2).sums,
        mirrors: Vec::new(),
        pieces: Vec::new(),
    };
    assert_eq!(refusal(world.room(commit)), ErrorKind::NotFound);
    assert_eq!(stat(&mut world, "/f").unwrap().entry.checksums, Some(content.sums));
}

#[test]
fn giving_up_a_write_twice_is_the_same_as_once() {
    let mut world = world();
    let grant = begin_write(&mut world, "/f", 20);
    world.room(AbandonWrite { object: grant.object }).unwrap();
    world.room(AbandonWrite { object: grant.object }).unwrap();
    assert_eq!(removals(&mut world), 1);
}

#[test]
fn opening_a_nearline_file_asks_for_its_recall() {
    let mut world = world();
    put_nearline(&mut world, "/f", 10);
    let read = OpenRead { path: path("/f") };
    let grant = world.user(read.clone()).unwrap();
    let info = stat(&mut world, "/f").unwrap();
    assert_eq!(grant, ReadGrant::Recalling { file: info.entry.id });
    assert!(info.waits.unwrap().contains("SIM001"));
    assert_eq!(request(&mut world).kind, RequestKind::Recall);
    run_drive(&mut world);
    assert!(matches!(world.user(read).unwrap(), ReadGrant::Online(_)));
}

#[test]
fn space_is_what_is_neither_used_nor_promised() {
    let mut world = world();
    let space = world.user(GetSpace {}).unwrap();
    assert_eq!(
        (space.total_bytes, space.free_bytes, space.largest_free_bytes),
        (1_000_000, 1_000_000, 1_000_000)
    );
    put(&mut world, "/f", 1000);
    begin_write(&mut world, "/g", 20_000);
    let space = world.user(GetSpace {}).unwrap();
    assert_eq!((space.free_bytes, space.largest_free_bytes), (979_000, 979_000));
}

#[test]
fn no_disk_server_is_unavailable_not_full() {
    let mut world = world();
    let away = MovePartition { partition: PARTITION.into(), pool: "other".into() };
    world.user(away).unwrap();
    let open = open_write("/f", Disposition::CreateNew, 10);
    assert_eq!(refusal(world.user(open)), ErrorKind::Unavailable);
}
