//! Tape libraries of a host beside the virtual one of `[tape]`.

use base::{
    Failure, Millis, Result, check_name,
    units::{Size, Span, counted},
};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

/// Libraries of one host.
const LIBRARIES_MAX: usize = 32;
/// Drives of one library.
const DRIVES_MAX: usize = 256;

/// A further tape library; the section is repeated for each library. Which keys count depends on its kind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LibraryConfig {
    /// Name, unique in the facility; on hosts that joined, the host's name is put in front of it. Drives are named after it:
    /// `NAME.drive0`.
    pub name: String,
    /// `sg`: devices of this host; `iscsi`: devices behind an iSCSI target; `virtual`: directories and files; `emulated`: the same
    /// behind emulated SCSI devices.
    pub kind: LibraryKind,
    /// Capacity of every cartridge; `0B`: as the type in its bar code says, 16GiB in a virtual or emulated library.
    pub volume_size: Size,
    /// `sg`: the changer, such as `/dev/sg3` or a link in `/dev/tape/by-id`.
    pub changer: PathBuf,
    /// `sg`: the drives, in the order of their elements if the changer does not tell serial numbers.
    pub drive_paths: Vec<PathBuf>,
    /// `iscsi`: host and port of the portal.
    pub portal: String,
    /// `iscsi`: name of the target.
    pub target: String,
    /// `iscsi`: number of the changer behind the target.
    pub changer_lun: u16,
    /// `iscsi`: numbers of the drives behind the target, in the order of their elements if the changer does not tell serial numbers.
    pub drive_luns: Vec<u16>,
    /// `iscsi`: name of this host.
    pub initiator: String,
    /// `iscsi`: user, if the target demands a login (CHAP).
    pub user: String,
    /// `iscsi`: file with the user's password, which only its owner may read.
    pub password_file: PathBuf,
    /// `virtual`, `emulated`: number of drives. These four count when the library is made, which is at the first start.
    pub drives: u16,
    /// `virtual`, `emulated`: number of slots.
    pub slots: u16,
    /// `virtual`, `emulated`: number of cartridges; their labels are the prefix and a number from 0001 on.
    pub volumes: u16,
    /// `virtual`, `emulated`: prefix of the labels, one or two of A-Z 0-9. Labels must be unique in the facility.
    pub prefix: String,
    /// `virtual`: how long a load takes.
    pub load_time: Span,
}

/// The kind of a library.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LibraryKind {
    /// Directories and files.
    #[default]
    Virtual,
    /// The same behind emulated SCSI devices.
    Emulated,
    /// SCSI devices of this host.
    Sg,
    /// SCSI devices behind an iSCSI target.
    Iscsi,
}

impl Default for LibraryConfig {
    fn default() -> Self {
        Self {
            name: String::new(),
            kind: LibraryKind::Virtual,
            volume_size: Size(0),
            changer: PathBuf::new(),
            drive_paths: Vec::new(),
            portal: String::new(),
            target: String::new(),
            changer_lun: 0,
            drive_luns: Vec::new(),
            initiator: "iqn.2026-11.backplane:tape".to_owned(),
            user: String::new(),
            password_file: PathBuf::new(),
            drives: 2,
            slots: 16,
            volumes: 0,
            prefix: String::new(),
            load_time: Span(Millis(0)),
        }
    }
}

impl LibraryConfig {
    /// Bytes of its cartridges, if they are said.
    #[must_use]
    pub fn capacity_bytes(&self) -> Option<u64> {
        Some(self.volume_size.0).filter(|bytes| *bytes > 0)
    }

    fn check(&self) -> Result<()> {
        check_name("tape library", &self.name)?;
        let refuse = |what: &str, hint: &str| Err(Failure::invalid(what).hint(hint));
        if self.capacity_bytes().is_some_and(|bytes| bytes < 1 << 20) {
            return refuse("volume_size is below 1MiB", "labels alone need some of it");
        }
        match self.kind {
            LibraryKind::Virtual | LibraryKind::Emulated => self.check_made(),
            LibraryKind::Sg => self.check_sg(),
            LibraryKind::Iscsi => self.check_iscsi(),
        }
    }

    fn check_made(&self) -> Result<()> {
        let refuse = |what: String, hint: &str| Err(Failure::invalid(what).hint(hint));
        if self.volumes > self.slots {
            let what = format!("volumes = {} do not fit slots = {}", self.volumes, self.slots);
            return refuse(what, "raise slots");
        }
        if self.volumes > 0 && !super::tape::is_prefix(&self.prefix) {
            let what = format!("prefix = {:?} is not one or two of A-Z 0-9", self.prefix);
            return refuse(what, "labels have six characters, four of them a number");
        }
        Ok(())
    }

    fn check_sg(&self) -> Result<()> {
        let refuse = |what: String, hint: &str| Err(Failure::invalid(what).hint(hint));
        let paths: Vec<&Path> =
            std::iter::once(&self.changer).chain(&self.drive_paths).map(PathBuf::as_path).collect();
        if let Some(path) = paths.iter().find(|path| !path.is_absolute()) {
            let what = format!("changer and drive_paths name {:?}", path.display());
            return refuse(what, "name absolute paths; `lsscsi -g` lists them");
        }
        if paths.iter().collect::<BTreeSet<_>>().len() != paths.len() {
            return refuse("a device is named twice".to_owned(), "name each device once");
        }
        check_count(self.drive_paths.len(), "drive_paths")
    }

    fn check_iscsi(&self) -> Result<()> {
        let refuse = |what: String, hint: &str| Err(Failure::invalid(what).hint(hint));
        let is_port = |port: &str| port.parse::<u16>().is_ok_and(|port| port > 0);
        if !self.portal.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && is_port(port)) {
            return refuse(format!("portal = {:?} is not host:port", self.portal), "3260 is the usual port");
        }
        if self.target.is_empty() || self.initiator.is_empty() {
            return refuse("target and initiator must be named".to_owned(), "both begin with iqn.");
        }
        if self.user.is_empty() != self.password_file.as_os_str().is_empty() {
            return refuse("user and password_file belong together".to_owned(), "give both, or none");
        }
        let luns: BTreeSet<_> = self.drive_luns.iter().chain([&self.changer_lun]).collect();
        if luns.len() != self.drive_luns.len() + 1 {
            return refuse("a device is named twice".to_owned(), "each has a number of its own");
        }
        check_count(self.drive_luns.len(), "drive_luns")
    }
}

fn check_count(drives: usize, key: &str) -> Result<()> {
    if (1..=DRIVES_MAX).contains(&drives) {
        return Ok(());
    }
    let what = format!("{key} names {}, not 1 to {DRIVES_MAX}", counted(drives as u64, "drive", "drives"));
    Err(Failure::invalid(what).hint("a library without drives can do nothing"))
}

/// Refuses libraries that cannot work, and those that cannot be told apart. `taken`: the name of the library that is there anyway.
pub(super) fn check(libraries: &[LibraryConfig], taken: Option<&str>) -> Result<()> {
    if libraries.len() > LIBRARIES_MAX {
        let what = format!("{} tape libraries are more than {LIBRARIES_MAX}", libraries.len());
        return Err(Failure::invalid(what).hint("use several hosts"));
    }
    let mut known: BTreeSet<&str> = taken.into_iter().collect();
    for library in libraries {
        let during = |failure: Failure| failure.during(format!("tape.library {:?}", library.name));
        library.check().map_err(during)?;
        if !known.insert(&library.name) {
            return Err(during(Failure::invalid("the name is taken").hint("lib1 is the library of [tape]")));
        }
    }
    Ok(())
}
