//! A partition: a directory with an identity, held by one daemon at a time.

use crate::{
    OBJECT_BYTES_MAX,
    io::map,
    object::{
        durable,
        index::Index,
        list::{self, Entry},
        reader::ObjectReader,
        space::{Account, FULL_HINT, Limits, Space},
        writer::ObjectWriter,
    },
};
use base::{ErrorKind, Failure, ObjectId, Result, TwoGenerationCache};
use rustix::{
    fs::{FlockOperation, flock},
    io::Errno,
    process::{Resource, getrlimit},
};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, HashMap},
    fs::{self, File},
    io::{self, Read},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};
use tracing::warn;
use wire::media::object::ObjectInfo;

/// Version of the identity file that is written.
const VERSION: u32 = 1;
const IDENTITY: &str = "partition.json";
const IDENTITY_NEW: &str = "partition.json.new";
const OBJECTS: &str = "objects";
const INCOMING: &str = "incoming";
/// An identity is far smaller; a longer file is not one.
const IDENTITY_BYTES_MAX: u64 = 64 << 10;
/// Half of the readers that are kept open: what an analysis of a thousand files goes over again and again.
const READERS_KEPT_MAX: usize = 1024;
/// Of the files that this process may have open, half of the kept readers may be this part.
const READERS_SHARE: u64 = 8;
/// Longest name of a partition in bytes.
const NAME_BYTES_MAX: usize = 64;

/// Who a directory belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Identity {
    /// Version of this document.
    pub version: u32,
    /// The facility.
    pub facility: String,
    /// The partition's name in the facility.
    pub partition: String,
    /// Made at creation, 32 hex digits: tells a partition from a new one of the same name.
    pub uuid: String,
}

/// A partition that this process holds. Cheap to clone; released when the last clone and the last writer are gone.
#[derive(Debug, Clone)]
pub struct Partition {
    pub(crate) shared: Arc<Shared>,
    readers: Arc<Readers>,
}

/// Readers that were used lately: objects never change, so that all sessions can share them. A short lock.
type Readers = Mutex<TwoGenerationCache<ObjectId, Arc<ObjectReader>>>;

/// Half of the readers that are kept open by this process.
fn readers_kept() -> usize {
    let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    usize::try_from(files / READERS_SHARE).unwrap_or(usize::MAX).clamp(1, READERS_KEPT_MAX)
}

/// What all users of a partition share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) directory: PathBuf,
    pub(crate) identity: Identity,
    pub(crate) account: Account,
    /// What was seen whole.
    pub(crate) index: Index,
    /// Objects with a live writer, and the bytes of the free space that each has taken. A short lock, never held during I/O.
    writing: Mutex<HashMap<ObjectId, Arc<AtomicU64>>>,
    /// Objects are read and written past the page cache.
    is_direct: AtomicBool,
    _lock: Lock,
}

/// The lock of a partition.
///
/// Given back by name, not by closing the file: a process that another thread is just starting has a copy of every
/// open file for a moment, and the lock would live as long as that.
#[derive(Debug)]
struct Lock(File);

impl Drop for Lock {
    fn drop(&mut self) {
        // If this fails the lock goes with the file.
        let _ = flock(&self.0, FlockOperation::Unlock);
    }
}

impl Partition {
    /// Makes an empty directory, or a missing one whose parent exists, into a partition and opens it.
    pub fn create(directory: &Path, facility: &str, name: &str) -> Result<Self> {
        check_name(name)?;
        let context =
            |cause: &io::Error| Failure::io(format!("create partition in {}", directory.display()), cause);
        durable::make_directory(directory).map_err(|cause| context(&cause))?;
        check_empty(directory)?;
        let identity = Identity {
            version: VERSION,
            facility: facility.to_owned(),
            partition: name.to_owned(),
            uuid: new_uuid()?,
        };
        initialise(directory, &identity).map_err(|cause| context(&cause))?;
        Self::open(directory, facility)
    }

    /// Opens the partition in `directory` with the whole file system at its disposal.
    pub fn open(directory: &Path, facility: &str) -> Result<Self> {
        Self::open_limited(directory, facility, Limits::default())
    }

