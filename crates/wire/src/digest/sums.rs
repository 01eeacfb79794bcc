//! Sums of one content: those that a sender claims, or those that are known.

use super::DigestAlgorithm;
use base::{Checksums, Failure, Result, hex};
use std::fmt;

/// Bytes of the longest sum.
const BYTES_MAX: usize = 64;

/// One sum, in network order.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Sum {
    bytes: [u8; BYTES_MAX],
    length: u8,
}

impl Sum {
    /// Of these bytes, of which there are [`BYTES_MAX`] at most.
    pub(crate) fn new(sum: &[u8]) -> Self {
        let mut bytes = [0; BYTES_MAX];
        bytes[..sum.len()].copy_from_slice(sum);
        Self { bytes, length: sum.len() as u8 }
    }

    /// Its bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

impl From<u32> for Sum {
    fn from(sum: u32) -> Self {
        Self::new(&sum.to_be_bytes())
    }
}

impl From<u64> for Sum {
    fn from(sum: u64) -> Self {
        Self::new(&sum.to_be_bytes())
    }
}

impl fmt::Debug for Sum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(self.as_bytes()))
    }
}

/// Sums of one content: those that a sender claims, or those that are known.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Digests {
    /// In the order of [`DigestAlgorithm::ALL`].
    sums: [Option<Sum>; DigestAlgorithm::COUNT],
}

impl From<Checksums> for Digests {
    fn from(sums: Checksums) -> Self {
        Self::default().with_checksums(sums)
    }
}

impl fmt::Debug for Digests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = self.algorithms().map(|algorithm| (algorithm, self.get(algorithm)));
        f.debug_map().entries(known).finish()
    }
}

impl Digests {
    /// One sum.
    #[must_use]
    pub fn get(&self, algorithm: DigestAlgorithm) -> Option<Sum> {
        self.sums[algorithm as usize]
    }

    /// These, and this one.
    #[must_use]
    pub fn with(mut self, algorithm: DigestAlgorithm, sum: Sum) -> Self {
        self.sums[algorithm as usize] = Some(sum);
        self
    }

    /// These, and those of the catalogue.
    #[must_use]
    pub fn with_checksums(self, sums: Checksums) -> Self {
        self.with(DigestAlgorithm::Adler32, sums.adler32.0.into())
            .with(DigestAlgorithm::Crc32c, sums.crc32c.0.into())
    }

    /// Whether nothing is claimed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether a sum is claimed that the catalogue does not keep: it must be computed from the bytes.
    #[must_use]
    pub fn needs_hashing(&self) -> bool {
        self.algorithms().any(|algorithm| !algorithm.is_catalogued())
    }

    /// The sums that are known.
    pub fn algorithms(&self) -> impl Iterator<Item = DigestAlgorithm> {
        DigestAlgorithm::ALL.into_iter().filter(|algorithm| self.has(*algorithm))
    }

    /// Whether a sum is known.
    #[must_use]
    pub fn has(&self, algorithm: DigestAlgorithm) -> bool {
        self.get(algorithm).is_some()
    }

    /// Whether at least one sum is known to both.
    #[must_use]
    pub fn is_comparable(&self, other: &Self) -> bool {
        self.algorithms().any(|algorithm| other.has(algorithm))
    }

    /// One sum in hexadecimal.
    #[must_use]
    pub fn hex(&self, algorithm: DigestAlgorithm) -> Option<String> {
        self.get(algorithm).map(|sum| hex(sum.as_bytes()))
    }

    /// Adds all claims of another field of the same message.
    pub fn merge(&mut self, other: &Self) -> Result<()> {
        for algorithm in other.algorithms() {
            if self.has(algorithm) && self.get(algorithm) != other.get(algorithm) {
                return Err(Failure::invalid(format!("digest {} is given twice", algorithm.as_str())));
            }
        }
        for (known, new) in self.sums.iter_mut().zip(other.sums) {
            *known = new.or(*known);
        }
        Ok(())
    }

    /// Compares each claim with what arrived. A claim about a sum that is not in `arrived` is not compared.
    pub fn check(&self, arrived: &Self) -> Result<()> {
        for algorithm in self.algorithms() {
            let (Some(claimed), Some(found)) = (self.get(algorithm), arrived.get(algorithm)) else {
                continue;
            };
            if claimed != found {
                let (name, found, claimed) =
                    (algorithm.as_str(), algorithm.text(found), algorithm.text(claimed));
                return Err(Failure::corrupt(format!("{name} of what arrived is {found}, not {claimed}"))
                    .hint("send it again; nothing was stored"));
            }
        }
        Ok(())
    }
}
