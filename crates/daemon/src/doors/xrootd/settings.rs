//! What a host tells its XRootD door, whichever of the two it is.

use super::tpc::ThirdParty;
use base::ReachRule;
use net::xrd::{ReadMethod, ServerConfig, TlsOffer};
use std::{net::SocketAddr, path::PathBuf};
use wire::{digest::DigestAlgorithm, xrd};

/// Settings of a door.
#[derive(Default)]
pub struct Settings {
    /// Name of the facility.
    pub facility: String,
    /// How the bytes of files leave.
    pub reads: ReadMethod,
    /// TLS, if it is offered.
    pub tls: Option<TlsOffer>,
    /// The authorities that vouch for the servers that files are copied from; `None`: those that the system trusts.
    pub authorities: Option<PathBuf>,
    /// Where files may be copied from, and where this door listens; `None`: from other hosts only.
    pub reach: Option<(ReachRule, SocketAddr)>,
}

impl Settings {
    /// What the session loop is told, and what third-party copies share.
    pub(super) fn parts<T: Clone + Send + 'static>(self) -> (ServerConfig, ThirdParty<T>) {
        let checksums = DigestAlgorithm::xrootd_names().into_iter().map(str::to_owned).collect();
        let answers = [("tpc", "1"), (xrd::FEATURES_KEY, xrd::FEATURE_EXPECT)];
        let answers = answers.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        let Self { facility: sitename, reads: read_method, tls, authorities, reach } = self;
        let config =
            ServerConfig { sitename, checksums, answers, read_method, tls, ..ServerConfig::default() };
        (config, ThirdParty::new(authorities, reach))
    }
}
