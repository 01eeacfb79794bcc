//! Repacks: the files of a volume get to others.

use super::support::*;
use base::{ErrorKind, Failure, Millis};
use sim::{Mishap, World};
use wire::control::{
    Blame, GetRepacks, ReclaimVolume, RepackInfo, RepackVolume, RequestFailed, SetVolumeState, StopRepack,
    TapeWork, VolumeState,
};

const NAMES: [&str; 3] = ["/online", "/nearline", "/pinned"];

/// A volume with three files, of which two have left the disk.
fn filled() -> World {
    let mut world = world();
    for name in NAMES {
        put_archived(&mut world, name, 100);
    }
    for name in ["/nearline", "/pinned"] {
        evict(&mut world, name).unwrap();
    }
    world
}

fn repack(world: &mut World, reclaims: bool) {
    world.user(RepackVolume { vid: "SIM001".parse().unwrap(), reclaims }).unwrap();
}

fn told(world: &mut World) -> RepackInfo {
    world.user(GetRepacks {}).unwrap().repacks.remove(0)
}

fn run_drives(world: &mut World) {
    for _ in 0..20 {
        world.advance(Millis::from_seconds(60));
        while world.drive(DRIVE, Mishap::None) {}
    }
}

fn vid_of(world: &mut World, name: &str) -> Vec<String> {
    let copies = stat(world, name).unwrap().copies;
    copies.into_iter().map(|copy| copy.vid.to_string()).collect()
}

#[test]
fn all_files_of_a_volume_get_to_another_and_are_where_they_were() {
    let mut world = filled();
    stage(&mut world, "/pinned", Some(Millis::from_seconds(100_000))).unwrap();
    run_drive(&mut world);
    repack(&mut world, false);
    assert_eq!(volume(&mut world, "SIM001").state, VolumeState::ReadOnly);
    run_drives(&mut world);
    for name in NAMES {
        assert_eq!(vid_of(&mut world, name), ["SIM002"], "{name}");
    }
    let states = NAMES.map(|name| state(&mut world, name).is_online());
    assert_eq!(states, [true, false, true], "what was recalled for it alone leaves the disk");
    let info = told(&mut world);
    assert!(info.finished.is_some());
    assert_eq!((info.files_moved, info.bytes_moved, info.files_left), (3, 300, 0));
    assert_eq!(requests(&mut world), []);
    world.check();
}

#[test]
fn an_empty_volume_is_written_from_its_beginning() {
    let mut world = filled();
    repack(&mut world, true);
    run_drives(&mut world);
    let info = volume(&mut world, "SIM001");
    assert_eq!((info.state, info.used_bytes, info.files), (VolumeState::Appendable, 0, 0));
    // The fullest volume goes first, so that the other one has to be closed.
    world.user(set("SIM002", VolumeState::Full)).unwrap();
    put_archived(&mut world, "/new", 50);
    assert_eq!(vid_of(&mut world, "/new"), ["SIM001"]);
    assert_eq!(stat(&mut world, "/new").unwrap().copies[0].fseq, 1);
    world.check();
}

fn set(vid: &str, state: VolumeState) -> SetVolumeState {
    SetVolumeState { vid: vid.parse().unwrap(), state, reason: String::new() }
}

#[test]
fn what_users_ask_for_goes_first() {
    let mut world = filled();
    put(&mut world, "/urgent", 10);
    repack(&mut world, false);
    ask_archive(&mut world, "/urgent").unwrap();
    run_drive_once(&mut world);
    assert_eq!(vid_of(&mut world, "/urgent"), ["SIM002"]);
    assert_eq!(vid_of(&mut world, "/online"), ["SIM001"]);
    // Who stages a file that a repack recalls keeps it.
    world.room(wire::control::NextTapeSession { drive: DRIVE.into(), loaded: None }).unwrap();
    stage(&mut world, "/nearline", None).unwrap();
    run_drives(&mut world);
    assert!(state(&mut world, "/nearline").is_online());
    assert_eq!(vid_of(&mut world, "/nearline"), ["SIM002"]);
}

/// Labels a volume if that comes first, then runs one session.
fn run_drive_once(world: &mut World) {
    let before = volume(world, "SIM002").state;
    assert!(world.drive(DRIVE, Mishap::None));
    if before == VolumeState::Blank && volume(world, "SIM002").files == 0 {
        assert!(world.drive(DRIVE, Mishap::None));
    }
}

#[test]
fn a_repack_goes_on_after_crashes_and_ends_when_it_is_told() {
    let mut world = filled();
    repack(&mut world, false);
    world.drive(DRIVE, Mishap::Crash);
    world.check();
    run_drives(&mut world);
    assert!(told(&mut world).finished.is_some());
    let vid: base::Vid = "SIM002".parse().unwrap();
    world.user(RepackVolume { vid: vid.clone(), reclaims: false }).unwrap();
    assert_eq!(refusal(world.user(RepackVolume { vid: vid.clone(), reclaims: false })), ErrorKind::Exists);
    let _ = next_session(&mut world);
    world.crash();
    world.user(StopRepack { vid }).unwrap();
    assert_eq!(requests(&mut world), []);
}

#[test]
fn a_file_that_cannot_be_read_is_named_and_the_others_move() {
    let mut world = filled();
    repack(&mut world, false);
    for _ in 0..60 {
        world.advance(Millis::from_seconds(600));
        let Some(session) = next_session(&mut world) else { break };
        let TapeWork::Recall { files } = &session.work else {
            end_well(&mut world, session.id);
            continue;
        };
        let bad = files.iter().find(|file| file.path.as_str() == "/nearline");
        if let Some(bad) = bad {
            let (session, request) = (session.id, bad.request);
            let failure = Failure::corrupt("checksums differ");
            world.room(RequestFailed { session, request, blame: Blame::File, failure }).unwrap();
        }
        end_well(&mut world, session.id);
    }
    let info = told(&mut world);
    assert_eq!((info.files_failed, info.failures[0].path.as_str()), (1, "/nearline"));
    assert!(info.failures[0].reason.contains("checksums differ"), "{info:?}");
    run_drives(&mut world);
    assert_eq!(vid_of(&mut world, "/pinned"), ["SIM002"]);
    assert_eq!(told(&mut world).files_left, 1);
}

fn end_well(world: &mut World, session: base::SessionId) {
    world.room(wire::control::EndTapeSession { session, loads: 1, trouble: None }).unwrap();
}

#[test]
fn only_a_volume_without_files_is_reclaimed_and_only_by_operators() {
    let mut world = filled();
    let call = ReclaimVolume { vid: "SIM001".parse().unwrap() };
    assert_eq!(refusal(world.user(call.clone())), ErrorKind::Busy);
    assert_eq!(refusal(world.call(user("eve"), call.clone())), ErrorKind::Permission);
    for name in NAMES {
        world.user(wire::control::Remove { path: path(name) }).unwrap();
    }
    world.user(set("SIM001", VolumeState::Suspect)).unwrap();
    assert_eq!(refusal(world.user(call.clone())), ErrorKind::Invalid);
    world.user(set("SIM001", VolumeState::Full)).unwrap();
    world.user(call).unwrap();
    assert_eq!(volume(&mut world, "SIM001").state, VolumeState::Appendable);
}
