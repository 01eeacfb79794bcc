//! Files that change in place in a pool of copies: each copy has all that counts, and one that does not is never read again.

use super::*;
use base::{Adler32, Checksums, Crc32c, FileId};
use share::{ClientId, Generation, Incarnation, Mode, Session};
use wire::control::{
    AskGrant, BeginLive, CommitNode, DropCopies, EvictMount, FencedObject, GrantAnswer, Layout, LayoutRule,
    LiveFenced, LiveOrder, LiveSealed, LiveStart, MakeNode, NextLiveOrders, NextRecalls, NodeKind, OpenMount,
    OpenNode, ReturnGrant, SetLayout, ShareGrant,
};

const ROOT: FileId = FileId(1);

/// A pool whose files two mounts change in place.
struct Live {
    pools: Pools,
    ann: ClientId,
    bob: ClientId,
    requests: u64,
}

impl Live {
    fn new(copies: u8, acknowledged: u8) -> Self {
        let mut pools = Pools::new(copies, acknowledged);
        let open = || OpenMount { path: path("/"), host: "h:/mnt".into() };
        let mut mount = || pools.world.user(open()).unwrap().client;
        let (ann, bob) = (mount(), mount());
        Self { pools, ann, bob, requests: 0 }
    }

    /// Makes a file, which both have open.
    fn make(&mut self, name: &str) -> FileId {
        let (client, name, kind) = (self.ann, name.to_owned(), NodeKind::File);
        let target = String::new();
        let make =
            MakeNode { client, parent: ROOT, name, kind, mode: 0o644, is_opened: true, target, grant: None };
        let file = self.pools.world.user(make).unwrap().entry.unwrap().id;
        let open =
            OpenNode { client: self.bob, file, is_read: true, is_write: true, is_run: false, grant: None };
        self.pools.world.user(open).unwrap();
        file
    }

    fn ask(&mut self, client: ClientId, file: FileId, mode: Mode) -> GrantAnswer {
        self.requests += 1;
        let request = share::RequestId(self.requests);
        self.pools.world.user(AskGrant { client, request, file, mode }).unwrap()
    }

    #[track_caller]
    fn granted(&mut self, client: ClientId, file: FileId, mode: Mode) -> ShareGrant {
        self.ask(client, file, mode).grant.expect("nothing is in its way")
    }

    fn commit(&mut self, client: ClientId, file: FileId, generation: Generation, size: u64) {
        let modified = self.pools.world.now;
        self.pools.world.user(CommitNode { client, file, generation, size, modified }).unwrap();
    }

    fn give_back(&mut self, client: ClientId, file: FileId, generation: Generation, is_complete: bool) {
        self.end(client, file, generation, (is_complete, Vec::new()));
    }

    /// Returns a grant that disk servers have fenced at the request of its client.
    fn end(
        &mut self,
        client: ClientId,
        file: FileId,
        generation: Generation,
        (is_complete, fenced): (bool, Vec<FencedObject>),
    ) {
        let (commit, closed, is_unused) = (None, None, false);
        let all = ReturnGrant { client, file, generation, commit, closed, fenced, is_unused, is_complete };
        self.pools.world.user(all).unwrap();
    }

    fn drop_copies(
        &mut self,
        file: FileId,
        generation: Generation,
        objects: &[ObjectId],
    ) -> base::Result<Layout> {
        let (client, objects) = (self.ann, objects.to_vec());
        self.pools.world.user(DropCopies { client, file, generation, objects })
    }

    /// Disk servers that answer do what they are told. `sum` tells the sum of an object. Yields what was fenced and sealed.
    fn obey(&mut self, sum: impl Fn(ObjectId) -> u32) -> (BTreeSet<ObjectId>, BTreeSet<ObjectId>) {
        let (mut fenced, mut sealed) = (BTreeSet::new(), BTreeSet::new());
        let silent = self.pools.silent.clone();
        for name in SERVERS.into_iter().filter(|name| !silent.contains(name)) {
            let partition = format!("{name}.disk");
            let orders =
                self.pools.host(name, NextLiveOrders { partition: partition.clone() }).unwrap().orders;
            for order in orders {
                match order {
                    LiveOrder::Fence { object, fence } => {
                        let (partition, generation) = (partition.clone(), fence.generation);
                        self.pools.host(name, LiveFenced { partition, object, generation }).unwrap();
                        fenced.insert(object);
                    }
                    LiveOrder::Seal { object, size, .. } | LiveOrder::Join { object, size, .. } => {
                        let checksums = Checksums { adler32: Adler32(sum(object)), crc32c: Crc32c(0) };
                        let partition = partition.clone();
                        self.pools.disks.get_mut(name).unwrap().insert(object);
                        self.pools.host(name, LiveSealed { partition, object, size, checksums }).unwrap();
                        sealed.insert(object);
                    }
                }
            }
        }
        (fenced, sealed)
    }

