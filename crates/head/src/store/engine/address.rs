//! The address of a database, and how its server is verified before any credential is sent.

use super::super::{StoreError, StoreResult};
use base::{Failure, Result};
use rustls::{CertificateError, RootCertStore};
use std::{
    error::Error,
    io,
    net::IpAddr,
    path::{Path, PathBuf},
    time::Duration,
};
use tokio::time::timeout;
use tokio_postgres::{
    Client, Config, NoTls, Socket,
    config::{Host, SslMode},
    tls::MakeTlsConnect,
};
use tokio_postgres_rustls::MakeRustlsConnect;
use trust::TrustPolicy;
use wire::http::path::percent_decode;

/// A server that is there answers at once.
const CONNECT_DEADLINE: Duration = Duration::from_secs(10);
/// All of it: every address of a name is tried, TLS begins, the server looks at the password.
const ENTRY_DEADLINE: Duration = Duration::from_secs(60);
/// A server that acknowledges nothing for so long is gone; one that works on a statement for long acknowledges.
const SILENCE_MAX: Duration = Duration::from_secs(30);
/// Settings of the session. A head that hangs in the middle of a group must not keep another from taking over.
const SETTINGS: &str = "-c synchronous_commit=on -c lock_timeout=30s -c idle_in_transaction_session_timeout=10s \
                        -c plan_cache_mode=force_generic_plan -c client_min_messages=warning";
/// What the library says of a server that answers no to TLS; it has no other sign.
const WITHOUT_TLS: &str = "server does not support TLS";
/// What the library says of a server whose certificate is that of an authority, as `openssl req -x509` makes them.
const IS_AUTHORITY: &str = "CaUsedAsEndEntity";

/// How a server is verified.
#[derive(Debug, Clone, PartialEq, Eq)]
enum ServerVerification {
    /// Nothing, and nothing is encrypted.
    None,
    /// Nothing, but what is said is encrypted.
    Encryption,
    /// Its name, by a certificate of an authority: in this file, or one that the system trusts.
    Name(Option<PathBuf>),
}

/// A database, and how it is spoken to.
#[derive(Clone)]
pub(in crate::store) struct Address {
    config: Config,
    proof: ServerVerification,
}

impl Address {
    /// Reads the URL of a database. What is wrong is not shown: it may be a password.
    pub(in crate::store) fn parse(url: &str) -> Result<Self> {
        let (url, settings) = Settings::take_from(url)?;
        let not_a_url = |_| {
            Failure::invalid("catalogue is not a database URL")
                .hint("use postgresql://USER@HOST/DATABASE, and put the password into a separate file")
        };
        let mut config: Config = url.parse().map_err(not_a_url)?;
        let proof = settings.proof(is_remote(&config))?;
        if proof == ServerVerification::None {
            config.ssl_mode(SslMode::Disable);
        } else {
            require_names(&config)?;
            config.ssl_mode(SslMode::Require);
        }
        config.options(SETTINGS).application_name("backplane head");
        // The head waits for nobody who is gone.
        config.connect_timeout(CONNECT_DEADLINE).tcp_user_timeout(SILENCE_MAX);
        config.keepalives_idle(SILENCE_MAX / 3);
        Ok(Self { config, proof })
    }

    /// Whether its URL tells the password.
    pub(in crate::store) fn has_password(&self) -> bool {
        self.config.get_password().is_some()
    }

    /// What TLS needs; `None`: it is not used. Read for each connection: authorities come and go.
    pub(super) fn tls(&self) -> StoreResult<Option<MakeRustlsConnect>> {
        let policy = match &self.proof {
            ServerVerification::None => return Ok(None),
            ServerVerification::Encryption => TrustPolicy::AnyCertificate,
            ServerVerification::Name(file) => {
                TrustPolicy::Signed(authorities(file.as_deref()).map_err(StoreError::Unreached)?)
            }
        };
        let mut config = trust::client_config(policy).map_err(StoreError::Unreached)?;
        // Servers demand it if TLS begins without a question (`sslnegotiation=direct`).
        config.alpn_protocols = vec![b"postgresql".to_vec()];
        Ok(Some(MakeRustlsConnect::new(config)))
    }

