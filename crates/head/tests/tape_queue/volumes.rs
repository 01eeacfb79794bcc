//! Volumes: suspect, full, blank, and their order.

use super::{end_with, support::*};
use base::{ErrorKind, Failure, Millis};
use sim::{Mishap, World};
use wire::control::{
    Blame, EnableDrive, FileState, GetStatus, RequestFailed, SetVolumeState, TapeWork, VolumeState,
};

fn set_volume(world: &mut World, vid: &str, state: VolumeState) {
    world.user(SetVolumeState { vid: vid.parse().unwrap(), state, reason: String::new() }).unwrap();
}

#[test]
fn a_suspect_volume_is_neither_read_nor_written() {
    let mut world = world();
    put_nearline(&mut world, "/f", 10);
    stage(&mut world, "/f", None).unwrap();
    set_volume(&mut world, "SIM001", VolumeState::Suspect);
    assert!(!world.drive(DRIVE, Mishap::None));
    assert!(request(&mut world).reason.contains("suspect"));
    put(&mut world, "/g", 10);
    ask_archive(&mut world, "/g").unwrap();
    run_drive(&mut world);
    assert_eq!(stat(&mut world, "/g").unwrap().copies[0].vid.as_str(), "SIM002");
    set_volume(&mut world, "SIM001", VolumeState::Appendable);
    run_drive(&mut world);
    assert_eq!(state(&mut world, "/f"), FileState::Both);
}

#[test]
fn a_volume_that_ends_a_session_becomes_suspect() {
    let mut world = world();
    put_nearline(&mut world, "/f", 10);
    stage(&mut world, "/f", None).unwrap();
    let session = next_session(&mut world).unwrap();
    end_with(&mut world, &session, Blame::Volume, Failure::corrupt("label says SIM009"));
    let info = volume(&mut world, "SIM001");
    assert_eq!((info.state, info.reason.as_deref()), (VolumeState::Suspect, Some("label says SIM009")));
    assert_eq!(request(&mut world).attempts, 0, "the file is not at fault");
}

#[test]
fn a_drive_that_ends_a_session_is_out_of_use_until_a_person_says_otherwise() {
    let mut world = world();
    put_nearline(&mut world, "/f", 10);
    stage(&mut world, "/f", None).unwrap();
    let session = next_session(&mut world).unwrap();
    end_with(&mut world, &session, Blame::Drive, Failure::unavailable("drive needs cleaning"));
    world.advance(Millis::from_seconds(3600));
    assert_eq!(next_session(&mut world), None);
    let drives = world.user(GetStatus {}).unwrap().drives;
    assert_eq!(drives[0].trouble.as_deref(), Some("drive needs cleaning"));
    let enable = EnableDrive { drive: DRIVE.into() };
    assert_eq!(refusal(world.call(user("eve"), enable.clone())), ErrorKind::Permission);
    world.user(enable).unwrap();
    next_session(&mut world).expect("the drive is used again");
}

#[test]
fn when_a_volume_is_full_the_next_one_is_taken_and_nobody_is_at_fault() {
    let mut world = world();
    put(&mut world, "/f", 10);
    ask_archive(&mut world, "/f").unwrap();
    let session = archive_session(&mut world);
    let request_id = request_ids(&session)[0];
    let failure = Failure::no_space("end of volume");
    let failed = RequestFailed { session: session.id, request: request_id, blame: Blame::Volume, failure };
    world.room(failed).unwrap();
    end_session(&mut world, &session, 1);
    assert_eq!(volume(&mut world, "SIM001").state, VolumeState::Full);
    assert_eq!(request(&mut world).attempts, 0);
    let next = archive_session(&mut world);
    assert_eq!((next.vid.as_str(), request_ids(&next)), ("SIM002", vec![request_id]));
}

#[test]
fn a_full_volume_is_still_read() {
    let mut world = world();
    put_nearline(&mut world, "/f", 10);
    set_volume(&mut world, "SIM001", VolumeState::Full);
    stage(&mut world, "/f", None).unwrap();
    run_drive(&mut world);
    assert_eq!(state(&mut world, "/f"), FileState::Both);
}

#[test]
fn a_file_for_which_no_volume_has_room_now_waits_and_says_so() {
    let mut world = world();
    put(&mut world, "/f", 500_000);
    for vid in ["SIM001", "SIM002", "SIM003", "SIM004"] {
        set_volume(&mut world, vid, VolumeState::Full);
    }
    ask_archive(&mut world, "/f").unwrap();
    assert!(!world.drive(DRIVE, Mishap::None));
    let reason = request(&mut world).reason;
    assert!(reason.contains("no volume has free space"), "{reason}");
}

#[test]
fn a_volume_with_files_is_not_made_blank() {
    let mut world = world();
    put_archived(&mut world, "/f", 10);
    let blank =
        SetVolumeState { vid: "SIM001".parse().unwrap(), state: VolumeState::Blank, reason: String::new() };
    assert_eq!(refusal(world.user(blank.clone())), ErrorKind::Busy);
    world.user(wire::control::Remove { path: path("/f") }).unwrap();
    assert_eq!(refusal(world.call(user("eve"), blank.clone())), ErrorKind::Permission);
    world.user(blank).unwrap();
    put(&mut world, "/g", 10);
    ask_archive(&mut world, "/g").unwrap();
    let label = next_session(&mut world).unwrap();
    assert_eq!(label.work, TapeWork::Label);
    end_session(&mut world, &label, 1);
    let TapeWork::Archive { append, .. } = next_session(&mut world).unwrap().work else {
        panic!("the file is to be written");
    };
    assert_eq!((append.fseq, append.block), (1, 1), "a blank volume is written from its beginning");
}

#[test]
fn a_volume_in_use_is_not_made_blank() {
    let mut world = world();
    put(&mut world, "/f", 10);
    ask_archive(&mut world, "/f").unwrap();
    let session = archive_session(&mut world);
    let blank = SetVolumeState { vid: session.vid, state: VolumeState::Blank, reason: String::new() };
    assert_eq!(refusal(world.user(blank)), ErrorKind::Busy);
}

#[test]
fn recalls_are_read_in_the_order_of_the_tape() {
    let mut world = world();
    for name in ["/a", "/b", "/c"] {
        put_nearline(&mut world, name, 10);
    }
    for name in ["/c", "/a", "/b"] {
        stage(&mut world, name, None).unwrap();
    }
    let TapeWork::Recall { files } = next_session(&mut world).unwrap().work else {
        panic!("the session reads");
    };
    let order: Vec<_> = files.iter().map(|file| file.path.as_str()).collect();
    assert_eq!(order, ["/a", "/b", "/c"]);
}
