//! Coded pools: pieces are placed, committed together, read through one disk server, made anew, deleted.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod repair;
#[path = "../support/mod.rs"]
mod support;
mod writes;

use base::{Checksums, ErrorKind, Failure, Millis, ObjectId, Timestamp};
use head::Principal;
use sim::{Content, World};
use std::collections::{BTreeMap, BTreeSet};
use support::*;
use wire::{
    auth::capability::{Access, Cap, CapKeys, NEVER_JOINED},
    control::{
        ArchivedCopy, BeginWrite, Coding, CommitWrite, CopyEnded, CopyOrder, DiskServer, Disposition,
        FileState, FilesArchived, FilledPiece, GetPieces, GetPools, Mirrors, NextCopies, NextRemovals,
        ObjectsRemoved, OpenRead, PartitionState, PlaceMirrors, Pool, PoolInfo, ReadGrant, ReadObject,
        RegisterPartition, ReportObjects, ReportSpace, Role, RunMaintenance, SetPartition, SetPool, TapeWork,
        WriteGrant,
    },
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
        self.host(name, ReportObjects { partition, boot, after: ObjectId(0), upto: None, objects }).unwrap();
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
        while self.world.room(RunMaintenance {}).unwrap().is_more {}
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
        let copies = vec![ArchivedCopy { request: files[0].request, fseq, block, end_block, member: None }];
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
