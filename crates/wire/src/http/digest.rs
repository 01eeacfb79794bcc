//! Checksums in header fields: `Want-Digest` and `Digest` (RFC 3230), `Want-Repr-Digest` and `Repr-Digest` (RFC 9530),
//! `Content-MD5` (RFC 1864), `OC-Checksum` (ownCloud).
//!
//! The sums themselves are in [`crate::digest`]. `Digest` has numbers in hexadecimal, as in the registry of RFC 3230
//! and in the storage systems of the grid, but `UNIXcksum` in decimal. Hashes are base64 of their bytes in network
//! order. Readers accept both hex and base64.

use super::elements;
use crate::digest::{DigestAlgorithm, Digests, Sum, algorithm::Form};
use base::{Failure, Result, unhex};
use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};

/// The algorithms that a `Want-Digest` field accepts and we have, the most wanted first.
///
/// ```
/// use wire::{digest::DigestAlgorithm::*, http::wanted_digests};
/// assert_eq!(wanted_digests("unixsum, crc32c;q=0.5, ADLER32"), [Adler32, Crc32c]);
/// ```
#[must_use]
pub fn wanted_digests(want: &str) -> Vec<DigestAlgorithm> {
    by_weight(want, |element| {
        let (name, parameters) = element.split_once(';').unwrap_or((element, ""));
        (name, weight(parameters))
    })
}

/// The algorithms that a `Want-Repr-Digest` field accepts (`sha-256=10, md5=0`: weights from 0 to 10) and we have.
#[must_use]
pub fn wanted_repr_digests(want: &str) -> Vec<DigestAlgorithm> {
    by_weight(want, |element| {
        let (name, weight) = element.split_once('=').unwrap_or((element, "10"));
        (name, weight.trim().parse::<u32>().map_or(0, |weight| weight.min(10)))
    })
}

/// Known algorithms with a weight above zero, the heaviest first, each once.
fn by_weight<'a>(want: &'a str, read: impl Fn(&'a str) -> (&'a str, u32)) -> Vec<DigestAlgorithm> {
    let mut wanted: Vec<(DigestAlgorithm, u32)> = Vec::with_capacity(DigestAlgorithm::ALL.len());
    for element in elements(want) {
        let (name, weight) = read(element);
        let Some(algorithm) = DigestAlgorithm::by_name(name.trim()) else {
            continue;
        };
        if weight > 0 && wanted.iter().all(|(known, _)| *known != algorithm) {
            wanted.push((algorithm, weight));
        }
    }
    // The sort is stable: equals stay in the client's order.
    wanted.sort_by_key(|(_, weight)| std::cmp::Reverse(*weight));
    wanted.into_iter().map(|(algorithm, _)| algorithm).collect()
}

/// `q=0.25` in thousandths; 1000 if there is none or it makes no sense.
fn weight(parameters: &str) -> u32 {
    let value = parameters.split(';').find_map(|one| {
        let (name, value) = one.split_once('=')?;
        name.trim().eq_ignore_ascii_case("q").then_some(value.trim())
    });
    let value = value.and_then(|text| text.parse::<f32>().ok()).filter(|q| (0.0..=1.0).contains(q));
    value.map_or(1000, |q| (q * 1000.0) as u32)
}

impl Digests {
    /// Reads a `Digest` field. Unknown algorithms are skipped; a damaged or doubled known one is refused.
    pub fn parse(field: &str) -> Result<Self> {
        let mut digests = Self::default();
        for element in elements(field) {
            digests.take(element, |value| Some(value))?;
        }
        Ok(digests)
    }

    /// Reads a `Repr-Digest` or `Content-Digest` field: values stand between colons.
    pub fn parse_repr(field: &str) -> Result<Self> {
        let mut digests = Self::default();
        for element in elements(field) {
            // Parameters of structured fields follow a semicolon; none is defined.
            let element = element.split(';').next().unwrap_or(element);
            digests.take(element, |value| value.strip_prefix(':')?.strip_suffix(':'))?;
        }
        Ok(digests)
    }

    /// Adds what an `OC-Checksum` field claims: `TYPE:value`, several separated by spaces.
    pub fn claim_oc_checksum(&mut self, field: &str) -> Result<()> {
        for element in field.split([' ', ',']).filter(|element| !element.is_empty()) {
            let refuse = || Failure::invalid(format!("checksum {element:?} is not TYPE:value"));
            let (name, value) = element.split_once(':').ok_or_else(refuse)?;
            self.take(&format!("{name}={value}"), |value| Some(value))?;
        }
        Ok(())
    }

    /// Adds what a `Content-MD5` field claims.
    pub fn claim_content_md5(&mut self, field: &str) -> Result<()> {
        self.take(&format!("md5={}", field.trim()), |value| Some(value))
    }

