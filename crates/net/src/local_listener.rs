//! A Unix socket in a directory, at which the kernel says who connects.

use crate::shutdown::Token;
use base::{Failure, Result};
use rustix::{
    fs::{Mode, OFlags, chmod, open},
    net::sockopt::socket_peercred,
};
use std::{
    fs,
    io::ErrorKind,
    os::fd::AsRawFd,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tokio::{
    net::{UnixListener, UnixStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    time::sleep,
};

/// Pause after a failed accept: it fails for want of descriptors, and those come back only when connections end.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// A listening Unix socket with a bounded number of connections.
#[derive(Debug)]
pub struct LocalListener {
    socket: UnixListener,
    path: PathBuf,
    slots: Arc<Semaphore>,
}

/// An accepted connection; its slot is free again when this is dropped.
#[derive(Debug)]
pub struct LocalConnection {
    /// The socket.
    pub socket: UnixStream,
    /// The user id of the process that connected.
    pub uid: u32,
    /// Whether that was this very process.
    pub is_own_process: bool,
    /// Keeps the slot.
    pub slot: OwnedSemaphorePermit,
}

impl LocalListener {
    /// Listens at `name` in `directory`, which nobody else may write to, for at most `connections_max` connections at a time.
    /// A socket that an earlier process left there is replaced: the caller holds the lock of the directory. Only the owner
    /// of this process and root can connect.
    pub fn bind(directory: &Path, name: &str, connections_max: usize) -> Result<Self> {
        let path = directory.join(name);
        let failed = |cause: std::io::Error| Failure::io(format!("listen on {}", path.display()), &cause);
        match fs::remove_file(&path) {
            Err(cause) if cause.kind() != ErrorKind::NotFound => return Err(failed(cause)),
            _ => {}
        }
        let socket = bind(directory, name).map_err(failed)?;
        Ok(Self { socket, path, slots: Arc::new(Semaphore::new(connections_max)) })
    }

    /// The next connection; `None` when it is time to stop.
    pub async fn accept(&self, token: &Token) -> Option<LocalConnection> {
        tokio::select! {
            () = token.stopped() => None,
            connection = self.next() => connection,
        }
    }

    async fn next(&self) -> Option<LocalConnection> {
        let slot = Arc::clone(&self.slots).acquire_owned().await.ok()?;
        loop {
            let accepted = self.socket.accept().await.and_then(|(socket, _)| {
                let peer = socket_peercred(&socket)?;
                Ok((socket, peer))
            });
            match accepted {
                Ok((socket, peer)) => {
                    let is_own_process = peer.pid == rustix::process::getpid();
                    return Some(LocalConnection { socket, uid: peer.uid.as_raw(), is_own_process, slot });
                }
                Err(error) => {
                    tracing::warn!(path = %self.path.display(), %error, "cannot accept a connection");
                    sleep(ACCEPT_RETRY).await;
                }
            }
        }
    }
}

impl Drop for LocalListener {
    fn drop(&mut self) {
        // One that stays only makes clients try in vain.
        let _ = fs::remove_file(&self.path);
    }
}

/// Binds by way of the opened directory: the path of a socket has 107 bytes at most, that of a facility any number.
fn bind(directory: &Path, name: &str) -> std::io::Result<UnixListener> {
    let opened = open(directory, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let path = format!("/proc/self/fd/{}/{name}", opened.as_raw_fd());
    let socket = UnixListener::bind(&path)?;
    chmod(&path, Mode::RUSR | Mode::WUSR)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shutdown::Shutdown;
    use std::os::unix::fs::PermissionsExt;

    #[tokio::test]
    async fn the_kernel_says_who_connects_however_long_the_path() {
        let top = tempfile::tempdir().unwrap();
        let directory = top.path().join("a".repeat(200));
        fs::create_dir(&directory).unwrap();
        fs::write(directory.join("s"), "left by an earlier process").unwrap();
        let listener = LocalListener::bind(&directory, "s", 1).unwrap();
        assert_eq!(fs::metadata(directory.join("s")).unwrap().permissions().mode() & 0o777, 0o600);
        let opened = open(&directory, OFlags::PATH, Mode::empty()).unwrap();
        let path = format!("/proc/self/fd/{}/s", opened.as_raw_fd());
        let _client = UnixStream::connect(path).await.unwrap();
        let root = Shutdown::new();
        let connection = listener.accept(&root.token()).await.unwrap();
        assert!(connection.is_own_process && connection.uid == rustix::process::geteuid().as_raw());
        drop(listener);
        assert!(!directory.join("s").exists());
    }
}
