//! Mounts: grants, live objects, locks and names, as their calls meet the catalogue.

mod support;

use base::{Adler32, ByteRange, Checksums, Crc32c, ErrorKind, FileId, Millis, ObjectId};
use share::{ClientId, Generation, Incarnation, LockMode, LockOwner, Mode, RequestId, Session};
use sim::World;
use support::{PARTITION, open_write, path, put, refusal, stat, state, world};
use wire::control::{
    AskGrant, BeginLive, CloseMount, CloseNode, CommitNode, Disposition, Entry, EvictMount, FileState,
    GetAttributes, GetMounts, GetNode, GrantAnswer, List, LiveFenced, LiveOrder, LiveSealed, LockKind,
    LookUp, MakeNode, MoveNode, NextLiveOrders, NextRecalls, NodeKind, OpenMount, OpenNode, OpenRead,
    OpenWrite, ReadGrant, ReadLink, Recall, Remove, RemoveNode, Rename, ReturnGrant, SetLock, SetMode,
    ShareGrant,
};

const ROOT: FileId = FileId(1);

fn mount(world: &mut World) -> ClientId {
    world.user(OpenMount { path: path("/"), host: "h:/mnt".into() }).expect("the root can be mounted").client
}

fn make(world: &mut World, client: ClientId, name: &str) -> Entry {
    let (parent, name, kind) = (ROOT, name.to_owned(), NodeKind::File);
    let made = world
        .user(MakeNode {
            client,
            parent,
            name,
            kind,
            mode: 0o644,
            is_opened: true,
            target: String::new(),
            grant: None,
        })
        .expect("it can be made");
    made.entry.expect("it was made")
}

fn open(world: &mut World, client: ClientId, file: FileId) {
    world
        .user(OpenNode { client, file, is_read: true, is_write: true, is_run: false, grant: None })
        .expect("it can be opened");
}

fn ask(world: &mut World, client: ClientId, request: u64, file: FileId, mode: Mode) -> GrantAnswer {
    world.user(AskGrant { client, request: RequestId(request), file, mode }).expect("it may be asked for")
}

#[track_caller]
fn granted(world: &mut World, client: ClientId, request: u64, file: FileId, mode: Mode) -> ShareGrant {
    ask(world, client, request, file, mode).grant.expect("nothing is in its way")
}

fn commit(
    world: &mut World,
    client: ClientId,
    file: FileId,
    generation: Generation,
    size: u64,
) -> base::Result<()> {
    let modified = world.now;
    world.user(CommitNode { client, file, generation, size, modified }).map(drop)
}

fn give_back(world: &mut World, client: ClientId, file: FileId, generation: Generation) {
    world.user(plain_return(client, file, generation)).expect("grants can be returned");
}

fn plain_return(client: ClientId, file: FileId, generation: Generation) -> ReturnGrant {
    let (commit, closed, fenced, is_unused) = (None, None, Vec::new(), false);
    ReturnGrant { client, file, generation, commit, closed, fenced, is_unused, is_complete: true }
}

fn next_recalls(client: ClientId, start: Incarnation) -> NextRecalls {
    NextRecalls { client, round: 0, start, acknowledged: u64::MAX, working: Vec::new() }
}

fn recalls(world: &mut World, client: ClientId) -> Vec<Recall> {
    let start = Incarnation(world.starts().into());
    world.user(next_recalls(client, start)).expect("it has a session").recalls
}

/// Sessions of mounts have said that they have forgotten what they had cached before a start of the head.
fn have_forgotten(world: &mut World, clients: &[ClientId]) {
    for client in clients {
        recalls(world, *client);
    }
}

fn orders(world: &mut World) -> Vec<LiveOrder> {
    world.room(NextLiveOrders { partition: PARTITION.into() }).expect("it is registered").orders
}

/// Carries out all orders as a disk server does. Yields the objects that were sealed.
fn obey(world: &mut World) -> Vec<ObjectId> {
    let mut sealed = Vec::new();
    for order in orders(world) {
        let partition = PARTITION.to_owned();
        match order {
            LiveOrder::Fence { object, fence } => {
                world
                    .room(LiveFenced { partition, object, generation: fence.generation })
                    .expect("the object is known");
            }
            LiveOrder::Join { .. } => panic!("nothing is striped"),
            LiveOrder::Seal { object, size, .. } => {
                world
                    .room(LiveSealed { partition, object, size, checksums: sums() })
                    .expect("it was ordered");
                sealed.push(object);
            }
        }
    }
    sealed
}

