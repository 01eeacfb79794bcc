//! Grants on directories: what they allow beside modes, how far they reach, and who may make them.

mod support;

use base::{ErrorKind, Result};
use head::Principal;
use sim::World;
use support::*;
use wire::control::{
    Disposition, Done, GetGrants, List, Mkdir, OpenRead, ReadGrant, Remove, RemoveDirectory, Rename,
    SetGrant, SetMode, SetOwner,
};

fn mkdir(world: &mut World, at: &str, mode: u32) {
    world.user(Mkdir { path: path(at), mode, parents: false }).expect("the directory can be made");
}

fn grant(world: &mut World, who: Principal, at: &str, subject: &str, rights: &str) -> Result<Done> {
    let rights = (rights != "-").then(|| rights.parse().expect("tests grant what exists"));
    world.call(
        who,
        SetGrant { path: path(at), subject: subject.parse().expect("tests name somebody"), rights },
    )
}

fn give(world: &mut World, at: &str, subject: &str, rights: &str) {
    grant(world, as_owner("ada"), at, subject, rights).expect("the owner may grant");
}

fn member() -> Principal {
    Principal { groups: vec!["prod".to_owned()], ..user("bob") }
}

/// Whether somebody may read, list, write anew, replace, and remove below a directory.
fn may(world: &mut World, who: &Principal, at: &str) -> [bool; 5] {
    let file = format!("{at}/private");
    let read = world.call(who.clone(), OpenRead { path: path(&file) }).is_ok();
    let list = world.call(who.clone(), List { path: path(at), after: String::new() }).is_ok();
    let mut made = |name: &str, disposition| {
        let open = open_write(&format!("{at}/{name}"), disposition, 1);
        world.call(who.clone(), open).is_ok()
    };
    let (write, replace) = (made("new", Disposition::CreateNew), made("private", Disposition::Replace));
    let remove = world.call(who.clone(), Remove { path: path(&format!("{at}/gone")) }).is_ok();
    [read, list, write, replace, remove]
}

/// A directory that only its owner can use, with files, and one below it.
fn closed() -> World {
    let mut world = world();
    mkdir(&mut world, "/d", 0o700);
    mkdir(&mut world, "/d/deep", 0o700);
    for at in ["/d", "/d/deep"] {
        for name in ["private", "gone"] {
            put(&mut world, &format!("{at}/{name}"), 3);
            world.user(SetMode { path: path(&format!("{at}/{name}")), mode: 0o600 }).expect("the owner may");
        }
    }
    world
}

#[test]
fn grants_allow_what_they_say_and_reach_downwards() {
    let (yes, no) = (true, false);
    for (rights, allowed) in
        [("r", [yes, yes, no, no, no]), ("w", [no, no, yes, yes, yes]), ("rw", [yes, yes, yes, yes, yes])]
    {
        for subject in ["user:bob", "group:prod", "group:bob"] {
            for at in ["/d", "/d/deep"] {
                let mut world = closed();
                give(&mut world, "/d", subject, rights);
                assert_eq!(may(&mut world, &member(), at), allowed, "{subject} {rights} {at}");
                assert_eq!(may(&mut world, &user("eve"), at), [no; 5], "{subject} {rights} {at}");
            }
        }
    }
}

#[test]
fn without_a_grant_modes_count_as_before() {
    let mut world = closed();
    assert_eq!(may(&mut world, &member(), "/d"), [false; 5]);
    assert_eq!(may(&mut world, &as_owner("ada"), "/d"), [true; 5]);
    // A grant to others gives nothing, and takes nothing away.
    give(&mut world, "/d", "group:others", "rw");
    assert_eq!(may(&mut world, &member(), "/d/deep"), [false; 5]);
}

#[test]
fn a_grant_below_does_not_reach_upwards_or_through_closed_doors() {
    let mut world = closed();
    give(&mut world, "/d/deep", "user:bob", "rw");
    assert_eq!(may(&mut world, &user("bob"), "/d"), [false; 5]);
    assert_eq!(may(&mut world, &user("bob"), "/d/deep"), [false; 5], "/d cannot be walked through");
    world.user(SetMode { path: path("/d"), mode: 0o711 }).unwrap();
    assert_eq!(may(&mut world, &user("bob"), "/d/deep"), [true; 5]);
}

