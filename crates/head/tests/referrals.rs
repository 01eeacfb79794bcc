//! Directories that other heads keep: what is refused, with whom to ask, and what stays here.

mod support;

use base::{ErrorKind, Failure, OtherHead, Result};
use sim::World;
use support::*;
use wire::control::{
    Disposition, Done, GetEntry, GetReferrals, List, Mkdir, OpenRead, Refer, Remove, RemoveDirectory, Rename,
    SetMode,
};

fn other(name: &str) -> OtherHead {
    OtherHead { root: format!("root://{name}:1094"), http: format!("https://{name}:8443") }
}

fn refer(world: &mut World, at: &str, to: Option<OtherHead>) -> Result<Done> {
    world.call(as_owner("ada"), Refer { path: path(at), to })
}

fn mkdir(world: &mut World, at: &str) -> Result<()> {
    world.user(Mkdir { path: path(at), mode: 0o755, parents: true }).map(drop)
}

/// Who is to be asked, according to a refusal.
fn keeper<T: std::fmt::Debug>(outcome: Result<T>) -> Option<OtherHead> {
    let failure = outcome.expect_err("another head keeps it");
    assert_eq!(failure.kind, if failure.at.is_some() { ErrorKind::Unsupported } else { failure.kind });
    failure.at.map(|at| *at)
}

/// A facility whose /exp/cms another head keeps.
fn referred() -> World {
    let mut world = world();
    put(&mut world, "/data/f", 3);
    mkdir(&mut world, "/exp/cms").expect("the directory can be made");
    refer(&mut world, "/exp/cms", Some(other("cms"))).expect("an operator may");
    world
}

#[test]
fn whatever_is_asked_about_what_another_keeps_is_answered_with_who() {
    let mut world = referred();
    let cms = Some(other("cms"));
    for at in ["/exp/cms", "/exp/cms/f", "/exp/cms/a/b/c"] {
        let at = path(at);
        assert_eq!(keeper(world.user(GetEntry { path: at.clone() })), cms, "{at}");
        assert_eq!(keeper(world.user(List { path: at.clone(), after: String::new() })), cms, "{at}");
        assert_eq!(keeper(world.user(OpenRead { path: at.clone() })), cms, "{at}");
        assert_eq!(keeper(world.user(Remove { path: at.clone() })), cms, "{at}");
        assert_eq!(keeper(world.user(RemoveDirectory { path: at.clone() })), cms, "{at}");
        assert_eq!(keeper(world.user(SetMode { path: at, mode: 0o700 })), cms);
    }
    for at in ["/exp/cms/f", "/exp/cms/a/b/c"] {
        assert_eq!(keeper(mkdir(&mut world, at)), cms, "{at}");
        assert_eq!(keeper(world.user(open_write(at, Disposition::CreateNew, 1))), cms, "{at}");
    }
    let above = world.user(List { path: path("/exp"), after: String::new() }).unwrap();
    assert_eq!(above.entries.len(), 1, "it is seen from above");
    assert!(world.user(OpenRead { path: path("/data/f") }).is_ok(), "all else is here");
}

#[test]
fn who_may_not_look_there_is_not_told() {
    let mut world = referred();
    world.user(SetMode { path: path("/exp"), mode: 0o700 }).unwrap();
    let refused = world.call(user("bob"), GetEntry { path: path("/exp/cms/f") });
    assert_eq!(refused.map_err(|failure| (failure.kind, failure.at)), Err((ErrorKind::Permission, None)));
}

#[test]
fn nothing_is_moved_between_heads_nor_above_a_referral() {
    let mut world = referred();
    let mut rename = |from: &str, to: &str| -> Failure {
        let call = Rename { from: path(from), to: path(to), is_new: false, parents: false };
        world.user(call).expect_err("it must not be moved")
    };
    for (from, to) in [("/data/f", "/exp/cms/f"), ("/exp/cms/f", "/data/g"), ("/data", "/exp/cms")] {
        let failure = rename(from, to);
        assert_eq!((failure.kind, failure.at), (ErrorKind::Unsupported, None), "{from} to {to}");
    }
    assert_eq!(rename("/exp/cms/f", "/exp/cms/g").at.map(|at| *at), Some(other("cms")));
    let failure = rename("/exp", "/experiments");
    assert!(failure.what.contains("/exp/cms") && failure.at.is_none(), "{failure}");
    assert!(
        world
            .user(Rename { from: path("/data/f"), to: path("/exp/f"), is_new: true, parents: false })
            .is_ok()
    );
}

#[test]
fn the_rest_of_a_head_that_refers_the_root_is_elsewhere() {
    let mut world = referred();
    refer(&mut world, "/", Some(other("main"))).expect("an operator may");
    let main = Some(other("main"));
    assert_eq!(keeper(world.user(GetEntry { path: path("/x") })), main);
    assert_eq!(keeper(world.user(GetEntry { path: path("/x/y") })), main);
    assert_eq!(keeper(mkdir(&mut world, "/x/y")), main);
    assert_eq!(keeper(world.user(open_write("/x", Disposition::CreateNew, 1))), main);
    assert!(world.user(GetEntry { path: path("/data/f") }).is_ok());
    let missing = world.user(GetEntry { path: path("/data/x") }).unwrap_err();
    assert_eq!(
        (missing.kind, missing.at),
        (ErrorKind::NotFound, None),
        "below its own it knows what there is"
    );
    let moved = world
        .user(Rename { from: path("/data/f"), to: path("/f"), is_new: true, parents: false })
        .unwrap_err();
    assert_eq!(moved.at, None, "between heads");
}

#[test]
fn only_an_operator_refers_and_only_what_is_empty() {
    let mut world = referred();
    let refused = world.call(user("bob"), Refer { path: path("/exp"), to: None });
    assert_eq!(refused.unwrap_err().kind, ErrorKind::Permission);
    assert_eq!(world.call(user("bob"), GetReferrals {}).unwrap_err().kind, ErrorKind::Permission);
    let mut kind = |at: &str, to| refer(&mut world, at, to).unwrap_err().kind;
    assert_eq!(kind("/data", Some(other("b"))), ErrorKind::NotEmpty);
    assert_eq!(kind("/data/f", Some(other("b"))), ErrorKind::NotDirectory);
    assert_eq!(kind("/nothing", Some(other("b"))), ErrorKind::NotFound);
    assert_eq!(kind("/exp", None), ErrorKind::NotFound);
    assert_eq!(kind("/exp/cms", Some(OtherHead { root: "b".into(), http: "b".into() })), ErrorKind::Invalid);
    assert_eq!(keeper(refer(&mut world, "/exp/cms/x", Some(other("b")))), Some(other("cms")));
    refer(&mut world, "/exp/cms", Some(other("b"))).expect("it can be changed");
    let shown = world.call(as_owner("ada"), GetReferrals {}).unwrap().referrals;
    assert_eq!(
        shown.iter().map(|one| (one.path.as_str(), &one.at)).collect::<Vec<_>>(),
        [("/exp/cms", &other("b"))]
    );
    refer(&mut world, "/exp/cms", None).expect("it can be ended");
    assert!(mkdir(&mut world, "/exp/cms/here").is_ok());
    assert!(world.call(as_owner("ada"), GetReferrals {}).unwrap().referrals.is_empty());
}
