//! The authorities whose word counts for who a server is.

use base::{Failure, Result, SYSTEM_AUTHORITIES};
use rustls::pki_types::{CertificateDer, pem::PemObject};
use std::path::{Path, PathBuf};

/// Certificates of authorities that are read.
const AUTHORITIES_MAX: usize = 10_000;
/// Where grid sites keep theirs.
const GRID_DIRECTORY: &str = "/etc/grid-security/certificates";

/// The certificates in `ca_file`; without it those of `BP_CA_FILE`, `SSL_CERT_FILE`, `X509_CERT_DIR`, then those of the
/// system.
pub(crate) fn authorities(ca_file: Option<&Path>) -> Result<Vec<CertificateDer<'static>>> {
    let named = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let file = ca_file.map(Path::to_owned).or_else(|| named("BP_CA_FILE")).or_else(|| named("SSL_CERT_FILE"));
    let mut found = Vec::new();
    if let Some(file) = file {
        add_file(&mut found, &file);
        if found.is_empty() {
            let what = format!("{} has no certificate of an authority", file.display());
            return Err(Failure::invalid(what).hint("it must be a readable PEM file"));
        }
        return Ok(found);
    }
    let directory = named("X509_CERT_DIR").unwrap_or_else(|| PathBuf::from(GRID_DIRECTORY));
    add_directory(&mut found, &directory);
    if let Some(file) = SYSTEM_AUTHORITIES.iter().map(Path::new).find(|file| file.exists()) {
        add_file(&mut found, file);
    }
    Ok(found)
}

/// Adds the certificates of a file; those that make no sense are of no use to anybody and skipped.
fn add_file(found: &mut Vec<CertificateDer<'static>>, file: &Path) {
    let Ok(certificates) = CertificateDer::pem_file_iter(file) else { return };
    found.extend(certificates.take(AUTHORITIES_MAX).flatten());
}

fn add_directory(found: &mut Vec<CertificateDer<'static>>, directory: &Path) {
    let Ok(entries) = std::fs::read_dir(directory) else { return };
    for entry in entries.take(AUTHORITIES_MAX).flatten() {
        let path = entry.path();
        // Beside certificates there are policies, revocations, and links to the same again.
        if path.extension().is_some_and(|end| end == "pem" || end == "crt" || end == "0") {
            add_file(found, &path);
        }
    }
}