    fn waits(&mut self, seconds: i64) {
        for _ in 0..seconds / 2 {
            self.pools.tick();
            for client in [self.ann, self.bob] {
                let start = Incarnation(self.pools.world.starts().into());
                let acknowledged = u64::MAX;
                let call = NextRecalls { client, round: 0, start, acknowledged, working: Vec::new() };
                let _evicted = self.pools.world.user(call);
            }
        }
    }

    /// Where readers of a layout are sent first, and next.
    fn servers(layout: &Layout) -> BTreeSet<&'static str> {
        let is_of = |url: &str, name: &str| url.starts_with(&format!("root://{name}:1094/"));
        layout
            .objects()
            .map(|object| *SERVERS.iter().find(|name| is_of(&object.url, name)).unwrap())
            .collect()
    }
}

fn objects(layout: &Layout) -> Vec<ObjectId> {
    layout.objects().map(|object| object.object).collect()
}

#[test]
fn each_copy_is_fenced_and_sealed_and_all_become_replicas() {
    let mut live = Live::new(2, 1);
    let (ann, bob) = (live.ann, live.bob);
    let file = live.make("f");
    let grant = live.granted(ann, file, Mode::Write);
    assert_eq!(Live::servers(&grant.layout).len(), 2, "on two disk servers");
    live.commit(ann, file, grant.generation, 7);
    live.give_back(ann, file, grant.generation, true);
    assert!(live.ask(bob, file, Mode::Read).grant.is_none(), "no copy is fenced");
    let (fenced, sealed) = live.obey(|_| 1);
    assert_eq!((fenced.len(), sealed.len()), (2, 0));
    let read = live.granted(bob, file, Mode::Read);
    assert_eq!(objects(&read.layout).len(), 2);
    live.waits(12);
    assert_eq!(live.obey(|_| 1).1.len(), 2);
    assert_eq!(live.pools.replicas("/f").len(), 2);
    let sealed = live.granted(bob, file, Mode::Read);
    assert_eq!(Live::servers(&sealed.layout).len(), 2, "a reader goes on if one of them fails");
    live.waits(10);
    assert_eq!(live.pools.pool().files_short, 0);
    assert!(live.ask(bob, file, Mode::Write).grant.is_none(), "Ann has cached its size");
    live.waits(2);
    let again = live.granted(bob, file, Mode::Write);
    assert_eq!(objects(&again.layout).len(), 2, "each begins with the replica beside it");
}

#[test]
fn a_grant_that_every_copy_has_fenced_is_handed_over_at_once_and_others_are_ordered_to() {
    let mut live = Live::new(2, 1);
    let (ann, bob) = (live.ann, live.bob);
    let file = live.make("f");
    let grant = live.granted(ann, file, Mode::Write);
    let both = objects(&grant.layout);
    let start = |object: &ObjectId| LiveStart(object.0 + 1);
    let fenced = |objects: &[ObjectId]| {
        objects.iter().map(|object| FencedObject { object: *object, start: start(object) }).collect()
    };
    for name in SERVERS {
        for object in &both {
            // Only the disk server that has it may begin it.
            let _other = live.pools.host(name, BeginLive { object: *object, start: Some(start(object)) });
        }
    }
    live.commit(ann, file, grant.generation, 7);
    live.end(ann, file, grant.generation, (true, fenced(&both)));
    assert!(live.ask(bob, file, Mode::Write).grant.is_none(), "Ann has cached its size");
    live.waits(2);
    let next = live.granted(bob, file, Mode::Write);
    live.commit(bob, file, next.generation, 8);
    live.end(bob, file, next.generation, (true, fenced(&both[..1])));
    assert!(live.ask(ann, file, Mode::Write).grant.is_none(), "one copy has not");
    assert_eq!(live.obey(|_| 1).0, BTreeSet::from([both[1]]), "that one is ordered to");
    live.waits(2);
    live.granted(ann, file, Mode::Write);
}

/// Makes a file that is striped over all disk servers, and writes it. Yields it with its columns.
fn striped(live: &mut Live) -> (FileId, Vec<ObjectId>) {
    let (path, rule) = (path("/"), LayoutRule { copies: Some(1), width: Some(3), unit: Some(1 << 16) });
    live.pools.world.user(SetLayout { path, rule: Some(rule) }).unwrap();
    let (ann, file) = (live.ann, live.make("f"));
    let grant = live.granted(ann, file, Mode::Write);
    assert_eq!((grant.layout.columns.len(), grant.layout.unit), (3, 1 << 16));
    assert_eq!(Live::servers(&grant.layout).len(), 3, "on as many disk servers");
    live.commit(ann, file, grant.generation, 9);
    live.give_back(ann, file, grant.generation, true);
    assert_eq!(live.obey(|_| 1).0.len(), 3, "each column is fenced");
    (file, objects(&grant.layout))
}

