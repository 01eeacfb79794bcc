//! Rules of names: permissions, reserved names, renames, removals, exclusive creation.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod support;

use base::ErrorKind;
use sim::World;
use support::*;
use wire::control::{
    Disposition, List, Mkdir, OpenRead, Remove, RemoveDirectory, RemoveEntry, Rename, SetMode, SetTime, Stat,
};

/// A directory of bob's, and a file of his in it.
fn with_bobs_home(directory_mode: u32, file_mode: u32) -> World {
    let mut world = world();
    let bob = as_owner("bob");
    world.call(bob.clone(), Mkdir { path: path("/bob"), mode: directory_mode, parents: false }).unwrap();
    let mut open = open_write("/bob/f", Disposition::CreateNew, 100);
    open.mode = file_mode;
    let grant = world.call(bob, open).unwrap();
    let content = sim::Content::numbered(100, 1);
    let commit = wire::control::CommitWrite {
        object: grant.object,
        size: 100,
        checksums: content.sums,
        mirrors: Vec::new(),
        pieces: Vec::new(),
    };
    world.room(commit).unwrap();
    world
}

fn mkdir(at: &str) -> Mkdir {
    Mkdir { path: path(at), mode: 0o755, parents: false }
}

fn rename(from: &str, to: &str) -> Rename {
    Rename { from: path(from), to: path(to), is_new: false, parents: false }
}

fn remove(at: &str) -> Remove {
    Remove { path: path(at) }
}

#[test]
fn reading_needs_the_read_bit() {
    let mut world = with_bobs_home(0o755, 0o600);
    let read = OpenRead { path: path("/bob/f") };
    assert_eq!(refusal(world.call(user("eve"), read.clone())), ErrorKind::Permission);
    world.call(user("bob"), read.clone()).unwrap();
    world.call(user("bob"), SetMode { path: path("/bob/f"), mode: 0o604 }).unwrap();
    world.call(user("eve"), read).unwrap();
}

#[test]
fn the_owners_bits_bind_the_owner_even_if_others_may_more() {
    let mut world = with_bobs_home(0o755, 0o044);
    let read = OpenRead { path: path("/bob/f") };
    assert_eq!(refusal(world.call(user("bob"), read.clone())), ErrorKind::Permission);
    world.call(user("eve"), read).unwrap();
}

#[test]
fn writing_needs_the_write_bit() {
    let mut world = with_bobs_home(0o755, 0o644);
    let open = open_write("/bob/f", Disposition::Replace, 100);
    assert_eq!(refusal(world.call(user("eve"), open.clone())), ErrorKind::Permission);
    world.call(user("bob"), open).unwrap();
}

#[test]
fn listing_needs_the_read_bit_and_reaching_the_search_bit() {
    let mut world = with_bobs_home(0o711, 0o644);
    let list = List { path: path("/bob"), after: String::new() };
    let stat = Stat { path: path("/bob/f") };
    assert_eq!(refusal(world.call(user("eve"), list.clone())), ErrorKind::Permission);
    world.call(user("eve"), stat.clone()).unwrap();
    world.call(user("bob"), SetMode { path: path("/bob"), mode: 0o744 }).unwrap();
    assert_eq!(world.call(user("eve"), list).unwrap().entries.len(), 1);
    assert_eq!(refusal(world.call(user("eve"), stat)), ErrorKind::Permission);
}

#[test]
fn making_removing_and_renaming_need_the_directorys_write_bit() {
    let mut world = with_bobs_home(0o755, 0o666);
    let eve = user("eve");
    assert_eq!(refusal(world.call(eve.clone(), mkdir("/bob/d"))), ErrorKind::Permission);
    assert_eq!(refusal(world.call(eve.clone(), remove("/bob/f"))), ErrorKind::Permission);
    assert_eq!(refusal(world.call(eve.clone(), rename("/bob/f", "/bob/g"))), ErrorKind::Permission);
    let open = open_write("/bob/g", Disposition::CreateNew, 1);
    assert_eq!(refusal(world.call(eve, open)), ErrorKind::Permission);
    world.call(user("bob"), rename("/bob/f", "/bob/g")).unwrap();
    world.call(user("bob"), remove("/bob/g")).unwrap();
}

