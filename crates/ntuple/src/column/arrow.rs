//! The Arrow schema that Arrow's writers leave in the metadata of a file.
//!
//! It is read for one thing that Parquet itself cannot say: that a column of 64-bit integers holds durations, and in
//! which unit. It is a FlatBuffers message in base64 (arrow/format/Message.fbs, Schema.fbs; flatbuffers.dev/internals).
//! What does not make sense is taken for no schema, as other readers do: it is a remark, not the data.

use super::declared::Unit;
use base64::{Engine as _, engine::general_purpose::STANDARD_PAD_INDIFFERENT as BASE64};
use std::collections::HashMap;

/// Key of the schema in the metadata of a file.
pub(super) const KEY: &str = "ARROW:schema";
/// What stands before the message.
const CONTINUATION: u32 = 0xffff_ffff;
/// `MessageHeader.Schema`
const HEADER_SCHEMA: u8 = 1;
/// `Type.Duration`
const TYPE_DURATION: u8 = 18;
/// Fields of one schema: bounds the work on a damaged one.
const FIELDS_MAX: usize = 1 << 20;

/// Units of the columns that are durations, by name.
pub(super) fn durations(base64: &str) -> HashMap<String, Unit> {
    BASE64.decode(base64).ok().and_then(|bytes| fields(&bytes)).unwrap_or_default()
}

fn fields(bytes: &[u8]) -> Option<HashMap<String, Unit>> {
    let start = if Buffer(bytes).u32(0)? == CONTINUATION { 8 } else { 4 };
    let buffer = Buffer(bytes.get(start..)?);
    let message = buffer.table_at(0)?;
    // Message: version, header_type, header; Schema: endianness, fields.
    if message.u8(1)? != HEADER_SCHEMA {
        return None;
    }
    let schema = message.table(2)?;
    let mut durations = HashMap::new();
    for at in schema.vector(1)? {
        let field = buffer.table_at(at)?;
        // Field: name, nullable, type_type, type; Duration: unit, a millisecond if left out.
        if field.u8(2) == Some(TYPE_DURATION) {
            let unit = match field.table(3)?.u16(0) {
                None | Some(1) => Unit::Ms,
                Some(0) => Unit::S,
                Some(2) => Unit::Us,
                Some(3) => Unit::Ns,
                Some(_) => return None,
            };
            durations.insert(field.text(0)?.to_owned(), unit);
        }
    }
    Some(durations)
}

/// A FlatBuffers buffer; every access is checked.
#[derive(Clone, Copy)]
struct Buffer<'a>(&'a [u8]);

impl<'a> Buffer<'a> {
    fn bytes<const N: usize>(self, at: usize) -> Option<[u8; N]> {
        self.0.get(at..at.checked_add(N)?)?.try_into().ok()
    }

    fn u16(self, at: usize) -> Option<u16> {
        self.bytes(at).map(u16::from_le_bytes)
    }

    fn u32(self, at: usize) -> Option<u32> {
        self.bytes(at).map(u32::from_le_bytes)
    }

    /// The place to which the offset at `at` leads.
    fn follow(self, at: usize) -> Option<usize> {
        at.checked_add(self.u32(at)? as usize)
    }

    /// The table to which the offset at `at` leads.
    fn table_at(self, at: usize) -> Option<Table<'a>> {
        let start = self.follow(at)?;
        let back = i32::from_le_bytes(self.bytes(start)?);
        let vtable = usize::try_from(i64::try_from(start).ok()? - i64::from(back)).ok()?;
        Some(Table { buffer: self, start, vtable })
    }
}

#[derive(Clone, Copy)]
struct Table<'a> {
    buffer: Buffer<'a>,
    start: usize,
    vtable: usize,
}

impl<'a> Table<'a> {
    /// Place of a field; `None` if it has its default.
    fn field(self, number: usize) -> Option<usize> {
        let at = 4 + 2 * number;
        if at + 2 > usize::from(self.buffer.u16(self.vtable)?) {
            return None;
        }
        match self.buffer.u16(self.vtable.checked_add(at)?)? {
            0 => None,
            offset => self.start.checked_add(usize::from(offset)),
        }
    }

    fn u8(self, number: usize) -> Option<u8> {
        self.buffer.0.get(self.field(number)?).copied()
    }

    fn u16(self, number: usize) -> Option<u16> {
        self.buffer.u16(self.field(number)?)
    }

    fn table(self, number: usize) -> Option<Self> {
        self.buffer.table_at(self.field(number)?)
    }

    /// Places of the offsets in a vector.
    fn vector(self, number: usize) -> Option<impl Iterator<Item = usize> + use<'a>> {
        let start = self.buffer.follow(self.field(number)?)?;
        let count = (self.buffer.u32(start)? as usize).min(FIELDS_MAX);
        Some((0..count).map(move |index| start + 4 + 4 * index))
    }

    fn text(self, number: usize) -> Option<&'a str> {
        let start = self.buffer.follow(self.field(number)?)?;
        let end = (start + 4).checked_add(self.buffer.u32(start)? as usize)?;
        std::str::from_utf8(self.buffer.0.get(start + 4..end)?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Written by pyarrow 26 for `n: int64, s: duration[s], ms: duration[ms], us: duration[us], ns: duration[ns]`.
    const SAMPLE: &str = "/////zABAAAQAAAAAAAKAAwABgAFAAgACgAAAAABBAAMAAAACAAIAAAABAAIAAAABAAAAAUAAADIAAAAiAAAAFwAAAAwAAAABAAAAFz///8AAAESEAAAABQAAAAEAAAAAAAAAAIAAABucwAAiv///wAAAwCE////AAABEhAAAAAUAAAABAAAAAAAAAACAAAAdXMAALL///8AAAIArP///wAAARIQAAAAGAAAAAQAAAAAAAAAAgAAAG1zAAAEAAQABAAAANT///8AAAESEAAAABgAAAAEAAAAAAAAAAEAAABzAAYACAAGAAYAAAAAAAAAEAAUAAgABgAHAAwAAAAQABAAAAAAAAECEAAAABwAAAAEAAAAAAAAAAEAAABuAAAACAAMAAgABwAIAAAAAAAAAUAAAAAAAAAA";

    #[test]
    fn durations_are_found_with_their_units() {
        let found = durations(SAMPLE);
        let expected = [("s", Unit::S), ("ms", Unit::Ms), ("us", Unit::Us), ("ns", Unit::Ns)];
        assert_eq!(found, expected.map(|(name, unit)| (name.to_owned(), unit)).into());
        assert!(durations("").is_empty() && durations("no base64").is_empty());
    }

    proptest! {
        #[test]
        fn any_bytes_never_panic(text in "[A-Za-z0-9+/=]{0,300}", at: prop::sample::Index, letter in "[A-Za-z0-9+/]") {
            durations(&text);
            let mut damaged = SAMPLE.to_owned();
            let at = at.index(damaged.len());
            damaged.replace_range(at..=at, &letter);
            durations(&damaged);
        }
    }
}
