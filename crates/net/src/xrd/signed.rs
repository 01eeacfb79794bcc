//! Signed requests (spec/xrootd.md §8.3).
//!
//! This server demands no signatures: tokens come over TLS, which protects every byte. A client that signs nevertheless has no
//! key, so its signature is a hash. The server checks the hash and so finds damage. It cannot check signatures that were made
//! with a key of other servers' protocols, and ignores them, as servers of the field do that demand no signatures.

use wire::xrd::{BadSignature, RequestHeader, Sigver};

/// The signatures of one connection.
#[derive(Debug, Default)]
pub(super) struct Signing {
    next: Option<Sigver>,
    last: u64,
}

impl Signing {
    /// Keeps the signature of the next request.
    pub(super) fn keep(&mut self, signature: Sigver) {
        self.next = Some(signature);
    }

    /// Forgets it: the request that it signed is not looked at.
    pub(super) fn forget(&mut self) {
        self.next = None;
    }

    /// Checks the signature of a request, if it has one. `body` is what was received of its body: the data of a write
    /// come later and are only covered by a hash that is not looked at.
    pub(super) fn check(&mut self, header: &RequestHeader, body: &[u8]) -> Result<(), BadSignature> {
        if header.is_signature() {
            return Ok(());
        }
        let Some(signature) = self.next.take() else { return Ok(()) };
        signature.check_order(header, self.last)?;
        self.last = signature.number;
        if signature.is_keyless() && !(signature.covers_data && header.is_data_body()) {
            signature.check_hash(header, body)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::xrd::{FileHandle, Request, Setting, StreamId};

    fn parts(request: &Request) -> (RequestHeader, Vec<u8>) {
        let bytes = request.encode(StreamId::of(1));
        let (header, body) = bytes.split_first_chunk().unwrap();
        (RequestHeader::parse(header), body.to_vec())
    }

    #[test]
    fn one_signature_is_for_one_request_and_numbers_grow() {
        let (header, body) = parts(&Request::Set(Setting::default()));
        let mut signing = Signing::default();
        signing.check(&header, &body).unwrap();
        signing.keep(Sigver::of(&header, Some(&body), 1));
        signing.check(&header, &body).unwrap();
        signing.check(&header, b"not signed").unwrap();
        signing.keep(Sigver::of(&header, Some(&body), 1));
        assert_eq!(signing.check(&header, &body), Err(BadSignature::Replayed(1)));
        signing.keep(Sigver::of(&header, Some(&body), 2));
        assert_eq!(signing.check(&header, b"appie"), Err(BadSignature::Mismatch));
    }

    #[test]
    fn signatures_by_keys_of_others_are_passed_over() {
        let (header, body) = parts(&Request::Close(FileHandle::of(1)));
        let mut signing = Signing::default();
        let keyed = Sigver { signature: vec![1; 128], ..Sigver::of(&header, Some(&body), 1) };
        signing.keep(keyed);
        signing.check(&header, &body).unwrap();
    }
}
