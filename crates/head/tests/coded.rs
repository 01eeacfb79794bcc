//! Coded pools: pieces are placed, committed together, read through one disk server, made anew, deleted.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod support;

use base::{Checksums, ErrorKind, Failure, Millis, ObjectId, Timestamp};
use head::Principal;
use sim::{Content, World};
use std::collections::{BTreeMap, BTreeSet};
use support::*;
use wire::{
    auth::capability::{Access, Cap, CapKeys, NEVER_JOINED},
    control::{
        AbandonWrite, Allocate, ArchivedCopy, AskObjects, BeginWrite, CatalogueMark, Coding, CommitWrite,
        CompareCatalogue, CompareObjects, CopyEnded, CopyOrder, Described, DiskServer, Disposition,
        FileState, FilesArchived, FilledPiece, FoundObject, GetPieces, GetPools, GetStatus, Known, Mirrors,
        NextCopies, NextRemovals, ObjectsRemoved, OpenRead, PartitionState, PlaceMirrors, Pool, PoolInfo,
        ReadGrant, ReadObject, RecoverCatalogue, RegisterPartition, Remove, ReportDamage, ReportSpace, Role,
        RollCall, SetPartition, SetPool, TapeWork, Tend, WriteGrant,
    },
    media::object::{Holder, Label, Piece},
};

const SERVERS: [&str; 5] = ["a", "b", "c", "d", "e"];
const CODING: Coding = Coding { data: 2, parity: 1 };

/// Five disk servers of a coded pool, beside the one of the simulation, which takes nothing new.
struct Coded {
    world: World,
    /// What lies on each of them.
    disks: BTreeMap<&'static str, BTreeSet<ObjectId>>,
    silent: BTreeSet<&'static str>,
    boot: u64,
}

/// A written file.
struct Written {
    grant: WriteGrant,
    placed: Mirrors,
}

fn sums(object: ObjectId) -> Checksums {
    Checksums::of(&object.0.to_be_bytes())
}

fn host_of(url: &str) -> &'static str {
    let name = |name: &&str| url.starts_with(&format!("root://{name}:1094/"));
    SERVERS.into_iter().find(name).unwrap()
}

impl Coded {
    fn new(coding: Coding) -> Self {
        let disks = SERVERS.into_iter().map(|name| (name, BTreeSet::new())).collect();
        let mut coded = Self { world: world(), disks, silent: BTreeSet::new(), boot: 1 };
        coded.set(Some(coding));
        let state = PartitionState::ReadOnly;
        coded.world.user(SetPartition { partition: PARTITION.into(), state }).unwrap();
        for name in SERVERS {
            coded.register(name);
        }
        coded
    }

    fn set(&mut self, coding: Option<Coding>) {
        self.world.user(SetPool { pool: Pool { coding, ..Pool::default() } }).unwrap();
    }

    fn host<C: head::Apply>(&mut self, name: &str, call: C) -> base::Result<C::Reply> {
        self.world.call(Principal::host(name), call)
    }

    fn register(&mut self, name: &'static str) {
        support::take_in(&mut self.world, name, Role::Disk);
        let (root, https) = (format!("{name}:1094"), format!("{name}:8443"));
        let server = DiskServer { name: name.into(), root, https };
        let (partition, boot, pool) = (format!("{name}.disk"), self.boot, "main".into());
        let (total_bytes, free_bytes) = (10_000_000, 9_000_000);
        let call =
            RegisterPartition { server, boot, pool, partition: partition.clone(), total_bytes, free_bytes };
        self.host(name, call).unwrap();
        let objects = self.disks[name].iter().copied().collect();
        self.host(name, RollCall { partition, boot, after: ObjectId(0), upto: None, objects }).unwrap();
    }

    /// All disk servers start anew, and say what they have.
    fn restart(&mut self) {
        self.boot += 1;
        self.world.advance(Millis(1));
        for name in SERVERS {
            self.register(name);
        }
    }

    fn tick(&mut self) {
        self.world.advance(Millis(2000));
        for name in SERVERS {
            if self.silent.contains(name) {
                continue;
            }
            let (partition, boot) = (format!("{name}.disk"), self.boot);
            let (total_bytes, free_bytes) = (10_000_000, 9_000_000);
            let report = ReportSpace {
                partition: partition.clone(),
                boot,
                writing: Vec::new(),
                written: Vec::new(),
                claimed: Vec::new(),
                total_bytes,
                free_bytes,
                readers: 0,
                trouble: None,
            };
            if self.host(name, report).is_err_and(|failure| failure.kind == ErrorKind::NotFound) {
                self.register(name);
            }
            let objects = self.host(name, NextRemovals { partition: partition.clone() }).unwrap().objects;
            for object in &objects {
                self.disks.get_mut(name).unwrap().remove(object);
            }
            self.host(name, ObjectsRemoved { partition, objects }).unwrap();
            for order in self.orders(name) {
                self.copy(name, &order);
            }
        }
        while self.world.room(Tend {}).unwrap().is_more {}
    }