    /// Takes one `algorithm=value`.
    fn take(&mut self, element: &str, bare: impl Fn(&str) -> Option<&str>) -> Result<()> {
        let refuse = || Failure::invalid(format!("digest {element:?} is not algorithm=value"));
        let (name, value) = element.split_once('=').ok_or_else(refuse)?;
        let Some(algorithm) = DigestAlgorithm::by_name(name.trim()) else {
            return Ok(());
        };
        let value = bare(value.trim()).ok_or_else(refuse)?;
        let sum = read(algorithm, value).ok_or_else(refuse)?;
        self.merge(&Self::default().with(algorithm, sum))
    }

    /// A `Digest` field with the sums of `algorithms` that are known; empty if there are none.
    #[must_use]
    pub fn field(&self, algorithms: &[DigestAlgorithm]) -> String {
        let one = |algorithm: &DigestAlgorithm| {
            let sum = self.get(*algorithm)?;
            let value = match algorithm.form() {
                // A decimal number is as the command prints it (RFC 3230 §4.1.1).
                Form::Decimal | Form::Hexadecimal => algorithm.text(sum),
                Form::Base64 => BASE64.encode(sum.as_bytes()),
            };
            Some(format!("{}={value}", algorithm.as_str()))
        };
        algorithms.iter().filter_map(one).collect::<Vec<_>>().join(",")
    }

    /// A `Repr-Digest` field with the sums of `algorithms` that are known; empty if there are none.
    #[must_use]
    pub fn repr_field(&self, algorithms: &[DigestAlgorithm]) -> String {
        let one = |algorithm: &DigestAlgorithm| {
            Some(format!("{}=:{}:", algorithm.key(), BASE64.encode(self.get(*algorithm)?.as_bytes())))
        };
        algorithms.iter().filter_map(one).collect::<Vec<_>>().join(", ")
    }
}

/// Reads a sum as senders write it, in any form that is understood.
fn read(algorithm: DigestAlgorithm, text: &str) -> Option<Sum> {
    let length = algorithm.bytes();
    let bytes = match algorithm.form() {
        Form::Decimal if text.bytes().all(|byte| byte.is_ascii_digit()) => {
            return text.parse::<u32>().ok().map(Sum::from);
        }
        // The padding tells base64 from hexadecimal digits, of which zeros may be missing at the front.
        Form::Decimal | Form::Hexadecimal if !text.is_empty() && !text.ends_with('=') => {
            unhex(&format!("{text:0>width$}", width = 2 * length))?
        }
        // The length tells them apart.
        Form::Base64 if text.len() == 2 * length => unhex(text)?,
        _ => BASE64.decode(text).ok()?,
    };
    (bytes.len() == length).then(|| Sum::new(&bytes))
}