fn sums() -> Checksums {
    Checksums { adler32: Adler32(1), crc32c: Crc32c(0) }
}

/// A door changes a file that a mount has cached: that has to forget it first.
fn ask_to_forget(world: &mut World, file: &str, client: ClientId) {
    let change = SetMode { path: path(file), mode: 0o600 };
    assert_eq!(refusal(world.user(change.clone())), ErrorKind::Busy);
    have_forgotten(world, &[client]);
    world.user(change).expect("nobody has cached it");
}

#[test]
fn a_grant_to_write_passes_from_mount_to_mount_through_a_fence() {
    let mut world = world();
    let (ann, bob) = (mount(&mut world), mount(&mut world));
    let file = make(&mut world, ann, "f").id;
    open(&mut world, bob, file);
    let first = granted(&mut world, ann, 1, file, Mode::Write);
    assert!(url(&first).contains("bp.cap=l."), "{first:?}");
    assert!(ask(&mut world, bob, 1, file, Mode::Read).grant.is_none());
    assert_eq!(recalls(&mut world, ann), [Recall { file, generation: first.generation }]);
    commit(&mut world, ann, file, first.generation, 7).unwrap();
    give_back(&mut world, ann, file, first.generation);
    assert_eq!(recalls(&mut world, ann), []);
    assert!(
        ask(&mut world, bob, 1, file, Mode::Read).grant.is_none(),
        "its writes may still be on their way"
    );
    assert_eq!(obey(&mut world), []);
    let read = granted(&mut world, bob, 1, file, Mode::Read);
    assert_eq!((read.size, url(&read).contains("bp.cap=m.")), (7, true));
    assert_eq!(refusal(commit(&mut world, ann, file, first.generation, 9)), ErrorKind::Locked);
    assert!(ask(&mut world, ann, 2, file, Mode::Write).grant.is_none());
    assert_eq!(recalls(&mut world, bob).len(), 1);
}

#[test]
fn what_others_have_not_committed_is_waited_for_and_own_writes_are_not() {
    let mut world = world();
    let (client, other) = (mount(&mut world), mount(&mut world));
    let file = make(&mut world, client, "f").id;
    let grant = granted(&mut world, client, 1, file, Mode::Write);
    let look = |client| LookUp { client, parent: ROOT, name: "f".into() };
    assert!(world.user(look(client)).unwrap().entry.is_some());
    assert!(world.user(look(other)).unwrap().entry.is_none());
    commit(&mut world, client, file, grant.generation, 3).unwrap();
    give_back(&mut world, client, file, grant.generation);
    let entry = world.user(look(other)).unwrap().entry.expect("it is committed");
    assert_eq!((entry.size, entry.state), (3, Some(FileState::Live)));
}

#[test]
fn a_sealed_file_becomes_live_with_its_first_commit_and_is_sealed_again_when_it_is_quiet() {
    let mut world = world();
    put(&mut world, "/f", 100);
    let client = mount(&mut world);
    let file = stat(&mut world, "/f").unwrap().entry.id;
    open(&mut world, client, file);
    let grant = granted(&mut world, client, 1, file, Mode::Write);
    let object = live_object(&grant);
    let base = world.room(BeginLive { object, start: None }).unwrap();
    assert_eq!((base.object.is_some(), base.size), (true, 100));
    assert_eq!(state(&mut world, "/f"), FileState::Online, "nothing is committed");
    commit(&mut world, client, file, grant.generation, 101).unwrap();
    assert_eq!(state(&mut world, "/f"), FileState::Live);
    give_back(&mut world, client, file, grant.generation);
    assert_eq!(obey(&mut world), [], "the fence only");
    assert_eq!(orders(&mut world), [], "somebody may go on writing");
    world.advance(Millis::from_seconds(11));
    assert_eq!(obey(&mut world), [object]);
    let info = stat(&mut world, "/f").unwrap();
    assert_eq!(
        (info.entry.state, info.entry.size, info.entry.checksums),
        (Some(FileState::Online), 101, Some(sums()))
    );
    let read = granted(&mut world, client, 2, file, Mode::Read);
    assert!(url(&read).contains("bp.cap=r."), "{read:?}");
}

/// The only object of a grant.
fn live_object(grant: &ShareGrant) -> ObjectId {
    grant.layout.objects().next().expect("it has an object").object
}

/// Where its only object is.
fn url(grant: &ShareGrant) -> &str {
    &grant.layout.objects().next().expect("it has an object").url
}

