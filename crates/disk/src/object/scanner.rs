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
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;
    use wire::media::object::{Holder, Label};

    fn partition() -> (tempfile::TempDir, Partition) {
        let directory = tempfile::tempdir().unwrap();
        let partition = Partition::create(&directory.path().join("p"), "f-1", "p").unwrap();
        (directory, partition)
    }

    fn write(partition: &Partition, object: u64, content: &[u8]) {
        let writer = partition.create_object(ObjectId(object)).unwrap();
        writer.write_at(content, 0).unwrap();
        let (path, holder) = ("/a".parse().unwrap(), Holder::default());
        let label = Label { file: FileId(1), path, generation: object, holder, piece: None };
        writer.commit(&label, None, Timestamp(1)).unwrap();
    }

    fn all(partition: &Partition) -> Vec<u64> {
        let places = (0..PLACES).flat_map(|place| partition.objects_in(place, ObjectId(0)).unwrap());
        places.map(|object| object.0).collect()
    }

    #[test]
    fn every_object_is_seen_once_as_what_it_is() {
        let (_directory, partition) = partition();
        for object in [1, 2, 3, 0x101] {
            write(&partition, object, b"content");
        }
        let writer = partition.create_object(ObjectId(9)).unwrap();
        assert_eq!(all(&partition), [1, 0x101, 2, 3, 9]);
        assert_eq!(partition.objects_in(1, ObjectId(1)).unwrap(), [ObjectId(0x101)]);
        let shared = &partition.shared;
        // By what is remembered, and by a look at everything.
        let seen = |object| {
            let looked = partition.look(ObjectId(object));
            let without_path = |seen| match seen {
                Seen::Whole(whole) => Seen::Whole(Whole { path: None, ..whole }),
                seen => seen,
            };
            assert_eq!(without_path(walk(&partition, &[object]).remove(0)), without_path(looked.clone()));
            looked
        };
        assert!(matches!(seen(1), Seen::Whole(whole) if whole.size == 7 && whole.path.is_some()));
        assert_eq!((seen(9), seen(77)), (Seen::Writing, Seen::Missing));
        fs::write(shared.data(ObjectId(2)), b"short").unwrap();
        assert!(matches!(seen(2), Seen::Damaged { size: Some(5), .. }));
        fs::remove_file(shared.data(ObjectId(3))).unwrap();
        assert_eq!(seen(3), Seen::Rest);
        fs::remove_file(shared.description(ObjectId(0x101))).unwrap();
        assert!(matches!(seen(0x101), Seen::Damaged { size: Some(7), .. }));
        // What somebody else has put there is none of ours, wherever it lies.
        fs::write(shared.home(ObjectId(1)).join("note"), b"").unwrap();
        fs::write(shared.home(ObjectId(1)).join("4"), b"").unwrap();
        assert_eq!(all(&partition), [1, 0x101, 2, 3, 9]);
        drop(writer);
    }

    fn scanner(partition: &Partition) -> ObjectScanner {
        let mut listed: Vec<_> = all(partition).into_iter().map(ObjectId).collect();
        listed.sort_unstable();
        ObjectScanner::new(partition, listed.into(), false)
    }

    fn walk(partition: &Partition, objects: &[u64]) -> Vec<Seen> {
        let objects: Vec<_> = objects.iter().map(|object| ObjectId(*object)).collect();
        let begun = scanner(partition).begin(&objects);
        begun.into_iter().map(|begun| partition.finish_look(begun)).collect()
    }

    /// Whether it is read again.
    fn is_asked(partition: &Partition, object: u64) -> bool {
        matches!(scanner(partition).begin(&[ObjectId(object)])[0], Begun::Asked(_))
    }

    /// Writes a file again and again until the clock of the file system has moved on.
    fn rewrite(file: &Path, content: &[u8]) {
        let changed = || {
            let data = fs::metadata(file).unwrap();
            (data.ctime(), data.ctime_nsec())
        };
        let before = changed();
        while changed() == before {
            fs::write(file, content).unwrap();
        }
    }

    #[test]
    fn what_nobody_has_changed_is_not_read_again() {
        let (_directory, partition) = partition();
        for object in [1, 2, 0x1_0001] {
            write(&partition, object, b"content");
        }
        assert!(!is_asked(&partition, 1) && !is_asked(&partition, 2) && !is_asked(&partition, 0x1_0001));
        let description = partition.shared.description(ObjectId(1));
        let good = fs::read(&description).unwrap();
        rewrite(&description, b"no description");
        assert!(matches!(&walk(&partition, &[1])[0], Seen::Damaged { .. }));
        rewrite(&description, &good);
        assert!(is_asked(&partition, 1), "it was changed");
        let [Seen::Whole(whole)] = &walk(&partition, &[1])[..] else { panic!("it is whole") };
        assert!(whole.path.is_some() && !whole.is_touched());
        assert!(!is_asked(&partition, 1), "it was seen whole");
        // Whoever has no index reads what is there, and has one then.
        fs::remove_dir_all(partition.directory().join("index")).unwrap();
        let partition = {
            let directory = partition.directory().to_owned();
            drop(partition);
            Partition::open(&directory, "f-1").unwrap()
        };
        assert!(is_asked(&partition, 2));
        walk(&partition, &[1, 2]);
        assert!(!is_asked(&partition, 2) && is_asked(&partition, 0x1_0001));
    }

    #[test]
    fn data_that_somebody_has_changed_stay_touched_until_they_were_read() {
        let (_directory, partition) = partition();
        write(&partition, 1, b"content");
        rewrite(&partition.shared.data(ObjectId(1)), b"CONTENT");
        for _ in 0..2 {
            let [Seen::Whole(whole)] = &walk(&partition, &[1])[..] else { panic!("its size is right") };
            assert!(whole.is_touched());
        }
        assert!(is_damage(&partition.scrub(ObjectId(1), |_| true).unwrap_err()));
        rewrite(&partition.shared.data(ObjectId(1)), b"content");
        let [Seen::Whole(whole)] = &walk(&partition, &[1])[..] else { panic!("its size is right") };
        assert!(whole.is_touched());
        // Who reads all the same does not forget that.
        let mut thorough = ObjectScanner::new(&partition, [ObjectId(1)].into(), true);
        let begun = thorough.begin(&[ObjectId(1)]).remove(0);
        assert!(matches!(partition.finish_look(begun), Seen::Whole(whole) if whole.is_touched()));
        assert!(is_asked(&partition, 1));
        partition.note_read(ObjectId(1), whole);
        assert!(!is_asked(&partition, 1));
        let index = partition.directory().join("index/0");
        let noted = fs::metadata(&index).unwrap().len();
        let begun =
            ObjectScanner::new(&partition, [ObjectId(1)].into(), true).begin(&[ObjectId(1)]).remove(0);
        assert!(matches!(begun, Begun::Asked(_)), "it reads all");
        assert!(matches!(partition.finish_look(begun), Seen::Whole(_)));
        assert_eq!(fs::metadata(&index).unwrap().len(), noted, "that is known already");
    }

    #[test]
    fn what_was_removed_is_forgotten() {
        let (_directory, partition) = partition();
        for object in [1, 0x1_0001, 0x2_0001] {
            write(&partition, object, b"content");
        }
        partition.remove(ObjectId(0x1_0001)).unwrap();
        partition.tidy_index(&[ObjectId(1), ObjectId(0x2_0001)]);
        let files = fs::read_dir(partition.directory().join("index")).unwrap();
        let mut names: Vec<_> = files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
        names.sort_unstable();
        assert_eq!(names, ["0", "2"]);
        partition.tidy_index(&[]);
    }

    #[test]
    fn a_scrub_reads_every_byte_and_can_be_ended() {
        let (_directory, partition) = partition();
        let mut content = vec![7; 3 * PIECE_BYTES + 1];
        write(&partition, 1, &content);
        let mut read = 0;
        let info = partition
            .scrub(ObjectId(1), |bytes| {
                read += bytes;
                true
            })
            .unwrap();
        assert_eq!((info.unwrap().size, read), (content.len() as u64, content.len() as u64));
        assert_eq!(partition.scrub(ObjectId(1), |_| false).unwrap(), None);
        content[2 * PIECE_BYTES] = 8;
        fs::write(partition.shared.data(ObjectId(1)), &content).unwrap();
        let failure = partition.scrub(ObjectId(1), |_| true).unwrap_err();
        assert!(is_damage(&failure), "{failure}");
        assert!(!is_damage(&partition.scrub(ObjectId(2), |_| true).unwrap_err()), "nothing is there");
    }

    #[test]
    fn a_partition_whose_file_system_is_gone_is_not_taken_for_an_empty_one() {
        let (directory, partition) = partition();
        write(&partition, 1, b"content");
        partition.check_in_place().unwrap();
        let elsewhere = directory.path().join("elsewhere");
        fs::rename(partition.directory(), &elsewhere).unwrap();
        fs::create_dir(partition.directory()).unwrap();
        assert_eq!(partition.check_in_place().unwrap_err().kind, ErrorKind::Unavailable);
        assert!(partition.objects().is_err(), "nobody knows what lies there");
        assert!(partition.seen_fence().is_err() && partition.note_fence(1).is_err());
        assert!(fs::read_dir(partition.directory()).unwrap().next().is_none(), "nothing is left there");
        assert!(partition.remove(ObjectId(1)).is_err(), "it is there when the file system is back");
        assert_eq!(partition.remove_all(&[ObjectId(1), ObjectId(2)]), []);
        drop(Partition::create(&directory.path().join("other"), "f-1", "p").unwrap());
        fs::remove_dir(partition.directory()).unwrap();
        fs::rename(directory.path().join("other"), partition.directory()).unwrap();
        assert_eq!(partition.check_in_place().unwrap_err().kind, ErrorKind::Unavailable, "it is another one");
    }

    #[test]
    fn what_is_set_aside_is_kept_and_not_seen_any_more() {
        let (_directory, partition) = partition();
        write(&partition, 1, b"content");
        assert!(partition.changed(ObjectId(1)).unwrap() > Timestamp(1), "it was written just now");
        partition.set_aside(ObjectId(1)).unwrap();
        assert_eq!((all(&partition), partition.look(ObjectId(1))), (vec![], Seen::Missing));
        assert!(partition.open_object(ObjectId(1)).is_err());
        let quarantine = partition.directory().join(QUARANTINE);
        assert_eq!(fs::read(quarantine.join("1")).unwrap(), b"content");
        assert!(quarantine.join("1.json").exists());
        partition.set_aside(ObjectId(1)).unwrap();
        assert_eq!(partition.changed(ObjectId(1)), None);
        // Another one of this number must not replace it.
        write(&partition, 1, b"other");
        assert_eq!(partition.set_aside(ObjectId(1)).unwrap_err().kind, ErrorKind::Exists);
        assert_eq!(fs::read(quarantine.join("1")).unwrap(), b"content");
        let writer = partition.create_object(ObjectId(2)).unwrap();
        assert_eq!(partition.set_aside(ObjectId(2)).unwrap_err().kind, ErrorKind::Busy);
        drop(writer);
    }
}