#[test]
fn only_the_owner_changes_the_mode() {
    let mut world = with_bobs_home(0o777, 0o666);
    let mode = SetMode { path: path("/bob/f"), mode: 0o777 };
    assert_eq!(refusal(world.call(user("eve"), mode)), ErrorKind::Permission);
}

#[test]
fn rights_say_what_a_mode_lets_somebody_do() {
    let mode = |who: head::Principal| head::rights(&who, "bob", "staff", 0o751);
    assert_eq!((mode(user("bob")), mode(user("staff")), mode(user("eve"))), (7, 5, 1));
    assert_eq!(head::rights(&as_owner("ada"), "bob", "staff", 0), 7);
}

#[test]
fn permissions_do_not_bind_the_operator() {
    let mut world = with_bobs_home(0o700, 0o600);
    world.user(OpenRead { path: path("/bob/f") }).unwrap();
    world.user(remove("/bob/f")).unwrap();
}

#[test]
fn names_of_the_http_door_are_reserved_below_the_root_only() {
    let mut world = world();
    put(&mut world, "/d/f", 1);
    for name in ["/api", "/console", "/metrics", "/.well-known"] {
        assert_eq!(refusal(world.user(mkdir(name))), ErrorKind::Invalid, "{name}");
        assert_eq!(refusal(world.user(rename("/d", name))), ErrorKind::Invalid, "{name}");
        let open = open_write(name, Disposition::CreateNew, 1);
        assert_eq!(refusal(world.user(open)), ErrorKind::Invalid, "{name}");
    }
    world.user(mkdir("/d/api")).unwrap();
}

#[test]
fn a_rename_over_a_file_replaces_it() {
    let mut world = world();
    let content = put(&mut world, "/a", 10);
    put_archived(&mut world, "/b", 20);
    world.user(rename("/a", "/b")).unwrap();
    let info = stat(&mut world, "/b").unwrap();
    assert_eq!((info.entry.size, info.entry.checksums), (10, Some(content.sums)));
    assert!(info.copies.is_empty(), "the copy was of the file that is gone");
    assert_eq!(refusal(stat(&mut world, "/a")), ErrorKind::NotFound);
}

#[test]
fn a_rename_to_itself_changes_nothing() {
    let mut world = world();
    put(&mut world, "/a", 10);
    let before = stat(&mut world, "/a").unwrap();
    world.user(rename("/a", "/a")).unwrap();
    assert_eq!(stat(&mut world, "/a").unwrap(), before);
}

#[test]
fn a_directory_replaces_an_empty_directory_only() {
    let mut world = world();
    put(&mut world, "/full/f", 1);
    world.user(mkdir("/empty")).unwrap();
    assert_eq!(refusal(world.user(rename("/empty", "/full"))), ErrorKind::NotEmpty);
    world.user(rename("/full", "/empty")).unwrap();
    stat(&mut world, "/empty/f").unwrap();
}

#[test]
fn a_file_never_replaces_a_directory_nor_a_directory_a_file() {
    let mut world = world();
    put(&mut world, "/f", 1);
    world.user(mkdir("/d")).unwrap();
    assert_eq!(refusal(world.user(rename("/f", "/d"))), ErrorKind::IsDirectory);
    assert_eq!(refusal(world.user(rename("/d", "/f"))), ErrorKind::NotDirectory);
}

#[test]
fn a_directory_cannot_move_into_itself() {
    let mut world = world();
    put(&mut world, "/d/e/f", 1);
    assert_eq!(refusal(world.user(rename("/d", "/d/e/d"))), ErrorKind::Invalid);
    assert_eq!(refusal(world.user(rename("/", "/d/x"))), ErrorKind::Invalid);
    stat(&mut world, "/d/e/f").unwrap();
}

