//! Objects of this host, opened for doors: by a grant of the head, or by a capability.

mod capability;
mod live;
mod withdrawn;
mod writing;

use crate::{
    ObjectReader, Partition,
    clock::HeadTime,
    port::Head,
    remote::{objects::PeerClient, threads::with_peers},
    replicate::{
        coded::{CodedFile, Reporter},
        mirror::MirrorFill,
    },
    serve::{
        begin_write::WriteStart,
        checksums::ObjectSums,
        free_space::SpaceWait,
        open_file::{Meter, ReadFile, Reservation, Sink, Source, WriteFile},
        traffic::Traffic,
        usage::Uses,
    },
};
use base::{Clock, ErrorKind, Failure, ObjectId, Result, Timestamp};
pub use capability::{CapFile, CapOpen, is_live, is_outdated};
use net::{blocking, shutdown::Shutdown};
use std::{collections::BTreeMap, sync::Arc};
use tokio::sync::Semaphore;
use tracing::debug;
use wire::{
    auth::capability::{Cap, ServerKeys},
    control::{GetPieces, ReadObject, ReportMissing, WriteGrant},
};
pub use withdrawn::{Fence, WithdrawnObjects};
pub use writing::Writing;

/// Reports of missing objects that wait for the head.
static MISSING_REPORTS: Semaphore = Semaphore::const_new(16);

/// The objects of this host's partitions.
pub struct Objects {
    head: Head,
    peers: PeerClient,
    partitions: BTreeMap<String, Arc<Partition>>,
    keys: ServerKeys,
    clock: Clock,
    /// The head's, where it is another host's.
    time: Option<Arc<HeadTime>>,
    withdrawn: Arc<WithdrawnObjects>,
    fence: Arc<Fence>,
    writing: Writing,
    space: SpaceWait,
    uses: Arc<Uses>,
    sums: ObjectSums,
    /// Follow-up work of files that were dropped in the middle.
    tasks: Shutdown,
}

impl Objects {
    /// Serves the objects of `partitions`; `keys` check the capabilities of this disk server.
    pub fn new(
        head: Head,
        partitions: Vec<Arc<Partition>>,
        keys: ServerKeys,
        clock: Clock,
        tasks: Shutdown,
    ) -> Self {
        let named = |partition: Arc<Partition>| (partition.identity().partition.clone(), partition);
        let partitions = partitions.into_iter().map(named).collect();
        let fence = Arc::new(Fence::remembered(&partitions));
        let uses = Uses::start(&head, &tasks);
        let withdrawn = Arc::new(WithdrawnObjects::remembered(&partitions));
        let (writing, sums) = Default::default();
        let peers = PeerClient::new(None);
        let (time, space) = (None, SpaceWait::new(head.clone()));
        Self {
            head,
            peers,
            partitions,
            keys,
            clock,
            time,
            withdrawn,
            fence,
            writing,
            space,
            uses,
            sums,
            tasks,
        }
    }

    /// What is read of them.
    pub(crate) fn uses(&self) -> &Arc<Uses> {
        &self.uses
    }

    /// Says how other disk servers are spoken to.
    #[must_use]
    pub fn with_peer_client(self, peers: PeerClient) -> Self {
        Self { peers, ..self }
    }

    /// Rights that seem to be over make `time` ask the head.
    pub fn with_time(self, time: Arc<HeadTime>) -> Self {
        Self { time: Some(time), ..self }
    }

    /// Sums of objects that the catalogue does not keep.
    pub fn sums(&self) -> &ObjectSums {
        &self.sums
    }

    /// Objects that must not be made any more; the janitor adds to them.
    pub fn withdrawn(&self) -> Arc<WithdrawnObjects> {
        Arc::clone(&self.withdrawn)
    }

    /// From which generation on rights to read hold; the janitor raises it.
    pub fn fence(&self) -> Arc<Fence> {
        Arc::clone(&self.fence)
    }

    /// What users are writing.
    pub fn writing(&self) -> Writing {
        self.writing.clone()
    }

    /// How writers get free space; the janitor says when there is some.
    pub(crate) fn space(&self) -> SpaceWait {
        self.space.clone()
    }

    /// Where work runs that outlives its session.
    pub fn tasks(&self) -> &Shutdown {
        &self.tasks
    }

    fn partition(&self, name: &str) -> Result<Arc<Partition>> {
        let partition = self.partitions.get(name).cloned();
        partition.ok_or_else(|| Failure::unavailable(format!("partition {name} is not served here")))
    }

    /// Opens a coded file for reading, with a capability where the head is on another host.
    pub(crate) async fn gather(
        &self,
        user: &str,
        grant: Arc<ReadObject>,
        capability: Option<&str>,
        door: Arc<Traffic>,
    ) -> Result<ReadFile> {
        let call = GetPieces { file: grant.file, capability: capability.map(str::to_owned) };
        let pieces = self.head.insist(call).await?;
        if (pieces.size, pieces.checksums) != (grant.size, grant.checksums) {
            return Err(
                Failure::not_found(format!("file {} was overwritten", grant.file)).hint("open it again")
            );
        }
        let (head, tasks) = (self.head.clone(), self.tasks.clone());
        let reporter = Reporter { head, tasks, runtime: tokio::runtime::Handle::current() };
        let file = CodedFile::new(&pieces, &self.partitions, &self.peers, Some(reporter))?;
        let file = with_peers(move || {
            file.open();
            Ok(file)
        })
        .await?;
        let grant = Arc::new(ReadObject { modified: pieces.modified, ..(*grant).clone() });
        let meter = self.meter(user, grant.object, door);
        Ok(ReadFile::new(Source::Coded(Box::new(file)), grant, meter))
    }

