//! What is removed, overwritten or replaced comes back, until its time is over or its room is needed.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod support;

use base::{ErrorKind, FileId, Millis, Result};
use head::TrashPolicy;
use sim::World;
use support::*;
use wire::control::{
    AbandonWrite, Disposition, EmptyTrash, FileState, GetQuotas, GetStatus, GetTrash, Mkdir, QuotaKind,
    Remove, Rename, RestoreTrash, RunMaintenance, SetMode, SetQuota, TrashLimit, TrashReason, TrashRestored,
    TrashedFile,
};

const DAY: Millis = Millis::from_seconds(86_400);

fn with_trash(max_size: TrashLimit) -> World {
    let mut world = world();
    world.keep_trash(TrashPolicy { retention: DAY, max_size });
    world
}

fn trashing() -> World {
    with_trash(TrashLimit::Percent(50))
}

fn remove(world: &mut World, at: &str) {
    let kept = world.user(Remove { path: path(at) }).unwrap().restorable_for;
    assert_eq!(kept, Some(DAY));
}

fn trash(world: &mut World) -> Vec<TrashedFile> {
    world.user(GetTrash::default()).unwrap().files
}

fn restore(world: &mut World, at: &str, to: Option<&str>) -> Result<TrashRestored> {
    world.user(RestoreTrash { path: Some(path(at)), to: to.map(path), ..RestoreTrash::default() })
}

fn restore_id(world: &mut World, id: FileId, to: &str) -> Result<TrashRestored> {
    world.user(RestoreTrash { id: Some(id), to: Some(path(to)), ..RestoreTrash::default() })
}

fn maintain(world: &mut World) {
    while world.room(RunMaintenance {}).unwrap().is_more {}
}

#[test]
fn a_removed_file_comes_back_as_it_was() {
    let mut world = trashing();
    world.user(Mkdir { path: path("/d"), mode: 0o755, parents: false }).unwrap();
    put_archived(&mut world, "/d/f", 1000);
    world.user(SetMode { path: path("/d/f"), mode: 0o640 }).unwrap();
    let before = stat(&mut world, "/d/f").unwrap();
    remove(&mut world, "/d/f");
    assert_eq!(refusal(stat(&mut world, "/d/f")), ErrorKind::NotFound);
    world.user(wire::control::RemoveDirectory { path: path("/d") }).unwrap();
    let row = trash(&mut world).remove(0);
    assert_eq!((row.path.as_str(), row.size, row.why), ("/d/f", 1000, TrashReason::Removed));
    assert_eq!((row.remover.as_str(), row.until - row.removed), ("ada", DAY));
    let counts = world.user(GetStatus {}).unwrap().files;
    assert_eq!((counts.files, counts.trash_files, counts.trash_bytes), (0, 1, 1000));
    let back = restore(&mut world, "/d/f", None).unwrap();
    assert_eq!((back.files, back.bytes), (vec![path("/d/f")], 1000));
    assert_eq!(stat(&mut world, "/d/f").unwrap(), before, "owner, mode, times, sums, replicas and copies");
    assert!(trash(&mut world).is_empty());
    assert_eq!(world.user(GetStatus {}).unwrap().files.trash_files, 0);
}

#[test]
fn what_is_on_tape_only_is_recalled_after_it_came_back() {
    let mut world = trashing();
    put_nearline(&mut world, "/f", 1000);
    remove(&mut world, "/f");
    restore(&mut world, "/f", Some("/g")).unwrap();
    stage(&mut world, "/g", None).unwrap();
    run_drive(&mut world);
    assert_eq!(state(&mut world, "/g"), FileState::Both);
}

