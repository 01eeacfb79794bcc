//! The facility's own certificate authority, so that TLS works from the first day without any setup.
//!
//! `DIR/tls` has `ca.pem` and `ca.key`, the authority, and `host.pem` and `host.key`, the certificate of the doors.
//! `trust/HASH.0` is the authority under the name by which OpenSSL finds it in a directory, so that clients of the
//! field need only `X509_CERT_DIR=DIR/tls/trust`. A site with its own certificates names them in the configuration
//! instead.

mod der;

pub use der::fuzz_certificate;

use crate::facility::layout::{make_directory, replace};
use base::{Clock, Failure, Result, Timestamp};
use net::{shutdown::Token, tls::Identity};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, PublicKeyData, SanType, SignatureAlgorithm,
    date_time_ymd,
};
use std::{
    fs::{self},
    net::IpAddr,
    path::{Path, PathBuf},
    time::Duration,
};
use wire::{auth::x509::Certificate, control::HostNames};

const DAY_S: u64 = 86_400;
/// The authority outlives the host: clients have copies of it.
const CA_DAYS: u64 = 20 * 365;
/// Browsers refuse certificates of more than 398 days.
const HOST_DAYS: u64 = 397;
/// What has less time than this is renewed.
const RENEW_DAYS: u64 = 30;
/// How often a running daemon looks whether something has to be renewed.
const LOOK_EVERY: Duration = Duration::from_secs(24 * 3600);
/// Clocks of clients may be behind.
const BACKDATED_S: u64 = 3600;

/// The directory `tls` of a facility.
#[derive(Debug, Clone)]
pub struct Authority {
    directory: PathBuf,
    facility: String,
}

/// What this host is called: loopback, the name that it calls itself, the address that it listens on, and the name or address by
/// which others reach it; empty: no other.
#[must_use]
pub fn names_of_this_host(bind: IpAddr, address: &str) -> HostNames {
    let uname = rustix::system::uname();
    let own = uname.nodename().to_str().unwrap_or_default().to_ascii_lowercase();
    let mut host = names_beside_own(bind, address);
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
    if !own.is_empty() && own.chars().all(is_name) && !host.names.contains(&own) {
        host.names.push(own);
    }
    host
}

/// The same without the name that the host calls itself: for hosts that join under a name of their own.
#[must_use]
pub fn names_beside_own(bind: IpAddr, address: &str) -> HostNames {
    let mut names = vec!["localhost".to_owned()];
    let mut addresses = vec![IpAddr::from([127, 0, 0, 1]), IpAddr::from(std::net::Ipv6Addr::LOCALHOST)];
    match address.parse() {
        Ok(address) if !addresses.contains(&address) => addresses.push(address),
        Err(_) if !address.is_empty() && !names.iter().any(|name| name == address) => {
            names.push(address.to_owned());
        }
        _ => {}
    }
    if !bind.is_unspecified() && !addresses.contains(&bind) {
        addresses.push(bind);
    }
    HostNames { names, addresses }
}

impl Authority {
    /// The authority of the facility with id `facility`, whose files are in `directory`.
    #[must_use]
    pub fn new(directory: &Path, facility: &str) -> Self {
        Self { directory: directory.to_owned(), facility: facility.to_owned() }
    }

    /// The certificate that clients trust.
    #[must_use]
    pub fn certificate(&self) -> PathBuf {
        self.directory.join("ca.pem")
    }

    /// A directory with that certificate as OpenSSL wants it.
    #[must_use]
    pub fn trust(&self) -> PathBuf {
        self.directory.join("trust")
    }

    /// The certificate of the doors.
    #[must_use]
    pub fn host(&self) -> Identity {
        let (certificate, key) = (self.directory.join("host.pem"), self.directory.join("host.key"));
        Identity { certificate, key, client_ca: None }
    }

    fn ca_key(&self) -> PathBuf {
        self.directory.join("ca.key")
    }

    /// Makes what is missing, and anew what ends soon or does not name the host; tells whether anything was made.
    pub fn prepare(&self, host: &HostNames, now: Timestamp) -> Result<bool> {
        make_directory(&self.directory)?;
        let is_made = if self.is_ca_good(now) { false } else { self.make_ca(now)? };
        if !is_made && self.is_host_good(host, now) {
            return Ok(false);
        }
        self.make_host(host, now)?;
        Ok(true)
    }