    /// Opens an object for reading, on behalf of `user`.
    pub async fn read(&self, user: &str, grant: Arc<ReadObject>, door: Arc<Traffic>) -> Result<ReadFile> {
        if grant.is_piece {
            return self.gather(user, grant, None, door).await;
        }
        let reader = self.reader(&grant.partition, grant.object).await?;
        Ok(self.reading(user, grant, reader, door))
    }

    /// Opens an object that should be here. If it is not the head is told, which would send the reader here again and again.
    async fn reader(&self, partition: &str, object: ObjectId) -> Result<Arc<ObjectReader>> {
        let kept = self.partition(partition)?;
        let opened = blocking(move || {
            let opened = kept.open_object(object);
            if opened.as_ref().is_err_and(|failure| failure.kind == ErrorKind::NotFound) {
                // Where a disk is not mounted nothing is lost.
                kept.check_in_place()?;
            }
            opened
        })
        .await;
        // Some at a time: a head that does not answer must not take all threads.
        if opened.as_ref().is_err_and(|failure| failure.kind == ErrorKind::NotFound)
            && let Ok(_place) = MISSING_REPORTS.try_acquire()
        {
            let missing = ReportMissing { partition: partition.to_owned(), object };
            if let Err(failure) = self.head.call(missing).await {
                debug!(partition, %object, %failure, "could not tell the head that an object is missing");
            }
        }
        opened
    }

    /// Opens an object for reading without waiting for anything but the disk.
    pub fn read_now(&self, user: &str, grant: Arc<ReadObject>, door: &Arc<Traffic>) -> Option<ReadFile> {
        // Where the other pieces are must be asked.
        let partition = self.partitions.get(&grant.partition).filter(|_| !grant.is_piece)?;
        let reader = partition.open_object(grant.object).ok()?;
        Some(self.reading(user, grant, reader, Arc::clone(door)))
    }

    /// Notes that an object was opened by a kept grant.
    pub fn opened(&self, object: ObjectId) {
        self.uses.opened(object);
    }

    fn reading(
        &self,
        user: &str,
        grant: Arc<ReadObject>,
        reader: Arc<ObjectReader>,
        door: Arc<Traffic>,
    ) -> ReadFile {
        let meter = self.meter(user, grant.object, door);
        ReadFile::new(Source::Object(reader), grant, meter)
    }

    /// Counts what `user` reads.
    pub fn meter(&self, user: &str, object: ObjectId, door: Arc<Traffic>) -> Meter {
        Meter::new(&self.uses, (user, object), door)
    }

    /// Takes a reserved object in hand: it is given back unless it is committed.
    pub fn reservation(&self, grant: &WriteGrant) -> Reservation {
        self.taking(grant)()
    }

    /// The same for later, on whatever thread.
    fn taking(&self, grant: &WriteGrant) -> impl FnOnce() -> Reservation + Send + 'static {
        let (head, tasks, writing) = (self.head.clone(), self.tasks.clone(), self.writing.clone());
        let (partition, object) = (grant.partition.clone(), grant.object);
        move || Reservation::new(head, tasks, writing, (partition, object))
    }

    /// Begins a reserved object, which `take` takes in hand once nobody else can have it.
    pub async fn write(
        &self,
        grant: &WriteGrant,
        take: impl FnOnce() -> Reservation + Send + 'static,
        door: Arc<Traffic>,
    ) -> Result<WriteFile> {
        let partition = self.partition(&grant.partition)?;
        let mirroring = grant.is_mirrored.then(|| MirrorFill {
            head: self.head.clone(),
            peers: self.peers.clone(),
            partition: Arc::clone(&partition),
        });
        let beginning = WriteStart {
            partition,
            withdrawn: Arc::clone(&self.withdrawn),
            object: grant.object,
            base: grant.base.as_ref().map(|base| base.object),
            gathered: match &grant.base_pieces {
                Some(pieces) => Some(CodedFile::new(pieces, &self.partitions, &self.peers, None)?),
                None => None,
            },
            expected_bytes: grant.expected_bytes,
            needed_bytes: grant.expected_bytes.max(grant.base.as_ref().map_or(0, |base| base.size)),
        };
        let (writer, reservation) = beginning.begin(&self.space, take).await?;
        let writer = Arc::new(writer);
        self.writing.writes(&grant.partition, &writer);
        let file = WriteFile::new(Sink::Object(writer), grant.label(), &self.clock, door);
        Ok(file.with_reservation(reservation).with_mirrors(mirroring).with_space(self.space.clone()))
    }

    /// Who was given a capability of this disk server that holds.
    pub fn user_of(&self, signed: &str) -> Option<String> {
        self.verified(signed).ok().map(|cap| cap.user)
    }

    /// Whether a capability is one of this disk server's that holds.
    pub fn is_for_us(&self, signed: &str) -> bool {
        self.verified(signed).is_ok()
    }

    fn verified(&self, signed: &str) -> Result<Cap> {
        let cap = self.keys.verify(signed, self.now()).inspect_err(|_| {
            // Of what was never a right no clock is to blame.
            let was_right = || self.keys.verify_ended(signed, self.now()).is_ok();
            if let Some(time) = self.time.as_ref().filter(|_| was_right()) {
                time.doubt();
            }
        })?;
        self.fence.check(&cap)?;
        Ok(cap)
    }

    fn now(&self) -> Timestamp {
        (self.clock)()
    }
}