    fn orders(&mut self, name: &str) -> Vec<CopyOrder> {
        let ask = NextCopies { partition: format!("{name}.disk"), under_way: Vec::new() };
        self.host(name, ask).unwrap().orders
    }

    /// Carries an order out, if what it is made from is there.
    fn copy(&mut self, name: &'static str, order: &CopyOrder) {
        let has = |object: ObjectId| {
            self.disks.iter().any(|(name, disk)| !self.silent.contains(name) && disk.contains(&object))
        };
        let is_possible = match &order.pieces {
            Some(pieces) => {
                let there = pieces.places.iter().filter(|place| has(place.object)).map(|place| place.index);
                there.collect::<BTreeSet<_>>().len() >= usize::from(pieces.coding.data)
            }
            None => has(order.source),
        };
        let failure = (!is_possible).then(|| Failure::unavailable("too few are there"));
        if is_possible {
            self.disks.get_mut(name).unwrap().insert(order.object);
        }
        let (object, source) = (order.object, order.source);
        let checksums = Some(order.checksums.unwrap_or_else(|| sums(object)));
        self.host(name, CopyEnded { object, source, failure, checksums, damaged: Vec::new() }).unwrap();
    }

    fn place(&mut self, grant: &WriteGrant, failed: Vec<ObjectId>) -> base::Result<Mirrors> {
        let name = grant.server.clone().unwrap().name;
        let Content { size, sums } = Content::numbered(100_000, 1);
        self.host(&name, PlaceMirrors { object: grant.object, size, checksums: sums, failed })
    }

    fn commit(&mut self, Written { grant, placed }: &Written, count: usize) -> base::Result<()> {
        let name = grant.server.clone().unwrap().name;
        let Content { size, sums: checksums } = Content::numbered(100_000, 1);
        let piece = |object| FilledPiece { object, checksums: sums(object) };
        let pieces = placed.mirrors.iter().take(count).map(|mirror| piece(mirror.object)).collect();
        let call = CommitWrite { object: grant.object, size, checksums, mirrors: Vec::new(), pieces };
        self.host(&name, call).map(drop)
    }

    fn begin(&mut self, at: &str) -> Written {
        let grant = begin_write(&mut self.world, at, 100_000);
        assert!(grant.is_mirrored);
        let placed = self.place(&grant, Vec::new()).unwrap();
        let home = grant.server.clone().unwrap().name;
        let home = SERVERS.into_iter().find(|name| *name == home).unwrap();
        self.disks.get_mut(home).unwrap().insert(grant.object);
        for mirror in &placed.mirrors {
            self.disks.get_mut(host_of(&mirror.url)).unwrap().insert(mirror.object);
        }
        Written { grant, placed }
    }

    fn write(&mut self, at: &str) -> Written {
        let written = self.begin(at);
        self.commit(&written, usize::MAX).unwrap();
        written
    }

    /// Brings a file to tape.
    fn archive(&mut self, at: &str) {
        ask_archive(&mut self.world, at).unwrap();
        let session = archive_session(&mut self.world);
        let TapeWork::Archive { append, files } = &session.work else { panic!("{session:?}") };
        let (fseq, block, end_block) = (append.fseq, append.block, append.block + 4);
        let copies = vec![ArchivedCopy { request: files[0].request, fseq, block, end_block }];
        self.world.room(FilesArchived { session: session.id, copies, used_bytes: 200_000 }).unwrap();
        end_session(&mut self.world, &session, 0);
        assert_eq!(state(&mut self.world, at), FileState::Both);
    }