/// Fuzz body: fields never panic, and what is understood survives being written.
pub fn fuzz_digest(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    assert!(wanted_digests(&text).len() <= DigestAlgorithm::ALL.len());
    assert!(wanted_repr_digests(&text).len() <= DigestAlgorithm::ALL.len());
    if let Ok(digests) = Digests::parse(&text) {
        assert_eq!(Digests::parse(&digests.field(&DigestAlgorithm::ALL)), Ok(digests));
    }
    if let Ok(digests) = Digests::parse_repr(&text) {
        assert_eq!(Digests::parse_repr(&digests.repr_field(&DigestAlgorithm::ALL)), Ok(digests));
    }
    let _ = Digests::default().claim_content_md5(&text);
    let _ = Digests::default().claim_oc_checksum(&text);
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Checksums;
    use proptest::prelude::*;

    const MD5: &str = "JfnnlDI7RTiF9RgfGySV7Q";

    #[test]
    fn known_answers() {
        let sums = Digests::from(Checksums::of(b"123456789"));
        assert_eq!(sums.field(&DigestAlgorithm::ALL), "adler32=091e01de,crc32c=e3069283");
        assert_eq!(sums.repr_field(&[DigestAlgorithm::Adler32]), "adler=:CR4B3g==:");
        assert_eq!(sums.field(&[]), "");
        for both in ["ADLER32=91e01de, unixsum=abc=, crc32c=e3069283", "adler32=CR4B3g==,crc32c=4waSgw=="] {
            let digests = Digests::parse(both).unwrap();
            assert_eq!((digests, digests.needs_hashing()), (sums, false));
        }
        assert!(Digests::parse("adler32=2").unwrap().check(&sums).unwrap_err().what.contains("not 00000002"));
    }

    #[test]
    fn base64_has_one_form_of_each_value() {
        let sum = |text| read(DigestAlgorithm::Crc32c, text);
        assert_eq!(sum("4waSgw=="), sum("e3069283"));
        for bad in ["", "4waSgw=", "4waSgw", "4waSg===", "4waS!w==", "====", "4waSgw==4waSgw==", "4waSgw=A"] {
            assert_eq!(sum(bad), None, "{bad}");
        }
        assert_eq!(sum("4waShx=="), None, "unused bits");
    }

    #[test]
    fn hashes_are_hex_or_base64() {
        let digests = Digests::parse(&format!("md5={MD5}==")).unwrap();
        assert_eq!(Digests::parse("md5=25f9e794323b453885f5181f1b2495ed").unwrap(), digests);
        assert_eq!(Digests::parse_repr(&format!("md5=:{MD5}==:")).unwrap(), digests);
        assert_eq!(digests.field(&DigestAlgorithm::ALL), format!("md5={MD5}=="));
        let mut claimed = Digests::default();
        claimed.claim_content_md5(&format!(" {MD5}== ")).unwrap();
        assert_eq!(claimed, digests);
        assert!(digests.needs_hashing() && !digests.is_comparable(&Checksums::EMPTY.into()));
        let other = Digests::parse(&format!("md5={}", "0".repeat(32))).unwrap();
        assert!(digests.check(&other).unwrap_err().what.contains("25f9e794323b453885f5181f1b2495ed"));
    }

    #[test]
    fn checksums_of_owncloud_clients_are_read() {
        let mut claimed = Digests::default();
        claimed.claim_oc_checksum("Adler32:91e01de SHA1:f7c3bc1d808e04732adf679965ccc34ca7ae3441").unwrap();
        claimed.claim_oc_checksum("SHA3-256:00,CRC32:cbf43926").unwrap();
        let found: Vec<_> = claimed.algorithms().collect();
        assert_eq!(found, [DigestAlgorithm::Adler32, DigestAlgorithm::Crc32, DigestAlgorithm::Sha1]);
        assert!(claimed.claim_oc_checksum("MD5").is_err() && claimed.claim_oc_checksum("MD5:x").is_err());
        assert!(claimed.claim_oc_checksum("Adler32:1").is_err(), "it said another before");
    }

    #[test]
    fn damaged_digests_are_refused() {
        for bad in [
            "adler32",
            "adler32=",
            "adler32=xyz",
            "adler32=123456789",
            "crc32c=4waS!w==",
            "md5=abc",
            "sha-256=",
        ] {
            assert!(Digests::parse(bad).is_err(), "{bad}");
        }
        assert!(Digests::parse("adler32=1,adler32=2").is_err());
        assert!(Digests::parse("crc32c=4waShx==").is_err(), "unused bits");
        assert!(Digests::parse_repr(&format!("md5={MD5}==")).is_err(), "colons are missing");
        assert_eq!(Digests::parse("").unwrap(), Digests::default());
    }

    #[test]
    fn weights_order_the_wishes() {
        use DigestAlgorithm::*;
        assert_eq!(wanted_digests("adler32;q=0.3,crc32c;q=0.8"), [Crc32c, Adler32]);
        assert_eq!(wanted_digests("adler32;q=0,crc32c"), [Crc32c]);
        assert_eq!(wanted_digests("md5,SHA-256"), [Md5, Sha256]);
        assert_eq!(wanted_digests("adler"), [Adler32]);
        assert_eq!(wanted_digests("adler32;q=nan, adler32, adler32"), [Adler32]);
        assert_eq!(wanted_repr_digests("md5=0, adler=3, sha-256=10, crc32c=x"), [Sha256, Adler32]);
    }

    proptest! {
        #[test]
        fn round_trip(noise in prop::collection::vec(any::<[u8; 64]>(), DigestAlgorithm::COUNT)) {
            let all = DigestAlgorithm::ALL.into_iter().zip(&noise);
            let sums = all.fold(Digests::default(), |sums, (algorithm, noise)| {
                sums.with(algorithm, Sum::new(&noise[..algorithm.bytes()]))
            });
            prop_assert_eq!(Digests::parse(&sums.field(&DigestAlgorithm::ALL)).unwrap(), sums);
            prop_assert_eq!(Digests::parse_repr(&sums.repr_field(&DigestAlgorithm::ALL)).unwrap(), sums);
            fuzz_digest(sums.field(&DigestAlgorithm::ALL).as_bytes());
        }

        #[test]
        fn noise_never_panics(text in "((adler32|crc32c|md5|sha-256)(=:?[0-9a-zA-Z+/=]{0,9}:?|;q=[0-9.]{0,4})?,? ?){0,4}", raw in prop::collection::vec(any::<u8>(), 0..60)) {
            fuzz_digest(text.as_bytes());
            fuzz_digest(&raw);
        }
    }
}