#[test]
fn grants_are_replaced_taken_away_and_listed() {
    let mut world = closed();
    let list = |world: &mut World, who: Principal, at: Option<&str>| {
        let listed = world.call(who, GetGrants { path: at.map(path) });
        listed.map(|listed| {
            let line = |grant: &wire::control::GrantInfo| {
                format!("{} {} {} {}", grant.path, grant.subject, grant.rights, grant.giver)
            };
            listed.grants.iter().map(line).collect::<Vec<_>>()
        })
    };
    give(&mut world, "/d/deep", "user:bob", "r");
    give(&mut world, "/d", "group:prod", "r");
    give(&mut world, "/d", "group:prod", "rw");
    let all = ["/d group:prod rw ada", "/d/deep user:bob r ada"];
    assert_eq!(list(&mut world, as_owner("ada"), None).unwrap(), all);
    assert_eq!(list(&mut world, as_owner("ada"), Some("/d/deep/private")).unwrap(), all);
    assert_eq!(list(&mut world, member(), Some("/d")).unwrap(), all[..1]);
    assert_eq!(refusal(list(&mut world, user("eve"), Some("/d/deep"))), ErrorKind::Permission);
    assert_eq!(refusal(list(&mut world, user("eve"), None)), ErrorKind::Permission);
    give(&mut world, "/d", "group:prod", "-");
    let gone = grant(&mut world, as_owner("ada"), "/d", "group:prod", "-");
    assert_eq!(refusal(gone), ErrorKind::NotFound);
    assert_eq!(may(&mut world, &member(), "/d"), [false; 5]);
}

#[test]
fn grants_are_made_by_the_owner_of_the_directory_alone() {
    let mut world = closed();
    world.call(as_owner("bob"), Mkdir { path: path("/bob"), mode: 0o755, parents: false }).unwrap();
    grant(&mut world, user("bob"), "/bob", "user:eve", "rw").unwrap();
    assert_eq!(refusal(grant(&mut world, user("eve"), "/bob", "user:eve", "r")), ErrorKind::Permission);
    assert_eq!(refusal(grant(&mut world, user("eve"), "/", "user:eve", "rw")), ErrorKind::Permission);
    grant(&mut world, as_owner("ada"), "/d/private", "user:eve", "r").expect("a single file can be granted");
    // Who may write may not give away what belongs to somebody else.
    let mode = SetMode { path: path("/bob"), mode: 0o777 };
    assert_eq!(refusal(world.call(user("eve"), mode)), ErrorKind::Permission);
}

#[test]
fn grants_follow_a_directory_that_moves_and_end_with_it() {
    let mut world = closed();
    give(&mut world, "/d/deep", "user:bob", "r");
    world.user(Rename { from: path("/d/deep"), to: path("/moved"), is_new: true, parents: false }).unwrap();
    assert!(may(&mut world, &user("bob"), "/moved")[0]);
    for name in ["private", "gone"] {
        world.user(Remove { path: path(&format!("/moved/{name}")) }).unwrap();
    }
    world.user(RemoveDirectory { path: path("/moved") }).unwrap();
    mkdir(&mut world, "/moved", 0o700);
    let listed = world.user(GetGrants { path: None }).unwrap();
    assert!(listed.grants.is_empty(), "{listed:?}");
}

#[test]
fn a_directory_has_room_for_so_many() {
    let mut world = closed();
    for number in 0..64 {
        give(&mut world, "/d", &format!("user:u{number}"), "r");
    }
    let more = grant(&mut world, as_owner("ada"), "/d", "user:more", "r");
    assert_eq!(refusal(more), ErrorKind::Busy);
    give(&mut world, "/d", "user:u7", "rw");
    give(&mut world, "/d", "user:u8", "-");
    give(&mut world, "/d", "user:more", "r");
}

