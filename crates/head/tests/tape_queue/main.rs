//! Rules of the tape queue: one row for each file and direction, failures, volumes, the bill of loads.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod bundles;
mod classes;
mod operator;
mod repack;
mod requests;
mod stages;
#[path = "../support/mod.rs"]
mod support;
mod verify;
mod volumes;

use base::{Cause, ErrorKind, Failure, Millis};
use requests::stage_as;
use sim::{Content, Mishap, World};
use support::*;
use wire::control::{
    Archive, ArchivedCopy, Await, Blame, CommitWrite, EndTapeSession, FileRecalled, FileState, FilesArchived,
    GetBill, Release, RequestKind, TapeSession, TapeWork, Want,
};

fn end_with(world: &mut World, session: &TapeSession, blame: Blame, failure: Failure) {
    let end = EndTapeSession { session: session.id, loads: 1, trouble: Some((blame, failure)) };
    world.room(end).unwrap();
}

/// The append point and the requests of a session that writes.
fn reported(session: &TapeSession) -> FilesArchived {
    let TapeWork::Archive { append, files } = &session.work else { panic!("the session writes") };
    let copy = |(index, file): (usize, &wire::control::ArchiveFile)| ArchivedCopy {
        request: file.request,
        fseq: append.fseq + index as u32,
        block: append.block + 10 * index as u64,
        end_block: append.block + 10 * (index as u64 + 1),
        member: None,
    };
    let copies = files.iter().enumerate().map(copy).collect();
    FilesArchived { session: session.id, copies, used_bytes: 1000 }
}

#[test]
fn staging_twice_makes_one_row_for_two_askers() {
    let mut world = world();
    put_nearline(&mut world, "/f", 10);
    for name in ["ada", "bob"] {
        let stage = wire::control::Stage { paths: vec![path("/f")], pin: None };
        let outcome = world.call(user(name), stage).unwrap();
        assert!(outcome.files[0].waits.is_some(), "both are told what they wait for");
    }
    let row = request(&mut world);
    assert_eq!((row.kind, row.owner.as_str()), (RequestKind::Recall, "ada"));
}

#[test]
fn archiving_twice_makes_one_row_and_one_copy() {
    let mut world = world();
    put(&mut world, "/f", 10);
    ask_archive(&mut world, "/f").unwrap();
    ask_archive(&mut world, "/f").unwrap();
    request(&mut world);
    run_drive(&mut world);
    assert_eq!(ask_archive(&mut world, "/f").unwrap(), FileState::Both);
    assert_eq!(requests(&mut world), []);
    assert_eq!(stat(&mut world, "/f").unwrap().copies.len(), 1);
}

#[test]
fn a_file_that_fits_on_no_volume_is_refused_at_once_and_the_next_goes_on() {
    let mut world = world();
    put(&mut world, "/large", 700_000);
    put(&mut world, "/small", 10);
    let failure = ask_archive(&mut world, "/large").unwrap_err();
    assert_eq!(failure.kind, ErrorKind::NoSpace);
    for word in ["/large", "688 KiB", "586 KiB"] {
        assert!(failure.what.contains(word), "{word} in {failure}");
    }
    ask_archive(&mut world, "/small").unwrap();
    run_drive(&mut world);
    let states = ["/large", "/small"].map(|name| state(&mut world, name));
    assert_eq!(states, [FileState::Online, FileState::Both]);
}

#[test]
fn a_file_that_no_partition_can_hold_is_not_recalled() {
    let mut world = world();
    put_nearline(&mut world, "/large", 200_000);
    put_nearline(&mut world, "/small", 10);
    // The disk was replaced by a smaller one.
    world.disk.capacity = 100_000;
    world.clean(false);
    let failure = stage(&mut world, "/large", None).unwrap_err();
    assert_eq!(failure.kind, ErrorKind::NoSpace);
    for word in ["/large", "195 KiB", "97.7 KiB"] {
        assert!(failure.what.contains(word), "{word} in {failure}");
    }
    stage(&mut world, "/small", None).unwrap();
    run_drive(&mut world);
    assert_eq!(state(&mut world, "/small"), FileState::Both);
}

fn release(world: &mut World, who: &str, at: &str, after: Option<Millis>) -> base::Result<FileState> {
    let call = Release { paths: vec![path(at)], after, user: None };
    let mut files = world.call(user(who), call)?.files;
    let file = files.remove(0);
    file.failure.map_or_else(|| Ok(file.state.unwrap()), Err)
}

