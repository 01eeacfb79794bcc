//! Leases of mounts on names and attributes, as changes through mounts and doors meet them.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod support;

use base::{ErrorKind, FileId, Millis};
use share::{ClientId, Incarnation, Leases, Mode, RequestId, Session};
use sim::World;
use support::{path, put, refusal, stat, world};
use wire::control::{
    AskGrant, Entry, GetNode, ListNode, LookUp, MakeNode, Mkdir, MountedNode, NextRecalls, NodeKind,
    OpenMount, OpenNode, Recalls, Remove, RemoveNode, Rename, SetMode, SetNode, SetTime,
};

const ROOT: FileId = FileId(1);
const LEASE: Millis = Leases::SPAN;
const NONE: Millis = Millis(0);

/// After this time a session that has not answered caches nothing any more.
fn over() -> Millis {
    Millis(Session::LEASE.0 + Session::MARGIN.0 + 1)
}

/// A mount that does what it is asked to.
struct Mount {
    client: ClientId,
    start: Incarnation,
    acknowledged: u64,
    round: u64,
}

impl Mount {
    fn new(world: &mut World) -> Self {
        let session = world.user(OpenMount { path: path("/"), host: "h:/mnt".into() }).unwrap();
        Self { client: session.client, start: session.start, acknowledged: 0, round: 0 }
    }

    /// Asks what to forget; what it was told last is acknowledged by that.
    fn ask(&mut self, world: &mut World) -> Recalls {
        self.round += 1;
        let Self { client, start, acknowledged, round } = *self;
        let call = NextRecalls { client, round, start, acknowledged, working: Vec::new() };
        let told = world.user(call).expect("it has a session");
        (self.start, self.acknowledged) = (told.start, told.number);
        told
    }

    fn forget(&mut self, world: &mut World) {
        self.ask(world);
        assert!(self.ask(world).is_empty());
    }

    fn look(&self, world: &mut World, name: &str) -> MountedNode {
        world.user(LookUp { client: self.client, parent: ROOT, name: name.into() }).unwrap()
    }

    fn make(&self, world: &mut World, name: &str) -> base::Result<Entry> {
        self.make_node(world, name).map(|made| made.entry.expect("it was made"))
    }

    fn make_node(&self, world: &mut World, name: &str) -> base::Result<MountedNode> {
        world.user(MakeNode {
            client: self.client,
            parent: ROOT,
            name: name.into(),
            kind: NodeKind::File,
            mode: 0o644,
            is_opened: false,
            target: String::new(),
            grant: None,
        })
    }
}

#[test]
fn what_a_mount_was_told_it_may_cache() {
    let mut world = world();
    put(&mut world, "/f", 3);
    let mount = Mount::new(&mut world);
    let found = mount.look(&mut world, "f");
    assert_eq!((found.lease, found.names_lease, found.is_absent), (LEASE, LEASE, false));
    let missing = mount.look(&mut world, "g");
    assert_eq!((missing.is_absent, missing.lease, missing.names_lease), (true, NONE, LEASE));
    let list = ListNode { client: mount.client, directory: ROOT, after: String::new() };
    let names = world.user(list).unwrap();
    assert_eq!((names.names_lease, names.lease, names.not_leased.len()), (LEASE, LEASE, 0));
    world.advance(Session::LEASE);
    world.advance(Millis(1));
    assert_eq!(mount.look(&mut world, "f").lease, NONE, "it has not renewed its own lease");
}

#[test]
fn a_change_waits_for_others_and_not_for_who_makes_it() {
    let mut world = world();
    let (mut ann, bob) = (Mount::new(&mut world), Mount::new(&mut world));
    assert!(ann.look(&mut world, "f").is_absent);
    assert_eq!(refusal(bob.make(&mut world, "f")), ErrorKind::Busy);
    assert!(ann.look(&mut world, "f").is_absent, "nothing is left of it");
    assert_eq!(ann.look(&mut world, "f").names_lease, NONE, "it is about to change");
    assert_eq!(ann.ask(&mut world).invalidations, [ROOT]);
    assert_eq!(ann.ask(&mut world).invalidations, []);
    let made = bob.make_node(&mut world, "f").expect("it has forgotten");
    assert_eq!((made.lease, made.names_lease), (LEASE, LEASE), "it is changed now");
    let file = made.entry.expect("it was made").id;
    // Its own kernel knows what it does.
    bob.make(&mut world, "g").expect("nobody else has cached names");
    assert_eq!(ann.look(&mut world, "f").entry.map(|entry| entry.id), Some(file));
}

