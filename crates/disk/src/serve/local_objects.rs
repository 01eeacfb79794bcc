//! Objects of this host, opened for doors: by a grant of the head, or by a capability.

use crate::{
    ObjectReader, ObjectWriter, Partition,
    clock::HeadTime,
    port::Head,
    remote::{objects::PeerClient, threads::with_peers},
    replicate::{
        coded::{CodedFile, Reporter},
        mirror::Mirroring,
    },
    serve::{
        begin_write::Beginning,
        checksums::ObjectSums,
        free_space::SpaceWait,
        open_file::{Meter, ReadFile, Reservation, Sink, Source, WriteFile},
        traffic::Traffic,
        usage::Uses,
    },
};
use base::{Clock, ErrorKind, Failure, FilePath, ObjectId, Result, Timestamp};
use net::{blocking, shutdown::Shutdown};
use std::{
    collections::{BTreeMap, HashSet},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicU64, Ordering},
    },
};
use tokio::sync::Semaphore;
use tracing::{debug, warn};
use wire::{
    auth::capability::{Access, Cap, NEVER_JOINED, ServerKeys, Times, UNFENCED, WHOLE},
    control::{BeginWrite, GetPieces, ReadObject, ReportMissing, WriteGrant},
    media::object::Label,
};

/// Reports of missing objects that wait for the head.
static MISSING_REPORTS: Semaphore = Semaphore::const_new(16);
/// Objects that were removed before anything was written: whoever was promised one must not make it any more.
#[derive(Default)]
pub struct Withdrawn(Mutex<[HashSet<ObjectId>; 2]>);

impl Withdrawn {
    /// What the partitions remember: a right that was given before a restart may still be used after it.
    fn remembered(partitions: &BTreeMap<String, Arc<Partition>>) -> Self {
        let withdrawn = Self::default();
        for (partition, kept) in partitions {
            match kept.seen_withdrawn() {
                Ok(objects) => {
                    for object in objects {
                        withdrawn.add(object);
                    }
                }
                Err(failure) => {
                    warn!(partition, %failure, "cannot read the list of withdrawn objects; stale writes may succeed");
                }
            }
        }
        withdrawn
    }

    /// Remembers an object, and forgets the oldest if there are too many.
    pub fn add(&self, object: ObjectId) {
        let [new, old] = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if new.len() >= crate::WITHDRAWN_MAX {
            *old = std::mem::take(new);
        }
        new.insert(object);
    }

    /// Refuses an object that nobody waits for; asked once its writer keeps the janitor away.
    pub(crate) fn refuse(&self, object: ObjectId) -> Result<()> {
        let sets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if sets.iter().any(|set| set.contains(&object)) {
            return Err(Failure::not_found(format!("object {object} was removed before it was written")));
        }
        Ok(())
    }
}

/// From which generation on rights to read hold: the head raises it when somebody may read less than before.
#[derive(Default)]
pub struct Fence(AtomicU64);

impl Fence {
    /// What the partitions remember. One that cannot be read lets nobody in but rooms, until the head has said it again.
    fn remembered(partitions: &BTreeMap<String, Arc<Partition>>) -> Self {
        let fences = partitions.iter().map(|(partition, kept)| {
            kept.seen_fence().unwrap_or_else(|failure| {
                warn!(partition, %failure, "cannot read which capabilities were revoked; clients are redirected \
                    to the head");
                UNFENCED
            })
        });
        Self(AtomicU64::new(fences.max().unwrap_or(0)))
    }

    /// Takes what the head says.
    pub(crate) fn set(&self, fence: u64) {
        self.0.store(fence, Ordering::Release);
    }

    /// Refuses a right to read that may have been taken back.
    fn check(&self, cap: &Cap) -> Result<()> {
        if !cap.access.is_read() || cap.generation >= self.0.load(Ordering::Acquire) {
            return Ok(());
        }
        Err(Failure::permission(format!(
            "capability for object {} was issued before a permission was revoked",
            cap.object
        ))
        .hint("open the file again"))
    }
}

