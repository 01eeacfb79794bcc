//! MD5 and SHA-256 of bytes that pass.

use md5::{Digest as _, Md5};
use sha2::Sha256;
use wire::http::{DigestAlgorithm, Digests};

/// Hashes under way.
#[derive(Default)]
pub(crate) struct Hashing {
    md5: Option<Md5>,
    sha256: Option<Sha256>,
}

impl Hashing {
    /// Computes what is claimed.
    pub(crate) fn for_claims(claimed: &Digests) -> Self {
        Self { md5: claimed.md5.map(|_| Md5::new()), sha256: claimed.sha256.map(|_| Sha256::new()) }
    }

    /// Computes one sum.
    pub(super) fn of(algorithm: DigestAlgorithm) -> Self {
        Self {
            md5: (algorithm == DigestAlgorithm::Md5).then(Md5::new),
            sha256: (algorithm == DigestAlgorithm::Sha256).then(Sha256::new),
        }
    }

    /// Takes the next bytes.
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        if let Some(md5) = &mut self.md5 {
            md5.update(bytes);
        }
        if let Some(sha256) = &mut self.sha256 {
            sha256.update(bytes);
        }
    }

    /// What came out, beside the sums that are `known` anyway.
    pub(crate) fn finish(self, known: Digests) -> Digests {
        Digests {
            md5: self.md5.map(|md5| md5.finalize().into()),
            sha256: self.sha256.map(|sha256| sha256.finalize().into()),
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
    }
}