#[test]
fn all_doors_wait_and_all_kinds_of_changes_do() {
    let mut world = world();
    put(&mut world, "/f", 3);
    let mut mount = Mount::new(&mut world);
    let modified = world.now + Millis(1);
    macro_rules! waits {
        ($call:expr) => {{
            mount.look(&mut world, "f");
            assert_eq!(refusal(world.user($call)), ErrorKind::Busy);
            mount.forget(&mut world);
            world.user($call).expect("it has forgotten");
        }};
    }
    waits!(SetMode { path: path("/f"), mode: 0o600 });
    waits!(SetTime { path: path("/f"), modified });
    waits!(Mkdir { path: path("/d"), mode: 0o755, parents: false });
    waits!(Rename { from: path("/f"), to: path("/d/f"), is_new: false, parents: false });
    assert!(mount.look(&mut world, "f").is_absent);
    waits!(Rename { from: path("/d/f"), to: path("/f"), is_new: false, parents: false });
    waits!(Remove { path: path("/f") });
}

#[test]
fn what_nobody_sees_waits_for_nobody() {
    let mut world = world();
    put(&mut world, "/f", 3);
    let (mount, other) = (Mount::new(&mut world), Mount::new(&mut world));
    let file = mount.look(&mut world, "f").entry.unwrap().id;
    let own = SetNode {
        client: mount.client,
        file,
        mode: Some(0o600),
        owner: None,
        group: None,
        modified: None,
        accessed: None,
    };
    world.user(own).expect("it was changed by whoever has cached it");
    world.user(GetNode { client: other.client, file }).unwrap();
    world
        .user(OpenNode {
            client: other.client,
            file,
            is_read: true,
            is_write: false,
            is_run: false,
            grant: None,
        })
        .unwrap();
    stat(&mut world, "/f").unwrap();
}

#[test]
fn who_is_going_to_write_has_others_forget_size_and_time() {
    let mut world = world();
    put(&mut world, "/f", 3);
    let (mut ann, bob) = (Mount::new(&mut world), Mount::new(&mut world));
    let file = ann.look(&mut world, "f").entry.unwrap().id;
    world
        .user(OpenNode {
            client: bob.client,
            file,
            is_read: true,
            is_write: true,
            is_run: false,
            grant: None,
        })
        .unwrap();
    let ask = AskGrant { client: bob.client, request: RequestId(1), file, mode: Mode::Write };
    let answer = world.user(ask.clone()).unwrap();
    assert!(answer.grant.is_none() && answer.waits.unwrap().contains("forget"));
    assert_eq!(ann.ask(&mut world).invalidations, [file]);
    ann.ask(&mut world);
    assert!(world.user(ask).unwrap().grant.is_some());
    assert!(ann.look(&mut world, "f").entry.is_none(), "the writer is asked to commit");
    let list = ListNode { client: ann.client, directory: ROOT, after: String::new() };
    assert_eq!(world.user(list).unwrap().not_leased, [file]);
}

#[test]
fn a_mount_that_does_not_answer_is_waited_for_no_longer_than_its_lease() {
    let mut world = world();
    put(&mut world, "/f", 3);
    let (mut frozen, bob) = (Mount::new(&mut world), Mount::new(&mut world));
    frozen.look(&mut world, "f");
    let remove = RemoveNode { client: bob.client, parent: ROOT, name: "f".into(), kind: NodeKind::File };
    world.advance(over());
    world.now = world.now + Millis(-1);
    assert_eq!(refusal(world.user(remove.clone())), ErrorKind::Busy);
    world.advance(Millis(1));
    world.user(remove).expect("its lease is over");
    assert!(frozen.ask(&mut world).is_empty(), "it has forgotten all by itself");
    assert!(frozen.look(&mut world, "f").is_absent);
}

#[test]
fn a_start_of_the_head_waits_until_all_have_forgotten_what_they_had() {
    let mut world = world();
    put(&mut world, "/f", 3);
    let (mut ann, mut bob) = (Mount::new(&mut world), Mount::new(&mut world));
    ann.look(&mut world, "f");
    world.crash();
    let remove = RemoveNode { client: bob.client, parent: ROOT, name: "f".into(), kind: NodeKind::File };
    assert_eq!(refusal(world.user(remove.clone())), ErrorKind::Busy);
    assert_eq!(ann.look(&mut world, "f").lease, NONE);
    assert!(bob.ask(&mut world).must_forget && !bob.ask(&mut world).must_forget);
    assert_eq!(refusal(world.user(remove.clone())), ErrorKind::Busy);
    assert!(ann.ask(&mut world).must_forget);
    assert_eq!(refusal(world.user(remove.clone())), ErrorKind::Busy, "it has been told, no more");
    assert!(ann.ask(&mut world).is_empty());
    world.user(remove).expect("both have forgotten");
    // Of one that is gone the lease is over after a while.
    world.crash();
    assert_eq!(refusal(ann.make(&mut world, "g")), ErrorKind::Busy);
    world.advance(over());
    ann.make(&mut world, "g").expect("the other one must have forgotten");
}
