//! TLS of the management client: trusted authorities and the client certificate.

use super::socket;
use crate::authorities::authorities;
use base::{Failure, Result};
use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::{Duration, SystemTime},
};
use ureq::{
    Agent,
    tls::{Certificate, ClientCert, PemItem, PrivateKey, RootCerts, TlsConfig, parse_pem},
};

/// How long connecting may take.
const CONNECT_DEADLINE: Duration = Duration::from_secs(10);

/// How the management client uses TLS.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ControlTls {
    /// Authorities to believe, PEM. Without it: `BP_CA_FILE`, `SSL_CERT_FILE`, `X509_CERT_DIR`, those of the system.
    pub authorities: Option<PathBuf>,
    /// Certificate and private key to show, PEM. They may be replaced while the client is in use.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// Believe anybody: only for what is checked in another way.
    pub insecure: bool,
}

/// Makes connections, anew when the certificate to show has been replaced.
pub(super) struct Agents {
    tls: ControlTls,
    /// The facility's directory, if its Unix socket is talked to, whatever a URL says.
    directory: Option<PathBuf>,
    /// The agent, and when its certificate was written. Guards a clone, and now and then the reading of two files.
    current: Mutex<Option<(Option<SystemTime>, Agent)>>,
}

impl Agents {
    pub(super) fn new(tls: ControlTls) -> Self {
        Self { tls, directory: None, current: Mutex::new(None) }
    }

    /// For the Unix socket in `directory`.
    pub(super) fn at_socket(directory: &Path) -> Self {
        Self { directory: Some(directory.to_owned()), ..Self::new(ControlTls::default()) }
    }

    /// The directory whose Unix socket is talked to.
    pub(super) fn directory(&self) -> Option<&Path> {
        self.directory.as_deref()
    }

    /// For another server: the same proofs, no connection yet.
    pub(super) fn anew(&self) -> Self {
        Self::new(self.tls.clone())
    }

    /// The agent for `url`.
    pub(super) fn agent(&self, url: &str) -> Result<Agent> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let written = self.tls.identity.as_ref().and_then(|(certificate, _)| written(certificate));
        match &*current {
            Some((of, agent)) if *of == written => Ok(agent.clone()),
            _ => {
                let agent = make(&self.tls, self.directory(), url.starts_with("https:"))?;
                *current = Some((written, agent.clone()));
                Ok(agent)
            }
        }
    }
}

fn written(file: &Path) -> Option<SystemTime> {
    fs::metadata(file).ok()?.modified().ok()
}

fn make(tls: &ControlTls, directory: Option<&Path>, is_tls: bool) -> Result<Agent> {
    let config = Agent::config_builder()
        .http_status_as_error(false)
        .timeout_connect(Some(CONNECT_DEADLINE))
        .proxy(None);
    if let Some(directory) = directory {
        return Ok(socket::agent(config.build(), directory));
    }
    let config = if is_tls { config.tls_config(tls_config(tls)?) } else { config };
    Ok(config.build().into())
}

/// The trusted authorities and the client certificate of a connection.
pub(crate) fn tls_config(tls: &ControlTls) -> Result<TlsConfig> {
    let authorities = if tls.insecure { Vec::new() } else { authorities(tls.authorities.as_deref())? };
    let authorities: Vec<_> = authorities.iter().map(|der| Certificate::from_der(der).to_owned()).collect();
    let identity = tls.identity.as_ref().map(|(certificate, key)| identity(certificate, key)).transpose()?;
    Ok(TlsConfig::builder()
        .unversioned_rustls_crypto_provider(trust::provider())
        .root_certs(RootCerts::new_with_certs(&authorities))
        .client_cert(identity)
        .disable_verification(tls.insecure)
        .build())
}

fn identity(certificate: &Path, key: &Path) -> Result<ClientCert> {
    let unusable = |file: &Path, cause: &dyn std::fmt::Display| {
        Failure::invalid(format!("{} cannot be used for TLS: {cause}", file.display()))
    };
    let read =
        |file: &Path| fs::read(file).map_err(|cause| Failure::io(format!("read {}", file.display()), &cause));
    let mut chain = Vec::new();
    for item in parse_pem(&read(certificate)?) {
        if let PemItem::Certificate(shown) = item.map_err(|cause| unusable(certificate, &cause))? {
            chain.push(shown);
        }
    }
    if chain.is_empty() {
        return Err(unusable(certificate, &"it has no certificate"));
    }
    let key = PrivateKey::from_pem(&read(key)?).map_err(|cause| unusable(key, &cause))?;
    Ok(ClientCert::new_with_certs(&chain, key))
}
