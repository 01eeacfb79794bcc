//! As much of X.509 as is needed to know when a certificate ends and whom it names (RFC 5280).

use base::Timestamp;
use sha1::{Digest, Sha1};
use std::net::IpAddr;

const SEQUENCE: u8 = 0x30;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
/// The explicit tag of the version.
const VERSION: u8 = 0xa0;
/// The explicit tag of the extensions.
const EXTENSIONS: u8 = 0xa3;
/// A name for DNS in a list of alternative names.
const DNS_NAME: u8 = 0x82;
/// An address in such a list.
const IP_ADDRESS: u8 = 0x87;

/// What we want to know of a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Certificate {
    /// When it ends, in seconds since 1970.
    pub(super) ends_s: i64,
    extensions: Vec<u8>,
}

impl Certificate {
    /// Takes a certificate apart; `None` if it is damaged.
    pub(super) fn parse(der: &[u8]) -> Option<Self> {
        let (body, _) = expect(der, SEQUENCE)?;
        let (mut rest, _) = expect(body, SEQUENCE)?;
        if rest.first() == Some(&VERSION) {
            rest = element(rest)?.2;
        }
        // Serial number, algorithm and issuer stand before the validity.
        for _ in 0..3 {
            rest = element(rest)?.2;
        }
        let (validity, mut rest) = expect(rest, SEQUENCE)?;
        let (tag, end, _) = element(element(validity)?.2)?;
        let mut extensions = Vec::new();
        while let Some((tag, content, after)) = element(rest) {
            if tag == EXTENSIONS {
                extensions = content.to_vec();
            }
            rest = after;
        }
        Some(Self { ends_s: seconds(tag, end)?, extensions })
    }

    /// Whether it names a host. The alternative names are searched as bytes: a name stands there with tag and length.
    pub(super) fn names(&self, name: &str) -> bool {
        self.has(DNS_NAME, name.as_bytes())
    }

    /// Whether it names an address.
    pub(super) fn has_address(&self, address: IpAddr) -> bool {
        match address {
            IpAddr::V4(v4) => self.has(IP_ADDRESS, &v4.octets()),
            IpAddr::V6(v6) => self.has(IP_ADDRESS, &v6.octets()),
        }
    }

    fn has(&self, tag: u8, value: &[u8]) -> bool {
        // Longer values have a longer form of length; hosts have no such names.
        let Ok(length @ 0..=127) = u8::try_from(value.len()) else { return false };
        let wanted = [&[tag, length], value].concat();
        self.extensions.windows(wanted.len()).any(|window| window == wanted)
    }
}

/// Tag, content and what follows of the first element.
fn element(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = der.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        0..=127 => (usize::from(first), rest),
        // The number of bytes of the length; four would be a certificate of more than 16 MiB.
        0x81..=0x83 => {
            let (bytes, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            (bytes.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)), rest)
        }
        _ => return None,
    };
    let (content, after) = rest.split_at_checked(length)?;
    Some((tag, content, after))
}

fn expect(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    element(der).filter(|found| found.0 == tag).map(|(_, content, after)| (content, after))
}

/// `YYMMDDhhmmssZ`, or with four digits of the year, as seconds since 1970.
fn seconds(tag: u8, time: &[u8]) -> Option<i64> {
    let digits = time.strip_suffix(b"Z")?;
    if !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number = |at: usize, length: usize| -> Option<i64> {
        std::str::from_utf8(digits.get(at..at + length)?).ok()?.parse().ok()
    };
    let (year, at) = match (tag, digits.len()) {
        // Two digits: from 1950 to 2049.
        (UTC_TIME, 12) => (number(0, 2).map(|year| if year < 50 { 2000 + year } else { 1900 + year })?, 2),
        (GENERALIZED_TIME, 14) => (number(0, 4)?, 4),
        _ => return None,
    };
    let (month, day) = (number(at, 2)?, number(at + 2, 2)?);
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let of_day = number(at + 4, 2)? * 3600 + number(at + 6, 2)? * 60 + number(at + 8, 2)?;
    Some(days(year, month, day) * 86_400 + of_day)
}

