//! What a footer says of its column chunks that the library does not tell: encryption, codecs and encodings that are
//! defined by newer versions of the format than the library knows, data in other files.
//!
//! The library skips the first and fails on the second as if the footer were damaged. This reads the same bytes (Thrift
//! compact protocol; parquet-format, parquet.thrift), and takes from them just what decides whether a column can be read.

use std::collections::BTreeMap;

/// Nesting of a footer: the deepest struct that the format defines is seven deep.
const DEPTH_MAX: usize = 32;

/// Why the chunks of some leaves cannot be read, by the name of the leaf; the first reason of each.
#[derive(Debug, Default)]
pub(super) struct UnreadableLeaves {
    /// By name of the leaf, with dots.
    pub(super) columns: BTreeMap<String, String>,
    /// Whether a place in the file is negative, which the library does not expect.
    pub(super) misplaced: Option<String>,
}

/// Looks through the footer. What cannot be parsed is left to the library, which says what is wrong with it.
pub(super) fn obstacles(footer: &[u8]) -> UnreadableLeaves {
    let mut found = UnreadableLeaves::default();
    // FileMetaData: row_groups is 4; RowGroup: columns is 1.
    let _ = Compact(footer).fields(0, &mut |id, kind, file| match id {
        4 => file.structs(kind, 1, &mut |id, kind, group| match id {
            1 => group.chunks(kind, &mut found),
            _ => group.skip(kind, 2),
        }),
        _ => file.skip(kind, 1),
    });
    found
}

/// What is taken of one column chunk.
#[derive(Default)]
struct Chunk {
    name: String,
    file: Option<String>,
    is_encrypted: bool,
    codec: i64,
    encodings: Vec<i64>,
    least_offset: i64,
}

impl Chunk {
    fn obstacle(&self) -> Option<String> {
        if self.is_encrypted {
            return Some("is encrypted".to_owned());
        }
        if let Some(file) = self.file.as_ref().filter(|file| !file.is_empty()) {
            return Some(format!("is in another file, {file:?}"));
        }
        match self.codec {
            0..=2 | 4..=7 => {}
            3 => return Some("is compressed with LZO, which is not supported".to_owned()),
            codec => return Some(format!("is compressed with codec {codec}, which is not known")),
        }
        // 1 was never used; up to 10 they are known, and whether they fit the type is seen when a page is read.
        let unknown = self.encodings.iter().find(|encoding| !matches!(encoding, 0 | 2..=10));
        unknown.map(|encoding| format!("is stored in encoding {encoding}, which is not known"))
    }
}

/// The unread rest of a message in the compact protocol. `None` of any method means that it makes no sense.
struct Compact<'a>(&'a [u8]);

const TRUE: u8 = 1;
const FALSE: u8 = 2;
const BYTE: u8 = 3;
const INTEGERS: std::ops::RangeInclusive<u8> = 4..=6;
const DOUBLE: u8 = 7;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const SET: u8 = 10;
const MAP: u8 = 11;
const STRUCT: u8 = 12;
const UUID: u8 = 13;

type Field<'f, 'a> = &'f mut dyn FnMut(i64, u8, &mut Compact<'a>) -> Option<()>;

