//! Mounts that all users of a host use: each call is made on behalf of one of them.

mod support;

use base::{ErrorKind, FileId};
use head::Principal;
use share::ClientId;
use sim::World;
use support::{path, refusal, user, world};
use wire::control::{
    ActsFor, GetNode, MakeNode, Mkdir, MountSession, NodeKind, OpenMount, OpenNode, SetMode, SetNode,
};

const ROOT: FileId = FileId(1);

fn mount(world: &mut World) -> MountSession {
    world.user(OpenMount { path: path("/"), host: "h:/mnt".into() }).expect("it can be mounted")
}

/// Somebody for whom ada's mount calls.
fn for_user(name: &str, groups: &[&str]) -> Principal {
    let groups = groups.iter().map(|group| (*group).to_owned()).collect();
    Principal::operator("ada")
        .acts_for(ActsFor::new(name.into(), groups, name == "root"))
        .expect("ada is an operator")
}

fn make(client: ClientId, parent: FileId, name: &str, mode: u32) -> MakeNode {
    let (name, kind, target) = (name.to_owned(), NodeKind::File, String::new());
    MakeNode { client, parent, name, kind, mode, is_opened: false, target, grant: None }
}

#[test]
fn only_operators_act_for_others() {
    let ann = || ActsFor::new("ann".into(), Vec::new(), false);
    assert_eq!(refusal(user("bob").acts_for(ann())), ErrorKind::Permission);
    assert_eq!(refusal(for_user("root", &[]).acts_for(ann())), ErrorKind::Permission, "nobody acts twice");
    let mut world = world();
    assert!(mount(&mut world).acts_for_others);
    world.user(SetMode { path: path("/"), mode: 0o777 }).unwrap();
    let open = OpenMount { path: path("/"), host: "h:/mnt".into() };
    assert!(!world.call(user("bob"), open).unwrap().acts_for_others);
}

#[test]
fn what_somebody_makes_is_theirs_and_closed_to_others() {
    let mut world = world();
    let client = mount(&mut world).client;
    world.user(SetMode { path: path("/"), mode: 0o777 }).unwrap();
    let made = world.call(for_user("ann", &["prod", "ops"]), make(client, ROOT, "f", 0o640)).unwrap();
    let entry = made.entry.unwrap();
    assert_eq!((entry.owner.as_str(), entry.group.as_str()), ("ann", "prod"));
    let open =
        |is_write| OpenNode { client, file: entry.id, is_read: true, is_write, is_run: false, grant: None };
    world.call(for_user("ann", &["ops"]), open(true)).unwrap();
    world.call(for_user("bob", &["users", "prod"]), open(false)).unwrap();
    assert_eq!(refusal(world.call(for_user("bob", &["users", "prod"]), open(true))), ErrorKind::Permission);
    assert_eq!(refusal(world.call(for_user("bob", &["users"]), open(false))), ErrorKind::Permission);
    world.call(for_user("root", &["root"]), open(true)).unwrap();
    // The session is ada's, whoever else is an operator.
    let other = Principal::operator("eve").acts_for(ActsFor::new("ann".into(), Vec::new(), false)).unwrap();
    assert_eq!(refusal(world.call(other, open(false))), ErrorKind::Permission);
}

#[test]
fn the_kernel_of_the_host_has_searched_the_way() {
    let mut world = world();
    let client = mount(&mut world).client;
    world.user(Mkdir { path: path("/closed/open"), mode: 0o777, parents: true }).unwrap();
    world.user(SetMode { path: path("/closed"), mode: 0o700 }).unwrap();
    world.user(SetMode { path: path("/closed/open"), mode: 0o777 }).unwrap();
    let open = world.user(wire::control::Stat { path: path("/closed/open") }).unwrap().entry.id;
    let file = world.call(for_user("ann", &["ann"]), make(client, open, "f", 0o600)).unwrap();
    let file = file.entry.unwrap().id;
    world.call(for_user("ann", &["ann"]), GetNode { client, file }).unwrap();
    // In the last directory it counts.
    let (owner, group, modified, accessed) = (None, None, None, None);
    world.user(SetNode { client, file: open, mode: Some(0o700), owner, group, modified, accessed }).unwrap();
    let refused = world.call(for_user("ann", &["ann"]), make(client, open, "g", 0o600));
    assert_eq!(refusal(refused), ErrorKind::Permission);
}

#[test]
fn a_program_is_run_without_the_right_to_read_it() {
    let mut world = world();
    let client = mount(&mut world).client;
    world.user(SetMode { path: path("/"), mode: 0o777 }).unwrap();
    let file = world.call(for_user("ann", &["ann"]), make(client, ROOT, "f", 0o711)).unwrap();
    let file = file.entry.unwrap().id;
    let open = |is_read, is_run| OpenNode { client, file, is_read, is_write: false, is_run, grant: None };
    let bob = for_user("bob", &["bob"]);
    assert_eq!(refusal(world.call(bob.clone(), open(true, false))), ErrorKind::Permission);
    assert_eq!(refusal(world.call(bob.clone(), open(false, false))), ErrorKind::Permission, "for nothing");
    world.call(bob, open(false, true)).unwrap();
    // Whoever mounts for themselves is not believed.
    let own = world.call(user("eve"), OpenMount { path: path("/"), host: "h:/mnt".into() }).unwrap().client;
    let run = OpenNode { client: own, file, is_read: false, is_write: false, is_run: true, grant: None };
    assert_eq!(refusal(world.call(user("eve"), run)), ErrorKind::Permission);
}