/// Days from 1970-01-01 to a day of the Gregorian calendar; years begin in March, so that leap days come last.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// The first certificate of a PEM file.
pub(super) fn from_pem(pem: &[u8]) -> Option<Vec<u8>> {
    use rustls::pki_types::{CertificateDer, pem::PemObject};
    CertificateDer::from_pem_slice(pem).ok().map(|der| der.to_vec())
}

/// OpenSSL's hash of a subject that is one common name: SHA-1 over its canonical form, the first four bytes, little
/// endian. Canonical means UTF-8, lower case, single spaces.
pub(super) fn subject_hash(common_name: &str) -> u32 {
    let words: Vec<_> = common_name.split_ascii_whitespace().map(str::to_ascii_lowercase).collect();
    let name = words.join(" ");
    let text = wrapped(0x0c, name.as_bytes());
    let pair = wrapped(SEQUENCE, &[&[0x06, 0x03, 0x55, 0x04, 0x03], &text[..]].concat());
    let hash = Sha1::digest(wrapped(0x31, &pair));
    u32::from_le_bytes([hash[0], hash[1], hash[2], hash[3]])
}

/// An element of less than 128 bytes.
fn wrapped(tag: u8, content: &[u8]) -> Vec<u8> {
    [&[tag, content.len().min(127) as u8], content].concat()
}

/// Fuzz body: a damaged certificate is one that is not there.
pub fn fuzz_certificate(data: &[u8]) {
    let _ = Timestamp(Certificate::parse(data).map_or(0, |certificate| certificate.ends_s));
    let _ = from_pem(data).and_then(|der| Certificate::parse(&der));
    let _ = seconds(GENERALIZED_TIME, data);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    fn made(names: &[&str], year: i32) -> Vec<u8> {
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.not_after = date_time_ymd(year, 12, 31);
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec()
    }

    #[test]
    fn the_end_is_found_in_both_forms_of_time() {
        for (year, ends_s) in [(2049, 2_524_521_600), (2050, 2_556_057_600), (2028, 1_861_833_600)] {
            assert_eq!(Certificate::parse(&made(&["x"], year)).unwrap().ends_s, ends_s);
        }
        assert_eq!(seconds(UTC_TIME, b"700101000001Z"), Some(1));
        assert_eq!(seconds(UTC_TIME, b"000229000000Z"), Some(951_782_400));
        assert_eq!(seconds(UTC_TIME, b"701301000001Z"), None);
    }

    #[test]
    fn only_whole_names_count() {
        let certificate = Certificate::parse(&made(&["disk01.example.org", "127.0.0.1"], 2040)).unwrap();
        assert!(certificate.names("disk01.example.org") && certificate.has_address([127, 0, 0, 1].into()));
        assert!(!certificate.names("disk01") && !certificate.names("example.org"));
        assert!(!certificate.has_address([127, 0, 0, 2].into()));
    }

    #[test]
    fn the_hash_is_that_of_openssl() {
        // openssl req -x509 -subj '/CN=Backplane facility f00' … | openssl x509 -noout -hash
        assert_eq!(subject_hash("Backplane facility f00"), 0x88d3_dc65);
    }

    proptest! {
        #[test]
        fn damage_never_panics(at in 0usize..600, byte: u8, cut in 0usize..600) {
            let mut der = made(&["x"], 2040);
            let length = der.len();
            der[at % length] = byte;
            fuzz_certificate(&der);
            fuzz_certificate(&der[..cut % length]);
        }

        #[test]
        fn noise_never_panics(data in prop::collection::vec(any::<u8>(), 0..100)) {
            fuzz_certificate(&data);
        }
    }
}
