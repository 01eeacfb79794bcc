//! Rules of user attributes: who may, how many, and what they survive.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod support;

use base::{ErrorKind, Result};
use head::Principal;
use sim::World;
use support::*;
use wire::control::{
    AttributeChange, Done, GetAttributes, Mkdir, Remove, RemoveDirectory, Rename, SetAttributes, SetMode,
};

fn change(name: &str, value: Option<&[u8]>) -> AttributeChange {
    AttributeChange {
        name: name.to_owned().try_into().unwrap(),
        value: value.map(|value| value.to_vec().try_into().unwrap()),
    }
}

fn set_as(world: &mut World, who: Principal, at: &str, changes: Vec<AttributeChange>) -> Result<Done> {
    world.call(who, SetAttributes { path: path(at), changes, is_new: false })
}

fn set(world: &mut World, at: &str, changes: Vec<AttributeChange>) -> Result<Done> {
    set_as(world, as_owner("ada"), at, changes)
}

/// Attributes as `name=value name=value`.
fn shown(world: &mut World, at: &str) -> Result<String> {
    let reply = world.user(GetAttributes { path: path(at) })?;
    let pair = |attribute: &wire::control::Attribute| {
        format!("{}={}", attribute.name, String::from_utf8_lossy(attribute.value.as_bytes()))
    };
    Ok(reply.attributes.iter().map(pair).collect::<Vec<_>>().join(" "))
}

#[test]
fn attributes_are_set_replaced_listed_by_name_and_removed() {
    let mut world = world();
    put(&mut world, "/f", 10);
    set(&mut world, "/f", vec![change("run", Some(b"7")), change("comment", Some(b"good"))]).unwrap();
    assert_eq!(shown(&mut world, "/f").unwrap(), "comment=good run=7");
    set(&mut world, "/f", vec![change("run", Some(b"8")), change("comment", None)]).unwrap();
    assert_eq!(shown(&mut world, "/f").unwrap(), "run=8");
    set(&mut world, "/", vec![change("site", Some(b""))]).unwrap();
    assert_eq!(shown(&mut world, "/").unwrap(), "site=");
    world.crash();
    assert_eq!(shown(&mut world, "/f").unwrap(), "run=8");
}

#[test]
fn one_refused_change_refuses_all_of_its_call() {
    let mut world = world();
    put(&mut world, "/f", 10);
    set(&mut world, "/f", vec![change("a", Some(b"1"))]).unwrap();
    let changes = vec![change("b", Some(b"2")), change("nothing", None)];
    assert_eq!(refusal(set(&mut world, "/f", changes)), ErrorKind::NotFound);
    let changes = vec![change("b", Some(b"2")), change("a", Some(b"2"))];
    let is_new = SetAttributes { path: path("/f"), changes, is_new: true };
    assert_eq!(refusal(world.user(is_new)), ErrorKind::Exists);
    assert_eq!(shown(&mut world, "/f").unwrap(), "a=1");
}

#[test]
fn the_owner_sets_and_readers_read() {
    let mut world = world();
    world.call(as_owner("bob"), Mkdir { path: path("/bob"), mode: 0o755, parents: false }).unwrap();
    let note = || vec![change("a", Some(b"1"))];
    set_as(&mut world, user("bob"), "/bob", note()).unwrap();
    assert_eq!(refusal(set_as(&mut world, user("eve"), "/bob", note())), ErrorKind::Permission);
    let get = GetAttributes { path: path("/bob") };
    assert_eq!(world.call(user("eve"), get.clone()).unwrap().attributes.len(), 1);
    world.call(user("bob"), SetMode { path: path("/bob"), mode: 0o711 }).unwrap();
    assert_eq!(refusal(world.call(user("eve"), get)), ErrorKind::Permission);
    assert_eq!(refusal(set(&mut world, "/nothing", note())), ErrorKind::NotFound);
}

#[test]
fn attributes_stay_through_renames_and_new_content() {
    let mut world = world();
    put(&mut world, "/a", 10);
    put(&mut world, "/b", 10);
    set(&mut world, "/a", vec![change("of", Some(b"a"))]).unwrap();
    set(&mut world, "/b", vec![change("of", Some(b"b"))]).unwrap();
    world.user(Rename { from: path("/a"), to: path("/b"), is_new: false, parents: false }).unwrap();
    assert_eq!(shown(&mut world, "/b").unwrap(), "of=a");
    put(&mut world, "/b", 20);
    assert_eq!(shown(&mut world, "/b").unwrap(), "of=a");
}

#[test]
fn attributes_go_with_the_file_and_the_directory() {
    let mut world = world();
    put(&mut world, "/d/f", 10);
    for at in ["/d/f", "/d"] {
        set(&mut world, at, vec![change("a", Some(b"1"))]).unwrap();
    }
    world.user(Remove { path: path("/d/f") }).unwrap();
    world.user(RemoveDirectory { path: path("/d") }).unwrap();
    put(&mut world, "/d/f", 10);
    for at in ["/d/f", "/d"] {
        assert_eq!(shown(&mut world, at).unwrap(), "");
    }
}

#[test]
fn a_file_keeps_a_bounded_number_of_bounded_attributes() {
    let mut world = world();
    put(&mut world, "/f", 10);
    let many = |n: usize| (0..n).map(|n| change(&format!("n{n}"), Some(b"v"))).collect::<Vec<_>>();
    assert_eq!(refusal(set(&mut world, "/f", many(65))), ErrorKind::NoSpace);
    assert_eq!(shown(&mut world, "/f").unwrap(), "");
    assert_eq!(refusal(set(&mut world, "/f", many(129))), ErrorKind::Invalid);
    set(&mut world, "/f", many(64)).unwrap();
    set(&mut world, "/f", vec![change("n0", None), change("other", Some(b"v"))]).unwrap();
    let long = vec![7; 65_536];
    let full = |n: usize| (0..n).map(|n| change(&format!("n{}", n + 1), Some(&long))).collect::<Vec<_>>();
    set(&mut world, "/f", full(3)).unwrap();
    assert_eq!(refusal(set(&mut world, "/f", full(4))), ErrorKind::NoSpace);
}
