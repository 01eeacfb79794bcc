//! Operators: volumes that are in no library, and drives that are out of use.

use super::{end_with, support::*};
use base::{Cause, ErrorKind, Failure, Millis, Vid};
use sim::World;
use std::collections::BTreeSet;
use wire::control::{
    AnswerOperatorRequest, Blame, Cartridge, DisableDrive, EnableDrive, GetStatus, NextTapeSession,
    OperatorAnswer, OperatorRequest, RegisterLibrary, RequestFailed, RequestState, SetVolumeState, Stat,
    TapeOrders, VolumeState,
};

/// Requests to operators that are open at one time.
const OPEN_MAX: usize = 100;

/// The library says what it has.
fn register(world: &mut World, vids: &[&str]) {
    let cartridge = |vid: &&str| Cartridge { vid: vid.parse().unwrap(), capacity_bytes: 600_000 };
    let cartridges = vids.iter().map(cartridge).collect();
    world.room(RegisterLibrary { library: "lib1".into(), drives: Vec::new(), cartridges }).unwrap();
}

fn asked(world: &mut World) -> Vec<OperatorRequest> {
    world.user(GetStatus {}).unwrap().operator_requests
}

fn ask(world: &mut World, loaded: Option<&str>) -> TapeOrders {
    let loaded = loaded.map(|vid| vid.parse().unwrap());
    world.room(NextTapeSession { drive: DRIVE.into(), loaded }).unwrap()
}

fn answer(world: &mut World, request: &OperatorRequest, answer: OperatorAnswer, message: &str) {
    world.user(AnswerOperatorRequest { id: request.id, answer, message: message.into() }).unwrap();
}

#[test]
fn a_volume_that_is_in_no_library_is_asked_for_until_it_is_there() {
    let mut world = world();
    put_nearline(&mut world, "/f", 10);
    register(&mut world, &["SIM002"]);
    stage(&mut world, "/f", None).unwrap();
    assert!(ask(&mut world, None).is_empty());
    ask(&mut world, None);
    world.crash();
    register(&mut world, &["SIM002"]);
    ask(&mut world, None);
    let open = asked(&mut world);
    assert_eq!(open.len(), 1, "it is asked for once");
    assert_eq!((open[0].vid.as_str(), open[0].answer), ("SIM001", OperatorAnswer::Open));
    assert!(request(&mut world).reason.contains("operator is asked"), "{:?}", request(&mut world));
    answer(&mut world, &open[0], OperatorAnswer::Done, "");
    let orders = ask(&mut world, None);
    assert!(orders.look, "the library takes its inventory");
    // It was not: some time is left to the library, then it is asked for again.
    assert!(!ask(&mut world, None).look);
    assert_eq!(asked(&mut world).len(), 1);
    world.advance(Millis::from_seconds(200));
    ask(&mut world, None);
    assert_eq!(asked(&mut world)[0].answer, OperatorAnswer::Open);
    register(&mut world, &["SIM001", "SIM002"]);
    run_drive(&mut world);
    let over = asked(&mut world);
    assert!(over.iter().all(|request| request.answer == OperatorAnswer::Done), "{over:?}");
    assert!(stat(&mut world, "/f").unwrap().entry.state.unwrap().is_online());
    evict(&mut world, "/f").unwrap();
    world.clean(false);
    register(&mut world, &["SIM002"]);
    stage(&mut world, "/f", None).unwrap();
    ask(&mut world, None);
    assert_eq!(asked(&mut world)[0].answer, OperatorAnswer::Open, "it has left again");
}

#[test]
fn a_cancelled_load_fails_what_waits_with_the_message() {
    let mut world = world();
    put_nearline(&mut world, "/f", 10);
    register(&mut world, &["SIM002"]);
    stage(&mut world, "/f", None).unwrap();
    ask(&mut world, None);
    let open = asked(&mut world);
    let long =
        AnswerOperatorRequest { id: open[0].id, answer: OperatorAnswer::Done, message: "x".repeat(401) };
    assert_eq!(refusal(world.user(long)), ErrorKind::Invalid);
    let stranger =
        AnswerOperatorRequest { id: open[0].id, answer: OperatorAnswer::Done, message: String::new() };
    assert_eq!(refusal(world.call(user("bob"), stranger)), ErrorKind::Permission);
    answer(&mut world, &open[0], OperatorAnswer::Cancelled, "it burnt");
    let row = request(&mut world);
    assert_eq!(row.state, RequestState::Failed);
    assert!(row.reason.contains("it burnt") && row.reason.contains("SIM001"), "{}", row.reason);
    ask(&mut world, None);
    assert_eq!(asked(&mut world).len(), 1, "nobody waits for it any more");
}

