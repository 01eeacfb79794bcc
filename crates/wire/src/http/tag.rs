//! Entity tags and the fields that compare them (RFC 9110 §8.8.3, §13.1).

use super::{elements, parse_http_date};
use base::{Checksums, FileId, Timestamp};
use std::fmt;

/// A strong entity tag: equal tags mean equal bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntityTag(String);

impl EntityTag {
    /// The tag of a file's present content.
    ///
    /// A rewrite in the same millisecond still differs by its sums; a recall from tape keeps the tag.
    #[must_use]
    pub fn of(file: FileId, modified: Timestamp, sums: &Checksums) -> Self {
        Self(format!("\"{:x}-{:x}-{}{}\"", file.0, modified.0, sums.adler32, sums.crc32c))
    }

    /// The tag with its quotes, as it stands in `ETag`.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether `If-Match` holds: `*` or a tag that is equal and strong. With this answer false: 412.
    #[must_use]
    pub fn is_match(&self, if_match: &str) -> bool {
        if_match.trim() == "*" || elements(if_match).any(|tag| tag == self.0)
    }

    /// Whether `If-None-Match` holds: neither `*` nor an equal tag, weak or strong. With this answer false: 304 for
    /// reading, 412 for writing.
    #[must_use]
    pub fn is_none_match(&self, if_none_match: &str) -> bool {
        let is_equal = |tag: &str| tag.strip_prefix("W/").unwrap_or(tag) == self.0;
        if_none_match.trim() != "*" && !elements(if_none_match).any(is_equal)
    }

    /// Whether `If-Range` holds, so that `Range` counts: this tag, or the very date of `Last-Modified`.
    #[must_use]
    pub fn is_if_range(&self, if_range: &str, modified: Timestamp) -> bool {
        let if_range = if_range.trim();
        if_range == self.0 || parse_http_date(if_range) == Some(modified.seconds())
    }
}

impl fmt::Display for EntityTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Fuzz body: conditions never panic.
pub fn fuzz_tag(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let tag = EntityTag::of(FileId(7), Timestamp(0), &Checksums::EMPTY);
    assert!(!(tag.is_match(&text) && tag.is_none_match(&text)));
    let _ = tag.is_if_range(&text, Timestamp(0));
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn conditions() {
        let modified = Timestamp(784_111_777_500);
        let tag = EntityTag::of(FileId(0x1f), modified, &Checksums::of(b"123456789"));
        assert_eq!(tag.as_str(), "\"1f-b690b436dc-091e01dee3069283\"");
        let weak = format!("W/{tag}");
        let list = format!("\"x\" , {tag}");
        assert!(tag.is_match("*") && tag.is_match(&list) && !tag.is_match(&weak) && !tag.is_match("\"x\""));
        assert!(!tag.is_none_match("*") && !tag.is_none_match(&list) && !tag.is_none_match(&weak));
        assert!(tag.is_none_match("\"x\"") && tag.is_none_match(""));
        assert!(tag.is_if_range(tag.as_str(), modified) && !tag.is_if_range(&weak, modified));
        assert!(tag.is_if_range("Sun, 06 Nov 1994 08:49:37 GMT", modified));
        assert!(!tag.is_if_range("Sun, 06 Nov 1994 08:49:38 GMT", modified));
    }

    #[test]
    fn other_content_has_another_tag() {
        let one = EntityTag::of(FileId(1), Timestamp(5), &Checksums::of(b"a"));
        assert_ne!(one, EntityTag::of(FileId(1), Timestamp(5), &Checksums::of(b"b")));
        assert_ne!(one, EntityTag::of(FileId(1), Timestamp(6), &Checksums::of(b"a")));
        assert_ne!(one, EntityTag::of(FileId(2), Timestamp(5), &Checksums::of(b"a")));
    }

    proptest! {
        #[test]
        fn noise_never_panics(data in prop::collection::vec(any::<u8>(), 0..60)) {
            fuzz_tag(&data);
        }
    }
}
