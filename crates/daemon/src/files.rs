//! Files as the doors see them: the head decides, the disk server does, and this brings both together.

use crate::{metrics::DoorCounter, sums::ObjectSums, uses::Uses};
use base::{Checksums, ErrorKind, Failure, FileId, FilePath, Millis, ObjectId, Recent, Result};
use disk::{ObjectReader, ObjectWriter, Partition};
use head::{Clock, Head, Principal};
use net::shutdown::Shutdown;
use std::{
    collections::{BTreeMap, HashSet},
    io::IoSliceMut,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};
use tracing::warn;
use wire::{
    cap::{Access, Cap, CapKey},
    control::{AbandonWrite, CommitWrite, OpenRead, OpenWrite, ReadGrant, ReadObject, WriteGrant},
    object::ObjectInfo,
    xrd::Expectation,
};

/// Times an open is repeated because its object was removed between the head's answer and the disk's.
const STALE_OPENS_MAX: usize = 5;

/// Objects that are remembered as [`Withdrawn`]: more than are promised at a time.
const WITHDRAWN_MAX: usize = 1 << 16;

/// Half of the grants that are kept: the files that a busy hour opens again and again.
const GRANTS_KEPT: usize = 1 << 14;

/// Objects that were removed before anything was written: whoever was promised one must not make it any more.
#[derive(Default)]
pub struct Withdrawn(Mutex<[HashSet<ObjectId>; 2]>);

impl Withdrawn {
    /// Remembers an object, and forgets the oldest if there are too many.
    pub fn add(&self, object: ObjectId) {
        let [new, old] = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if new.len() >= WITHDRAWN_MAX {
            *old = std::mem::take(new);
        }
        new.insert(object);
    }

    /// Refuses an object that nobody waits for; asked once its writer keeps the janitor away.
    fn refuse(&self, object: ObjectId) -> Result<()> {
        let sets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if sets.iter().any(|set| set.contains(&object)) {
            return Err(Failure::not_found(format!("object {object} was removed before it was written")));
        }
        Ok(())
    }
}

/// Opens files for all doors.
pub struct Files {
    head: Head,
    partitions: BTreeMap<String, Arc<Partition>>,
    key: CapKey,
    clock: Clock,
    recall_wait: Millis,
    withdrawn: Arc<Withdrawn>,
    /// Grants by user and path, with the version of the namespace at which they were right.
    grants: Mutex<Recent<String, (u64, Arc<ReadObject>)>>,
    uses: Arc<Uses>,
    sums: ObjectSums,
    /// Follow-up work of files that were dropped in the middle.
    tasks: Shutdown,
}

/// What a kept answer is found by. A name cannot hold a NUL.
pub fn answer_key(who: &Principal, path: &FilePath) -> String {
    let rank = if who.is_operator { "*" } else { "" };
    [rank, &who.name, "\0", path.as_str()].concat()
}

impl Files {
    /// Serves the objects of `partitions`.
    pub fn new(
        head: Head,
        partitions: Vec<Arc<Partition>>,
        key: CapKey,
        clock: Clock,
        recall_wait: Millis,
        tasks: Shutdown,
    ) -> Self {
        let named = |partition: Arc<Partition>| (partition.identity().partition.clone(), partition);
        let partitions = partitions.into_iter().map(named).collect();
        let uses = Uses::start(&head, &tasks);
        let grants = Mutex::new(Recent::new(GRANTS_KEPT));
        let (withdrawn, sums) = (Arc::default(), ObjectSums::default());
        Self { head, partitions, key, clock, recall_wait, withdrawn, grants, uses, sums, tasks }
    }

    /// The head.
    pub fn head(&self) -> &Head {
        &self.head
    }

    /// Sums of objects that the catalogue does not keep.
    pub fn sums(&self) -> &ObjectSums {
        &self.sums
    }

    /// Objects that must not be made any more; the janitor adds to them.
    pub fn withdrawn(&self) -> Arc<Withdrawn> {
        Arc::clone(&self.withdrawn)
    }

    fn partition(&self, name: &str) -> Result<Arc<Partition>> {
        let partition = self.partitions.get(name).cloned();
        partition.ok_or_else(|| Failure::unavailable(format!("partition {name} is not served here")))
    }