#[test]
fn more_volumes_than_a_shift_can_load_are_asked_for_later_and_once() {
    let mut world = world();
    // One file on each volume: the next one is archived when the last volume may not be written any more.
    let vids: Vec<String> = (1..=OPEN_MAX + 20).map(|number| format!("SIM{number:03}")).collect();
    for vid in &vids {
        world.library.volumes.entry(vid.parse().unwrap()).or_default();
    }
    register(&mut world, &vids.iter().map(String::as_str).collect::<Vec<_>>());
    for vid in &vids {
        let at = format!("/{vid}");
        put_nearline(&mut world, &at, 10);
        let vid = stat(&mut world, &at).unwrap().copies[0].vid.clone();
        world.user(SetVolumeState { vid, state: VolumeState::Full, reason: String::new() }).unwrap();
    }
    register(&mut world, &[]);
    for vid in &vids {
        stage(&mut world, &format!("/{vid}"), None).unwrap();
    }
    for _ in 0..3 {
        ask(&mut world, None);
        assert_eq!(open_vids(&mut world).len(), OPEN_MAX);
    }
    for request in asked(&mut world).into_iter().take(30) {
        answer(&mut world, &request, OperatorAnswer::Cancelled, "it burnt");
    }
    ask(&mut world, None);
    let open = open_vids(&mut world);
    assert_eq!(open.len(), vids.len() - 30, "there was room for the others");
    assert_eq!(open.iter().collect::<BTreeSet<_>>().len(), open.len(), "none is asked for twice");
}

/// Volumes that are asked for.
fn open_vids(world: &mut World) -> Vec<Vid> {
    let open = asked(world).into_iter().filter(|request| request.answer == OperatorAnswer::Open);
    open.map(|request| request.vid).collect()
}

#[test]
fn what_is_not_needed_any_more_is_withdrawn() {
    let mut world = world();
    put_nearline(&mut world, "/f", 10);
    register(&mut world, &["SIM002"]);
    stage(&mut world, "/f", None).unwrap();
    ask(&mut world, None);
    let call = wire::control::CancelRequests { requests: Vec::new(), paths: vec![path("/f")] };
    world.user(call).unwrap();
    ask(&mut world, None);
    assert_eq!(asked(&mut world)[0].answer, OperatorAnswer::Withdrawn);
}

#[test]
fn a_drive_that_is_down_gives_its_volume_back_and_stays_down() {
    let mut world = world();
    put_nearline(&mut world, "/f", 10);
    stage(&mut world, "/f", None).unwrap();
    let down = DisableDrive { drive: DRIVE.into(), reason: "cleaning".into() };
    world.user(down).unwrap();
    let orders = ask(&mut world, Some("SIM001"));
    assert!(orders.unload && orders.session.is_none());
    assert!(ask(&mut world, None).is_empty());
    world.crash();
    let drives = world.user(GetStatus {}).unwrap().drives;
    assert!(drives[0].trouble.as_ref().unwrap().contains("cleaning"));
    world.user(DisableDrive { drive: "drv1".into(), reason: String::new() }).unwrap();
    let waits = world.user(Stat { path: path("/f") }).unwrap().waits.unwrap();
    assert!(waits.contains("cleaning"), "{waits}");
    world.user(EnableDrive { drive: DRIVE.into() }).unwrap();
    assert!(ask(&mut world, None).session.is_some());
}

#[test]
fn volumes_that_may_not_be_used_say_why() {
    let mut world = world();
    put_nearline(&mut world, "/f", 10);
    let set = |world: &mut World, state, reason: &str| {
        let (vid, reason) = ("SIM001".parse().unwrap(), reason.to_owned());
        world.user(SetVolumeState { vid, state, reason }).unwrap();
    };
    stage(&mut world, "/f", None).unwrap();
    for state in [VolumeState::Disabled, VolumeState::Broken] {
        set(&mut world, state, "dropped");
        assert!(next_session(&mut world).is_none());
        assert!(request(&mut world).reason.contains("dropped"), "{}", request(&mut world).reason);
    }
    set(&mut world, VolumeState::ReadOnly, "");
    put(&mut world, "/g", 10);
    ask_archive(&mut world, "/g").unwrap();
    run_drive(&mut world);
    assert!(stat(&mut world, "/f").unwrap().entry.state.unwrap().is_online());
    assert_eq!(stat(&mut world, "/g").unwrap().copies[0].vid.as_str(), "SIM002");
}

#[test]
fn a_write_protected_volume_is_read_and_another_is_written() {
    let mut world = world();
    put_nearline(&mut world, "/f", 10);
    put(&mut world, "/g", 10);
    ask_archive(&mut world, "/g").unwrap();
    let session = archive_session(&mut world);
    assert_eq!(session.vid.as_str(), "SIM001");
    let failure = Failure::permission("volume SIM001 is write-protected").because(Cause::WriteProtected);
    let (blame, id) = (Blame::Volume, request_ids(&session)[0]);
    let failed = RequestFailed { session: session.id, request: id, blame, failure: failure.clone() };
    world.room(failed).unwrap();
    end_with(&mut world, &session, blame, failure);
    let info = volume(&mut world, "SIM001");
    assert_eq!(info.state, VolumeState::ReadOnly);
    assert!(info.reason.unwrap().contains("write-protected"));
    assert_eq!(request(&mut world).attempts, 0, "no try is lost");
    world.advance(Millis::from_seconds(60));
    stage(&mut world, "/f", None).unwrap();
    run_drive(&mut world);
    assert!(stat(&mut world, "/f").unwrap().entry.state.unwrap().is_online());
    assert_eq!(stat(&mut world, "/g").unwrap().copies[0].vid.as_str(), "SIM002");
}
