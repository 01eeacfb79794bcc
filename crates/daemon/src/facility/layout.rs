//! The layout of a facility's directory, and how its files are written.

use base::{Failure, Result};
use std::{
    fs::{self, File, OpenOptions},
    io::Write,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

/// Name of the partition that a facility on one host has.
pub const PARTITION: &str = "disk1";
/// Name of its library.
pub const LIBRARY: &str = "lib1";

/// Where everything lies.
#[derive(Debug, Clone)]
pub struct Layout(PathBuf);

impl Layout {
    /// The facility in `directory`.
    pub fn new(directory: &Path) -> Result<Self> {
        std::path::absolute(directory)
            .map(Self)
            .map_err(|cause| Failure::io(format!("find {}", directory.display()), &cause))
    }

    /// The directory itself.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.0
    }

    /// The database of the head.
    #[must_use]
    pub fn catalogue(&self) -> PathBuf {
        self.0.join("catalogue.sqlite")
    }

    /// The partition.
    #[must_use]
    pub fn partition(&self) -> PathBuf {
        self.0.join("disk").join(PARTITION)
    }

    /// The virtual library.
    #[must_use]
    pub fn library(&self) -> PathBuf {
        self.0.join("tape").join(LIBRARY)
    }

    /// Another virtual library.
    #[must_use]
    pub fn library_named(&self, name: &str) -> PathBuf {
        self.0.join("tape").join(name)
    }

    /// The worker's runs.
    #[must_use]
    pub fn batch(&self) -> PathBuf {
        self.0.join("batch")
    }

    /// Certificates and their keys.
    #[must_use]
    pub fn tls(&self) -> PathBuf {
        self.0.join("tls")
    }

    /// The facility's id, for whoever needs it while the catalogue is in use.
    pub(crate) fn id_file(&self) -> PathBuf {
        self.0.join("id")
    }

    /// The facility's id, if it was noted.
    pub(crate) fn facility_id(&self) -> Result<Option<String>> {
        let file = self.id_file();
        match fs::read_to_string(&file) {
            Ok(id) => Ok(Some(id.trim().to_owned())),
            Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(cause) => Err(failed("read", &file, &cause)),
        }
    }

    /// What a host that joined knows of its facility.
    pub(crate) fn membership_file(&self) -> PathBuf {
        self.0.join("membership.json")
    }

    /// The key that checks capabilities, on a host that joined.
    pub(crate) fn cap_key_file(&self) -> PathBuf {
        self.0.join("cap.key")
    }

    /// The partition with this name.
    pub(crate) fn partition_named(&self, name: &str) -> PathBuf {
        self.0.join("disk").join(name)
    }

    pub(crate) fn key_file(&self) -> PathBuf {
        self.0.join("key")
    }

    pub(crate) fn lock_file(&self) -> PathBuf {
        self.0.join("lock")
    }
}

pub(crate) fn random<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)
        .map_err(|cause| Failure::internal(format!("the system gives no random bytes: {cause}")))?;
    Ok(bytes)
}

pub(crate) fn failed(what: &str, path: &Path, cause: &std::io::Error) -> Failure {
    Failure::io(format!("{what} {}", path.display()), cause)
}

pub(crate) fn write_new(path: &Path, bytes: &[u8], mode: u32) -> Result<()> {
    let write = || {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
        file.write_all(bytes)?;
        file.sync_all()
    };
    write().map_err(|cause| failed("write", path, &cause))
}

/// Makes a directory, and those above it that are missing, so that they survive a power cut.
pub(crate) fn make_directory(path: &Path) -> Result<()> {
    let missing: Vec<_> = path.ancestors().take_while(|directory| !directory.exists()).collect();
    fs::create_dir_all(path).map_err(|cause| failed("make", path, &cause))?;
    let parents = missing.iter().rev().filter_map(|made| made.parent());
    parents.filter(|parent| !parent.as_os_str().is_empty()).try_for_each(sync_directory)
}

pub(crate) fn sync_directory(path: &Path) -> Result<()> {
    File::open(path).and_then(|file| file.sync_all()).map_err(|cause| failed("sync", path, &cause))
}

/// Writes a file as a whole, so that nobody reads half of it, and never with more rights than `mode`.
pub(crate) fn replace(path: &Path, bytes: &[u8], mode: u32) -> Result<()> {
    let new = path.with_extension("new");
    let write = || {
        let _ = fs::remove_file(&new);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&new)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&new, path)?;
        path.parent().map_or(Ok(()), |parent| File::open(parent)?.sync_all())
    };
    write().map_err(|cause| failed("write", path, &cause))
}
