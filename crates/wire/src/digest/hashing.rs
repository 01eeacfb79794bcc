//! Sums of bytes that pass, beside those that the catalogue keeps.

use super::{DigestAlgorithm, Digests, Sum};

/// A sum under way, of any algorithm.
pub(super) trait Hasher: Send {
    /// Takes the next bytes.
    fn update(&mut self, bytes: &[u8]);
    /// What came out.
    fn finish(self: Box<Self>) -> Sum;
}

/// The state of an algorithm, and how it goes on.
struct Stream<T> {
    state: T,
    update: fn(&mut T, &[u8]),
    finish: fn(T) -> Sum,
}

impl<T: Send> Hasher for Stream<T> {
    fn update(&mut self, bytes: &[u8]) {
        (self.update)(&mut self.state, bytes);
    }

    fn finish(self: Box<Self>) -> Sum {
        (self.finish)(self.state)
    }
}

/// Begins a sum of any library.
pub(super) fn start<T: Send + 'static>(
    state: T,
    update: fn(&mut T, &[u8]),
    finish: fn(T) -> Sum,
) -> Box<dyn Hasher> {
    Box::new(Stream { state, update, finish })
}

/// Begins a hash of the family of crates that share the trait `Digest`.
pub(super) fn hash<D: sha2::Digest + Send + 'static>() -> Box<dyn Hasher> {
    start(D::new(), |hash, bytes| hash.update(bytes), |hash| Sum::new(&hash.finalize()))
}

/// Hashes under way.
#[derive(Default)]
pub struct Hashing {
    under_way: Vec<(DigestAlgorithm, Box<dyn Hasher>)>,
}

impl Hashing {
    /// Computes what is claimed and is not in the catalogue.
    #[must_use]
    pub fn for_claims(claimed: &Digests) -> Self {
        Self::of_all(&claimed.algorithms().collect::<Vec<_>>())
    }

    /// Computes those of these sums that are not in the catalogue.
    #[must_use]
    pub fn of_all(algorithms: &[DigestAlgorithm]) -> Self {
        let mut hashing = Self::default();
        for algorithm in algorithms.iter().filter(|algorithm| !algorithm.is_catalogued()) {
            hashing.add(*algorithm);
        }
        hashing
    }

    /// Computes one sum, also if the catalogue has it.
    #[must_use]
    pub fn of(algorithm: DigestAlgorithm) -> Self {
        let mut hashing = Self::default();
        hashing.add(algorithm);
        hashing
    }

    fn add(&mut self, algorithm: DigestAlgorithm) {
        if self.under_way.iter().all(|(known, _)| *known != algorithm) {
            self.under_way.push((algorithm, algorithm.start()));
        }
    }

    /// Takes the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        for (_, hasher) in &mut self.under_way {
            hasher.update(bytes);
        }
    }

    /// What came out, beside the sums that are `known` anyway.
    #[must_use]
    pub fn finish(self, known: Digests) -> Digests {
        let sums = self.under_way.into_iter();
        sums.fold(known, |digests, (algorithm, hasher)| digests.with(algorithm, hasher.finish()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Checksums;

    #[test]
    fn what_is_claimed_is_computed_beside_what_is_known() {
        let claims = Digests::parse(
            "md5=25f9e794323b453885f5181f1b624d0b,sha-256=15e2b0d3c33891ebb0f1ef609ec419420c20e320ce94c65fbc8c3312448eb225",
        );
        let claims = claims.unwrap();
        let mut hashing = Hashing::for_claims(&claims);
        hashing.update(b"123456789");
        let found = hashing.finish(Checksums::of(b"123456789").into());
        assert!(claims.check(&found).is_ok(), "{found:?}");
        assert_eq!(found.hex(DigestAlgorithm::Adler32).unwrap(), "091e01de");
    }

    #[test]
    fn a_sum_that_is_wanted_twice_is_computed_once() {
        let md5 = DigestAlgorithm::Md5;
        assert_eq!(Hashing::of_all(&[md5, DigestAlgorithm::Crc32c, md5]).under_way.len(), 1);
    }
}
