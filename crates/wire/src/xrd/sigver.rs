//! Signatures of requests (spec/xrootd.md §8.3): a request of its own, directly before the one that it signs.

use super::{Malformed, RequestCode, RequestHeader};
use sha2::{Digest, Sha256};

/// Longest signature that is taken; those of the field have 32 to 512 bytes.
pub const SIGNATURE_BYTES_MAX: usize = 1024;
/// Bytes of a signature without a key: the SHA-256 itself.
pub const HASH_BYTES: usize = 32;
/// The flag that says that the body of the request is not covered.
const NO_DATA: u8 = 1;
/// The part of the cryptography byte that names the hash, and SHA-256 there.
const HASH_MASK: u8 = 0x0f;
const SHA256: u8 = 1;

/// The signature of the next request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sigver {
    /// Code of the request that is signed.
    pub request: u16,
    /// Whether its body is covered.
    pub covers_data: bool,
    /// Grows from signature to signature.
    pub number: u64,
    /// The hash, and in the high bit whether an RSA key was used.
    pub crypto: u8,
    /// The hash, encrypted with the session's key if there is one.
    pub signature: Vec<u8>,
}

/// Why a signature does not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadSignature {
    /// Numbers must grow: an old signature was sent again.
    #[error("signature number {0} was used before")]
    Replayed(u64),
    /// Another request follows.
    #[error("signature is of request {expected}, request {found} follows")]
    OtherRequest {
        /// What was signed.
        expected: u16,
        /// What came.
        found: u16,
    },
    /// The hash is not SHA-256.
    #[error("signature of cryptography {0} is not understood")]
    Unknown(u8),
    /// The request is not what was signed.
    #[error("signature does not match its request")]
    Mismatch,
}

impl Sigver {
    pub(super) fn parse(p: &[u8; 16], body: &[u8]) -> Result<Self, Malformed> {
        if body.is_empty() || body.len() > SIGNATURE_BYTES_MAX {
            return Err(Malformed::Length { what: "signature", bytes: body.len() as u64 });
        }
        if p[2] != 0 {
            return Err(Malformed::UnknownCode { what: "signature version", value: u32::from(p[2]) });
        }
        let mut number = [0; 8];
        number.copy_from_slice(&p[4..12]);
        Ok(Self {
            request: u16::from_be_bytes([p[0], p[1]]),
            covers_data: p[3] & NO_DATA == 0,
            number: u64::from_be_bytes(number),
            crypto: p[12],
            signature: body.to_vec(),
        })
    }

    pub(super) fn encode_parts(&self, p: &mut [u8; 16]) -> Vec<u8> {
        p[..2].copy_from_slice(&self.request.to_be_bytes());
        p[3] = if self.covers_data { 0 } else { NO_DATA };
        p[4..12].copy_from_slice(&self.number.to_be_bytes());
        p[12] = self.crypto;
        self.signature.clone()
    }

    /// Signs a request without a key.
    #[must_use]
    pub fn of(header: &RequestHeader, body: Option<&[u8]>, number: u64) -> Self {
        let signature = hash(number, header, body.unwrap_or_default()).to_vec();
        Self { request: header.code, covers_data: body.is_some(), number, crypto: SHA256, signature }
    }

    /// Whether the signature is only a hash, which needs no key to be checked.
    #[must_use]
    pub fn is_keyless(&self) -> bool {
        self.signature.len() == HASH_BYTES
    }

    /// Checks everything but the hash: that this is the signature of `header`, and a new one.
    pub fn check_order(&self, header: &RequestHeader, last: u64) -> Result<(), BadSignature> {
        if self.number <= last {
            return Err(BadSignature::Replayed(self.number));
        }
        if self.request != header.code {
            return Err(BadSignature::OtherRequest { expected: self.request, found: header.code });
        }
        if self.crypto & HASH_MASK != SHA256 {
            return Err(BadSignature::Unknown(self.crypto));
        }
        Ok(())
    }

    /// Checks the hash of a request; `body` is its whole body, whether it is covered or not.
    pub fn check_hash(&self, header: &RequestHeader, body: &[u8]) -> Result<(), BadSignature> {
        let covered = if self.covers_data { body } else { &[] };
        let found = hash(self.number, header, covered);
        let differ = found.iter().zip(&self.signature).fold(0, |differ, (a, b)| differ | (a ^ b));
        if self.is_keyless() && differ == 0 { Ok(()) } else { Err(BadSignature::Mismatch) }
    }
}

/// SHA-256 over number, header and what is covered of the body.
fn hash(number: u64, header: &RequestHeader, body: &[u8]) -> [u8; HASH_BYTES] {
    let mut hash = Sha256::new();
    hash.update(number.to_be_bytes());
    hash.update(header.encode());
    hash.update(body);
    hash.finalize().into()
}

impl RequestHeader {
    /// Whether this is the signature of the next request.
    #[must_use]
    pub fn is_signature(&self) -> bool {
        self.request_code() == Some(RequestCode::Sigver)
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{FileHandle, Request, Setting, StreamId},
        *,
    };

    fn signed() -> (RequestHeader, Vec<u8>) {
        let bytes =
            Request::Set(Setting { is_of_cache: false, text: "appid x".to_owned() }).encode(StreamId::of(7));
        let (header, body) = bytes.split_first_chunk().unwrap();
        (RequestHeader::parse(header), body.to_vec())
    }

    #[test]
    fn a_signature_holds_for_its_request_only() {
        let (header, body) = signed();
        let signature = Sigver::of(&header, Some(&body), 5);
        signature.check_order(&header, 4).unwrap();
        signature.check_hash(&header, &body).unwrap();
        assert_eq!(signature.check_hash(&header, b"appid y"), Err(BadSignature::Mismatch));
        let other = RequestHeader { stream: StreamId::of(8), ..header };
        assert_eq!(signature.check_hash(&other, &body), Err(BadSignature::Mismatch));
        assert_eq!(signature.check_order(&header, 5), Err(BadSignature::Replayed(5)));
        let close = Request::Close(FileHandle::of(1)).encode(StreamId::of(7));
        let close = RequestHeader::parse(close.first_chunk().unwrap());
        assert!(matches!(signature.check_order(&close, 0), Err(BadSignature::OtherRequest { .. })));
    }

    #[test]
    fn a_body_that_is_not_covered_may_be_anything() {
        let (header, _) = signed();
        let signature = Sigver::of(&header, None, 1);
        signature.check_hash(&header, b"whatever").unwrap();
        let unknown = Sigver { crypto: 2, ..signature };
        assert_eq!(unknown.check_order(&header, 0), Err(BadSignature::Unknown(2)));
    }

    #[test]
    fn lengths_and_versions_are_checked() {
        assert!(Sigver::parse(&[0; 16], &[]).is_err());
        assert!(Sigver::parse(&[0; 16], &[0; SIGNATURE_BYTES_MAX + 1]).is_err());
        let mut params = [0; 16];
        params[2] = 1;
        assert!(Sigver::parse(&params, &[0; 32]).is_err());
    }
}