#[test]
fn pins_are_released_and_shortened_by_their_holder() {
    let mut world = world();
    put_archived(&mut world, "/f", 10);
    stage_as(&mut world, "ada", "/f");
    stage_as(&mut world, "bob", "/f");
    assert_eq!(refusal(release(&mut world, "cyd", "/f", None)), ErrorKind::NotFound);
    release(&mut world, "ada", "/f", None).unwrap();
    assert_eq!(stat(&mut world, "/f").unwrap().pins, ["user bob"]);
    release(&mut world, "bob", "/f", Some(Millis::from_seconds(60))).unwrap();
    // No pin is made longer by letting go of it.
    release(&mut world, "bob", "/f", Some(Millis::from_seconds(600))).unwrap();
    world.advance(Millis::from_seconds(61));
    assert_eq!(evict(&mut world, "/f").unwrap(), FileState::Nearline);
}

#[test]
fn staging_what_is_online_asks_for_nothing() {
    let mut world = world();
    put(&mut world, "/f", 10);
    assert_eq!(stage(&mut world, "/f", None).unwrap(), FileState::Online);
    assert_eq!(requests(&mut world), []);
}

#[test]
fn one_bad_path_does_not_stop_the_others() {
    let mut world = world();
    put(&mut world, "/f", 10);
    let archive = Archive { paths: vec![path("/missing"), path("/f")] };
    let files = world.user(archive).unwrap().files;
    assert_eq!(files[0].failure.as_ref().unwrap().kind, ErrorKind::NotFound);
    assert_eq!(files[1].state, Some(FileState::Online));
    request(&mut world);
}

#[test]
fn archiving_needs_the_right_to_write_and_staging_to_read() {
    let mut world = world();
    put(&mut world, "/f", 10);
    let archive = world.call(user("eve"), Archive { paths: vec![path("/f")] }).unwrap();
    assert_eq!(archive.files[0].failure.as_ref().unwrap().kind, ErrorKind::Permission);
    let stage = wire::control::Stage { paths: vec![path("/f")], pin: None };
    assert_eq!(world.call(user("eve"), stage).unwrap().files[0].failure, None);
}

#[test]
fn an_archive_of_a_file_that_was_overwritten_meanwhile_is_repeated() {
    let mut world = world();
    put(&mut world, "/f", 10);
    ask_archive(&mut world, "/f").unwrap();
    let session = archive_session(&mut world);
    let new = Content::numbered(20, 2);
    let grant = begin_write(&mut world, "/f", 20);
    world
        .room(CommitWrite {
            object: grant.object,
            size: 20,
            checksums: new.sums,
            mirrors: Vec::new(),
            pieces: Vec::new(),
        })
        .unwrap();
    world.room(reported(&session)).unwrap();
    end_session(&mut world, &session, 1);
    assert_eq!(state(&mut world, "/f"), FileState::Online);
    let again = next_session(&mut world).expect("the new content is to be written");
    let TapeWork::Archive { append, files } = &again.work else { panic!("the session writes") };
    assert_eq!((append.fseq, files[0].checksums), (2, new.sums), "behind the copy of the old content");
    world.room(reported(&again)).unwrap();
    assert_eq!(state(&mut world, "/f"), FileState::Both);
    assert_eq!(stat(&mut world, "/f").unwrap().copies[0].fseq, 2);
}

#[test]
fn a_copy_of_a_file_that_was_removed_meanwhile_is_passed_over() {
    let mut world = world();
    for name in ["/f", "/g"] {
        put(&mut world, name, 10);
        ask_archive(&mut world, name).unwrap();
    }
    let session = archive_session(&mut world);
    world.user(wire::control::Remove { path: path("/f") }).unwrap();
    world.room(reported(&session)).unwrap();
    assert_eq!(stat(&mut world, "/g").unwrap().copies[0].fseq, 2);
}

#[test]
fn a_report_that_comes_twice_counts_once() {
    let mut world = world();
    put(&mut world, "/f", 10);
    ask_archive(&mut world, "/f").unwrap();
    let session = archive_session(&mut world);
    world.room(reported(&session)).unwrap();
    world.room(reported(&session)).unwrap();
    assert_eq!(stat(&mut world, "/f").unwrap().copies.len(), 1);
    assert_eq!(volume(&mut world, "SIM001").files, 1);
}

