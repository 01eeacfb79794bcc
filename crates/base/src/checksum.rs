//! Adler-32 (customary in the field) and CRC-32C: streaming, combinable, and for writes in any order.

use crate::Failure;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, fmt, str::FromStr};

macro_rules! checksum {
    ($($(#[$doc:meta])* $name:ident = $label:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(pub u32);

        impl fmt::Display for $name {
            /// Eight lower-case hex digits, as `xrdadler32` prints.
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result { write!(f, "{:08x}", self.0) }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result { write!(f, "{}:{self}", $label) }
        }
        impl FromStr for $name {
            type Err = Failure;
            fn from_str(text: &str) -> Result<Self, Failure> {
                let digits = (1..=8).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_hexdigit());
                let value = if digits { u32::from_str_radix(text, 16).ok() } else { None };
                value.map(Self).ok_or_else(|| {
                    Failure::invalid(format!("{} {text:?} is not up to 8 hex digits", $label))
                })
            }
        }
        impl TryFrom<String> for $name {
            type Error = Failure;
            fn try_from(text: String) -> Result<Self, Failure> { text.parse() }
        }
        impl From<$name> for String {
            fn from(value: $name) -> Self { value.to_string() }
        }
    )*};
}

checksum! {
    /// Adler-32 (RFC 1950) of a whole file.
    Adler32 = "adler32";
    /// CRC-32C (RFC 3720) of a whole file, or of one page on the wire.
    Crc32c = "crc32c";
}

const ADLER_MODULUS: u64 = 65_521;

impl Adler32 {
    /// Returns the sum of no bytes.
    pub const EMPTY: Self = Self(1);

    /// Returns the sum of `bytes`.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self::EMPTY.extend(bytes)
    }

    /// Returns the sum of the bytes so far followed by `bytes`.
    #[must_use]
    pub fn extend(self, bytes: &[u8]) -> Self {
        let mut running = simd_adler32::Adler32::from_checksum(self.0);
        running.write(bytes);
        Self(running.finish())
    }

    /// Returns the sum of A followed by B, from the sums of A and B and the length of B.
    #[must_use]
    pub fn combine(self, next: Self, next_bytes: u64) -> Self {
        let (a1, b1) = (u64::from(self.0 & 0xffff), u64::from(self.0 >> 16));
        let (a2, b2) = (u64::from(next.0 & 0xffff), u64::from(next.0 >> 16));
        let length = next_bytes % ADLER_MODULUS;
        let a = (a1 + a2 + ADLER_MODULUS - 1) % ADLER_MODULUS;
        let b = (b1 + b2 + length * (a1 + ADLER_MODULUS - 1)) % ADLER_MODULUS;
        Self((b << 16 | a) as u32)
    }
}

impl Crc32c {
    /// Returns the sum of no bytes.
    pub const EMPTY: Self = Self(0);

    /// Returns the sum of `bytes`.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(crc32c::crc32c(bytes))
    }

    /// Returns the sum of the bytes so far followed by `bytes`.
    #[must_use]
    pub fn extend(self, bytes: &[u8]) -> Self {
        Self(crc32c::crc32c_append(self.0, bytes))
    }

    /// Returns the sum of A followed by B, from the sums of A and B and the length of B.
    #[must_use]
    pub fn combine(self, next: Self, next_bytes: u64) -> Self {
        Self(crc32c::crc32c_combine(self.0, next.0, next_bytes as usize))
    }
}

/// The checksums that every replica and copy carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Checksums {
    /// Adler-32.
    pub adler32: Adler32,
    /// CRC-32C.
    pub crc32c: Crc32c,
}

impl Checksums {
    /// Returns the sum of no bytes.
    pub const EMPTY: Self = Self { adler32: Adler32::EMPTY, crc32c: Crc32c::EMPTY };

    /// Returns the sum of `bytes`.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self::EMPTY.extend(bytes)
    }

    /// Returns the sum of the bytes so far followed by `bytes`.
    #[must_use]
    pub fn extend(self, bytes: &[u8]) -> Self {
        Self { adler32: self.adler32.extend(bytes), crc32c: self.crc32c.extend(bytes) }
    }

    /// Returns the sum of A followed by B, from the sums of A and B and the length of B.
    #[must_use]
    pub fn combine(self, next: Self, next_bytes: u64) -> Self {
        Self {
            adler32: self.adler32.combine(next.adler32, next_bytes),
            crc32c: self.crc32c.combine(next.crc32c, next_bytes),
        }
    }
}

