//! Looking at a partition object by object: for the comparison with the catalogue, which must be slow and may be interrupted.

use crate::{
    EntryState, Partition,
    io::read_full,
    object::{
        description::Description,
        durable,
        index::{self, Record, Stamp},
        list::{self, Found},
        partition::Shared,
        reader::{ObjectReader, compare},
    },
};
use base::{Checksums, ErrorKind, Failure, FileId, FilePath, ObjectId, Result, Timestamp};
use rustix::{
    fs::{Advice, AtFlags, CWD, Mode, OFlags, fadvise, openat, statat},
    io::Errno,
};
use std::{
    fs, io,
    os::fd::{AsFd, OwnedFd},
    path::Path,
    sync::Arc,
};
use wire::media::object::ObjectInfo;

/// Where objects that nobody knows are put.
const QUARANTINE: &str = "quarantine";
/// The homes of objects, and after them the directory of those that are being written.
pub const PLACES: u32 = 257;
/// What is being written.
const INCOMING: u32 = PLACES - 1;
/// Bytes that are read at once.
const PIECE_BYTES: usize = 1 << 20;

/// The state of an object on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seen {
    /// Nothing.
    Missing,
    /// A live writer has it.
    Writing,
    /// What a write has left that ended with its daemon, or a step that was interrupted; it cannot be read.
    Rest,
    /// Data of the right size with a description. The bytes were not read.
    Whole(Whole),
    /// Its description was written by a newer release, so this one cannot tell whether it fits.
    Newer(Failure),
    /// It does not fit its description, or has none.
    Damaged {
        /// Bytes of its data, if the disk says so.
        size: Option<u64>,
        /// The fault.
        failure: Failure,
    },
}

/// An object with an intact description.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Whole {
    /// The file.
    pub file: FileId,
    /// Bytes.
    pub size: u64,
    /// Of these bytes.
    pub checksums: Checksums,
    /// Where the file was when it was made, if its description was read.
    pub path: Option<FilePath>,
    /// Somebody has changed its data since it was last seen whole, although not its size.
    touched: Option<Stamp>,
}

impl Whole {
    /// Whether its data were changed since it was last seen whole: nobody may do that.
    #[must_use]
    pub fn is_touched(&self) -> bool {
        self.touched.is_some()
    }
}

impl From<ObjectInfo> for Whole {
    fn from(ObjectInfo { file, size, checksums, path, .. }: ObjectInfo) -> Self {
        Self { file, size, checksums, path: Some(path), touched: None }
    }
}

/// A look that has begun.
#[derive(Debug)]
pub enum Begun {
    /// Nobody has changed it since it was last seen whole.
    Known(Whole),
    /// The disk was asked for its description.
    Asked(Asked),
}

/// An object whose description the disk was asked for.
#[derive(Debug)]
pub struct Asked {
    object: ObjectId,
    /// What it was like before that, if that is to be noted.
    stamp: Option<Stamp>,
    is_touched: bool,
    objects: Result<Arc<OwnedFd>, Errno>,
    opened: Result<Description, Errno>,
}

/// Looks at objects of a partition in the order of their numbers. What was seen whole, by whoever looked or wrote it, is not read
/// again as long as nobody has changed it.
#[derive(Debug)]
pub struct ObjectScanner {
    partition: Partition,
    /// Objects that are there, in order.
    listed: Arc<[ObjectId]>,
    /// All descriptions are read, whatever was noted.
    reads_all: bool,
    /// What was read of the index.
    known: Option<(u64, Vec<Record>)>,
}

impl ObjectScanner {
    /// One that looks at objects of which those that were there a while ago are `listed`, in order; with `reads_all` it reads all
    /// descriptions.
    #[must_use]
    pub fn new(partition: &Partition, listed: Arc<[ObjectId]>, reads_all: bool) -> Self {
        Self { partition: partition.clone(), listed, reads_all, known: None }
    }

    /// Looks at some objects, and asks the disk for the descriptions that have to be read, but waits for none of them. Each of
    /// these holds a file open until it is finished.
    pub fn begin(&mut self, some: &[ObjectId]) -> Vec<Begun> {
        // Names are short from there.
        let objects = self.partition.shared.open_objects().map(Arc::new);
        some.iter().map(|object| self.begin_one(&objects, *object)).collect()
    }

    fn begin_one(&mut self, objects: &Result<Arc<OwnedFd>, Errno>, object: ObjectId) -> Begun {
        let stamp = objects.as_ref().ok().and_then(|objects| Stamp::look(objects.as_fd(), object).ok());
        let record = self.record(object);
        let (stamp, is_touched) = match (stamp, record) {
            (Some(stamp), Some(record)) if record.stamp == stamp && !self.reads_all => {
                let Record { file, checksums, .. } = record;
                return Begun::Known(Whole { file, size: stamp.size, checksums, path: None, touched: None });
            }
            (Some(stamp), Some(record)) => {
                let is_new = record.stamp != stamp;
                (Some(stamp).filter(|_| is_new), record.stamp.is_touched(&stamp))
            }
            (stamp, _) => (stamp, false),
        };
        Begun::Asked(Asked { is_touched, ..Asked::new(objects, object, stamp) })
    }