#[test]
fn columns_become_one_object_and_go() {
    let mut live = Live::new(2, 1);
    let (file, columns) = striped(&mut live);
    live.waits(12);
    // The first disk server that asks has one of them chosen, which may have asked before.
    let sealed: Vec<_> = live.obey(|_| 1).1.into_iter().chain(live.obey(|_| 1).1).collect();
    let [joined] = sealed[..] else { panic!("one disk server makes it") };
    assert!(!columns.contains(&joined));
    let bob = live.bob;
    assert_eq!(objects(&live.granted(bob, file, Mode::Read).layout), [joined]);
    let mut removals = BTreeSet::new();
    for name in SERVERS {
        let partition = format!("{name}.disk");
        removals.extend(live.pools.host(name, NextRemovals { partition }).unwrap().objects);
    }
    assert!(columns.iter().all(|column| removals.contains(column)) && !removals.contains(&joined));
    live.pools.until("it is copied as its pool wants", |pools| pools.replicas("/f").len() == 2);
}

#[test]
fn another_disk_server_joins_columns_if_the_first_is_silent() {
    let mut live = Live::new(2, 1);
    let (_, _) = striped(&mut live);
    live.waits(12);
    let joiner = |live: &mut Live| {
        let silent = live.pools.silent.clone();
        let asking = SERVERS.iter().chain(&SERVERS).copied().filter(|name| !silent.contains(name));
        asking.into_iter().find_map(|name| {
            let partition = format!("{name}.disk");
            let orders = live.pools.host(name, NextLiveOrders { partition }).unwrap().orders;
            orders.into_iter().find_map(|order| match order {
                LiveOrder::Join { object, .. } => Some((name, object)),
                _ => None,
            })
        })
    };
    let (first, object) = joiner(&mut live).expect("one is chosen");
    assert_eq!(joiner(&mut live), Some((first, object)), "and told again");
    live.pools.silent.insert(first);
    live.pools.until("it is known to be away", |pools| {
        let all = pools.pool().partitions;
        all.iter().any(|partition| partition.name == format!("{first}.disk") && !partition.is_available)
    });
    live.waits(2);
    let (second, other) = joiner(&mut live).expect("another one is chosen");
    assert!(second != first && other != object);
}

#[test]
fn a_copy_that_failed_is_never_named_again_and_the_last_one_stays() {
    let mut live = Live::new(2, 1);
    let (ann, bob) = (live.ann, live.bob);
    let file = live.make("f");
    let grant = live.granted(ann, file, Mode::Write);
    let [first, second] = objects(&grant.layout)[..] else { panic!("{grant:?}") };
    let left = live.drop_copies(file, grant.generation, &[first]).unwrap();
    assert_eq!(objects(&left), [second]);
    assert_eq!(objects(&live.drop_copies(file, grant.generation, &[first]).unwrap()), [second], "said again");
    assert_eq!(refusal(live.drop_copies(file, grant.generation, &[second])), ErrorKind::Busy);
    let (client, objects_) = (bob, vec![second]);
    let other = DropCopies { client, file, generation: grant.generation, objects: objects_ };
    assert_eq!(refusal(live.pools.world.user(other)), ErrorKind::Locked, "it is not Bob's");
    live.pools.world.crash();
    live.pools.register_all();
    live.commit(ann, file, grant.generation, 7);
    live.give_back(ann, file, grant.generation, true);
    assert_eq!(live.obey(|_| 1).0, BTreeSet::from([second]), "what is left is fenced");
    assert_eq!(objects(&live.granted(bob, file, Mode::Read).layout), [second]);
    let mut removals = BTreeSet::new();
    for name in SERVERS {
        let partition = format!("{name}.disk");
        removals.extend(live.pools.host(name, NextRemovals { partition }).unwrap().objects);
    }
    assert!(removals.contains(&first) && !removals.contains(&second));
    live.waits(12);
    assert_eq!(live.obey(|_| 1).1, BTreeSet::from([second]));
    live.pools.until("it is copied again", |pools| pools.replicas("/f").len() == 2);
}