/// Objects that users are writing, for reports to the head, with who writes them as far as it is known.
#[derive(Clone, Default)]
pub struct Writing(Arc<Mutex<Writers>>);

/// Writers by partition and object.
type Writers = BTreeMap<(String, ObjectId), Weak<ObjectWriter>>;

impl Writing {
    fn all(&self) -> MutexGuard<'_, Writers> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn begin(&self, partition: &str, object: ObjectId) {
        self.all().insert((partition.to_owned(), object), Weak::new());
    }

    /// Says who writes an object, if that has not ended yet.
    fn writes(&self, partition: &str, writer: &Arc<ObjectWriter>) {
        if let Some(known) = self.all().get_mut(&(partition.to_owned(), writer.object())) {
            *known = Arc::downgrade(writer);
        }
    }

    pub(crate) fn end(&self, partition: &str, object: ObjectId) {
        self.all().remove(&(partition.to_owned(), object));
    }

    /// What is being written on a partition, and the bytes of it so far; whose length is not known makes no room free, and counts
    /// as whole.
    pub fn on(&self, partition: &str) -> (Vec<ObjectId>, Vec<u64>) {
        let all = self.all();
        let own = all.iter().filter(|((on, _), _)| on == partition);
        let writers: Vec<_> = own.map(|((_, object), writer)| (*object, writer.upgrade())).collect();
        drop(all);
        let size = |writer: Arc<ObjectWriter>| writer.size().ok();
        writers
            .into_iter()
            .map(|(object, writer)| (object, writer.and_then(size).unwrap_or(u64::MAX)))
            .unzip()
    }

    /// Gives the room back that was taken for an object in advance and is not used.
    pub(crate) fn release_unused(&self, partition: &str, object: ObjectId) -> Result<()> {
        let writer = self.all().get(&(partition.to_owned(), object)).and_then(Weak::upgrade);
        writer.map_or(Ok(()), |writer| writer.release_unused())
    }
}

