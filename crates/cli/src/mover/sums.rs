//! Checksums that are computed while bytes pass.

use base::{Adler32, Crc32c};

/// Checksums that servers keep and we compute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Adler32,
    Crc32c,
}

impl Kind {
    /// The best of what a server offers, as its configuration lists it: `0:adler32,1:crc32c`.
    pub(crate) fn choose(offered: &str) -> Option<Self> {
        let names: Vec<_> =
            offered.split([',', ' ', '\n']).map(|word| word.rsplit(':').next().unwrap_or_default()).collect();
        let has = |name: &str| names.iter().any(|offered| offered.eq_ignore_ascii_case(name));
        // Processors have an instruction for the one.
        if has("crc32c") {
            Some(Self::Crc32c)
        } else if has("adler32") {
            Some(Self::Adler32)
        } else {
            None
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Adler32 => "adler32",
            Self::Crc32c => "crc32c",
        }
    }
}

/// A checksum of what has passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Running {
    /// Nobody wants one.
    None,
    Adler32(Adler32),
    Crc32c(Crc32c),
}

impl Running {
    pub(crate) fn new(kind: Option<Kind>) -> Self {
        match kind {
            None => Self::None,
            Some(Kind::Adler32) => Self::Adler32(Adler32::EMPTY),
            Some(Kind::Crc32c) => Self::Crc32c(Crc32c::EMPTY),
        }
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::None => {}
            Self::Adler32(sum) => *sum = sum.extend(bytes),
            Self::Crc32c(sum) => *sum = sum.extend(bytes),
        }
    }

    /// The kind, and the value as servers write it.
    pub(crate) fn value(self) -> Option<(Kind, String)> {
        match self {
            Self::None => None,
            Self::Adler32(sum) => Some((Kind::Adler32, sum.to_string())),
            Self::Crc32c(sum) => Some((Kind::Crc32c, sum.to_string())),
        }
    }
}

/// Whether two values are the same number; servers leave zeros out or write capitals.
pub(crate) fn is_same(ours: &str, theirs: &str) -> bool {
    let number = |text: &str| u32::from_str_radix(text.trim(), 16).ok();
    number(ours).is_some_and(|ours| number(theirs) == Some(ours))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_of_what_is_offered_is_taken() {
        assert_eq!(Kind::choose("0:adler32,1:crc32c"), Some(Kind::Crc32c));
        assert_eq!(Kind::choose("0:ADLER32,1:md5"), Some(Kind::Adler32));
        assert_eq!((Kind::choose("0:md5"), Kind::choose("chksum")), (None, None));
        assert!(is_same("00ab12cd", "AB12CD") && !is_same("00ab12cd", "ab12ce") && !is_same("x", "x"));
    }
}
