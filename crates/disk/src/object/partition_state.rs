//! The catalogue states that a partition saw: an older catalogue must not delete objects, rights that were taken back
//! must not come back with a restart, and a new one should know in which pool it is.

use crate::object::{durable, partition::Partition};
use base::{ErrorKind, Failure, ObjectId, Result};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::{
    fs::{self, File},
    io,
    os::unix::fs::FileExt,
};
use tracing::debug;
use wire::control::CatalogueMark;

const SEEN: &str = "catalogue.json";
const FENCE: &str = "fence.json";
const POOL: &str = "pool.json";
const WITHDRAWN: &str = "withdrawn";
/// Bytes of a note of a withdrawn object: its number, and all bits of it turned over.
const WITHDRAWN_BYTES: usize = 16;
/// Withdrawn objects that are remembered: more than are promised at a time.
pub const WITHDRAWN_MAX: usize = 1 << 16;

/// The file that keeps the fence.
#[derive(Serialize, Deserialize)]
struct FenceFile {
    fence: u64,
}

/// The file that keeps the pool.
#[derive(Serialize, Deserialize)]
struct PoolFile {
    pool: String,
}

impl Partition {
    /// The last state of the catalogue that was noted here.
    pub fn seen_catalogue(&self) -> Result<Option<CatalogueMark>> {
        const HINT: &str =
            "nothing is deleted on this partition; if the catalogue is the right one, remove the file";
        self.noted(SEEN).map_err(|failure| match failure.kind {
            ErrorKind::Corrupt => failure.hint(HINT),
            _ => failure,
        })
    }

    /// Notes a state of the catalogue, durably.
    pub fn note_catalogue(&self, mark: &CatalogueMark) -> Result<()> {
        self.note(SEEN, mark)
    }

    /// Rights to read of an earlier generation are refused, as the head said last; 0 if it never said so.
    pub fn seen_fence(&self) -> Result<u64> {
        let noted: Option<FenceFile> = self.noted(FENCE)?;
        Ok(noted.map_or(0, |noted| noted.fence))
    }

    /// Notes from which generation on rights to read hold, durably.
    pub fn note_fence(&self, fence: u64) -> Result<()> {
        self.note(FENCE, &FenceFile { fence })
    }

    /// The pool to which it belongs, as the head said last.
    pub fn seen_pool(&self) -> Result<Option<String>> {
        let noted: Option<PoolFile> = self.noted(POOL)?;
        Ok(noted.map(|noted| noted.pool))
    }

    /// Notes to which pool it belongs, durably.
    pub fn note_pool(&self, pool: &str) -> Result<()> {
        self.note(POOL, &PoolFile { pool: pool.to_owned() })
    }

    /// Objects that were removed before anything was written: who was promised one must not make it, also after a restart.
    pub fn seen_withdrawn(&self) -> Result<Vec<ObjectId>> {
        let file = self.directory().join(WITHDRAWN);
        let bytes = match fs::read(&file) {
            Ok(bytes) => bytes,
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(cause) => return Err(Failure::io(format!("read {}", base::tail(&file)), &cause)),
        };
        let (notes, _) = bytes.as_chunks::<WITHDRAWN_BYTES>();
        let objects = notes.iter().filter_map(|note| {
            let (object, check) = note.split_at(8);
            let object = u64::from_le_bytes(object.try_into().ok()?);
            // What was cut short or damaged says nothing.
            (check == (!object).to_le_bytes()).then_some(ObjectId(object))
        });
        let mut objects: Vec<_> = objects.collect();
        if objects.len() > 2 * WITHDRAWN_MAX {
            objects.drain(..objects.len() - WITHDRAWN_MAX);
            // A file that stays long says the same; what it says counts also where nothing can be written.
            if let Err(failure) = self.replace(WITHDRAWN, &withdrawn(&objects)) {
                debug!(%failure, "cannot shorten the list of withdrawn objects");
            }
        }
        Ok(objects)
    }

    /// Notes objects that are removed before anything was written, durably.
    pub fn note_withdrawn(&self, objects: &[ObjectId]) -> Result<()> {
        if objects.is_empty() {
            return Ok(());
        }
        self.check_in_place()?;
        let path = self.directory().join(WITHDRAWN);
        let append = || {
            let is_new = !path.exists();
            let file = File::options().write(true).create(true).truncate(false).open(&path)?;
            // What a full disk or a crash has cut short is written over.
            let end = file.metadata()?.len() / WITHDRAWN_BYTES as u64 * WITHDRAWN_BYTES as u64;
            file.write_all_at(&withdrawn(objects), end)?;
            durable::sync_data(&file)?;
            if is_new { durable::sync_directory(self.directory()) } else { Ok(()) }
        };
        append().map_err(|cause| Failure::io(format!("write {}", base::tail(&path)), &cause))
    }

