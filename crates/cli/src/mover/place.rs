//! Where files come from and go to.

use crate::context::Context;
use base::{ErrorKind, Failure, FilePath, Result};
use client::xrd::{FileSystem, Options, XrdUrl};
use std::{
    fmt,
    path::{Path, PathBuf},
};

/// What a path of the facility begins with.
const FACILITY: &str = "bp:";

/// A file or directory, wherever it is.
#[derive(Debug, Clone)]
pub(crate) enum Location {
    /// On this host.
    Local(PathBuf),
    /// Standard input or output, written `-`.
    Standard,
    /// On a server.
    Remote {
        /// Which.
        url: Box<XrdUrl>,
        /// A path of the facility is shown as it was given.
        is_facility: bool,
    },
}

/// The kind of entry at a location.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    Nothing,
    File(u64),
    Directory,
}

/// An entry of a directory.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) found: Found,
}

impl Location {
    /// Understands what the command line says: a local path, `-`, `bp:/path` in the facility, or a `root://` URL.
    pub(crate) fn parse(text: &str, context: &mut Context) -> Result<Self> {
        if text == "-" {
            return Ok(Self::Standard);
        }
        if let Some(path) = text.strip_prefix(FACILITY) {
            let url = Box::new(context.url(&path.parse::<FilePath>()?)?);
            return Ok(Self::Remote { url, is_facility: true });
        }
        if ["root://", "roots://", "xroot://", "xroots://"].iter().any(|scheme| text.starts_with(scheme)) {
            return Ok(Self::Remote { url: Box::new(text.parse()?), is_facility: false });
        }
        if let Some((scheme, _)) = text.split_once("://") {
            return Err(Failure::unsupported(format!("{scheme}:// is not supported"))
                .hint("use root:// or roots://, bp:/path for the facility, or a local path"));
        }
        Ok(Self::Local(PathBuf::from(text)))
    }

    /// The path in the facility, if it was given as such.
    pub(crate) fn facility_path(&self) -> Option<FilePath> {
        match self {
            Self::Remote { url, is_facility: true } => Some(url.path.clone()),
            _ => None,
        }
    }

    /// The last component of the path.
    pub(crate) fn name(&self) -> Result<&str> {
        let name = match self {
            Self::Local(path) => path.file_name().and_then(|name| name.to_str()).unwrap_or_default(),
            Self::Standard => "",
            Self::Remote { url, .. } => url.path.name(),
        };
        if name.is_empty() {
            return Err(Failure::invalid(format!("{self} has no file name to use at the target"))
                .hint("name the target"));
        }
        Ok(name)
    }

    /// The entry `name` of this directory.
    pub(crate) fn join(&self, name: &str) -> Result<Self> {
        Ok(match self {
            Self::Local(path) => Self::Local(path.join(name)),
            Self::Standard => return Err(Failure::invalid("- is no directory")),
            Self::Remote { url, is_facility } => {
                let path = url.path.join(name)?;
                Self::Remote { url: Box::new(XrdUrl { path, ..(**url).clone() }), is_facility: *is_facility }
            }
        })
    }

    /// The directory that holds this.
    pub(crate) fn parent(&self) -> Option<Self> {
        Some(match self {
            Self::Local(path) => Self::Local(path.parent()?.to_owned()),
            Self::Standard => return None,
            Self::Remote { url, is_facility } => {
                let path = url.path.parent()?;
                Self::Remote { url: Box::new(XrdUrl { path, ..(**url).clone() }), is_facility: *is_facility }
            }
        })
    }

    /// What is there.
    pub(crate) fn look(&self, options: &Options) -> Result<Found> {
        match self {
            Self::Local(path) => look_local(path),
            Self::Standard => Ok(Found::File(0)),
            Self::Remote { url, .. } => match FileSystem::new(url, options).stat(&url.path) {
                Ok(stat) if stat.is_directory() => Ok(Found::Directory),
                Ok(stat) => Ok(Found::File(stat.size)),
                Err(failure) if failure.kind == ErrorKind::NotFound => Ok(Found::Nothing),
                Err(failure) => Err(failure),
            },
        }
    }

    /// The entries of this directory, by name.
    pub(crate) fn list(&self, options: &Options) -> Result<Vec<Entry>> {
        let mut entries = match self {
            Self::Local(path) => list_local(path)?,
            Self::Standard => Vec::new(),
            Self::Remote { url, .. } => {
                let listing = FileSystem::new(url, options).list(&url.path)?;
                let found = |stat: wire::xrd::StatInfo| {
                    if stat.is_directory() { Found::Directory } else { Found::File(stat.size) }
                };
                let entry = |entry: wire::xrd::ListEntry| {
                    let found = entry.stat.map_or(Found::File(0), found);
                    Entry { name: entry.name, found }
                };
                listing.into_iter().map(entry).collect()
            }
        };
        // A server does not name what lies elsewhere.
        entries.retain(|entry| !entry.name.contains('/') && !matches!(entry.name.as_str(), "" | "." | ".."));
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }

    /// Makes this directory, and those above it.
    pub(crate) fn make_directory(&self, options: &Options) -> Result<()> {
        match self {
            Self::Local(path) => std::fs::create_dir_all(path)
                .map_err(|cause| Failure::io(format!("make the directory {}", path.display()), &cause)),
            Self::Standard => Ok(()),
            Self::Remote { url, .. } => match FileSystem::new(url, options).mkdir(&url.path, 0o755, true) {
                Err(failure) if failure.kind == ErrorKind::Exists => Ok(()),
                outcome => outcome,
            },
        }
    }
}

fn look_local(path: &Path) -> Result<Found> {
    match std::fs::metadata(path) {
        Ok(data) if data.is_dir() => Ok(Found::Directory),
        Ok(data) => Ok(Found::File(data.len())),
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => Ok(Found::Nothing),
        Err(cause) => Err(Failure::io(path.display(), &cause)),
    }
}

fn list_local(path: &Path) -> Result<Vec<Entry>> {
    let failed = |cause: &std::io::Error| Failure::io(format!("list {}", path.display()), cause);
    let mut entries = Vec::new();
    for entry in std::fs::read_dir(path).map_err(|cause| failed(&cause))? {
        let entry = entry.map_err(|cause| failed(&cause))?;
        let name = entry.file_name().into_string().map_err(|name| {
            Failure::invalid(format!("{} is not UTF-8", path.join(name).display())).hint("rename it")
        })?;
        let kind = entry.file_type().map_err(|cause| failed(&cause))?;
        let found = if kind.is_symlink() {
            match look_local(&entry.path())? {
                // Following it may lead round in a circle, or out of what was meant.
                Found::Directory => continue,
                found => found,
            }
        } else if kind.is_dir() {
            Found::Directory
        } else if kind.is_file() {
            Found::File(entry.metadata().map_err(|cause| failed(&cause))?.len())
        } else {
            // Sockets, devices and pipes hold no bytes to copy.
            continue;
        };
        if found != Found::Nothing {
            entries.push(Entry { name, found });
        }
    }
    Ok(entries)
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local(path) => write!(f, "{}", path.display()),
            Self::Standard => write!(f, "-"),
            Self::Remote { url, is_facility: true } => write!(f, "{FACILITY}{}", url.path),
            Self::Remote { url, .. } => write!(f, "{url}"),
        }
    }
}
