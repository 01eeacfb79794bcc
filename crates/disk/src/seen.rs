//! What a partition remembers of the catalogue: an older one must not have anything deleted.

use crate::{durable, partition::Partition};
use base::{Failure, Result};
use std::{fs, io};
use wire::control::CatalogueMark;

const SEEN: &str = "catalogue.json";
const SEEN_NEW: &str = "catalogue.json.new";

impl Partition {
    /// The last state of the catalogue that was noted here.
    pub fn seen_catalogue(&self) -> Result<Option<CatalogueMark>> {
        let file = self.directory().join(SEEN);
        let text = match fs::read(&file) {
            Ok(text) => text,
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(cause) => return Err(Failure::io(format!("read {}", file.display()), &cause)),
        };
        serde_json::from_slice(&text).map(Some).map_err(|cause| {
            Failure::corrupt(format!("{} is damaged: {cause}", file.display())).hint(
                "nothing is deleted on this partition; if the catalogue is the right one, remove the file",
            )
        })
    }

    /// Notes a state of the catalogue, durably.
    pub fn note_catalogue(&self, mark: &CatalogueMark) -> Result<()> {
        let directory = self.directory();
        let new = directory.join(SEEN_NEW);
        let mut text = serde_json::to_vec_pretty(mark).expect("plain numbers always serialise");
        text.push(b'\n');
        durable::write_synced(&new, &text)
            .and_then(|()| durable::rename(&new, &directory.join(SEEN)))
            .and_then(|()| durable::sync_directory(directory))
            .map_err(|cause| Failure::io(format!("write {}", new.display()), &cause))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{ErrorKind, Timestamp};

    #[test]
    fn what_was_noted_is_there_after_a_restart_and_damage_is_told() {
        let home = tempfile::tempdir().unwrap();
        let directory = home.path().join("p");
        let partition = Partition::create(&directory, "f", "p").unwrap();
        assert_eq!(partition.seen_catalogue().unwrap(), None);
        let mut mark = CatalogueMark { epoch: 1, incarnation: 2, started: Timestamp(3), tick: 4 };
        partition.note_catalogue(&mark).unwrap();
        mark.tick = 5;
        partition.note_catalogue(&mark).unwrap();
        drop(partition);
        let partition = Partition::open(&directory, "f").unwrap();
        assert_eq!(partition.seen_catalogue().unwrap(), Some(mark));
        fs::write(directory.join(SEEN), "{\"epoch\":").unwrap();
        assert_eq!(partition.seen_catalogue().unwrap_err().kind, ErrorKind::Corrupt);
    }
}