#[test]
fn a_write_that_was_never_committed_leaves_the_file_as_it_was() {
    let mut world = world();
    put(&mut world, "/f", 100);
    let client = mount(&mut world);
    let file = stat(&mut world, "/f").unwrap().entry.id;
    open(&mut world, client, file);
    granted(&mut world, client, 1, file, Mode::Write);
    world.user(CloseMount { client }).unwrap();
    let info = stat(&mut world, "/f").unwrap();
    assert_eq!((info.entry.state, info.entry.size), (Some(FileState::Online), 100));
}

#[test]
fn a_door_that_reads_has_the_file_committed_and_sealed_first() {
    let mut world = world();
    let client = mount(&mut world);
    let file = make(&mut world, client, "f").id;
    let grant = granted(&mut world, client, 1, file, Mode::Write);
    let read = |world: &mut World| world.user(OpenRead { path: path("/f") }).unwrap();
    assert!(matches!(read(&mut world), ReadGrant::Recalling { .. }));
    assert_eq!(recalls(&mut world, client).len(), 1);
    commit(&mut world, client, file, grant.generation, 5).unwrap();
    give_back(&mut world, client, file, grant.generation);
    assert!(matches!(read(&mut world), ReadGrant::Recalling { .. }));
    obey(&mut world);
    assert_eq!(obey(&mut world).len(), 1, "at once, not when it was quiet for a while");
    assert!(matches!(read(&mut world), ReadGrant::Online(_)));
}

#[test]
fn a_door_that_replaces_a_file_ends_its_grants() {
    let mut world = world();
    let client = mount(&mut world);
    let file = make(&mut world, client, "f").id;
    let grant = granted(&mut world, client, 1, file, Mode::Write);
    commit(&mut world, client, file, grant.generation, 5).unwrap();
    ask_to_forget(&mut world, "/f", client);
    put(&mut world, "/f", 20);
    assert_eq!(state(&mut world, "/f"), FileState::Online);
    assert_eq!(refusal(commit(&mut world, client, file, grant.generation, 6)), ErrorKind::Locked);
    assert_eq!(granted(&mut world, client, 2, file, Mode::Write).size, 20);
}

#[test]
fn giving_up_a_write_by_a_door_leaves_a_live_file() {
    let mut world = world();
    let client = mount(&mut world);
    let file = make(&mut world, client, "f").id;
    let grant = granted(&mut world, client, 1, file, Mode::Write);
    commit(&mut world, client, file, grant.generation, 5).unwrap();
    let object = world.user(OpenWrite { ..open_write("/f", Disposition::Replace, 9) }).unwrap().object;
    world.room(wire::control::AbandonWrite { object }).unwrap();
    assert_eq!(state(&mut world, "/f"), FileState::Live);
}

#[test]
fn a_silent_mount_is_evicted_when_it_is_in_the_way_and_not_before() {
    let mut world = world();
    let (ann, bob) = (mount(&mut world), mount(&mut world));
    let file = make(&mut world, ann, "f").id;
    open(&mut world, bob, file);
    let grant = granted(&mut world, ann, 1, file, Mode::Write);
    commit(&mut world, ann, file, grant.generation, 5).unwrap();
    world.advance(Millis(Session::LEASE.0 + Session::MARGIN.0 + 1));
    assert_eq!(recalls(&mut world, bob), []);
    assert_eq!(world.user(GetMounts {}).unwrap().mounts.len(), 2, "silence is no end");
    assert!(ask(&mut world, bob, 1, file, Mode::Write).grant.is_none());
    assert_eq!(world.user(GetMounts {}).unwrap().mounts.len(), 1);
    assert!(ask(&mut world, bob, 1, file, Mode::Write).grant.is_none(), "it is not fenced");
    obey(&mut world);
    assert_eq!(granted(&mut world, bob, 1, file, Mode::Write).size, 5);
    assert_eq!(refusal(world.user(next_recalls(ann, Incarnation(1)))), ErrorKind::NotFound);
}

