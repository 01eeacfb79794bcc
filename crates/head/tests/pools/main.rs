//! Pools with several disk servers: mirrors, copies, silence, lost disks, draining.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod live;
mod lost;
mod policy;
mod readers;
#[path = "../support/mod.rs"]
mod support;
mod writes;

use base::{ErrorKind, Failure, Millis, ObjectId};
use head::Principal;
use sim::{Content, World};
use std::collections::{BTreeMap, BTreeSet};
use support::*;
use wire::control::{
    ArchivedCopy, CommitWrite, CopyEnded, CopyOrder, DiskServer, FilesArchived, GetPools, Mirror, NextCopies,
    NextRemovals, ObjectsRemoved, OpenRead, PartitionState, PartitionTrouble, PlaceMirrors, Pool, PoolInfo,
    ReadGrant, ReadObject, RegisterPartition, ReportObjects, ReportSpace, Role, RunMaintenance, SetPartition,
    SetPool, TapeWork,
};

const SERVERS: [&str; 3] = ["a", "b", "c"];

/// Three disk servers of the pool `main` beside the one of the simulation, which takes nothing new.
struct Pools {
    world: World,
    /// What lies on each of them.
    disks: BTreeMap<&'static str, BTreeSet<ObjectId>>,
    /// Those that say nothing.
    silent: BTreeSet<&'static str>,
    /// What users are writing on whichever of them.
    writing: Vec<ObjectId>,
    /// What is wrong with the disks of others.
    troubles: BTreeMap<&'static str, PartitionTrouble>,
    boot: u64,
    free_bytes: u64,
}

impl Pools {
    fn new(copies: u8, acknowledged_copies: u8) -> Self {
        let mut pools = Self {
            world: world(),
            disks: SERVERS.into_iter().map(|name| (name, BTreeSet::new())).collect(),
            silent: BTreeSet::new(),
            writing: Vec::new(),
            troubles: BTreeMap::new(),
            boot: 1,
            free_bytes: 900_000,
        };
        let policy = Pool { copies, acknowledged_copies, ..Pool::default() };
        pools.world.user(SetPool { pool: policy }).unwrap();
        let state = PartitionState::ReadOnly;
        pools.world.user(SetPartition { partition: PARTITION.into(), state }).unwrap();
        pools.register_all();
        pools
    }

    fn host<C: head::Apply>(&mut self, name: &str, call: C) -> base::Result<C::Reply> {
        self.world.call(Principal::host(name), call)
    }

    fn register(&mut self, name: &'static str) {
        support::take_in(&mut self.world, name, Role::Disk);
        let server =
            DiskServer { name: name.into(), root: format!("{name}:1094"), https: format!("{name}:8443") };
        let (partition, boot) = (format!("{name}.disk"), self.boot);
        let (total_bytes, free_bytes) = (1_000_000, 900_000);
        let pool = "main".into();
        let call = RegisterPartition { server, boot, pool, partition, total_bytes, free_bytes };
        self.host(name, call).unwrap();
        self.call_the_roll(name).unwrap();
    }

    fn register_all(&mut self) {
        for name in SERVERS {
            self.register(name);
        }
    }

    fn call_the_roll(&mut self, name: &'static str) -> base::Result<wire::control::Done> {
        let objects = self.disks[name].iter().copied().collect();
        let (partition, boot) = (format!("{name}.disk"), self.boot);
        self.host(name, ReportObjects { partition, boot, after: ObjectId(0), upto: None, objects })
    }

    /// Two seconds pass: who is not silent reports and deletes; copies are made; the head tends its pools.
    fn tick(&mut self) {
        self.world.advance(Millis(2000));
        for name in SERVERS {
            if self.silent.contains(name) {
                continue;
            }
            let report = self.report(name);
            let partition = report.partition.clone();
            if self.host(name, report).is_err_and(|failure| failure.kind == ErrorKind::NotFound) {
                self.register(name);
            }
            let objects = self.host(name, NextRemovals { partition: partition.clone() }).unwrap().objects;
            for object in &objects {
                self.disks.get_mut(name).unwrap().remove(object);
            }
            self.host(name, ObjectsRemoved { partition, objects }).unwrap();
            for order in self.orders(name) {
                let source = order.source;
                let has_it = self.disks.values().any(|disk| disk.contains(&source));
                let failure = (!has_it).then(|| Failure::not_found("it is not here"));
                self.end_copy(name, &order, failure);
            }
        }
        while self.world.room(RunMaintenance {}).unwrap().is_more {}
    }

