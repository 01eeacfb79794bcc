//! Sums of bytes that pass, beside those that the catalogue keeps.

use super::cksum::Cksum;
use crc32fast::Hasher as Crc32;
use md5::{Digest as _, Md5};
use sha1::Sha1;
use sha2::{Sha256, Sha512};
use wire::http::{DigestAlgorithm, Digests};

/// Hashes under way.
#[derive(Default)]
pub struct Hashing {
    crc32: Option<Crc32>,
    cksum: Option<Cksum>,
    md5: Option<Md5>,
    sha1: Option<Sha1>,
    sha256: Option<Sha256>,
    sha512: Option<Sha512>,
}

impl Hashing {
    /// Computes what is claimed.
    pub fn for_claims(claimed: &Digests) -> Self {
        Self::of_all(&claimed.algorithms().collect::<Vec<_>>())
    }

    /// Computes these sums.
    pub fn of_all(algorithms: &[DigestAlgorithm]) -> Self {
        let mut hashing = Self::default();
        for algorithm in algorithms {
            hashing.add(*algorithm);
        }
        hashing
    }

    /// Computes one sum.
    pub(super) fn of(algorithm: DigestAlgorithm) -> Self {
        Self::of_all(&[algorithm])
    }

    fn add(&mut self, algorithm: DigestAlgorithm) {
        match algorithm {
            // The catalogue has them.
            DigestAlgorithm::Adler32 | DigestAlgorithm::Crc32c => {}
            DigestAlgorithm::Crc32 => self.crc32 = Some(Crc32::new()),
            DigestAlgorithm::Cksum => self.cksum = Some(Cksum::default()),
            DigestAlgorithm::Md5 => self.md5 = Some(Md5::new()),
            DigestAlgorithm::Sha1 => self.sha1 = Some(Sha1::new()),
            DigestAlgorithm::Sha256 => self.sha256 = Some(Sha256::new()),
            DigestAlgorithm::Sha512 => self.sha512 = Some(Sha512::new()),
        }
    }

    /// Takes the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        if let Some(crc32) = &mut self.crc32 {
            crc32.update(bytes);
        }
        if let Some(cksum) = &mut self.cksum {
            cksum.update(bytes);
        }
        if let Some(md5) = &mut self.md5 {
            md5.update(bytes);
        }
        if let Some(sha1) = &mut self.sha1 {
            sha1.update(bytes);
        }
        if let Some(sha256) = &mut self.sha256 {
            sha256.update(bytes);
        }
        if let Some(sha512) = &mut self.sha512 {
            sha512.update(bytes);
        }
    }

    /// What came out, beside the sums that are `known` anyway.
    pub fn finish(self, known: Digests) -> Digests {
        Digests {
            crc32: self.crc32.map(Crc32::finalize).or(known.crc32),
            cksum: self.cksum.map(Cksum::finish).or(known.cksum),
            md5: self.md5.map(|md5| md5.finalize().into()).or(known.md5),
            sha1: self.sha1.map(|sha1| sha1.finalize().into()).or(known.sha1),
            sha256: self.sha256.map(|sha256| sha256.finalize().into()).or(known.sha256),
            sha512: self.sha512.map(|sha512| sha512.finalize().into()).or(known.sha512),
            ..known
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Checksums;

    #[test]
    fn known_answers() {
        let claims = Digests::parse(
            "md5=25f9e794323b453885f5181f1b624d0b,sha-256=15e2b0d3c33891ebb0f1ef609ec419420c20e320ce94c65fbc8c3312448eb225",
        );
        let claims = claims.unwrap();
        let mut hashing = Hashing::for_claims(&claims);
        hashing.update(b"1234");
        hashing.update(b"56789");
        let found = hashing.finish(Checksums::of(b"123456789").into());
        assert!(claims.check(&found).is_ok(), "{found:?}");
        assert_eq!(found.adler32.unwrap().to_string(), "091e01de");
        let others =
            Digests::parse("crc32=cbf43926,UNIXcksum=930766865,sha=f7c3bc1d808e04732adf679965ccc34ca7ae3441")
                .unwrap();
        let mut hashing = Hashing::for_claims(&others);
        hashing.update(b"123456789");
        assert_eq!(hashing.finish(Digests::default()), others);
    }
}