#[test]
fn a_file_is_flagged_when_its_writer_is_evicted_until_it_is_written_anew() {
    let mut world = world();
    let flags = |world: &mut World, at: &str| {
        let all = world.user(GetAttributes { path: path(at) }).unwrap().attributes;
        all.iter().map(|it| String::from_utf8(it.value.as_bytes().to_vec()).unwrap()).collect::<Vec<_>>()
    };
    let write = |world: &mut World, client, name| {
        let file = make(world, client, name).id;
        let grant = granted(world, client, 1, file, Mode::Write);
        commit(world, client, file, grant.generation, 5).unwrap();
    };
    let ann = mount(&mut world);
    write(&mut world, ann, "closed");
    world.user(CloseMount { client: ann }).unwrap();
    let bob = mount(&mut world);
    write(&mut world, bob, "evicted");
    let idle = make(&mut world, bob, "idle").id;
    granted(&mut world, bob, 1, idle, Mode::Read);
    world.user(EvictMount { client: bob }).unwrap();
    assert_eq!(flags(&mut world, "/closed"), Vec::<String>::new());
    assert_eq!(flags(&mut world, "/idle"), Vec::<String>::new(), "it could not write");
    let flag = flags(&mut world, "/evicted").remove(0);
    assert!(flag.contains(&format!("UTC: mount {bob} of ")) && flag.ends_with("was evicted"), "{flag}");
    world.advance(Millis(Session::LEASE.0 + Session::MARGIN.0 + 1));
    put(&mut world, "/evicted", 7);
    assert_eq!(flags(&mut world, "/evicted"), Vec::<String>::new(), "it has all that was written");
}

#[test]
fn a_restart_of_the_head_takes_nothing_from_anybody() {
    let mut world = world();
    let (ann, bob) = (mount(&mut world), mount(&mut world));
    let file = make(&mut world, ann, "f").id;
    open(&mut world, bob, file);
    let grant = granted(&mut world, ann, 1, file, Mode::Write);
    assert!(ask(&mut world, bob, 1, file, Mode::Read).grant.is_none());
    world.crash();
    assert_eq!(
        recalls(&mut world, ann),
        [Recall { file, generation: grant.generation }],
        "it is asked back still"
    );
    assert!(ask(&mut world, bob, 1, file, Mode::Read).grant.is_none());
    commit(&mut world, ann, file, grant.generation, 4).unwrap();
    give_back(&mut world, ann, file, grant.generation);
    obey(&mut world);
    assert_eq!(granted(&mut world, bob, 1, file, Mode::Read).size, 4);
}

#[test]
fn a_file_that_is_open_loses_its_name_only() {
    let mut world = world();
    let (ann, bob) = (mount(&mut world), mount(&mut world));
    let file = make(&mut world, ann, "f").id;
    let remove = RemoveNode { client: bob, parent: ROOT, name: "f".into(), kind: NodeKind::File };
    assert_eq!(refusal(world.user(remove.clone())), ErrorKind::Busy, "the other one has cached it");
    have_forgotten(&mut world, &[ann]);
    world.user(remove).unwrap();
    let look = LookUp { client: bob, parent: ROOT, name: "f".into() };
    assert!(world.user(look).unwrap().is_absent);
    assert_eq!(refusal(world.user(GetNode { client: bob, file })), ErrorKind::NotFound);
    let grant = granted(&mut world, ann, 1, file, Mode::Write);
    commit(&mut world, ann, file, grant.generation, 4).unwrap();
    assert_eq!(world.user(GetNode { client: ann, file }).unwrap().entry.map(|entry| entry.size), Some(4));
    world.user(CloseNode { client: ann, file, is_write: true }).unwrap();
    assert_eq!(refusal(world.user(GetNode { client: ann, file })), ErrorKind::NotFound);
    assert_eq!(stat(&mut world, "/").map(|info| info.entry.size).unwrap(), 0);
}

#[test]
fn a_removed_file_that_nobody_has_open_is_gone_with_its_live_object() {
    let mut world = world();
    let client = mount(&mut world);
    let file = make(&mut world, client, "f").id;
    world.user(CloseNode { client, file, is_write: true }).unwrap();
    assert_eq!(refusal(world.user(Remove { path: path("/f") })), ErrorKind::Busy);
    have_forgotten(&mut world, &[client]);
    world.user(Remove { path: path("/f") }).unwrap();
    world.advance(Millis::from_seconds(60));
    assert_eq!(orders(&mut world), []);
    assert_eq!(refusal(stat(&mut world, "/f")), ErrorKind::NotFound);
}

#[test]
fn a_file_keeps_its_number_when_it_is_moved_over_another_one() {
    let mut world = world();
    let client = mount(&mut world);
    let (file, other) = (make(&mut world, client, "a").id, make(&mut world, client, "b").id);
    let mv = |is_new| MoveNode {
        client,
        parent: ROOT,
        name: "a".into(),
        to_parent: ROOT,
        to_name: "b".into(),
        is_new,
        is_exchange: false,
    };
    assert_eq!(refusal(world.user(mv(true))), ErrorKind::Exists);
    world.user(mv(false)).unwrap();
    let entry = world.user(LookUp { client, parent: ROOT, name: "b".into() }).unwrap().entry;
    assert_eq!(entry.map(|entry| entry.id), Some(file));
    assert!(world.user(GetNode { client, file: other }).unwrap().entry.is_some(), "it is open");
}

