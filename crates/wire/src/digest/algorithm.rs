//! The registry of checksum algorithms: a variant and a row for each.

use super::{
    cksum::Cksum,
    hashing::{Hasher, hash, start},
    sums::Sum,
};
use base::{Adler32, Crc32c};
use md5::Md5;
use sha1::Sha1;
use sha2::{Sha256, Sha512};

/// A checksum that can be asked for by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DigestAlgorithm {
    /// Adler-32.
    Adler32,
    /// CRC-32C.
    Crc32c,
    /// MD5.
    Md5,
    /// CRC-32 of POSIX, as the command `cksum` tells it.
    Cksum,
    /// CRC-32 of zlib.
    Crc32,
    /// SHA-1.
    Sha1,
    /// SHA-256.
    Sha256,
    /// SHA-512.
    Sha512,
}

/// What there is to know of an algorithm.
struct Row {
    algorithm: DigestAlgorithm,
    /// In the fields of RFC 3230.
    name: &'static str,
    /// In the fields of RFC 9530.
    key: &'static str,
    /// At `root://`, if it is offered there.
    xrootd: Option<&'static str>,
    /// What clients write, too.
    others: &'static [&'static str],
    /// Whether the catalogue has it; the others cost reading the file.
    is_catalogued: bool,
    bytes: usize,
    form: Form,
    start: fn() -> Box<dyn Hasher>,
}

/// How a sum is written in a `Digest` field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// A number in hexadecimal; readers accept it without its zeros.
    Hexadecimal,
    /// A number of 32 bits in decimal digits.
    Decimal,
    /// Bytes in base64.
    Base64,
}

impl Row {
    /// A number that is written in hexadecimal, by the same name everywhere.
    const fn number(algorithm: DigestAlgorithm, name: &'static str, start: fn() -> Box<dyn Hasher>) -> Self {
        Self {
            algorithm,
            name,
            key: name,
            xrootd: Some(name),
            others: &[],
            is_catalogued: false,
            bytes: 4,
            form: Form::Hexadecimal,
            start,
        }
    }

    /// A hash that is offered over HTTP only.
    const fn hash(algorithm: DigestAlgorithm, name: &'static str, start: fn() -> Box<dyn Hasher>) -> Self {
        Self { xrootd: None, form: Form::Base64, ..Self::number(algorithm, name, start) }
    }
}

/// All algorithms in the order of their variants: the catalogue's first, then as they are offered.
const ROWS: [Row; 8] = [
    Row {
        key: "adler",
        others: &["adler"],
        is_catalogued: true,
        ..Row::number(DigestAlgorithm::Adler32, "adler32", || {
            start(Adler32::EMPTY, |sum, bytes| *sum = sum.extend(bytes), |sum| sum.0.into())
        })
    },
    Row {
        is_catalogued: true,
        ..Row::number(DigestAlgorithm::Crc32c, "crc32c", || {
            start(Crc32c::EMPTY, |sum, bytes| *sum = sum.extend(bytes), |sum| sum.0.into())
        })
    },
    Row { xrootd: Some("md5"), bytes: 16, ..Row::hash(DigestAlgorithm::Md5, "md5", hash::<Md5>) },
    // XRootD and its clients call it `crc32`, and that of zlib `zcrc32`.
    Row {
        key: "unixcksum",
        xrootd: Some("crc32"),
        others: &["cksum"],
        form: Form::Decimal,
        ..Row::number(DigestAlgorithm::Cksum, "UNIXcksum", || {
            start(Cksum::default(), Cksum::update, |sum| sum.finish().into())
        })
    },
    Row {
        xrootd: Some("zcrc32"),
        others: &["zcrc32"],
        ..Row::number(DigestAlgorithm::Crc32, "crc32", || {
            start(crc32fast::Hasher::new(), crc32fast::Hasher::update, |sum| sum.finalize().into())
        })
    },
    Row { others: &["sha1", "sha-1"], bytes: 20, ..Row::hash(DigestAlgorithm::Sha1, "sha", hash::<Sha1>) },
    Row { others: &["sha256"], bytes: 32, ..Row::hash(DigestAlgorithm::Sha256, "sha-256", hash::<Sha256>) },
    Row { others: &["sha512"], bytes: 64, ..Row::hash(DigestAlgorithm::Sha512, "sha-512", hash::<Sha512>) },
];

impl DigestAlgorithm {
    /// How many there are.
    pub const COUNT: usize = ROWS.len();

    /// All of them; the field's favourite first.
    pub const ALL: [Self; Self::COUNT] = {
        let mut all = [Self::Adler32; Self::COUNT];
        let mut at = 0;
        while at < Self::COUNT {
            all[at] = ROWS[at].algorithm;
            assert!(all[at] as usize == at, "rows stand in the order of the variants");
            at += 1;
        }
        all
    };