    /// Makes disk servers silent for as long as the pool bears it, and longer.
    fn lose(&mut self, servers: &[&'static str]) {
        self.silent.extend(servers);
        let count = servers.len();
        self.until("they are given up", |coded| {
            coded.pool().partitions.iter().filter(|one| one.is_given_up).count() == count
        });
    }

    fn pieces(&mut self, at: &str) -> Vec<(u8, String)> {
        let pieces = stat(&mut self.world, at).unwrap().pieces;
        pieces.into_iter().map(|piece| (piece.index, piece.place)).collect()
    }

    fn indices(&mut self, at: &str) -> Vec<u8> {
        self.pieces(at).into_iter().map(|(index, _)| index).collect()
    }

    fn objects(&self) -> usize {
        self.disks.values().map(BTreeSet::len).sum()
    }

    fn pool(&mut self) -> PoolInfo {
        let pools = self.world.user(GetPools {}).unwrap().pools;
        pools.into_iter().find(|pool| pool.name == "main").unwrap()
    }

    fn until(&mut self, what: &str, is_so: impl Fn(&mut Self) -> bool) {
        for _ in 0..600 {
            if is_so(self) {
                return;
            }
            self.tick();
        }
        panic!("{what}: {:?}", self.pool());
    }

    fn read(&mut self, at: &str) -> base::Result<ReadObject> {
        match self.world.user(OpenRead { path: path(at) })? {
            ReadGrant::Online(object) => Ok(object),
            ReadGrant::Recalling { .. } => panic!("it is on disk"),
        }
    }

    /// The server on which a piece lies.
    fn server_of(&mut self, at: &str, index: u8) -> &'static str {
        let place = self.pieces(at).into_iter().find(|(piece, _)| *piece == index).unwrap().1;
        SERVERS.into_iter().find(|name| place == format!("main/{name}.disk")).unwrap()
    }
}

#[test]
fn a_coded_file_is_acknowledged_with_all_pieces_each_on_a_server_of_its_own() {
    let mut coded = Coded::new(CODING);
    let written = coded.begin("/f");
    let cut = written.placed.cut.unwrap();
    assert_eq!((cut.coding, written.placed.mirrors.len()), (CODING, 3));
    let servers: BTreeSet<_> = written.placed.mirrors.iter().map(|mirror| host_of(&mirror.url)).collect();
    assert_eq!(servers.len(), 3);
    let again = coded.place(&written.grant, Vec::new()).unwrap();
    assert_eq!(again, written.placed, "asking twice places once");
    assert_eq!(refusal(coded.commit(&written, 2)), ErrorKind::NoSpace);
    coded.commit(&written, 3).unwrap();
    coded.commit(&written, 3).unwrap();
    assert_eq!(coded.indices("/f"), [0, 1, 2]);
    let info = stat(&mut coded.world, "/f").unwrap();
    assert_eq!((info.coding, info.replicas.len(), info.entry.size), (Some(CODING), 0, 100_000));
    assert_eq!(info.entry.state, Some(FileState::Online));
    assert_eq!(coded.pool().files_short, 0);
    coded.until("what was cut is deleted", |coded| coded.objects() == 3);
    coded.world.user(Remove { path: path("/f") }).unwrap();
    coded.until("all pieces are deleted", |coded| coded.objects() == 0);
}

#[test]
fn a_piece_that_fails_is_placed_elsewhere_and_a_write_that_is_given_up_takes_all_with_it() {
    let mut coded = Coded::new(CODING);
    let first = coded.begin("/f");
    let failed = first.placed.mirrors[1].clone();
    let second = coded.place(&first.grant, vec![failed.object]).unwrap();
    let anew = second.mirrors.iter().find(|mirror| mirror.index == failed.index).unwrap();
    assert_ne!(host_of(&anew.url), host_of(&failed.url));
    assert_eq!(second.mirrors.iter().filter(|mirror| first.placed.mirrors.contains(mirror)).count(), 2);
    assert_eq!(refusal(coded.commit(&first, 3)), ErrorKind::NoSpace, "the failed one does not count");
    coded.world.room(AbandonWrite { object: first.grant.object }).unwrap();
    coded.until("nothing is left", |coded| coded.objects() == 0);
    assert_eq!(refusal(stat(&mut coded.world, "/f")), ErrorKind::NotFound);
}

#[test]
fn with_just_enough_disk_servers_a_piece_that_fails_is_made_there_again_if_its_server_answers() {
    let mut coded = Coded::new(Coding { data: 3, parity: 2 });
    let first = coded.begin("/f");
    let failed = first.placed.mirrors[1].clone();
    let second = coded.place(&first.grant, vec![failed.object]).unwrap();
    let anew = second.mirrors.iter().find(|mirror| mirror.index == failed.index).unwrap().clone();
    assert_eq!(host_of(&anew.url), host_of(&failed.url));
    assert_ne!(anew.object, failed.object, "what is left of the failed one is deleted");
    coded.silent.insert(host_of(&failed.url));
    coded.until("it is silent", |coded| coded.pool().partitions.iter().any(|one| !one.is_available));
    assert!(coded.place(&first.grant, vec![anew.object]).is_err(), "it does not answer");
    coded.silent.clear();
    coded.until("it is back", |coded| coded.pool().partitions.iter().all(|one| one.is_available));
    let placed = coded.place(&first.grant, Vec::new()).unwrap();
    coded.commit(&Written { grant: first.grant, placed }, usize::MAX).unwrap();
    assert_eq!(coded.indices("/f"), [0, 1, 2, 3, 4]);
}

