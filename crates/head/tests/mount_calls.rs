//! What one call of a mount does for several: grants with opens, commits and closes with returns.

mod support;

use base::{ErrorKind, FileId, Timestamp};
use share::{ClientId, Generation, Incarnation, Mode, RequestId};
use sim::World;
use support::{PARTITION, path, put, refusal, world};
use wire::control::{
    AskGrant, BeginLive, CommitNode, FencedObject, GetNode, LiveFenced, LiveOrder, LiveStart, MakeNode,
    MountedNode, NextLiveOrders, NextRecalls, NodeKind, OpenMount, OpenNode, RemoveNode, ReturnGrant,
    SetMode, ShareGrant, Written,
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
    let (closed, fenced, is_unused) = (Some(Mode::Write), Vec::new(), false);
    ReturnGrant { client, file, generation, commit, closed, fenced, is_unused, is_complete: true }
}

fn size(world: &mut World, client: ClientId, file: FileId) -> u64 {
    let node = world.user(GetNode { client, file }).expect("it is there");
    node.entry.expect("nobody writes to the file").size
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
    let orders =
        world.room(NextLiveOrders { partition: partition.clone() }).expect("it is registered").orders;
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
    let second = open(&mut world, ann, file, Mode::Read).expect("readers share a grant");
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
    let change = SetMode { path: path("/f"), mode: 0o600 };
    assert_eq!(refusal(world.user(change.clone())), ErrorKind::Busy, "the mount has cached it");
    recalls(&mut world, ann);
    world.user(change).expect("it has forgotten it");
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

/// The return of a grant that a start of the object has fenced.
fn fenced(client: ClientId, file: FileId, grant: &ShareGrant, start: LiveStart) -> ReturnGrant {
    let object = grant.layout.objects().next().expect("it has one").object;
    ReturnGrant {
        fenced: vec![FencedObject { object, start }],
        ..close(client, file, grant.generation, Some(5))
    }
}

/// The disk server opens the object anew to write, and is told which grants have ended.
fn start(world: &mut World, grant: &ShareGrant, number: u64) -> Generation {
    let object = grant.layout.objects().next().expect("it has one").object;
    world.room(BeginLive { object, start: Some(LiveStart(number)) }).expect("it is live").floor
}

#[test]
fn a_grant_that_its_disk_server_has_fenced_is_handed_over_at_once() {
    let mut world = world();
    let (ann, bob) = (mount(&mut world), mount(&mut world));
    let (file, first) = make(&mut world, ann, "f");
    assert_eq!(start(&mut world, &first, 77), first.generation);
    assert!(open(&mut world, bob, file, Mode::Write).is_none());
    world.user(fenced(ann, file, &first, LiveStart(77))).unwrap();
    assert!(ask(&mut world, bob, file, Mode::Write).is_none(), "the other one has cached the size");
    recalls(&mut world, ann);
    let second = ask(&mut world, bob, file, Mode::Write).expect("no fence is waited for");
    assert_eq!((second.size, second.generation), (5, first.generation.next()));
    assert_eq!(start(&mut world, &second, 78), second.generation, "the first one has ended");
}

#[test]
fn a_fence_of_a_start_that_the_head_does_not_know_is_not_believed() {
    for restart in [false, true] {
        let mut world = world();
        let (ann, bob) = (mount(&mut world), mount(&mut world));
        let (file, grant) = make(&mut world, ann, "f");
        start(&mut world, &grant, 77);
        assert!(open(&mut world, bob, file, Mode::Read).is_none());
        if restart {
            world.crash();
            recalls(&mut world, ann);
            recalls(&mut world, bob);
        } else {
            start(&mut world, &grant, 78);
        }
        world.user(fenced(ann, file, &grant, LiveStart(77))).unwrap();
        assert!(ask(&mut world, bob, file, Mode::Read).is_none(), "it may be forgotten: {restart}");
        obey(&mut world);
        assert!(ask(&mut world, bob, file, Mode::Read).is_some());
    }
}

#[test]
fn a_grant_that_was_not_used_needs_no_fence() {
    let mut world = world();
    let (ann, bob) = (mount(&mut world), mount(&mut world));
    let (file, grant) = make(&mut world, ann, "f");
    let call = ReturnGrant { is_unused: true, ..close(ann, file, grant.generation, None) };
    world.user(call).unwrap();
    assert!(open(&mut world, bob, file, Mode::Read).is_some());
}