    /// Connects, with what [`Self::tls`] gave.
    pub(super) async fn connect(&self, tls: Option<MakeRustlsConnect>) -> StoreResult<Client> {
        let entry = async {
            match tls {
                Some(tls) => enter(&self.config, tls).await,
                None => enter(&self.config, NoTls).await,
            }
        };
        let late = |_| {
            let seconds = ENTRY_DEADLINE.as_secs();
            let what = format!("its server refused connections for {seconds} s");
            StoreError::Unreached(Failure::timeout(what).hint("check its load and its log"))
        };
        timeout(ENTRY_DEADLINE, entry).await.map_err(late)?
    }
}

async fn enter<T>(config: &Config, tls: T) -> StoreResult<Client>
where
    T: MakeTlsConnect<Socket>,
    T::Stream: Send + 'static,
{
    let (client, connection) = config.connect(tls).await.map_err(explained)?;
    // It ends when the client is dropped; what breaks it is told to whoever waits for an answer.
    tokio::spawn(async move {
        if let Err(cause) = connection.await {
            tracing::debug!(%cause, "connection to the catalogue ended");
        }
    });
    Ok(client)
}

/// TLS settings in the URL.
#[derive(Debug, Default)]
struct Settings {
    mode: Option<String>,
    authorities: Option<String>,
}

impl Settings {
    /// Takes them out of a URL: who reads the rest knows neither. Names may be encoded, as those of all settings.
    fn take_from(url: &str) -> Result<(String, Self)> {
        let mut found = Self::default();
        // As the rest is read: the user ends at the first `@`, and settings begin at the first `?` behind it.
        let place = url.find('@').map_or(0, |at| at + 1);
        let Some(length) = url[place..].find('?') else { return Ok((url.to_owned(), found)) };
        let (place, query) = (&url[..place + length], &url[place + length + 1..]);
        let mut others = Vec::new();
        for setting in query.split('&') {
            let (name, value) = setting.split_once('=').unwrap_or((setting, ""));
            let slot = match decoded(name).as_deref() {
                Some("sslmode") => &mut found.mode,
                Some("sslrootcert") => &mut found.authorities,
                _ => {
                    others.push(setting);
                    continue;
                }
            };
            let value = decoded(value).ok_or_else(|| unclear("a setting of TLS that cannot be read"))?;
            if slot.replace(value).is_some() {
                return Err(unclear("a setting of TLS twice"));
            }
        }
        let mark = if others.is_empty() { "" } else { "?" };
        Ok((format!("{place}{mark}{}", others.join("&")), found))
    }

    /// What they demand of a server that is far, or not.
    fn proof(self, is_remote: bool) -> Result<ServerVerification> {
        let authorities = self.authorities.map(PathBuf::from);
        if authorities.as_ref().is_some_and(|file| !file.is_absolute()) {
            return Err(Failure::invalid("sslrootcert in the catalogue's URL is not an absolute path")
                .hint("leave it out if the system trusts the authority of the database's server"));
        }
        match (self.mode.as_deref(), authorities) {
            (None, None) if !is_remote => Ok(ServerVerification::None),
            (None | Some("verify-full"), authorities) => Ok(ServerVerification::Name(authorities)),
            (Some("require"), None) => Ok(ServerVerification::Encryption),
            (Some("disable"), None) => Ok(ServerVerification::None),
            (Some(mode @ ("require" | "disable")), Some(_)) => {
                let what =
                    format!("the catalogue's URL has sslrootcert, but sslmode={mode} verifies nothing");
                Err(Failure::invalid(what).hint("use sslmode=verify-full, or remove sslrootcert"))
            }
            (Some(_), _) => Err(unclear("an sslmode that is not offered")),
        }
    }
}