    fn report(&self, name: &str) -> ReportSpace {
        ReportSpace {
            partition: format!("{name}.disk"),
            boot: self.boot,
            writing: self.writing.clone(),
            written: Vec::new(),
            claimed: Vec::new(),
            total_bytes: 1_000_000,
            free_bytes: self.free_bytes,
            readers: 0,
            trouble: self.troubles.get(name).copied(),
        }
    }

    fn orders(&mut self, name: &str) -> Vec<CopyOrder> {
        let ask = NextCopies { partition: format!("{name}.disk"), under_way: Vec::new() };
        self.host(name, ask).unwrap().orders
    }

    fn end_copy(&mut self, name: &'static str, order: &CopyOrder, failure: Option<Failure>) {
        if failure.is_none() {
            self.disks.get_mut(name).unwrap().insert(order.object);
        }
        self.host(
            name,
            CopyEnded {
                object: order.object,
                source: order.source,
                failure,
                checksums: None,
                damaged: Vec::new(),
            },
        )
        .unwrap();
    }

    fn place(&mut self, grant: &wire::control::WriteGrant, failed: Vec<ObjectId>) -> Vec<Mirror> {
        let name = grant.server.clone().unwrap().name;
        let Content { size, sums } = Content::numbered(100, 1);
        self.host(&name, PlaceMirrors { object: grant.object, size, checksums: sums, failed })
            .unwrap()
            .mirrors
    }

    fn commit(&mut self, grant: &wire::control::WriteGrant, mirrors: &[ObjectId]) -> base::Result<()> {
        let name = grant.server.clone().unwrap().name;
        let Content { size, sums } = Content::numbered(100, 1);
        let mirrors = mirrors.to_vec();
        self.host(
            &name,
            CommitWrite { object: grant.object, size, checksums: sums, mirrors, pieces: Vec::new() },
        )
        .map(drop)
    }

    /// Writes a file with its mirrors.
    fn write(&mut self, at: &str) {
        let grant = begin_write(&mut self.world, at, 100);
        let mirrors = self.place(&grant, Vec::new());
        let mut objects = vec![];
        let home = grant.partition.clone();
        self.store(&home, grant.object);
        for mirror in mirrors {
            let server = server_of(&mirror);
            self.store(&format!("{server}.disk"), mirror.object);
            objects.push(mirror.object);
        }
        self.commit(&grant, &objects).unwrap();
    }

    fn archive(&mut self, at: &str) {
        ask_archive(&mut self.world, at).unwrap();
        let session = archive_session(&mut self.world);
        let TapeWork::Archive { append, files } = &session.work else { panic!("{session:?}") };
        let (fseq, block, end_block) = (append.fseq, append.block, append.block + 4);
        let copies = vec![ArchivedCopy { request: files[0].request, fseq, block, end_block, member: None }];
        self.world.room(FilesArchived { session: session.id, copies, used_bytes: 1000 }).unwrap();
        end_session(&mut self.world, &session, 0);
    }

    fn fill(&mut self, free_bytes: u64) {
        self.free_bytes = free_bytes;
        let _reported = SERVERS.map(|name| self.host(name, self.report(name)).unwrap());
    }

    fn store(&mut self, partition: &str, object: ObjectId) {
        let name = SERVERS.into_iter().find(|name| partition == format!("{name}.disk")).unwrap();
        self.disks.get_mut(name).unwrap().insert(object);
    }

    fn replicas(&mut self, at: &str) -> Vec<String> {
        let mut replicas = stat(&mut self.world, at).unwrap().replicas;
        replicas.sort();
        replicas
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

    /// Where readers are sent.
    fn reader(&mut self, at: &str) -> String {
        online(&mut self.world, at).partition
    }
}

fn online(world: &mut World, at: &str) -> ReadObject {
    match world.user(OpenRead { path: path(at) }).unwrap() {
        ReadGrant::Online(object) => object,
        ReadGrant::Recalling { .. } => panic!("it is on disk"),
    }
}

fn server_of(mirror: &Mirror) -> &'static str {
    let name = |name: &&str| mirror.url.starts_with(&format!("root://{name}:1094/"));
    SERVERS.into_iter().find(name).unwrap()
}
