//! The disk, mounted: requests of the kernel are answered until the power is cut.

use crate::{
    disk::{Disk, Losses},
    ops::{self, Open},
};
use anyhow::{Context, Result};
use fuse::kernel::device::Device;
use rustix::mount::UnmountFlags;
use std::{
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread::{self, JoinHandle},
};

/// For the kernel: every user may use it, and it checks their permissions.
const OPTIONS: &str = ",allow_other,default_permissions";

/// What a mount answers from.
#[derive(Debug)]
struct State {
    /// The disk; `None` once the power is cut: nothing is answered any more.
    disk: Option<Disk>,
    open: Open,
}

/// A mount of the disk.
#[derive(Debug)]
pub(crate) struct Mounted {
    state: Arc<Mutex<State>>,
    thread: JoinHandle<()>,
}

impl Mounted {
    /// Mounts the disk.
    pub(crate) fn mount(disk: Disk, directory: &Path) -> Result<Self> {
        let device = Device::mount_with(directory, "forget-fs", OPTIONS)?;
        let state = Arc::new(Mutex::new(State { disk: Some(disk), open: Open::default() }));
        let own = Arc::clone(&state);
        let thread = thread::Builder::new().name("kernel".to_owned()).spawn(move || serve(&device, &own));
        Ok(Self { state, thread: thread.context("start a thread")? })
    }

    /// Cuts the power. From now on nothing is answered: programs that use the disk stand still.
    pub(crate) fn cut(&self) -> Option<(Disk, Losses)> {
        let mut disk = lock(&self.state).disk.take()?;
        let losses = disk.cut();
        Some((disk, losses))
    }

    /// Unmounts, whoever uses it: their calls fail, and those who were killed end.
    pub(crate) fn unmount(self, directory: &Path) -> Result<()> {
        let flags = UnmountFlags::FORCE | UnmountFlags::DETACH | UnmountFlags::NOFOLLOW;
        rustix::mount::unmount(directory, flags)
            .with_context(|| format!("unmount {}", directory.display()))?;
        self.thread.join().map_err(|_| anyhow::anyhow!("the thread that answers the kernel panicked"))
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn serve(device: &Device, state: &Mutex<State>) {
    let mut buffer = Vec::new();
    // An error is the end, too: the kernel fails all requests once the device is closed.
    while let Ok(Some(request)) = device.receive(&mut buffer) {
        if !ops::wants_answer(&request) {
            continue;
        }
        let outcome = {
            let State { disk, open } = &mut *lock(state);
            disk.as_mut().map(|disk| ops::answer(disk, open, &request))
        };
        if let Some(outcome) = outcome {
            device.answer(request.unique, outcome);
        }
    }
}