#[test]
fn a_pool_that_wants_two_copies_lets_none_go() {
    let mut live = Live::new(2, 2);
    let ann = live.ann;
    let file = live.make("f");
    let grant = live.granted(ann, file, Mode::Write);
    let first = objects(&grant.layout)[0];
    assert_eq!(refusal(live.drop_copies(file, grant.generation, &[first])), ErrorKind::Busy);
}

#[test]
fn copies_of_a_writer_that_is_gone_are_compared_before_anybody_uses_them() {
    let mut live = Live::new(2, 1);
    let (ann, bob) = (live.ann, live.bob);
    let file = live.make("f");
    let grant = live.granted(ann, file, Mode::Write);
    live.commit(ann, file, grant.generation, 7);
    live.pools.world.user(EvictMount { client: ann }).unwrap();
    live.waits((Session::LEASE.0 + Session::MARGIN.0) / 1000 + 2);
    assert!(live.ask(bob, file, Mode::Read).grant.is_none(), "no copy is fenced");
    let (fenced, sealed) = live.obey(|_| 1);
    assert_eq!((fenced.len(), sealed.len()), (2, 0));
    assert!(live.ask(bob, file, Mode::Read).grant.is_none(), "nobody has compared them");
    live.pools.world.crash();
    live.pools.register_all();
    assert!(live.ask(bob, file, Mode::Write).grant.is_none(), "nor after a restart of the head");
    let first = objects(&grant.layout)[0];
    let (_, sealed) = live.obey(|object| u32::from(object == first));
    assert_eq!(sealed.len(), 2);
    let read = live.granted(bob, file, Mode::Read);
    assert_eq!(objects(&read.layout), [first], "what differs is not read");
    live.pools.until("it is copied again", |pools| pools.replicas("/f").len() == 2);
}

#[test]
fn a_return_without_all_copies_is_as_a_writer_that_is_gone() {
    let mut live = Live::new(2, 1);
    let (ann, bob) = (live.ann, live.bob);
    let file = live.make("f");
    let grant = live.granted(ann, file, Mode::Write);
    live.commit(ann, file, grant.generation, 7);
    live.give_back(ann, file, grant.generation, false);
    live.obey(|_| 1);
    assert!(live.ask(bob, file, Mode::Read).grant.is_none(), "nobody has compared them");
    assert_eq!(live.obey(|_| 1).1.len(), 2);
    assert_eq!(objects(&live.granted(bob, file, Mode::Read).layout).len(), 2, "they are the same");
}

#[test]
fn what_was_never_committed_goes_with_its_writer() {
    let mut live = Live::new(2, 1);
    let (ann, bob) = (live.ann, live.bob);
    live.pools.write("/f");
    let file = stat(&mut live.pools.world, "/f").unwrap().entry.id;
    for client in [ann, bob] {
        let open = OpenNode { client, file, is_read: true, is_write: true, is_run: false, grant: None };
        live.pools.world.user(open).unwrap();
    }
    let grant = live.granted(ann, file, Mode::Write);
    live.pools.world.user(EvictMount { client: ann }).unwrap();
    live.waits((Session::LEASE.0 + Session::MARGIN.0) / 1000 + 2);
    let again = live.granted(bob, file, Mode::Write);
    let [old, new] = [objects(&grant.layout), objects(&again.layout)].map(BTreeSet::from_iter);
    assert!(old.len() == 2 && new.len() == 2 && old.is_disjoint(&new), "it begins anew");
}

#[test]
fn a_silent_disk_server_keeps_nobody_waiting() {
    let mut live = Live::new(2, 1);
    let (ann, bob) = (live.ann, live.bob);
    let file = live.make("f");
    let grant = live.granted(ann, file, Mode::Write);
    live.commit(ann, file, grant.generation, 7);
    let lost = *Live::servers(&grant.layout).first().unwrap();
    live.pools.silent.insert(lost);
    live.give_back(ann, file, grant.generation, true);
    live.obey(|_| 1);
    assert!(live.ask(bob, file, Mode::Write).grant.is_none(), "it may only be slow");
    live.pools.until("it is known to be away", |pools| {
        let all = pools.pool().partitions;
        all.iter().any(|partition| partition.name == format!("{lost}.disk") && !partition.is_available)
    });
    live.waits(2);
    let next = live.granted(bob, file, Mode::Write);
    assert_eq!(objects(&next.layout).len(), 1);
    assert!(!Live::servers(&next.layout).contains(lost));
    live.commit(bob, file, next.generation, 9);
    live.give_back(bob, file, next.generation, true);
    live.pools.silent.clear();
    live.pools.boot += 1;
    live.waits(2);
    live.obey(|_| 1);
    live.waits(12);
    assert_eq!(live.obey(|_| 1).1.len(), 1, "the old copy is nobody's");
}
