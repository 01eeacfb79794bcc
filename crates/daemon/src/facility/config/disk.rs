//! The partition of a host, and what becomes of removed files.

use base::{
    Millis,
    units::{Size, Span},
};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use wire::control::TrashLimit;

/// The disk server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Disk {
    /// Pool that a new partition of this host joins; `bp pool move` changes it later. On the head's host also the pool for new
    /// files.
    pub pool: String,
    /// Most bytes of replicas, even if `bp pool resize` allows more; `0B`: the whole file system.
    pub size: Size,
    /// Bytes of the file system that stay free.
    pub reserve: Size,
    /// Bypass the page cache (O_DIRECT), where the file system can, even if the pool does not demand it.
    pub direct: bool,
    /// How data are sent: `automatic`, `pread`, `io_uring`, `sendfile` or `mmap`.
    pub reads: Reads,
    /// Directories of this host from which `bp adopt` may adopt files.
    pub adopt: Vec<PathBuf>,
}

/// The trash: files that were removed or overwritten, and can be restored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Trash {
    /// How long files can be restored with `bp trash`; `0s`: there is no trash.
    pub retention: Span,
    /// Most disk space of the trash, as a share of all pools or as a size. The oldest files are deleted first, and whenever a
    /// write needs the space.
    pub max_size: TrashLimit,
}

impl Default for Trash {
    fn default() -> Self {
        Self { retention: Span(Millis::from_seconds(86_400)), max_size: TrashLimit::Percent(10) }
    }
}

/// How the bytes of files leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reads {
    /// The quickest that was measured.
    #[default]
    Automatic,
    /// Read, then sent.
    Pread,
    /// The same, several reads at once.
    #[serde(rename = "io_uring")]
    IoUring,
    /// From the page cache by `sendfile`.
    Sendfile,
    /// From the page cache, mapped.
    Mmap,
}

impl From<Reads> for net::xrd::ReadMethod {
    fn from(reads: Reads) -> Self {
        match reads {
            Reads::Automatic => Self::Automatic,
            Reads::Pread => Self::Pread,
            Reads::IoUring => Self::IoUring,
            Reads::Sendfile => Self::Sendfile,
            Reads::Mmap => Self::Mmap,
        }
    }
}

impl Default for Disk {
    fn default() -> Self {
        Self {
            pool: "main".to_owned(),
            size: Size(0),
            reserve: Size(256 << 20),
            direct: false,
            reads: Reads::Automatic,
            adopt: Vec::new(),
        }
    }
}
