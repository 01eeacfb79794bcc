//! Where the doors are, what they demand, and what they show.

use base::{
    Failure, Millis, Network, ReachRule, Result,
    limits::{UNPROVEN_SESSIONS_MAX, UNPROVEN_SESSIONS_PER_ADDRESS_MAX},
    units::Span,
};
use net::unproven::{self, Unproven};
use serde::{Deserialize, Serialize};
use std::{net::IpAddr, path::PathBuf, time::Duration};

/// Where the host listens, and which clients it accepts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Doors {
    /// Address to listen on. Beyond loopback `require_token` and `root_tls` must be set.
    pub bind: IpAddr,
    /// Further names by which clients reach the HTTP doors of this host, such as that of a proxy. A request whose `Host` is
    /// neither one of them nor in the certificate is refused: a web page could have made a browser send it.
    pub names: Vec<String>,
    /// Port of `root://`; 0: a free one.
    pub root_port: u16,
    /// Port of `http://`, on loopback only; 0: a free one.
    pub http_port: u16,
    /// Port of `https://`; 0: a free one.
    pub https_port: u16,
    /// Whether every client must present a token. If not, users of this host are served as the user that the kernel reports.
    pub require_token: bool,
    /// Where `root://` uses TLS: `offered` to clients that ask for it, from the `login` on, or `required` for data too.
    pub root_tls: RootTls,
    /// Whether an HTTP request that makes a file also makes missing parent directories. If not, it is answered with 409, as
    /// WebDAV demands.
    pub http_makes_parents: bool,
    /// How long an open waits for a recall before it fails.
    pub recall_wait: Span,
    /// Most connections that have not authenticated, at all doors together.
    pub unproven_max: usize,
    /// Most connections that have not authenticated, from one address.
    pub unproven_per_address_max: usize,
    /// How long a client has for handshake, TLS and login.
    pub prove_within: Span,
}

impl Doors {
    /// The budget of peers that have not proven who they are; all doors of the process share it.
    pub(crate) fn unproven(&self) -> Unproven {
        Unproven::new(unproven::Limits {
            sessions_max: self.unproven_max,
            sessions_per_address_max: self.unproven_per_address_max,
            deadline: Duration::from_millis(self.prove_within.0.0.unsigned_abs()),
            ..unproven::Limits::default()
        })
    }
}

/// When connections of `root://` use TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RootTls {
    /// When the client wants it.
    Offered,
    /// From the login on, and on the further connections of a session, which show its id.
    Login,
    /// On every connection.
    Required,
}

/// Certificates, as paths of PEM files. Empty: the facility's own authority makes what is needed, in `DIR/tls`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Tls {
    /// Certificate of the host, with the chain up to its authority.
    pub certificate: PathBuf,
    /// Private key of the certificate.
    pub key: PathBuf,
    /// Authorities of clients; if set, every TLS client must show a certificate of one of them.
    pub client_ca: PathBuf,
    /// Authorities of the servers with which third-party copies are made; empty: those of the system.
    pub trust: PathBuf,
}

/// The facility's own tokens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Tokens {
    /// Longest life of a token, between 15m and 366d; longer ones are neither made nor accepted.
    pub lifetime_max: Span,
}

/// Bounds of the longest life: the daemon's own calls need some minutes, and who needs a token for longer than a year needs another
/// way.
const TOKEN_LIFETIME_MAX: (Millis, Millis) = (Millis::from_seconds(900), Millis::from_seconds(366 * 86_400));

impl Tokens {
    pub(super) fn check(&self) -> Result<()> {
        let (shortest, longest) = TOKEN_LIFETIME_MAX;
        if (shortest..=longest).contains(&self.lifetime_max.0) {
            return Ok(());
        }
        let what = format!("tokens.lifetime_max = {} is not between 15m and 366d", self.lifetime_max);
        Err(Failure::invalid(what).hint("30d is usual"))
    }
}

impl Default for Tokens {
    fn default() -> Self {
        Self { lifetime_max: Span(wire::auth::token::LIFETIME_MAX) }
    }
}

/// Where this host connects to when a client asks for it: the other end of third-party copies, redirects, keys of issuers.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Reach {
    /// Networks that are allowed although they are refused by default: loopback, link-local and the addresses of this host. Two
    /// facilities on one host need `["127.0.0.0/8"]`. Every user who may copy files can then reach the servers there.
    pub allow: Vec<Network>,
}

impl Reach {
    /// The rule that every connection obeys which a client asks for.
    #[must_use]
    pub fn rule(&self) -> ReachRule {
        ReachRule::guarded(&self.allow)
    }
}

impl Default for Doors {
    fn default() -> Self {
        Self {
            bind: IpAddr::from([127, 0, 0, 1]),
            names: Vec::new(),
            root_port: 1094,
            http_port: 8094,
            https_port: 8443,
            require_token: false,
            root_tls: RootTls::Offered,
            http_makes_parents: false,
            recall_wait: Span(Millis::from_seconds(12 * 3600)),
            unproven_max: UNPROVEN_SESSIONS_MAX,
            unproven_per_address_max: UNPROVEN_SESSIONS_PER_ADDRESS_MAX,
            prove_within: Span(Millis(unproven::PROOF_DEADLINE.as_millis() as i64)),
        }
    }
}
