//! As much of X.509 as is needed to know when a certificate ends and whom it names (RFC 5280).

use base::Civil;
use core::net::IpAddr;

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

/// When a certificate ends, and whom it names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Certificate {
    /// When it ends, in seconds since 1970.
    pub ends_s: i64,
    extensions: Vec<u8>,
}

impl Certificate {
    /// Takes a certificate apart; `None` if it is damaged.
    #[must_use]
    pub fn parse(der: &[u8]) -> Option<Self> {
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
    #[must_use]
    pub fn names(&self, name: &str) -> bool {
        self.has(DNS_NAME, name.as_bytes())
    }

    /// Whether it names an address.
    #[must_use]
    pub fn has_address(&self, address: IpAddr) -> bool {
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
    let number = |at: usize, length: usize| -> Option<u16> {
        std::str::from_utf8(digits.get(at..at + length)?).ok()?.parse().ok()
    };
    let (year, at) = match (tag, digits.len()) {
        // Two digits: from 1950 to 2049.
        (UTC_TIME, 12) => (number(0, 2).map(|year| if year < 50 { 2000 + year } else { 1900 + year })?, 2),
        (GENERALIZED_TIME, 14) => (number(0, 4)?, 4),
        _ => return None,
    };
    let part = |place: usize| number(at + 2 * place, 2).map(|number| number as u8);
    let (month, day) = (part(0)?, part(1)?);
    Civil { year, month, day, hour: part(2)?, minute: part(3)?, second: part(4)? }.seconds()
}

/// Fuzz body: a damaged certificate is one that is not there.
pub fn fuzz_x509(data: &[u8]) {
    let _ = Certificate::parse(data);
    let _ = seconds(UTC_TIME, data);
    let _ = seconds(GENERALIZED_TIME, data);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn both_forms_of_time_are_read() {
        assert_eq!(seconds(UTC_TIME, b"700101000001Z"), Some(1));
        assert_eq!(seconds(UTC_TIME, b"000229000000Z"), Some(951_782_400));
        assert_eq!(seconds(UTC_TIME, b"701301000001Z"), None);
        assert_eq!(seconds(GENERALIZED_TIME, b"20500101000000Z"), Some(2_524_608_000));
    }

    proptest! {
        #[test]
        fn noise_never_panics(data in prop::collection::vec(any::<u8>(), 0..100)) {
            fuzz_x509(&data);
        }
    }
}
