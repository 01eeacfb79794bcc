//! The world: head, rooms, clock, what users were told.

use crate::{
    batch::Worker,
    disk::{self, DiskServer},
    tape::Library,
};
use base::{FilePath, Millis, ObjectId, Result, Timestamp, rng::Rng};
use head::{
    Apply, Bundling, Context, Core, HeadConfig, Principal, TrashPolicy,
    store::{Catalogue, FacilityRow},
};
use std::{any::Any, collections::BTreeMap};
use wire::{
    auth::{
        capability::{Cap, CapKeys, NEVER_JOINED},
        token::TokenKey,
    },
    control::{Cartridge, JobUsers, RegisterLibrary, RegisterWorker},
};

/// What [`World::bundle_small_files`] does.
const BUNDLING: Bundling = Bundling { below: 2500, bytes: 6000, wait: Millis(0) };
/// Drives of the simulated library.
pub const DRIVES: [&str; 2] = ["drv0", "drv1"];
pub(crate) const PARTITION: &str = "disk1";
pub(crate) const WORKER: &str = "worker1";
const VOLUMES: u32 = 4;
/// Bytes of a simulated cartridge: small, so that volumes fill up.
const VOLUME_BYTES: u64 = 600_000;

/// A facility in a box.
pub struct World {
    core: Option<Core>,
    trash: TrashPolicy,
    bundling: Bundling,
    starts: u32,
    catalogue: Catalogue,
    /// What goes with the catalogue.
    _place: Box<dyn Any + Send>,
    keys: CapKeys,
    /// The time.
    pub now: Timestamp,
    /// Every choice comes from here.
    pub rng: Rng,
    /// The disk server.
    pub disk: DiskServer,
    /// The tape library.
    pub library: Library,
    /// The worker.
    pub worker: Worker,
    /// What users were told: the content of every file they got an acknowledgement for.
    pub acknowledged: BTreeMap<FilePath, crate::Content>,
}

impl World {
    /// A new facility, up and registered.
    pub fn new(seed: u64) -> Self {
        // In memory where the host has it: a simulated crash is the end of a process, never of the machine.
        let shared = std::path::Path::new("/dev/shm");
        let directory = tempfile::tempdir_in(shared).or_else(|_| tempfile::tempdir());
        let directory = directory.expect("a temporary directory can be made");
        Self::with_catalogue(seed, Catalogue::File(directory.path().join("catalogue")), Box::new(directory))
    }

    /// The same with its catalogue at an empty place; `place` is dropped with the world.
    pub fn with_catalogue(seed: u64, catalogue: Catalogue, place: Box<dyn Any + Send>) -> Self {
        let now = Timestamp(1_700_000_000_000);
        let facility = FacilityRow {
            id: "sim".into(),
            name: "sim".into(),
            owner: "operator".into(),
            created: now,
            incarnation: 0,
        };
        Core::create(&catalogue, &facility).expect("a new catalogue can be made");
        let mut world = Self {
            core: None,
            trash: TrashPolicy::NONE,
            bundling: Bundling::default(),
            starts: 0,
            catalogue,
            _place: place,
            keys: CapKeys::derive(&[7; 32]),
            now,
            rng: Rng::new(seed),
            disk: DiskServer::new(1_000_000),
            library: Library::new(VOLUMES, VOLUME_BYTES),
            worker: Worker::default(),
            acknowledged: BTreeMap::new(),
        };
        world.start();
        world
    }

    /// Starts head and rooms on what the last crash left.
    pub fn start(&mut self) {
        let trash = self.trash;
        let config = HeadConfig {
            keys: self.keys.clone(),
            tokens: TokenKey::derive(&[7; 32]),
            server: disk::address(),
            pool: "main".into(),
        };
        let core = Core::open(&self.catalogue, config, self.now);
        self.core =
            Some(core.expect("the catalogue survives").with_trash(trash).with_bundling(self.bundling));
        self.starts += 1;
        self.register().expect("rooms can register");
    }

    /// Registers all rooms, as daemons do when they start.
    fn register(&mut self) -> Result<()> {
        self.room(self.registration())?;
        let cartridges = self.library.volumes.keys();
        let cartridges = cartridges.map(|vid| Cartridge { vid: vid.clone(), capacity_bytes: VOLUME_BYTES });
        let call = RegisterLibrary {
            library: "lib1".into(),
            drives: self.library.drives(),
            cartridges: cartridges.collect(),
        };
        self.room(call)?;
        let orders = self.room(RegisterWorker {
            worker: WORKER.into(),
            cpus: 2,
            memory_bytes: 1 << 30,
            not_enforced: Vec::new(),
            runs: self.worker.runs.keys().copied().collect(),
            users: JobUsers::default(),
            labels: Vec::new(),
            architecture: String::new(),
        })?;
        for run in orders.drop {
            self.worker.runs.remove(&run);
        }
        Ok(())
    }

    /// Has small files share tape files from now on: about half of those of the simulation.
    pub fn bundle_small_files(&mut self) {
        self.bundling = BUNDLING;
        self.core = self.core.take().map(|core| core.with_bundling(BUNDLING));
    }

    /// Has tape volumes verified that were not read for so long.
    pub fn verify_tapes(&mut self, interval: Millis) {
        self.core = self.core.take().map(|core| core.with_tape_verification(interval));
    }

    /// Keeps what is removed from now on.
    pub fn keep_trash(&mut self, policy: TrashPolicy) {
        self.trash = policy;
        self.core = self.core.take().map(|core| core.with_trash(policy));
    }

    /// Everything that is only in memory is gone, half-written things stay half-written; then all starts again.
    pub fn crash(&mut self) {
        self.core = None;
        self.disk.crash();
        self.worker.crash(&mut self.rng);
        self.advance(Millis(1000));
        self.start();
    }

    /// Lets time pass.
    pub fn advance(&mut self, span: Millis) {
        self.now = self.now + span;
    }

    /// Makes a call as a user.
    pub fn user<C: Apply>(&mut self, call: C) -> Result<C::Reply> {
        self.call(Principal::operator("ada"), call)
    }

    /// Makes a call as a room.
    pub fn room<C: Apply>(&mut self, call: C) -> Result<C::Reply> {
        self.call(Principal::room("room"), call)
    }

    /// Makes a call as anybody.
    pub fn call<C: Apply>(&mut self, who: Principal, call: C) -> Result<C::Reply> {
        let context = Context { who, now: self.now };
        self.core.as_mut().expect("the head is up between calls").call(&context, call)
    }

    /// How often the head was started.
    pub fn starts(&self) -> u32 {
        self.starts
    }

    /// The version of the namespace; it begins again after a crash.
    pub fn namespace_version(&self) -> u64 {
        self.core.as_ref().expect("the head is up between calls").namespace_version()
    }

    /// What a URL from the head allows.
    pub(crate) fn cap(&self, url: &str) -> Cap {
        let (_, opaque) = url.split_once("?bp.cap=").expect("room URLs carry a capability");
        let signed = opaque.split('&').next().unwrap_or_default();
        self.keys
            .of("sim", NEVER_JOINED)
            .verify(signed, self.now)
            .expect("the head signs with the facility's key")
    }

    /// The object that a URL from the head is about.
    pub(crate) fn object(&self, url: &str) -> ObjectId {
        self.cap(url).object
    }
}
