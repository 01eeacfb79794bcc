//! The configuration of a daemon: one TOML file, every key with its default.

pub mod audit;
mod batch;
pub(crate) mod catalogue;
mod disk;
mod doors;
pub mod issuers;
mod library;
mod tape;
#[cfg(test)]
mod tests;

use audit::AuditConfig;
use base::{
    Failure, Millis, Result,
    reach::NETWORKS_MAX,
    units::{Size, Span},
};
pub use batch::{Batch, Shares};
pub use disk::{Disk, Reads, Trash};
pub use doors::{Doors, Reach, RootTls, Tls, Tokens};
use issuers::IssuerConfig;
pub use library::{LibraryConfig, LibraryKind};
use serde::{Deserialize, Serialize};
use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
};
pub use tape::Tape;
use wire::control::{Pool, Role};

/// The file in a facility's directory.
pub const FILE: &str = "facility.toml";

/// Everything that can be configured. Unknown keys are errors.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Name of the facility, for people.
    pub name: String,
    /// Where the head stores its catalogue: `postgresql://USER@HOST/DATABASE`, without a password; empty: a file in the facility's
    /// directory. A database on another host must prove its name by TLS, unless `?sslmode=require` or `?sslmode=disable` follows;
    /// `?sslrootcert=/PATH` names a file with its authority.
    pub catalogue: String,
    /// File with the password of the catalogue's database, which only its owner may read; empty: no password is needed.
    pub catalogue_password: PathBuf,
    /// Memory that caches the catalogue; `0B`: an eighth of the host's memory, 512MiB at least. About 800 bytes for each file cache
    /// all of it.
    pub cache: Size,
    /// How long the active head must be silent before a standby takes over; only with a catalogue in a database.
    pub take_over_after: Span,
    /// This host.
    pub host: Host,
    /// Where it listens, and to whom.
    pub doors: Doors,
    /// Certificates.
    pub tls: Tls,
    /// The facility's own tokens.
    pub tokens: Tokens,
    /// The disk server.
    pub disk: Disk,
    /// Shares of the CPU slots; the configuration of the head's host counts.
    pub shares: Shares,
    /// The trash; the configuration of the head's host counts.
    pub trash: Trash,
    /// The tape server.
    pub tape: Tape,
    /// The worker.
    pub batch: Batch,
    /// Where this host connects to when a client asks for it.
    pub reach: Reach,
    /// The audit log.
    pub audit: AuditConfig,
    /// Issuers of tokens beside the facility itself.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub issuers: Vec<IssuerConfig>,
}

/// This host of the facility.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Host {
    /// Name of the host, unique in the facility; empty: the host name that the kernel reports.
    pub name: String,
    /// Name or address by which other hosts and clients reach the host; empty: the address that it listens on, or its name if
    /// it listens on all addresses.
    pub address: String,
    /// What the host does: any of `head`, `disk`, `tape`, `cpu`.
    pub roles: Vec<Role>,
    /// The head, as `https://host:port`, if this host joined a facility; empty: this host is the head.
    pub head: String,
}

impl Default for Host {
    fn default() -> Self {
        Self { name: String::new(), address: String::new(), roles: Role::ALL.into(), head: String::new() }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            name: "backplane".to_owned(),
            catalogue: String::new(),
            catalogue_password: PathBuf::new(),
            cache: Size(0),
            take_over_after: Span(Millis::from_seconds(15)),
            host: Host::default(),
            doors: Doors::default(),
            tls: Tls::default(),
            tokens: Tokens::default(),
            disk: Disk::default(),
            shares: Shares::default(),
            trash: Trash::default(),
            tape: Tape::default(),
            batch: Batch::default(),
            reach: Reach::default(),
            audit: AuditConfig::default(),
            issuers: Vec::new(),
        }
    }
}

impl Config {
    /// Reads the configuration of the facility in `directory`.
    pub fn read(directory: &Path) -> Result<Self> {
        let file = directory.join(FILE);
        let text = std::fs::read_to_string(&file).map_err(|cause| {
            let hint = format!("`bp create {}` makes a facility there", directory.display());
            Failure::io(format!("read {}", file.display()), &cause).hint(hint)
        })?;
        Self::parse(&text).map_err(|failure| failure.during(file.display()))
    }

