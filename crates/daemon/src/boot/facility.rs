//! Creates a facility and locks its directory.

use crate::{
    access::key::Key,
    boot::{catalogue, steps::open_partition},
    facility::{
        config::{self, Config},
        layout::{Layout, PARTITION, failed, make_directory, random, sync_directory, write_new},
        private_files,
    },
    hosts::authority::{Authority, names_of_this_host},
};
use base::{ErrorKind, Failure, Result, Timestamp, Vid, check_name};
use client::facility::endpoints_file;
use head::{
    Bundling, Core, HeadConfig, TrashPolicy,
    store::{FacilityRow, HeadAddress},
};
use net::tls::Identity;
use rustix::fs::{FlockOperation, flock};
use std::{
    fs::{self, File},
    path::{Path, PathBuf},
};
use wire::control::{DiskServer, Endpoints};

/// Makes a facility in `directory`, which must be missing or empty.
pub fn create(directory: &Path, config: &Config, owner: &str, now: Timestamp) -> Result<()> {
    config.check()?;
    check_name("user", owner)?;
    let layout = Layout::new(directory)?;
    claim_empty(layout.root())?;
    // Before anything is made there: the database may be out of reach.
    catalogue::of(&layout, config)?.require_vacant()?;
    let id: String = random::<16>()?.iter().map(|byte| format!("{byte:02x}")).collect();
    Key::create(&layout.key_file(), now)?;
    write_new(&layout.lock_file(), b"", 0o600)?;
    write_new(&layout.id_file(), id.as_bytes(), 0o600)?;
    authority(&layout, &id).prepare(&names_of_this_host(config.doors.bind, &config.host.address), now)?;
    for path in [layout.partition(), layout.library(), layout.batch()] {
        make_directory(&path)?;
    }
    disk::Partition::create(&layout.partition(), &id, PARTITION)?;
    make_library(&layout, config)?;
    let facility =
        FacilityRow { id, name: config.name.clone(), owner: owner.to_owned(), created: now, incarnation: 0 };
    Core::create(catalogue::of(&layout, config)?, &facility)?;
    // Last: a directory without it is not a facility, so an interrupted creation is never taken for one.
    write_new(&layout.root().join(config::FILE), config.text().as_bytes(), 0o600)?;
    sync_directory(layout.root())
}

/// Makes the virtual library that the configuration describes, or completes it.
pub(crate) fn make_library(layout: &Layout, config: &Config) -> Result<()> {
    let config::Tape { drives, slots, volumes, prefix, .. } = &config.tape;
    let volumes: Result<Vec<Vid>> =
        (1..=*volumes).map(|number| format!("{prefix}{number:04}").parse()).collect();
    tape::VirtualLibrary::create(layout.library(), *drives, *slots, &volumes?).map(drop)
}

/// Refuses a directory that holds anything.
fn claim_empty(directory: &Path) -> Result<()> {
    if directory.join(config::FILE).exists() {
        return Err(Failure::exists(format!("{} holds a facility already", directory.display()))
            .hint(format!("`bp up {}` runs it", directory.display())));
    }
    make_directory(directory)?;
    let mut entries = fs::read_dir(directory).map_err(|cause| failed("read", directory, &cause))?;
    if entries.next().is_some() {
        return Err(Failure::new(ErrorKind::NotEmpty, format!("{} is not empty", directory.display()))
            .hint("a facility is made in a missing or empty directory only"));
    }
    // It may have been there, open to everybody.
    private_files::close(directory).map_err(|cause| failed("close", directory, &cause))
}

fn authority(layout: &Layout, facility: &str) -> Authority {
    Authority::new(&layout.tls(), facility)
}

/// A facility that this process runs; no other process can while this lives.
pub struct FacilityHandle {
    /// Where everything lies.
    pub layout: Layout,
    /// Its configuration.
    pub config: Config,
    /// Its secret.
    pub key: Key,
    _lock: File,
}

