//! Checksums in header fields: `Want-Digest` and `Digest` (RFC 3230), `Want-Repr-Digest` and `Repr-Digest` (RFC 9530),
//! `Content-MD5` (RFC 1864).
//!
//! Adler-32 is written as eight hex digits in `Digest`, as RFC 3230's registry says and the grid's storage systems do;
//! all others as base64 of their bytes in network order. Hex and base64 of each are understood.

use super::{base64, elements};
use base::{Adler32, Checksums, Crc32c, Failure, Result};

/// A checksum that can be asked for by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DigestAlgorithm {
    /// `adler32`
    Adler32,
    /// `crc32c`
    Crc32c,
    /// `md5`
    Md5,
    /// `sha-256`
    Sha256,
}

impl DigestAlgorithm {
    /// All of them; the field's favourite first.
    pub const ALL: [Self; 4] = [Self::Adler32, Self::Crc32c, Self::Md5, Self::Sha256];

    /// The name in the fields of RFC 3230.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Adler32 => "adler32",
            Self::Crc32c => "crc32c",
            Self::Md5 => "md5",
            Self::Sha256 => "sha-256",
        }
    }

    /// The key in the fields of RFC 9530.
    #[must_use]
    pub fn key(self) -> &'static str {
        if self == Self::Adler32 { "adler" } else { self.as_str() }
    }

    /// Whether the catalogue has it; the others cost reading the file.
    #[must_use]
    pub fn is_catalogued(self) -> bool {
        matches!(self, Self::Adler32 | Self::Crc32c)
    }

    fn named(name: &str) -> Option<Self> {
        // RFC 9530 calls Adler-32 `adler`; clients in between use either word.
        if name.eq_ignore_ascii_case("adler") {
            return Some(Self::Adler32);
        }
        if name.eq_ignore_ascii_case("sha256") {
            return Some(Self::Sha256);
        }
        Self::ALL.into_iter().find(|algorithm| name.eq_ignore_ascii_case(algorithm.as_str()))
    }
}

/// The algorithms that a `Want-Digest` field accepts and we have, the most wanted first.
///
/// ```
/// use wire::http::{DigestAlgorithm::*, wanted_digests};
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
        let Some(algorithm) = DigestAlgorithm::named(name.trim()) else {
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

/// Sums of one content: those that a sender claims, or those that we know.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Digests {
    /// Adler-32.
    pub adler32: Option<Adler32>,
    /// CRC-32C.
    pub crc32c: Option<Crc32c>,
    /// MD5.
    pub md5: Option<[u8; 16]>,
    /// SHA-256.
    pub sha256: Option<[u8; 32]>,
}

impl From<Checksums> for Digests {
    fn from(sums: Checksums) -> Self {
        Self { adler32: Some(sums.adler32), crc32c: Some(sums.crc32c), ..Self::default() }
    }
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

    /// Adds what a `Content-MD5` field claims.
    pub fn claim_content_md5(&mut self, field: &str) -> Result<()> {
        self.take(&format!("md5={}", field.trim()), |value| Some(value))
    }

    /// Adds all claims of another field of the same message.
    pub fn merge(&mut self, other: &Self) -> Result<()> {
        merge(&mut self.adler32, other.adler32, "adler32")?;
        merge(&mut self.crc32c, other.crc32c, "crc32c")?;
        merge(&mut self.md5, other.md5, "md5")?;
        merge(&mut self.sha256, other.sha256, "sha-256")
    }

    /// Takes one `algorithm=value`.
    fn take(&mut self, element: &str, bare: impl Fn(&str) -> Option<&str>) -> Result<()> {
        let refuse = || Failure::invalid(format!("digest {element:?} is not algorithm=value"));
        let (name, value) = element.split_once('=').ok_or_else(refuse)?;
        let Some(algorithm) = DigestAlgorithm::named(name.trim()) else {
            return Ok(());
        };
        let value = bare(value.trim()).ok_or_else(refuse)?;
        let mut claim = Self::default();
        match algorithm {
            DigestAlgorithm::Adler32 => claim.adler32 = Some(Adler32(parse_sum(value).ok_or_else(refuse)?)),
            DigestAlgorithm::Crc32c => claim.crc32c = Some(Crc32c(parse_sum(value).ok_or_else(refuse)?)),
            DigestAlgorithm::Md5 => claim.md5 = Some(parse_hash(value).ok_or_else(refuse)?),
            DigestAlgorithm::Sha256 => claim.sha256 = Some(parse_hash(value).ok_or_else(refuse)?),
        }
        self.merge(&claim)
    }

    /// Whether nothing is claimed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether MD5 or SHA-256 is claimed, which must be computed while the bytes pass.
    #[must_use]
    pub fn needs_hashing(&self) -> bool {
        self.md5.is_some() || self.sha256.is_some()
    }

    /// Compares each claim with what arrived. A claim about a sum that is not in `arrived` is not compared.
    pub fn check(&self, arrived: &Self) -> Result<()> {
        compare("adler32", self.adler32, arrived.adler32, ToString::to_string)?;
        compare("crc32c", self.crc32c, arrived.crc32c, ToString::to_string)?;
        compare("md5", self.md5, arrived.md5, |hash| hex(hash))?;
        compare("sha-256", self.sha256, arrived.sha256, |hash| hex(hash))
    }