    fn record(&mut self, object: ObjectId) -> Option<Record> {
        let range = index::range_of(object);
        if self.known.as_ref().is_none_or(|(known, _)| *known != range) {
            let is_here = |object: ObjectId| self.listed.binary_search(&object).is_ok();
            let records = self.partition.shared.index.read(range, is_here);
            self.known = Some((range, records));
        }
        let (_, records) = self.known.as_ref()?;
        let at = records.binary_search_by_key(&object, |record| record.object).ok()?;
        records.get(at).copied()
    }
}

impl Partition {
    /// Objects that something lies of in a place (`0..PLACES`) after `after`, in order. Eight bytes for each.
    pub fn objects_in(&self, place: u32, after: ObjectId) -> Result<Vec<ObjectId>> {
        let shared = &self.shared;
        let directory =
            if place == INCOMING { shared.incoming() } else { shared.home(ObjectId(place.into())) };
        let names = self.in_place(|| list::names(&directory))?;
        // What lies in the wrong directory is never found when it is wanted.
        let is_at_home = |object: &ObjectId| place == INCOMING || object.0 & 0xff == u64::from(place);
        let objects = names.iter().map(|(object, _)| *object);
        let mut objects: Vec<_> = objects.filter(|object| *object > after && is_at_home(object)).collect();
        objects.dedup();
        Ok(objects)
    }

    /// Looks at one object, and reads its description.
    pub fn look(&self, object: ObjectId) -> Seen {
        let objects = self.shared.open_objects().map(Arc::new);
        self.finish_asked(Asked::new(&objects, object, None))
    }

    /// What is seen of an object to which a look has begun. What is whole is noted.
    pub fn finish_look(&self, begun: Begun) -> Seen {
        let asked = match begun {
            Begun::Known(whole) => return Seen::Whole(whole),
            Begun::Asked(asked) => asked,
        };
        let Asked { object, stamp, is_touched, .. } = asked;
        match (self.finish_asked(asked), stamp) {
            // First its bytes are to be read.
            (Seen::Whole(whole), Some(stamp)) if is_touched => {
                Seen::Whole(Whole { touched: Some(stamp), ..whole })
            }
            (Seen::Whole(whole), Some(stamp)) => {
                self.note_whole(object, &whole, stamp);
                Seen::Whole(whole)
            }
            (seen, _) => seen,
        }
    }

    /// Notes that the data of a touched object are what they should be.
    pub fn note_read(&self, object: ObjectId, whole: &Whole) {
        if let Some(stamp) = whole.touched {
            self.note_whole(object, whole, stamp);
        }
    }

    fn note_whole(&self, object: ObjectId, whole: &Whole, stamp: Stamp) {
        // It may have been written again since: then it is looked at again.
        if stamp.size == whole.size {
            let Whole { file, checksums, .. } = *whole;
            self.shared.index.note(&Record { object, file, checksums, stamp });
        }
    }

    /// Forgets what was known of objects that are not there any more, of all but those that may be new. `listed` is in order.
    pub fn tidy_index(&self, listed: &[ObjectId]) {
        let Some(last) = listed.last() else { return };
        let is_any_here = |range| {
            let at = listed.partition_point(|object| index::range_of(*object) < range);
            listed.get(at).is_some_and(|object| index::range_of(*object) == range)
        };
        self.shared.index.forget_before(index::range_of(*last), is_any_here);
    }

    fn finish_asked(&self, asked: Asked) -> Seen {
        let Asked { object, objects, opened, .. } = asked;
        let shared = &self.shared;
        if shared.is_writing(object) {
            return Seen::Writing;
        }
        let name = format!("{:02x}/{object}", object.0 & 0xff);
        let data = match objects.and_then(|objects| statat(objects, name, AtFlags::empty())) {
            Ok(data) => Some(data.st_size.unsigned_abs()),
            Err(Errno::NOENT) => None,
            Err(cause) => {
                return Seen::Damaged {
                    size: None,
                    failure: shared.failed("look at", object, &cause.into()),
                };
            }
        };
        if data.is_none() {
            let is_rest = shared.description(object).exists()
                || shared.incoming_data(object).exists()
                || shared.incoming_description(object).exists();
            return if is_rest { Seen::Rest } else { Seen::Missing };
        }
        let found = Found { data, is_described: !matches!(opened, Err(Errno::NOENT)) };
        // It may have been described since.
        let description = || if found.is_described { opened } else { Description::open(shared, object) };
        match list::state(shared, object, found, shared.home(object), description) {
            None => Seen::Missing,
            Some(EntryState::Complete(info)) => Seen::Whole(info.into()),
            Some(EntryState::Writing) => Seen::Writing,
            Some(EntryState::Damaged(failure)) if failure.kind == ErrorKind::Unsupported => {
                Seen::Newer(failure)
            }
            Some(EntryState::Damaged(failure)) => Seen::Damaged { size: data, failure },
            Some(EntryState::Unfinished | EntryState::Described | EntryState::Foreign) => Seen::Rest,
        }
    }