#[test]
fn locks_of_all_mounts_meet_and_end_with_theirs() {
    let mut world = world();
    let (ann, bob) = (mount(&mut world), mount(&mut world));
    let file = make(&mut world, ann, "f").id;
    let lock = |client, offset, end, mode| SetLock {
        client,
        file,
        kind: LockKind::Posix,
        owner: LockOwner(1),
        pid: 7,
        range: ByteRange { offset, end },
        mode,
        patience: None,
    };
    let is_set = |world: &mut World, lock: SetLock| world.user(lock).unwrap().is_set;
    assert!(is_set(&mut world, lock(ann, 0, 10, Some(LockMode::Exclusive))));
    assert!(!is_set(&mut world, lock(bob, 9, 20, Some(LockMode::Shared))));
    assert!(is_set(&mut world, lock(bob, 10, 20, Some(LockMode::Exclusive))));
    let flock = SetLock { kind: LockKind::Flock, ..lock(bob, 0, u64::MAX, Some(LockMode::Exclusive)) };
    assert!(is_set(&mut world, flock), "they know nothing of each other");
    world.crash();
    assert!(!is_set(&mut world, lock(bob, 0, 1, Some(LockMode::Shared))), "locks outlive the head");
    assert!(is_set(&mut world, lock(ann, 0, 5, None)));
    assert!(is_set(&mut world, lock(bob, 0, 1, Some(LockMode::Shared))));
    world.user(CloseMount { client: ann }).unwrap();
    assert!(is_set(&mut world, lock(bob, 0, 20, Some(LockMode::Exclusive))));
}

#[test]
fn links_and_special_files_are_names_without_content() {
    let mut world = world();
    let client = mount(&mut world);
    let node = |name: &str, kind, target: &str| MakeNode {
        client,
        parent: ROOT,
        name: name.into(),
        kind,
        mode: 0o777,
        is_opened: false,
        target: target.into(),
        grant: None,
    };
    let link = world.user(node("link", NodeKind::Link, "a/b")).unwrap().entry.unwrap();
    assert_eq!((link.kind, link.size, link.mode, link.state), (NodeKind::Link, 3, 0o777, None));
    world.user(node("pipe", NodeKind::Fifo, "")).unwrap();
    world.user(node("null", NodeKind::CharacterDevice, "1:3")).unwrap();
    for (kind, target) in [(NodeKind::Link, ""), (NodeKind::Fifo, "x"), (NodeKind::Link, &"x".repeat(4096))] {
        assert_eq!(refusal(world.user(node("bad", kind, target))), ErrorKind::Invalid, "{kind:?} {target}");
    }
    world.crash();
    have_forgotten(&mut world, &[client]);
    let target = world.user(ReadLink { client, file: link.id }).unwrap().target;
    assert_eq!(target, "a/b", "as before the restart");
    assert_eq!(refusal(world.user(OpenRead { path: path("/link") })), ErrorKind::Unsupported);
    let write = open_write("/link", Disposition::Replace, 0);
    assert_eq!(refusal(world.user(write)), ErrorKind::Unsupported);
    assert_eq!(
        refusal(world.user(OpenNode {
            client,
            file: link.id,
            is_read: true,
            is_write: false,
            is_run: false,
            grant: None,
        })),
        ErrorKind::Unsupported
    );
    assert_eq!(
        refusal(world.user(List { path: path("/link"), after: String::new() })),
        ErrorKind::NotDirectory
    );
    world.user(Rename { from: path("/link"), to: path("/pipe"), is_new: false, parents: false }).unwrap();
    assert_eq!(stat(&mut world, "/pipe").unwrap().entry.kind, NodeKind::Link);
    world.user(Remove { path: path("/pipe") }).unwrap();
    assert_eq!(refusal(world.user(ReadLink { client, file: link.id })), ErrorKind::NotFound);
}

#[test]
fn nobody_acts_for_the_mount_of_another_user() {
    let mut world = world();
    let client = mount(&mut world);
    let eve = support::user("eve");
    assert_eq!(refusal(world.call(eve.clone(), CloseMount { client })), ErrorKind::Permission);
    assert_eq!(refusal(world.call(eve, EvictMount { client })), ErrorKind::Permission);
    world.user(EvictMount { client }).unwrap();
    assert_eq!(refusal(world.user(next_recalls(client, Incarnation(1)))), ErrorKind::NotFound);
}
