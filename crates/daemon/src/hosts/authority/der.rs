//! Certificates in files, and the names by which OpenSSL finds them.

use sha1::{Digest, Sha1};
use wire::auth::x509::{Certificate, fuzz_x509};

const SEQUENCE: u8 = 0x30;
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
    fuzz_x509(data);
    let _ = from_pem(data).and_then(|der| Certificate::parse(&der));
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
