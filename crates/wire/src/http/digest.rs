//! Checksums in header fields: `Want-Digest` and `Digest` (RFC 3230), `Want-Repr-Digest` and `Repr-Digest` (RFC 9530),
//! `Content-MD5` (RFC 1864), `OC-Checksum` (ownCloud).
//!
//! Adler-32, CRC-32 and CRC-32C are written as eight hex digits in `Digest`, as the registry of RFC 3230 says and the grid's storage
//! systems do, `UNIXcksum` in decimal digits; all others as base64 of their bytes in network order. Hex and base64 of each are understood.

use super::elements;
use base::{Adler32, Checksums, Crc32c, Failure, Result, hex, unhex};
use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};

/// A checksum that can be asked for by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DigestAlgorithm {
    /// `adler32`
    Adler32,
    /// `crc32c`
    Crc32c,
    /// `crc32`, the one of zlib; `zcrc32` of XRootD
    Crc32,
    /// `UNIXcksum`, the one of POSIX; `crc32` of XRootD
    Cksum,
    /// `md5`
    Md5,
    /// `sha`, which is SHA-1
    Sha1,
    /// `sha-256`
    Sha256,
    /// `sha-512`
    Sha512,
}

impl DigestAlgorithm {
    /// All of them; the field's favourite first.
    pub const ALL: [Self; 8] = [
        Self::Adler32,
        Self::Crc32c,
        Self::Md5,
        Self::Cksum,
        Self::Crc32,
        Self::Sha1,
        Self::Sha256,
        Self::Sha512,
    ];