    /// Opens a file for reading; waits for its recall if it is nearline.
    pub async fn open_read(
        &self,
        who: &Principal,
        path: &FilePath,
        door: Arc<DoorCounter>,
    ) -> Result<ReadFile> {
        let mut last = None;
        for _ in 0..STALE_OPENS_MAX {
            let version = self.head.namespace_version();
            let call = OpenRead { path: path.clone() };
            let grant = match self.head.call_waiting(who, call, self.recall_wait).await? {
                ReadGrant::Online(grant) => Arc::new(grant),
                ReadGrant::Recalling { waits } => {
                    return Err(Failure::timeout(format!("{path} is still nearline: {waits}"))
                        .hint("`bp queue` shows the tape queue; open it again later"));
                }
            };
            let (partition, object) = (self.partition(&grant.partition)?, grant.object);
            match blocking(move || partition.open_object(object)).await {
                Ok(reader) => {
                    self.grants().insert(answer_key(who, path), (version, Arc::clone(&grant)));
                    return Ok(self.read_file(who, grant, reader, door));
                }
                Err(failure) if failure.kind == ErrorKind::NotFound => last = Some(failure),
                Err(failure) => return Err(failure),
            }
        }
        Err(last.unwrap_or_else(|| Failure::internal(format!("{path} cannot be opened"))))
    }

    /// Opens a file for reading if the head has said lately where it is and nothing has changed since. May wait for the
    /// disk, for nothing else.
    pub fn open_read_now(
        &self,
        who: &Principal,
        path: &FilePath,
        door: &Arc<DoorCounter>,
    ) -> Option<ReadFile> {
        let grant = {
            let mut grants = self.grants();
            let (version, grant) = grants.get(answer_key(who, path).as_str())?;
            (*version == self.head.namespace_version()).then(|| Arc::clone(grant))?
        };
        let reader = self.partitions.get(&grant.partition)?.open_object(grant.object).ok()?;
        self.uses.opened(grant.object);
        Some(self.read_file(who, grant, reader, Arc::clone(door)))
    }

    fn grants(&self) -> MutexGuard<'_, Recent<String, (u64, Arc<ReadObject>)>> {
        self.grants.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read_file(
        &self,
        who: &Principal,
        grant: Arc<ReadObject>,
        reader: Arc<ObjectReader>,
        door: Arc<DoorCounter>,
    ) -> ReadFile {
        let meter =
            Meter { uses: Arc::clone(&self.uses), owner: who.name.clone(), door, out: AtomicU64::new(0) };
        ReadFile { reader, grant, meter }
    }

    /// Opens a file for writing. It becomes the file's content when it is committed, not before.
    pub async fn open_write(
        &self,
        who: &Principal,
        open: OpenWrite,
        door: Arc<DoorCounter>,
    ) -> Result<WriteFile> {
        let path = open.path.clone();
        let (mode, expected_bytes) = (open.mode, open.expected_bytes);
        let (grant, reservation) = self.reserve(who, open).await?;
        let partition = self.partition(&grant.partition)?;
        let WriteGrant { object, base, file, .. } = grant;
        let base = base.map(|base| base.object);
        let withdrawn = Arc::clone(&self.withdrawn);
        let writer = blocking(move || {
            let writer = match base {
                Some(base) => partition.create_object_from(object, base)?,
                None => partition.create_object(object)?,
            };
            withdrawn.refuse(object)?;
            if expected_bytes > 0 {
                writer.preallocate(expected_bytes)?;
            }
            Ok(writer)
        })
        .await?;
        Ok(WriteFile {
            writer: Arc::new(writer),
            file,
            path,
            mode,
            expected: None,
            sent: Mutex::default(),
            reservation: Some(reservation),
            clock: Arc::clone(&self.clock),
            door,
            is_closed: AtomicBool::new(false),
        })
    }

    /// Asks the head in a task of its own: a client that leaves before the answer must not keep what it was granted.
    async fn reserve(&self, who: &Principal, open: OpenWrite) -> Result<(WriteGrant, Reservation)> {
        let (head, tasks, who) = (self.head.clone(), self.tasks.clone(), who.clone());
        let asked = self.tasks.spawn("open for writing", async move {
            let grant = head.call(&who, open).await?;
            let reservation = Reservation::new(&head, &tasks, grant.object);
            Ok((grant, reservation))
        });
        asked.await.map_err(|cause| Failure::internal(format!("an open ended badly: {cause}")))?
    }

