//! TLS: what a server shows, read from files that may be replaced while it runs.
//!
//! Only the safe defaults of the library are offered: TLS 1.2 and 1.3 with forward secrecy.

use base::{Failure, Result};
use rustls::{
    RootCertStore, ServerConfig,
    crypto::CryptoProvider,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::{ClientHello, ResolvesServerCert, WebPkiClientVerifier, danger::ClientCertVerifier},
    sign::CertifiedKey,
};
use std::{
    fmt,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};
use trust::AcceptAnyCertificate;

/// Shortest time between two checks of the files.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Certificates of one chain: real ones have three or four.
const CHAIN_LEN_MAX: usize = 16;

/// The files that a server needs for TLS, in PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The certificate, then those that lead to the authority's.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// Authorities one of which must have signed the certificate of a client; `None`: clients need none.
    pub client_ca: Option<PathBuf>,
}

/// As [`server_config`], for doors that hosts of the facility visit, too: whoever has a certificate is asked to show it,
/// but nobody is refused for it. What counts is whether the door knows the certificate; that its holder has the key is
/// proven.
pub fn server_config_for_hosts(identity: &Identity) -> Result<Arc<ServerConfig>> {
    if identity.client_ca.is_some() {
        return server_config(identity);
    }
    let provider = trust::provider();
    configure(identity, Arc::new(AcceptAnyCertificate(Arc::clone(&provider))), provider)
}

/// Reads the files and makes a configuration for any number of listeners.
///
/// Changed files apply to connections that begin after the change. If files cannot be used, that is reported once, and
/// the previous files stay in use. Authorities of clients are read only once.
pub fn server_config(identity: &Identity) -> Result<Arc<ServerConfig>> {
    let provider = trust::provider();
    let verifier = match &identity.client_ca {
        Some(file) => {
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots(file)?), Arc::clone(&provider))
                .build()
                .map_err(|cause| unusable(file, &cause))?
        }
        None => WebPkiClientVerifier::no_client_auth(),
    };
    configure(identity, verifier, provider)
}

fn configure(
    identity: &Identity,
    verifier: Arc<dyn ClientCertVerifier>,
    provider: Arc<CryptoProvider>,
) -> Result<Arc<ServerConfig>> {
    let shown = LoadedCertificate::load(&identity.certificate, &identity.key, &provider)?;
    let resolver = Resolver {
        certificate: identity.certificate.clone(),
        key: identity.key.clone(),
        provider: Arc::clone(&provider),
        shown: Mutex::new(shown),
    };
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|cause| Failure::internal(format!("TLS cannot be set up: {cause}")))?
        .with_client_cert_verifier(verifier)
        .with_cert_resolver(Arc::new(resolver));
    Ok(Arc::new(config))
}

/// The authorities in a PEM file.
pub fn roots(file: &Path) -> Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(file)? {
        roots.add(certificate).map_err(|cause| unusable(file, &cause))?;
    }
    Ok(roots)
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let read = CertificateDer::pem_file_iter(file).map_err(|cause| unusable(file, &cause))?;
    let found: Result<Vec<_>, _> = read.collect();
    match found.map_err(|cause| unusable(file, &cause))? {
        none if none.is_empty() => Err(Failure::invalid(format!("{} has no certificate", file.display()))
            .hint("the file must be PEM and begin with -----BEGIN CERTIFICATE-----")),
        found => Ok(found),
    }
}

fn unusable(file: &Path, cause: &dyn fmt::Display) -> Failure {
    Failure::invalid(format!("{} cannot be used for TLS: {cause}", file.display()))
}

/// The identity of a version of a file: changes when the file is replaced or written.
type Stamp = (u64, i64, i64, u64);

fn stamp(file: &Path) -> Option<Stamp> {
    let data = std::fs::metadata(file).ok()?;
    Some((data.ino(), data.mtime(), data.mtime_nsec(), data.size()))
}

/// A certificate with its key, and which files they came from.
struct LoadedCertificate {
    key: Arc<CertifiedKey>,
    stamps: [Option<Stamp>; 2],
    looked: Instant,
}

impl LoadedCertificate {
    fn load(certificate: &Path, key: &Path, provider: &CryptoProvider) -> Result<Self> {
        // Stamps first: a change while the files are read is then seen at the next look.
        let stamps = [stamp(certificate), stamp(key)];
        let chain = certificates(certificate)?;
        if chain.len() > CHAIN_LEN_MAX {
            let what = format!("{} has more than {CHAIN_LEN_MAX} certificates", certificate.display());
            return Err(
                Failure::invalid(what).hint("name the file of the host's certificate, not of authorities")
            );
        }
        let secret = PrivateKeyDer::from_pem_file(key).map_err(|cause| unusable(key, &cause))?;
        let key = CertifiedKey::from_der(chain, secret, provider).map_err(|cause| unusable(key, &cause))?;
        Ok(Self { key: Arc::new(key), stamps, looked: Instant::now() })
    }
}

/// Looks at the files when somebody connects.
struct Resolver {
    certificate: PathBuf,
    key: PathBuf,
    provider: Arc<CryptoProvider>,
    /// Guards what is shown; held for two looks at metadata, or for reading two small files after a change.
    shown: Mutex<LoadedCertificate>,
}

