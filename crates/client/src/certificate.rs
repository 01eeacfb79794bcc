//! Certificates in files.

use base::Timestamp;
use rustls::pki_types::{CertificateDer, pem::PemObject};
use wire::auth::x509::Certificate;

/// When the first certificate of a PEM file ends; `None` if there is none, or it is damaged.
#[must_use]
pub fn certificate_end(pem: &[u8]) -> Option<Timestamp> {
    let der = CertificateDer::from_pem_slice(pem).ok()?;
    Some(Timestamp(Certificate::parse(&der)?.ends_s.saturating_mul(1000)))
}
