//! The redirect target of a client that asks for an object of another disk server.

use base::{Failure, Result};
use std::sync::Arc;
use wire::{
    auth::capability,
    control::{DiskServer, ReadObject},
    xrd::Redirect,
};

/// A disk server, and the right to an object of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedirectTarget {
    /// The disk server that has it.
    pub server: DiskServer,
    /// The capability.
    pub signed: String,
    /// The file to read.
    pub object: Option<Arc<ReadObject>>,
}

impl RedirectTarget {
    /// For clients of the XRootD door.
    pub fn redirect(&self) -> Result<Redirect> {
        let (host, port) = host_and_port(&self.server.root)?;
        Ok(Redirect { host, port, opaque: format!("{}={}", capability::PARAMETER, self.signed) })
    }

    /// For clients of the HTTP door: where `path`, escaped for a URL, is to be asked for.
    #[must_use]
    pub fn location(&self, path: &str) -> String {
        format!("{}{path}?{}={}", self.server.https_url(), capability::PARAMETER, self.signed)
    }
}

/// The parts of `host:port`.
pub fn host_and_port(address: &str) -> Result<(String, u16)> {
    let parts = address.rsplit_once(':').and_then(|(host, port)| Some((host.to_owned(), port.parse().ok()?)));
    parts.ok_or_else(|| Failure::internal(format!("{address:?} is not the address of a disk server")))
}