/// The objects of this host's partitions.
pub struct Objects {
    head: Head,
    peers: PeerClient,
    partitions: BTreeMap<String, Arc<Partition>>,
    keys: ServerKeys,
    clock: Clock,
    /// The head's, where it is another host's.
    time: Option<Arc<HeadTime>>,
    withdrawn: Arc<Withdrawn>,
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
        let withdrawn = Arc::new(Withdrawn::remembered(&partitions));
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
    pub fn withdrawn(&self) -> Arc<Withdrawn> {
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
        let mirroring = grant.is_mirrored.then(|| Mirroring {
            head: self.head.clone(),
            peers: self.peers.clone(),
            partition: Arc::clone(&partition),
        });
        let beginning = Beginning {
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

    /// Checks a capability, which names the object and what may be done; the head is asked only before a user writes.
    pub async fn open_cap(&self, open: CapOpen<'_>, door: Arc<Traffic>) -> Result<CapFile> {
        let cap = self.verified(open.signed)?;
        match cap.access {
            Access::Read => self.read_cap(&cap, door).await.map(CapFile::Read),
            Access::Gather => {
                let content = cap.content.ok_or_else(|| {
                    Failure::invalid(format!(
                        "capability to gather file {} does not say what it has",
                        cap.file
                    ))
                })?;
                let times = cap.times.unwrap_or(Times::of(Timestamp(0), None));
                let grant = ReadObject {
                    file: cap.file,
                    object: cap.object,
                    partition: cap.partition.clone(),
                    size: content.size,
                    modified: times.modified,
                    source_modified: times.source_modified(),
                    checksums: content.checksums,
                    mode: 0o644,
                    server: None,
                    joined: NEVER_JOINED,
                    is_piece: true,
                    fence: cap.generation,
                };
                let file = self.gather(&cap.user, Arc::new(grant), Some(open.signed), door).await?;
                Ok(CapFile::Read(file.within(cap.range)))
            }
            Access::Fill => self.fill_cap(&cap, open.path, door).await.map(CapFile::Write),
            Access::Write => {
                let begin = BeginWrite { object: cap.object, is_update: open.is_update };
                let grant = self.head.call(begin).await?;
                // Not yet: who comes second with the same capability must not end the write of the first.
                let take = self.taking(&grant);
                self.write(&grant, take, door).await.map(CapFile::Write)
            }
        }
    }

    async fn read_cap(&self, cap: &Cap, door: Arc<Traffic>) -> Result<ReadFile> {
        let object = cap.object;
        let reader = self.reader(&cap.partition, object).await?;
        let info = reader.info();
        let is_other = match cap.content {
            // Content that came back from the trash has another number than the object, which nobody else has: sums tell.
            Some(content) => (content.size, content.checksums) != (info.size, info.checksums),
            None => info.file != cap.file,
        };
        if is_other {
            return Err(Failure::corrupt(format!("object {object} does not match the capability")));
        }
        // Rooms are told none: they do not show any.
        let times = cap.times.unwrap_or(Times::of(info.written, None));
        let grant = Arc::new(ReadObject {
            file: info.file,
            object,
            partition: cap.partition.clone(),
            size: info.size,
            modified: times.modified,
            source_modified: times.source_modified(),
            checksums: info.checksums,
            mode: 0o644,
            server: None,
            joined: NEVER_JOINED,
            fence: cap.generation,
            is_piece: false,
        });
        Ok(self.reading(&cap.user, grant, reader, door).within(cap.range))
    }

    async fn fill_cap(&self, cap: &Cap, path: &FilePath, door: Arc<Traffic>) -> Result<WriteFile> {
        let bytes = match (cap.content, cap.piece) {
            _ if cap.range != WHOLE => None,
            (Some(content), None) => Some(content.size),
            // How long a piece is follows from what it is a piece of.
            (None, Some(piece)) => Some(piece.shape(cap.file, cap.generation)?.piece_bytes()),
            _ => None,
        };
        let bytes = bytes.ok_or_else(|| {
            Failure::invalid(format!("capability to fill object {} does not say with what", cap.object))
        })?;
        let (partition, withdrawn) = (self.partition(&cap.partition)?, Arc::clone(&self.withdrawn));
        let object = cap.object;
        let writer = blocking(move || {
            let writer = partition.create_object(object)?;
            withdrawn.refuse(object)?;
            Ok(writer)
        })
        .await?;
        self.space.reserve(&writer, bytes).await?;
        let writer = blocking(move || writer.preallocate(bytes).map(|()| writer)).await?;
        let holder = cap.holder.clone().unwrap_or_default();
        let (file, generation, piece) = (cap.file, cap.generation, cap.piece);
        let label = Label { file, path: path.clone(), generation, holder, piece };
        let file = WriteFile::new(Sink::Object(Arc::new(writer)), label, &self.clock, door);
        Ok(match cap.content {
            Some(content) => file.expecting(content),
            None => file.expecting_bytes(bytes),
        })
    }

    fn now(&self) -> Timestamp {
        (self.clock)()
    }
}

/// An open by capability.
#[derive(Debug, Clone, Copy)]
pub struct CapOpen<'a> {
    /// The capability.
    pub signed: &'a str,
    /// The path, for messages and for the description of an object that is filled.
    pub path: &'a FilePath,
    /// Whether a write begins with the content that the file has.
    pub is_update: bool,
}

/// Whether the head may know better than a capability: its object has moved since, or it was kept for too long.
pub fn is_outdated(failure: &Failure) -> bool {
    matches!(failure.kind, ErrorKind::NotFound | ErrorKind::Permission)
}

/// What a capability opens.
pub enum CapFile {
    /// For reading.
    Read(ReadFile),
    /// For writing.
    Write(WriteFile),
}
