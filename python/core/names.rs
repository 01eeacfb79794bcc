//! Names of a facility, by its data door.

use crate::{failure::OrRaise, source::options};
use base::{FilePath, Result};
use client::xrd::{FileSystem, XrdUrl};
use pyo3::prelude::*;
use wire::xrd::{StatFlags, StatInfo};

/// The names of one server, with the opaque part of its URL. Cheap to make: connections are shared.
#[pyclass(frozen, module = "backplane._core")]
pub(crate) struct RemoteNames {
    names: FileSystem,
}

/// What a path is, as Python sees it.
#[pyclass(frozen, get_all, module = "backplane._core")]
pub(crate) struct Attributes {
    /// `file`, `directory` or `other`.
    kind: &'static str,
    /// Bytes.
    size: u64,
    /// Number that is unique in the server.
    id: u64,
    /// Last change of the content, seconds since 1970.
    modified_s: i64,
    /// Last change of attributes, seconds since 1970.
    changed_s: Option<i64>,
    /// Permission bits.
    mode: Option<u32>,
    /// Name of the owner.
    owner: Option<String>,
    /// Name of the group.
    group: Option<String>,
    /// Whether it can be read without a recall.
    is_online: bool,
    /// Whether there is a copy on tape.
    is_archived: bool,
}

impl From<StatInfo> for Attributes {
    fn from(stat: StatInfo) -> Self {
        let kind = match () {
            () if stat.is_directory() => "directory",
            () if stat.flags.contains(StatFlags::OTHER) => "other",
            () => "file",
        };
        let (size, id, modified_s, is_online) = (stat.size, stat.id, stat.modified_s, stat.is_online());
        let is_archived = stat.flags.contains(StatFlags::BACKUP_EXISTS);
        let (changed_s, mode, owner, group) = stat.owner.map_or((None, None, None, None), |owner| {
            (Some(owner.changed_s), Some(owner.mode), Some(owner.user), Some(owner.group))
        });
        Self { kind, size, id, modified_s, changed_s, mode, owner, group, is_online, is_archived }
    }
}

impl RemoteNames {
    /// Acts on one path with the interpreter released.
    fn on<T: Send>(
        &self,
        py: Python<'_>,
        path: &str,
        act: impl FnOnce(&FileSystem, &FilePath) -> Result<T> + Send,
    ) -> PyResult<T> {
        let path = path.parse::<FilePath>().or_raise(py)?;
        py.detach(|| act(&self.names, &path)).or_raise(py)
    }
}

#[pymethods]
impl RemoteNames {
    /// The names of the server of `url`, asked for as `user`.
    #[new]
    fn new(py: Python<'_>, url: &str, user: &str) -> PyResult<Self> {
        let url: XrdUrl = url.parse().or_raise(py)?;
        Ok(Self { names: FileSystem::new(&url, &options(user)) })
    }

    /// Attributes of a path.
    fn stat(&self, py: Python<'_>, path: &str) -> PyResult<Attributes> {
        self.on(py, path, |names, path| names.stat(path).map(Attributes::from))
    }

    /// Names in a directory with their attributes, where the server gives them.
    fn list(&self, py: Python<'_>, path: &str) -> PyResult<Vec<(String, Option<Attributes>)>> {
        self.on(py, path, |names, path| {
            let entries = names.list(path)?.into_iter();
            Ok(entries.map(|entry| (entry.name, entry.stat.map(Attributes::from))).collect())
        })
    }

    /// Makes a directory; with `parents` those too, and then an existing one is no failure.
    fn mkdir(&self, py: Python<'_>, path: &str, parents: bool) -> PyResult<()> {
        self.on(py, path, |names, path| names.mkdir(path, 0o755, parents))
    }

    /// Removes a file.
    fn remove(&self, py: Python<'_>, path: &str) -> PyResult<()> {
        self.on(py, path, FileSystem::remove)
    }

    /// Removes an empty directory.
    fn rmdir(&self, py: Python<'_>, path: &str) -> PyResult<()> {
        self.on(py, path, FileSystem::rmdir)
    }

    /// Renames.
    fn rename(&self, py: Python<'_>, path: &str, to: &str) -> PyResult<()> {
        let to = to.parse::<FilePath>().or_raise(py)?;
        self.on(py, path, |names, path| names.rename(path, &to))
    }

    /// Changes permission bits.
    fn chmod(&self, py: Python<'_>, path: &str, mode: u16) -> PyResult<()> {
        self.on(py, path, |names, path| names.chmod(path, mode))
    }

    /// Checksum of a file: its type and value in hex. Without `kind` the server chooses.
    #[pyo3(signature = (path, kind = None))]
    fn checksum(&self, py: Python<'_>, path: &str, kind: Option<&str>) -> PyResult<(String, String)> {
        self.on(py, path, |names, path| names.checksum(path, kind))
    }
}