    /// Renews in time while the daemon runs, until it stops. The doors take new files by themselves.
    pub async fn keep(self, host: HostNames, clock: Clock, token: Token) {
        loop {
            tokio::select! {
                () = token.stopped() => return,
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
            let (authority, host, now) = (self.clone(), host.clone(), clock());
            match net::blocking(move || authority.prepare(&host, now)).await {
                Ok(true) => {
                    tracing::info!(directory = %self.directory.display(), "the head's certificates were renewed");
                }
                Ok(false) => {}
                Err(failure) => tracing::error!(%failure, "cannot renew the head's certificates"),
            }
        }
    }

    fn is_ca_good(&self, now: Timestamp) -> bool {
        let is_lasting = read_certificate(&self.certificate()).is_some_and(|ca| lasts(&ca, now));
        is_lasting && self.ca_key().exists() && self.trust().join(self.hashed_name()).exists()
    }

    fn is_host_good(&self, host: &HostNames, now: Timestamp) -> bool {
        let Identity { certificate, key, .. } = self.host();
        read_certificate(&certificate).is_some_and(|shown| {
            lasts(&shown, now)
                && host.names.iter().all(|name| shown.names(name))
                && host.addresses.iter().all(|address| shown.has_address(*address))
        }) && key.exists()
    }

    fn make_ca(&self, now: Timestamp) -> Result<bool> {
        let key = match fs::read_to_string(self.ca_key()) {
            // The key stays: certificates that it signed remain good.
            Ok(pem) => KeyPair::from_pem(&pem).map_err(|cause| refused(&self.ca_key(), &cause))?,
            Err(_) => KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(|cause| unmade(&cause))?,
        };
        let certificate = self.ca_params(now).self_signed(&key).map_err(|cause| unmade(&cause))?.pem();
        replace(&self.ca_key(), key.serialize_pem().as_bytes(), 0o600)?;
        self.publish(&certificate)?;
        Ok(true)
    }

    /// Puts the certificate, PEM, where clients of this host find it.
    pub(crate) fn publish(&self, certificate: &str) -> Result<()> {
        replace(&self.certificate(), certificate.as_bytes(), 0o644)?;
        make_directory(&self.trust())?;
        replace(&self.trust().join(self.hashed_name()), certificate.as_bytes(), 0o644)
    }

    /// The certificate of another host of the facility, which is called `name` there; `key` is its public key, a point of P-256.
    pub fn sign(&self, name: &str, host: &HostNames, key: &[u8], now: Timestamp) -> Result<Signed> {
        let key = PublicKey::parse(key)?;
        let signed = host_params(name, host, now)?.signed_by(&key, &self.issuer(now)?);
        let signed = signed.map_err(|cause| unmade(&cause))?;
        Ok(Signed { pem: signed.pem(), der: signed.der().to_vec() })
    }

    fn issuer(&self, now: Timestamp) -> Result<Issuer<'static, KeyPair>> {
        let key =
            fs::read_to_string(self.ca_key()).map_err(|cause| failed("read", &self.ca_key(), &cause))?;
        let key = KeyPair::from_pem(&key).map_err(|cause| refused(&self.ca_key(), &cause))?;
        Ok(Issuer::new(self.ca_params(now), key))
    }

    fn make_host(&self, host: &HostNames, now: Timestamp) -> Result<()> {
        let issuer = self.issuer(now)?;
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(|cause| unmade(&cause))?;
        let name = host.names.last().map_or("localhost", String::as_str);
        let certificate =
            host_params(name, host, now)?.signed_by(&key, &issuer).map_err(|cause| unmade(&cause))?.pem();
        let files = self.host();
        // The key first: a server that looks in between keeps the pair that it has.
        replace(&files.key, key.serialize_pem().as_bytes(), 0o600)?;
        replace(&files.certificate, certificate.as_bytes(), 0o644)
    }

    fn common_name(&self) -> String {
        format!("Backplane facility {}", self.facility)
    }

    fn ca_params(&self, now: Timestamp) -> CertificateParams {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, self.common_name());
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        set_validity(&mut params, now, CA_DAYS);
        params
    }

    /// The name of the authority's certificate in a directory of OpenSSL.
    fn hashed_name(&self) -> String {
        format!("{:08x}.0", der::subject_hash(&self.common_name()))
    }
}

/// A certificate that was just made.
pub struct Signed {
    /// For files.
    pub pem: String,
    /// What is shown on the wire.
    pub der: Vec<u8>,
}

/// A point of P-256, uncompressed.
struct PublicKey(Vec<u8>);

impl PublicKey {
    fn parse(point: &[u8]) -> Result<Self> {
        match point {
            [4, coordinates @ ..] if coordinates.len() == 64 => Ok(Self(point.to_vec())),
            _ => Err(Failure::invalid("the host's public key is not an uncompressed point of P-256")),
        }
    }
}

impl PublicKeyData for PublicKey {
    fn der_bytes(&self) -> &[u8] {
        &self.0
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        &PKCS_ECDSA_P256_SHA256
    }
}

/// Whether a certificate, as it was shown on the wire, has not ended yet.
#[must_use]
pub fn is_good(der: &[u8], now: Timestamp) -> bool {
    Certificate::parse(der).is_some_and(|certificate| certificate.ends_s > now.seconds())
}

/// The same of the first certificate of a PEM file.
#[must_use]
pub fn is_good_pem(pem: &[u8], now: Timestamp) -> bool {
    der::from_pem(pem).is_some_and(|der| is_good(&der, now))
}

