//! The backup of a catalogue: a stream of frames that no database engine is needed to check. See `spec/backup.md`.

use base::{Crc32c, Failure, Result, Timestamp};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;

/// First bytes of a backup (§1).
pub const MAGIC: [u8; 8] = *b"bpbackup";
/// Version that is written.
pub const VERSION: u32 = 1;
/// Bytes before the content of a frame.
const HEAD_BYTES: usize = 12;
/// Longest content of a frame, packed or not: a row with the longest texts fits.
pub const FRAME_BYTES_MAX: usize = 64 << 20;

/// What a backup is of: the content of the first frame.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Begin {
    /// The facility's id.
    pub facility: String,
    /// Its name, for people.
    pub name: String,
    /// Release that wrote it.
    pub release: String,
    /// When the state that it holds was the present one.
    pub taken: Timestamp,
    /// Starts of the head until then.
    pub incarnation: u64,
    /// Version of the schema, by engine.
    pub schema: BTreeMap<String, u64>,
}

/// The table that the rows after it belong to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Table {
    /// Its name.
    pub table: String,
    /// Its columns, in the order of the cells.
    pub columns: Vec<String>,
}

/// The last frame: what must have been read before it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// Rows and digest of each table.
    pub tables: BTreeMap<String, Content>,
}

/// How many rows a table has, and their digest, which does not depend on their order (§4).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Content {
    /// Rows.
    pub rows: u64,
    /// Sum of the digests of all rows.
    #[serde(with = "hex")]
    pub digest: u128,
}

mod hex {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(digest: &u128, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&format!("{digest:032x}"))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<u128, D::Error> {
        let text = String::deserialize(from)?;
        u128::from_str_radix(&text, 16).map_err(D::Error::custom)
    }
}

impl Content {
    /// Counts a row, as [`put_row`] wrote it.
    pub fn add(&mut self, row: &[u8]) {
        let digest: [u8; 32] = Sha256::digest(row).into();
        let first: [u8; 16] = std::array::from_fn(|at| digest[at]);
        self.rows += 1;
        self.digest = self.digest.wrapping_add(u128::from_be_bytes(first));
    }
}

/// A part of a backup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame {
    /// The first.
    Begin(Begin),
    /// Rows of this table follow.
    Table(Table),
    /// Rows.
    Rows(Rows),
    /// The last.
    End(End),
}

/// Rows of one table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rows {
    /// How many bytes they are, unpacked.
    pub plain_bytes: u32,
    /// They, packed by zstd.
    pub packed: Vec<u8>,
}

impl Frame {
    fn kind(&self) -> u8 {
        match self {
            Self::Begin(_) => b'B',
            Self::Table(_) => b'T',
            Self::Rows(_) => b'R',
            Self::End(_) => b'E',
        }
    }

    /// Writes the frame; the first one brings the beginning of the backup with it.
    pub fn put(&self, out: &mut Vec<u8>) {
        fn json(value: &impl Serialize) -> Vec<u8> {
            serde_json::to_vec(value).expect("plain data always serialises")
        }
        let content = match self {
            Self::Begin(begin) => json(begin),
            Self::Table(table) => json(table),
            Self::Rows(rows) => [&rows.plain_bytes.to_le_bytes(), &rows.packed[..]].concat(),
            Self::End(end) => json(end),
        };
        assert!(content.len() <= FRAME_BYTES_MAX, "frames are cut before they grow too long");
        if let Self::Begin(_) = self {
            out.extend(MAGIC);
            out.extend(VERSION.to_le_bytes());
        }
        let head = [&[self.kind(), 0, 0, 0][..], &(content.len() as u32).to_le_bytes()].concat();
        let sum = Crc32c::of(&head).extend(&content);
        out.extend(head);
        out.extend(sum.0.to_le_bytes());
        out.extend(content);
    }

    fn parse(kind: u8, content: &[u8]) -> Result<Self> {
        fn json<T: serde::de::DeserializeOwned>(content: &[u8]) -> Result<T> {
            serde_json::from_slice(content)
                .map_err(|cause| damaged(&format!("a frame cannot be read: {cause}")))
        }
        match kind {
            b'B' => json(content).map(Self::Begin),
            b'T' => json(content).map(Self::Table),
            b'E' => json(content).map(Self::End),
            b'R' => {
                let (length, packed) =
                    content.split_first_chunk().ok_or_else(|| damaged("a frame of rows is too short"))?;
                let plain_bytes = u32::from_le_bytes(*length);
                if plain_bytes as usize > FRAME_BYTES_MAX {
                    return Err(damaged("a frame of rows is too long"));
                }
                Ok(Self::Rows(Rows { plain_bytes, packed: packed.to_vec() }))
            }
            _ => Err(damaged(&format!("a frame of kind {kind:#04x}"))),
        }
    }
}

