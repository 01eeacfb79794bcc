//! Verification: what is damaged on tape is found, listed and repaired.

use super::{reported, support::*};
use base::{ErrorKind, Failure, Millis};
use sim::{Mishap, World};
use wire::control::{
    Blame, DamagedCopy, DamagedFile, FilesVerified, GetDamagedCopies, NextTapeSession, TapeSession, TapeWork,
    VerifyVolume,
};

const DAY: i64 = 24 * 3600;

fn filled() -> World {
    let mut world = world();
    for name in ["/a", "/b", "/c"] {
        put_archived(&mut world, name, 100);
    }
    evict(&mut world, "/b").unwrap();
    world
}

fn order(world: &mut World, vid: &str) -> base::Result<wire::control::Done> {
    world.user(VerifyVolume { vid: vid.parse().unwrap() })
}

fn damaged(world: &mut World) -> Vec<DamagedCopy> {
    world.user(GetDamagedCopies {}).unwrap().copies
}

fn damage(world: &mut World, fseq: u32) {
    let volume = world.library.volumes.get_mut(&"SIM001".parse().unwrap()).unwrap();
    volume.files[fseq as usize - 1].is_damaged = true;
}

#[test]
fn a_good_volume_is_read_once_and_then_not_for_a_year() {
    let mut world = filled();
    assert_eq!(refusal(order(&mut world, "SIM002")), ErrorKind::Invalid, "it is blank");
    order(&mut world, "SIM001").unwrap();
    assert!(world.drive(DRIVE, Mishap::Crash));
    assert!(world.drive(DRIVE, Mishap::AnswerLost));
    assert!(!world.drive(DRIVE, Mishap::None), "it was verified");
    assert_eq!(damaged(&mut world), []);
    world.verify_tapes(Millis::from_seconds(365 * DAY));
    world.advance(Millis::from_seconds(364 * DAY));
    assert!(!world.drive(DRIVE, Mishap::None));
    world.advance(Millis::from_seconds(2 * DAY));
    assert!(world.drive(DRIVE, Mishap::None));
    assert!(!world.drive(DRIVE, Mishap::None));
}

#[test]
fn a_damaged_copy_is_replaced_if_the_file_is_elsewhere_and_listed_if_not() {
    let mut world = filled();
    damage(&mut world, 1);
    damage(&mut world, 2);
    order(&mut world, "SIM001").unwrap();
    assert!(world.drive(DRIVE, Mishap::None));
    let listed: Vec<_> =
        damaged(&mut world).into_iter().map(|copy| (copy.path.to_string(), copy.is_last)).collect();
    assert_eq!(listed, [("/a".into(), false), ("/b".into(), true)]);
    assert_eq!(stat(&mut world, "/a").unwrap().copies.len(), 0, "what is damaged is no copy");
    while world.drive(DRIVE, Mishap::None) {}
    assert_eq!(stat(&mut world, "/a").unwrap().copies[0].fseq, 4);
    assert_eq!(stat(&mut world, "/b").unwrap().copies[0].fseq, 2, "there is no better one");
    let listed = damaged(&mut world);
    assert_eq!(listed.len(), 1);
    assert!(listed[0].reason.contains("checksums differ"));
    world.user(wire::control::Remove { path: path("/b") }).unwrap();
    assert_eq!(damaged(&mut world), []);
}

#[test]
fn whoever_asks_for_files_goes_first_and_reports_must_fit() {
    let mut world = filled();
    order(&mut world, "SIM001").unwrap();
    put(&mut world, "/new", 10);
    ask_archive(&mut world, "/new").unwrap();
    let session: TapeSession =
        world.room(NextTapeSession { drive: DRIVE.into(), loaded: None }).unwrap().session.unwrap();
    assert!(matches!(session.work, TapeWork::Archive { .. }));
    let report = FilesVerified { session: session.id, next_fseq: 3, damaged: Vec::new() };
    assert_eq!(refusal(world.room(report)), ErrorKind::Invalid, "the session writes");
    world.room(reported(&session)).unwrap();
    super::end_with(&mut world, &session, Blame::System, Failure::unavailable("stopping"));
    let session = next_session(&mut world).unwrap();
    let TapeWork::Verify { files } = &session.work else { panic!("the session verifies") };
    assert_eq!(files.len(), 4);
    // A copy that is gone meanwhile is not damaged.
    let gone = DamagedFile { fseq: 77, offset: 0, failure: Failure::corrupt("torn") };
    let report = FilesVerified { session: session.id, next_fseq: 3, damaged: vec![gone] };
    world.room(report).unwrap();
    assert_eq!(damaged(&mut world), []);
    let back = FilesVerified { session: session.id, next_fseq: 2, damaged: Vec::new() };
    assert_eq!(refusal(world.room(back)), ErrorKind::Invalid);
}