    /// Opens the partition in `directory` within `limits`; never initialises anything.
    ///
    /// With a share, the sizes of all objects are summed first.
    pub fn open_limited(directory: &Path, facility: &str, limits: Limits) -> Result<Self> {
        let (identity, file) = read_identity(directory)?;
        if identity.facility != facility {
            return Err(Failure::permission(format!(
                "{} is partition {} of facility {}, not of {facility}",
                directory.display(),
                identity.partition,
                identity.facility
            ))
            .hint("mount the right disk, or remove this directory from the configuration"));
        }
        let lock = take_lock(file, directory)?;
        for name in [OBJECTS, INCOMING] {
            if !directory.join(name).is_dir() {
                return Err(Failure::corrupt(format!(
                    "partition {} has no directory {name}",
                    directory.display()
                ))
                .hint("restore it from a backup, or check the file system"));
            }
        }
        let used = match limits.share_bytes {
            Some(_) => list::used_bytes(directory)?,
            None => 0,
        };
        Ok(Self {
            shared: Arc::new(Shared {
                account: Account::new(directory, limits, used),
                index: Index::new(directory),
                directory: directory.to_owned(),
                identity,
                writing: Mutex::default(),
                is_direct: AtomicBool::new(false),
                _lock: lock,
            }),
            readers: Arc::new(Mutex::new(TwoGenerationCache::new(readers_kept()))),
        })
    }

    /// Reads and writes objects that are opened from now on past the page cache, where the file system can: each byte
    /// then costs the same however many streams there are, and what is read once does not push out what is hot.
    pub fn set_direct(&self, is_direct: bool) {
        self.shared.is_direct.store(is_direct, Ordering::Relaxed);
    }

    /// Who this directory belongs to.
    #[must_use]
    pub fn identity(&self) -> &Identity {
        &self.shared.identity
    }

