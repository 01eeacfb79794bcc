//! The directory of all runs: takes orders, finds what an earlier room left, deletes what is acknowledged.

use super::{CONTROL, Phase, RunDir};
use crate::{
    durable::{self, Lock},
    identity::Identity,
    remove,
};
use base::{Failure, JobId, Result};
use std::{
    fs::{self, DirBuilder, File, Permissions},
    io,
    os::unix::fs::{DirBuilderExt, PermissionsExt},
    path::{Path, PathBuf},
};
use tracing::{error, warn};
use wire::control::{JobOrder, JobRun};

/// The directory of all runs, held by one room.
#[derive(Debug)]
pub struct RunStore {
    directory: PathBuf,
    _lock: Lock,
}

impl RunStore {
    /// Takes the directory, made if it is missing.
    ///
    /// Fails with [`ErrorKind::Busy`](base::ErrorKind::Busy) if another room has it.
    pub fn open(directory: &Path) -> Result<Self> {
        let failed = |cause: &io::Error| {
            Failure::io(format!("open the worker directory {}", directory.display()), cause)
        };
        let lock = || -> io::Result<Option<Lock>> {
            for name in ["runs", "trash"] {
                durable::make_directory(&directory.join(name))?;
                // What jobs read, write and print is for their owners, not for everybody on this host.
                fs::set_permissions(directory.join(name), Permissions::from_mode(0o700))?;
            }
            Lock::try_take(&directory.join("lock"))
        };
        let lock = lock().map_err(|cause| failed(&cause))?.ok_or_else(|| {
            Failure::busy(format!("worker directory {} is in use by another process", directory.display()))
                .hint("stop the other daemon first")
        })?;
        // Shepherds change their directory: whatever we tell them must be absolute.
        let directory = directory.canonicalize().map_err(|cause| failed(&cause))?;
        let store = Self { directory, _lock: lock };
        store.empty_trash();
        Ok(store)
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    fn runs(&self) -> PathBuf {
        self.directory.join("runs")
    }

    /// The directory of `run`, whether it is there or not.
    #[must_use]
    pub fn run(&self, run: JobRun) -> RunDir {
        RunDir::of(self.runs().join(format!("{}.{}", run.job, run.attempt)), run)
    }

    /// All runs that were accepted and not acknowledged, with their orders.
    ///
    /// What cannot be read is left for a person and not named, so that the head counts it as lost.
    pub fn all(&self) -> Result<Vec<(RunDir, JobOrder)>> {
        let failed = |cause: io::Error| Failure::io(format!("list {}", base::tail(&self.runs())), &cause);
        let mut found = Vec::new();
        for entry in fs::read_dir(self.runs()).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            let Some(run) = name.to_str().and_then(parse_run) else {
                warn!(?name, "not a run directory; ignored");
                continue;
            };
            let current = migrate_layout(self.run(run)).and_then(stage_anew);
            match current.and_then(|directory| Ok((directory.order()?, directory))) {
                Ok((Some(order), directory)) => found.push((directory, order)),
                // The order was never accepted: the head sends it again.
                Ok((None, directory)) => self.remove(&directory)?,
                Err(failure) => {
                    error!(job = %run.job, attempt = run.attempt, %failure, "cannot read a run's directory; it \
                        is left as it is");
                }
            }
        }
        Ok(found)
    }

