//! A partition: a directory with an identity, held by one daemon at a time.

mod claims;
mod identity;
mod names;
mod removal;

use crate::{
    OBJECT_BYTES_MAX,
    io::map,
    object::{
        durable,
        index::Index,
        list::{self, Entry},
        live::LiveObjects,
        reader::ObjectReader,
        space::{Account, FULL_HINT, Limits, Space},
        writer::ObjectWriter,
    },
};
use base::{ErrorKind, Failure, ObjectId, Result, TwoGenerationCache};
pub(crate) use claims::WriteClaim;
use claims::{Lock, take_lock};
pub use identity::{Identity, fuzz_identity};
use identity::{check_empty, check_name, initialise, new_uuid, read_identity, sync_names};
use rustix::process::{Resource, getrlimit};
use std::{
    collections::HashMap,
    io,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};
use wire::media::object::ObjectInfo;

/// Version of the identity file that is written.
const VERSION: u32 = 1;
const OBJECTS: &str = "objects";
const INCOMING: &str = "incoming";
const LIVE: &str = "live";
/// Half of the readers that are kept open: what an analysis of a thousand files goes over again and again.
const READERS_KEPT_MAX: usize = 1024;
/// Of the files that this process may have open, half of the kept readers may be this part.
const READERS_SHARE: u64 = 8;

/// A partition that this process holds. Cheap to clone; released when the last clone and the last writer are gone.
#[derive(Debug, Clone)]
pub struct Partition {
    pub(crate) shared: Arc<Shared>,
    readers: Arc<Readers>,
}

/// Readers that were used lately: objects never change, so that all sessions can share them. A short lock.
type Readers = TwoGenerationCache<ObjectId, Arc<ObjectReader>>;

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
    /// Objects that change in place and are open.
    pub(crate) live: LiveObjects,
    /// Objects are read and written past the page cache.
    is_direct: AtomicBool,
    _lock: Lock,
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
        sync_names(directory);
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
                live: LiveObjects::default(),
                is_direct: AtomicBool::new(false),
                _lock: lock,
            }),
            readers: Arc::new(TwoGenerationCache::new(readers_kept())),
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
        self.shared.check_in_place()
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
        let kept = self.readers.get(&object);
        // One that somebody has cut since is opened again, which says so.
        if let Some(reader) = kept.filter(|reader| reader.is_whole()) {
            return Ok(reader);
        }
        let reader = Arc::new(ObjectReader::open(&self.shared, object)?);
        if map::is_crowded() {
            // Those in use stay; the others are opened again when somebody wants them.
            self.readers.clear();
        }
        self.readers.insert(object, Arc::clone(&reader));
        // One that was removed in this moment must not be found again.
        if !self.shared.data(object).exists() {
            self.readers.remove(&object);
        }
        Ok(reader)
    }

    /// Reads a whole object from the medium and compares it with its description.
    ///
    /// [`ErrorKind::Corrupt`] names the object, the expected and the found sums.
    pub fn verify(&self, object: ObjectId) -> Result<ObjectInfo> {
        let reader = ObjectReader::open(&self.shared, object)?;
        reader.verify()?;
        Ok(reader.info().clone())
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

impl Shared {
    /// Refuses a directory that is not this partition any more.
    pub(crate) fn check_in_place(&self) -> Result<()> {
        match read_identity(&self.directory) {
            Ok((identity, _)) if identity == self.identity => Ok(()),
            other => {
                let (name, directory) = (self.name(), base::tail(&self.directory));
                let cause = other
                    .map_or_else(|failure| failure.what, |_| "another partition is mounted there".into());
                let what = format!("partition {name} is no longer in {directory}: {cause}");
                Err(Failure::unavailable(what).hint("is its file system mounted?"))
            }
        }
    }

    fn writing(&self) -> MutexGuard<'_, HashMap<ObjectId, Arc<AtomicU64>>> {
        // A map of numbers is sound after any panic.
        self.writing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_direct(&self) -> bool {
        self.is_direct.load(Ordering::Relaxed)
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

/// Refuses an end of file that no object may have.
pub(crate) fn check_end(object: ObjectId, offset: u64, length: u64) -> Result<u64> {
    offset.checked_add(length).filter(|end| *end <= OBJECT_BYTES_MAX).ok_or_else(|| {
        Failure::invalid(format!(
            "{length} bytes at {offset} of object {object} reach beyond {OBJECT_BYTES_MAX} bytes"
        ))
    })
}
