//! The description that lies beside every object, so that a partition explains itself without the head.
//!
//! It is one JSON document; readers accept every version up to [`VERSION`].

use base::{Checksums, Failure, FileId, FilePath, ObjectId, Timestamp};
use serde::{Deserialize, Serialize};

/// Version that is written. Version 1 said nothing of generation, owner, group and mode.
pub const VERSION: u32 = 2;

/// Whose a file is, and who may use it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// Its owner; empty if nobody knows.
    pub owner: String,
    /// Its group.
    pub group: String,
    /// POSIX permission bits.
    pub mode: u32,
}

/// What the namespace says of a file when an object of it is made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Label {
    /// The file.
    pub file: FileId,
    /// Its path.
    pub path: FilePath,
    /// Which content this is: see [`ObjectInfo::generation`].
    pub generation: u64,
    /// Whose it is.
    pub holder: Holder,
}

/// What an object is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ObjectInfo {
    /// Version of this document.
    pub version: u32,
    /// The facility it belongs to.
    pub facility: String,
    /// The object.
    pub object: ObjectId,
    /// The file it is a replica of.
    pub file: FileId,
    /// The file's path when it was written. Renames do not change it: the catalogue knows better while it is there.
    pub path: FilePath,
    /// The number of the write that made this content: of its first object. All replicas of a content have the same, and what was
    /// written later has a higher one, whatever the clocks said. 0: not known.
    #[serde(default)]
    pub generation: u64,
    /// The file's owner then; empty: not known.
    #[serde(default)]
    pub owner: String,
    /// Its group.
    #[serde(default)]
    pub group: String,
    /// Its POSIX permission bits.
    #[serde(default)]
    pub mode: u32,
    /// Bytes.
    pub size: u64,
    /// Of the whole object.
    pub checksums: Checksums,
    /// When it was committed on disk.
    pub written: Timestamp,
}

impl ObjectInfo {
    /// The description of an object.
    #[must_use]
    pub fn new(
        facility: &str,
        object: ObjectId,
        label: &Label,
        (size, checksums): (u64, Checksums),
        written: Timestamp,
    ) -> Self {
        let Label { file, path, generation, holder } = label.clone();
        let (facility, Holder { owner, group, mode }) = (facility.to_owned(), holder);
        let version = VERSION;
        Self {
            version,
            facility,
            object,
            file,
            path,
            generation,
            owner,
            group,
            mode,
            size,
            checksums,
            written,
        }
    }

    /// What the namespace said of the file.
    #[must_use]
    pub fn label(&self) -> Label {
        let holder = Holder { owner: self.owner.clone(), group: self.group.clone(), mode: self.mode };
        Label { file: self.file, path: self.path.clone(), generation: self.generation, holder }
    }

    /// The document, ending with a newline.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut text = serde_json::to_vec_pretty(self).expect("plain numbers and strings always serialise");
        text.push(b'\n');
        text
    }

    /// Reads a document.
    pub fn decode(text: &[u8]) -> Result<Self, Failure> {
        let info: Self = serde_json::from_slice(text)
            .map_err(|cause| Failure::corrupt(format!("object description is damaged: {cause}")))?;
        if info.version == 0 || info.version > VERSION {
            return Err(Failure::unsupported(format!("object description has version {}", info.version))
                .hint("it was written by a newer release: use that one"));
        }
        Ok(info)
    }
}

/// Fuzz body: damaged descriptions are refused, never a panic.
pub fn fuzz_object(data: &[u8]) {
    if let Ok(info) = ObjectInfo::decode(data) {
        assert_eq!(ObjectInfo::decode(&info.encode()).as_ref(), Ok(&info));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn example() -> ObjectInfo {
        ObjectInfo {
            version: VERSION,
            facility: "f-1".into(),
            object: ObjectId(7),
            file: FileId(3),
            path: "/data/a b".parse().unwrap(),
            generation: 6,
            owner: "ada".into(),
            group: "atlas".into(),
            mode: 0o640,
            size: 9,
            checksums: Checksums::of(b"123456789"),
            written: Timestamp(1_700_000_000_000),
        }
    }

    #[test]
    fn round_trip_and_newer_versions_refused() {
        let info = example();
        assert_eq!(ObjectInfo::decode(&info.encode()).unwrap(), info);
        let newer = ObjectInfo { version: VERSION + 1, ..info };
        assert!(ObjectInfo::decode(&newer.encode()).unwrap_err().what.contains("version 3"));
    }

    #[test]
    fn the_first_version_names_no_owner() {
        let text = String::from_utf8(example().encode()).unwrap();
        let is_new =
            |line: &&str| ["generation", "owner", "group", "mode"].iter().any(|key| line.contains(key));
        let old: Vec<_> = text.lines().filter(|line| !is_new(line)).collect();
        let info = ObjectInfo::decode(old.join("\n").replace("\"version\": 2", "\"version\": 1").as_bytes())
            .unwrap();
        assert_eq!((info.version, info.label().holder, info.generation), (1, Holder::default(), 0));
    }

    proptest! {
        #[test]
        fn damage_never_panics(at in 0usize..400, byte: u8) {
            let mut text = example().encode();
            let at = at % text.len();
            text[at] = byte;
            fuzz_object(&text);
        }

        #[test]
        fn noise_never_panics(data in prop::collection::vec(any::<u8>(), 0..200)) {
            fuzz_object(&data);
        }
    }
}