#[test]
fn every_overwritten_content_comes_back_with_its_tape_copy() {
    let mut world = trashing();
    put_archived(&mut world, "/f", 1000);
    let first = stat(&mut world, "/f").unwrap();
    put(&mut world, "/f", 2000);
    put(&mut world, "/f", 3000);
    let rows = trash(&mut world);
    assert_eq!(rows.iter().map(|row| row.size).collect::<Vec<_>>(), [2000, 1000]);
    assert!(rows.iter().all(|row| row.why == TrashReason::Overwritten && row.path == path("/f")));
    assert_eq!(refusal(restore(&mut world, "/f", None)), ErrorKind::Exists);
    restore_id(&mut world, rows[1].id, "/old").unwrap();
    let back = stat(&mut world, "/old").unwrap();
    assert_eq!(
        (back.entry.checksums, back.copies, back.entry.modified),
        (first.entry.checksums, first.copies, first.entry.modified)
    );
    assert_eq!(stat(&mut world, "/f").unwrap().entry.size, 3000);
    // Labels on tape have the number of the other file.
    evict(&mut world, "/old").unwrap();
    world.clean(false);
    stage(&mut world, "/old", None).unwrap();
    run_drive(&mut world);
    assert_eq!(state(&mut world, "/old"), FileState::Both);
    ask_archive(&mut world, "/f").unwrap();
    run_drive(&mut world);
    assert_eq!(state(&mut world, "/f"), FileState::Both);
}

#[test]
fn a_file_whose_name_another_took_comes_back() {
    let mut world = trashing();
    put(&mut world, "/a", 100);
    put(&mut world, "/b", 200);
    world.user(Rename { from: path("/a"), to: path("/b"), is_new: false, parents: false }).unwrap();
    let row = trash(&mut world).remove(0);
    assert_eq!((row.path.as_str(), row.size, row.why), ("/b", 200, TrashReason::Replaced));
    restore(&mut world, "/b", Some("/c/b")).unwrap();
    assert_eq!(stat(&mut world, "/c/b").unwrap().entry.size, 200, "its directory was made");
}

#[test]
fn a_removed_tree_comes_back_with_one_call() {
    let mut world = trashing();
    for at in ["/d/a", "/d/e/b", "/d/e/c", "/dd"] {
        put(&mut world, at, 100);
        remove(&mut world, at);
    }
    put(&mut world, "/d/a", 50);
    let back = restore(&mut world, "/d", None).unwrap();
    assert_eq!((back.files.len(), back.bytes, back.taken), (2, 200, vec![path("/d/a")]));
    let back = restore(&mut world, "/d", Some("/x")).unwrap();
    assert_eq!(back.files, [path("/x/a")]);
    assert_eq!(trash(&mut world).len(), 1, "what lay beside it was not asked for");
}

#[test]
fn what_was_never_acknowledged_leaves_nothing_in_the_trash() {
    let mut world = trashing();
    let grant = begin_write(&mut world, "/new", 100);
    world.room(AbandonWrite { object: grant.object }).unwrap();
    begin_write(&mut world, "/part", 100);
    assert_eq!(world.user(Remove { path: path("/part") }).unwrap().restorable_for, None);
    assert!(trash(&mut world).is_empty());
}

#[test]
fn it_is_for_who_removed_it_whose_it_was_and_the_facilitys_owner() {
    let mut world = trashing();
    let bob = as_owner("bob");
    world.call(bob.clone(), Mkdir { path: path("/bob"), mode: 0o777, parents: false }).unwrap();
    let grant = world.call(bob, open_write("/bob/f", Disposition::CreateNew, 100)).unwrap();
    let content = sim::Content::numbered(100, 1);
    let commit = wire::control::CommitWrite {
        object: grant.object,
        size: 100,
        checksums: content.sums,
        mirrors: Vec::new(),
        pieces: Vec::new(),
    };
    world.room(commit).unwrap();
    world.call(user("eve"), Remove { path: path("/bob/f") }).unwrap();
    let seen = |world: &mut World, who| world.call(who, GetTrash::default()).unwrap().files;
    let id = seen(&mut world, user("eve"))[0].id;
    assert_eq!(seen(&mut world, user("bob")).len(), 1);
    assert_eq!(seen(&mut world, as_owner("ada")).len(), 1);
    assert!(seen(&mut world, user("zoe")).is_empty());
    let by = |id| RestoreTrash { id: Some(id), ..RestoreTrash::default() };
    assert_eq!(refusal(world.call(user("zoe"), by(id))), ErrorKind::NotFound);
    let zoes = RestoreTrash { path: Some(path("/bob/f")), ..RestoreTrash::default() };
    assert_eq!(refusal(world.call(user("zoe"), zoes)), ErrorKind::NotFound);
    assert_eq!(refusal(world.call(user("bob"), EmptyTrash::default())), ErrorKind::Permission);
    world.call(user("bob"), by(id)).unwrap();
    assert_eq!(stat(&mut world, "/bob/f").unwrap().entry.owner, "bob");
}