#[test]
fn too_few_disk_servers_are_said_before_anything_is_written() {
    let mut coded = Coded::new(Coding { data: 4, parity: 2 });
    let open = open_write("/f", Disposition::Replace, 100);
    let failure = coded.world.user(open.clone()).unwrap_err();
    assert_eq!(failure.kind, ErrorKind::NoSpace);
    assert!(
        failure.what.contains("is coded 4+2: each of the 6 pieces needs a different disk server"),
        "{failure}"
    );
    assert!(failure.what.ends_with("5 are there"), "{failure}");
    assert_eq!(refusal(stat(&mut coded.world, "/f")), ErrorKind::NotFound);
    coded.set(Some(Coding { data: 3, parity: 2 }));
    coded.world.user(open).unwrap();
}

#[test]
fn disk_servers_that_are_only_silent_are_waited_for() {
    let mut coded = Coded::new(CODING);
    let grant = begin_write(&mut coded.world, "/f", 100_000);
    coded.world.crash();
    assert_eq!(refusal(coded.place(&grant, Vec::new())), ErrorKind::Unavailable);
    coded.register("a");
    let other = open_write("/g", Disposition::Replace, 100);
    let failure = coded.world.user(other.clone()).unwrap_err();
    assert_eq!(failure.kind, ErrorKind::Unavailable);
    assert!(failure.what.ends_with("1 are there"), "{failure}");
    for name in SERVERS {
        coded.register(name);
    }
    coded.world.user(other.clone()).unwrap();
    let placed = coded.place(&grant, Vec::new()).unwrap();
    coded.commit(&Written { grant, placed }, 3).unwrap();
    // Once they were given up nobody waits any more.
    coded.set(Some(Coding { data: 3, parity: 2 }));
    coded.silent.insert("e");
    coded.until("it is silent", |coded| coded.pool().partitions.iter().any(|one| !one.is_available));
    let third = open_write("/h", Disposition::Replace, 100);
    assert_eq!(refusal(coded.world.user(third.clone())), ErrorKind::Unavailable);
    coded.lose(&["e"]);
    assert_eq!(refusal(coded.world.user(third)), ErrorKind::NoSpace);
}

#[test]
fn readers_are_sent_to_a_server_with_content_that_may_ask_where_the_rest_is() {
    let mut coded = Coded::new(CODING);
    let written = coded.write("/f");
    for _ in 0..10 {
        coded.world.advance(Millis(10));
        let grant = coded.read("/f").unwrap();
        assert!(grant.is_piece && grant.size == 100_000);
        let mirror = written.placed.mirrors.iter().find(|mirror| mirror.object == grant.object).unwrap();
        assert!(mirror.index < 2, "parity is for those who miss something");
    }
    let grant = coded.read("/f").unwrap();
    let (file, server) = (grant.file, grant.server.clone().unwrap().name);
    let keys = CapKeys::derive(&[7; 32]);
    let cap = |access, file, partition: &str| Cap {
        access,
        partition: partition.to_owned(),
        object: grant.object,
        file,
        generation: grant.fence,
        holder: None,
        range: wire::auth::capability::WHOLE,
        content: None,
        user: "ann".into(),
        expires: Timestamp(i64::MAX),
        piece: None,
        times: None,
    };
    let ask = |cap: &Cap, of: &str| {
        let capability = Some(keys.sign((of, NEVER_JOINED), cap));
        GetPieces { file, capability }
    };
    let right = cap(Access::Gather, file, &grant.partition);
    let pieces = coded.host(&server, ask(&right, &server)).unwrap();
    let indices: BTreeSet<_> = pieces.places.iter().map(|place| place.index).collect();
    assert_eq!((pieces.coding, indices.len(), pieces.size), (CODING, 3, 100_000));
    assert_eq!(pieces.generation, written.grant.object.0);
    // A file that is open for days may need another piece then.
    let after = |days: i64| coded.world.now + Millis::from_seconds(days * 86_400);
    for place in &pieces.places {
        let (_, opaque) = place.url.split_once("?bp.cap=").unwrap();
        let signed = opaque.split('&').next().unwrap();
        let key = keys.of(host_of(&place.url), grant.joined);
        key.verify(signed, after(6)).unwrap();
        key.verify(signed, after(8)).unwrap_err();
    }
    let other = SERVERS.into_iter().find(|name| *name != server).unwrap();
    let sealed_by_another = CapKeys::derive(&[8; 32]).sign((&server, NEVER_JOINED), &right);
    let wrong = [
        coded.host(&server, GetPieces { file, capability: None }),
        coded.host(&server, ask(&cap(Access::Read, file, &grant.partition), &server)),
        coded.host(&server, ask(&cap(Access::Gather, base::FileId(1), &grant.partition), &server)),
        coded.host(other, ask(&right, &server)),
        coded.host(&server, GetPieces { file, capability: Some(sealed_by_another) }),
    ];
    for (number, asked) in wrong.into_iter().enumerate() {
        assert_eq!(refusal(asked), ErrorKind::Permission, "{number}");
    }
    assert_eq!(coded.world.room(GetPieces { file, capability: None }).unwrap().places.len(), 3);
}