    /// Where it is.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.shared.directory
    }

    /// Refuses a directory that is not this partition any more: its file system is gone, and what lay there is not lost.
    pub fn check_in_place(&self) -> Result<()> {
        match read_identity(&self.shared.directory) {
            Ok((identity, _)) if identity == self.shared.identity => Ok(()),
            other => {
                let (name, directory) = (self.shared.name(), base::tail(&self.shared.directory));
                let cause = other
                    .map_or_else(|failure| failure.what, |_| "another partition is mounted there".into());
                let what = format!("partition {name} is no longer in {directory}: {cause}");
                Err(Failure::unavailable(what).hint("is its file system mounted?"))
            }
        }
    }

    /// Looks before and after `work` whether this partition is in its place: what is not seen may lie on a file system that is not
    /// mounted at one end of it.
    pub(crate) fn in_place<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        self.check_in_place()?;
        let done = work()?;
        self.check_in_place().map(|()| done)
    }

    /// Room that is left.
    pub fn space(&self) -> Result<Space> {
        self.shared.account.space()
    }

    /// Objects that are being made, and the bytes of the free space that each has taken so far.
    #[must_use]
    pub fn claimed(&self) -> Vec<(ObjectId, u64)> {
        let writing = self.shared.writing();
        let taken = writing.iter().map(|(object, taken)| (*object, taken.load(Ordering::Relaxed)));
        taken.filter(|(_, bytes)| *bytes > 0).collect()
    }

    /// Begins a new object. Bytes that an earlier daemon left of it are thrown away.
    ///
    /// Fails with [`ErrorKind::Exists`] if it is complete and with [`ErrorKind::Busy`] if it is being written.
    pub fn create_object(&self, object: ObjectId) -> Result<ObjectWriter> {
        ObjectWriter::new(&self.shared, object)
    }

    /// Gives a new object the content of `base`, sharing its blocks where the file system can.
    pub fn copy_into(&self, writer: &ObjectWriter, base: ObjectId) -> Result<()> {
        writer.take_content(self.open_object(base)?)
    }

    /// Opens a committed object, or yields it as somebody else has opened it.
    pub fn open_object(&self, object: ObjectId) -> Result<Arc<ObjectReader>> {
        let kept = self.readers().get(&object).map(Arc::clone);
        // One that somebody has cut since is opened again, which says so.
        if let Some(reader) = kept.filter(|reader| reader.is_whole()) {
            return Ok(reader);
        }
        let reader = Arc::new(ObjectReader::open(&self.shared, object)?);
        if map::is_crowded() {
            // Those in use stay; the others are opened again when somebody wants them.
            let idle = std::mem::replace(&mut *self.readers(), TwoGenerationCache::new(readers_kept()));
            drop(idle);
        }
        self.readers().insert(object, Arc::clone(&reader));
        // One that was removed in this moment must not be found again.
        if !self.shared.data(object).exists() {
            self.readers().remove(&object);
        }
        Ok(reader)
    }

    /// Forgets the reader that is kept open of an object.
    pub(crate) fn forget_reader(&self, object: ObjectId) {
        self.readers().remove(&object);
    }

    fn readers(&self) -> MutexGuard<'_, TwoGenerationCache<ObjectId, Arc<ObjectReader>>> {
        self.readers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads a whole object from the medium and compares it with its description.
    ///
    /// [`ErrorKind::Corrupt`] names the object, the expected and the found sums.
    pub fn verify(&self, object: ObjectId) -> Result<ObjectInfo> {
        let reader = ObjectReader::open(&self.shared, object)?;
        reader.verify()?;
        Ok(reader.info().clone())
    }

    /// Deletes an object and what an earlier daemon left of it; fine if it is not there.
    ///
    /// The data goes first: a crash in between leaves a description without data, which holds no bytes and can be told from
    /// damage. The other order would leave bytes that nobody can identify. Fails with [`ErrorKind::Busy`] while the
    /// object is being written; open readers keep their bytes.
    pub fn remove(&self, object: ObjectId) -> Result<()> {
        let _claim = self.shared.begin_writing(object)?;
        self.in_place(|| {
            let deleted = self.shared.delete(object);
            self.readers().remove(&object);
            deleted.map_err(|cause| {
                Failure::io(format!("remove object {object} from {}", self.shared.name()), &cause)
            })
        })
    }

    /// Deletes many objects as [`Partition::remove`] does one, and syncs each directory only once. Those that could not
    /// be deleted, because they are being written or the disk refuses, are not in the answer.
    ///
    /// Directories are taken in hand by several threads: file systems commit together what waits together, and on a busy host
    /// one thread alone would fall behind the many that write.
    pub fn remove_all(&self, objects: &[ObjectId]) -> Vec<ObjectId> {
        let mut homes: BTreeMap<PathBuf, Vec<ObjectId>> = BTreeMap::new();
        for object in objects {
            homes.entry(self.shared.home(*object)).or_default().push(*object);
        }
        let homes: Vec<_> = homes.into_iter().collect();
        self.in_place(|| Ok(self.remove_at(&homes))).unwrap_or_default()
    }

    fn remove_at(&self, homes: &[(PathBuf, Vec<ObjectId>)]) -> Vec<ObjectId> {
        let share = homes.len().div_ceil(REMOVERS).max(1);
        std::thread::scope(|scope| {
            let removers = homes.chunks(share).map(|some| {
                let remove = |(home, objects): &(PathBuf, Vec<ObjectId>)| self.remove_in(home, objects);
                scope.spawn(move || some.iter().flat_map(remove).collect::<Vec<_>>())
            });
            let removers: Vec<_> = removers.collect();
            // Of what a thread did that panicked nobody knows.
            removers.into_iter().flat_map(|remover| remover.join().unwrap_or_default()).collect()
        })
    }

    /// Deletes objects of one directory.
    fn remove_in(&self, home: &Path, objects: &[ObjectId]) -> Vec<ObjectId> {
        let (mut claims, mut gone) = (Vec::with_capacity(objects.len()), Vec::with_capacity(objects.len()));
        let mut is_synced = true;
        for object in objects {
            let Ok(claim) = self.shared.begin_writing(*object) else { continue };
            let deleted = self.shared.unlink(*object);
            self.readers().remove(object);
            match deleted {
                Ok(had_any) => {
                    is_synced &= !had_any;
                    gone.push(*object);
                }
                Err(cause) => {
                    warn!(%object, %cause, partition = self.shared.name(), "cannot delete an object");
                }
            }
            claims.push(claim);
        }
        if !is_synced && let Err(cause) = durable::sync_directory(home) {
            warn!(directory = %home.display(), %cause, "cannot sync a directory; deletions are not durable yet");
            gone.clear();
        }
        gone
    }

    /// Whether a committed object is here, by its name alone.
    pub fn holds(&self, object: ObjectId) -> bool {
        self.shared.data(object).exists()
    }

    /// Everything that lies on the partition, with what is wrong with it; nothing is read but descriptions.
    pub fn list(&self) -> impl Iterator<Item = Result<Entry>> + use<> {
        list::entries(Arc::clone(&self.shared))
    }

    /// The objects that are here and complete by their names, ascending.
    ///
    /// Fails with [`ErrorKind::Unavailable`] if the file system is gone: then nobody knows what lies there.
    pub fn objects(&self) -> Result<Vec<ObjectId>> {
        self.in_place(|| list::objects(&self.shared))
    }
}

/// Threads that delete many objects.
const REMOVERS: usize = 16;

