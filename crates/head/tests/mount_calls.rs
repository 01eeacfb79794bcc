//! What one call of a mount does for several: grants with opens, commits and closes with returns.

mod support;

use base::{ErrorKind, FileId, Timestamp};
use share::{ClientId, Generation, Incarnation, Mode, RequestId};
use sim::World;
use support::{PARTITION, path, put, refusal, world};
use wire::control::{
    AskGrant, CommitNode, GetNode, LiveFenced, LiveOrder, MakeNode, MountedNode, NextLiveOrders, NextRecalls,
    NodeKind, OpenMount, OpenNode, RemoveNode, ReturnGrant, ShareGrant, Written,
};

const ROOT: FileId = FileId(1);

fn mount(world: &mut World) -> ClientId {
    world.user(OpenMount { path: path("/"), host: "h:/mnt".into() }).expect("the root can be mounted").client
}

/// Makes a file, opens it, and asks for the grant to write it.
fn make(world: &mut World, client: ClientId, name: &str) -> (FileId, ShareGrant) {
    let MountedNode { entry, grant, .. } = world
        .user(MakeNode {
            client,
            parent: ROOT,
            name: name.to_owned(),
            kind: NodeKind::File,
            mode: 0o644,
            is_opened: true,
            target: String::new(),
            grant: Some(RequestId(1)),
        })
        .expect("it can be made");
    (entry.expect("it was made").id, grant.expect("nothing is in its way"))
}

/// Opens a file for one thing and asks for the grant to do it.
fn open(world: &mut World, client: ClientId, file: FileId, mode: Mode) -> Option<ShareGrant> {
    let (is_read, is_write) = (mode == Mode::Read, mode == Mode::Write);
    let grant = Some(RequestId(100));
    let open = OpenNode { client, file, is_read, is_write, is_run: false, grant };
    world.user(open).expect("it can be opened").grant
}

fn ask(world: &mut World, client: ClientId, file: FileId, mode: Mode) -> Option<ShareGrant> {
    let request = RequestId(7);
    world.user(AskGrant { client, request, file, mode }).expect("it may be asked for").grant
}

fn close(client: ClientId, file: FileId, generation: Generation, size: Option<u64>) -> ReturnGrant {
    let commit = size.map(|size| Written { size, modified: Timestamp(9) });
    ReturnGrant { client, file, generation, commit, closed: Some(Mode::Write) }
}

fn size(world: &mut World, client: ClientId, file: FileId) -> u64 {
    let node = world.user(GetNode { client, file }).expect("it is there");
    node.entry.expect("nobody writes").size
}

/// Recalls of a session, which acknowledges what it is to forget.
fn recalls(world: &mut World, client: ClientId) -> usize {
    let start = Incarnation(world.starts().into());
    let call = NextRecalls { client, round: 0, start, acknowledged: u64::MAX, working: Vec::new() };
    world.user(call).expect("it has a session").recalls.len()
}

/// The disk server fences what it is ordered to.
fn obey(world: &mut World) {
    let partition = PARTITION.to_owned();
    let orders = world.room(NextLiveOrders { partition: partition.clone() }).expect("it is registered").orders;
    for order in orders {
        let LiveOrder::Fence { object, fence } = order else { continue };
        let (partition, generation) = (partition.clone(), fence.generation);
        world.room(LiveFenced { partition, object, generation }).expect("the object is known");
    }
}

#[test]
fn a_new_file_comes_with_its_grant_and_is_committed_and_closed_with_the_return() {
    let mut world = world();
    let (ann, bob) = (mount(&mut world), mount(&mut world));
    let (file, grant) = make(&mut world, ann, "f");
    assert_eq!((grant.size, grant.layout.objects().count()), (0, 1));
    assert!(open(&mut world, bob, file, Mode::Read).is_none(), "it is written");
    assert_eq!(recalls(&mut world, ann), 0, "an open asks nothing back");
    let call = close(ann, file, grant.generation, Some(5));
    world.user(call.clone()).unwrap();
    world.user(call).expect("its answer was lost");
    assert_eq!(size(&mut world, ann, file), 5);
    let remove = RemoveNode { client: ann, parent: ROOT, name: "f".into(), kind: NodeKind::File };
    let _ = world.user(remove.clone());
    recalls(&mut world, bob);
    let _ = world.user(remove);
    assert_eq!(size(&mut world, bob, file), 5, "only the other mount has it open, once");
    assert_eq!(refusal(world.user(GetNode { client: ann, file })), ErrorKind::NotFound);
}

#[test]
fn an_open_has_a_grant_only_if_nobody_has_to_do_anything_for_it() {
    let mut world = world();
    let (ann, bob) = (mount(&mut world), mount(&mut world));
    let (file, grant) = make(&mut world, ann, "f");
    assert!(open(&mut world, ann, file, Mode::Write).is_none(), "its own grant may be on its way back");
    world.user(close(ann, file, grant.generation, Some(5))).unwrap();
    assert!(open(&mut world, bob, file, Mode::Read).is_none(), "the disk server is not fenced yet");
    obey(&mut world);
    let first = open(&mut world, bob, file, Mode::Read).expect("it is free");
    let second = open(&mut world, ann, file, Mode::Read).expect("readers share");
    assert_eq!((first.size, second.size), (5, 5));
    assert!(open(&mut world, ann, file, Mode::Write).is_none(), "the other one reads");
    assert_eq!(recalls(&mut world, bob), 0);
}

#[test]
fn a_grant_to_write_does_not_come_with_an_open_while_others_have_cached_the_size() {
    let mut world = world();
    let (ann, bob) = (mount(&mut world), mount(&mut world));
    let (file, grant) = make(&mut world, ann, "f");
    world.user(close(ann, file, grant.generation, Some(5))).unwrap();
    obey(&mut world);
    assert_eq!(size(&mut world, bob, file), 5);
    assert!(open(&mut world, ann, file, Mode::Write).is_none(), "the other one would show an old size");
    assert!(ask(&mut world, ann, file, Mode::Write).is_none());
    recalls(&mut world, bob);
    assert!(ask(&mut world, ann, file, Mode::Write).is_some());
}

#[test]
fn what_a_door_has_replaced_is_not_committed_by_a_late_return() {
    let mut world = world();
    let ann = mount(&mut world);
    let (file, grant) = make(&mut world, ann, "f");
    recalls(&mut world, ann);
    put(&mut world, "/f", 20);
    let late = world.user(close(ann, file, grant.generation, Some(5)));
    assert_eq!(refusal(late), ErrorKind::Locked);
    world.user(close(ann, file, grant.generation, None)).expect("it is closed all the same");
    assert_eq!(size(&mut world, ann, file), 20);
}

#[test]
fn a_commit_tells_what_the_file_is_now_and_how_long_that_may_be_cached() {
    let mut world = world();
    let ann = mount(&mut world);
    recalls(&mut world, ann);
    let (file, ShareGrant { generation, .. }) = make(&mut world, ann, "f");
    let commit = CommitNode { client: ann, file, generation, size: 5, modified: Timestamp(9) };
    let told = world.user(commit).unwrap();
    assert_eq!(told.entry.map(|entry| (entry.size, entry.modified)), Some((5, Timestamp(9))));
    assert!(told.lease.0 > 0);
}