#[test]
fn pieces_of_a_server_that_is_given_up_are_made_anew_and_what_is_too_much_goes() {
    let mut coded = Coded::new(CODING);
    (0..10).for_each(|number| drop(coded.write(&format!("/f{number}"))));
    coded.until("what was cut is deleted", |coded| coded.objects() == 30);
    let lost = coded.server_of("/f0", 0);
    coded.silent.insert(lost);
    coded.until("it is silent", |coded| {
        let pool = coded.pool();
        pool.partitions.iter().any(|one| one.server == lost && !one.is_available)
    });
    assert_ne!(coded.read("/f0").unwrap().server.unwrap().name, lost);
    coded.until("it is given up", |coded| coded.pool().partitions.iter().any(|one| one.is_given_up));
    coded.until("all are whole elsewhere", |coded| {
        let elsewhere: usize =
            coded.disks.iter().filter(|(name, _)| **name != lost).map(|(_, disk)| disk.len()).sum();
        elsewhere == 30 && coded.pool().files_short == 0
    });
    coded.silent.clear();
    coded.until("what is too much is gone", |coded| coded.objects() == 30);
    for number in 0..10 {
        assert_eq!(coded.indices(&format!("/f{number}")), [0, 1, 2]);
        assert_eq!(state(&mut coded.world, &format!("/f{number}")), FileState::Online);
    }
}

#[test]
fn a_drained_piece_is_copied_and_a_damaged_one_is_made_of_the_others() {
    let mut coded = Coded::new(CODING);
    let written = coded.write("/f");
    coded.until("what was cut is deleted", |coded| coded.objects() == 3);
    let leaving = coded.server_of("/f", 2);
    let partition = format!("{leaving}.disk");
    coded.world.user(SetPartition { partition, state: PartitionState::Draining }).unwrap();
    while coded.world.room(Tend {}).unwrap().is_more {}
    let (name, order) = SERVERS.into_iter().find_map(|name| Some((name, coded.orders(name).pop()?))).unwrap();
    assert!(order.pieces.is_none() && order.url.starts_with(&format!("root://{leaving}:1094/")));
    assert_eq!(order.label.piece.map(|piece| (piece.index, piece.file_bytes)), Some((2, 100_000)));
    assert_eq!(order.checksums, Some(sums(order.source)));
    coded.copy(name, &order);
    coded.until("it is empty", |coded| coded.disks[leaving].is_empty());
    assert_eq!(coded.indices("/f"), [0, 1, 2]);

    let file = written.grant.file;
    let (victim, object) = (coded.server_of("/f", 0), written.placed.mirrors[0].object);
    let stranger = SERVERS.into_iter().find(|name| !coded.disks[name].iter().any(|_| true)).unwrap();
    let report = ReportDamage { file, objects: vec![object] };
    assert_eq!(refusal(coded.host(stranger, report.clone())), ErrorKind::Permission);
    coded.host(victim, report).unwrap();
    assert_eq!(coded.indices("/f"), [1, 2]);
    while coded.world.room(Tend {}).unwrap().is_more {}
    let (_, order) = SERVERS.into_iter().find_map(|name| Some((name, coded.orders(name).pop()?))).unwrap();
    let others: BTreeSet<_> = order.pieces.as_ref().unwrap().places.iter().map(|place| place.index).collect();
    assert_eq!((others, order.label.piece.map(|piece| piece.index)), (BTreeSet::from([1, 2]), Some(0)));
    assert_eq!(order.checksums, Some(sums(object)), "it is what it was");
    coded.until("it is whole again", |coded| coded.indices("/f") == [0, 1, 2] && coded.objects() == 3);
    assert!(!coded.disks[victim].contains(&object));
}