#[test]
fn a_rename_never_makes_a_path_too_long_to_be_named() {
    let mut world = world();
    let name = "n".repeat(200);
    let deep = format!("/d{}", format!("/{name}").repeat(18));
    put(&mut world, &format!("{deep}/f"), 1);
    ask_archive(&mut world, &format!("{deep}/f")).unwrap();
    let long = format!("/{name}{}", format!("/{name}").repeat(3));
    world.user(Mkdir { path: path(&long), mode: 0o755, parents: true }).unwrap();
    assert_eq!(refusal(world.user(rename("/d", &format!("{long}/d")))), ErrorKind::Invalid);
    run_drive(&mut world);
    stat(&mut world, &format!("{deep}/f")).unwrap();
}

#[test]
fn a_rename_never_makes_a_path_too_deep_to_be_named() {
    let mut world = world();
    let (one, other) = ("/a".repeat(100), "/b".repeat(100));
    put(&mut world, &format!("{one}/f"), 1);
    world.user(Mkdir { path: path(&other), mode: 0o755, parents: true }).unwrap();
    assert_eq!(refusal(world.user(rename("/a", &format!("{other}/a")))), ErrorKind::Invalid);
}

#[test]
fn an_input_of_a_job_cannot_be_removed() {
    let mut world = world();
    put(&mut world, "/in", 1);
    put(&mut world, "/other", 1);
    let job = world.submit(&[path("/in")], &path("/out")).unwrap();
    assert_eq!(refusal(world.user(remove("/in"))), ErrorKind::Busy);
    assert_eq!(refusal(world.user(rename("/other", "/in"))), ErrorKind::Busy);
    world.user(wire::control::CancelJob { job }).unwrap();
    world.user(remove("/in")).unwrap();
}

#[test]
fn a_pin_of_a_user_does_not_keep_a_file_from_removal() {
    let mut world = world();
    put(&mut world, "/f", 1);
    stage(&mut world, "/f", Some(base::Millis::from_seconds(60))).unwrap();
    world.user(remove("/f")).unwrap();
}

#[test]
fn a_removed_file_leaves_the_tape_queue() {
    let mut world = world();
    put(&mut world, "/f", 1);
    ask_archive(&mut world, "/f").unwrap();
    world.user(remove("/f")).unwrap();
    assert_eq!(requests(&mut world), []);
}

#[test]
fn only_an_empty_directory_is_removed() {
    let mut world = world();
    put(&mut world, "/d/f", 1);
    let rmdir = |at: &str| RemoveDirectory { path: path(at) };
    assert_eq!(refusal(world.user(rmdir("/d"))), ErrorKind::NotEmpty);
    assert_eq!(refusal(world.user(rmdir("/d/f"))), ErrorKind::NotDirectory);
    assert_eq!(refusal(world.user(remove("/d"))), ErrorKind::IsDirectory);
    assert_eq!(refusal(world.user(rmdir("/"))), ErrorKind::Invalid);
    world.user(remove("/d/f")).unwrap();
    world.user(rmdir("/d")).unwrap();
}

#[test]
fn an_exclusive_create_needs_a_free_name() {
    let mut world = world();
    put(&mut world, "/f", 1);
    let open = open_write("/f", Disposition::CreateNew, 1);
    assert_eq!(refusal(world.user(open)), ErrorKind::Exists);
    let begun = open_write("/g", Disposition::CreateNew, 1);
    world.user(begun.clone()).unwrap();
    assert_eq!(refusal(world.user(begun)), ErrorKind::Exists, "a file that is being written has the name");
}

#[test]
fn a_refused_call_changes_nothing() {
    let mut world = world();
    let open = open_write("/new/directory/f", Disposition::CreateNew, u64::MAX >> 2);
    assert_eq!(refusal(world.user(open)), ErrorKind::NoSpace);
    assert_eq!(refusal(stat(&mut world, "/new")), ErrorKind::NotFound, "parents were made on the way");
    put(&mut world, "/f", 1);
    let mkdir = Mkdir { path: path("/g/f/d"), mode: 0o755, parents: true };
    world.user(rename("/f", "/g")).unwrap();
    assert_eq!(refusal(world.user(mkdir)), ErrorKind::NotDirectory);
}

