//! Joining a facility: what a host does once, by invitation, and again whenever its certificate must be renewed.

use crate::{
    access::cap_keys,
    boot::facility::{FacilityHandle, make_library},
    facility::{
        config::{self, Config, Host},
        layout::{Layout, failed, make_directory, replace, sync_directory, write_new},
        private_files,
    },
    hosts::{
        authority::{Authority, names_beside_own},
        fingerprint,
    },
};
use base::{ErrorKind, Failure, Result, units::noun};
use client::{Control, ControlTls};
use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256, SigningKey as _};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::{
    collections::BTreeSet,
    fs,
    net::IpAddr,
    path::{Path, PathBuf},
};
use wire::{
    auth::token::base64url,
    control::{
        GetAuthority, HostNames, JoinFacility, JoinToken, Membership, RenewCertificate, Role, VERSION,
    },
};

/// The parameters of `bpd join`.
#[derive(Debug, Clone)]
pub struct JoinRequest {
    /// The invitation.
    pub token: JoinToken,
    /// The requested roles.
    pub roles: Vec<Role>,
    /// Its parts; what concerns the host and its doors follows from the rest.
    pub parts: Config,
    /// Its name in the facility; `None`: what it calls itself.
    pub name: Option<String>,
    /// Name or address by which others reach it.
    pub address: Option<String>,
    /// Address that it listens on.
    pub bind: Option<IpAddr>,
    /// Ports of `root://` and `https://`, 0 for any.
    pub ports: (Option<u16>, Option<u16>),
}

/// What a host that joined knows of its facility; the content of `DIR/membership.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// The facility's id.
    pub facility: String,
    /// Its name, for people.
    pub facility_name: String,
    /// The user who runs it.
    pub owner: String,
    /// XRootD door of the head, `host:port`.
    pub root: String,
}

impl Member {
    /// What the host in `layout` knows.
    pub fn read(layout: &Layout) -> Result<Self> {
        let file = layout.membership_file();
        let text = fs::read(&file).map_err(|cause| failed("read", &file, &cause))?;
        serde_json::from_slice(&text)
            .map_err(|cause| Failure::corrupt(format!("{} is damaged: {cause}", file.display())))
    }
}

/// The files of a host's certificate.
pub(crate) struct HostFiles {
    pub(crate) authority: PathBuf,
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

impl HostFiles {
    pub(crate) fn new(layout: &Layout) -> Self {
        let file = |name| layout.tls().join(name);
        Self { authority: file("ca.pem"), certificate: file("host.pem"), key: file("host.key") }
    }