#[test]
fn what_cannot_be_spared_is_not_given_up() {
    let mut coded = Coded::new(CODING);
    let written = coded.write("/f");
    let (file, server) = (written.grant.file, coded.server_of("/f", 1));
    let objects = written.placed.mirrors.iter().map(|mirror| mirror.object).collect();
    coded.host(server, ReportDamage { file, objects }).unwrap();
    assert_eq!(coded.indices("/f").len(), 2, "one of three may be lost");
    assert_eq!(state(&mut coded.world, "/f"), FileState::Online);
    coded.disks.values_mut().for_each(BTreeSet::clear);
    coded.restart();
    assert_eq!(state(&mut coded.world, "/f"), FileState::Lost);
    assert_eq!(refusal(coded.read("/f")), ErrorKind::Corrupt);
    let listed = coded.world.user(wire::control::List { path: path("/"), after: String::new() }).unwrap();
    assert_eq!(listed.entries.iter().find(|entry| entry.name == "f").unwrap().state, Some(FileState::Lost));
}

#[test]
fn a_damaged_piece_stays_damaged_when_its_server_starts_anew() {
    let mut coded = Coded::new(CODING);
    let written = coded.write("/f");
    let (file, server) = (written.grant.file, coded.server_of("/f", 0));
    let object = written.placed.mirrors.iter().find(|mirror| mirror.index == 0).unwrap().object;
    coded.host(server, ReportDamage { file, objects: vec![object] }).unwrap();
    assert_eq!(coded.indices("/f"), [1, 2]);
    coded.restart();
    assert_eq!(coded.indices("/f"), [1, 2], "that it is there is no news");
    // Until nothing else is left: readers compare checksums.
    let other = coded.server_of("/f", 1);
    coded.disks.get_mut(other).unwrap().clear();
    coded.restart();
    assert_eq!(state(&mut coded.world, "/f"), FileState::Lost);
    coded.restart();
    assert_eq!(coded.indices("/f"), [0, 2]);
    assert_eq!(state(&mut coded.world, "/f"), FileState::Online);
}

#[test]
fn tape_is_asked_when_too_few_disk_servers_answer_and_no_more_when_they_are_back() {
    let mut coded = Coded::new(CODING);
    coded.write("/f");
    coded.archive("/f");
    let away = [coded.server_of("/f", 0), coded.server_of("/f", 2)];
    coded.silent.extend(away);
    coded.until("they are silent", |coded| {
        coded.pool().partitions.iter().filter(|one| !one.is_available).count() == 2
    });
    let open = OpenRead { path: path("/f") };
    assert!(matches!(coded.world.user(open.clone()), Ok(ReadGrant::Recalling { .. })));
    assert_eq!(requests(&mut coded.world).len(), 1);
    coded.silent.clear();
    coded.tick();
    assert_eq!(requests(&mut coded.world).len(), 0);
    assert!(coded.read("/f").unwrap().is_piece);
}

#[test]
fn what_is_evicted_takes_with_it_what_is_being_made() {
    let mut coded = Coded::new(CODING);
    let written = coded.write("/f");
    coded.archive("/f");
    coded.until("what was cut is deleted", |coded| coded.objects() == 3);
    let (file, server) = (written.grant.file, coded.server_of("/f", 0));
    coded.host(server, ReportDamage { file, objects: vec![written.placed.mirrors[0].object] }).unwrap();
    while coded.world.room(Tend {}).unwrap().is_more {}
    assert_eq!(coded.pool().copies_under_way, 1);
    assert_eq!(evict(&mut coded.world, "/f").unwrap(), FileState::Nearline);
    assert_eq!((coded.pool().copies_under_way, coded.pieces("/f").len()), (0, 0));
    coded.until("nothing is left", |coded| coded.objects() == 0);
    assert_eq!(state(&mut coded.world, "/f"), FileState::Nearline);
}