impl FacilityHandle {
    /// Takes the facility in `directory`. Makes and clears nothing.
    pub fn take(directory: &Path) -> Result<Self> {
        let layout = Layout::new(directory)?;
        let config = Config::read(layout.root())?;
        private_files::check(layout.root())?;
        let path = layout.lock_file();
        let lock = File::open(&path).map_err(|cause| failed("open", &path, &cause))?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive).map_err(|_| {
            Failure::busy(format!("the facility in {} is running already", layout.root().display()))
                .hint("`bp status` shows it, `bp down` stops it")
        })?;
        let key = match &*config.host.head {
            "" => Key::read(&layout.key_file(), config.tokens.lifetime_max.0)?,
            _ => Key::nobody(),
        };
        Ok(Self { key, layout, config, _lock: lock })
    }

    /// Begins to run: removes files of an earlier process that could mislead clients, and reads the key again.
    ///
    /// It comes before the socket is opened. The doors that clients find from then on are those of this process, not
    /// those of a dead one, whose ports anybody may have by now.
    pub(crate) fn begin(&self) -> Result<()> {
        self.withdraw();
        self.key.reload()
    }

    /// Opens the head's catalogue; `server` is the disk server in this process.
    pub fn open_head(&self, server: DiskServer, now: Timestamp) -> Result<Core> {
        let DiskServer { name: host, root, https } = server.clone();
        let (keys, tokens) = (self.key.caps(), self.key.tokens());
        let config = HeadConfig { keys, tokens, server, pool: self.config.disk.pool.clone() };
        let catalogue = catalogue::of(&self.layout, &self.config)?;
        let core = Core::open(catalogue, config, now)?.with_cache(catalogue::cache_bytes(&self.config))?;
        let trash =
            TrashPolicy { retention: self.config.trash.retention.0, max_size: self.config.trash.max_size };
        let tape = &self.config.tape;
        let (below, bytes, wait) = (tape.bundle_below.0, tape.bundle_size.0, tape.bundle_wait.0);
        let core = core.with_bundling(Bundling { below, bytes, wait });
        let core = core.with_tape_verification(tape.verify_interval.0);
        let core = core.with_trash(trash).with_half_life(self.config.shares.half_life.0);
        Ok(core.at_address(HeadAddress { host, root, https }))
    }

    /// What the doors show, made or renewed if that is needed, and the authority of the facility.
    pub fn certificates(&self, facility: &str, now: Timestamp) -> Result<(Identity, Authority)> {
        let id = self.layout.id_file();
        if !id.exists() {
            write_new(&id, facility.as_bytes(), 0o600)?;
        }
        let (authority, tls) = (authority(&self.layout, facility), &self.config.tls);
        authority.prepare(&names_of_this_host(self.config.doors.bind, &self.config.host.address), now)?;
        let given = |path: &Path| (!path.as_os_str().is_empty()).then(|| self.layout.root().join(path));
        let mut identity = authority.host();
        if let (Some(certificate), Some(key)) = (given(&tls.certificate), given(&tls.key)) {
            (identity.certificate, identity.key) = (certificate, key);
        }
        identity.client_ca = given(&tls.client_ca);
        Ok((identity, authority))
    }

    /// Authorities that vouch for the doors of this facility.
    #[must_use]
    pub fn vouchers(&self) -> Option<PathBuf> {
        let has_own = self.config.tls.certificate.as_os_str().is_empty();
        if has_own { Some(authority(&self.layout, "").certificate()) } else { self.trust() }
    }

    /// Authorities that vouch for other servers, if they are not those that the system knows.
    #[must_use]
    pub fn trust(&self) -> Option<PathBuf> {
        self.config.trust(self.layout.root())
    }

    /// Opens the partition.
    pub fn open_partition(&self, facility: &str) -> Result<disk::Partition> {
        open_partition(&self.layout.partition(), facility, &self.config.disk)
    }

    /// Tells clients where the doors are. Replaced as a whole, so that nobody reads half of it.
    pub fn announce(&self, endpoints: &Endpoints) -> Result<()> {
        let file = endpoints_file(self.layout.root());
        let text = serde_json::to_vec_pretty(endpoints)
            .map_err(|cause| Failure::internal(format!("cannot write endpoints: {cause}")))?;
        let new = file.with_extension("json.new");
        fs::write(&new, text)
            .and_then(|()| fs::rename(&new, &file))
            .map_err(|cause| failed("write", &file, &cause))
    }

    /// Tells clients that the doors are closed. A file that stays only makes them try in vain.
    pub fn withdraw(&self) {
        let _ = fs::remove_file(endpoints_file(self.layout.root()));
    }
}