#[test]
fn a_copy_that_does_not_follow_the_known_end_is_refused() {
    let mut world = world();
    put(&mut world, "/f", 10);
    ask_archive(&mut world, "/f").unwrap();
    let session = archive_session(&mut world);
    for (fseq, block) in [(2, 1), (1, 2)] {
        let mut report = reported(&session);
        (report.copies[0].fseq, report.copies[0].block) = (fseq, block);
        report.copies[0].end_block = block + 10;
        assert_eq!(refusal(world.room(report)), ErrorKind::Corrupt);
    }
    assert_eq!(state(&mut world, "/f"), FileState::Online);
}

#[test]
fn a_report_to_a_session_that_is_over_is_refused() {
    let mut world = world();
    put_nearline(&mut world, "/f", 10);
    stage(&mut world, "/f", None).unwrap();
    let session = next_session(&mut world).unwrap();
    let request = request_ids(&session)[0];
    world.crash();
    let report = FileRecalled { session: session.id, request };
    assert_eq!(refusal(world.room(report)), ErrorKind::NotFound);
    assert_eq!(state(&mut world, "/f"), FileState::Nearline);
}

#[test]
fn a_session_whose_orders_were_lost_is_given_again() {
    let mut world = world();
    put_nearline(&mut world, "/f", 10);
    stage(&mut world, "/f", None).unwrap();
    let lost = next_session(&mut world).unwrap();
    let again = next_session(&mut world).expect("the drive asks, so it does nothing");
    assert_ne!(again.id, lost.id);
    assert_eq!(request_ids(&again), request_ids(&lost));
    assert_eq!(request(&mut world).attempts, 0);
}

#[test]
fn a_recall_makes_room_by_evicting_the_least_recently_used() {
    let mut world = world();
    put_nearline(&mut world, "/f", 200_000);
    for name in ["/a", "/b", "/c"] {
        put_archived(&mut world, name, 290_000);
        world.advance(Millis::from_seconds(1));
    }
    world.clean(false);
    stage(&mut world, "/f", None).unwrap();
    run_drive(&mut world);
    let states = ["/f", "/a", "/b", "/c"].map(|name| state(&mut world, name));
    assert_eq!(states, [FileState::Both, FileState::Nearline, FileState::Both, FileState::Both]);
}

#[test]
fn a_recall_waits_while_everything_on_disk_is_pinned() {
    let mut world = world();
    put_nearline(&mut world, "/f", 200_000);
    for name in ["/a", "/b", "/c"] {
        put_archived(&mut world, name, 290_000);
        stage(&mut world, name, Some(Millis::from_seconds(600))).unwrap();
    }
    world.clean(false);
    stage(&mut world, "/f", None).unwrap();
    assert!(!world.drive(DRIVE, Mishap::None));
    assert!(request(&mut world).reason.contains("no space on disk"));
    world.advance(Millis::from_seconds(601));
    run_drive(&mut world);
    assert_eq!(state(&mut world, "/f"), FileState::Both);
}

#[test]
fn every_file_of_a_call_is_told_what_it_waits_for() {
    let mut world = world();
    let all: Vec<_> = (0..50).map(|n| path(&format!("/f{n}"))).collect();
    for name in &all {
        put(&mut world, name.as_str(), 10);
    }
    let told = |files: Vec<wire::control::PathOutcome>, why: &str| {
        assert_eq!(files.len(), 50);
        assert!(files.iter().all(|file| file.waits.as_deref() == Some(why)), "{:?}", files[0].waits);
    };
    told(
        world.user(Archive { paths: all.clone() }).unwrap().files,
        "waits to be written; 2 of 2 drives free",
    );
    run_drive(&mut world);
    world.user(wire::control::Evict { paths: all.clone(), releases: false }).unwrap();
    let stage = wire::control::Stage { paths: all.clone(), pin: None };
    told(world.user(stage).unwrap().files, "volume SIM001 is loaded in drive drv0");
    let waiting = Await { paths: all, want: Want::Online };
    told(world.user(waiting).unwrap().files, "volume SIM001 is loaded in drive drv0");
}