#[test]
fn a_write_ends_in_the_form_in_which_it_was_placed() {
    let mut coded = Coded::new(CODING);
    let other = Coding { data: 3, parity: 2 };
    for (at, after) in [("/none", None), ("/other", Some(other))] {
        coded.set(Some(CODING));
        let mut written = coded.begin(at);
        coded.set(after);
        // A piece that fails is placed anew as one of the same file.
        let failed = written.placed.mirrors[0].object;
        let again = coded.place(&written.grant, vec![failed]).unwrap();
        assert_eq!((again.cut.map(|cut| cut.coding), again.mirrors.len()), (Some(CODING), 3));
        written.placed = again;
        coded.commit(&written, 3).unwrap();
        assert_eq!(stat(&mut coded.world, at).unwrap().coding, Some(CODING));
        assert_eq!(coded.indices(at), [0, 1, 2]);
    }
    // What was opened before its pool was coded is a replica; its disk server does not ask for places.
    coded.set(None);
    let grant = begin_write(&mut coded.world, "/whole", 100_000);
    assert!(!grant.is_mirrored);
    coded.set(Some(CODING));
    let placed = Mirrors { mirrors: Vec::new(), cut: None };
    coded.commit(&Written { grant, placed }, 0).unwrap();
    let info = stat(&mut coded.world, "/whole").unwrap();
    assert_eq!((info.coding, info.replicas.len(), info.entry.state), (None, 1, Some(FileState::Online)));
    // What mirrors were placed for keeps them.
    let two =
        |coding| SetPool { pool: Pool { coding, copies: 2, acknowledged_copies: 2, ..Pool::default() } };
    coded.world.user(two(None)).unwrap();
    let grant = begin_write(&mut coded.world, "/two", 100_000);
    let placed = coded.place(&grant, Vec::new()).unwrap();
    coded.world.user(two(Some(CODING))).unwrap();
    assert_eq!(coded.place(&grant, Vec::new()).unwrap(), placed);
    let Content { size, sums: checksums } = Content::numbered(100_000, 1);
    let (object, mirrors, pieces) = (grant.object, vec![placed.mirrors[0].object], Vec::new());
    let name = grant.server.unwrap().name;
    coded.host(&name, CommitWrite { object, size, checksums, mirrors, pieces }).unwrap();
    assert_eq!(stat(&mut coded.world, "/two").unwrap().replicas.len(), 2);
}

#[test]
fn a_commit_that_is_said_again_is_known_by_any_of_its_pieces() {
    let mut coded = Coded::new(CODING);
    let written = coded.write("/f");
    let first = &written.placed.mirrors[0];
    let server = host_of(&first.url);
    let file = written.grant.file;
    coded.host(server, ReportDamage { file, objects: vec![first.object] }).unwrap();
    coded.commit(&written, 3).unwrap();
    coded.until("it is made anew", |coded| {
        coded.indices("/f") == [0, 1, 2] && !coded.disks[server].contains(&first.object)
    });
    coded.commit(&written, 3).unwrap();
    let later = coded.write("/f");
    assert_eq!(refusal(coded.commit(&written, 3)), ErrorKind::NotFound, "that content is gone");
    coded.commit(&later, 3).unwrap();
}

#[test]
fn pieces_that_are_found_replace_what_a_file_has_only_when_it_can_be_read_from_them() {
    let mut coded = Coded::new(CODING);
    let written = coded.write("/f");
    // The catalogue was put back to this state; later the file was written again, once to the end and once not.
    let seen = CatalogueMark { epoch: 3, ..CatalogueMark::default() };
    let compare = CompareCatalogue { partition: "a.disk".into(), seen: Some(seen) };
    assert!(!coded.host("a", compare).unwrap().is_settled);
    coded.world.user(RecoverCatalogue {}).unwrap();
    let generation = written.grant.object.0;
    let found = |object, index, generation| {
        FoundPiece { file: written.grant.file, object, index, generation }.found()
    };
    let tell = |coded: &mut Coded, name: &str, objects: Vec<FoundObject>| {
        let (partition, is_first, is_last) = (format!("{name}.disk"), true, true);
        coded.host(name, CompareObjects { partition, is_first, is_last, objects }).unwrap();
        let restored = coded.world.user(GetStatus {}).unwrap().restored.unwrap();
        (restored.recovered(), restored.unknown())
    };
    let (later, last) = (generation + 1000, generation + 2000);
    assert_eq!(tell(&mut coded, "a", vec![found(last + 1, 0, last), found(later + 1, 0, later)]), (0, 2));
    assert_eq!(coded.indices("/f"), [0, 1, 2], "one of two proves nothing");
    assert_eq!(
        coded.world.room(GetPieces { file: written.grant.file, capability: None }).unwrap().generation,
        generation
    );
    coded.world.crash();
    coded.restart();
    assert_eq!(
        tell(&mut coded, "b", vec![found(later + 2, 2, later)]),
        (1, 0),
        "of the other nobody has spoken since"
    );
    let now = coded.world.room(GetPieces { file: written.grant.file, capability: None }).unwrap();
    let objects: BTreeSet<_> = now.places.iter().map(|place| place.object.0).collect();
    assert_eq!((now.generation, objects), (later, BTreeSet::from([later + 1, later + 2])));
    assert_eq!(tell(&mut coded, "a", vec![found(last + 1, 0, last)]), (1, 1));
    assert_eq!(
        tell(&mut coded, "c", vec![found(last + 3, 2, last)]),
        (3, 0),
        "the first one is counted no more as unknown"
    );
    let now = coded.world.room(GetPieces { file: written.grant.file, capability: None }).unwrap();
    assert_eq!((now.generation, now.places.len()), (last, 2));
}