    fn noted<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>> {
        let file = self.directory().join(name);
        let text = match fs::read(&file) {
            Ok(text) => text,
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => {
                return self.check_in_place().map(|()| None);
            }
            Err(cause) => return Err(Failure::io(format!("read {}", base::tail(&file)), &cause)),
        };
        serde_json::from_slice(&text)
            .map(Some)
            .map_err(|cause| Failure::corrupt(format!("{} is damaged: {cause}", base::tail(&file))))
    }

    fn note<T: Serialize>(&self, name: &str, value: &T) -> Result<()> {
        let mut text = serde_json::to_vec_pretty(value).expect("plain numbers always serialise");
        text.push(b'\n');
        self.replace(name, &text)
    }

    fn replace(&self, name: &str, content: &[u8]) -> Result<()> {
        self.check_in_place()?;
        let directory = self.directory();
        let new = directory.join(format!("{name}.new"));
        durable::write_synced(&new, content)
            .and_then(|()| durable::rename(&new, &directory.join(name)))
            .and_then(|()| durable::sync_directory(directory))
            .map_err(|cause| Failure::io(format!("write {}", base::tail(&new)), &cause))
    }
}

/// Notes of withdrawn objects.
fn withdrawn(objects: &[ObjectId]) -> Vec<u8> {
    objects.iter().flat_map(|object| [object.0.to_le_bytes(), (!object.0).to_le_bytes()]).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Timestamp;

    #[test]
    fn withdrawn_objects_are_remembered_after_a_restart_as_many_as_are_promised() {
        let home = tempfile::tempdir().unwrap();
        let directory = home.path().join("p");
        let partition = Partition::create(&directory, "f", "p").unwrap();
        assert_eq!(partition.seen_withdrawn().unwrap(), []);
        partition.note_withdrawn(&[]).unwrap();
        partition.note_withdrawn(&[ObjectId(7), ObjectId(u64::MAX)]).unwrap();
        // The rest of a note that was cut short, and then one that is damaged.
        let file = directory.join(WITHDRAWN);
        let mut bytes = fs::read(&file).unwrap();
        bytes.extend([1; 9]);
        fs::write(&file, bytes).unwrap();
        partition.note_withdrawn(&[ObjectId(8), ObjectId(9)]).unwrap();
        let mut bytes = fs::read(&file).unwrap();
        bytes[3 * WITHDRAWN_BYTES] ^= 1;
        fs::write(&file, bytes).unwrap();
        drop(partition);
        let partition = Partition::open(&directory, "f").unwrap();
        assert_eq!(partition.seen_withdrawn().unwrap(), [ObjectId(7), ObjectId(u64::MAX), ObjectId(8)]);
        let many: Vec<_> = (0..2 * WITHDRAWN_MAX as u64).map(ObjectId).collect();
        partition.note_withdrawn(&many).unwrap();
        let kept = partition.seen_withdrawn().unwrap();
        assert_eq!((kept.len(), kept.last()), (WITHDRAWN_MAX, many.last()));
        assert_eq!(fs::metadata(&file).unwrap().len(), (WITHDRAWN_MAX * WITHDRAWN_BYTES) as u64);
    }

    #[test]
    fn what_was_noted_is_there_after_a_restart_and_damage_is_told() {
        let home = tempfile::tempdir().unwrap();
        let directory = home.path().join("p");
        let partition = Partition::create(&directory, "f", "p").unwrap();
        assert_eq!((partition.seen_catalogue().unwrap(), partition.seen_fence().unwrap()), (None, 0));
        assert_eq!(partition.seen_pool().unwrap(), None);
        let mut mark = CatalogueMark { epoch: 1, incarnation: 2, started: Timestamp(3), tick: 4 };
        partition.note_catalogue(&mark).unwrap();
        mark.tick = 5;
        partition.note_catalogue(&mark).unwrap();
        partition.note_fence(u64::MAX - 1).unwrap();
        partition.note_pool("fast").unwrap();
        drop(partition);
        let partition = Partition::open(&directory, "f").unwrap();
        assert_eq!(partition.seen_catalogue().unwrap(), Some(mark));
        assert_eq!(partition.seen_fence().unwrap(), u64::MAX - 1);
        assert_eq!(partition.seen_pool().unwrap().as_deref(), Some("fast"));
        for name in [SEEN, FENCE, POOL] {
            fs::write(directory.join(name), "{\"epoch\":").unwrap();
        }
        assert_eq!(partition.seen_catalogue().unwrap_err().kind, ErrorKind::Corrupt);
        assert_eq!(partition.seen_fence().unwrap_err().kind, ErrorKind::Corrupt);
        assert_eq!(partition.seen_pool().unwrap_err().kind, ErrorKind::Corrupt);
    }
}