impl Shared {
    pub(crate) fn incoming(&self) -> PathBuf {
        self.directory.join(INCOMING)
    }

    pub(crate) fn incoming_data(&self, object: ObjectId) -> PathBuf {
        self.incoming().join(object.to_string())
    }

    pub(crate) fn incoming_description(&self, object: ObjectId) -> PathBuf {
        self.incoming().join(format!("{object}.json"))
    }

    /// Where all homes are.
    pub(crate) fn objects(&self) -> PathBuf {
        self.directory.join(OBJECTS)
    }

    /// The directory of an object: 256 of them keep each small.
    pub(crate) fn home(&self, object: ObjectId) -> PathBuf {
        self.objects().join(format!("{:02x}", object.0 & 0xff))
    }

    pub(crate) fn data(&self, object: ObjectId) -> PathBuf {
        self.home(object).join(object.to_string())
    }

    pub(crate) fn description(&self, object: ObjectId) -> PathBuf {
        self.home(object).join(format!("{object}.json"))
    }

    /// Where anything of an object may lie, and a name for it elsewhere; data first.
    pub(crate) fn traces(&self, object: ObjectId) -> [(PathBuf, String); 4] {
        [
            (self.data(object), object.to_string()),
            (self.description(object), format!("{object}.json")),
            (self.incoming_data(object), format!("{object}.part")),
            (self.incoming_description(object), format!("{object}.part.json")),
        ]
    }

    /// The partition's name, for messages.
    pub(crate) fn name(&self) -> &str {
        &self.identity.partition
    }

    fn writing(&self) -> MutexGuard<'_, HashMap<ObjectId, Arc<AtomicU64>>> {
        // A map of numbers is sound after any panic.
        self.writing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_direct(&self) -> bool {
        self.is_direct.load(Ordering::Relaxed)
    }

    pub(crate) fn is_writing(&self, object: ObjectId) -> bool {
        self.writing().contains_key(&object)
    }

    /// Keeps everybody else from writing or removing `object` until the claim is dropped.
    pub(crate) fn begin_writing(self: &Arc<Self>, object: ObjectId) -> Result<WriteClaim> {
        let taken = Arc::default();
        let mut writing = self.writing();
        if writing.contains_key(&object) {
            return Err(Failure::busy(format!("object {object} on {} is being written", self.name())));
        }
        writing.insert(object, Arc::clone(&taken));
        drop(writing);
        Ok(WriteClaim { shared: Arc::clone(self), object, taken })
    }

    /// Deletes every trace of `object`, data before description.
    pub(crate) fn delete(&self, object: ObjectId) -> io::Result<()> {
        if self.unlink(object)? {
            durable::sync_directory(&self.home(object))?;
        }
        Ok(())
    }

    /// The same, but for the sync of its directory; tells whether that is needed.
    fn unlink(&self, object: ObjectId) -> io::Result<bool> {
        let size = fs::metadata(self.data(object)).map_or(0, |data| data.len());
        let had_data = durable::unlink(&self.data(object))?;
        if had_data {
            self.account.release(size);
        }
        let was_described = durable::unlink(&self.description(object))?;
        self.delete_incoming(object)?;
        Ok(had_data || was_described)
    }

    /// Deletes what was being written. Not synced: if it comes back after a power cut it is a leftover as before.
    pub(crate) fn delete_incoming(&self, object: ObjectId) -> io::Result<()> {
        durable::unlink(&self.incoming_data(object))?;
        durable::unlink(&self.incoming_description(object))?;
        Ok(())
    }

    /// An I/O failure while doing `what` with `object`, with the next step where there is one.
    pub(crate) fn failed(&self, what: &str, object: ObjectId, cause: &io::Error) -> Failure {
        let failure = Failure::io(format!("{what} object {object} on {}", self.name()), cause);
        match failure.kind {
            ErrorKind::NoSpace => failure.hint(FULL_HINT),
            ErrorKind::Io => failure.hint("the disk may be failing: look at the kernel log"),
            _ => failure,
        }
    }
}

/// The right to write or remove one object.
#[derive(Debug)]
pub(crate) struct WriteClaim {
    shared: Arc<Shared>,
    object: ObjectId,
    /// Bytes that are missing in what the partition calls free, because of this object.
    taken: Arc<AtomicU64>,
}

impl WriteClaim {
    /// The object has so many bytes on the file system, or of its share, if that is more than before.
    pub(crate) fn takes(&self, bytes: u64) {
        self.taken.fetch_max(bytes, Ordering::Relaxed);
    }