#[test]
fn nobody_pays_for_it_and_a_quota_is_asked_when_it_comes_back() {
    let mut world = trashing();
    let (kind, name) = (QuotaKind::User, "ada".to_owned());
    world.user(SetQuota { kind, name, bytes: Some(1000), files: None }).unwrap();
    put(&mut world, "/f", 800);
    remove(&mut world, "/f");
    put(&mut world, "/g", 900);
    assert_eq!(world.user(GetQuotas {}).unwrap().quotas[0].bytes, 900);
    assert_eq!(refusal(restore(&mut world, "/f", None)), ErrorKind::OverQuota);
    assert_eq!(trash(&mut world).len(), 1, "it is still there");
    remove(&mut world, "/g");
    restore(&mut world, "/f", None).unwrap();
}

#[test]
fn its_time_ends_and_its_objects_are_deleted() {
    let mut world = trashing();
    put_archived(&mut world, "/f", 1000);
    remove(&mut world, "/f");
    world.advance(Millis(DAY.0 - 1));
    maintain(&mut world);
    assert_eq!(trash(&mut world).len(), 1);
    world.crash();
    world.advance(Millis(1));
    maintain(&mut world);
    assert!(trash(&mut world).is_empty());
    assert_eq!(refusal(restore(&mut world, "/f", None)), ErrorKind::NotFound);
    world.clean(false);
    assert_eq!(world.disk.objects.len(), 0);
}

#[test]
fn what_is_more_than_its_room_goes_the_oldest_first() {
    let mut world = with_trash(TrashLimit::Bytes(2500));
    for at in ["/a", "/b", "/c"] {
        put(&mut world, at, 1000);
        world.advance(Millis(1000));
        remove(&mut world, at);
    }
    maintain(&mut world);
    let left: Vec<_> = trash(&mut world).into_iter().map(|row| row.path).collect();
    assert_eq!(left, [path("/c"), path("/b")]);
}

#[test]
fn a_write_that_needs_the_room_gets_it_and_what_is_on_tape_can_still_be_restored() {
    let mut world = with_trash(TrashLimit::Percent(100));
    put_archived(&mut world, "/safe", 300_000);
    remove(&mut world, "/safe");
    world.advance(Millis(1000));
    for at in ["/a", "/b"] {
        put(&mut world, at, 300_000);
        world.advance(Millis(1000));
        remove(&mut world, at);
    }
    begin_write(&mut world, "/new", 600_000);
    let left = trash(&mut world);
    let left: Vec<_> = left.iter().map(|row| (row.path.as_str(), row.state)).collect();
    assert_eq!(left, [("/b", FileState::Online), ("/safe", FileState::Nearline)]);
}

#[test]
fn the_facilitys_owner_empties_it() {
    let mut world = trashing();
    for number in 0..100 {
        put(&mut world, &format!("/d/{number}"), 10);
        remove(&mut world, &format!("/d/{number}"));
    }
    put(&mut world, "/e", 10);
    remove(&mut world, "/e");
    let (mut files, mut bytes) = (0, 0);
    loop {
        let done = world.user(EmptyTrash { path: Some(path("/d")) }).unwrap();
        (files, bytes) = (files + done.files, bytes + done.bytes);
        if !done.is_more {
            break;
        }
    }
    assert_eq!((files, bytes), (100, 1000));
    assert_eq!(trash(&mut world).len(), 1);
}
