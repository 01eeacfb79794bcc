//! Storage classes: copies in several tape pools, and their repair.

use super::support::*;
use base::{ErrorKind, Millis};
use sim::{Mishap, World};
use wire::control::{
    Await, CancelRequests, CopyRoute, FileState, GetMissingCopies, GetStorageClass, MissingCopies, Mkdir,
    Rename, RepackVolume, SetStorageClass, SetVolumePool, SetVolumeState, StorageClass, VolumeState, Want,
};

fn routes(texts: &[&str]) -> Vec<CopyRoute> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn set_class(world: &mut World, at: &str, texts: &[&str]) -> base::Result<wire::control::Done> {
    let class = (!texts.is_empty()).then(|| StorageClass { copies: routes(texts) });
    world.user(SetStorageClass { path: path(at), class })
}

fn mkdir(world: &mut World, at: &str) {
    world.user(Mkdir { path: path(at), parents: false, mode: 0o755 }).unwrap();
}

fn set_pool(world: &mut World, vid: &str, pool: &str) {
    world.user(SetVolumePool { vid: vid.parse().unwrap(), pool: pool.into() }).unwrap();
}

fn set(world: &mut World, vid: &str, state: VolumeState) {
    world.user(SetVolumeState { vid: vid.parse().unwrap(), state, reason: String::new() }).unwrap();
}

fn missing(world: &mut World) -> MissingCopies {
    world.user(GetMissingCopies {}).unwrap()
}

fn vids(world: &mut World, at: &str) -> Vec<String> {
    let mut vids: Vec<_> =
        stat(world, at).unwrap().copies.into_iter().map(|copy| copy.vid.to_string()).collect();
    vids.sort();
    vids
}

fn run_drives(world: &mut World) {
    for _ in 0..20 {
        world.advance(Millis::from_seconds(60));
        while world.drive(DRIVE, Mishap::None) {}
    }
}

/// A facility in which files below `/raw` have a copy on SIM001 and one in the pool of SIM002.
fn two_pools() -> World {
    let mut world = world();
    set_pool(&mut world, "SIM002", "second");
    mkdir(&mut world, "/raw");
    set_class(&mut world, "/raw", &["any", "pool=second"]).unwrap();
    world
}

#[test]
fn a_file_is_archived_when_all_copies_of_its_class_are_on_tape() {
    let mut world = two_pools();
    put(&mut world, "/raw/f", 100);
    ask_archive(&mut world, "/raw/f").unwrap();
    while vids(&mut world, "/raw/f").is_empty() {
        assert!(world.drive(DRIVE, Mishap::None));
    }
    assert_eq!(state(&mut world, "/raw/f"), FileState::Online, "one copy is not what was promised");
    let info = stat(&mut world, "/raw/f").unwrap();
    assert_eq!((info.copies.len(), info.missing_copies), (1, routes(&["pool=second"])));
    assert!(info.waits.unwrap().starts_with("copy 2 of 2: "));
    let refused = evict(&mut world, "/raw/f").unwrap_err();
    assert!(
        refused.what.ends_with("lacks tape copies that its storage class wants: pool=second"),
        "{refused}"
    );
    let wait = Await { paths: vec![path("/raw/f")], want: Want::Archived };
    assert!(world.user(wait).unwrap().files[0].waits.is_some());
    run_drive(&mut world);
    assert_eq!(state(&mut world, "/raw/f"), FileState::Both);
    assert_eq!(vids(&mut world, "/raw/f"), ["SIM001", "SIM002"]);
    assert_eq!((missing(&mut world).files_len, requests(&mut world).len()), (0, 0));
    evict(&mut world, "/raw/f").unwrap();
    // Files of no class are written to volumes of no pool, once.
    put_archived(&mut world, "/other", 100);
    assert_eq!(vids(&mut world, "/other"), ["SIM001"]);
    world.check();
}

#[test]
fn of_two_copies_the_one_that_can_be_read_is_read() {
    let mut world = two_pools();
    put_nearline(&mut world, "/raw/f", 100);
    set(&mut world, "SIM001", VolumeState::Suspect);
    stage(&mut world, "/raw/f", None).unwrap();
    run_drive(&mut world);
    assert_eq!(state(&mut world, "/raw/f"), FileState::Both);
    world.check();
}

#[test]
fn what_a_class_wants_of_files_that_are_on_tape_is_written_when_drives_are_idle() {
    let mut world = two_pools();
    set_class(&mut world, "/raw", &[]).unwrap();
    put_nearline(&mut world, "/raw/nearline", 100);
    put_archived(&mut world, "/raw/online", 100);
    put_archived(&mut world, "/elsewhere", 100);
    set_class(&mut world, "/", &["any", "pool=second"]).unwrap();
    mkdir(&mut world, "/plain");
    set_class(&mut world, "/plain", &["any"]).unwrap();
    put_archived(&mut world, "/plain/f", 100);
    run_drives(&mut world);
    for name in ["/raw/nearline", "/raw/online", "/elsewhere"] {
        assert_eq!(vids(&mut world, name), ["SIM001", "SIM002"], "{name}");
    }
    assert_eq!(vids(&mut world, "/plain/f"), ["SIM001"]);
    assert_eq!(state(&mut world, "/raw/nearline"), FileState::Nearline, "it leaves the disk again");
    assert_eq!(state(&mut world, "/raw/online"), FileState::Both);
    let told = missing(&mut world);
    assert_eq!((told.files_len, told.is_checking), (0, false));
    world.check();
}

