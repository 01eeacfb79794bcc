//! What is asked about ranges of an open file beyond the protocol: space, holes and copies (spec/share.md §11).

use super::{FileHandle, Malformed, frame::text};
use base::ByteRange;

/// The first word of such a query.
const WORD: &str = "bp.range";
/// What ends a grant.
const FENCE: &str = "fence";

/// How a range of a live object is to be changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RangeChange {
    /// Space is taken for it. Bytes behind the end become zeros of the file.
    Allocate,
    /// The same, but the end stays where it is.
    Reserve,
    /// It becomes a hole. The end stays where it is.
    Punch,
    /// Its bytes become zeros, with their space. The end stays where it is.
    Zero,
}

/// What is looked for from an offset on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RangeKind {
    /// Bytes that may differ from zero.
    Data,
    /// Zeros without space. Every file has one where it ends.
    Hole,
}

/// A query about a range of an open file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RangeQuery {
    /// A change.
    Change(RangeChange, ByteRange),
    /// Where the next bytes of a kind begin.
    Find(RangeKind, u64),
    /// Bytes of a file that is open in the same session are copied here. In one file they must not overlap.
    Copy {
        /// The file.
        source: FileHandle,
        /// Which of its bytes.
        from: ByteRange,
        /// Where to.
        to: u64,
    },
    /// The grant of this open writes nothing from now on (spec/share.md §4).
    Fence,
}

/// Bytes that one query copies at most: the fences of the object wait for it.
pub const RANGE_COPY_BYTES_MAX: u64 = 64 << 20;

const CHANGES: [(&str, RangeChange); 4] = [
    ("allocate", RangeChange::Allocate),
    ("reserve", RangeChange::Reserve),
    ("punch", RangeChange::Punch),
    ("zero", RangeChange::Zero),
];
const KINDS: [(&str, RangeKind); 2] = [("data", RangeKind::Data), ("hole", RangeKind::Hole)];

impl RangeQuery {
    /// The arguments of the query on the open file.
    #[must_use]
    pub fn to_text(&self) -> String {
        match self {
            Self::Change(change, ByteRange { offset, end }) => {
                format!("{WORD} {} {offset} {end}", name(&CHANGES, *change))
            }
            Self::Find(kind, offset) => format!("{WORD} {} {offset}", name(&KINDS, *kind)),
            Self::Fence => format!("{WORD} {FENCE}"),
            Self::Copy { source, from: ByteRange { offset, end }, to } => {
                format!("{WORD} copy {offset} {end} {to} {}", source.number())
            }
        }
    }

    /// Parses the arguments of a query; `None` if they are about something else. Ranges have bytes, and end where files can.
    pub fn parse(args: &[u8]) -> Result<Option<Self>, Malformed> {
        let Ok(text) = text(args, "query arguments") else { return Ok(None) };
        let mut words = text.split(' ');
        if words.next() != Some(WORD) {
            return Ok(None);
        }
        let verb = words.next().unwrap_or_default();
        let numbers: Option<Vec<u64>> = words.map(offset).collect();
        let numbers = numbers.ok_or(Malformed::Missing("offsets of a range"))?;
        Self::of(verb, &numbers).map(Some).ok_or(Malformed::Missing("a range and what is to be done with it"))
    }

    fn of(verb: &str, numbers: &[u64]) -> Option<Self> {
        let range = |offset, end| (offset < end).then_some(ByteRange { offset, end });
        match *numbers {
            [] => (verb == FENCE).then_some(Self::Fence),
            [offset] => Some(Self::Find(value(&KINDS, verb)?, offset)),
            [offset, end] => Some(Self::Change(value(&CHANGES, verb)?, range(offset, end)?)),
            [offset, end, to, source] if verb == "copy" => {
                let from = range(offset, end).filter(|from| from.length() <= RANGE_COPY_BYTES_MAX)?;
                to.checked_add(from.length()).filter(|end| *end <= OFFSET_MAX)?;
                let source = FileHandle::of(u32::try_from(source).ok()?);
                Some(Self::Copy { source, from, to })
            }
            _ => None,
        }
    }
}