/// Checksums of a file whose pieces arrive in any order.
///
/// Each piece is summed once, as it passes. Adjacent pieces are combined, so a sequential writer costs one entry.
/// Rewriting bytes that were written before makes the sum unknown: then the file must be read again.
#[derive(Debug, Clone, Default)]
pub struct StreamSums {
    /// Start of a run of bytes → its length and sums.
    runs: BTreeMap<u64, (u64, Checksums)>,
    is_overwritten: bool,
}

/// Runs kept apart before the sum is given up: bounds memory against a hostile scatter of writes.
const RUNS_MAX: usize = 65_536;

impl StreamSums {
    /// Takes the piece `bytes` that was written at `offset`.
    pub fn update(&mut self, offset: u64, bytes: &[u8]) {
        if bytes.is_empty() || self.is_overwritten {
            return;
        }
        let end = offset + bytes.len() as u64;
        let before =
            self.runs.range(..end).next_back().map(|(start, (length, sums))| (*start, *length, *sums));
        match before {
            Some((start, length, _)) if start + length > offset => self.is_overwritten = true,
            Some((start, length, sums)) if start + length == offset => {
                self.runs.insert(start, (length + bytes.len() as u64, sums.extend(bytes)));
                self.join(start);
            }
            _ => {
                self.runs.insert(offset, (bytes.len() as u64, Checksums::of(bytes)));
                self.join(offset);
            }
        }
        self.is_overwritten |= self.runs.len() > RUNS_MAX;
        if self.is_overwritten {
            self.runs.clear();
        }
    }

    /// Joins the run at `start` with the one that follows it without a gap.
    fn join(&mut self, start: u64) {
        let Some((length, sums)) = self.runs.get(&start).copied() else { return };
        if let Some((next_length, next)) = self.runs.remove(&(start + length)) {
            self.runs.insert(start, (length + next_length, sums.combine(next, next_length)));
        }
    }

    /// The sums if every byte of `0..size` was written exactly once; `None` means read the file again.
    #[must_use]
    pub fn finish(&self, size: u64) -> Option<Checksums> {
        if size == 0 && self.runs.is_empty() && !self.is_overwritten {
            return Some(Checksums::EMPTY);
        }
        let (length, sums) = self.runs.get(&0)?;
        (self.runs.len() == 1 && *length == size).then_some(*sums)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;
    use proptest::prelude::*;

    #[test]
    fn known_answers() {
        assert_eq!(Adler32::of(b"Wikipedia").to_string(), "11e60398");
        assert_eq!(Crc32c::of(b"123456789").to_string(), "e3069283");
        assert_eq!("11e60398".parse::<Adler32>().unwrap(), Adler32(0x11e6_0398));
        assert!("+1e60398".parse::<Adler32>().is_err());
    }

    proptest! {
        #[test]
        fn combined_is_the_sum_of_the_whole(data in prop::collection::vec(any::<u8>(), 0..4000), cut in 0usize..4000) {
            let cut = cut.min(data.len());
            let (a, b) = data.split_at(cut);
            prop_assert_eq!(Checksums::of(a).combine(Checksums::of(b), b.len() as u64), Checksums::of(&data));
        }

        #[test]
        fn pieces_in_any_order_give_the_sum(data in prop::collection::vec(any::<u8>(), 0..2000), piece in 1usize..300, seed: u64) {
            let mut pieces: Vec<_> = data.chunks(piece).enumerate().collect();
            let mut rng = Rng::new(seed);
            for i in (1..pieces.len()).rev() {
                pieces.swap(i, rng.below(i as u64 + 1) as usize);
            }
            let mut sums = StreamSums::default();
            for (index, bytes) in pieces {
                sums.update((index * piece) as u64, bytes);
            }
            prop_assert_eq!(sums.finish(data.len() as u64), Some(Checksums::of(&data)));
        }

        #[test]
        fn a_rewrite_or_a_gap_is_never_summed(size in 2u64..500, at in 0u64..500) {
            let at = at % size;
            let data = vec![7u8; size as usize];
            let mut rewritten = StreamSums::default();
            rewritten.update(0, &data);
            rewritten.update(at, &[1]);
            prop_assert_eq!(rewritten.finish(size), None);
            let mut gap = StreamSums::default();
            gap.update(0, &data[..at as usize]);
            gap.update(at + 1, &data[at as usize + 1..]);
            prop_assert_eq!(gap.finish(size), None);
        }
    }
}
