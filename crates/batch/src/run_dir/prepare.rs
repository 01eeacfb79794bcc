//! Prepares a run directory for its job: directories of its own, authorities of the doors, a token.

use super::RunDir;
use crate::identity::Identity;
use base::Result;
use std::{
    fs::{self, DirBuilder, File, Permissions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

/// Files with authorities that a job is given: a facility has one or a few.
const CERTIFICATES_MAX: usize = 1000;

impl RunDir {
    /// Working directory of the job.
    #[must_use]
    pub fn scratch(&self) -> PathBuf {
        self.path.join("scratch")
    }

    /// The part of the run directory that the job may read.
    pub(crate) fn credentials(&self) -> PathBuf {
        if self.is_of_older_release() { self.path.clone() } else { self.path.join("credentials") }
    }

    /// What the job sees as `/tmp` and as `/var/tmp`.
    pub(crate) fn temporary(&self) -> [PathBuf; 2] {
        [self.path.join("tmp"), self.path.join("var-tmp")]
    }

    /// Authorities of the doors, for the job.
    pub(crate) fn certificates(&self) -> PathBuf {
        self.credentials().join("certificates")
    }

    /// Makes what the job needs beside its inputs: directories of its own, and a copy of the certificates in `authorities`.
    pub fn prepare(&self, identity: &Identity, authorities: Option<&Path>) -> Result<()> {
        let make = || -> io::Result<()> {
            let [tmp, var_tmp] = self.temporary();
            for (part, mode) in [(self.scratch(), 0o700), (tmp, 0o1777), (var_tmp, 0o1777)] {
                DirBuilder::new().recursive(true).mode(0o700).create(&part)?;
                fs::set_permissions(&part, Permissions::from_mode(mode))?;
                identity.give_directory(&part)?;
            }
            // Ours, and read-only for the job: it lies in a directory that nobody else can enter.
            for part in [self.credentials(), self.certificates()] {
                DirBuilder::new().recursive(true).create(&part)?;
                fs::set_permissions(&part, Permissions::from_mode(0o755))?;
            }
            let Some(authorities) = authorities else {
                return Ok(());
            };
            for entry in fs::read_dir(authorities)?.take(CERTIFICATES_MAX) {
                let entry = entry?;
                let target = self.certificates().join(entry.file_name());
                fs::write(&target, fs::read(entry.path())?)?;
                fs::set_permissions(&target, Permissions::from_mode(0o644))?;
            }
            Ok(())
        };
        make().map_err(|cause| self.failed("make what the job needs", &cause))
    }

    /// Where the job finds the facility, if it is mounted for it and the worker names no other directory.
    pub(crate) fn mount(&self) -> PathBuf {
        self.path.join("mount")
    }

    /// The text of a job that is a script, executable.
    pub(crate) fn script(&self) -> PathBuf {
        self.credentials().join("script")
    }

    /// A file with the name of the node, once for each slot: programs for PBS read it.
    pub(crate) fn node_file(&self) -> PathBuf {
        self.credentials().join("nodes")
    }

    /// Writes a file for the job to read or execute.
    pub(crate) fn put_for_job(&self, file: &Path, text: &str, mode: u32) -> Result<()> {
        let write = || -> io::Result<()> {
            fs::write(file, text)?;
            fs::set_permissions(file, Permissions::from_mode(mode))
        };
        write().map_err(|cause| self.failed(&format!("write {}", base::tail(file)), &cause))
    }

    /// Where the job finds its token.
    pub(crate) fn token_file(&self) -> PathBuf {
        self.credentials().join("token")
    }

    /// Replaces the token, so that nobody reads half of it; it is for the job's user alone.
    pub(crate) fn set_token(&self, token: &str, identity: &Identity) -> Result<()> {
        let new = self.credentials().join("token.new");
        let write = || -> io::Result<()> {
            match fs::remove_file(&new) {
                Err(cause) if cause.kind() != io::ErrorKind::NotFound => return Err(cause),
                _ => {}
            }
            let mut file = File::options().write(true).create_new(true).mode(0o600).open(&new)?;
            file.write_all(token.as_bytes())?;
            identity.give(&file)?;
            fs::rename(&new, self.token_file())
        };
        write().map_err(|cause| self.failed("write the token", &cause))
    }
}
