//! Capabilities: a signed, short-lived right to read or write one object, checked by the disk server alone.
//!
//! Text form, in the opaque part of a URL: `bp.cap=r.OBJECT.FILE.SIZE.ADLER32.CRC32C.EXPIRES.MAC`, where the first
//! field is `r` or `w`, numbers are decimal, checksums 8 hex digits, EXPIRES milliseconds since 1970 and MAC the first 16 bytes of
//! HMAC-SHA-256 over everything before the last dot, in hex.

use base::{Checksums, Failure, FileId, ObjectId, Timestamp};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::fmt;

/// Name of the opaque parameter.
pub const PARAMETER: &str = "bp.cap";

/// The facility's key. It never shows itself.
#[derive(Clone)]
pub struct CapKey([u8; 32]);

impl fmt::Debug for CapKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CapKey(..)")
    }
}

/// What may be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Read the object.
    Read,
    /// Write the whole object once.
    Write,
}

/// A right to one object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cap {
    /// What may be done.
    pub access: Access,
    /// With which object.
    pub object: ObjectId,
    /// Of which file.
    pub file: FileId,
    /// Bytes it has, or must have after the write.
    pub size: u64,
    /// Sums it has, or must have after the write.
    pub checksums: Checksums,
    /// When the right ends.
    pub expires: Timestamp,
}

impl CapKey {
    /// Takes the key's bytes.
    #[must_use]
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    fn mac(&self, text: &str) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC takes keys of any length");
        mac.update(text.as_bytes());
        mac
    }

    /// Signs a right.
    #[must_use]
    pub fn sign(&self, cap: &Cap) -> String {
        let text = cap.text();
        let mac = self.mac(&text).finalize().into_bytes();
        format!("{text}.{}", hex(&mac[..16]))
    }

    /// Checks a right and when it ends.
    pub fn verify(&self, signed: &str, now: Timestamp) -> Result<Cap, Failure> {
        let (text, mac) = signed.rsplit_once('.').ok_or_else(malformed)?;
        let mac = unhex(mac).ok_or_else(malformed)?;
        self.mac(text)
            .verify_truncated_left(&mac)
            .map_err(|_| Failure::permission("capability was not signed by this facility"))?;
        let cap = Cap::parse(text).ok_or_else(malformed)?;
        if cap.expires < now {
            return Err(Failure::permission(format!("capability for object {} has expired", cap.object))
                .hint("open the file again"));
        }
        Ok(cap)
    }
}

fn malformed() -> Failure {
    Failure::invalid("capability is malformed")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Exactly 16 bytes in lower-case hex: a shorter MAC would be a weaker one.
fn unhex(text: &str) -> Option<[u8; 16]> {
    let mut bytes = [0; 16];
    if text.len() != 32 || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    for (byte, digits) in bytes.iter_mut().zip(text.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    }
    Some(bytes)
}

impl Cap {
    fn text(&self) -> String {
        let access = match self.access {
            Access::Read => 'r',
            Access::Write => 'w',
        };
        let Checksums { adler32, crc32c } = self.checksums;
        let (object, file, size, expires) = (self.object, self.file, self.size, self.expires.0);
        format!("{access}.{object}.{file}.{size}.{adler32}.{crc32c}.{expires}")
    }

    fn parse(text: &str) -> Option<Self> {
        let mut fields = text.split('.');
        let access = match fields.next()? {
            "r" => Access::Read,
            "w" => Access::Write,
            _ => return None,
        };
        let cap = Self {
            access,
            object: fields.next()?.parse().ok()?,
            file: fields.next()?.parse().ok()?,
            size: fields.next()?.parse().ok()?,
            checksums: Checksums {
                adler32: fields.next()?.parse().ok()?,
                crc32c: fields.next()?.parse().ok()?,
            },
            expires: Timestamp(fields.next()?.parse().ok()?),
        };
        fields.next().is_none().then_some(cap)
    }
}

/// Fuzz body: nothing that was not signed is accepted, nothing panics.
pub fn fuzz_cap(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let key = CapKey::new([7; 32]);
    assert!(key.verify(&text, Timestamp(0)).is_err());
    let _ = Cap::parse(&text);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn example() -> Cap {
        Cap {
            access: Access::Write,
            object: ObjectId(7),
            file: FileId(3),
            size: 9,
            checksums: Checksums::of(b"123456789"),
            expires: Timestamp(1000),
        }
    }

    #[test]
    fn signed_rights_hold_until_they_expire() {
        let key = CapKey::new([1; 32]);
        let signed = key.sign(&example());
        assert_eq!(key.verify(&signed, Timestamp(1000)).unwrap(), example());
        assert!(key.verify(&signed, Timestamp(1001)).unwrap_err().what.contains("expired"));
        assert!(CapKey::new([2; 32]).verify(&signed, Timestamp(0)).is_err());
        assert_eq!(format!("{key:?}"), "CapKey(..)");
    }

    proptest! {
        #[test]
        fn a_changed_right_is_refused(at in 0usize..200, byte in 32u8..127) {
            let key = CapKey::new([1; 32]);
            let signed = key.sign(&example());
            let mut bytes = signed.clone().into_bytes();
            let at = at % bytes.len();
            // Hex digits are read in either case: the same right.
            prop_assume!(!bytes[at].eq_ignore_ascii_case(&byte));
            bytes[at] = byte;
            prop_assert!(key.verify(std::str::from_utf8(&bytes).unwrap(), Timestamp(0)).is_err());
        }

        #[test]
        fn noise_never_panics(data in prop::collection::vec(any::<u8>(), 0..100)) {
            fuzz_cap(&data);
        }
    }
}