fn unclear(what: &str) -> Failure {
    Failure::invalid(format!("the catalogue's URL has {what}")).hint(
        "sslmode is verify-full, require (encrypted, server not verified) or disable; sslrootcert is a file of \
            authorities",
    )
}

fn decoded(text: &str) -> Option<String> {
    String::from_utf8(percent_decode(text)?).ok()
}

/// Whether it is reached over a network: neither by a Unix socket nor on this host.
fn is_remote(config: &Config) -> bool {
    let is_here = |address: &IpAddr| address.to_canonical().is_loopback();
    // Where there are addresses, names are for certificates only.
    if !config.get_hostaddrs().is_empty() {
        return !config.get_hostaddrs().iter().all(is_here);
    }
    !config.get_hosts().iter().all(|host| match host {
        Host::Unix(_) => true,
        Host::Tcp(name) => {
            name.eq_ignore_ascii_case("localhost") || name.parse().is_ok_and(|address| is_here(&address))
        }
    })
}

/// Refuses what can have no TLS.
fn require_names(config: &Config) -> Result<()> {
    let hosts = config.get_hosts();
    if !hosts.is_empty() && hosts.iter().all(|host| matches!(host, Host::Tcp(_))) {
        return Ok(());
    }
    Err(Failure::invalid("the catalogue's URL asks for TLS, but names a Unix socket or no host")
        .hint("PostgreSQL has no TLS on Unix sockets: name hosts only, or leave out sslmode and sslrootcert"))
}

/// The authorities in a file, or those that the system trusts.
fn authorities(file: Option<&Path>) -> Result<RootCertStore> {
    let hint =
        "sslrootcert=/… in the catalogue's URL names a PEM file with the authority of the database's server";
    let file = file.map(Path::to_owned).or_else(trust::system_file);
    let file = file.ok_or_else(|| Failure::not_found("this system trusts no authorities").hint(hint))?;
    let roots = trust::roots(trust::some_in_file(&file).map_err(|failure| failure.hint(hint))?);
    if roots.is_empty() {
        let what = format!("{} has no certificate that can be an authority's", file.display());
        return Err(Failure::invalid(what).hint(hint));
    }
    Ok(roots)
}

/// Says what to do about a connection that did not come about.
fn explained(error: tokio_postgres::Error) -> StoreError {
    let Some(cause) = error.source() else { return error.into() };
    if cause.to_string() == WITHOUT_TLS {
        let failure = Failure::unavailable("its server has no TLS, which is required over a network");
        return StoreError::Unreached(failure.hint(
            "set ssl = on in its postgresql.conf, or say sslmode=disable in the catalogue's URL if nobody else \
                is on the network",
        ));
    }
    let cause = cause.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
    match cause.and_then(|cause| cause.downcast_ref::<rustls::Error>()) {
        Some(rustls::Error::InvalidCertificate(reason)) => StoreError::Unreached(refused(reason)),
        Some(cause) => {
            let failure = Failure::unavailable(format!("TLS with its server failed: {cause}"));
            StoreError::Unreached(failure.hint("look at the log of the database's server"))
        }
        None => error.into(),
    }
}

