//! Looking at a partition object by object: for the comparison with the catalogue, which must be slow and may be interrupted.

use crate::{
    EntryState, Partition,
    description::Description,
    durable,
    list::{self, Found},
    reader::{ObjectReader, compare, read_full},
};
use base::{Checksums, ErrorKind, Failure, ObjectId, Result, Timestamp};
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
use wire::object::ObjectInfo;

/// Where objects that nobody knows are put.
const QUARANTINE: &str = "quarantine";
/// The homes of objects, and the directory of those that are being written.
pub const PLACES: u32 = wire::control::SCAN_PLACES;
/// What is being written.
const INCOMING: u32 = PLACES - 1;
/// Bytes that are read at once.
const PIECE_BYTES: usize = 1 << 20;

/// What is seen of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seen {
    /// Nothing.
    Missing,
    /// A live writer has it.
    Writing,
    /// What a write has left that ended with its daemon, or a step that was interrupted; it cannot be read.
    Rest,
    /// Data of the right size with a description. The bytes were not read.
    Whole(ObjectInfo),
    /// It does not fit its description, or has none.
    Damaged {
        /// Bytes of its data, if the disk says so.
        size: Option<u64>,
        /// What is wrong.
        failure: Failure,
    },
}

/// A look that has begun: the disk was asked.
#[derive(Debug)]
pub struct Begun {
    object: ObjectId,
    home: Result<Arc<OwnedFd>, Errno>,
    opened: Result<Description, Errno>,
}

impl Partition {
    /// Objects that something lies of in a place (`0..PLACES`) after `after`, in order. Eight bytes for each.
    pub fn objects_in(&self, place: u32, after: ObjectId) -> Result<Vec<ObjectId>> {
        let names = self.names_in(place)?;
        let mut objects = behind(names.iter().map(|(object, _)| *object), place, after);
        objects.dedup();
        Ok(objects)
    }

    /// The same, but only what has data and a description.
    pub fn described_in(&self, place: u32, after: ObjectId) -> Result<Vec<ObjectId>> {
        Ok(behind(list::described(&self.names_in(place)?), place, after))
    }

    fn names_in(&self, place: u32) -> Result<Vec<(ObjectId, bool)>> {
        let shared = &self.shared;
        let directory =
            if place == INCOMING { shared.incoming() } else { shared.home(ObjectId(place.into())) };
        self.in_place(|| list::names(&directory))
    }

    /// Looks at some objects.
    #[cfg(test)]
    pub(crate) fn look(&self, objects: &[ObjectId]) -> Vec<Seen> {
        self.begin_look(objects).into_iter().map(|begun| self.finish_look(begun)).collect()
    }

    /// Asks the disk for the descriptions of some objects, and waits for none of them. Each holds a file open until it is
    /// finished.
    pub fn begin_look(&self, objects: &[ObjectId]) -> Vec<Begun> {
        let runs = objects.chunk_by(|one, other| home_of(*one) == home_of(*other));
        runs.flat_map(|run| self.begin_in_home(run)).collect()
    }

    fn begin_in_home(&self, objects: &[ObjectId]) -> Vec<Begun> {
        let [first, ..] = objects else { return Vec::new() };
        // Names are short from there.
        let home = openat(CWD, self.shared.home(*first), OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
        let home = home.map(Arc::new);
        let begin = |object: &ObjectId| {
            let opened = home
                .as_ref()
                .map_err(|cause| *cause)
                .and_then(|home| Description::open_in(home.as_fd(), *object));
            Begun { object: *object, home: home.clone(), opened }
        };
        objects.iter().map(begin).collect()
    }

    /// Looks at an object whose description was asked for.
    pub fn finish_look(&self, begun: Begun) -> Seen {
        let Begun { object, home, opened } = begun;
        let shared = &self.shared;
        if shared.is_writing(object) {
            return Seen::Writing;
        }
        let data = match home.and_then(|home| statat(home, object.to_string(), AtFlags::empty())) {
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
            Some(EntryState::Complete(info)) => Seen::Whole(info),
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
                return Err(Failure::exists(format!("{} exists", to.display()))
                    .hint("look what it is, and move it away"));
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

/// The number of the home of an object.
fn home_of(object: ObjectId) -> u64 {
    object.0 & 0xff
}

/// Of objects in a place, those that belong there and come after `after`.
fn behind(objects: impl Iterator<Item = ObjectId>, place: u32, after: ObjectId) -> Vec<ObjectId> {
    let is_at_home = |object: &ObjectId| place == INCOMING || home_of(*object) == u64::from(place);
    objects.filter(|object| *object > after && is_at_home(object)).collect()
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
    use base::FileId;
    use wire::object::{Holder, Label};

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
        let seen = |object| partition.look(&[ObjectId(object)]).remove(0);
        assert!(matches!(seen(1), Seen::Whole(info) if info.size == 7));
        assert_eq!((seen(9), seen(77)), (Seen::Writing, Seen::Missing));
        assert_eq!(partition.described_in(1, ObjectId(0)).unwrap(), [ObjectId(1), ObjectId(0x101)]);
        assert_eq!(partition.described_in(9, ObjectId(0)).unwrap(), [], "it is being written");
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
        assert_eq!((all(&partition), partition.look(&[ObjectId(1)])), (vec![], vec![Seen::Missing]));
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