#[test]
fn grants_outlive_a_restart() {
    let mut world = closed();
    give(&mut world, "/d", "user:bob", "r");
    world.crash();
    assert!(may(&mut world, &user("bob"), "/d")[0]);
}

/// Generation of a right to read that is given now.
fn fence(world: &mut World) -> u64 {
    match world.user(OpenRead { path: path("/d/private") }).expect("the owner may read") {
        ReadGrant::Online(object) => object.fence,
        ReadGrant::Recalling { .. } => panic!("nothing is on tape"),
    }
}

type Act = Box<dyn Fn(&mut World)>;

#[test]
fn rights_that_were_given_end_when_somebody_loses_one() {
    let mut world = closed();
    let mode = |mode| {
        move |world: &mut World| {
            world.user(SetMode { path: path("/d"), mode }).unwrap();
        }
    };
    let rename = |from: &'static str, to: &'static str| {
        move |world: &mut World| {
            world.user(Rename { from: path(from), to: path(to), is_new: true, parents: false }).unwrap();
        }
    };
    let grant = |rights: &'static str| move |world: &mut World| give(world, "/d", "user:bob", rights);
    let steps: [(&str, bool, Act); 10] = [
        ("more may enter", false, Box::new(mode(0o755))),
        ("nobody else may write", false, Box::new(mode(0o555))),
        ("others may not enter", true, Box::new(mode(0o550))),
        ("a grant", false, Box::new(grant("r"))),
        ("another grant instead", true, Box::new(grant("w"))),
        ("none", true, Box::new(grant("-"))),
        ("another name", false, Box::new(rename("/d/gone", "/d/here"))),
        ("another directory", true, Box::new(rename("/d/here", "/d/deep/here"))),
        ("a restart", true, Box::new(World::crash)),
        ("a look", false, Box::new(|world| drop(stat(world, "/d")))),
    ];
    for (step, is_raised, act) in steps {
        let before = fence(&mut world);
        act(&mut world);
        let after = fence(&mut world);
        assert_eq!((after > before, after >= before), (is_raised, true), "{step}: {before} {after}");
        let told = world.room(world.report()).expect("a disk server that is known may report");
        assert_eq!(told.fence, after, "{step}");
    }
}

#[test]
fn operators_give_to_anybody_and_owners_to_their_groups() {
    let mut world = closed();
    mkdir(&mut world, "/ann", 0o750);
    let give = |world: &mut World, who, owner: Option<&str>, group: Option<&str>| {
        let (owner, group) = (owner.map(str::to_owned), group.map(str::to_owned));
        world.call(who, SetOwner { path: path("/ann"), owner, group })
    };
    assert_eq!(refusal(give(&mut world, user("eve"), Some("eve"), None)), ErrorKind::Permission);
    give(&mut world, as_owner("ada"), Some("ann"), Some("ann")).unwrap();
    world.call(user("ann"), Mkdir { path: path("/ann/own"), mode: 0o755, parents: false }).unwrap();
    assert_eq!(refusal(give(&mut world, user("ann"), None, Some("prod"))), ErrorKind::Permission);
    assert_eq!(refusal(give(&mut world, user("ann"), Some("eve"), None)), ErrorKind::Permission);
    assert_eq!(refusal(give(&mut world, as_owner("ada"), Some("a b"), None)), ErrorKind::Invalid);
    let mut ann = user("ann");
    ann.groups.push("prod".into());
    give(&mut world, ann, None, Some("prod")).unwrap();
    let entry = world.user(wire::control::Stat { path: path("/ann") }).unwrap().entry;
    assert_eq!((&*entry.owner, &*entry.group), ("ann", "prod"));
}

#[test]
fn a_refusal_names_the_whole_path_that_refuses() {
    let mut world = closed();
    mkdir(&mut world, "/far", 0o755);
    mkdir(&mut world, "/far/shut", 0o700);
    mkdir(&mut world, "/far/shut/deep", 0o755);
    let failure =
        world.call(user("eve"), wire::control::Stat { path: path("/far/shut/deep/x") }).unwrap_err();
    assert!(failure.what.contains("/far/shut has mode 0700"), "{failure}");
}