    /// Returns the owners of all runs here, also of those that cannot be read otherwise.
    pub(crate) fn identities(&self) -> Result<Vec<Identity>> {
        let failed = |cause: io::Error| Failure::io(format!("list {}", self.runs().display()), &cause);
        let mut found = Vec::new();
        for entry in fs::read_dir(self.runs()).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            if let Some(run) = name.to_str().and_then(parse_run) {
                match self.run(run).identity() {
                    Ok(identity) => found.extend(identity),
                    // A slot user of it that still runs anything is noticed before it is used again.
                    Err(failure) => error!(job = %run.job, %failure, "cannot determine the user of a run"),
                }
            }
        }
        Ok(found)
    }

    /// Makes the directory of an order; on return the order is durable.
    pub fn accept(&self, order: &JobOrder) -> Result<RunDir> {
        let directory = self.run(order.run);
        let make = || -> io::Result<()> {
            for part in [&directory.control, &directory.scratch()] {
                DirBuilder::new().recursive(true).mode(0o700).create(part)?;
            }
            durable::sync_directory(&directory.path)?;
            durable::sync_directory(&self.runs())
        };
        make().map_err(|cause| directory.failed("make the directory", &cause))?;
        durable::write_json(&directory.file("order.json"), order)?;
        Ok(directory)
    }

    /// Forgets a run. The rename makes it one step: a half-deleted directory would look like a lost run.
    pub fn remove(&self, run: &RunDir) -> Result<()> {
        let name = format!("{}.{}", run.run.job, run.run.attempt);
        let trash = self.directory.join("trash").join(&name);
        self.delete(&name);
        let rename = || -> io::Result<()> {
            match fs::rename(&run.path, &trash) {
                Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(()),
                done => done?,
            }
            durable::sync_directory(&self.runs())
        };
        rename().map_err(|cause| run.failed("forget", &cause))?;
        self.delete(&name);
        Ok(())
    }

    fn empty_trash(&self) {
        let Ok(entries) = fs::read_dir(self.directory.join("trash")) else {
            return;
        };
        for entry in entries.flatten() {
            if let Some(name) = entry.file_name().to_str() {
                self.delete(name);
            }
        }
    }

    /// Deletes what is in the trash; what stays is tried again at the next start.
    fn delete(&self, name: &str) {
        if let Err(cause) = remove::remove_tree(&self.directory.join("trash"), name) {
            warn!(name, %cause, "cannot delete the directory of an old run");
        }
    }
}

/// Brings a run that an older release left and that has not begun to the layout of today: it is staged anew.
///
/// With the lock in hand no shepherd of that release begins, and without its `run.json` none does later.
fn migrate_layout(old: RunDir) -> Result<RunDir> {
    if !old.is_of_older_release() || !matches!(old.phase(), Phase::Ordered | Phase::Staged) {
        return Ok(old);
    }
    let Some(_alive) = old.try_lock()? else {
        return Ok(old);
    };
    let Some(order) = old.order()? else {
        return Ok(old);
    };
    let new = RunDir { control: old.path.join(CONTROL), ..old.clone() };
    let make = || -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&new.control)?;
        match fs::remove_file(old.file("run.json")) {
            Err(cause) if cause.kind() != io::ErrorKind::NotFound => return Err(cause),
            _ => {}
        }
        if old.is_cancelled() {
            File::create(new.file("cancel"))?;
        }
        durable::sync_directory(&old.path)
    };
    make().map_err(|cause| old.failed("bring to the layout of today", &cause))?;
    // Last: until its order is there the old layout counts.
    durable::write_json(&new.file("order.json"), &order)?;
    Ok(new)
}

/// Has the inputs of a run fetched again if it has not begun: they are not synced, and a power cut may have damaged them.
///
/// With the lock in hand no shepherd begins, and without `run.json` none does later.
fn stage_anew(run: RunDir) -> Result<RunDir> {
    if run.phase() != Phase::Staged {
        return Ok(run);
    }
    let Some(_alive) = run.try_lock()? else {
        return Ok(run);
    };
    if run.phase() == Phase::Staged {
        let file = run.file("run.json");
        let removed = fs::remove_file(&file).and_then(|()| durable::sync_directory(&run.control));
        removed.map_err(|cause| run.failed("stage anew", &cause))?;
    }
    Ok(run)
}

/// `JOB.ATTEMPT` in the one spelling that we give.
pub(super) fn parse_run(name: &str) -> Option<JobRun> {
    let (job, attempt) = name.split_once('.')?;
    let run = JobRun { job: JobId(job.parse().ok()?), attempt: attempt.parse().ok()? };
    (format!("{}.{}", run.job, run.attempt) == name).then_some(run)
}