/// Offsets are signed in file systems.
const OFFSET_MAX: u64 = i64::MAX as u64;

fn offset(word: &str) -> Option<u64> {
    word.parse().ok().filter(|offset| *offset <= OFFSET_MAX)
}

fn name<T: Copy + PartialEq>(names: &[(&'static str, T)], value: T) -> &'static str {
    names.iter().find(|(_, named)| *named == value).map_or("", |(name, _)| *name)
}

fn value<T: Copy>(names: &[(&'static str, T)], name: &str) -> Option<T> {
    names.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
}

/// Where the next bytes were found, or the start of the object that is fenced, as the body of the answer; empty if nowhere.
#[must_use]
pub fn found_to_text(found: Option<u64>) -> String {
    found.map_or_else(String::new, |offset| offset.to_string())
}

/// Parses the answer.
pub fn parse_found(body: &[u8]) -> Result<Option<u64>, Malformed> {
    match text(body, "an offset")? {
        "" => Ok(None),
        word => offset(word).map(Some).ok_or(Malformed::Missing("an offset")),
    }
}

/// Fuzz body: whatever a client says, no panic.
pub fn fuzz_range_query(data: &[u8]) {
    if let Ok(Some(query)) = RangeQuery::parse(data) {
        assert_eq!(RangeQuery::parse(query.to_text().as_bytes()), Ok(Some(query)));
    }
    let _ = parse_found(data);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn query() -> impl Strategy<Value = RangeQuery> {
        let range = (0..OFFSET_MAX / 2, 1..OFFSET_MAX / 2)
            .prop_map(|(offset, length)| ByteRange { offset, end: offset + length });
        let change = prop::sample::select(CHANGES.map(|(_, change)| change).to_vec());
        let kind = prop::sample::select(KINDS.map(|(_, kind)| kind).to_vec());
        prop_oneof![
            (change, range.clone()).prop_map(|(change, range)| RangeQuery::Change(change, range)),
            (kind, 0..=OFFSET_MAX).prop_map(|(kind, offset)| RangeQuery::Find(kind, offset)),
            (0..OFFSET_MAX / 2, 1..=RANGE_COPY_BYTES_MAX, 0..OFFSET_MAX / 2, any::<u32>()).prop_map(copy),
            Just(RangeQuery::Fence),
        ]
    }

    fn copy((offset, length, to, source): (u64, u64, u64, u32)) -> RangeQuery {
        let from = ByteRange { offset, end: offset + length };
        RangeQuery::Copy { source: FileHandle::of(source), from, to }
    }

    proptest! {
        #[test]
        fn what_is_asked_is_understood(query in query(), found: Option<u32>, junk in prop::collection::vec(any::<u8>(), 0..60)) {
            let text = query.to_text();
            prop_assert_eq!(RangeQuery::parse(text.as_bytes()), Ok(Some(query)));
            let longer = format!("{text} 1 2 3");
            prop_assert!(RangeQuery::parse(longer.as_bytes()).is_err());
            let found = found.map(u64::from);
            prop_assert_eq!(parse_found(found_to_text(found).as_bytes()), Ok(found));
            fuzz_range_query(&junk);
        }
    }

    #[test]
    fn other_queries_are_left_alone_and_odd_ranges_refused() {
        for other in [&b"bp.expect size=1 crc32c=00000000"[..], b"", b"\xff", b"bp.ranges punch 0 1"] {
            assert_eq!(RangeQuery::parse(other), Ok(None));
        }
        let odd = [
            "bp.range",
            "bp.range punch",
            "bp.range punch 5",
            "bp.range punch 5 5",
            "bp.range punch 6 5",
            "bp.range data -1",
            "bp.range data 9223372036854775808",
            "bp.range dig 1 2",
            "bp.range copy 0 10 9223372036854775800 1",
            "bp.range copy 0 67108865 9 1",
            "bp.range copy 0 1 9 4294967296",
            "bp.range punch  1 2",
        ];
        for odd in odd {
            assert!(RangeQuery::parse(odd.as_bytes()).is_err(), "{odd}");
        }
    }
}