    /// Where work runs that outlives its session.
    pub(crate) fn tasks(&self) -> &Shutdown {
        &self.tasks
    }

    /// Checks a capability and opens its object, without asking the head.
    pub async fn open_cap(&self, signed: &str, path: &FilePath, door: Arc<DoorCounter>) -> Result<CapFile> {
        let cap = self.key.verify(signed, (self.clock)())?;
        let partition = self.only_partition()?;
        let object = cap.object;
        match cap.access {
            Access::Read => {
                let reader = blocking(move || partition.open_object(object)).await?;
                if reader.info().file != cap.file || reader.size() != cap.size {
                    return Err(Failure::corrupt(format!("object {object} is not what the capability says")));
                }
                Ok(CapFile::Read(reader, door))
            }
            Access::Write => {
                let withdrawn = Arc::clone(&self.withdrawn);
                let writer = blocking(move || {
                    let writer = partition.create_object(object)?;
                    withdrawn.refuse(object)?;
                    writer.preallocate(cap.size)?;
                    Ok(writer)
                })
                .await?;
                Ok(CapFile::Write(self.cap_writer(writer, &cap, path, door)))
            }
        }
    }

    fn cap_writer(
        &self,
        writer: ObjectWriter,
        cap: &Cap,
        path: &FilePath,
        door: Arc<DoorCounter>,
    ) -> WriteFile {
        WriteFile {
            writer: Arc::new(writer),
            file: cap.file,
            path: path.clone(),
            mode: 0o644,
            expected: Some((cap.size, cap.checksums)),
            sent: Mutex::default(),
            reservation: None,
            clock: Arc::clone(&self.clock),
            door,
            is_closed: AtomicBool::new(false),
        }
    }

    /// A facility on one host has one partition; with several the capability will name it.
    fn only_partition(&self) -> Result<Arc<Partition>> {
        let partition = self.partitions.values().next().cloned();
        partition.ok_or_else(|| Failure::unavailable("no partition is served here"))
    }
}

/// What a capability opens.
pub enum CapFile {
    /// For reading.
    Read(Arc<ObjectReader>, Arc<DoorCounter>),
    /// For writing.
    Write(WriteFile),
}

/// Runs `work` on a thread that may block.
pub async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|cause| Failure::internal(format!("a file thread ended badly: {cause}")))?
}

/// Counts what is read, and puts it on the owner's bill when the file is closed.
struct Meter {
    uses: Arc<Uses>,
    owner: String,
    door: Arc<DoorCounter>,
    out: AtomicU64,
}

impl Meter {
    fn add(&self, bytes: u64) {
        self.out.fetch_add(bytes, Ordering::Relaxed);
        self.door.add_out(bytes);
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        self.uses.read(&self.owner, *self.out.get_mut());
    }
}

/// A file open for reading.
pub struct ReadFile {
    reader: Arc<ObjectReader>,
    /// What the head said about it.
    pub grant: Arc<ReadObject>,
    meter: Meter,
}

impl ReadFile {
    /// Fills `buffer` from `offset`; fewer bytes only at the end of the file. Blocks.
    pub fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let count = self.reader.read_at(buffer, offset)?;
        self.meter.add(count as u64);
        Ok(count)
    }

    /// Fills all of `buffers` from `offset`. Blocks.
    pub fn read_vectored_at(&self, offset: u64, buffers: &mut [IoSliceMut<'_>]) -> Result<()> {
        let bytes: usize = buffers.iter().map(|buffer| buffer.len()).sum();
        self.reader.read_vectored_at(buffers, offset)?;
        self.meter.add(bytes as u64);
        Ok(())
    }

    /// The object.
    pub fn reader(&self) -> &ObjectReader {
        &self.reader
    }

    /// Counts bytes that left without being read.
    pub fn count_sent(&self, bytes: u64) {
        self.meter.add(bytes);
    }
}

/// Gives a reserved object back to the head unless it was committed.
struct Reservation {
    head: Head,
    tasks: Shutdown,
    object: ObjectId,
    is_kept: AtomicBool,
}

impl Reservation {
    fn new(head: &Head, tasks: &Shutdown, object: ObjectId) -> Self {
        Self { head: head.clone(), tasks: tasks.clone(), object, is_kept: AtomicBool::new(false) }
    }

