//! Quotas: what users, groups and projects may hold.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod support;

use base::{ErrorKind, ObjectId};
use proptest::prelude::*;
use sim::{Content, World};
use std::collections::BTreeMap;
use support::*;
use wire::control::{
    AbandonWrite, CommitWrite, Disposition, GetQuotas, Mkdir, QuotaInfo, QuotaKind, Remove, SetProject,
    SetQuota,
};

fn set(world: &mut World, kind: QuotaKind, name: &str, bytes: Option<u64>, files: Option<u64>) {
    world.user(SetQuota { kind, name: name.into(), bytes, files }).unwrap();
}

fn quota(world: &mut World) -> QuotaInfo {
    world.user(GetQuotas {}).unwrap().quotas.remove(0)
}

fn commit(world: &mut World, object: ObjectId, size: u64) -> base::Result<()> {
    let checksums = Content::numbered(size, 1).sums;
    world.room(CommitWrite { object, size, checksums, mirrors: Vec::new(), pieces: Vec::new() }).map(drop)
}

#[test]
fn a_write_that_does_not_fit_is_refused_and_says_which_quota_and_how_much_is_used() {
    let mut world = world();
    put(&mut world, "/a", 60);
    set(&mut world, QuotaKind::User, "ada", Some(100), None);
    let open = open_write("/b", Disposition::Replace, 41);
    let failure = world.user(open.clone()).unwrap_err();
    assert_eq!(failure.kind, ErrorKind::OverQuota);
    assert_eq!(
        failure.what,
        "the quota of user ada is reached: 60 B of 100 B are used or being written, 41 B more exceed it"
    );
    assert!(failure.hint.unwrap().contains("bp quota"));
    assert_eq!(refusal(stat(&mut world, "/b")), ErrorKind::NotFound, "nothing is left of it");
    world.call(as_owner("bob"), open).unwrap();
    // What is being written counts, and what is given up does not.
    let grant = begin_write(&mut world, "/c", 40);
    assert_eq!(refusal(world.user(open_write("/d", Disposition::Replace, 1))), ErrorKind::OverQuota);
    assert_eq!(
        refusal(world.user(open_write("/d", Disposition::Replace, 0))),
        ErrorKind::OverQuota,
        "of unknown size"
    );
    world.room(AbandonWrite { object: grant.object }).unwrap();
    put(&mut world, "/d", 40);
    world.user(Remove { path: path("/a") }).unwrap();
    put(&mut world, "/e", 60);
    // An overwrite counts as what it adds.
    put(&mut world, "/e", 60);
    assert_eq!(refusal(world.user(open_write("/e", Disposition::Replace, 61))), ErrorKind::OverQuota);
}

#[test]
fn more_than_was_said_is_refused_at_the_commit() {
    let mut world = world();
    set(&mut world, QuotaKind::Group, "ada", Some(100), None);
    let grant = begin_write(&mut world, "/a", 0);
    assert_eq!(refusal(commit(&mut world, grant.object, 101)), ErrorKind::OverQuota);
    commit(&mut world, grant.object, 100).unwrap();
    assert_eq!((quota(&mut world).bytes, quota(&mut world).reserved_bytes), (100, 0));
}

#[test]
fn what_was_reserved_before_the_limit_was_lowered_is_taken() {
    let mut world = world();
    let grant = begin_write(&mut world, "/a", 100);
    set(&mut world, QuotaKind::User, "ada", Some(10), None);
    assert_eq!(quota(&mut world).reserved_bytes, 100);
    commit(&mut world, grant.object, 100).unwrap();
    assert_eq!(quota(&mut world).bytes, 100);
    put(&mut world, "/a", 99);
    assert_eq!(refusal(world.user(open_write("/b", Disposition::Replace, 0))), ErrorKind::OverQuota);
}