fn damaged(what: &str) -> Failure {
    Failure::corrupt(format!("the backup is damaged: {what}")).hint("take another one")
}

/// Takes a backup apart as it comes, and checks everything that can be checked without unpacking.
#[derive(Debug, Default)]
pub struct Decoder {
    bytes: Vec<u8>,
    /// How much of `bytes` was taken.
    taken: usize,
    state: State,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
    #[default]
    Fresh,
    Begun,
    InTable,
    Ended,
}

impl Decoder {
    /// Adds what was read.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.taken);
        self.taken = 0;
        self.bytes.extend_from_slice(bytes);
    }

    fn left(&self) -> &[u8] {
        &self.bytes[self.taken..]
    }

    /// The next frame; `None` if more must be read first.
    pub fn next_frame(&mut self) -> Result<Option<Frame>> {
        if self.state == State::Fresh && !self.take_beginning()? {
            return Ok(None);
        }
        let Some((head, rest)) = self.left().split_first_chunk::<HEAD_BYTES>() else { return Ok(None) };
        let word = |at: usize| u32::from_le_bytes(std::array::from_fn(|byte| head[at + byte]));
        let length = word(4) as usize;
        if length > FRAME_BYTES_MAX || head[1..4] != [0; 3] {
            return Err(damaged("a frame cannot be that long"));
        }
        let Some(content) = rest.get(..length) else { return Ok(None) };
        if Crc32c::of(&head[..8]).extend(content).0 != word(8) {
            return Err(damaged("the checksum of a frame is wrong"));
        }
        let frame = Frame::parse(head[0], content)?;
        self.taken += HEAD_BYTES + length;
        self.follow(&frame)?;
        Ok(Some(frame))
    }

    /// Whether magic and version are there.
    fn take_beginning(&mut self) -> Result<bool> {
        let length = MAGIC.len() + 4;
        let seen = self.left().len().min(MAGIC.len());
        if self.left()[..seen] != MAGIC[..seen] {
            return Err(
                Failure::invalid("this is no backup of a catalogue").hint("`bp backup FILE` makes one")
            );
        }
        let Some(version) = self.left().get(MAGIC.len()..length) else { return Ok(false) };
        let version = u32::from_le_bytes(std::array::from_fn(|at| version[at]));
        if version == 0 || version > VERSION {
            return Err(Failure::unsupported(format!(
                "the backup has version {version}, this release reads {VERSION}"
            ))
            .hint("use the newer release"));
        }
        self.taken += length;
        self.state = State::Begun;
        Ok(true)
    }

    /// Refuses frames that come out of order (§2).
    fn follow(&mut self, frame: &Frame) -> Result<()> {
        self.state = match (self.state, frame) {
            (State::Begun, Frame::Begin(_)) => State::InTable,
            (State::InTable, Frame::Table(_) | Frame::Rows(_)) => State::InTable,
            (State::InTable, Frame::End(_)) => State::Ended,
            _ => return Err(damaged("its parts are out of order")),
        };
        Ok(())
    }

    /// Says whether the backup was whole.
    pub fn finish(&self) -> Result<()> {
        if self.state == State::Ended && self.left().is_empty() {
            return Ok(());
        }
        Err(damaged("it ends too early, or too late"))
    }
}

/// A cell of a row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value<'a> {
    /// Nothing.
    Null,
    /// A whole number.
    Integer(i64),
    /// A number.
    Real(f64),
    /// A text.
    Text(&'a str),
    /// Bytes.
    Blob(&'a [u8]),
}

/// Writes the cells of a row (§3).
pub fn put_row<'a>(out: &mut Vec<u8>, cells: impl IntoIterator<Item = Value<'a>>) {
    let put_bytes = |out: &mut Vec<u8>, tag: u8, bytes: &[u8]| {
        out.push(tag);
        out.extend((bytes.len() as u32).to_le_bytes());
        out.extend(bytes);
    };
    for cell in cells {
        match cell {
            Value::Null => out.push(0),
            Value::Integer(value) => {
                out.push(1);
                out.extend(value.to_le_bytes());
            }
            Value::Real(value) => {
                out.push(2);
                out.extend(value.to_bits().to_le_bytes());
            }
            Value::Text(text) => put_bytes(out, 3, text.as_bytes()),
            Value::Blob(bytes) => put_bytes(out, 4, bytes),
        }
    }
}

