//! The fields of a label: fixed widths, ASCII, padded with spaces or zeros.

use base::{ErrorKind, Failure, Vid};
use std::fmt;

/// Bytes of every label.
pub const LABEL_BYTES: usize = 80;

/// The bytes of one label.
pub type Label = [u8; LABEL_BYTES];

/// Why 80 bytes are not the label they should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LabelError {
    /// A block of another length.
    #[error("a block of {length} bytes stands where a label of {LABEL_BYTES} bytes is expected")]
    Length {
        /// Bytes of the block.
        length: usize,
    },
    /// Another label, or no label.
    #[error("{found:?} stands where label {expected} is expected")]
    Kind {
        /// The labels that would do.
        expected: &'static str,
        /// The first four characters.
        found: String,
    },
    /// A field that does not hold what it may.
    #[error("label {label}: field {field} holds {found:?}, which is not {expected}")]
    Field {
        /// The label.
        label: &'static str,
        /// The field, as `spec/tape.md` names it.
        field: &'static str,
        /// What it holds, non-ASCII bytes replaced.
        found: String,
        /// What it may hold.
        expected: &'static str,
    },
}

impl From<LabelError> for Failure {
    fn from(error: LabelError) -> Self {
        Self::new(ErrorKind::Corrupt, error.to_string())
    }
}

/// Printable ASCII of at most `N` characters without spaces at the end: a field that is padded with spaces.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Text<const N: usize>(String);

impl<const N: usize> Text<N> {
    /// Takes `text` if it fits the field.
    pub fn new(text: &str) -> Result<Self, Failure> {
        let is_legal = text.len() <= N && text.bytes().all(is_printable) && !text.ends_with(' ');
        if is_legal {
            return Ok(Self(text.to_owned()));
        }
        Err(Failure::invalid(format!("{text:?} is not up to {N} printable ASCII characters")))
    }

    /// Makes `text` fit: upper case, the first `N` characters, `_` for what is not printable ASCII.
    ///
    /// For names of hosts and devices, which are notes for people, never compared.
    #[must_use]
    pub fn fitted(text: &str) -> Self {
        let legal = |c: char| {
            if c == ' ' || c.is_ascii_graphic() { c.to_ascii_uppercase() } else { '_' }
        };
        let cut: String = text.trim().chars().take(N).map(legal).collect();
        Self(cut.trim_end().to_owned())
    }

    /// The text without padding.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<const N: usize> fmt::Debug for Text<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<const N: usize> fmt::Display for Text<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn is_printable(byte: u8) -> bool {
    (b' '..=b'~').contains(&byte)
}

/// Fills a label from left to right. Widths are constants of the label's own code, so a field that does not fit, or a
/// label that is not 80 long, is our bug.
pub(super) struct FieldWriter {
    label: Label,
    at: usize,
}

impl FieldWriter {
    pub(super) fn new(name: &str) -> Self {
        Self { label: [b' '; LABEL_BYTES], at: 0 }.text(name, 4)
    }

    /// Left-justified, padded with spaces.
    pub(super) fn text(mut self, text: &str, width: usize) -> Self {
        assert!(text.len() <= width, "{text:?} is wider than its field of {width}");
        self.label[self.at..self.at + text.len()].copy_from_slice(text.as_bytes());
        self.at += width;
        self
    }

    pub(super) fn spaces(self, width: usize) -> Self {
        self.text("", width)
    }

    /// Right-justified decimal, padded with zeros.
    pub(super) fn number(self, value: u32, width: usize) -> Self {
        self.text(&format!("{value:0width$}"), width)
    }

    pub(super) fn finish(self) -> Label {
        assert_eq!(self.at, LABEL_BYTES, "the fields of a label do not fill it");
        self.label
    }
}

/// Takes a label apart from left to right.
pub(super) struct FieldReader<'a> {
    name: &'static str,
    rest: &'a [u8],
}

impl<'a> FieldReader<'a> {
    /// Begins if `block` is one of the labels `names`; returns also which.
    pub(super) fn new(
        block: &'a [u8],
        names: &'static [&'static str],
        expected: &'static str,
    ) -> Result<(Self, &'static str), LabelError> {
        if block.len() != LABEL_BYTES {
            return Err(LabelError::Length { length: block.len() });
        }
        let (head, rest) = block.split_at(4);
        match names.iter().find(|name| name.as_bytes() == head) {
            Some(name) => Ok((Self { name, rest }, name)),
            None => Err(LabelError::Kind { expected, found: shown(head) }),
        }
    }

    fn take(&mut self, width: usize) -> &'a [u8] {
        let (field, rest) = self.rest.split_at(width.min(self.rest.len()));
        self.rest = rest;
        field
    }

    pub(super) fn refuse(&self, field: &'static str, found: &[u8], expected: &'static str) -> LabelError {
        LabelError::Field { label: self.name, field, found: shown(found), expected }
    }

    /// A field of any content.
    pub(super) fn skip(&mut self, width: usize) {
        self.take(width);
    }

    /// A field that is always `expected`, which also gives the width.
    pub(super) fn constant(&mut self, field: &'static str, expected: &'static str) -> Result<(), LabelError> {
        let found = self.take(expected.len());
        if found == expected.as_bytes() { Ok(()) } else { Err(self.refuse(field, found, expected)) }
    }

    pub(super) fn spaces(&mut self, field: &'static str, width: usize) -> Result<(), LabelError> {
        let found = self.take(width);
        if found.iter().all(|byte| *byte == b' ') { Ok(()) } else { Err(self.refuse(field, found, "spaces")) }
    }

    /// The field as ASCII, padding and all.
    pub(super) fn raw(&mut self, field: &'static str, width: usize) -> Result<&'a str, LabelError> {
        let found = self.take(width);
        let text = std::str::from_utf8(found).ok().filter(|text| text.bytes().all(is_printable));
        text.ok_or_else(|| self.refuse(field, found, "printable ASCII"))
    }

    pub(super) fn text<const N: usize>(&mut self, field: &'static str) -> Result<Text<N>, LabelError> {
        Ok(Text(self.raw(field, N)?.trim_end_matches(' ').to_owned()))
    }

    /// All digits.
    pub(super) fn number(&mut self, field: &'static str, width: usize) -> Result<u32, LabelError> {
        let text = self.raw(field, width)?;
        let digits = text.bytes().all(|byte| byte.is_ascii_digit());
        let value = if digits { text.parse().ok() } else { None };
        value.ok_or_else(|| self.refuse(field, text.as_bytes(), "a decimal number below 2^32"))
    }

    pub(super) fn vsn(&mut self) -> Result<Vid, LabelError> {
        let text = self.raw("VSN", 6)?;
        let vid = text.trim_end_matches(' ').parse();
        vid.map_err(|_| self.refuse("VSN", text.as_bytes(), "1 to 6 characters A-Z 0-9"))
    }
}

/// Bytes for people: ASCII as it is, anything else as `?`.
fn shown(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| if is_printable(*byte) { char::from(*byte) } else { '?' }).collect()
}