#[test]
fn each_refusal_names_its_path_and_tells_its_cause() {
    let mut world = world();
    for name in ["/plain", "/pinned", "/asked"] {
        put(&mut world, name, 10);
    }
    world.user(wire::control::Mkdir { path: path("/dir"), mode: 0o755, parents: false }).unwrap();
    world.user(Archive { paths: vec![path("/pinned")] }).unwrap();
    run_drive(&mut world);
    let hold = wire::control::Stage { paths: vec![path("/pinned")], pin: Some(Millis::from_seconds(60)) };
    world.user(hold).unwrap();
    world.user(Archive { paths: vec![path("/asked")] }).unwrap();
    let paths: Vec<_> =
        ["/plain", "/pinned", "/asked", "/dir", "/none", "/plain/x", "/none/x"].map(path).to_vec();
    let evict = |releases| wire::control::Evict { paths: paths.clone(), releases };
    let cancel = wire::control::CancelRequests { requests: Vec::new(), paths: paths.clone() };
    let release = wire::control::Release { paths: paths.clone(), user: None, after: None };
    let awaits = Await { paths: paths.clone(), want: Want::Online };
    let told = [
        world.user(evict(false)),
        world.call(user("bob"), evict(true)),
        world.call(user("bob"), cancel),
        world.call(user("bob"), release),
        world.user(awaits),
    ];
    let told = told.map(|outcomes| outcomes.unwrap().files);
    for file in told.iter().flatten() {
        let names_it = |failure: &base::Failure| failure.what.contains(file.path.as_str());
        assert!(file.failure.as_ref().is_none_or(names_it), "{file:?}");
    }
    let cause = |call: usize, file: usize| told[call][file].failure.as_ref().and_then(|why| why.cause);
    assert_eq!(cause(0, 0), Some(Cause::NoTapeCopy));
    assert_eq!((cause(0, 1), cause(1, 1)), (Some(Cause::PinnedByCaller), Some(Cause::PinnedByOthers)));
    assert_eq!(cause(2, 2), Some(Cause::RequestOfAnother));
    assert_eq!(cause(0, 4), None, "the kind says it");
}

#[test]
fn waiting_for_what_nobody_asked_for_is_refused() {
    let mut world = world();
    put_nearline(&mut world, "/f", 10);
    let waiting = Await { paths: vec![path("/f")], want: Want::Online };
    let outcome = world.user(waiting).unwrap();
    assert_eq!(outcome.files[0].failure.as_ref().unwrap().kind, ErrorKind::Invalid);
}

fn bill(world: &mut World, owner: &str) -> wire::control::BillLine {
    let lines = world.user(GetBill {}).unwrap().lines;
    lines.into_iter().find(|line| line.owner == owner).unwrap_or_default()
}

#[test]
fn a_load_that_served_two_is_split_and_the_parts_add_up() {
    let mut world = world();
    for (name, owner) in [("/f", "bob"), ("/g", "eve"), ("/h", "eve")] {
        put(&mut world, name, 10);
        world.call(as_owner(owner), Archive { paths: vec![path(name)] }).unwrap();
    }
    let label = next_session(&mut world).unwrap();
    end_session(&mut world, &label, 1);
    let session = next_session(&mut world).unwrap();
    world.room(reported(&session)).unwrap();
    end_session(&mut world, &session, 3);
    let (bob, eve) = (bill(&mut world, "bob"), bill(&mut world, "eve"));
    assert_eq!((bob.tape_loads, eve.tape_loads), (1.0 + 1.5, 1.5), "the label was for who asked first");
    assert_eq!(volume(&mut world, "SIM001").loads, 4);
    assert_eq!((bob.tape_written_bytes, eve.tape_written_bytes), (10, 20));
}

#[test]
fn bytes_are_billed_to_who_moved_them_and_space_to_who_holds_it() {
    let mut world = world();
    put_nearline(&mut world, "/f", 100_000);
    let stage = wire::control::Stage { paths: vec![path("/f")], pin: None };
    world.call(user("bob"), stage).unwrap();
    run_drive(&mut world);
    world.advance(Millis::from_seconds(3600));
    let traffic =
        wire::control::ReportTraffic { owner: "bob".into(), out_bytes: 7, out_transfers: 1, object: None };
    world.room(wire::control::ReportUse { traffic: vec![traffic], opened: Vec::new() }).unwrap();
    let (ada, bob) = (bill(&mut world, "ada"), bill(&mut world, "bob"));
    assert_eq!((ada.in_bytes, ada.tape_written_bytes, ada.tape_read_bytes), (100_000, 100_000, 0));
    assert_eq!((bob.in_bytes, bob.out_bytes, bob.tape_read_bytes), (0, 7, 100_000));
    assert!((bob.disk_gb_hours - 0.0001).abs() < 1e-12, "{}", bob.disk_gb_hours);
    assert!(ada.disk_gb_hours.abs() < 1e-12, "ada's replica was gone at once");
}
