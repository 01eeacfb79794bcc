//! The description that lies beside every object, so that a partition explains itself without the head.
//!
//! It is one JSON document; readers accept every version up to [`VERSION`].

use crate::{
    control::Coding,
    media::coded::{Coded, Shape},
};
use base::{Checksums, Failure, FileId, FilePath, ObjectId, Timestamp};
use serde::{Deserialize, Serialize};

/// Newest version, that of pieces. Version 1 said nothing of generation, owner, group and mode.
pub const VERSION: u32 = 3;
/// Version of what is all of its file: releases that know no pieces read it.
const VERSION_WHOLE: u32 = 2;

/// The owner of a file, and who may use it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// Its owner; empty if nobody knows.
    pub owner: String,
    /// Its group.
    pub group: String,
    /// POSIX permission bits.
    pub mode: u32,
}

/// The part of a coded file that an object is (spec/coded.md).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Piece {
    /// Pieces of the file.
    pub coding: Coding,
    /// Bytes of a full cell.
    pub cell_bytes: u32,
    /// The number of the piece, from 0.
    pub index: u8,
    /// Bytes of the whole file.
    pub file_bytes: u64,
    /// Of the whole file.
    pub file_checksums: Checksums,
}

impl Piece {
    /// How the file is cut that this is a piece of; `generation` as in [`ObjectInfo::generation`].
    pub fn shape(&self, file: FileId, generation: u64) -> Result<Shape, Failure> {
        let Self { coding, cell_bytes, file_bytes, .. } = *self;
        let coded = Coded { file, content: generation, bytes: file_bytes };
        Shape::new(coding.data, coding.parity, cell_bytes, coded)
    }
}

/// The metadata of a file when one of its objects is made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Label {
    /// The file.
    pub file: FileId,
    /// Its path.
    pub path: FilePath,
    /// The number of the content: see [`ObjectInfo::generation`].
    pub generation: u64,
    /// Its owner.
    pub holder: Holder,
    /// The piece of it that the object is; `None`: the whole file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub piece: Option<Piece>,
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
    /// The file it is a replica or a piece of.
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
    /// Which piece of the file it is; `None`: a replica.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub piece: Option<Piece>,
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
        let Label { file, path, generation, holder, piece } = label.clone();
        let (facility, Holder { owner, group, mode }) = (facility.to_owned(), holder);
        let version = if piece.is_some() { VERSION } else { VERSION_WHOLE };
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
            piece,
            size,
            checksums,
            written,
        }
    }

    /// Bytes and sums of the whole file.
    #[must_use]
    pub fn content(&self) -> (u64, Checksums) {
        self.piece.map_or((self.size, self.checksums), |piece| (piece.file_bytes, piece.file_checksums))
    }

    /// What the namespace said of the file.
    #[must_use]
    pub fn label(&self) -> Label {
        let holder = Holder { owner: self.owner.clone(), group: self.group.clone(), mode: self.mode };
        Label {
            file: self.file,
            path: self.path.clone(),
            generation: self.generation,
            holder,
            piece: self.piece,
        }
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
        let info = serde_json::from_slice::<Self>(text);
        // A newer release may have keys that are not known here.
        let version = info.as_ref().map_or_else(
            |_| serde_json::from_slice(text).ok(),
            |info| Some(Version { version: info.version }),
        );
        if let Some(Version { version }) = version.filter(|known| !(1..=VERSION).contains(&known.version)) {
            return Err(Failure::unsupported(format!("object description has version {version}"))
                .hint("it was written by a newer release: use that one"));
        }
        info.map_err(|cause| Failure::corrupt(format!("object description is damaged: {cause}")))
    }
}

/// All that is known of a description of any release.
#[derive(Deserialize)]
struct Version {
    version: u32,
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
            version: VERSION_WHOLE,
            facility: "f-1".into(),
            object: ObjectId(7),
            file: FileId(3),
            path: "/data/a b".parse().unwrap(),
            generation: 6,
            owner: "ada".into(),
            group: "atlas".into(),
            mode: 0o640,
            piece: None,
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
        let refused = ObjectInfo::decode(&newer.encode()).unwrap_err();
        assert!(refused.what.contains("version 4"));
        let with_more = br#"{"version": 4, "colour": "red"}"#;
        assert_eq!(ObjectInfo::decode(with_more).unwrap_err(), refused);
        assert_eq!(ObjectInfo::decode(br#"{"version": 2}"#).unwrap_err().kind, base::ErrorKind::Corrupt);
    }

    #[test]
    fn a_piece_says_of_what() {
        assert!(!String::from_utf8(example().encode()).unwrap().contains("piece"));
        let coding = Coding { data: 4, parity: 2 };
        let file_checksums = Checksums::of(b"all of it");
        let piece = Piece { coding, cell_bytes: 4096, index: 5, file_bytes: 20_000, file_checksums };
        let info = ObjectInfo { piece: Some(piece), ..example() };
        let again = ObjectInfo::decode(&info.encode()).unwrap();
        assert_eq!((&again, again.content()), (&info, (20_000, file_checksums)));
        assert_eq!(info.label().piece, Some(piece));
        assert_eq!(piece.shape(info.file, info.generation).unwrap().pieces(), 6);
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