impl fmt::Debug for Resolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resolver").field("certificate", &self.certificate).finish_non_exhaustive()
    }
}

impl Resolver {
    fn shown(&self, now: Instant) -> Arc<CertifiedKey> {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        if now.saturating_duration_since(shown.looked) >= LOOK_EVERY {
            shown.looked = now;
            let stamps = [stamp(&self.certificate), stamp(&self.key)];
            if stamps != shown.stamps {
                self.replace(&mut shown, stamps);
            }
        }
        Arc::clone(&shown.key)
    }

    fn replace(&self, shown: &mut LoadedCertificate, stamps: [Option<Stamp>; 2]) {
        match LoadedCertificate::load(&self.certificate, &self.key, &self.provider) {
            Ok(new) => {
                tracing::info!(certificate = %self.certificate.display(), "new certificate in use");
                *shown = new;
            }
            Err(failure) => {
                // Remembered, so that one bad file is one line in the log.
                shown.stamps = stamps;
                tracing::warn!(%failure, "cannot load a new certificate; the previous one stays in use");
            }
        }
    }
}

impl ResolvesServerCert for Resolver {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.shown(Instant::now()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertifiedKey as Made, generate_simple_self_signed};
    use rustls::{ClientConnection, ServerConnection, pki_types::ServerName};
    use std::fs;

    fn write(identity: &Identity) -> Vec<u8> {
        let Made { cert, signing_key } = generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        fs::write(&identity.certificate, cert.pem()).unwrap();
        fs::write(&identity.key, signing_key.serialize_pem()).unwrap();
        cert.der().to_vec()
    }

    fn identity(directory: &tempfile::TempDir) -> Identity {
        let path = |name: &str| directory.path().join(name);
        Identity { certificate: path("host.pem"), key: path("host.key"), client_ca: None }
    }

    /// Moves bytes between two ends until neither has any.
    fn shake(client: &mut ClientConnection, server: &mut ServerConnection) -> Result<(), rustls::Error> {
        while client.wants_write() || server.wants_write() {
            let mut bytes = Vec::new();
            client.write_tls(&mut bytes).unwrap();
            server.read_tls(&mut &bytes[..]).unwrap();
            server.process_new_packets()?;
            bytes.clear();
            server.write_tls(&mut bytes).unwrap();
            client.read_tls(&mut &bytes[..]).unwrap();
            client.process_new_packets()?;
        }
        Ok(())
    }

    fn client(roots: RootCertStore) -> ClientConnection {
        let config = trust::client_config(trust::TrustPolicy::Signed(roots)).unwrap();
        ClientConnection::new(Arc::new(config), ServerName::try_from("localhost").unwrap()).unwrap()
    }

    #[test]
    fn a_client_that_trusts_the_file_is_served_and_another_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let identity = identity(&directory);
        write(&identity);
        let config = server_config(&identity).unwrap();
        let mut server = ServerConnection::new(Arc::clone(&config)).unwrap();
        shake(&mut client(roots(&identity.certificate).unwrap()), &mut server).unwrap();
        assert!(!server.is_handshaking());
        let mut server = ServerConnection::new(config).unwrap();
        assert!(shake(&mut client(RootCertStore::empty()), &mut server).is_err());
    }

    #[test]
    fn clients_without_a_certificate_are_refused_where_one_is_wanted() {
        let directory = tempfile::tempdir().unwrap();
        let mut identity = identity(&directory);
        write(&identity);
        identity.client_ca = Some(identity.certificate.clone());
        let mut server = ServerConnection::new(server_config(&identity).unwrap()).unwrap();
        assert!(shake(&mut client(roots(&identity.certificate).unwrap()), &mut server).is_err());
    }

    #[test]
    fn new_files_are_taken_and_bad_ones_are_not() {
        let directory = tempfile::tempdir().unwrap();
        let identity = identity(&directory);
        let first = write(&identity);
        let provider = trust::provider();
        let shown = LoadedCertificate::load(&identity.certificate, &identity.key, &provider).unwrap();
        let (certificate, key) = (identity.certificate.clone(), identity.key.clone());
        let resolver = Resolver { certificate, key, provider, shown: Mutex::new(shown) };
        let start = Instant::now();
        let at = |seconds| resolver.shown(start + Duration::from_secs(seconds)).cert[0].to_vec();
        assert_eq!(at(0), first);
        fs::write(&identity.certificate, "damaged, and of another length").unwrap();
        assert_eq!(at(10), first);
        let second = write(&identity);
        assert_eq!(at(10), first, "looked at a moment ago");
        assert_eq!(at(20), second);
    }

    #[test]
    fn files_that_do_not_belong_together_are_named() {
        let directory = tempfile::tempdir().unwrap();
        let identity = identity(&directory);
        assert!(server_config(&identity).unwrap_err().what.contains("host.pem"));
        write(&identity);
        let key = generate_simple_self_signed(["x".to_owned()]).unwrap().signing_key.serialize_pem();
        fs::write(&identity.key, key).unwrap();
        assert!(server_config(&identity).unwrap_err().what.contains("host.key"));
        fs::write(&identity.certificate, "nothing").unwrap();
        assert!(server_config(&identity).unwrap_err().what.contains("no certificate"));
    }
}