    /// The name in the fields of RFC 3230.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Adler32 => "adler32",
            Self::Crc32c => "crc32c",
            Self::Crc32 => "crc32",
            Self::Cksum => "UNIXcksum",
            Self::Md5 => "md5",
            Self::Sha1 => "sha",
            Self::Sha256 => "sha-256",
            Self::Sha512 => "sha-512",
        }
    }

    /// The key in the fields of RFC 9530.
    #[must_use]
    pub fn key(self) -> &'static str {
        match self {
            Self::Adler32 => "adler",
            Self::Cksum => "unixcksum",
            other => other.as_str(),
        }
    }

    /// The name at `root://`, if it is offered there. `crc32` is that of POSIX and `zcrc32` that of zlib, as in XRootD and
    /// its clients.
    #[must_use]
    pub fn xrootd_name(self) -> Option<&'static str> {
        match self {
            Self::Adler32 | Self::Crc32c | Self::Md5 => Some(self.as_str()),
            Self::Cksum => Some("crc32"),
            Self::Crc32 => Some("zcrc32"),
            Self::Sha1 | Self::Sha256 | Self::Sha512 => None,
        }
    }

    /// The names at `root://`, the default first.
    #[must_use]
    pub fn xrootd_names() -> Vec<&'static str> {
        Self::ALL.into_iter().filter_map(Self::xrootd_name).collect()
    }

    /// Whether the catalogue has it; the others cost reading the file.
    #[must_use]
    pub fn is_catalogued(self) -> bool {
        matches!(self, Self::Adler32 | Self::Crc32c)
    }

    fn named(name: &str) -> Option<Self> {
        // RFC 9530 calls Adler-32 `adler`, others write hashes without a hyphen.
        let others = [
            ("adler", Self::Adler32),
            ("zcrc32", Self::Crc32),
            ("cksum", Self::Cksum),
            ("sha1", Self::Sha1),
            ("sha-1", Self::Sha1),
            ("sha256", Self::Sha256),
            ("sha512", Self::Sha512),
        ];
        if let Some((_, algorithm)) = others.into_iter().find(|(other, _)| name.eq_ignore_ascii_case(other)) {
            return Some(algorithm);
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
    /// CRC-32 of zlib.
    pub crc32: Option<u32>,
    /// CRC-32 of POSIX, as the command `cksum` tells it.
    pub cksum: Option<u32>,
    /// MD5.
    pub md5: Option<[u8; 16]>,
    /// SHA-1.
    pub sha1: Option<[u8; 20]>,
    /// SHA-256.
    pub sha256: Option<[u8; 32]>,
    /// SHA-512.
    pub sha512: Option<[u8; 64]>,
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

    /// Adds all claims of another field of the same message.
    pub fn merge(&mut self, other: &Self) -> Result<()> {
        merge(&mut self.adler32, other.adler32, "adler32")?;
        merge(&mut self.crc32c, other.crc32c, "crc32c")?;
        merge(&mut self.crc32, other.crc32, "crc32")?;
        merge(&mut self.cksum, other.cksum, "UNIXcksum")?;
        merge(&mut self.md5, other.md5, "md5")?;
        merge(&mut self.sha1, other.sha1, "sha")?;
        merge(&mut self.sha256, other.sha256, "sha-256")?;
        merge(&mut self.sha512, other.sha512, "sha-512")
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
            DigestAlgorithm::Crc32 => claim.crc32 = Some(parse_sum(value).ok_or_else(refuse)?),
            DigestAlgorithm::Cksum => claim.cksum = Some(parse_cksum(value).ok_or_else(refuse)?),
            DigestAlgorithm::Sha1 => claim.sha1 = Some(parse_hash(value).ok_or_else(refuse)?),
            DigestAlgorithm::Sha512 => claim.sha512 = Some(parse_hash(value).ok_or_else(refuse)?),
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
        match algorithm {
            DigestAlgorithm::Adler32 => self.adler32.is_some(),
            DigestAlgorithm::Crc32c => self.crc32c.is_some(),
            DigestAlgorithm::Crc32 => self.crc32.is_some(),
            DigestAlgorithm::Cksum => self.cksum.is_some(),
            DigestAlgorithm::Md5 => self.md5.is_some(),
            DigestAlgorithm::Sha1 => self.sha1.is_some(),
            DigestAlgorithm::Sha256 => self.sha256.is_some(),
            DigestAlgorithm::Sha512 => self.sha512.is_some(),
        }
    }

    /// Compares each claim with what arrived. A claim about a sum that is not in `arrived` is not compared.
    pub fn check(&self, arrived: &Self) -> Result<()> {
        compare("adler32", self.adler32, arrived.adler32, ToString::to_string)?;
        compare("crc32c", self.crc32c, arrived.crc32c, ToString::to_string)?;
        compare("crc32", self.crc32, arrived.crc32, |sum| format!("{sum:08x}"))?;
        compare("UNIXcksum", self.cksum, arrived.cksum, ToString::to_string)?;
        compare("md5", self.md5, arrived.md5, |hash| hex(hash))?;
        compare("sha", self.sha1, arrived.sha1, |hash| hex(hash))?;
        compare("sha-256", self.sha256, arrived.sha256, |hash| hex(hash))?;
        compare("sha-512", self.sha512, arrived.sha512, |hash| hex(hash))
    }

    /// Whether at least one sum is known to both.
    #[must_use]
    pub fn is_comparable(&self, other: &Self) -> bool {
        self.algorithms().any(|algorithm| other.has(algorithm))
    }

    /// A `Digest` field with the sums of `algorithms` that are known; empty if there are none.
    #[must_use]
    pub fn field(&self, algorithms: &[DigestAlgorithm]) -> String {
        let one = |algorithm: &DigestAlgorithm| {
            let bytes = self.bytes(*algorithm)?;
            let value = match algorithm {
                // As the command prints it (RFC 3230 §4.1.1).
                DigestAlgorithm::Cksum => self.cksum?.to_string(),
                // Four bytes are a sum, written in hexadecimal.
                _ if bytes.len() == 4 => hex(&bytes),
                _ => BASE64.encode(&bytes),
            };
            Some(format!("{}={value}", algorithm.as_str()))
        };
        algorithms.iter().filter_map(one).collect::<Vec<_>>().join(",")
    }

    /// A `Repr-Digest` field with the sums of `algorithms` that are known; empty if there are none.
    #[must_use]
    pub fn repr_field(&self, algorithms: &[DigestAlgorithm]) -> String {
        let one = |algorithm: &DigestAlgorithm| {
            Some(format!("{}=:{}:", algorithm.key(), BASE64.encode(&self.bytes(*algorithm)?)))
        };
        algorithms.iter().filter_map(one).collect::<Vec<_>>().join(", ")
    }

    /// One sum in hexadecimal.
    #[must_use]
    pub fn hex(&self, algorithm: DigestAlgorithm) -> Option<String> {
        self.bytes(algorithm).map(|bytes| hex(&bytes))
    }

    /// One sum in network order.
    fn bytes(&self, algorithm: DigestAlgorithm) -> Option<Vec<u8>> {
        match algorithm {
            DigestAlgorithm::Adler32 => self.adler32.map(|sum| sum.0.to_be_bytes().to_vec()),
            DigestAlgorithm::Crc32c => self.crc32c.map(|sum| sum.0.to_be_bytes().to_vec()),
            DigestAlgorithm::Crc32 => self.crc32.map(|sum| sum.to_be_bytes().to_vec()),
            DigestAlgorithm::Cksum => self.cksum.map(|sum| sum.to_be_bytes().to_vec()),
            DigestAlgorithm::Sha1 => self.sha1.map(|hash| hash.to_vec()),
            DigestAlgorithm::Sha512 => self.sha512.map(|hash| hash.to_vec()),
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

/// Decimal digits as in `Digest`, or base64 of four bytes as in `Repr-Digest`.
fn parse_cksum(text: &str) -> Option<u32> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) { text.parse().ok() } else { parse_sum(text) }
}

/// Exactly `N` bytes in base64; none if the length differs, a character is foreign, padding is missing or unused bits are set.
fn decode<const N: usize>(text: &str) -> Option<[u8; N]> {
    BASE64.decode(text).ok()?.try_into().ok()
}

/// Up to eight hex digits, or base64 of four bytes. The padding tells them apart.
fn parse_sum(text: &str) -> Option<u32> {
    if text.len() == 8 && text.ends_with("==") {
        return decode(text).map(u32::from_be_bytes);
    }
    text.parse::<Adler32>().ok().map(|sum| sum.0)
}

/// Hex or base64 of exactly `N` bytes; the length tells them apart.
fn parse_hash<const N: usize>(text: &str) -> Option<[u8; N]> {
    if text.len() != 2 * N {
        return decode(text);
    }
    unhex(text)?.try_into().ok()
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
    #[test]
    fn the_names_at_the_xrootd_door_begin_with_those_of_the_catalogue() {
        let names = super::DigestAlgorithm::xrootd_names();
        assert_eq!(names, ["adler32", "crc32c", "md5", "crc32", "zcrc32"]);
    }

    use super::*;
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
        assert_eq!(decode("Zm9v"), Some(*b"foo"));
        for bad in ["Zm9", "Zm8=", "Zm9v====", "Zm!v", "===="] {
            assert_eq!(decode::<3>(bad), None, "{bad}");
        }
        assert_eq!(decode::<1>("Zh=="), None, "unused bits");
        assert_eq!(decode::<1>("Zg=A"), None, "padding only at the end");
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
        fn round_trip(adler32: u32, crc32c: u32, crc32: u32, md5: [u8; 16], sha1: [u8; 20], sha256: [u8; 32]) {
            let sha512 = [sha256, sha256].concat().try_into().ok();
            let (adler32, crc32c, crc32) = (Some(Adler32(adler32)), Some(Crc32c(crc32c)), Some(crc32));
            let (md5, sha1, sha256) = (Some(md5), Some(sha1), Some(sha256));
            let cksum = crc32.map(u32::reverse_bits);
            let sums = Digests { adler32, crc32c, crc32, cksum, md5, sha1, sha256, sha512 };
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