    /// Reads the text of a configuration file.
    pub fn parse(text: &str) -> Result<Self> {
        let config: Self = toml::from_str(text).map_err(|cause| {
            Failure::invalid(cause.to_string().trim_end().to_owned())
                .hint("`bpd config` shows every key with its default")
        })?;
        config.check()?;
        Ok(config)
    }

    /// Refuses values that cannot work together.
    pub fn check(&self) -> Result<()> {
        let refuse = |what: String, hint: &str| Err(Failure::invalid(what).hint(hint));
        if self.host.roles.contains(&Role::Head) != self.host.head.is_empty() {
            let what = format!("host.head = {:?} does not fit host.roles", self.host.head);
            return refuse(what, "a host has the role head, or host.head names the head");
        }
        // A disk server away from the head gives nothing without a capability.
        let is_guarded =
            !self.host.head.is_empty() || self.doors.require_token && self.doors.root_tls != RootTls::Offered;
        if !self.doors.bind.is_loopback() && !is_guarded {
            let what = format!("doors.bind = {} is not a loopback address", self.doors.bind);
            return refuse(
                what,
                "set doors.require_token = true and doors.root_tls = \"login\", or use 127.0.0.1",
            );
        }
        let doors = &self.doors;
        if doors.unproven_per_address_max == 0 || doors.unproven_max < doors.unproven_per_address_max {
            let what = format!(
                "doors.unproven_max = {} and doors.unproven_per_address_max = {} let nobody in",
                doors.unproven_max, doors.unproven_per_address_max
            );
            return refuse(what, "both are 1 at least, and the first is the larger");
        }
        if doors.prove_within.0 < Millis::from_seconds(1) {
            let what = format!("doors.prove_within = {} is too short", doors.prove_within);
            return refuse(what, "clients need some round trips to log in: 30s is usual, 1s the least");
        }
        catalogue::check(self)?;
        if self.tls.certificate.as_os_str().is_empty() != self.tls.key.as_os_str().is_empty() {
            let what = "tls.certificate and tls.key belong together".to_owned();
            return refuse(what, "give both, or none to use the facility's own");
        }
        self.tokens.check()?;
        let pool = Pool { name: self.disk.pool.clone(), ..Pool::default() };
        if pool.check().is_err() {
            let what = format!("disk.pool = {:?} is not a name", self.disk.pool);
            return refuse(what, "use 1 to 64 of a-z A-Z 0-9 . - _");
        }
        if let Some(relative) = self.disk.adopt.iter().find(|directory| !directory.is_absolute()) {
            return refuse(format!("disk.adopt names {}", relative.display()), "name absolute paths");
        }
        self.tape.check()?;
        if self.reach.allow.len() > NETWORKS_MAX {
            let what =
                format!("reach.allow has {} networks, more than {NETWORKS_MAX}", self.reach.allow.len());
            return refuse(what, "name larger networks");
        }
        self.batch.check()?;
        self.shares.check()?;
        self.audit.check()?;
        issuers::check(&self.issuers)
    }

    /// The name of this host in the facility.
    #[must_use]
    pub fn host_name(&self) -> String {
        if !self.host.name.is_empty() {
            return self.host.name.clone();
        }
        let own = rustix::system::uname().nodename().to_string_lossy().to_ascii_lowercase();
        if own.is_empty() { "localhost".to_owned() } else { own }
    }

    /// Authorities that vouch for other servers, if they are not those that the system knows; `directory` is the facility's.
    pub fn trust(&self, directory: &Path) -> Option<PathBuf> {
        let trust = &self.tls.trust;
        (!trust.as_os_str().is_empty()).then(|| directory.join(trust))
    }

    /// `host:port` by which others reach what listens on `address`.
    #[must_use]
    pub fn reachable(&self, address: SocketAddr) -> String {
        let port = address.port();
        match &*self.host.address {
            "" if address.ip().is_unspecified() => format!("{}:{port}", self.host_name()),
            "" => address.to_string(),
            given => format!("{given}:{port}"),
        }
    }

    /// The text of a configuration file.
    #[must_use]
    pub fn text(&self) -> String {
        toml::to_string(self).expect("plain values always serialise")
    }
}