    /// The head has taken it.
    fn keep(&self) {
        self.is_kept.store(true, Ordering::Release);
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let object = self.object;
        if *self.is_kept.get_mut() {
            return;
        }
        if tokio::runtime::Handle::try_current().is_err() {
            // The process is ending; the next start abandons what was being written.
            return;
        }
        let head = self.head.clone();
        self.tasks.spawn("abandon", async move {
            if let Err(failure) = head.call(&Principal::room("door"), AbandonWrite { object }).await {
                warn!(%object, %failure, "reserved object not given back; the next start does it");
            }
        });
    }
}

/// A file open for writing. Dropped without a commit it leaves nothing behind.
pub struct WriteFile {
    writer: Arc<ObjectWriter>,
    file: FileId,
    path: FilePath,
    mode: u32,
    /// What a capability demands.
    expected: Option<(u64, Checksums)>,
    /// What the client says that it has sent.
    sent: Mutex<Option<Expectation>>,
    /// None for objects that somebody else reports to the head.
    reservation: Option<Reservation>,
    clock: Clock,
    door: Arc<DoorCounter>,
    is_closed: AtomicBool,
}

impl WriteFile {
    /// The file.
    pub fn file(&self) -> FileId {
        self.file
    }

    /// Permission bits.
    pub fn mode(&self) -> u32 {
        self.mode
    }

    /// Bytes it has now.
    pub fn size(&self) -> Result<u64> {
        self.writer.size()
    }

    /// Fills `buffer` from `offset`. Blocks.
    pub fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        self.writer.read_at(buffer, offset)
    }

    /// Fills all of `buffers` from `offset`. Blocks.
    pub fn read_vectored_at(&self, offset: u64, buffers: &mut [IoSliceMut<'_>]) -> Result<()> {
        let mut at = offset;
        for buffer in buffers {
            if self.writer.read_at(buffer, at)? < buffer.len() {
                return Err(Failure::invalid(format!("{} was cut while it was read", self.path)));
            }
            at += buffer.len() as u64;
        }
        Ok(())
    }

    /// Writes all of `data` at `offset`. Blocks.
    pub fn write_at(&self, offset: u64, data: &[u8]) -> Result<()> {
        self.writer.write_at(data, offset)?;
        self.door.add_in(data.len() as u64);
        Ok(())
    }

    /// Sets the size. Blocks.
    pub fn truncate(&self, size: u64) -> Result<()> {
        self.writer.truncate(size)
    }

    /// Returns when the bytes are on stable storage. Blocks.
    pub fn sync(&self) -> Result<()> {
        self.writer.sync()
    }

    /// Takes what the client says that it has sent: nothing else is committed.
    pub fn expect(&self, sent: Expectation) {
        *self.sent.lock().unwrap_or_else(PoisonError::into_inner) = Some(sent);
    }

    fn check_sent(&self, info: &ObjectInfo) -> Result<()> {
        let found = Expectation { size: info.size, crc32c: info.checksums.crc32c };
        match *self.sent.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(sent) if sent != found => Err(Failure::corrupt(format!(
                "{}: {} bytes with crc32c {} were sent, {} with {} arrived",
                self.path, sent.size, sent.crc32c, found.size, found.crc32c
            ))
            .hint("nothing was kept: send it again")),
            _ => Ok(()),
        }
    }

    /// Makes what was written the content of the file: durable on disk, then in the catalogue.
    ///
    /// `check` sees the size and sums before the head does, and can refuse.
    pub async fn commit(&self, check: impl FnOnce(&ObjectInfo) -> Result<()>) -> Result<ObjectInfo> {
        if self.is_closed.swap(true, Ordering::AcqRel) {
            return Err(Failure::invalid(format!("{} is closed already", self.path)));
        }
        let (writer, file, path) = (Arc::clone(&self.writer), self.file, self.path.clone());
        let (expected, now) = (self.expected, (self.clock)());
        let info = blocking(move || writer.commit(file, &path, expected, now)).await?;
        self.check_sent(&info)?;
        check(&info)?;
        if let Some(reservation) = &self.reservation {
            let call = CommitWrite { object: info.object, size: info.size, checksums: info.checksums };
            reservation.head.call(&Principal::room("door"), call).await?;
            reservation.keep();
        }
        Ok(info)
    }
}