    /// Reads every byte of an object from the medium and compares it with its description. `paced` is told how many bytes were
    /// read and says whether to go on; `None`: it said no.
    pub fn scrub(&self, object: ObjectId, mut paced: impl FnMut(u64) -> bool) -> Result<Option<ObjectInfo>> {
        let reader = ObjectReader::open(&self.shared, object)?;
        // What the page cache answers proves nothing about the disk. Advice only: errors do not matter.
        let forget = || {
            let _ = fadvise(reader.file(), 0, None, Advice::DontNeed);
        };
        forget();
        let mut buffer = vec![0; PIECE_BYTES];
        let (mut size, mut sums) = (0, Checksums::EMPTY);
        loop {
            let count = read_full(reader.file(), &mut buffer, size)
                .map_err(|cause| self.shared.failed("verify", object, &cause))?;
            if count == 0 {
                break;
            }
            sums = sums.extend(&buffer[..count]);
            size += count as u64;
            if !paced(count as u64) {
                return Ok(None);
            }
        }
        forget();
        let info = reader.info();
        compare(object, self.shared.name(), (info.size, info.checksums), (size, sums))?;
        Ok(Some(info.clone()))
    }

    /// When anything of an object was last changed; `None` if there is nothing.
    pub fn changed(&self, object: ObjectId) -> Option<Timestamp> {
        let times = self
            .shared
            .traces(object)
            .into_iter()
            .filter_map(|(path, _)| fs::metadata(path).ok()?.modified().ok());
        times.max().map(Timestamp::from_system)
    }

    /// Moves everything there is of an object out of the way, where nobody reads or deletes it. Fails with
    /// [`ErrorKind::Busy`] while it is being written, and with [`ErrorKind::Exists`] if another was put there.
    pub fn set_aside(&self, object: ObjectId) -> Result<()> {
        let _claim = self.shared.begin_writing(object)?;
        self.in_place(|| self.set_aside_claimed(object))
    }

    fn set_aside_claimed(&self, object: ObjectId) -> Result<()> {
        let quarantine = self.shared.directory.join(QUARANTINE);
        let failed = |cause: io::Error| self.shared.failed("set aside", object, &cause);
        durable::make_directory(&quarantine).map_err(failed)?;
        // Data before its description: what is left of an interrupted step holds no bytes.
        for (from, name) in self.shared.traces(object) {
            let to = quarantine.join(&name);
            let size = match fs::metadata(&from) {
                Ok(found) => found.len(),
                Err(cause) if cause.kind() == io::ErrorKind::NotFound => continue,
                Err(cause) => return Err(failed(cause)),
            };
            if to.exists() {
                return Err(Failure::exists(format!("{} exists", base::tail(&to)))
                    .hint("find out what it is, and move it away"));
            }
            durable::rename(&from, &to).map_err(failed)?;
            if from == self.shared.data(object) {
                self.shared.account.release(size);
            }
        }
        self.forget_reader(object);
        for directory in [self.shared.home(object), self.shared.incoming(), quarantine] {
            sync_if_there(&directory).map_err(failed)?;
        }
        Ok(())
    }
}

impl Shared {
    fn open_objects(&self) -> Result<OwnedFd, Errno> {
        openat(CWD, self.objects(), OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
    }
}

impl Asked {
    /// Asks the disk for the description of an object that lies below `objects`.
    fn new(objects: &Result<Arc<OwnedFd>, Errno>, object: ObjectId, stamp: Option<Stamp>) -> Self {
        let opened = match objects {
            Ok(objects) => Description::open_below(objects.as_fd(), object),
            Err(cause) => Err(*cause),
        };
        Self { object, stamp, is_touched: false, objects: objects.clone(), opened }
    }
}

fn sync_if_there(directory: &Path) -> io::Result<()> {
    match durable::sync_directory(directory) {
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(()),
        synced => synced,
    }
}

/// Whether a failure says that the bytes are not what they were, and not that somebody is in the way.
#[must_use]
pub fn is_damage(failure: &Failure) -> bool {
    matches!(failure.kind, ErrorKind::Corrupt | ErrorKind::Io)
}

#[cfg(test)]
#[path = "scanner_tests.rs"]
mod tests;