#[test]
fn files_of_a_project_are_counted_whoever_makes_them() {
    let mut world = world();
    world.user(Mkdir { path: path("/p"), parents: false, mode: 0o777 }).unwrap();
    world.user(SetProject { path: path("/p"), project: Some("p".parse().unwrap()) }).unwrap();
    set(&mut world, QuotaKind::Project, "p", None, Some(2));
    put(&mut world, "/p/a", 1);
    world.call(user("bob"), open_write("/p/b", Disposition::Replace, 1)).unwrap();
    let failure = world.call(user("eve"), open_write("/p/c", Disposition::Replace, 1)).unwrap_err();
    assert_eq!(failure.what, "the quota of project p is reached: 2 files of 2");
    put(&mut world, "/p/a", 2);
    set(&mut world, QuotaKind::Project, "p", None, None);
    assert!(world.user(GetQuotas {}).unwrap().quotas.is_empty());
    world.call(user("eve"), open_write("/p/c", Disposition::Replace, 1)).unwrap();
}

#[test]
fn operators_alone_set_quotas() {
    let mut world = world();
    let ask = SetQuota { kind: QuotaKind::User, name: "bob".into(), bytes: None, files: None };
    assert_eq!(refusal(world.call(user("bob"), ask.clone())), ErrorKind::Permission);
    for name in ["", "a\nb"] {
        assert_eq!(refusal(world.user(SetQuota { name: name.into(), ..ask.clone() })), ErrorKind::Invalid);
    }
}

/// What is done, to which file, with how many bytes.
type Step = (u8, u8, u64);

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn what_is_held_exceeds_the_limit_by_no_more_than_when_it_was_set(
        steps in prop::collection::vec((0u8..7, 0u8..4, 0u64..120), 1..60)
    ) {
        check(steps)?;
    }
}

fn check(steps: Vec<Step>) -> Result<(), TestCaseError> {
    let mut world = world();
    let mut writing: BTreeMap<u8, (ObjectId, u64)> = BTreeMap::new();
    let mut held: BTreeMap<u8, u64> = BTreeMap::new();
    let (mut limit, mut excess) = (200, 0);
    set(&mut world, QuotaKind::User, "ada", Some(limit), None);
    for (what, which, bytes) in steps {
        let name = format!("/f{which}");
        match what {
            0 | 1 => {
                let said = if what == 0 { bytes } else { 0 };
                if let Ok(grant) = world.user(open_write(&name, Disposition::Replace, said)) {
                    writing.insert(which, (grant.object, said));
                }
            }
            2 | 3 => {
                let Some((object, said)) = writing.get(&which).copied() else { continue };
                let size = if what == 2 { bytes.min(said) } else { bytes };
                match commit(&mut world, object, size) {
                    Ok(()) => drop(held.insert(which, size)),
                    Err(failure) => {
                        prop_assert_eq!(failure.kind, ErrorKind::OverQuota);
                        world.room(AbandonWrite { object }).unwrap();
                    }
                }
                writing.remove(&which);
            }
            4 => {
                if world.user(Remove { path: path(&name) }).is_ok() {
                    held.remove(&which);
                    writing.remove(&which);
                }
            }
            5 => {
                world.crash();
                writing.clear();
            }
            _ => {
                limit = bytes * 3;
                set(&mut world, QuotaKind::User, "ada", Some(limit), None);
                excess = u64::MAX;
            }
        }
        let reserved: u64 = writing
            .iter()
            .map(|(which, (_, said))| said.saturating_sub(held.get(which).copied().unwrap_or(0)))
            .sum();
        let sum: u64 = held.values().sum();
        let shown = quota(&mut world);
        prop_assert_eq!((shown.bytes, shown.reserved_bytes, shown.bytes_max), (sum, reserved, Some(limit)));
        let over = (sum + reserved).saturating_sub(limit);
        prop_assert!(over <= excess, "{over} too many where {excess} were there before");
        excess = over;
    }
    Ok(())
}
