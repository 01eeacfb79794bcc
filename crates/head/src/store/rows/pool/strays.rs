//! Pieces that were found on disks and wait for others: until enough are there, nobody knows whether their content can be read.

use crate::store::{Store, StoreResult, document, json};
use base::{FileId, ObjectId};
use wire::control::Described;

/// Most that are looked at of one content: more than any coding has, even if each was copied many times.
const STRAYS_OF_CONTENT_MAX: usize = 1000;

/// A piece that belongs to no file yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StrayRow {
    pub(crate) object: ObjectId,
    pub(crate) partition: String,
    pub(crate) size: u64,
    pub(crate) described: Described,
}

impl Store {
    pub(crate) fn put_stray(&self, stray: &StrayRow, generation: u64) -> StoreResult<()> {
        let StrayRow { object, partition, size, described } = stray;
        self.run(
            "INSERT INTO stray (object, partition, file, generation, size, described) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
             ON CONFLICT (object) DO UPDATE SET partition = ?2, file = ?3, generation = ?4, size = ?5, described = ?6",
            (object.0, partition, described.label.file.0, generation, *size, json(described)),
        )
    }

    /// Those of a content of a file.
    pub(crate) fn strays(&self, file: FileId, generation: u64) -> StoreResult<Vec<StrayRow>> {
        let sql = "SELECT object, partition, size, described FROM stray WHERE file = ?1 AND generation = ?2
                   ORDER BY object LIMIT ?3";
        self.all_now(sql, (file.0, generation, STRAYS_OF_CONTENT_MAX), |row| {
            Ok(StrayRow {
                object: ObjectId(row.get(0)?),
                partition: row.get(1)?,
                size: row.get(2)?,
                described: document(row, 3)?,
            })
        })
    }

    pub(crate) fn delete_stray(&self, object: ObjectId) -> StoreResult<()> {
        self.run("DELETE FROM stray WHERE object = ?1", (object.0,))
    }

    /// Forgets what was found on a partition: its disk server says it once more.
    pub(crate) fn forget_strays_on(&self, partition: &str) -> StoreResult<()> {
        self.run("DELETE FROM stray WHERE partition = ?1", (partition,))
    }

    /// Forgets all of them.
    pub(crate) fn forget_strays(&self) -> StoreResult<()> {
        self.run("DELETE FROM stray", ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::testing::TestCatalogue;
    use base::{Checksums, Timestamp};
    use wire::media::object::{Holder, Label};

    fn stray(object: u64, partition: &str) -> StrayRow {
        let (path, holder) = ("/f".parse().unwrap(), Holder::default());
        let label = Label { file: FileId(5), path, generation: 7, holder, piece: None };
        let described = Described { label, checksums: Checksums::of(b"a"), written: Timestamp(3) };
        StrayRow { object: ObjectId(object), partition: partition.to_owned(), size: 9, described }
    }

    #[test]
    fn strays_are_found_by_their_content_until_they_are_forgotten() {
        for place in TestCatalogue::all() {
            let mut store = place.create();
            store.begin();
            let store = &store;
            let found = || store.strays(FileId(5), 7).unwrap();
            let [first, second, third] = [(1, "p"), (2, "q"), (3, "q")].map(|(number, at)| stray(number, at));
            for stray in [&third, &second, &first, &second] {
                store.put_stray(stray, 7).unwrap();
            }
            store.put_stray(&stray(4, "p"), 8).unwrap();
            assert_eq!(found(), [first.clone(), second, third]);
            store.forget_strays_on("q").unwrap();
            assert_eq!(found(), [first]);
            store.delete_stray(ObjectId(1)).unwrap();
            assert_eq!((found(), store.strays(FileId(5), 8).unwrap().len()), (vec![], 1));
            store.forget_strays().unwrap();
            assert_eq!(store.strays(FileId(5), 8).unwrap(), []);
        }
    }
}
