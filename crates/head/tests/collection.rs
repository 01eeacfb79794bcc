//! Garbage collection of pools: by the water marks, when a person asks, and never what is not safe elsewhere.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod support;

use base::{ErrorKind, Millis};
use sim::World;
use support::*;
use wire::control::{
    CollectPool, Collected, Collection, CollectionOrder, Disposition, FileState, GetCollectable, GetPools,
    NextRemovals, ObjectsRemoved, OpenRead, PartitionInfo, Pool, ResizePartition, RunMaintenance, SetPool,
    SetVolumeState, VolumeState,
};

/// The partition of the simulation has room for ten of these.
const LARGE: u64 = 100_000;
/// Everything is old enough.
const NO_AGE: Option<Millis> = Some(Millis(0));

fn set(world: &mut World, collection: Collection) {
    let pool = Pool { collection: Some(collection), ..Pool::default() };
    world.user(SetPool { pool }).unwrap();
}

/// Waters in thousandths; everything is old enough.
fn waters(begin_free_permille: u16, end_free_permille: u16) -> Collection {
    Collection { begin_free_permille, end_free_permille, age_min: Millis(0), ..Collection::default() }
}

fn maintain(world: &mut World) {
    world.advance(Millis(1000));
    while world.room(RunMaintenance {}).unwrap().is_more {}
}

/// Files on disk and on tape, each used later than the one before.
fn put_all(world: &mut World, count: u64, size: u64) {
    for number in 0..count {
        put_archived(world, &format!("/f{number}"), size);
        world.advance(Millis(1000));
    }
}

/// Those that are still on disk.
fn on_disk(world: &mut World, count: u64) -> Vec<u64> {
    (0..count).filter(|number| state(world, &format!("/f{number}")) != FileState::Nearline).collect()
}

fn partition(world: &mut World) -> PartitionInfo {
    world.user(GetPools {}).unwrap().pools.remove(0).partitions.remove(0)
}

/// All pages of what goes, or would go.
fn pages(
    mut page: impl FnMut(Option<String>) -> base::Result<Collected>,
) -> base::Result<(Vec<String>, u64)> {
    let (mut paths, mut from, mut missing) = (Vec::new(), None, 0);
    loop {
        let one = page(from)?;
        paths.extend(one.files.iter().map(|file| file.path.to_string()));
        if !one.is_looking {
            missing = one.missing_bytes;
        }
        from = one.next;
        if from.is_none() {
            return Ok((paths, missing));
        }
    }
}

fn collect(world: &mut World, free_bytes: Option<u64>) -> base::Result<(Vec<String>, u64)> {
    pages(|from| world.user(CollectPool { pool: "main".into(), free_bytes, age_min: NO_AGE, from }))
}

fn look(world: &mut World, free_bytes: Option<u64>) -> base::Result<(Vec<String>, u64)> {
    pages(|from| world.user(GetCollectable { pool: "main".into(), free_bytes, age_min: NO_AGE, from }))
}

#[test]
fn a_full_partition_is_brought_to_its_high_water_and_no_further() {
    let mut world = world();
    put_all(&mut world, 7, LARGE);
    set(&mut world, waters(250, 500));
    maintain(&mut world);
    assert_eq!(on_disk(&mut world, 7).len(), 7, "0.3 are free");
    put_archived(&mut world, "/f7", LARGE);
    maintain(&mut world);
    assert_eq!(on_disk(&mut world, 8), [3, 4, 5, 6, 7], "those that were not used for the longest time left");
    // What is to be deleted counts as free, also for a while after it was deleted.
    maintain(&mut world);
    assert_eq!(world.room(NextRemovals { partition: PARTITION.into() }).unwrap().objects.len(), 3);
    let held = world.report().free_bytes;
    world.clean(false);
    assert_eq!(world.report().free_bytes, held + 3 * LARGE);
    for _ in 0..20 {
        maintain(&mut world);
        world.room(world.report()).unwrap();
    }
    assert_eq!(on_disk(&mut world, 8).len(), 5);
    assert_eq!((partition(&mut world).collecting_bytes, partition(&mut world).stuck_bytes), (0, 0));
}

#[test]
fn what_was_opened_a_moment_ago_stays_however_room_is_made() {
    let opened = |world: &mut World, number: u64| {
        world.advance(Millis::from_seconds(120));
        world.user(OpenRead { path: path(&format!("/f{number}")) }).unwrap();
    };
    let mut world = world();
    put_all(&mut world, 8, LARGE);
    opened(&mut world, 0);
    // What is refused changes nothing of it.
    world.user(open_write("/huge", wire::control::Disposition::CreateNew, 100 * LARGE)).unwrap_err();
    // For a write that needs room at once.
    begin_write(&mut world, "/large", 3 * LARGE);
    assert_eq!(on_disk(&mut world, 8)[..2], [0, 3]);
    opened(&mut world, 3);
    // For a person, in whatever order candidates were found before.
    let (gone, _) = collect(&mut world, Some(5 * LARGE)).unwrap();
    assert!(gone.contains(&"/f4".to_owned()), "{gone:?}");
    let left = on_disk(&mut world, 8);
    assert!(left.contains(&3) && !left.contains(&4), "{left:?}");
}

