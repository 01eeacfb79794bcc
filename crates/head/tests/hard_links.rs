//! Several names of one file: mounts make them, and every door shows each as a file.

mod support;

use base::{ErrorKind, Failure, FileId, NanoTime, Result};
use head::{Apply, Principal};
use proptest::prelude::*;
use share::{ClientId, Incarnation};
use sim::World;
use std::collections::BTreeMap;
use support::{path, put, refusal, stat, user, world};
use wire::control::{
    CloseMount, Entry, GetEntry, GetMounts, GetNode, GetStatus, LinkNode, List, LookUp, MakeNode, Mkdir,
    MountInfo, MoveNode, NextRecalls, NodeKind, OpenMount, OpenNode, QuotaKind, Remove, RemoveDirectory,
    RemoveNode, Rename, Rights, SetGrant, SetMode, SetNode, SetOwner, SetQuota, Stat,
};

const ROOT: FileId = FileId(1);

fn mount_as(world: &mut World, who: Principal) -> ClientId {
    world.call(who, OpenMount { path: path("/"), host: "h:/mnt".into() }).expect("it can be mounted").client
}

fn mount(world: &mut World) -> ClientId {
    mount_as(world, Principal::operator("ada"))
}

fn link(world: &mut World, client: ClientId, file: FileId, parent: FileId, name: &str) -> Result<Entry> {
    let made = door(world, ada(), LinkNode { client, file, parent, name: name.into() })?;
    Ok(made.entry.expect("it is told"))
}

fn directory(world: &mut World, at: &str) -> FileId {
    world.user(Mkdir { path: path(at), mode: 0o755, parents: true }).expect("it can be made").id
}

fn id(world: &mut World, at: &str) -> FileId {
    stat(world, at).expect("it is there").entry.id
}

/// Makes a call. Mounts that have cached what it changes forget that first.
fn door<C: Apply>(world: &mut World, who: Principal, call: C) -> Result<C::Reply> {
    loop {
        let outcome = world.call(who.clone(), call.clone());
        if !outcome.as_ref().is_err_and(|refused| refused.kind == ErrorKind::Busy) {
            return outcome;
        }
        forget(world);
    }
}

/// Has all mounts forget what they are asked to.
fn forget(world: &mut World) {
    for MountInfo { client, user, .. } in world.user(GetMounts {}).expect("they are listed").mounts {
        let user = Principal::operator(&user);
        let ask =
            |start, acknowledged| NextRecalls { client, round: 0, start, acknowledged, working: Vec::new() };
        let start = world.call(user.clone(), ask(Incarnation(0), 0)).expect("it has a session").start;
        world.call(user, ask(start, u64::MAX)).expect("it has a session");
    }
}

fn ada() -> Principal {
    Principal::operator("ada")
}

fn names(world: &mut World, at: &str) -> Vec<(String, u64, u32)> {
    let list = List { path: path(at), after: String::new() };
    let entries = world.user(list).expect("it can be listed").entries;
    entries.into_iter().map(|it| (it.name, it.id.0, it.posix.further_links)).collect()
}

#[test]
fn every_door_shows_each_name_and_the_file_stays_until_the_last_one_goes() {
    let mut world = world();
    put(&mut world, "/f", 100);
    let (client, below) = (mount(&mut world), directory(&mut world, "/d"));
    let file = id(&mut world, "/f");
    let entry = link(&mut world, client, file, below, "g").unwrap();
    assert_eq!((entry.id, entry.posix.further_links), (file, 1));
    let seen = stat(&mut world, "/d/g").unwrap().entry;
    assert_eq!((seen.id, seen.size, seen.state), (file, 100, stat(&mut world, "/f").unwrap().entry.state));
    assert_eq!(names(&mut world, "/d"), [("g".to_owned(), file.0, 1)]);
    assert_eq!(refusal(link(&mut world, client, file, below, "g")), ErrorKind::Exists);
    assert_eq!(refusal(link(&mut world, client, below, ROOT, "e")), ErrorKind::Permission, "a directory");

    door(&mut world, ada(), Remove { path: path("/f") }).unwrap();
    assert_eq!(refusal(stat(&mut world, "/f")), ErrorKind::NotFound);
    let left = stat(&mut world, "/d/g").unwrap().entry;
    assert_eq!((left.id, left.name.as_str(), left.posix.further_links), (file, "g", 0));
    assert_eq!(names(&mut world, "/d"), [("g".to_owned(), file.0, 0)]);
    door(&mut world, ada(), Remove { path: path("/d/g") }).unwrap();
    assert_eq!(refusal(stat(&mut world, "/d/g")), ErrorKind::NotFound);
    assert_eq!(refusal(world.user(GetNode { client, file })), ErrorKind::NotFound);
}

