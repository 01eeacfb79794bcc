//! Names: stat, list, make, remove, rename.

use super::{Options, XrdUrl, mux::Wait, names::Names, task::now};
use base::{FilePath, Result};
use std::sync::Arc;
use wire::xrd::{ListEntry, Location, SpaceInfo, StatInfo};

/// The names of one server. Cheap to make and to clone: connections are shared.
#[derive(Debug, Clone)]
pub struct FileSystem {
    names: Arc<Names>,
}

impl FileSystem {
    /// The names of the server of `url`; opaque parts of `url` go with every request.
    #[must_use]
    pub fn new(url: &XrdUrl, options: &Options) -> Self {
        Self { names: Arc::new(Names { url: url.clone(), options: options.clone() }) }
    }

    /// Attributes of a path.
    pub fn stat(&self, path: &FilePath) -> Result<StatInfo> {
        now(self.names.stat(path, Wait::Thread))
    }

    /// Names of a directory with their attributes.
    pub fn list(&self, path: &FilePath) -> Result<Vec<ListEntry>> {
        now(self.names.list(path, Wait::Thread))
    }

    /// Makes a directory; with `make_path` its parents too, and then an existing one is no failure.
    pub fn mkdir(&self, path: &FilePath, mode: u16, make_path: bool) -> Result<()> {
        now(self.names.mkdir(path, mode, make_path, Wait::Thread))
    }

    /// Removes a file.
    pub fn remove(&self, path: &FilePath) -> Result<()> {
        now(self.names.remove(path, Wait::Thread))
    }

    /// Removes an empty directory.
    pub fn rmdir(&self, path: &FilePath) -> Result<()> {
        now(self.names.rmdir(path, Wait::Thread))
    }

    /// Renames.
    pub fn rename(&self, from: &FilePath, to: &FilePath) -> Result<()> {
        now(self.names.rename(from, to, Wait::Thread))
    }

    /// Sets the size of a file.
    pub fn truncate(&self, path: &FilePath, size: u64) -> Result<()> {
        now(self.names.truncate(path, size, Wait::Thread))
    }

    /// Changes permission bits.
    pub fn chmod(&self, path: &FilePath, mode: u16) -> Result<()> {
        now(self.names.chmod(path, mode, Wait::Thread))
    }

    /// Checksum of a file: its type and value in hex. Without `kind` the server chooses.
    pub fn checksum(&self, path: &FilePath, kind: Option<&str>) -> Result<(String, String)> {
        now(self.names.checksum(path, kind, Wait::Thread))
    }

    /// The locations of a file.
    pub fn locate(&self, path: &FilePath) -> Result<Vec<Location>> {
        now(self.names.locate(path, Wait::Thread))
    }

    /// Asks that files be brought online; returns the request id.
    pub fn stage(&self, paths: &[FilePath], priority: u8) -> Result<String> {
        now(self.names.stage(paths, priority, Wait::Thread))
    }

    /// Answer to `query config` for one key.
    pub fn config(&self, key: &str) -> Result<String> {
        now(self.names.config(key, Wait::Thread))
    }

    /// User attributes of a path with their values.
    pub fn attributes(&self, path: &FilePath) -> Result<Vec<(String, Vec<u8>)>> {
        now(self.names.attributes(path, Wait::Thread))
    }

    /// Sets a user attribute.
    pub fn set_attribute(&self, path: &FilePath, name: &str, value: &[u8]) -> Result<()> {
        now(self.names.set_attribute(path, name, value, Wait::Thread))
    }

    /// Removes a user attribute.
    pub fn remove_attribute(&self, path: &FilePath, name: &str) -> Result<()> {
        now(self.names.remove_attribute(path, name, Wait::Thread))
    }

    /// Space of the storage that holds `path`.
    pub fn space(&self, path: &FilePath) -> Result<SpaceInfo> {
        now(self.names.space(path, Wait::Thread))
    }
}