/// Takes a row of so many cells from the front of `bytes`.
pub fn take_row<'a>(bytes: &mut &'a [u8], columns: usize) -> Result<Vec<Value<'a>>> {
    let short = || damaged("a row ends too early");
    fn number<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
        let (number, rest) = bytes.split_first_chunk()?;
        *bytes = rest;
        Some(*number)
    }
    fn text<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
        let length = u32::from_le_bytes(number(bytes)?) as usize;
        let (text, rest) = bytes.split_at_checked(length)?;
        *bytes = rest;
        Some(text)
    }
    let mut row = Vec::with_capacity(columns.min(64));
    for _ in 0..columns {
        let [tag] = number(bytes).ok_or_else(short)?;
        row.push(match tag {
            0 => Value::Null,
            1 => Value::Integer(i64::from_le_bytes(number(bytes).ok_or_else(short)?)),
            2 => Value::Real(f64::from_bits(u64::from_le_bytes(number(bytes).ok_or_else(short)?))),
            3 => {
                let text = std::str::from_utf8(text(bytes).ok_or_else(short)?);
                Value::Text(text.map_err(|_| damaged("a text is not UTF-8"))?)
            }
            4 => Value::Blob(text(bytes).ok_or_else(short)?),
            _ => return Err(damaged("a cell of an unknown kind")),
        });
    }
    Ok(row)
}

/// Fuzz body: a damaged backup is refused, never a panic; what is read is the same however it is cut.
pub fn fuzz_backup(data: &[u8]) {
    let read = |step: usize| {
        let (mut decoder, mut frames) = (Decoder::default(), Vec::new());
        for part in data.chunks(step) {
            decoder.push(part);
            while let Some(frame) = decoder.next_frame().ok()? {
                frames.push(frame);
            }
        }
        decoder.finish().ok()?;
        Some(frames)
    };
    assert_eq!(read(data.len().max(1)), read(7));
    let mut rows = data;
    while let Ok(row) = take_row(&mut rows, 3) {
        let mut again = Vec::new();
        put_row(&mut again, row);
        assert!(data[..data.len() - rows.len()].ends_with(&again));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sample() -> Vec<u8> {
        let begin = Begin {
            facility: "f".into(),
            name: "test".into(),
            release: "1".into(),
            taken: Timestamp(5),
            incarnation: 3,
            schema: [("sqlite".to_owned(), 4)].into(),
        };
        let table = Table { table: "t".into(), columns: vec!["a".into(), "b".into()] };
        let rows = Rows { plain_bytes: 9, packed: b"any bytes".to_vec() };
        let mut content = Content::default();
        content.add(b"any bytes");
        let end = End { tables: [("t".to_owned(), content)].into() };
        let mut out = Vec::new();
        for frame in [Frame::Begin(begin), Frame::Table(table), Frame::Rows(rows), Frame::End(end)] {
            frame.put(&mut out);
        }
        out
    }

    fn check(data: &[u8]) -> Result<usize> {
        let mut decoder = Decoder::default();
        decoder.push(data);
        let mut frames = 0;
        while decoder.next_frame()?.is_some() {
            frames += 1;
        }
        decoder.finish().map(|()| frames)
    }

    #[test]
    fn a_backup_that_was_cut_or_changed_anywhere_is_refused() {
        let good = sample();
        assert_eq!(check(&good).unwrap(), 4);
        fuzz_backup(&good);
        for at in 0..good.len() {
            assert!(check(&good[..at]).is_err(), "cut at {at}");
            let mut bad = good.clone();
            bad[at] ^= 0x10;
            assert!(check(&bad).is_err(), "changed at {at}");
            fuzz_backup(&bad);
        }
        assert!(check(&[&good[..], b"x"].concat()).is_err());
        assert!(check(&[&good[..], &good].concat()).is_err());
    }

    #[test]
    fn digests_do_not_depend_on_the_order() {
        let of = |rows: &[&[u8]]| {
            let mut content = Content::default();
            for row in rows {
                content.add(row);
            }
            content
        };
        assert_eq!(of(&[b"a", b"b", b"b"]), of(&[b"b", b"a", b"b"]));
        assert_ne!(of(&[b"a", b"b"]), of(&[b"a", b"c"]));
        assert_ne!(of(&[b"a", b"a"]).digest, 0);
    }

    #[test]
    fn rows_come_back() {
        let row =
            [Value::Null, Value::Integer(-7), Value::Real(0.5), Value::Text("é"), Value::Blob(&[0, 255])];
        let mut bytes = Vec::new();
        put_row(&mut bytes, row);
        put_row(&mut bytes, row);
        let mut left = &bytes[..];
        assert_eq!(take_row(&mut left, 5).unwrap(), row);
        assert_eq!(take_row(&mut left, 5).unwrap(), row);
        assert!(left.is_empty());
        assert!(take_row(&mut &bytes[..bytes.len() - 1], 10).is_err());
    }

    proptest! {
        #[test]
        fn noise_never_panics(data in prop::collection::vec(any::<u8>(), 0..300)) {
            fuzz_backup(&data);
        }
    }
}