#[test]
fn room_that_the_file_system_gives_back_late_is_not_made_twice() {
    let mut world = world();
    put_all(&mut world, 8, LARGE);
    let full = world.report();
    set(&mut world, waters(250, 500));
    maintain(&mut world);
    let objects = world.room(NextRemovals { partition: PARTITION.into() }).unwrap().objects;
    world.room(ObjectsRemoved { partition: PARTITION.into(), objects }).unwrap();
    for _ in 0..3 {
        world.room(full.clone()).unwrap();
        maintain(&mut world);
    }
    assert_eq!(on_disk(&mut world, 8).len(), 5);
    // If it does not come at all, somebody else has taken it.
    for _ in 0..10 {
        world.room(full.clone()).unwrap();
        maintain(&mut world);
    }
    assert!(on_disk(&mut world, 8).len() < 5);
}

#[test]
fn what_is_wanted_or_not_safe_elsewhere_stays() {
    let mut world = world();
    put(&mut world, "/alone", 10);
    put_archived(&mut world, "/pinned", 10);
    stage(&mut world, "/pinned", Some(Millis::from_seconds(3600))).unwrap();
    put_archived(&mut world, "/rewritten", 10);
    put(&mut world, "/rewritten", 11);
    put_archived(&mut world, "/f0", 10);
    world.advance(Millis::from_seconds(7200));
    put_archived(&mut world, "/young", 10);
    stage(&mut world, "/pinned", Some(Millis::from_seconds(3600))).unwrap();
    set(&mut world, Collection { age_min: Millis::from_seconds(3600), ..waters(998, 999) });
    world.user(OpenRead { path: path("/young") }).unwrap();
    // Nothing is free of what is wanted, as long as the disk server does not say it.
    world.disk.capacity = 10_000_000;
    world.room(wire::control::ReportSpace { free_bytes: 0, ..world.report() }).unwrap();
    maintain(&mut world);
    assert_eq!(state(&mut world, "/f0"), FileState::Nearline);
    assert_eq!(state(&mut world, "/alone"), FileState::Online);
    for kept in ["/pinned", "/young"] {
        assert_eq!(state(&mut world, kept), FileState::Both, "{kept}");
    }
    assert_eq!(state(&mut world, "/rewritten"), FileState::Online, "its copy is of another content");
    assert!(partition(&mut world).stuck_bytes > 0);
    // When the pin is over it goes too, and what was used becomes old.
    world.advance(Millis::from_seconds(7200));
    maintain(&mut world);
    for gone in ["/pinned", "/young"] {
        assert_eq!(state(&mut world, gone), FileState::Nearline, "{gone}");
    }
}

#[test]
fn a_copy_on_a_suspect_volume_is_no_safe_place() {
    let mut world = world();
    put_all(&mut world, 3, 10);
    let set_state = |world: &mut World, state| {
        let vids: Vec<_> = world.library.volumes.keys().cloned().collect();
        for vid in vids {
            let _ = world.user(SetVolumeState { vid, state, reason: String::new() });
        }
    };
    set_state(&mut world, VolumeState::Suspect);
    assert_eq!(collect(&mut world, Some(999_998)).unwrap().0, Vec::<String>::new());
    set_state(&mut world, VolumeState::Full);
    assert_eq!(collect(&mut world, Some(999_998)).unwrap().0, ["/f0", "/f1", "/f2"]);
}

#[test]
fn a_person_sees_first_what_would_go() {
    let mut world = world();
    put_all(&mut world, 8, LARGE);
    assert_eq!(look(&mut world, Some(100)).unwrap(), (vec![], 0), "there is room");
    let would = look(&mut world, Some(400_000)).unwrap();
    assert_eq!(would, (vec!["/f0".into(), "/f1".into(), "/f2".into()], 0));
    assert_eq!(on_disk(&mut world, 8).len(), 8);
    let young = GetCollectable { pool: "main".into(), free_bytes: Some(400_000), age_min: None, from: None };
    assert_eq!(
        pages(|from| world.user(GetCollectable { from, ..young.clone() })).unwrap().0,
        Vec::<String>::new()
    );
    assert_eq!(collect(&mut world, Some(400_000)).unwrap(), would);
    assert_eq!(on_disk(&mut world, 8), [3, 4, 5, 6, 7]);
    // Without a size: to the high water, though the low one is not reached.
    assert_eq!(refusal(collect(&mut world, None)), ErrorKind::Invalid);
    set(&mut world, waters(100, 600));
    assert_eq!(collect(&mut world, None).unwrap(), (vec!["/f3".into()], 0));
}