#[test]
fn a_file_is_counted_once_however_many_names_it_has() {
    let mut world = world();
    put(&mut world, "/f", 100);
    let client = mount(&mut world);
    let file = id(&mut world, "/f");
    let (kind, name) = (QuotaKind::User, "ada".to_owned());
    world.user(SetQuota { kind, name, bytes: Some(150), files: Some(1) }).unwrap();
    link(&mut world, client, file, ROOT, "g").unwrap();
    let status = world.user(GetStatus {}).unwrap();
    assert_eq!((status.files.files, status.files.bytes), (1, 100));
    door(&mut world, ada(), Remove { path: path("/g") }).unwrap();
    assert_eq!(world.user(GetStatus {}).unwrap().files.files, 1);
}

#[test]
fn a_move_over_another_name_of_the_same_file_changes_nothing() {
    let mut world = world();
    put(&mut world, "/f", 1);
    let client = mount(&mut world);
    let file = id(&mut world, "/f");
    link(&mut world, client, file, ROOT, "g").unwrap();
    let mv = |from, to| Rename { from: path(from), to: path(to), is_new: false, parents: false };
    door(&mut world, ada(), mv("/f", "/g")).unwrap();
    assert_eq!(names(&mut world, "/").len(), 2);
    let fresh = Rename { from: path("/f"), to: path("/g"), is_new: true, parents: false };
    assert_eq!(refusal(world.user(fresh)), ErrorKind::Exists);
    // The second name is moved, and the first one stays what it is.
    door(&mut world, ada(), mv("/g", "/h")).unwrap();
    assert_eq!(names(&mut world, "/"), [("f".to_owned(), file.0, 1), ("h".to_owned(), file.0, 1)]);
    world.crash();
    assert_eq!(names(&mut world, "/"), [("f".to_owned(), file.0, 1), ("h".to_owned(), file.0, 1)]);
}

#[test]
fn names_change_places_in_one_step() {
    let mut world = world();
    put(&mut world, "/f", 1);
    let below = directory(&mut world, "/d");
    directory(&mut world, "/d/e");
    let (client, file, inner) = (mount(&mut world), id(&mut world, "/f"), id(&mut world, "/d/e"));
    let exchange = |name: &str, to_parent, to_name: &str| MoveNode {
        client,
        parent: ROOT,
        name: name.into(),
        to_parent,
        to_name: to_name.into(),
        is_new: false,
        is_exchange: true,
    };
    world.user(exchange("f", below, "e")).unwrap();
    assert_eq!((id(&mut world, "/f"), id(&mut world, "/d/e")), (inner, file));
    assert_eq!(refusal(world.user(exchange("d", below, "e"))), ErrorKind::Invalid, "into itself");
    assert_eq!(refusal(world.user(exchange("f", below, "none"))), ErrorKind::NotFound);
    world.crash();
    assert_eq!((id(&mut world, "/f"), id(&mut world, "/d/e")), (inner, file));
}

#[test]
fn a_file_is_reached_by_any_of_its_names() {
    let mut world = world();
    put(&mut world, "/closed/f", 1);
    let open = directory(&mut world, "/open");
    let (client, file) = (mount(&mut world), id(&mut world, "/closed/f"));
    door(&mut world, ada(), SetMode { path: path("/closed"), mode: 0o700 }).unwrap();
    let eve = mount_as(&mut world, user("eve"));
    let look = |world: &mut World| world.call(user("eve"), GetNode { client: eve, file }).map(drop);
    assert_eq!(refusal(look(&mut world)), ErrorKind::Permission);
    link(&mut world, client, file, open, "f").unwrap();
    look(&mut world).unwrap();
    // A grant on a directory above any of its names counts.
    door(&mut world, ada(), SetMode { path: path("/open/f"), mode: 0o600 }).unwrap();
    let read = OpenNode { client: eve, file, is_read: true, is_write: false, is_run: false, grant: None };
    assert_eq!(refusal(world.call(user("eve"), read.clone())), ErrorKind::Permission);
    let subject = "user:eve".parse().unwrap();
    let grant = SetGrant { path: path("/open"), subject, rights: Some(Rights::Read) };
    door(&mut world, ada(), grant).unwrap();
    world.call(user("eve"), read).unwrap();
}

