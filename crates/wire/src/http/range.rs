//! `Range`, `Content-Range` and `multipart/byteranges` (RFC 9110 §14).

use super::elements;
use base::{ByteRange, limits::READV_ELEMENTS_MAX};

/// What a `Range` field asks of a file of known size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ranges {
    /// The whole file, status 200: no field, another unit, or one that must or may be ignored.
    Whole,
    /// One range, not empty and within the file: status 206.
    One(ByteRange),
    /// Two or more such ranges in the order asked for: status 206 and `multipart/byteranges`.
    Many(Vec<ByteRange>),
    /// No byte of the file is in any range: status 416.
    Unsatisfiable,
}

/// Reads a `Range` field for a file of `size` bytes.
///
/// A malformed field is ignored, as RFC 9110 §14.2 demands. So is a field with more than [`READV_ELEMENTS_MAX`] ranges.
/// If overlapping ranges add up to more than twice the file, the field is ignored, too: sending the whole file is less
/// work.
///
/// ```
/// use wire::http::{Ranges, parse_ranges};
/// assert_eq!(parse_ranges(Some("bytes=0-4, -2"), 4), parse_ranges(Some("bytes=0-,2-3"), 4));
/// assert_eq!(parse_ranges(Some("bytes=4-"), 4), Ranges::Unsatisfiable);
/// ```
#[must_use]
pub fn parse_ranges(field: Option<&str>, size: u64) -> Ranges {
    let Some(specs) = field.and_then(specs_of) else {
        return Ranges::Whole;
    };
    let mut ranges = Vec::new();
    let mut total_bytes = 0u128;
    for (index, spec) in elements(specs).enumerate() {
        if index == READV_ELEMENTS_MAX {
            return Ranges::Whole;
        }
        let Some(range) = parse_spec(spec, size) else {
            return Ranges::Whole;
        };
        if !range.is_empty() {
            total_bytes += u128::from(range.length());
            ranges.push(range);
        }
    }
    match ranges[..] {
        [] => unsatisfied(specs, size),
        [one] => Ranges::One(one),
        _ if total_bytes > u128::from(size) * 2 => Ranges::Whole,
        _ => Ranges::Many(ranges),
    }
}

/// The ranges after `bytes=`; none for another unit.
fn specs_of(field: &str) -> Option<&str> {
    let (unit, specs) = field.trim().split_once('=')?;
    unit.trim_end().eq_ignore_ascii_case("bytes").then_some(specs)
}

/// A suffix of an empty file is satisfiable but cannot be said in `Content-Range`: the answer is the whole, empty file.
fn unsatisfied(specs: &str, size: u64) -> Ranges {
    let mut is_empty = true;
    let mut has_suffix = false;
    for spec in elements(specs) {
        is_empty = false;
        has_suffix |= spec.strip_prefix('-').and_then(number).is_some_and(|length| length > 0);
    }
    if is_empty || size == 0 && has_suffix { Ranges::Whole } else { Ranges::Unsatisfiable }
}

/// One range clipped to the file, empty if it is unsatisfiable; none if it is malformed.
fn parse_spec(spec: &str, size: u64) -> Option<ByteRange> {
    let (first, last) = spec.split_once('-')?;
    let range = match (first.is_empty(), last.is_empty()) {
        (true, true) => return None,
        (true, false) => ByteRange { offset: size.saturating_sub(number(last)?), end: size },
        (false, true) => ByteRange { offset: number(first)?, end: size },
        (false, false) => {
            let (first, last) = (number(first)?, number(last)?);
            if last < first {
                return None;
            }
            ByteRange { offset: first, end: last.saturating_add(1) }
        }
    };
    Some(range.clip(size))
}

/// Digits as a number; what exceeds 64 bits is as good as the largest number, because no file is that long.
fn number(digits: &str) -> Option<u64> {
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    Some(digits.parse().unwrap_or(u64::MAX))
}

/// `Content-Range` of a part of a file of `size` bytes. The range must not be empty.
#[must_use]
pub fn content_range(range: ByteRange, size: u64) -> String {
    debug_assert!(!range.is_empty() && range.end <= size);
    format!("bytes {}-{}/{size}", range.offset, range.end.saturating_sub(1))
}

/// `Content-Range` of an answer with status 416.
#[must_use]
pub fn unsatisfied_range(size: u64) -> String {
    format!("bytes */{size}")
}

/// The frame around several ranges of one file: for each part its head, then its bytes; after the last part the tail.
#[derive(Debug, Clone)]
pub struct Multipart<'a> {
    /// Separates the parts; must not occur in the data, so make it of random characters.
    pub boundary: &'a str,
    /// Media type of the file.
    pub content_type: &'a str,
    /// Bytes of the file.
    pub size: u64,
}

impl Multipart<'_> {
    /// `Content-Type` of the whole answer.
    #[must_use]
    pub fn content_type(&self) -> String {
        format!("multipart/byteranges; boundary={}", self.boundary)
    }

    /// What stands before the bytes of `range`.
    #[must_use]
    pub fn part_head(&self, range: ByteRange) -> String {
        format!(
            "\r\n--{}\r\nContent-Type: {}\r\nContent-Range: {}\r\n\r\n",
            self.boundary,
            self.content_type,
            content_range(range, self.size)
        )
    }

    /// What stands after the last byte.
    #[must_use]
    pub fn tail(&self) -> String {
        format!("\r\n--{}--\r\n", self.boundary)
    }

    /// `Content-Length` of the whole answer.
    #[must_use]
    pub fn length(&self, ranges: &[ByteRange]) -> u64 {
        let parts = ranges.iter().map(|range| self.part_head(*range).len() as u64 + range.length());
        parts.sum::<u64>() + self.tail().len() as u64
    }
}

