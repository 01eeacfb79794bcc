//! A door on a temporary directory, on a runtime of its own.

use crate::directory::DirService;
use base::limits::CONNECTIONS_MAX;
use net::{
    listener::Listener,
    shutdown::Shutdown,
    unproven::{Limits, Unproven},
    xrd::ReadMethod,
};
use std::{net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// Listens on 127.0.0.1 until it is dropped.
pub(crate) struct Door {
    pub(crate) address: SocketAddr,
    pub(crate) counters: Arc<net::xrd::Counters>,
    pub(crate) service: Arc<DirService>,
    pub(crate) budget: Unproven,
    root: TempDir,
    shutdown: Shutdown,
    runtime: Runtime,
}

impl Door {
    /// A door that hardly ever announces an answer.
    pub(crate) fn open() -> Self {
        Self::serving(Duration::from_millis(200), ReadMethod::Automatic)
    }

    /// A door with few places for proven connections, and a small budget for others.
    pub(crate) fn with_places(places: usize, limits: Limits) -> Self {
        let budget = Unproven::new(limits);
        Self::limited(Duration::from_millis(200), ReadMethod::Automatic, (places, budget))
    }

    /// A door whose files leave by `method`.
    pub(crate) fn reading_by(method: ReadMethod) -> Self {
        Self::serving(Duration::from_millis(200), method)
    }

    /// A door that announces every answer that is not there at once.
    pub(crate) fn announcing() -> Self {
        Self::serving(Duration::ZERO, ReadMethod::Automatic)
    }

    fn serving(announce_after: Duration, method: ReadMethod) -> Self {
        Self::limited(announce_after, method, (CONNECTIONS_MAX, Unproven::default()))
    }

    fn limited(announce_after: Duration, method: ReadMethod, (places, budget): (usize, Unproven)) -> Self {
        let root = tempfile::tempdir().unwrap();
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let shutdown = Shutdown::new();
        let service = DirService::new(root.path(), announce_after, method);
        let (address, counters) = runtime.block_on(async {
            let listener = Listener::bind(([127, 0, 0, 1], 0).into(), places).await.unwrap();
            let listener = listener.with_budget(budget.clone());
            let address = listener.address().unwrap();
            (address, net::xrd::serve(Arc::clone(&service), listener, &shutdown))
        });
        Self { address, counters, service, budget, root, shutdown, runtime }
    }

    /// Where the served files are.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// Names of the served directory that are left over from writes that were never committed.
    pub(crate) fn pending(&self) -> usize {
        let names = std::fs::read_dir(self.root.path()).unwrap().flatten().map(|entry| entry.file_name());
        names.filter(|name| name.to_string_lossy().starts_with(".pending")).count()
    }

    /// Stops and waits for every task: afterwards no session holds a file.
    pub(crate) fn stop(&self) {
        self.runtime.block_on(self.shutdown.stop(Duration::from_secs(60))).unwrap();
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        self.shutdown.tell();
    }
}

/// `length` bytes that differ from page to page.
pub(crate) fn sample(length: usize) -> Vec<u8> {
    let mut rng = base::rng::Rng::new(length as u64);
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        bytes.extend(rng.next_u64().to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}