#[test]
fn times_are_kept_to_the_nanosecond_and_the_change_is_dated_by_the_head() {
    let mut world = world();
    put(&mut world, "/f", 1);
    let (client, file) = (mount(&mut world), id(&mut world, "/f"));
    let before = stat(&mut world, "/f").unwrap().entry;
    world.advance(base::Millis(5));
    let (modified, accessed) = (Some(NanoTime(-1_234_567_891)), Some(NanoTime(5_000_000_003)));
    let set = SetNode { client, file, mode: None, owner: None, group: None, modified, accessed };
    let entry = world.user(set.clone()).unwrap().entry.unwrap();
    assert_eq!((entry.modified_nanos(), entry.posix.accessed), (modified.unwrap(), accessed));
    assert_eq!(entry.posix.changed, Some(world.now.into()));
    assert_eq!(entry.modified, before.modified, "what decides between contents stays");
    let (modified, now) = (entry.modified_nanos(), world.now);
    world.advance(base::Millis(5));
    let entry = world
        .user(SetNode { modified: None, mode: Some(0o600), accessed: None, ..set })
        .unwrap()
        .entry
        .unwrap();
    assert_eq!((entry.modified_nanos(), entry.posix.accessed), (modified, accessed));
    assert!(entry.posix.changed > Some(now.into()));
    world.crash();
    assert_eq!(stat(&mut world, "/f").unwrap().entry, entry);
}

#[test]
fn the_sticky_bit_protects_what_is_of_others() {
    let mut world = world();
    world.user(Mkdir { path: path("/tmp"), mode: 0o1777, parents: false }).unwrap();
    let make = |who: &str, at: &str| (user(who), Mkdir { path: path(at), mode: 0o755, parents: false });
    for (who, call) in [make("ann", "/tmp/a"), make("bob", "/tmp/b")] {
        world.call(who, call).unwrap();
    }
    let refused = world.call(user("bob"), RemoveDirectory { path: path("/tmp/a") });
    assert_eq!(refusal(refused), ErrorKind::Permission);
    let over = Rename { from: path("/tmp/b"), to: path("/tmp/a"), is_new: false, parents: false };
    assert_eq!(refusal(world.call(user("bob"), over.clone())), ErrorKind::Permission);
    world.call(user("ann"), RemoveDirectory { path: path("/tmp/a") }).unwrap();
    world.call(user("bob"), over).unwrap();
}

#[test]
fn groups_are_inherited_and_set_id_bits_are_taken_away() {
    let mut world = world();
    world.user(Mkdir { path: path("/d"), mode: 0o2777, parents: false }).unwrap();
    world.user(SetOwner { path: path("/d"), owner: None, group: Some("prod".into()) }).unwrap();
    let made = world.call(user("ann"), Mkdir { path: path("/d/e"), mode: 0o755, parents: false }).unwrap();
    assert_eq!((made.group.as_str(), made.mode), ("prod", 0o2755));
    let client = mount_as(&mut world, user("ann"));
    let (name, kind, target) = ("f".to_owned(), NodeKind::File, String::new());
    let make =
        MakeNode { client, parent: made.id, name, kind, mode: 0o755, is_opened: false, target, grant: None };
    let file = world.call(user("ann"), make).unwrap().entry.unwrap();
    assert_eq!((file.group.as_str(), file.mode), ("prod", 0o755));
    let set = |mode| SetMode { path: path("/d/e/f"), mode };
    let mode = |world: &mut World| world.user(GetEntry { path: path("/d/e/f") }).unwrap().mode;
    // It is not kept by a mount any more.
    world.call(user("ann"), CloseMount { client }).unwrap();
    world.call(user("ann"), set(0o6755)).unwrap();
    assert_eq!(mode(&mut world), 0o4755, "she is not in that group");
    world.user(set(0o6757)).unwrap();
    // Whoever may write takes the bits away by writing.
    assert_eq!(refusal(world.call(user("bob"), set(0o755))), ErrorKind::Permission);
    world.call(user("bob"), set(0o757)).unwrap();
    world.call(user("ann"), set(0o4755)).unwrap();
    let owner = SetOwner { path: path("/d/e/f"), owner: None, group: Some("ann".into()) };
    world.call(user("ann"), owner).unwrap();
    assert_eq!(mode(&mut world), 0o755);
}

/// What is done to names.
#[derive(Debug, Clone, Copy)]
enum Step {
    Make,
    Link,
    Remove,
    Move,
    Exchange,
    Crash,
}

type Place = (FileId, String);

/// What the names of two directories lead to.
type Model = BTreeMap<Place, FileId>;