    /// How the rooms of this host speak to the head.
    pub(crate) fn control(&self) -> ControlTls {
        ControlTls {
            authorities: Some(self.authority.clone()),
            identity: Some((self.certificate.clone(), self.key.clone())),
            insecure: false,
        }
    }
}

/// Makes `directory`, which must be missing or empty, a host of the facility that the invitation is from.
///
/// An attempt that failed after the head had agreed can be repeated: the key that was shown is kept.
pub fn join(directory: &Path, wish: JoinRequest) -> Result<Config> {
    let layout = Layout::new(directory)?;
    let before = claim(&layout, &wish.token)?;
    let is_again = before.is_some();
    let config = match before {
        Some(config) => with_roles(config, &wish.roles)?,
        None => configured(&wish)?,
    };
    config.check()?;
    let files = HostFiles::new(&layout);
    believe(&wish.token, &layout)?;
    let key = key_pair(&files.key)?;
    let mut call = JoinFacility {
        secret: wish.token.secret.clone(),
        name: config.host_name(),
        roles: config.host.roles.clone(),
        key: base64url::encode(key.public_key_raw()),
        reached: names(&config),
        version: VERSION.to_owned(),
        proof: String::new(),
    };
    let proof = key.sign(&call.signed()).map_err(|cause| unusable(&files.key, &cause))?;
    call.proof = base64url::encode(&proof);
    let believing = ControlTls { authorities: Some(files.authority.clone()), ..ControlTls::default() };
    let membership = Control::new(&wish.token.head, "host").with_tls(believing).call(&call)?;
    if membership.facility != wish.token.facility {
        let what = format!("{} is facility {}", wish.token.head, membership.facility);
        return Err(Failure::permission(what).hint("the join token is for another one: ask for a new one"));
    }
    settle(&layout, &files, &config, &membership)?;
    if !is_again {
        // Last: an interrupted attempt is never taken for a host.
        write_new(&layout.root().join(config::FILE), config.text().as_bytes(), 0o644)?;
        sync_directory(layout.root())?;
    }
    Ok(config)
}

fn configured(wish: &JoinRequest) -> Result<Config> {
    if wish.roles.is_empty() || wish.roles.contains(&Role::Head) {
        return Err(Failure::unsupported("a host that joins can have the roles disk, tape and cpu")
            .hint("a standby head does not join: it runs with the facility's directory and database"));
    }
    let host = Host {
        name: wish.name.clone().unwrap_or_default(),
        address: wish.address.clone().unwrap_or_default(),
        roles: wish.roles.clone(),
        head: wish.token.head.clone(),
    };
    let mut config = Config { host, ..wish.parts.clone() };
    config.host.name = config.host_name();
    config.host.roles.sort_unstable();
    config.host.roles.dedup();
    if config.tape.prefix.is_empty() {
        config.tape.prefix = label_prefix(&config.host.name);
    }
    if let Some(bind) = wish.bind {
        config.doors.bind = bind;
    }
    let (root_port, https_port) = wish.ports;
    config.doors.root_port = root_port.unwrap_or(config.doors.root_port);
    config.doors.https_port = https_port.unwrap_or(config.doors.https_port);
    Ok(config)
}

/// The configuration of a host that joins once more, if it has the roles that were asked for.
fn with_roles(config: Config, wanted: &[Role]) -> Result<Config> {
    let set = |roles: &[Role]| roles.iter().copied().collect::<BTreeSet<_>>();
    if set(&config.host.roles) == set(wanted) {
        return Ok(config);
    }
    let words: Vec<_> = config.host.roles.iter().map(|role| role.as_str()).collect();
    let roles = noun(words.len() as u64, "role", "roles");
    Err(Failure::invalid(format!(
        "{} says that this host has the {roles} {}",
        config::FILE,
        words.join(", ")
    ))
    .hint("ask for these, or change host.roles there first"))
}

/// What the labels of a host's cartridges begin with: another letter and digit for almost every name.
fn label_prefix(host: &str) -> String {
    const SECOND: &[u8] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    let digest = Sha256::digest(host.as_bytes());
    let letters = [b'A' + digest[0] % 26, SECOND[usize::from(digest[1]) % SECOND.len()]];
    letters.map(char::from).iter().collect()
}

/// What the certificate of this host must say beside its name in the facility: where [`Config::reachable`] sends others.
fn names(config: &Config) -> HostNames {
    names_beside_own(config.doors.bind, &config.host.address)
}

/// Refuses a directory that holds anything but what an earlier attempt has left, or a host of the same facility: that may join
/// again, because the head may have lost its catalogue. Yields the configuration of such a host.
fn claim(layout: &Layout, token: &JoinToken) -> Result<Option<Config>> {
    let directory = layout.root();
    if directory.join(config::FILE).exists() {
        return claim_again(layout, token).map(Some);
    }
    let tls = layout.tls();
    make_directory(&tls)?;
    private_files::close(layout.root()).map_err(|cause| failed("close", layout.root(), &cause))?;
    let mut entries = fs::read_dir(directory).map_err(|cause| failed("read", directory, &cause))?;
    let is_ours = |name: &std::ffi::OsStr| {
        ["tls", "lock", "id", "cap.key", "membership.json", "disk", "tape"].iter().any(|own| name == *own)
    };
    if entries.any(|entry| entry.is_ok_and(|entry| !is_ours(&entry.file_name()))) {
        return Err(Failure::new(ErrorKind::NotEmpty, format!("{} is not empty", directory.display()))
            .hint("a host joins in a missing or empty directory only"));
    }
    Ok(None)
}

/// The configuration of a host that joins its facility once more; whatever else it holds stays as it is.
fn claim_again(layout: &Layout, token: &JoinToken) -> Result<Config> {
    let directory = layout.root();
    let foreign = || {
        Failure::exists(format!("{} belongs to another facility already", directory.display()))
            .hint(format!("`bpd run {}` runs it", directory.display()))
    };
    let member = Member::read(layout).map_err(|_| foreign())?;
    if member.facility != token.facility {
        return Err(foreign());
    }
    let handle = FacilityHandle::take(directory)?;
    Ok(handle.config)
}

/// Fetches the authority's certificate from whoever answers, and believes it only if the invitation names it.
fn believe(token: &JoinToken, layout: &Layout) -> Result<()> {
    let anybody = ControlTls { insecure: true, ..ControlTls::default() };
    let found = Control::new(&token.head, "host").with_tls(anybody).call(&GetAuthority {})?;
    if fingerprint(&found.certificate)? != token.authority {
        let what = format!("{} is not the facility that the join token is from", token.head);
        return Err(Failure::permission(what)
            .hint("the connection may be intercepted: check the network, and ask for a new token"));
    }
    Authority::new(&layout.tls(), &token.facility).publish(&found.certificate)
}

/// The key of this host, made if there is none.
fn key_pair(file: &Path) -> Result<KeyPair> {
    let unusable = |cause| unusable(file, &cause);
    if let Ok(pem) = fs::read_to_string(file) {
        return KeyPair::from_pem(&pem).map_err(unusable);
    }
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(unusable)?;
    write_new(file, key.serialize_pem().as_bytes(), 0o600)?;
    Ok(key)
}

fn unusable(file: &Path, cause: &rcgen::Error) -> Failure {
    Failure::corrupt(format!("{} is not a key: {cause}", file.display()))
}

/// Writes down what the head has said.
fn settle(layout: &Layout, files: &HostFiles, config: &Config, membership: &Membership) -> Result<()> {
    replace(&files.certificate, membership.certificate.as_bytes(), 0o644)?;
    let member = Member {
        facility: membership.facility.clone(),
        facility_name: membership.facility_name.clone(),
        owner: membership.owner.clone(),
        root: membership.root.clone(),
    };
    let text = serde_json::to_vec_pretty(&member)
        .map_err(|cause| Failure::internal(format!("cannot write the membership: {cause}")))?;
    replace(&layout.membership_file(), &text, 0o644)?;
    cap_keys::store(layout, &membership.cap_keys)?;
    if !layout.lock_file().exists() {
        write_new(&layout.lock_file(), b"", 0o600)?;
    }
    if config.host.roles.contains(&Role::Disk) {
        make_partition(layout, config, &member.facility)?;
    }
    // Cartridges that were taken out of a library stay out when its host joins once more.
    let is_made = layout.root().join(config::FILE).exists() && layout.library().exists();
    if config.host.roles.contains(&Role::Tape) && !is_made {
        make_library(layout, config)?;
    }
    sync_directory(layout.root())
}

/// The name of a host's first partition.
pub(crate) fn partition_name(config: &Config) -> String {
    format!("{}-disk1", config.host_name())
}

fn make_partition(layout: &Layout, config: &Config, facility: &str) -> Result<()> {
    let name = partition_name(config);
    let directory = layout.partition_named(&name);
    make_directory(&directory)?;
    match disk::Partition::create(&directory, facility, &name) {
        Err(failure) if failure.kind == ErrorKind::Exists => {
            disk::Partition::open(&directory, facility).map(drop)
        }
        outcome => outcome.map(drop),
    }
}

/// Asks the head for a new certificate, with the key that this host has.
pub(crate) fn renew(layout: &Layout, config: &Config) -> Result<()> {
    let files = HostFiles::new(layout);
    let key = key_pair(&files.key)?;
    let call = RenewCertificate { key: base64url::encode(key.public_key_raw()) };
    let control = Control::new(&config.host.head, "host").with_tls(files.control());
    let renewed = control.call(&call)?;
    replace(&files.certificate, renewed.certificate.as_bytes(), 0o644)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_follow_from_the_name_of_the_host_and_differ() {
        let prefixes: BTreeSet<_> = (0..20).map(|number| label_prefix(&format!("tape{number:02}"))).collect();
        assert!(prefixes.len() > 15, "{prefixes:?}");
        assert_eq!(label_prefix("tape01"), label_prefix("tape01"));
        for prefix in prefixes {
            assert!(format!("{prefix}0001").parse::<base::Vid>().is_ok(), "{prefix}");
        }
    }

    #[test]
    fn a_host_that_joins_once_more_keeps_its_roles() {
        let host = Host { roles: vec![Role::Disk, Role::Cpu], ..Host::default() };
        let config = || Config { host: host.clone(), ..Config::default() };
        assert!(with_roles(config(), &[Role::Cpu, Role::Disk]).is_ok());
        let refused = with_roles(config(), &[Role::Disk]).unwrap_err();
        assert!(refused.what.contains("disk, cpu") && refused.hint.is_some(), "{refused}");
    }
}
