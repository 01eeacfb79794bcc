//! The mount: a directory of a facility as a file system of this host, coherent with the mounts of other hosts.
//!
//! **Problem.** Most programs read and write files by a path, and change them in place. Several hosts do that with the
//! same files at the same time. Some of these hosts freeze, lose their network, and wake up again.
//!
//! **Idea.** The head has the names and attributes: each request of the kernel for them is one call. Bytes are read and
//! written at the disk server, under a *grant* of the head. Any number of mounts may hold a grant to read, or one of
//! them a grant to write. If another mount needs a grant, the head asks for it back; the holder syncs and commits its
//! writes before it returns the grant. If the holder does not answer, the disk server fences it, and refuses its writes
//! when it wakes up. The head has the locks, too.
//!
//! Names and attributes are cached under *leases* of the head, here and in the kernel, and forgotten before others change
//! them. Under a grant the kernel keeps pages, and what programs write is gathered here and sent in large pieces. Before a
//! grant is returned all of that is dropped or sent.
//!
//! A program that needs no path has the same without a mount ([`shared`]): there is no kernel then, and the rest is the same.
//!
//! **Start reading** with [`mount()`], then `mount.rs` (the state of a mount), `grants.rs` (asks for grants and returns
//! them), `returns.rs` (how they end), `content.rs` (reads and writes), `ranges.rs` (space, holes, copies), `writeback/`,
//! `leases.rs` (what is cached of names), `ops/` (requests of the kernel). The rules of grants, leases and locks are in crate
//! `share`.

#![forbid(unsafe_code)]

mod cache;
mod caller;
mod content;
mod copies;
mod errno;
mod files;
mod grants;
mod head;
pub mod kernel;
mod known;
mod leases;
mod locks;
mod loss;
mod mount;
mod names;
mod ops;
mod pool;
mod ranges;
mod returns;
mod session;
pub mod shared;
mod unmount;
mod writeback;

use base::{Failure, FileId, FilePath, Result};
use client::{Control, Stop, xrd};
use kernel::device::{self, Access, Device};
use mount::Mount;
use std::{
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    sync::Arc,
    thread,
};
pub use unmount::unmount;

/// Requests that are worked on at a time. Each may wait for a grant; while one is returned, those of the kernel itself must find a
/// thread.
const REQUESTS_MAX: usize = 1024;
/// Grants that are returned at a time.
const RECALLS_MAX: usize = 64;
/// Pieces of files that are sent at a time: enough for several disk servers.
const SENDERS_MAX: usize = 16;

/// Where a mount is seen.
#[derive(Debug)]
pub enum Target {
    /// In this directory of the host, by everybody.
    Directory(PathBuf),
    /// By whoever attaches what [`kernel::device::detached`] has made.
    Detached {
        /// What `/dev/fuse` has given for it.
        device: OwnedFd,
        /// What it is for, as `bp lease` shows it.
        name: String,
    },
}

/// What is mounted where, and how.
pub struct Settings {
    /// The head.
    pub control: Control,
    /// On whose behalf.
    pub user: String,
    /// The directory of the facility.
    pub path: FilePath,
    /// Where it is seen.
    pub target: Target,
    /// How the data mover introduces itself.
    pub options: xrd::Options,
    /// Calls fail when the head has not answered for a while; else they wait for it.
    pub is_soft: bool,
    /// Files that are on tape only are not opened for reading; else reading recalls them, and waits.
    pub no_recall: bool,
    /// All changes are refused.
    pub is_read_only: bool,
    /// No programs that lie there are run.
    pub is_no_exec: bool,
    /// What `mount` shows as the device; `None`: which directory of the facility it is.
    pub source: Option<String>,
    /// Other users of this host may use it, too: each with their own rights if [`Self::user`] is an operator of the facility, else
    /// with those of that user. Who uses a detached mount has the rights of that user in any case.
    pub allow_other: bool,
}

/// A directory that is mounted.
pub struct Mounted {
    mount: Arc<Mount>,
    stop: Stop,
}