/// Carries out a step in the model. Yields whether it is possible.
fn expect(model: &mut Model, step: Step, (from, to): (&Place, &Place), made: Option<FileId>) -> bool {
    let (one, other) = (model.get(from).copied(), model.get(to).copied());
    match (step, one, other) {
        (Step::Make, _, None) => made.map(|made| model.insert(to.clone(), made)).is_some(),
        (Step::Link, Some(one), None) => model.insert(to.clone(), one).is_none(),
        (Step::Remove, Some(_), _) => model.remove(from).is_some(),
        (Step::Move, Some(one), other) => {
            if other != Some(one) {
                model.remove(from);
                model.insert(to.clone(), one);
            }
            true
        }
        (Step::Exchange, Some(one), Some(other)) => {
            model.insert(from.clone(), other);
            model.insert(to.clone(), one);
            true
        }
        (Step::Crash, ..) => true,
        _ => false,
    }
}

/// Carries it out at the head.
fn carry_out(
    world: &mut World,
    client: ClientId,
    step: Step,
    (from, to): (&Place, &Place),
) -> Result<Option<FileId>> {
    let ((parent, name), (to_parent, to_name)) = (from.clone(), to.clone());
    let mv = |is_exchange| MoveNode {
        client,
        parent,
        name: name.clone(),
        to_parent,
        to_name: to_name.clone(),
        is_new: false,
        is_exchange,
    };
    match step {
        Step::Make => {
            let (kind, target) = (NodeKind::Fifo, String::new());
            let (parent, name) = (to_parent, to_name);
            let make =
                MakeNode { client, parent, name, kind, mode: 0o644, is_opened: false, target, grant: None };
            return world.user(make).map(|made| made.entry.map(|entry| entry.id));
        }
        Step::Link => {
            let found = world.user(LookUp { client, parent, name })?.entry;
            let found = found.ok_or_else(|| Failure::not_found("nothing is there"))?;
            link(world, client, found.id, to_parent, &to_name)?;
        }
        Step::Remove => drop(world.user(RemoveNode { client, parent, name, kind: NodeKind::File })?),
        Step::Move => drop(world.user(mv(false))?),
        Step::Exchange => drop(world.user(mv(true))?),
        Step::Crash => world.crash(),
    }
    Ok(None)
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => Just(Step::Make),
        4 => Just(Step::Link),
        3 => Just(Step::Remove),
        3 => Just(Step::Move),
        2 => Just(Step::Exchange),
        1 => Just(Step::Crash),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn names_lead_where_a_model_says(steps in prop::collection::vec((step(), 0..8usize, 0..8usize), 1..40)) {
        let mut world = world();
        let directories = [ROOT, directory(&mut world, "/d")];
        let client = mount(&mut world);
        let place = |index: usize| (directories[index % 2], format!("n{}", index / 2));
        let mut model = Model::new();
        for (step, from, to) in steps {
            let (from, to) = (place(from), place(to));
            let outcome = carry_out(&mut world, client, step, (&from, &to));
            let made = outcome.as_ref().ok().copied().flatten();
            prop_assert_eq!(expect(&mut model, step, (&from, &to), made), outcome.is_ok(), "{:?} {:?}", step, outcome);
            for (parent, name) in (0..8).map(place) {
                let found = world.user(LookUp { client, parent, name: name.clone() });
                let found = found.ok().and_then(|it| it.entry);
                let expected = model.get(&(parent, name));
                prop_assert_eq!(found.as_ref().map(|it| &it.id), expected);
                if let Some(found) = found {
                    let count = model.values().filter(|id| **id == found.id).count();
                    prop_assert_eq!(found.posix.further_links as usize + 1, count);
                }
            }
            for (index, at) in ["/", "/d"].into_iter().enumerate() {
                let listed: Vec<_> = names(&mut world, at).into_iter().filter(|it| it.0 != "d").collect();
                let expected = model.iter().filter(|(place, _)| place.0 == directories[index]);
                let expected: Vec<_> = expected.map(|(place, id)| (place.1.clone(), id.0)).collect();
                prop_assert_eq!(listed.into_iter().map(|it| (it.0, it.1)).collect::<Vec<_>>(), expected);
            }
        }
    }
}

#[test]
fn a_stat_says_which_name_was_asked_for() {
    let mut world = world();
    put(&mut world, "/f", 1);
    let client = mount(&mut world);
    let file = id(&mut world, "/f");
    link(&mut world, client, file, ROOT, "g").unwrap();
    let info = world.user(Stat { path: path("/g") }).unwrap();
    assert_eq!((info.path.as_str(), info.entry.id), ("/g", file));
}
