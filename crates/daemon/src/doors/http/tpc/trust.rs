//! Trust settings for connections to other servers.

use base::Result;
use rustls::ClientConfig;
use std::{path::PathBuf, sync::Arc, time::Duration};
use tokio::{sync::Mutex, time::Instant};
use trust::TrustPolicy;

/// After this long the files are read again: authorities come and go.
const REREAD: Duration = Duration::from_secs(600);

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
        let config = Arc::new(net::blocking(move || client_config(&trust)).await?);
        *known = Some((Instant::now(), Arc::clone(&config)));
        Ok(config)
    }
}

fn client_config(wish: &RemoteTrust) -> Result<ClientConfig> {
    let mut authorities = Vec::new();
    if let Some(file) = trust::system_file().filter(|_| wish.system_roots) {
        authorities.extend(trust::in_file(&file)?);
    }
    match &wish.authorities {
        Some(path) if path.is_dir() => authorities.extend(trust::in_directory(path)?),
        Some(path) => authorities.extend(trust::in_file(path)?),
        None => {}
    }
    let mut config = trust::client_config(TrustPolicy::Signed(trust::roots(authorities)))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
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