fn lasts(certificate: &Certificate, now: Timestamp) -> bool {
    certificate.ends_s > (now.seconds() + (RENEW_DAYS * DAY_S) as i64)
}

fn host_params(name: &str, host: &HostNames, now: Timestamp) -> Result<CertificateParams> {
    let mut params = CertificateParams::default();
    for name in &host.names {
        let name = name.as_str().try_into().map_err(|cause| unmade(&cause))?;
        params.subject_alt_names.push(SanType::DnsName(name));
    }
    params.subject_alt_names.extend(host.addresses.iter().map(|address| SanType::IpAddress(*address)));
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.use_authority_key_identifier_extension = true;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    // A daemon is also a client, of the facility that it copies from.
    params.extended_key_usages =
        vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    set_validity(&mut params, now, HOST_DAYS);
    Ok(params)
}

fn set_validity(params: &mut CertificateParams, now: Timestamp, days: u64) {
    let now_s = now.seconds().max(0).unsigned_abs();
    let at = |seconds| date_time_ymd(1970, 1, 1) + Duration::from_secs(seconds);
    params.not_before = at(now_s.saturating_sub(BACKDATED_S));
    params.not_after = at(now_s + days * DAY_S);
}

/// The certificate in a file; `None` if it cannot be read, which makes a new one.
fn read_certificate(file: &Path) -> Option<Certificate> {
    let pem = fs::read(file).ok()?;
    Certificate::parse(&der::from_pem(&pem)?)
}

fn unmade(cause: &dyn std::fmt::Display) -> Failure {
    Failure::internal(format!("cannot make a certificate: {cause}"))
}

fn refused(path: &Path, cause: &dyn std::fmt::Display) -> Failure {
    Failure::corrupt(format!("{} is not a key: {cause}", base::tail(path)))
        .hint("remove it to get a new authority; clients then need the new ca.pem")
}

fn failed(what: &str, path: &Path, cause: &std::io::Error) -> Failure {
    Failure::io(format!("{what} {}", base::tail(path)), cause)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    const NOW: Timestamp = Timestamp(1_800_000_000_000);
    const DAY: base::Millis = base::Millis::from_seconds(DAY_S as i64);

    fn after(days: i64) -> Timestamp {
        NOW + base::Millis(DAY.0 * days)
    }

    fn hosts(names: &[&str]) -> HostNames {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        HostNames { names, addresses: vec![[127, 0, 0, 1].into(), std::net::Ipv6Addr::LOCALHOST.into()] }
    }

    #[test]
    fn what_is_made_stays_until_it_must_be_renewed() {
        let directory = tempfile::tempdir().unwrap();
        let authority = Authority::new(directory.path(), "f00");
        let host = hosts(&["localhost", "disk01.example.org"]);
        assert!(authority.prepare(&host, NOW).unwrap());
        assert!(!authority.prepare(&host, NOW).unwrap());
        net::tls::server_config(&authority.host()).unwrap();
        net::tls::roots(&authority.certificate()).unwrap();
        assert!(!authority.prepare(&host, after(360)).unwrap());
        let ca = fs::read(authority.certificate()).unwrap();
        assert!(authority.prepare(&host, after(370)).unwrap(), "less than 30 days are left");
        assert!(authority.prepare(&hosts(&["localhost", "other"]), after(371)).unwrap(), "another name");
        assert_eq!(fs::read(authority.certificate()).unwrap(), ca, "clients keep what they trust");
        assert!(authority.prepare(&host, after(20 * 365)).unwrap());
        assert_ne!(fs::read(authority.certificate()).unwrap(), ca);
    }

    #[test]
    fn keys_are_for_the_owner_only() {
        let directory = tempfile::tempdir().unwrap();
        let authority = Authority::new(&directory.path().join("tls"), "f00");
        authority.prepare(&hosts(&["localhost"]), NOW).unwrap();
        for file in [authority.ca_key(), authority.host().key] {
            assert_eq!(fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600);
        }
        fs::write(authority.ca_key(), "damaged").unwrap();
        let failure = authority.prepare(&hosts(&["new"]), NOW).unwrap_err();
        assert!(failure.what.contains("ca.key"), "{failure}");
    }

    #[test]
    fn this_host_has_a_name_and_loopback() {
        let host = names_of_this_host([192, 0, 2, 7].into(), "disk.example");
        let beside = names_beside_own([192, 0, 2, 7].into(), "disk.example");
        assert_eq!(beside.names, ["localhost", "disk.example"]);
        assert_eq!(beside.addresses, host.addresses);
        assert!(host.names.contains(&"localhost".to_owned()));
        assert!(host.addresses.contains(&[192, 0, 2, 7].into()) && host.addresses.len() == 3);
        assert_eq!(names_of_this_host([0, 0, 0, 0].into(), "127.0.0.1").addresses.len(), 2);
    }
}