/// When a directory changed.
fn changed(world: &mut World, at: &str) -> base::Timestamp {
    stat(world, at).unwrap().entry.modified
}

#[test]
fn a_directory_has_the_time_at_which_its_names_changed() {
    let mut world = world();
    world.user(mkdir("/d")).unwrap();
    world.user(mkdir("/e")).unwrap();
    put(&mut world, "/d/kept", 1);
    // What is done, and whose time changes with it.
    type Step = (&'static str, fn(&mut World) -> bool, [bool; 3]);
    let steps: [Step; 9] = [
        ("a file is made", |world| put(world, "/d/f", 1).size == 1, [false, true, false]),
        ("a file is replaced", |world| put(world, "/d/f", 2).size == 2, [false, false, false]),
        ("a file is renamed", |world| world.user(rename("/d/f", "/d/g")).is_ok(), [false, true, false]),
        ("a file is moved", |world| world.user(rename("/d/g", "/e/g")).is_ok(), [false, true, true]),
        (
            "a file is moved over another",
            |world| world.user(rename("/d/kept", "/e/g")).is_ok(),
            [false, true, true],
        ),
        ("a file is removed", |world| world.user(remove("/e/g")).is_ok(), [false, false, true]),
        ("a directory is made", |world| world.user(mkdir("/d/x")).is_ok(), [false, true, false]),
        (
            "a directory is removed",
            |world| world.user(RemoveDirectory { path: path("/d/x") }).is_ok(),
            [false, true, false],
        ),
        ("a mode changes", |world| world.user(SetMode { path: path("/d"), mode: 0o700 }).is_ok(), [false; 3]),
    ];
    for (what, step, expected) in steps {
        let before = ["/", "/d", "/e"].map(|at| changed(&mut world, at));
        world.advance(base::Millis(1000));
        assert!(step(&mut world), "{what}");
        world.crash();
        let after = ["/", "/d", "/e"].map(|at| changed(&mut world, at));
        let found: Vec<_> = before.iter().zip(after).map(|(before, after)| after > *before).collect();
        assert_eq!(found, expected, "{what}");
    }
}

#[test]
fn a_refused_call_and_a_write_that_is_given_up_leave_the_time_of_the_directory_right() {
    let mut world = world();
    world.user(mkdir("/d")).unwrap();
    put(&mut world, "/d/f", 1);
    let before = changed(&mut world, "/d");
    world.advance(base::Millis(1000));
    assert_eq!(refusal(world.user(mkdir("/d/f"))), ErrorKind::Exists);
    let open = open_write("/d/new/f", Disposition::CreateNew, u64::MAX >> 2);
    assert_eq!(refusal(world.user(open)), ErrorKind::NoSpace);
    assert_eq!(changed(&mut world, "/d"), before);
    let grant = begin_write(&mut world, "/d/g", 1);
    world.advance(base::Millis(1000));
    world.room(wire::control::AbandonWrite { object: grant.object }).unwrap();
    assert_eq!(changed(&mut world, "/d"), world.now, "its name was there, and is gone");
}

#[test]
fn the_time_of_the_source_goes_with_its_content() {
    let mut world = world();
    let when = base::Timestamp(1_577_934_245_000);
    let then = Some(when);
    let write = |world: &mut World, source_modified, number| {
        let open = open_write("/f", Disposition::Replace, 100);
        let open = wire::control::OpenWrite { source_modified, ..open };
        let object = world.user(open).unwrap().object;
        let checksums = sim::Content::numbered(100, number).sums;
        let (mirrors, pieces) = (Vec::new(), Vec::new());
        wire::control::CommitWrite { object, size: 100, checksums, mirrors, pieces }
    };
    let first = write(&mut world, then, 1);
    world.room(first.clone()).unwrap();
    let entry = stat(&mut world, "/f").unwrap().entry;
    assert_eq!((entry.source_modified, entry.content_modified()), (then, when));
    assert_ne!(entry.modified, when, "what decides is when it came");
    world.user(rename("/f", "/g")).unwrap();
    world.crash();
    // Said again, it changes nothing.
    world.room(first).unwrap();
    assert_eq!(stat(&mut world, "/g").unwrap().entry.source_modified, then);
    world.user(rename("/g", "/f")).unwrap();
    let given_up = write(&mut world, then, 2);
    world.room(wire::control::AbandonWrite { object: given_up.object }).unwrap();
    assert_eq!(stat(&mut world, "/f").unwrap().entry.source_modified, then);
    let second = write(&mut world, None, 3);
    world.room(second).unwrap();
    let entry = stat(&mut world, "/f").unwrap().entry;
    assert_eq!((entry.source_modified, entry.content_modified()), (None, entry.modified));
}

#[test]
fn whatever_has_a_name_is_removed_if_it_may_be() {
    let mut world = world();
    put(&mut world, "/d/f", 1);
    let gone = |at: &str| RemoveEntry { path: path(at) };
    assert_eq!(refusal(world.user(gone("/d"))), ErrorKind::NotEmpty);
    assert_eq!(refusal(world.call(user("eve"), gone("/d/f"))), ErrorKind::Permission);
    world.user(gone("/d/f")).unwrap();
    world.user(gone("/d")).unwrap();
    assert_eq!(refusal(world.user(gone("/d"))), ErrorKind::NotFound);
}

#[test]
fn a_rename_makes_parents_only_if_it_is_told_to_and_succeeds() {
    let mut world = world();
    put(&mut world, "/f", 1);
    let with = |from: &str, to: &str| Rename { parents: true, ..rename(from, to) };
    assert_eq!(refusal(world.user(rename("/f", "/a/b/f"))), ErrorKind::NotFound);
    assert_eq!(refusal(world.user(with("/none", "/a/b/f"))), ErrorKind::NotFound);
    assert_eq!(refusal(world.user(with("/f", "/f/b/f"))), ErrorKind::Invalid);
    assert_eq!(refusal(stat(&mut world, "/a")), ErrorKind::NotFound);
    world.user(with("/f", "/a/b/f")).unwrap();
    let mut bobs = with_bobs_home(0o755, 0o644);
    assert_eq!(refusal(bobs.call(user("eve"), with("/bob/f", "/bob/a/f"))), ErrorKind::Permission);
    bobs.call(user("bob"), with("/bob/f", "/bob/a/f")).unwrap();
}

#[test]
fn who_may_write_may_set_the_time() {
    let mut world = with_bobs_home(0o755, 0o644);
    let when = base::Timestamp(1_577_934_245_000);
    let set = |at: &str, modified| SetTime { path: path(at), modified };
    assert_eq!(refusal(world.call(user("eve"), set("/bob/f", when))), ErrorKind::Permission);
    let before = stat(&mut world, "/bob/f").unwrap().entry;
    world.call(user("bob"), set("/bob/f", when)).unwrap();
    world.call(user("bob"), set("/bob", when)).unwrap();
    world.crash();
    let entry = stat(&mut world, "/bob/f").unwrap().entry;
    assert_eq!((entry.modified, entry.content_modified()), (before.modified, when));
    assert_eq!(changed(&mut world, "/bob"), when);
    let to_come = base::Timestamp(world.now.0 + 1_000_000);
    world.call(user("bob"), set("/bob", to_come)).unwrap();
    assert_eq!(changed(&mut world, "/bob"), to_come);
    begin_write(&mut world, "/bob/other", 1);
    assert_eq!(changed(&mut world, "/bob"), world.now, "one to come does not hide that names change");
    begin_write(&mut world, "/new", 1);
    assert_eq!(refusal(world.user(set("/new", when))), ErrorKind::Locked);
}