#[test]
fn what_is_moved_below_a_class_gets_its_copies() {
    let mut world = two_pools();
    mkdir(&mut world, "/dir");
    put_nearline(&mut world, "/f", 100);
    put_archived(&mut world, "/dir/g", 100);
    for (from, to) in [("/f", "/raw/f"), ("/dir", "/raw/dir")] {
        let (from, to) = (path(from), path(to));
        world.user(Rename { from, to, is_new: true, parents: false }).unwrap();
    }
    run_drives(&mut world);
    for name in ["/raw/f", "/raw/dir/g"] {
        assert_eq!(vids(&mut world, name), ["SIM001", "SIM002"], "{name}");
    }
}

#[test]
fn copies_that_are_lost_are_made_again() {
    let mut world = two_pools();
    put_nearline(&mut world, "/raw/f", 100);
    set_pool(&mut world, "SIM003", "second");
    set(&mut world, "SIM002", VolumeState::Broken);
    run_drives(&mut world);
    assert_eq!(vids(&mut world, "/raw/f"), ["SIM001", "SIM002", "SIM003"]);
    assert_eq!(missing(&mut world).files_len, 0);
    world.check();
}

#[test]
fn a_repack_leaves_each_copy_in_its_pool() {
    let mut world = two_pools();
    put_nearline(&mut world, "/raw/f", 100);
    set_pool(&mut world, "SIM003", "second");
    world.user(RepackVolume { vid: "SIM002".parse().unwrap(), reclaims: false }).unwrap();
    run_drives(&mut world);
    assert_eq!(vids(&mut world, "/raw/f"), ["SIM001", "SIM003"]);
    world.check();
}

#[test]
fn a_copy_for_which_there_is_no_volume_is_waited_for_and_the_file_stays_on_disk() {
    let mut world = two_pools();
    set(&mut world, "SIM002", VolumeState::Disabled);
    put(&mut world, "/raw/f", 100);
    ask_archive(&mut world, "/raw/f").unwrap();
    run_drives(&mut world);
    assert_eq!(state(&mut world, "/raw/f"), FileState::Online);
    let told = missing(&mut world);
    assert_eq!((told.files_len, told.files[0].copies), (1, 1));
    let why = told.files[0].waits.clone().unwrap();
    assert!(why.starts_with("copy 2 of 2: no volume in pool=second has free space for"), "{why}");
    set_pool(&mut world, "SIM003", "second");
    run_drives(&mut world);
    assert_eq!(state(&mut world, "/raw/f"), FileState::Both);
    world.check();
}

#[test]
fn a_copy_that_waits_for_a_volume_keeps_no_repack_and_a_cancelled_one_is_asked_for_again() {
    let mut world = two_pools();
    set(&mut world, "SIM002", VolumeState::Disabled);
    put(&mut world, "/raw/f", 100);
    ask_archive(&mut world, "/raw/f").unwrap();
    run_drives(&mut world);
    world.user(CancelRequests { requests: Vec::new(), paths: vec![path("/raw/f")] }).unwrap();
    assert_eq!(requests(&mut world), []);
    assert_eq!(missing(&mut world).files[0].waits, None);
    run_drives(&mut world);
    assert_eq!(requests(&mut world).len(), 1);
    put_archived(&mut world, "/plain", 100);
    world.user(RepackVolume { vid: "SIM001".parse().unwrap(), reclaims: false }).unwrap();
    run_drives(&mut world);
    assert_eq!(vids(&mut world, "/plain"), ["SIM003"]);
    set(&mut world, "SIM002", VolumeState::Blank);
    run_drives(&mut world);
    assert_eq!(vids(&mut world, "/raw/f"), ["SIM002", "SIM003"]);
    assert_eq!(state(&mut world, "/raw/f"), FileState::Both);
    world.check();
}

#[test]
fn classes_that_nothing_serves_and_other_people_are_refused() {
    let mut world = two_pools();
    let refused = |outcome: base::Result<_>| refusal(outcome);
    assert_eq!(refused(set_class(&mut world, "/raw", &["pool=third"])), ErrorKind::NotFound);
    assert_eq!(refused(set_class(&mut world, "/raw", &["library=third"])), ErrorKind::NotFound);
    assert_eq!(refused(set_class(&mut world, "/raw", &["any"; 5])), ErrorKind::Invalid);
    put(&mut world, "/raw/f", 1);
    assert_eq!(refused(set_class(&mut world, "/raw/f", &["any"])), ErrorKind::Invalid, "it is a file");
    mkdir(&mut world, "/none");
    assert_eq!(refused(set_class(&mut world, "/none", &[])), ErrorKind::NotFound);
    let call = SetStorageClass { path: path("/raw"), class: None };
    assert_eq!(refusal(world.call(user("bob"), call)), ErrorKind::Permission);
    let pool = |name: &str| SetVolumePool { vid: "SIM001".parse().unwrap(), pool: name.into() };
    assert_eq!(refusal(world.user(pool("a b"))), ErrorKind::Invalid);
    assert_eq!(refusal(world.call(user("bob"), pool("b"))), ErrorKind::Permission);
    let shown = world.user(GetStorageClass { path: path("/raw/f") }).unwrap();
    assert_eq!(
        (shown.class.unwrap().copies, shown.from),
        (routes(&["any", "pool=second"]), Some(path("/raw")))
    );
}
