//! Requests: taken back, failed, retried.

use super::support::*;
use base::{ErrorKind, Millis, limits::TAPE_ATTEMPTS_MAX};
use sim::{Mishap, World};
use wire::control::{Await, CancelRequests, FileRecalled, FileState, RequestState, RetryRequest, Want};

/// Fails the first request of the next session until it may not be tried again.
fn fail_for_good(world: &mut World) {
    for attempt in 1..=TAPE_ATTEMPTS_MAX {
        assert_eq!(request(world).state, RequestState::Queued);
        assert!(world.drive(DRIVE, Mishap::FileFails));
        assert_eq!(request(world).attempts, attempt);
        world.advance(Millis::from_seconds(3600));
    }
}

pub(super) fn cancel(world: &mut World, who: &str, at: &str) -> base::Result<FileState> {
    let call = CancelRequests { requests: Vec::new(), paths: vec![path(at)] };
    let mut files = world.call(user(who), call)?.files;
    let file = files.remove(0);
    file.failure.map_or_else(|| Ok(file.state.unwrap()), Err)
}

pub(super) fn stage_as(world: &mut World, who: &str, at: &str) {
    let stage = wire::control::Stage { paths: vec![path(at)], pin: Some(Millis::from_seconds(3600)) };
    let outcome = world.call(user(who), stage).unwrap();
    assert!(outcome.files[0].failure.is_none(), "{outcome:?}");
}

#[test]
fn a_request_is_taken_back_by_its_owner_unless_others_wait_for_it() {
    let mut world = world();
    put_nearline(&mut world, "/f", 10);
    stage_as(&mut world, "ada", "/f");
    stage_as(&mut world, "bob", "/f");
    assert_eq!(refusal(cancel(&mut world, "cyd", "/f")), ErrorKind::Permission);
    cancel(&mut world, "ada", "/f").unwrap();
    assert_eq!(requests(&mut world).len(), 1, "bob wants it");
    assert_eq!(refusal(cancel(&mut world, "ada", "/f")), ErrorKind::Permission, "it is bob's now");
    assert_eq!(stat(&mut world, "/f").unwrap().pins, ["user bob"]);
    cancel(&mut world, "bob", "/f").unwrap();
    assert_eq!(stat(&mut world, "/f").unwrap().pins, [""; 0]);
    assert_eq!(requests(&mut world), []);
    assert_eq!(refusal(cancel(&mut world, "ada", "/f")), ErrorKind::NotFound);
    // While a drive reads it, too: its reserved object goes.
    stage_as(&mut world, "ada", "/f");
    let session = next_session(&mut world).unwrap();
    let request = request_ids(&session)[0];
    world.call(user("ada"), CancelRequests { requests: vec![request], paths: Vec::new() }).unwrap();
    world.room(FileRecalled { session: session.id, request }).unwrap();
    end_session(&mut world, &session, 1);
    assert_eq!(state(&mut world, "/f"), FileState::Nearline);
}

#[test]
fn a_job_keeps_the_request_that_it_waits_for() {
    let mut world = world();
    put_nearline(&mut world, "/in", 10);
    world.submit(&[path("/in")], &path("/out")).unwrap();
    let id = request(&mut world).id;
    let call = CancelRequests { requests: vec![id], paths: Vec::new() };
    let failure = world.user(call).unwrap().files[0].failure.clone().unwrap();
    assert!(failure.kind == ErrorKind::Busy && failure.what.contains("job 1"), "{failure}");
}

#[test]
fn a_request_that_fails_is_tried_again_later_each_time() {
    let mut world = world();
    put(&mut world, "/f", 10);
    ask_archive(&mut world, "/f").unwrap();
    world.drive(DRIVE, Mishap::None);
    world.drive(DRIVE, Mishap::FileFails);
    assert!(!world.drive(DRIVE, Mishap::None), "not at once");
    world.advance(Millis::from_seconds(5));
    assert!(world.drive(DRIVE, Mishap::FileFails));
    world.advance(Millis::from_seconds(5));
    assert!(!world.drive(DRIVE, Mishap::None), "twice as late the second time");
    world.advance(Millis::from_seconds(5));
    assert!(world.drive(DRIVE, Mishap::None));
    assert_eq!(state(&mut world, "/f"), FileState::Both);
}

#[test]
fn a_request_that_failed_too_often_says_why_and_waits_for_a_person() {
    let mut world = world();
    put_nearline(&mut world, "/f", 10);
    stage(&mut world, "/f", None).unwrap();
    fail_for_good(&mut world);
    let row = request(&mut world);
    assert_eq!(row.state, RequestState::Failed);
    assert!(row.reason.contains("failed 3 times: read error that goes away"), "{}", row.reason);
    assert!(!world.drive(DRIVE, Mishap::None));
    let waiting = Await { paths: vec![path("/f")], want: Want::Online };
    let outcome = world.user(waiting).unwrap();
    let failure = outcome.files[0].failure.as_ref().expect("nobody waits for what cannot come");
    assert!(failure.hint.as_ref().unwrap().contains("retry"));
    let read = wire::control::OpenRead { path: path("/f") };
    assert_eq!(refusal(world.user(read)), ErrorKind::Unavailable);
}

#[test]
fn a_failed_request_can_be_retried() {
    let mut world = world();
    put_nearline(&mut world, "/f", 10);
    stage(&mut world, "/f", None).unwrap();
    fail_for_good(&mut world);
    let retry = RetryRequest { request: request(&mut world).id };
    assert_eq!(refusal(world.call(user("bob"), retry.clone())), ErrorKind::Permission);
    world.user(retry).unwrap();
    assert_eq!(request(&mut world).attempts, 0);
    run_drive(&mut world);
    assert_eq!(state(&mut world, "/f"), FileState::Both);
}

#[test]
fn what_is_being_done_cannot_be_retried() {
    let mut world = world();
    put(&mut world, "/f", 10);
    ask_archive(&mut world, "/f").unwrap();
    let session = archive_session(&mut world);
    let retry = RetryRequest { request: request_ids(&session)[0] };
    assert_eq!(refusal(world.user(retry)), ErrorKind::Busy);
}