/// Fuzz body: whatever the field says, the answer stays within the file and the bounds.
pub fn fuzz_ranges(data: &[u8]) {
    let Some((size, text)) = data.split_first_chunk::<8>() else {
        return;
    };
    let size = u64::from_le_bytes(*size);
    let ranges = match parse_ranges(Some(&String::from_utf8_lossy(text)), size) {
        Ranges::Whole | Ranges::Unsatisfiable => return,
        Ranges::One(range) => vec![range],
        Ranges::Many(ranges) => ranges,
    };
    assert!(ranges.len() <= READV_ELEMENTS_MAX);
    assert!(ranges.iter().all(|range| !range.is_empty() && range.end <= size));
    assert!(ranges.iter().map(|range| u128::from(range.length())).sum::<u128>() <= u128::from(size) * 2);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn range(offset: u64, end: u64) -> ByteRange {
        ByteRange { offset, end }
    }

    fn parse(field: &str, size: u64) -> Ranges {
        parse_ranges(Some(field), size)
    }

    #[test]
    fn the_examples_of_the_rfc() {
        assert_eq!(parse("bytes=0-499", 10_000), Ranges::One(range(0, 500)));
        assert_eq!(parse("bytes=-500", 10_000), Ranges::One(range(9500, 10_000)));
        assert_eq!(parse("bytes=9500-", 10_000), Ranges::One(range(9500, 10_000)));
        assert_eq!(parse("bytes=0-0,-1", 10_000), Ranges::Many(vec![range(0, 1), range(9999, 10_000)]));
        let many = vec![range(0, 1000), range(4500, 5500), range(9000, 10_000)];
        assert_eq!(parse("bytes= 0-999, 4500-5499, -1000", 10_000), Ranges::Many(many));
        assert_eq!(content_range(range(42, 1234), 1234), "bytes 42-1233/1234");
        assert_eq!(unsatisfied_range(1234), "bytes */1234");
    }

    #[test]
    fn malformed_fields_are_ignored() {
        for bad in [
            "",
            "bytes",
            "bytes=",
            "bytes=-",
            "bytes=5-2",
            "bytes=a-b",
            "bytes=0-1,x",
            "bytes=+1-2",
            "bytes=1 - 2",
            "lines=0-1",
            "bytes 0-1",
            "bytes=0-1-2",
            "bytes=,",
        ] {
            assert_eq!(parse(bad, 100), Ranges::Whole, "{bad:?}");
        }
        assert_eq!(parse_ranges(None, 100), Ranges::Whole);
    }

    #[test]
    fn ranges_beyond_the_end() {
        assert_eq!(parse("bytes=90-2000", 100), Ranges::One(range(90, 100)));
        assert_eq!(parse("bytes=-2000", 100), Ranges::One(range(0, 100)));
        assert_eq!(parse("bytes=0-99999999999999999999999999", 100), Ranges::One(range(0, 100)));
        assert_eq!(parse("bytes=100-", 100), Ranges::Unsatisfiable);
        assert_eq!(parse("bytes=-0", 100), Ranges::Unsatisfiable);
        assert_eq!(parse("bytes=100-,0-1", 100), Ranges::One(range(0, 2)));
        assert_eq!(parse("bytes=0-", 0), Ranges::Unsatisfiable);
        assert_eq!(parse("bytes=-5", 0), Ranges::Whole);
    }

    #[test]
    fn greedy_fields_get_the_whole_file() {
        let many = format!("bytes={}", "0-0,".repeat(READV_ELEMENTS_MAX + 1));
        assert_eq!(parse(&many, 1 << 20), Ranges::Whole);
        assert_eq!(parse("bytes=0-,0-,0-", 100), Ranges::Whole);
        assert!(matches!(parse("bytes=0-,0-", 100), Ranges::Many(_)));
    }

    #[test]
    fn the_frame_has_the_length_it_says() {
        let frame = Multipart { boundary: "b0", content_type: "application/octet-stream", size: 10 };
        let ranges = [range(0, 2), range(8, 10)];
        let mut body = Vec::new();
        for part in ranges {
            body.extend_from_slice(frame.part_head(part).as_bytes());
            body.extend_from_slice(&b"0123456789"[part.offset as usize..part.end as usize]);
        }
        body.extend_from_slice(frame.tail().as_bytes());
        assert_eq!(frame.length(&ranges), body.len() as u64);
        assert!(body.ends_with(b"89\r\n--b0--\r\n"));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(offset in 0u64..1 << 60, length in 1u64..1 << 40, more in 0u64..1 << 40) {
            let asked = range(offset, offset + length);
            let field = format!("bytes={}-{}", offset, asked.end - 1);
            prop_assert_eq!(parse(&field, asked.end + more), Ranges::One(asked));
        }

        #[test]
        fn noise_stays_within_the_file(size in 0u64..300, text in "(bytes=)?[0-9,\\- ]{0,40}") {
            let mut data = size.to_le_bytes().to_vec();
            data.extend_from_slice(text.as_bytes());
            fuzz_ranges(&data);
        }

        #[test]
        fn bytes_never_panic(data in prop::collection::vec(any::<u8>(), 0..80)) {
            fuzz_ranges(&data);
        }
    }
}
