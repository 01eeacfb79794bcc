//! Which servers are believed to be who they say they are.

use base::{Failure, Result, SYSTEM_AUTHORITIES};
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, pem::PemObject},
};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tokio::{sync::Mutex, time::Instant};

/// After this long the files are read again: authorities come and go.
const REREAD: Duration = Duration::from_secs(600);
/// Files of one directory of authorities: the grid's has a few hundred.
const FILES_MAX: usize = 10_000;

/// Which servers a third-party copy may speak to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteTrust {
    /// Trust what this host's system trusts.
    pub system_roots: bool,
    /// A file with certificates of further authorities, or a directory of such files.
    pub authorities: Option<PathBuf>,
    /// Speak to servers without TLS, too.
    pub plain_http: bool,
}

impl Default for RemoteTrust {
    fn default() -> Self {
        Self { system_roots: true, authorities: None, plain_http: true }
    }
}

/// The certificates as TLS wants them, read when they are needed.
#[derive(Debug)]
pub(super) struct Roots {
    pub(super) trust: RemoteTrust,
    config: Mutex<Option<(Instant, Arc<ClientConfig>)>>,
}

impl Roots {
    pub(super) fn new(trust: RemoteTrust) -> Self {
        Self { trust, config: Mutex::new(None) }
    }

    /// The configuration of clients of now.
    pub(super) async fn config(&self) -> Result<Arc<ClientConfig>> {
        let mut known = self.config.lock().await;
        if let Some((read, config)) = &*known
            && read.elapsed() < REREAD
        {
            return Ok(Arc::clone(config));
        }
        let trust = self.trust.clone();
        let config = Arc::new(crate::files::blocking(move || client_config(&trust)).await?);
        *known = Some((Instant::now(), Arc::clone(&config)));
        Ok(config)
    }
}

fn client_config(trust: &RemoteTrust) -> Result<ClientConfig> {
    let mut roots = RootCertStore::empty();
    if trust.system_roots {
        let given = std::env::var_os("SSL_CERT_FILE").map(PathBuf::from);
        let known = SYSTEM_AUTHORITIES.map(PathBuf::from);
        if let Some(file) = given.into_iter().chain(known).find(|path| path.is_file()) {
            add_file(&mut roots, &file)?;
        }
    }
    match &trust.authorities {
        Some(path) if path.is_dir() => add_directory(&mut roots, path)?,
        Some(path) => add_file(&mut roots, path)?,
        None => {}
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|cause| Failure::internal(format!("TLS cannot be set up: {cause}")))?;
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

/// Takes the certificates of one file; those that cannot be authorities are passed over, as every browser does.
fn add_file(roots: &mut RootCertStore, path: &Path) -> Result<()> {
    let pem = std::fs::read(path).map_err(|cause| Failure::io(format!("read {}", path.display()), &cause))?;
    let certificates = CertificateDer::pem_slice_iter(&pem).filter_map(std::result::Result::ok);
    roots.add_parsable_certificates(certificates);
    Ok(())
}

/// Takes all files of a directory as the grid lays them out: certificates beside policies and revocation lists.
fn add_directory(roots: &mut RootCertStore, path: &Path) -> Result<()> {
    let failed = |cause: std::io::Error| Failure::io(format!("list {}", path.display()), &cause);
    for entry in std::fs::read_dir(path).map_err(failed)?.take(FILES_MAX) {
        let path = entry.map_err(failed)?.path();
        let end = path.extension().and_then(std::ffi::OsStr::to_str).unwrap_or("");
        if path.is_file() && matches!(end, "pem" | "crt" | "0" | "1" | "2") {
            add_file(roots, &path)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_certificate_is_passed_over() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("a.pem"), "no certificate").unwrap();
        std::fs::write(directory.path().join("a.info"), "alias = a").unwrap();
        let trust = RemoteTrust {
            system_roots: false,
            authorities: Some(directory.path().to_owned()),
            ..RemoteTrust::default()
        };
        client_config(&trust).unwrap();
        let missing = RemoteTrust { authorities: Some(directory.path().join("nothing")), ..trust };
        assert_eq!(client_config(&missing).unwrap_err().kind, base::ErrorKind::NotFound);
    }
}
