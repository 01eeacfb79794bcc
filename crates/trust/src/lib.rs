//! Certificates: which authorities are trusted, and the TLS settings of both ends of a connection.
//!
//! **Problem.** Servers and clients of a facility, of grid sites and of the system have different authorities, and TLS settings
//! that are chosen twice differ.
//!
//! **Idea.** Authorities are read here, and TLS is configured here, with the safe defaults of the library only: TLS 1.2 and 1.3
//! with forward secrecy.
//!
//! **Start reading** with [`in_file`] and [`in_directory`], which read authorities.

mod any_certificate;

pub use any_certificate::AcceptAnyCertificate;

use base::{Failure, Result};
use rustls::{
    ClientConfig, ConfigBuilder, RootCertStore, WantsVerifier,
    crypto::{CryptoProvider, aws_lc_rs},
    pki_types::{CertificateDer, pem::PemObject},
};
use std::{
    ffi::OsStr,
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

/// Where systems keep the certificates of authorities that they trust: the first file that is there counts.
const SYSTEM_FILES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];
/// Certificates of one file, and files of one directory: the grid's has a few hundred.
const AUTHORITIES_MAX: usize = 10_000;

/// What computes for TLS.
#[must_use]
pub fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

/// Which certificates of servers a client accepts.
#[derive(Debug)]
pub enum TrustPolicy {
    /// Servers whose certificates these have signed, for the name by which they were asked.
    Signed(RootCertStore),
    /// Any certificate: the connection is encrypted, but the server is not authenticated (impostors are not noticed).
    AnyCertificate,
}

/// The configuration of a client that shows no certificate.
pub fn client_config(policy: TrustPolicy) -> Result<ClientConfig> {
    let provider = provider();
    let builder: ConfigBuilder<ClientConfig, WantsVerifier> =
        ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|cause| Failure::internal(format!("TLS cannot be set up: {cause}")))?;
    let builder = match policy {
        TrustPolicy::Signed(roots) => builder.with_root_certificates(roots),
        TrustPolicy::AnyCertificate => {
            builder.dangerous().with_custom_certificate_verifier(Arc::new(AcceptAnyCertificate(provider)))
        }
    };
    Ok(builder.with_no_client_auth())
}

/// The authorities among some certificates; others are of no use to anybody and passed over.
#[must_use]
pub fn roots(certificates: Vec<CertificateDer<'static>>) -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(certificates);
    roots
}

/// The file that a variable of the environment names.
#[must_use]
pub fn named_by(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// The file of authorities that the system trusts: `SSL_CERT_FILE`, or where systems have it.
#[must_use]
pub fn system_file() -> Option<PathBuf> {
    let known = || SYSTEM_FILES.iter().map(PathBuf::from).find(|file| file.is_file());
    named_by("SSL_CERT_FILE").or_else(known)
}

/// The certificates of a PEM file; what is none is passed over, as every browser does.
pub fn in_file(file: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let pem = std::fs::read(file).map_err(|cause| failed("read the authorities in", file, &cause))?;
    Ok(CertificateDer::pem_slice_iter(&pem).take(AUTHORITIES_MAX).flatten().collect())
}

/// As [`in_file`], but one without any certificate is refused.
pub fn some_in_file(file: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let found = in_file(file)?;
    if found.is_empty() {
        let what = format!("{} has no certificate of an authority", file.display());
        return Err(
            Failure::invalid(what).hint("the file must be PEM and begin with -----BEGIN CERTIFICATE-----")
        );
    }
    Ok(found)
}

/// The certificates of a directory as the grid lays it out: beside policies, revocations, and links to the same again.
pub fn in_directory(directory: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let broken = |cause: io::Error| failed("list the authorities in", directory, &cause);
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(broken)?.take(AUTHORITIES_MAX) {
        let path = entry.map_err(broken)?.path();
        let end = path.extension().and_then(OsStr::to_str).unwrap_or("");
        if path.is_file() && matches!(end, "pem" | "crt" | "0" | "1" | "2") {
            // One that nobody may read must not be in the way of the others.
            found.extend(in_file(&path).unwrap_or_default());
        }
    }
    Ok(found)
}

fn failed(what: &str, path: &Path, cause: &io::Error) -> Failure {
    Failure::io(format!("{what} {}", path.display()), cause)
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::ErrorKind;

    #[test]
    fn what_is_no_certificate_is_passed_over_and_what_is_missing_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("a.pem");
        std::fs::write(&file, "no certificate").unwrap();
        std::fs::write(directory.path().join("a.info"), "alias = a").unwrap();
        assert!(in_file(&file).unwrap().is_empty());
        assert!(in_directory(directory.path()).unwrap().is_empty());
        let failure = some_in_file(&file).unwrap_err();
        assert!(failure.what.contains("a.pem has no certificate"), "{failure}");
        for missing in [in_file(&directory.path().join("b")), in_directory(&directory.path().join("b"))] {
            let failure = missing.unwrap_err();
            assert_eq!(failure.kind, ErrorKind::NotFound);
            assert!(failure.what.contains("authorities in"), "{failure}");
        }
    }
}
