//! What a partition remembers of the catalogue: an older one must not have anything deleted, rights that were taken back
//! must not come back with a restart, and a new one should know in which pool it is.

use crate::{durable, partition::Partition};
use base::{ErrorKind, Failure, Result};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::{fs, io};
use wire::control::CatalogueMark;

const SEEN: &str = "catalogue.json";
const FENCE: &str = "fence.json";
const POOL: &str = "pool.json";

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

    fn noted<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>> {
        let file = self.directory().join(name);
        let text = match fs::read(&file) {
            Ok(text) => text,
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => {
                return self.check_in_place().map(|()| None);
            }
            Err(cause) => return Err(Failure::io(format!("read {}", file.display()), &cause)),
        };
        serde_json::from_slice(&text)
            .map(Some)
            .map_err(|cause| Failure::corrupt(format!("{} is damaged: {cause}", file.display())))
    }

    fn note<T: Serialize>(&self, name: &str, value: &T) -> Result<()> {
        self.check_in_place()?;
        let directory = self.directory();
        let new = directory.join(format!("{name}.new"));
        let mut text = serde_json::to_vec_pretty(value).expect("plain numbers always serialise");
        text.push(b'\n');
        durable::write_synced(&new, &text)
            .and_then(|()| durable::rename(&new, &directory.join(name)))
            .and_then(|()| durable::sync_directory(directory))
            .map_err(|cause| Failure::io(format!("write {}", new.display()), &cause))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Timestamp;

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