impl<'a> Compact<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    fn integer(&mut self) -> Option<i64> {
        let value = self.varint()?;
        Some((value >> 1).cast_signed() ^ -(value & 1).cast_signed())
    }

    fn binary(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.varint()?).ok()?;
        self.take(length)
    }

    fn text(&mut self) -> Option<String> {
        self.binary().map(|bytes| String::from_utf8_lossy(bytes).into_owned())
    }

    /// Calls `each` with number and type of every field of a struct; it reads the value.
    fn fields(&mut self, depth: usize, each: Field<'_, 'a>) -> Option<()> {
        if depth > DEPTH_MAX {
            return None;
        }
        let mut id = 0i64;
        loop {
            let head = self.byte()?;
            let kind = head & 0x0f;
            if kind == 0 {
                return Some(());
            }
            id = if head >> 4 == 0 { self.integer()? } else { id + i64::from(head >> 4) };
            each(id, kind, self)?;
        }
    }

    /// Number and type of the elements of a list.
    fn list(&mut self, kind: u8) -> Option<(u64, u8)> {
        if kind != LIST && kind != SET {
            return None;
        }
        let head = self.byte()?;
        let count = if head >> 4 == 15 { self.varint()? } else { u64::from(head >> 4) };
        // Every element takes a byte at least.
        (count <= self.0.len() as u64).then_some((count, head & 0x0f))
    }

    /// Calls `each` with every field of every struct of a list.
    fn structs(&mut self, kind: u8, depth: usize, each: Field<'_, 'a>) -> Option<()> {
        let (count, kind) = self.list(kind)?;
        for _ in 0..count {
            (kind == STRUCT).then_some(())?;
            self.fields(depth, each)?;
        }
        Some(())
    }

    /// Skips a value. `depth` is that of the struct around it.
    fn skip(&mut self, kind: u8, depth: usize) -> Option<()> {
        match kind {
            TRUE | FALSE => {}
            BYTE => drop(self.byte()?),
            kind if INTEGERS.contains(&kind) => drop(self.varint()?),
            DOUBLE => drop(self.take(8)?),
            UUID => drop(self.take(16)?),
            BINARY => drop(self.binary()?),
            LIST | SET => {
                let (count, kind) = self.list(kind)?;
                self.skip_elements(count, kind, depth)?;
            }
            MAP => {
                let count = self.varint()?;
                let kinds = if count == 0 { 0 } else { self.byte()? };
                (count <= self.0.len() as u64).then_some(())?;
                for _ in 0..count {
                    self.skip_elements(1, kinds >> 4, depth)?;
                    self.skip_elements(1, kinds & 0x0f, depth)?;
                }
            }
            STRUCT => self.fields(depth + 1, &mut |_, kind, inner| inner.skip(kind, depth + 1))?,
            _ => return None,
        }
        Some(())
    }

    fn skip_elements(&mut self, count: u64, kind: u8, depth: usize) -> Option<()> {
        (depth <= DEPTH_MAX).then_some(())?;
        for _ in 0..count {
            match kind {
                // Inside of containers a truth value takes a byte.
                TRUE | FALSE => drop(self.byte()?),
                kind => self.skip(kind, depth + 1)?,
            }
        }
        Some(())
    }

    /// The chunks of a row group. ColumnChunk: file_path 1, meta_data 3, crypto_metadata 8, encrypted_column_metadata 9.
    fn chunks(&mut self, kind: u8, found: &mut UnreadableLeaves) -> Option<()> {
        let (count, kind) = self.list(kind)?;
        for _ in 0..count {
            (kind == STRUCT).then_some(())?;
            let mut chunk = Chunk::default();
            self.fields(2, &mut |id, kind, rest| match (id, kind) {
                (1, BINARY) => {
                    chunk.file = Some(rest.text()?);
                    Some(())
                }
                (3, STRUCT) => rest.metadata(&mut chunk),
                (8, STRUCT) => {
                    chunk.is_encrypted = true;
                    rest.key(&mut chunk)
                }
                (9, BINARY) => {
                    chunk.is_encrypted = true;
                    rest.skip(kind, 3)
                }
                (_, kind) => rest.skip(kind, 3),
            })?;
            if chunk.least_offset < 0 {
                found
                    .misplaced
                    .get_or_insert_with(|| format!("column {:?} begins before the file", chunk.name));
            }
            if let Some(obstacle) = chunk.obstacle() {
                found.columns.entry(chunk.name).or_insert(obstacle);
            }
        }
        Some(())
    }

    /// ColumnMetaData: encodings 2, path_in_schema 3, codec 4, total_compressed_size 7, data_page_offset 9,
    /// dictionary_page_offset 11.
    fn metadata(&mut self, chunk: &mut Chunk) -> Option<()> {
        self.fields(3, &mut |id, kind, rest| {
            match id {
                2 => {
                    let (count, _) = rest.list(kind)?;
                    chunk.encodings = (0..count).map(|_| rest.integer()).collect::<Option<_>>()?;
                }
                3 => chunk.name = rest.path(kind)?,
                4 => chunk.codec = rest.integer()?,
                7 | 9 | 11 => chunk.least_offset = chunk.least_offset.min(rest.integer()?),
                _ => rest.skip(kind, 4)?,
            }
            Some(())
        })
    }

    /// ColumnCryptoMetaData: ENCRYPTION_WITH_COLUMN_KEY 2, in which path_in_schema is 1. Where the metadata of the column
    /// are encrypted as well, its name stands here only.
    fn key(&mut self, chunk: &mut Chunk) -> Option<()> {
        self.fields(3, &mut |id, kind, union| match (id, kind) {
            (2, STRUCT) => union.fields(4, &mut |id, kind, rest| match id {
                1 => {
                    chunk.name = rest.path(kind)?;
                    Some(())
                }
                _ => rest.skip(kind, 5),
            }),
            (_, kind) => union.skip(kind, 4),
        })
    }

    fn path(&mut self, kind: u8) -> Option<String> {
        let (count, _) = self.list(kind)?;
        let parts = (0..count).map(|_| self.text()).collect::<Option<Vec<_>>>()?;
        Some(parts.join("."))
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::testing::{Data, Layout, write},
        *,
    };
    use proptest::prelude::*;

    fn footer() -> Vec<u8> {
        let columns = [
            ("x", "required float", Data::F32(vec![Some(1.0); 2500])),
            ("n", "optional int64", Data::I64(vec![Some(1); 2500])),
        ];
        let bytes = write(&columns, &Layout::default());
        let end = bytes.len() - 8;
        let length = u32::from_le_bytes(bytes[end..end + 4].try_into().unwrap()) as usize;
        bytes[end - length..end].to_vec()
    }

    /// The bytes of a chunk's metadata up to its codec, with another value for the codec or the first encoding.
    fn patched(path: &[u8], codec: Option<u8>, encoding: Option<u8>) -> Vec<u8> {
        let mut footer = footer();
        // path_in_schema: field 3, a list of one string; then codec: field 4, a zigzag number.
        let mut head = vec![0x19, 0x18, path.len() as u8];
        head.extend(path);
        head.push(0x15);
        let at = footer.windows(head.len()).position(|bytes| bytes == head).unwrap();
        if let Some(codec) = codec {
            footer[at + head.len()] = codec << 1;
        }
        if let Some(encoding) = encoding {
            footer[at - 1] = encoding << 1;
        }
        footer
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        let found = |footer: &[u8]| obstacles(footer).columns.into_iter().collect::<Vec<_>>();
        assert_eq!(found(&footer()), []);
        let named = |name: &str, why: &str| [(name.to_owned(), why.to_owned())];
        assert_eq!(
            found(&patched(b"x", Some(3), None)),
            named("x", "is compressed with LZO, which is not supported")
        );
        assert_eq!(
            found(&patched(b"n", Some(8), None)),
            named("n", "is compressed with codec 8, which is not known")
        );
        assert_eq!(
            found(&patched(b"n", None, Some(11))),
            named("n", "is stored in encoding 11, which is not known")
        );
    }

    #[test]
    fn encrypted_and_distant_chunks_are_named() {
        // FileMetaData with one row group of one chunk, field by field.
        let file = |chunk: &[u8]| [&[0x49, 0x1c, 0x19, 0x1c], chunk, &[0, 0, 0]].concat();
        let metadata = b"\x3c\x39\x18\x01x\x15\x00\x00";
        let found = |chunk: &[u8]| obstacles(&file(chunk)).columns.into_iter().next();
        let named = |why: &str| Some(("x".to_owned(), why.to_owned()));
        assert_eq!(found(metadata), None);
        let with_key = [&metadata[..], b"\x5c\x2c\x19\x18\x01x\x00\x00"].concat();
        assert_eq!(found(&with_key), named("is encrypted"));
        assert_eq!(found(b"\x8c\x2c\x19\x18\x01x\x00\x00"), named("is encrypted"));
        let with_footer_key = [&metadata[..], b"\x5c\x1c\x00\x00"].concat();
        assert_eq!(found(&with_footer_key), named("is encrypted"));
        let elsewhere = b"\x18\x06a.data\x2c\x39\x18\x01x\x15\x00\x00";
        assert_eq!(found(elsewhere), named("is in another file, \"a.data\""));
        assert_eq!(found(b"\x18\x00\x2c\x39\x18\x01x\x15\x00\x00"), None);
    }

    proptest! {
        #[test]
        fn any_bytes_never_panic(data in prop::collection::vec(any::<u8>(), 0..300), at: prop::sample::Index, byte: u8) {
            obstacles(&data);
            let mut damaged = footer();
            let at = at.index(damaged.len());
            damaged[at] = byte;
            obstacles(&damaged);
        }
    }
}