/// Mounts a directory of the facility.
pub fn mount(settings: Settings) -> Result<Mounted> {
    let Settings { control, user, path, target, options, is_soft, no_recall, .. } = settings;
    let source = settings.source.unwrap_or_else(|| format!("backplane:{path}"));
    let place = match &target {
        Target::Directory(directory) => found(directory)?,
        Target::Detached { name, .. } => PathBuf::from(name),
    };
    let stop = Stop::default();
    let host = format!("{}:{}", host_name(), place.display());
    let (head, session) = head::Head::open(control, (path.clone(), host), is_soft, stop.clone())?;
    let is_directory = matches!(target, Target::Directory(_));
    let acts_for_others = is_directory && settings.allow_other && session.acts_for_others;
    let device = match target {
        Target::Directory(_) => {
            let access = Access { others: settings.allow_other, checks: acts_for_others };
            Device::mount(&place, &source, access)?
        }
        Target::Detached { device, .. } => Device::of_detached(device),
    };
    device.restrict(settings.is_read_only, settings.is_no_exec)?;
    let parts = Parts { head, device, user, no_recall, root: session.root.id, options, acts_for_others };
    let mount = begin(parts)?;
    let (own, ended) = (Arc::clone(&mount), stop.clone());
    start("mount-kernel", move || {
        if let Err(failure) = own.serve() {
            tracing::error!(%failure, "the kernel is not answered any more");
        }
        ended.set();
    })?;
    tracing::info!(%path, place = %place.display(), mount = %mount.head.client(), "mounted");
    Ok(Mounted { mount, stop })
}

/// What a mount is made of that is there before it.
struct Parts {
    head: head::Head,
    device: Device,
    user: String,
    no_recall: bool,
    root: FileId,
    options: xrd::Options,
    acts_for_others: bool,
}

/// Makes what a mount knows, and keeps its session.
fn begin(parts: Parts) -> Result<Arc<Mount>> {
    let Parts { head, device, user, no_recall, root, options, acts_for_others } = parts;
    let (pool, recallers) =
        (pool::Pool::start("mount-request", REQUESTS_MAX)?, pool::Pool::start("mount-recall", RECALLS_MAX)?);
    let senders = pool::Pool::start("mount-send", SENDERS_MAX)?;
    let mount = Arc::new_cyclic(|own| Mount {
        head,
        device,
        user,
        no_recall,
        root,
        options,
        files: files::OpenFiles::default(),
        listings: std::sync::Mutex::default(),
        handles: 1.into(),
        requests: 1.into(),
        names: Arc::default(),
        acts_for_others,
        cache: cache::Cache::default(),
        in_kernel: known::Known::default(),
        has_epoch: false.into(),
        callers: caller::Callers::default(),
        pool,
        recallers,
        recalling: session::Recalling::default(),
        senders,
        own: own.clone(),
    });
    let own = Arc::clone(&mount);
    start("mount-session", move || session::keep(&own))?;
    Ok(mount)
}

/// The directory to mount on. What a mount that was killed has left there is unmounted first.
fn found(directory: &Path) -> Result<PathBuf> {
    if device::is_orphaned(directory) {
        device::unmount(directory, true)?;
    }
    directory.canonicalize().map_err(|cause| Failure::io(format!("mount on {}", directory.display()), &cause))
}

impl Mounted {
    /// What ends the mount: set it, and [`Self::wait`] unmounts.
    #[must_use]
    pub fn stop(&self) -> Stop {
        self.stop.clone()
    }

    /// Waits until it is unmounted or to be; then commits what was written and ends the session. Yields whether all that programs have
    /// written is stored.
    pub fn wait(self) -> bool {
        // As long as it takes: a mount has no end of its own.
        while !self.stop.wait(std::time::Duration::from_secs(3600)) {}
        if !self.mount.device.unmount() {
            tracing::warn!("files are still open in what is unmounted; programs that use them fail");
        }
        let is_stored = self.mount.end();
        tracing::info!("unmounted");
        is_stored
    }
}

fn start(name: &str, work: impl FnOnce() + Send + 'static) -> Result<()> {
    let thread = thread::Builder::new().name(name.to_owned()).spawn(work);
    thread.map(drop).map_err(|cause| Failure::io("start a thread of the mount", &cause))
}

fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}