#[test]
fn what_is_missing_is_said_and_nonsense_refused() {
    let mut world = world();
    put_all(&mut world, 1, LARGE);
    put(&mut world, "/alone", LARGE);
    let (gone, missing) = collect(&mut world, Some(950_000)).unwrap();
    assert_eq!((gone.len(), missing), (1, 50_001));
    assert_eq!(refusal(collect(&mut world, Some(2_000_000))), ErrorKind::NoSpace);
    let unknown = CollectPool { pool: "nowhere".into(), free_bytes: Some(1), age_min: None, from: None };
    assert_eq!(refusal(world.user(unknown)), ErrorKind::NotFound);
    let unbegun =
        CollectPool { pool: "main".into(), free_bytes: Some(1), age_min: None, from: Some(PARTITION.into()) };
    assert_eq!(refusal(world.user(unbegun)), ErrorKind::Busy);
    let eve = CollectPool { pool: "main".into(), free_bytes: Some(1), age_min: None, from: None };
    assert_eq!(refusal(world.call(user("eve"), eve)), ErrorKind::Permission);
    let eve = GetCollectable { pool: "main".into(), free_bytes: Some(1), age_min: None, from: None };
    assert_eq!(refusal(world.call(user("eve"), eve)), ErrorKind::Permission);
}

#[test]
fn where_nothing_may_go_somebody_looks_again() {
    let mut world = world();
    for number in 0..8 {
        put(&mut world, &format!("/f{number}"), LARGE);
    }
    set(&mut world, waters(250, 500));
    maintain(&mut world);
    assert_eq!(partition(&mut world).stuck_bytes, 300_000);
    for number in 0..8 {
        ask_archive(&mut world, &format!("/f{number}")).unwrap();
    }
    run_drive(&mut world);
    (0..70).for_each(|_| maintain(&mut world));
    assert_eq!(on_disk(&mut world, 8).len(), 5);
    assert_eq!(partition(&mut world).stuck_bytes, 0);
}

#[test]
fn the_largest_go_first_if_the_pool_says_so() {
    let mut world = world();
    for (number, size) in [(0, 10), (1, 3 * LARGE), (2, 20), (3, 2 * LARGE), (4, 30)] {
        put_archived(&mut world, &format!("/f{number}"), size);
        world.advance(Millis(1000));
    }
    set(&mut world, Collection { order: CollectionOrder::Size, ..waters(600, 790) });
    maintain(&mut world);
    assert_eq!(on_disk(&mut world, 5), [0, 2, 3, 4]);
}

#[test]
fn many_that_may_not_go_are_passed_over_step_by_step() {
    let mut world = world();
    for number in 0..300 {
        put(&mut world, &format!("/alone{number}"), 1);
    }
    world.advance(Millis(1000));
    put_all(&mut world, 20, 100);
    let (gone, _) = collect(&mut world, Some(999_000)).unwrap();
    let expected: Vec<_> = (0..14).map(|number| format!("/f{number}")).collect();
    // 2300 bytes are used; 999 001 are to be free.
    assert_eq!(gone, expected);
}

#[test]
fn nothing_goes_for_a_write_that_would_take_what_is_kept_for_repairs() {
    let mut world = world();
    put_archived(&mut world, "/old", 5_000);
    let pool = Pool { reserved_bytes: 1_000_000, ..Pool::default() };
    world.user(SetPool { pool }).unwrap();
    let open = open_write("/new", Disposition::CreateNew, 10_000);
    assert_eq!(refusal(world.user(open.clone())), ErrorKind::NoSpace);
    assert_eq!(state(&mut world, "/old"), FileState::Both);
    // With so much less there is room once the old file has gone.
    let pool = Pool { reserved_bytes: 987_000, ..Pool::default() };
    world.user(SetPool { pool }).unwrap();
    world.user(open).unwrap();
    assert_eq!(state(&mut world, "/old"), FileState::Nearline);
}

#[test]
fn what_is_safe_on_tape_leaves_a_partition_that_is_made_smaller() {
    let mut world = world();
    for number in 0..6 {
        put_archived(&mut world, &format!("/f{number}"), LARGE);
    }
    set(&mut world, waters(0, 1));
    let size = ResizePartition { partition: PARTITION.into(), size_max_bytes: Some(3 * LARGE) };
    world.user(size).unwrap();
    for _ in 0..10 {
        maintain(&mut world);
    }
    let left = (0..6).filter(|number| state(&mut world, &format!("/f{number}")) == FileState::Both).count();
    assert!((2..=3).contains(&left), "{left} are left");
}