/// A piece of a later write, as its disk server finds it.
struct FoundPiece {
    file: base::FileId,
    object: u64,
    index: u8,
    generation: u64,
}

impl FoundPiece {
    fn found(self) -> FoundObject {
        let Self { file, object, index, generation } = self;
        let file_checksums = Checksums::of(&generation.to_be_bytes());
        let piece = Piece { coding: CODING, cell_bytes: 4096, index, file_bytes: 10_000, file_checksums };
        let size = piece.shape(file, generation).unwrap().piece_bytes();
        let label =
            Label { file, path: path("/f"), generation, holder: Holder::default(), piece: Some(piece) };
        let described = Some(Described { label, checksums: sums(ObjectId(object)), written: Timestamp(1) });
        FoundObject { object: ObjectId(object), size, described }
    }
}

#[test]
fn scans_know_pieces_by_their_own_size_and_sums() {
    let mut coded = Coded::new(CODING);
    let written = coded.write("/f");
    let server = coded.server_of("/f", 2);
    let object = written.placed.mirrors.iter().find(|mirror| mirror.index == 2).unwrap().object;
    let ask = AskObjects { partition: format!("{server}.disk"), objects: vec![object] };
    let known = coded.host(server, ask).unwrap().known;
    let [Known::Online(known)] = known[..] else { panic!("{known:?}") };
    assert_eq!((known.file, known.checksums), (written.grant.file, sums(object)));
    assert!(known.size > 50_000 && known.size < 60_000, "{}", known.size);
}

#[test]
fn a_change_begins_with_what_the_pieces_have_and_replaces_them() {
    let mut coded = Coded::new(CODING);
    let before = coded.write("/f");
    let open = open_write("/f", Disposition::Update, 100_000);
    let grant = coded.world.user(open).unwrap();
    assert!(grant.base.as_ref().is_some_and(|base| base.is_piece));
    let server = grant.server.clone().unwrap().name;
    let begun = coded.host(&server, BeginWrite { object: grant.object, is_update: true }).unwrap();
    let pieces = begun.base_pieces.unwrap();
    assert_eq!((pieces.places.len(), pieces.generation), (3, before.grant.object.0));
    let placed = coded.place(&grant, Vec::new()).unwrap();
    let after = Written { grant, placed };
    coded.commit(&after, 3).unwrap();
    assert_eq!(coded.indices("/f"), [0, 1, 2]);
    let file = before.grant.file;
    let now = coded.world.room(GetPieces { file, capability: None }).unwrap();
    assert_eq!(now.generation, after.grant.object.0);
    assert!(
        !now.places.iter().any(|place| before.placed.mirrors.iter().any(|old| old.object == place.object))
    );
}

#[test]
fn a_pool_that_is_not_coded_any_more_keeps_what_is() {
    let mut coded = Coded::new(CODING);
    coded.write("/f");
    coded.set(None);
    let grant = begin_write(&mut coded.world, "/g", 100);
    assert!(!grant.is_mirrored);
    coded.until("what was cut is deleted", |coded| coded.objects() == 3);
    let lost = coded.server_of("/f", 1);
    coded.silent.insert(lost);
    coded.until("it is given up", |coded| coded.pool().partitions.iter().any(|one| one.is_given_up));
    coded.until("it is whole elsewhere", |coded| coded.indices("/f") == [0, 1, 1, 2]);
}

#[test]
fn room_in_a_coded_pool_is_reserved_for_what_is_written() {
    let mut coded = Coded::new(CODING);
    let ask = Allocate {
        path: path("/later"),
        size: 100_000,
        pool: "main".into(),
        parents: false,
        mode: 0o644,
        lifetime: None,
    };
    let reserved = coded.world.user(ask).unwrap();
    assert_eq!(reserved.partitions.len(), 1);
    let written = coded.begin("/later");
    assert_eq!(written.grant.partition, reserved.partitions[0]);
    coded.commit(&written, 3).unwrap();
    assert_eq!(coded.indices("/later"), [0, 1, 2]);
}