    /// Some of it was given back.
    pub(crate) fn keeps(&self, bytes: u64) {
        self.taken.store(bytes, Ordering::Relaxed);
    }
}

impl Drop for WriteClaim {
    fn drop(&mut self) {
        self.shared.writing().remove(&self.object);
    }
}

/// Refuses an end of file that no object may have.
pub(crate) fn check_end(object: ObjectId, offset: u64, length: u64) -> Result<u64> {
    offset.checked_add(length).filter(|end| *end <= OBJECT_BYTES_MAX).ok_or_else(|| {
        Failure::invalid(format!(
            "{length} bytes at {offset} of object {object} reach beyond {OBJECT_BYTES_MAX} bytes"
        ))
    })
}

fn check_name(name: &str) -> Result<()> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if (1..=NAME_BYTES_MAX).contains(&name.len()) && name.chars().all(is_plain) {
        return Ok(());
    }
    Err(Failure::invalid(format!(
        "partition name {name:?} is not 1 to {NAME_BYTES_MAX} of A-Z a-z 0-9 . _ -"
    )))
}

/// Accepts an empty file system and what an interrupted `create` left; refuses everything else.
fn check_empty(directory: &Path) -> Result<()> {
    let entries = |of: &Path| -> Result<Vec<String>> {
        let failed = |cause: io::Error| Failure::io(format!("list {}", of.display()), &cause);
        fs::read_dir(of)
            .map_err(failed)?
            .map(|entry| Ok(entry.map_err(failed)?.file_name().to_string_lossy().into_owned()))
            .collect()
    };
    for name in entries(directory)? {
        let is_fresh = match name.as_str() {
            "lost+found" | IDENTITY_NEW => true,
            OBJECTS | INCOMING => entries(&directory.join(&name))?.is_empty(),
            _ => false,
        };
        if !is_fresh {
            return Err(Failure::exists(format!("{} is not empty: it holds {name}", directory.display()))
                .hint("name an empty directory, or open the partition that is there"));
        }
    }
    Ok(())
}

/// Writes the identity last: a directory without it is not a partition yet.
fn initialise(directory: &Path, identity: &Identity) -> io::Result<()> {
    durable::make_directory(&directory.join(OBJECTS))?;
    durable::make_directory(&directory.join(INCOMING))?;
    let mut text = serde_json::to_vec_pretty(identity)?;
    text.push(b'\n');
    let new = directory.join(IDENTITY_NEW);
    durable::write_synced(&new, &text)?;
    durable::rename(&new, &directory.join(IDENTITY))?;
    durable::sync_directory(directory)
}

fn new_uuid() -> Result<String> {
    let mut bytes = [0u8; 16];
    getrandom::fill(&mut bytes)
        .map_err(|cause| Failure::internal(format!("no random bytes for a partition id: {cause}")))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn read_identity(directory: &Path) -> Result<(Identity, File)> {
    let path = directory.join(IDENTITY);
    let failed = |cause: io::Error| {
        Failure::io(format!("open partition {}: read {IDENTITY}", base::tail(directory)), &cause).hint(
            "is the file system mounted? a new partition is made by its own command, never by opening it",
        )
    };
    let file = File::open(&path).map_err(failed)?;
    let mut text = Vec::new();
    (&file).take(IDENTITY_BYTES_MAX).read_to_end(&mut text).map_err(failed)?;
    Ok((parse_identity(&text, &path)?, file))
}

fn parse_identity(text: &[u8], path: &Path) -> Result<Identity> {
    let identity: Identity = serde_json::from_slice(text)
        .map_err(|cause| Failure::corrupt(format!("{} is damaged: {cause}", base::tail(path))))?;
    if identity.version != VERSION {
        return Err(Failure::unsupported(format!(
            "{} has version {}, this release reads {VERSION}",
            base::tail(path),
            identity.version
        )));
    }
    Ok(identity)
}

fn take_lock(file: File, directory: &Path) -> Result<Lock> {
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Lock(file)),
        Err(Errno::WOULDBLOCK) => {
            Err(Failure::busy(format!("partition {} is served by another process", directory.display()))
                .hint("stop the other daemon first"))
        }
        Err(cause) => Err(Failure::io(format!("lock partition {}", directory.display()), &cause.into())),
    }
}

/// Fuzz body: damaged identities are refused, never a panic.
pub fn fuzz_identity(data: &[u8]) {
    let _ = parse_identity(data, Path::new(IDENTITY));
}
