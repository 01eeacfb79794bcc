use super::super::{ROOT, new_directory, new_file};
use super::*;
use std::{collections::BTreeSet, time::Duration};

const ATTRIBUTES: Attributes = Attributes {
    mode: 0o100_644,
    uid: 0,
    gid: 0,
    accessed: Duration::ZERO,
    modified: Duration::ZERO,
    changed: Duration::ZERO,
};

fn at(directory: NodeId, name: &str) -> Target {
    Target { directory, name: name.to_owned() }
}

fn disk(seed: u64) -> Disk {
    Disk::new(1 << 30, seed)
}

fn file(disk: &mut Disk, directory: NodeId, name: &str) -> NodeId {
    disk.make(at(directory, name), ATTRIBUTES, new_file()).unwrap()
}

fn directory(disk: &mut Disk, name: &str) -> NodeId {
    disk.make(at(ROOT, name), ATTRIBUTES, new_directory(ROOT)).unwrap()
}

fn names(disk: &Disk, directory: NodeId) -> Vec<String> {
    disk.node(directory).unwrap().names().unwrap().keys().cloned().collect()
}

/// What is left of the root after cuts with many seeds.
fn outcomes(prepare: impl Fn(&mut Disk)) -> BTreeSet<Vec<String>> {
    let one = |seed| {
        let mut disk = disk(seed);
        prepare(&mut disk);
        disk.cut();
        names(&disk, ROOT)
    };
    (0..100).map(one).collect()
}

fn one(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn a_name_is_durable_when_its_directory_is_synced_not_its_file() {
    let unsynced = outcomes(|disk| {
        let id = file(disk, ROOT, "a");
        disk.sync(id, false).unwrap();
    });
    assert_eq!(unsynced, BTreeSet::from([one(&[]), one(&["a"])]));
    let synced = outcomes(|disk| {
        file(disk, ROOT, "a");
        disk.sync_directory(ROOT).unwrap();
    });
    assert_eq!(synced, BTreeSet::from([one(&["a"])]));
}

#[test]
fn changes_in_one_directory_are_lost_from_the_end() {
    let left = outcomes(|disk| {
        file(disk, ROOT, "a");
        file(disk, ROOT, "b");
        disk.remove(at(ROOT, "a"), false).unwrap();
    });
    assert_eq!(left, BTreeSet::from([one(&[]), one(&["a"]), one(&["a", "b"]), one(&["b"])]));
}

#[test]
fn a_rename_happens_or_not() {
    let left = outcomes(|disk| {
        file(disk, ROOT, "old");
        disk.sync_directory(ROOT).unwrap();
        disk.rename(at(ROOT, "old"), at(ROOT, "new"), RenameFlags::empty()).unwrap();
    });
    assert_eq!(left, BTreeSet::from([one(&["old"]), one(&["new"])]));
}

#[test]
fn syncing_a_directory_syncs_what_its_changes_depend_on() {
    for seed in 0..20 {
        let mut disk = disk(seed);
        let (a, b) = (directory(&mut disk, "a"), directory(&mut disk, "b"));
        disk.sync_directory(ROOT).unwrap();
        file(&mut disk, a, "file");
        disk.rename(at(a, "file"), at(b, "file"), RenameFlags::empty()).unwrap();
        disk.sync_directory(b).unwrap();
        disk.cut();
        assert_eq!((names(&disk, a), names(&disk, b)), (one(&[]), one(&["file"])));
    }
}

#[test]
fn a_directory_that_was_lost_takes_its_files_along() {
    let left = outcomes(|disk| {
        let a = directory(disk, "a");
        let id = file(disk, a, "file");
        disk.sync(id, false).unwrap();
        disk.sync_directory(a).unwrap();
    });
    assert!(left.contains(&one(&[])) && left.contains(&one(&["a"])), "{left:?}");
}

#[test]
fn what_is_removed_for_good_is_not_kept() {
    let mut disk = disk(0);
    let id = file(&mut disk, ROOT, "a");
    disk.hold(id);
    disk.write(id, 0, &[1; 100_000]).unwrap();
    disk.link(id, at(ROOT, "b")).unwrap();
    disk.sync_directory(ROOT).unwrap();
    disk.remove(at(ROOT, "a"), false).unwrap();
    disk.remove(at(ROOT, "b"), false).unwrap();
    assert_eq!(disk.node(id).unwrap().links, 0, "it is still open");
    disk.release(id);
    assert!(disk.node(id).is_ok(), "its names are on the disk");
    disk.sync_directory(ROOT).unwrap();
    assert!(disk.node(id).is_err());
    assert_eq!(disk.space().0, disk.space().1);
}

#[test]
fn a_removal_that_was_not_synced_may_be_undone_with_the_content() {
    let left = outcomes(|disk| {
        let id = file(disk, ROOT, "a");
        disk.write(id, 0, b"content").unwrap();
        disk.sync(id, true).unwrap();
        disk.sync_directory(ROOT).unwrap();
        disk.remove(at(ROOT, "a"), false).unwrap();
        let mut other = Disk::new(1 << 20, 0);
        std::mem::swap(disk, &mut other);
        other.cut();
        if let Ok(id) = other.look_up(&at(ROOT, "a")) {
            assert_eq!(other.node(id).unwrap().content().unwrap().read(0, 100), b"content");
        }
        std::mem::swap(disk, &mut other);
    });
    assert_eq!(left, BTreeSet::from([one(&[]), one(&["a"])]));
}

#[test]
fn names_are_checked_as_posix_wants_it() {
    let mut disk = disk(0);
    let (a, b) = (directory(&mut disk, "a"), directory(&mut disk, "b"));
    let id = file(&mut disk, a, "file");
    assert_eq!(disk.remove(at(ROOT, "a"), true), Err(Errno::NOTEMPTY));
    assert_eq!(disk.remove(at(ROOT, "a"), false), Err(Errno::ISDIR));
    assert_eq!(disk.remove(at(a, "file"), true), Err(Errno::NOTDIR));
    assert_eq!(disk.rename(at(ROOT, "b"), at(ROOT, "a"), RenameFlags::empty()), Err(Errno::NOTEMPTY));
    assert_eq!(disk.rename(at(ROOT, "b"), at(ROOT, "a"), RenameFlags::NOREPLACE), Err(Errno::EXIST));
    assert_eq!(disk.link(id, at(a, "file")), Err(Errno::EXIST));
    disk.rename(at(ROOT, "a"), at(ROOT, "b"), RenameFlags::EXCHANGE).unwrap();
    assert_eq!((disk.look_up(&at(ROOT, "b")), disk.look_up(&at(ROOT, "a"))), (Ok(a), Ok(b)));
    disk.remove(at(a, "file"), false).unwrap();
    disk.remove(at(ROOT, "b"), true).unwrap();
    assert_eq!(disk.make(at(a, "late"), ATTRIBUTES, new_file()), Err(Errno::NOENT), "it is removed");
}
