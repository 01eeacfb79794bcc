//! `Want-Digest` and `Digest` (RFC 3230) for the checksums that every file carries.
//!
//! Adler-32 is written as eight hex digits, as RFC 3230's registry says and the grid's storage systems do; CRC-32C as
//! base64 of its four bytes in network order, as XrdHttp does. Both spellings of either are understood.

use super::elements;
use base::{Adler32, Checksums, Crc32c, Failure, Result};

/// A checksum that can be asked for by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DigestAlgorithm {
    /// `adler32`
    Adler32,
    /// `crc32c`
    Crc32c,
}

impl DigestAlgorithm {
    /// All of them; the field's favourite first.
    pub const ALL: [Self; 2] = [Self::Adler32, Self::Crc32c];

    /// The name in the fields.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Adler32 => "adler32",
            Self::Crc32c => "crc32c",
        }
    }

    fn named(name: &str) -> Option<Self> {
        // RFC 9530 calls Adler-32 `adler`; clients in between use either word.
        if name.eq_ignore_ascii_case("adler") {
            return Some(Self::Adler32);
        }
        Self::ALL.into_iter().find(|algorithm| name.eq_ignore_ascii_case(algorithm.as_str()))
    }
}

/// The algorithms that a `Want-Digest` field accepts and we have, the most wanted first.
///
/// ```
/// use wire::http::{DigestAlgorithm::*, wanted_digests};
/// assert_eq!(wanted_digests("md5, crc32c;q=0.5, ADLER32"), [Adler32, Crc32c]);
/// ```
#[must_use]
pub fn wanted_digests(want: &str) -> Vec<DigestAlgorithm> {
    let mut wanted: Vec<(DigestAlgorithm, u32)> = Vec::with_capacity(DigestAlgorithm::ALL.len());
    for element in elements(want) {
        let (name, parameters) = element.split_once(';').unwrap_or((element, ""));
        let Some(algorithm) = DigestAlgorithm::named(name.trim()) else {
            continue;
        };
        let is_new = wanted.iter().all(|(known, _)| *known != algorithm);
        let weight = weight(parameters);
        if is_new && weight > 0 {
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

/// A `Digest` field with the sums of `algorithms`; empty if there are none.
#[must_use]
pub fn digest_field(sums: &Checksums, algorithms: &[DigestAlgorithm]) -> String {
    let one = |algorithm: &DigestAlgorithm| match algorithm {
        DigestAlgorithm::Adler32 => format!("adler32={}", sums.adler32),
        DigestAlgorithm::Crc32c => format!("crc32c={}", encode_base64(sums.crc32c.0.to_be_bytes())),
    };
    algorithms.iter().map(one).collect::<Vec<_>>().join(",")
}

/// The sums that a sender claims; none of an algorithm that was not named.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Digests {
    /// Claimed Adler-32.
    pub adler32: Option<Adler32>,
    /// Claimed CRC-32C.
    pub crc32c: Option<Crc32c>,
}

impl Digests {
    /// Reads a `Digest` field. Unknown algorithms are skipped; a damaged or doubled known one is refused.
    pub fn parse(field: &str) -> Result<Self> {
        let mut digests = Self::default();
        for element in elements(field) {
            let refuse = || Failure::invalid(format!("digest {element:?} is not algorithm=value"));
            let (name, value) = element.split_once('=').ok_or_else(refuse)?;
            let Some(algorithm) = DigestAlgorithm::named(name.trim()) else {
                continue;
            };
            let value = parse_sum(value.trim()).ok_or_else(refuse)?;
            let before = match algorithm {
                DigestAlgorithm::Adler32 => digests.adler32.replace(Adler32(value)).map(|sum| sum.0),
                DigestAlgorithm::Crc32c => digests.crc32c.replace(Crc32c(value)).map(|sum| sum.0),
            };
            if before.is_some_and(|before| before != value) {
                return Err(Failure::invalid(format!("digest {} is given twice", algorithm.as_str())));
            }
        }
        Ok(digests)
    }

    /// Compares with the sums of what arrived.
    pub fn check(&self, arrived: &Checksums) -> Result<()> {
        let wrong = |name: &str, claimed: String, found: String| {
            Err(Failure::corrupt(format!("{name} of what arrived is {found}, not {claimed}"))
                .hint("send it again; nothing was stored"))
        };
        if let Some(claimed) = self.adler32.filter(|sum| *sum != arrived.adler32) {
            return wrong("adler32", claimed.to_string(), arrived.adler32.to_string());
        }
        if let Some(claimed) = self.crc32c.filter(|sum| *sum != arrived.crc32c) {
            return wrong("crc32c", claimed.to_string(), arrived.crc32c.to_string());
        }
        Ok(())
    }
}

/// Up to eight hex digits, or base64 of four bytes. The padding tells them apart.
fn parse_sum(text: &str) -> Option<u32> {
    if text.len() == 8 && text.ends_with("==") {
        return decode_base64(*text.as_bytes().first_chunk()?).map(u32::from_be_bytes);
    }
    text.parse::<Adler32>().ok().map(|sum| sum.0)
}

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Base64 (RFC 4648 §4) of four bytes: six characters and two of padding.
fn encode_base64(bytes: [u8; 4]) -> String {
    let bits = u64::from(u32::from_be_bytes(bytes)) << 4;
    let mut text: String =
        (0..6).rev().map(|place| char::from(BASE64[(bits >> (6 * place) & 63) as usize])).collect();
    text.push_str("==");
    text
}

/// The four bytes of six characters; none if a character is foreign or unused bits are set.
fn decode_base64(text: [u8; 6]) -> Option<[u8; 4]> {
    let mut bits = 0u64;
    for byte in text {
        let value = BASE64.iter().position(|known| *known == byte)?;
        bits = bits << 6 | value as u64;
    }
    bits.is_multiple_of(16).then(|| ((bits >> 4) as u32).to_be_bytes())
}

/// Fuzz body: fields never panic, and what is understood survives being written.
pub fn fuzz_digest(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    assert!(wanted_digests(&text).len() <= DigestAlgorithm::ALL.len());
    if let Ok(Digests { adler32: Some(adler32), crc32c: Some(crc32c) }) = Digests::parse(&text) {
        let sums = Checksums { adler32, crc32c };
        let again = Digests::parse(&digest_field(&sums, &DigestAlgorithm::ALL));
        assert_eq!(again, Ok(Digests { adler32: Some(adler32), crc32c: Some(crc32c) }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_answers() {
        let sums = Checksums::of(b"123456789");
        assert_eq!(digest_field(&sums, &DigestAlgorithm::ALL), "adler32=091e01de,crc32c=4waSgw==");
        assert_eq!(digest_field(&sums, &[]), "");
        let digests = Digests::parse("ADLER32=91e01de, sha-256=abc=, crc32c=e3069283").unwrap();
        digests.check(&sums).unwrap();
        assert!(Digests::parse("adler32=2").unwrap().check(&sums).unwrap_err().what.contains("not 00000002"));
    }

    #[test]
    fn damaged_digests_are_refused() {
        for bad in ["adler32", "adler32=", "adler32=xyz", "adler32=123456789", "crc32c=4waS!w=="] {
            assert!(Digests::parse(bad).is_err(), "{bad}");
        }
        assert!(Digests::parse("adler32=1,adler32=2").is_err());
        assert!(Digests::parse("crc32c=4waShx==").is_err(), "unused bits");
        assert_eq!(Digests::parse("").unwrap(), Digests::default());
    }

    #[test]
    fn weights_order_the_wishes() {
        use DigestAlgorithm::*;
        assert_eq!(wanted_digests("adler32;q=0.3,crc32c;q=0.8"), [Crc32c, Adler32]);
        assert_eq!(wanted_digests("adler32;q=0,crc32c"), [Crc32c]);
        assert_eq!(wanted_digests("md5,sha-256"), []);
        assert_eq!(wanted_digests("adler"), [Adler32]);
        assert_eq!(wanted_digests("adler32;q=nan, adler32, adler32"), [Adler32]);
    }

    proptest! {
        #[test]
        fn round_trip(adler32: u32, crc32c: u32) {
            let sums = Checksums { adler32: Adler32(adler32), crc32c: Crc32c(crc32c) };
            let field = digest_field(&sums, &DigestAlgorithm::ALL);
            prop_assert_eq!(Digests::parse(&field).unwrap().check(&sums), Ok(()));
            fuzz_digest(field.as_bytes());
        }

        #[test]
        fn noise_never_panics(text in "((adler32|crc32c|md5)(=[0-9a-zA-Z+/=]{0,9}|;q=[0-9.]{0,4})?,? ?){0,4}", raw in prop::collection::vec(any::<u8>(), 0..60)) {
            fuzz_digest(text.as_bytes());
            fuzz_digest(&raw);
        }
    }
}