    /// Whether at least one sum is known to both.
    #[must_use]
    pub fn is_comparable(&self, other: &Self) -> bool {
        self.adler32.is_some() && other.adler32.is_some()
            || self.crc32c.is_some() && other.crc32c.is_some()
            || self.md5.is_some() && other.md5.is_some()
            || self.sha256.is_some() && other.sha256.is_some()
    }

    /// A `Digest` field with the sums of `algorithms` that are known; empty if there are none.
    #[must_use]
    pub fn field(&self, algorithms: &[DigestAlgorithm]) -> String {
        let one = |algorithm: &DigestAlgorithm| match (algorithm, self.adler32) {
            (DigestAlgorithm::Adler32, sum) => Some(format!("adler32={}", sum?)),
            _ => Some(format!("{}={}", algorithm.as_str(), base64::encode(&self.bytes(*algorithm)?))),
        };
        algorithms.iter().filter_map(one).collect::<Vec<_>>().join(",")
    }

    /// A `Repr-Digest` field with the sums of `algorithms` that are known; empty if there are none.
    #[must_use]
    pub fn repr_field(&self, algorithms: &[DigestAlgorithm]) -> String {
        let one = |algorithm: &DigestAlgorithm| {
            Some(format!("{}=:{}:", algorithm.key(), base64::encode(&self.bytes(*algorithm)?)))
        };
        algorithms.iter().filter_map(one).collect::<Vec<_>>().join(", ")
    }

    /// One sum in network order.
    fn bytes(&self, algorithm: DigestAlgorithm) -> Option<Vec<u8>> {
        match algorithm {
            DigestAlgorithm::Adler32 => self.adler32.map(|sum| sum.0.to_be_bytes().to_vec()),
            DigestAlgorithm::Crc32c => self.crc32c.map(|sum| sum.0.to_be_bytes().to_vec()),
            DigestAlgorithm::Md5 => self.md5.map(|hash| hash.to_vec()),
            DigestAlgorithm::Sha256 => self.sha256.map(|hash| hash.to_vec()),
        }
    }
}

fn merge<T: PartialEq>(known: &mut Option<T>, new: Option<T>, name: &str) -> Result<()> {
    match (&*known, new) {
        (Some(before), Some(new)) if *before != new => {
            Err(Failure::invalid(format!("digest {name} is given twice")))
        }
        (_, Some(new)) => {
            *known = Some(new);
            Ok(())
        }
        (_, None) => Ok(()),
    }
}

fn compare<T: PartialEq>(
    name: &str,
    claimed: Option<T>,
    arrived: Option<T>,
    text: impl Fn(&T) -> String,
) -> Result<()> {
    match (claimed, arrived) {
        (Some(claimed), Some(arrived)) if claimed != arrived => Err(Failure::corrupt(format!(
            "{name} of what arrived is {}, not {}",
            text(&arrived),
            text(&claimed)
        ))
        .hint("send it again; nothing was stored")),
        _ => Ok(()),
    }
}

/// Up to eight hex digits, or base64 of four bytes. The padding tells them apart.
fn parse_sum(text: &str) -> Option<u32> {
    if text.len() == 8 && text.ends_with("==") {
        return base64::decode(text).map(u32::from_be_bytes);
    }
    text.parse::<Adler32>().ok().map(|sum| sum.0)
}

/// Hex or base64 of exactly `N` bytes; the length tells them apart.
fn parse_hash<const N: usize>(text: &str) -> Option<[u8; N]> {
    if text.len() != 2 * N {
        return base64::decode(text);
    }
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let mut hash = [0; N];
    for (pair, out) in text.as_bytes().chunks(2).zip(&mut hash) {
        *out = (digit(pair[0])? << 4 | digit(pair[1])?) as u8;
    }
    Some(hash)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MD5: &str = "JfnnlDI7RTiF9RgfGySV7Q";

    #[test]
    fn known_answers() {
        let sums = Digests::from(Checksums::of(b"123456789"));
        assert_eq!(sums.field(&DigestAlgorithm::ALL), "adler32=091e01de,crc32c=4waSgw==");
        assert_eq!(sums.repr_field(&[DigestAlgorithm::Adler32]), "adler=:CR4B3g==:");
        assert_eq!(sums.field(&[]), "");
        let digests = Digests::parse("ADLER32=91e01de, unixsum=abc=, crc32c=e3069283").unwrap();
        digests.check(&sums).unwrap();
        assert!(Digests::parse("adler32=2").unwrap().check(&sums).unwrap_err().what.contains("not 00000002"));
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
        let other = Digests { md5: Some([0; 16]), ..Digests::default() };
        assert!(digests.check(&other).unwrap_err().what.contains("25f9e794323b453885f5181f1b2495ed"));
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
        fn round_trip(adler32: u32, crc32c: u32, md5: [u8; 16], sha256: [u8; 32]) {
            let sums = Digests {
                adler32: Some(Adler32(adler32)), crc32c: Some(Crc32c(crc32c)), md5: Some(md5), sha256: Some(sha256),
            };
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
