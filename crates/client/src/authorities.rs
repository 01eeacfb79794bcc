//! The certificate authorities that clients trust.

use base::Result;
use rustls::pki_types::CertificateDer;
use std::path::Path;
use trust::{in_directory, in_file, named_by, some_in_file, system_file};

/// Directory of the grid's certificate authorities.
const GRID_DIRECTORY: &str = "/etc/grid-security/certificates";

/// The certificates in `ca_file`; without it those of `BP_CA_FILE`, `SSL_CERT_FILE`, `X509_CERT_DIR`, then those of the
/// system.
pub(crate) fn authorities(ca_file: Option<&Path>) -> Result<Vec<CertificateDer<'static>>> {
    let file =
        ca_file.map(Path::to_owned).or_else(|| named_by("BP_CA_FILE")).or_else(|| named_by("SSL_CERT_FILE"));
    if let Some(file) = file {
        return some_in_file(&file);
    }
    let mut found = match named_by("X509_CERT_DIR") {
        Some(directory) => in_directory(&directory)?,
        // Most hosts have none, and what the system trusts may do.
        None => in_directory(Path::new(GRID_DIRECTORY)).unwrap_or_default(),
    };
    if let Some(file) = system_file() {
        found.extend(in_file(&file).unwrap_or_default());
    }
    Ok(found)
}
