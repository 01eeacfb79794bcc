//! Volumes that operators add.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod support;

use base::{ErrorKind, Failure, Vid};
use sim::World;
use support::*;
use wire::control::{
    AddVolumes, AddedVolumes, Cartridge, CartridgeRefused, NextTapeSession, RegisterLibrary, VolumeState,
};

const NEW: &str = "NEW001";
const VOLUME_BYTES: u64 = 600_000;

fn vid(text: &str) -> Vid {
    text.parse().unwrap()
}

fn add(world: &mut World, vids: &[&str]) -> base::Result<AddedVolumes> {
    world.user(AddVolumes { vids: vids.iter().map(|text| vid(text)).collect(), library: None })
}

/// What an idle drive is told to put into the library.
fn wanted(world: &mut World) -> Vec<Vid> {
    world.room(NextTapeSession { drive: DRIVE.into(), loaded: None }).unwrap().insert
}

/// The library says what it has.
fn register(world: &mut World, vids: &[&str]) {
    let cartridges = vids.iter().map(|text| Cartridge { vid: vid(text), capacity_bytes: VOLUME_BYTES });
    let call =
        RegisterLibrary { library: "lib1".into(), drives: Vec::new(), cartridges: cartridges.collect() };
    world.room(call).unwrap();
}

#[test]
fn a_volume_that_was_added_is_shown_at_once_and_used_when_its_library_has_it() {
    let mut world = world();
    assert_eq!(add(&mut world, &[NEW]).unwrap().library, "lib1");
    let shown = volume(&mut world, NEW);
    assert_eq!((shown.state, &*shown.library), (VolumeState::Blank, ""));
    assert_eq!(shown.reason.as_deref(), Some("waits for its cartridge in library lib1"));
    // Also after a start of the head, and until the library has it.
    world.crash();
    assert_eq!(wanted(&mut world), [vid(NEW)]);
    register(&mut world, &[NEW]);
    assert!(wanted(&mut world).is_empty());
    let shown = volume(&mut world, NEW);
    assert_eq!((shown.state, &*shown.library, shown.reason), (VolumeState::Blank, "lib1", None));
    assert_eq!(shown.capacity_bytes, VOLUME_BYTES);
    put(&mut world, "/f", 10);
    ask_archive(&mut world, "/f").unwrap();
    assert_eq!(next_session(&mut world).unwrap().vid, vid(NEW), "the others are out of the library");
}

#[test]
fn a_volume_that_is_known_is_refused_and_then_none_is_added() {
    let mut world = world();
    let refused = add(&mut world, &[NEW, "SIM001"]).unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Exists);
    assert_eq!(refused.what, "volume SIM001 exists already: blank, in library lib1");
    add(&mut world, &[NEW]).unwrap();
    // Said again it is the same.
    add(&mut world, &[NEW]).unwrap();
    assert_eq!(wanted(&mut world), [vid(NEW)]);
}

#[test]
fn what_a_library_cannot_take_in_is_told_and_not_ordered_again_and_again() {
    let mut world = world();
    add(&mut world, &[NEW]).unwrap();
    let failure = Failure::no_space("no slot is free");
    world.room(CartridgeRefused { drive: DRIVE.into(), vid: vid(NEW), failure }).unwrap();
    assert!(wanted(&mut world).is_empty());
    let reason = volume(&mut world, NEW).reason.unwrap();
    assert!(reason.contains("not in library lib1: no slot is free"), "{reason}");
    add(&mut world, &[NEW]).unwrap();
    assert_eq!(wanted(&mut world), [vid(NEW)]);
}

#[test]
fn only_operators_add_volumes_to_libraries_that_there_are() {
    let mut world = world();
    let call = AddVolumes { vids: vec![vid(NEW)], library: None };
    assert_eq!(refusal(world.call(user("ann"), call)), ErrorKind::Permission);
    let none = AddVolumes { vids: vec![vid(NEW)], library: Some("lib9".into()) };
    assert_eq!(refusal(world.user(none)), ErrorKind::NotFound);
    assert_eq!(refusal(add(&mut world, &[])), ErrorKind::Invalid);
}