    fn row(self) -> &'static Row {
        static TABLE: [Row; DigestAlgorithm::COUNT] = ROWS;
        &TABLE[self as usize]
    }

    /// The name in the fields of RFC 3230.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.row().name
    }

    /// The key in the fields of RFC 9530.
    #[must_use]
    pub fn key(self) -> &'static str {
        self.row().key
    }

    /// The name at `root://`, if it is offered there. `crc32` is that of POSIX and `zcrc32` that of zlib, as in XRootD and
    /// its clients.
    #[must_use]
    pub fn xrootd_name(self) -> Option<&'static str> {
        self.row().xrootd
    }

    /// The names at `root://`, the default first.
    #[must_use]
    pub fn xrootd_names() -> Vec<&'static str> {
        Self::ALL.into_iter().filter_map(Self::xrootd_name).collect()
    }

    /// The algorithm of a name at `root://`.
    #[must_use]
    pub fn by_xrootd_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|algorithm| algorithm.xrootd_name() == Some(name))
    }

    /// The algorithm of a name in a header field, in any spelling that clients use.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        let is_same = |known: &&str| name.eq_ignore_ascii_case(known);
        let mut all = Self::ALL.into_iter();
        let by_other = || Self::ALL.into_iter().find(|algorithm| algorithm.row().others.iter().any(is_same));
        all.find(|algorithm| is_same(&algorithm.row().name)).or_else(by_other)
    }

    /// Whether the catalogue has it; the others cost reading the file.
    #[must_use]
    pub fn is_catalogued(self) -> bool {
        self.row().is_catalogued
    }

    /// Bytes of a sum.
    #[must_use]
    pub fn bytes(self) -> usize {
        self.row().bytes
    }

    /// How a `Digest` field writes it.
    pub(crate) fn form(self) -> Form {
        self.row().form
    }

    /// Begins to compute it.
    pub(super) fn start(self) -> Box<dyn Hasher> {
        (self.row().start)()
    }

    /// A sum as people read it: as the command `cksum` prints it, or in hexadecimal.
    #[must_use]
    pub fn text(self, sum: Sum) -> String {
        match (self.form(), <[u8; 4]>::try_from(sum.as_bytes())) {
            (Form::Decimal, Ok(bytes)) => u32::from_be_bytes(bytes).to_string(),
            _ => base::hex(sum.as_bytes()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digest::{Digests, Hashing};
    use std::collections::BTreeSet;

    #[test]
    fn the_names_at_the_xrootd_door_begin_with_those_of_the_catalogue() {
        assert_eq!(DigestAlgorithm::xrootd_names(), ["adler32", "crc32c", "md5", "crc32", "zcrc32"]);
        assert_eq!(DigestAlgorithm::by_xrootd_name("crc32"), Some(DigestAlgorithm::Cksum));
    }

    /// Of the nine bytes `123456789`, in hexadecimal.
    const CHECKS: [&str; DigestAlgorithm::COUNT] = [
        "091e01de",
        "e3069283",
        "25f9e794323b453885f5181f1b624d0b",
        "377a6011",
        "cbf43926",
        "f7c3bc1d808e04732adf679965ccc34ca7ae3441",
        "15e2b0d3c33891ebb0f1ef609ec419420c20e320ce94c65fbc8c3312448eb225",
        "d9e6762dd1c8eaf6d61b3c6192fc408d4d6d5f1176d0c29169bc24e71c3f274a\
         d27fcd5811b313d681f7e55ec02d73d499c95455b6b5bb503acf574fba8ffe85",
    ];

    #[test]
    fn known_answers() {
        for (algorithm, check) in DigestAlgorithm::ALL.into_iter().zip(CHECKS) {
            let mut hashing = Hashing::of(algorithm);
            hashing.update(b"1234");
            hashing.update(b"56789");
            let found = hashing.finish(Digests::default());
            assert_eq!(found.hex(algorithm).as_deref(), Some(check), "{algorithm:?}");
            assert_eq!(found.get(algorithm).map(|sum| sum.as_bytes().len()), Some(algorithm.bytes()));
        }
    }

    #[test]
    fn each_name_means_one_algorithm() {
        let names =
            |row: &Row| [row.name].into_iter().chain(row.others.iter().copied()).collect::<BTreeSet<_>>();
        for row in &ROWS {
            for name in names(row) {
                assert_eq!(DigestAlgorithm::by_name(&name.to_uppercase()), Some(row.algorithm), "{name}");
            }
        }
        assert_eq!(DigestAlgorithm::by_name("unixsum"), None);
    }

    #[test]
    fn the_page_of_the_http_door_names_each() {
        let page = include_str!("../../../../docs/http.md");
        for name in DigestAlgorithm::ALL.map(DigestAlgorithm::as_str) {
            assert!(page.contains(&format!("`{name}`")), "docs/http.md does not name {name}");
        }
    }
}
