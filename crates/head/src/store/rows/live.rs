//! What a file has while it changes in place: its live objects, as they are kept in the row of the file.

use base::{Checksums, ObjectId};
use serde::{Deserialize, Serialize};
use share::ServerId;
use std::collections::BTreeSet;

/// A content that changes in place. Its columns take the bytes of the file in turn; all copies of a column have the same bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "LiveRow")]
pub(crate) struct LiveContent {
    /// Its number: that of the first object that was made for it, whatever became of that. Sealed, it is the generation of the file.
    pub(crate) object: ObjectId,
    /// All objects, columns ascending; of a column at least one.
    pub(crate) copies: Vec<LiveCopy>,
    /// Bytes that lie in one column before the next one follows; 0: there is one column.
    pub(crate) unit: u64,
    /// It is what the file has; else the file has still what it had before.
    pub(crate) is_committed: bool,
    /// Of columns: the object that is made of them when it is sealed.
    pub(crate) joined: Option<JoinedObject>,
    /// Disk servers were ordered to make its objects such that never change.
    pub(crate) is_sealing: bool,
    /// A writer has ended that may have written to some copies what others do not have: it is sealed before anybody uses it.
    pub(crate) is_uneven: bool,
}

/// A live object: a plain file that changes in place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LiveCopy {
    pub(crate) object: ObjectId,
    pub(crate) partition: String,
    /// With which object of the partition it begins, and with how many bytes.
    pub(crate) base: Option<(ObjectId, u64)>,
    /// Which bytes of the file it has.
    pub(crate) column: u32,
    /// Its disk server among those that grants of the file name. No two objects of a content ever have the same.
    pub(crate) server: ServerId,
    /// Its disk server has sealed it: the sums of its bytes.
    pub(crate) sealed: Option<Checksums>,
}

/// An object that is made of the columns of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct JoinedObject {
    pub(crate) object: ObjectId,
    pub(crate) partition: String,
}

impl LiveContent {
    /// Objects that were chosen together: nothing was written to them.
    pub(crate) fn new(copies: Vec<LiveCopy>, unit: u64) -> Self {
        let object = copies.first().expect("a content is placed somewhere").object;
        Self { object, copies, unit, is_committed: false, joined: None, is_sealing: false, is_uneven: false }
    }

    /// The disk servers to which grants to write are given.
    pub(crate) fn servers(&self) -> BTreeSet<ServerId> {
        self.copies.iter().map(|copy| copy.server).collect()
    }

    /// One of its objects.
    pub(crate) fn copy(&self, object: ObjectId) -> Option<&LiveCopy> {
        self.copies.iter().find(|copy| copy.object == object)
    }

    /// How many columns it has.
    pub(crate) fn width(&self) -> u32 {
        self.copies.iter().map(|copy| copy.column + 1).max().unwrap_or(0)
    }

    /// The copies of each column.
    pub(crate) fn columns(&self) -> impl Iterator<Item = Vec<&LiveCopy>> {
        (0..self.width()).map(|column| self.copies.iter().filter(|copy| copy.column == column).collect())
    }

    /// Whether its columns have to be put together.
    pub(crate) fn is_striped(&self) -> bool {
        self.unit > 0
    }

    /// Whether what one copy of a column has another one may lack.
    pub(crate) fn has_copies(&self) -> bool {
        self.copies.len() > self.width() as usize
    }
}

/// A row as any release wrote it: the first knew one object only.
#[derive(Deserialize)]
struct LiveRow {
    object: ObjectId,
    #[serde(default)]
    copies: Vec<LiveCopy>,
    #[serde(default)]
    unit: u64,
    #[serde(default)]
    partition: String,
    #[serde(default)]
    base: Option<(ObjectId, u64)>,
    is_committed: bool,
    is_sealing: bool,
    #[serde(default)]
    joined: Option<JoinedObject>,
    #[serde(default)]
    is_uneven: bool,
}

impl From<LiveRow> for LiveContent {
    fn from(row: LiveRow) -> Self {
        let LiveRow {
            object,
            mut copies,
            unit,
            partition,
            base,
            is_committed,
            is_sealing,
            joined,
            is_uneven,
        } = row;
        if copies.is_empty() {
            copies.push(LiveCopy { object, partition, base, column: 0, server: 0, sealed: None });
        }
        Self { object, copies, unit, is_committed, joined, is_sealing, is_uneven }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_one_object_are_read() {
        let old = r#"{"object":7,"partition":"p","base":[5,100],"is_committed":true,"is_sealing":false}"#;
        let content: LiveContent = serde_json::from_str(old).unwrap();
        assert_eq!((content.object, content.copies.len(), content.is_committed), (ObjectId(7), 1, true));
        let copy = &content.copies[0];
        assert_eq!((copy.object, &*copy.partition, copy.base), (ObjectId(7), "p", Some((ObjectId(5), 100))));
        let again: LiveContent = serde_json::from_str(&serde_json::to_string(&content).unwrap()).unwrap();
        assert_eq!(again, content);
        assert!(!content.has_copies());
    }

    #[test]
    fn a_content_of_columns_knows_its_copies() {
        let copy = |object, column| LiveCopy {
            object: ObjectId(object),
            partition: format!("p{object}"),
            base: None,
            column,
            server: object as u32,
            sealed: None,
        };
        let striped = LiveContent::new(vec![copy(1, 0), copy(2, 1)], 4096);
        assert!(striped.width() == 2 && !striped.has_copies());
        let both = LiveContent::new(vec![copy(1, 0), copy(2, 0), copy(3, 1)], 4096);
        let columns: Vec<_> = both.columns().map(|copies| copies.len()).collect();
        assert_eq!((columns, both.has_copies()), (vec![2, 1], true));
        assert_eq!(both.servers(), BTreeSet::from([1, 2, 3]));
    }
}