/// What is wrong with the server's certificate.
fn refused(reason: &CertificateError) -> Failure {
    let (what, hint) = match reason {
        CertificateError::UnknownIssuer => (
            "is of an authority that is not trusted".to_owned(),
            "name the file with its authority: sslrootcert=/… in the catalogue's URL",
        ),
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => (
            format!("is for another name: {reason}"),
            "use a name of the certificate in the catalogue's URL, or get a certificate for this name",
        ),
        CertificateError::Other(cause) if cause.to_string().contains(IS_AUTHORITY) => (
            "is that of an authority".to_owned(),
            "have one made for the server that the authority signs, or that says basicConstraints = CA:FALSE",
        ),
        _ => (format!("is not accepted: {reason}"), "have a new one made for the database's server"),
    };
    Failure::unavailable(format!("the certificate of its server {what}")).hint(hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proof(url: &str) -> ServerVerification {
        Address::parse(url).unwrap_or_else(|failure| panic!("{url}: {failure}")).proof
    }

    #[test]
    fn a_server_over_a_network_proves_its_name_unless_the_url_says_otherwise() {
        for url in [
            "postgresql://u@db.example/cat",
            "postgresql://u@10.0.0.7/cat",
            "postgresql://u@[2001:db8::7]/cat?connect_timeout=3",
            "postgresql://u@localhost,db.example/cat",
            "postgresql://u@localhost.example/cat",
            "postgresql://u@localhost/cat?hostaddr=10.0.0.7",
            "postgresql://u@127.0.0.1/cat?sslmode=verify-full",
            "postgresql://u@db.example/cat?password=%3F&sslmode=verify-full",
        ] {
            assert_eq!(proof(url), ServerVerification::Name(None), "{url}");
        }
        for url in [
            "postgresql://u@%2Frun%2Fpostgresql/cat",
            "postgresql:///cat?host=/run/postgresql",
            "postgresql://u@localhost/cat",
            "postgresql://u@127.0.0.2,[::1],[::ffff:127.0.0.1]/cat",
            "postgresql://u@db.example/cat?hostaddr=127.0.0.1",
            "postgresql://u@db.example/cat?sslmode=disable",
            "postgresql://u@%2Frun/cat?sslmode=disable",
        ] {
            assert_eq!(proof(url), ServerVerification::None, "{url}");
        }
        assert_eq!(proof("postgresql://u@db.example/cat?sslmode=require"), ServerVerification::Encryption);
        let own = ServerVerification::Name(Some("/etc/ca.pem".into()));
        assert_eq!(proof("postgresql://u@db.example/cat?sslrootcert=%2Fetc%2Fca.pem"), own);
        assert_eq!(proof("postgresql://u@localhost/cat?ssl%6Dode=verify-full&sslrootcert=/etc/ca.pem"), own);
    }

    #[test]
    fn settings_that_would_protect_less_than_they_seem_to_are_refused() {
        for (settings, word) in [
            ("sslmode=prefer", "not offered"),
            ("sslmode=allow", "not offered"),
            ("sslmode=verify-ca", "not offered"),
            ("sslmode=", "not offered"),
            ("sslmode", "not offered"),
            ("sslmode=verify-full&sslmode=disable", "twice"),
            ("sslmode=require&sslrootcert=/etc/ca.pem", "verifies nothing"),
            ("sslmode=disable&sslrootcert=/etc/ca.pem", "verifies nothing"),
            ("sslrootcert=ca.pem", "absolute"),
            ("sslrootcert=", "absolute"),
            ("sslmode=%FF", "cannot be read"),
            ("sslmode=require&sslcert=/etc/me.pem", "not a database URL"),
        ] {
            let failure = Address::parse(&format!("postgresql://u@db/cat?{settings}")).err().expect(settings);
            assert!(failure.what.contains(word), "{settings}: {failure}");
            assert!(failure.hint.is_some(), "{settings}");
        }
        for url in [
            "postgresql://u@%2Frun/cat?sslmode=require",
            "postgresql://u@%2Frun,db.example/cat",
            "postgresql:///cat?hostaddr=10.0.0.7",
        ] {
            let failure = Address::parse(url).err().expect(url);
            assert!(failure.what.contains("Unix socket"), "{url}: {failure}");
        }
    }

    #[test]
    fn a_file_without_authorities_is_told_before_anybody_is_asked() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("ca.pem");
        assert_eq!(authorities(Some(&file)).unwrap_err().kind, base::ErrorKind::NotFound);
        std::fs::write(&file, "no certificate").unwrap();
        let failure = authorities(Some(&file)).unwrap_err();
        assert!(failure.what.contains("ca.pem has no certificate"), "{failure}");
    }
}
