//! The XRootD door: what the session loop asks, answered by the head and the disk server.

mod file;
mod names;
#[cfg(test)]
mod tests;

pub use file::DoorFile;

use crate::{
    files::{CapFile, Files},
    metrics::DoorCounters,
    sums::ObjectSums,
};
use base::{FilePath, Result, limits::NAME_BYTES_MAX};
use head::Principal;
use net::xrd::{
    Access, Disposition, ListPage, Location, Opaque, OpenRequest, Opened, Peer, PrepareRequest, ServerConfig,
    Service, SpaceInfo, StatInfo,
};
use std::sync::Arc;
use wire::{
    cap, control,
    xrd::{LOGIN_NAME_BYTES, LOGIN_USER},
};

/// The door.
pub struct RootDoor {
    config: ServerConfig,
    files: Arc<Files>,
    /// Who may do everything.
    owner: String,
    counters: Arc<DoorCounters>,
    sums: Arc<ObjectSums>,
}

impl RootDoor {
    /// A door to `files`; `owner` is the facility's.
    pub fn new(files: Arc<Files>, facility: &str, owner: &str, counters: Arc<DoorCounters>) -> Self {
        let checksums = names::CHECKSUMS.map(str::to_owned).into();
        let config = ServerConfig { sitename: facility.to_owned(), checksums, ..ServerConfig::default() };
        Self { config, files, owner: owner.to_owned(), counters, sums: Arc::default() }
    }

    /// Sums of objects on demand, to be shared with other doors.
    pub fn sums(&self) -> Arc<ObjectSums> {
        Arc::clone(&self.sums)
    }

    /// Counts the outcome of a request.
    fn counted<T>(&self, outcome: Result<T>) -> Result<T> {
        self.counters.root.answer(outcome.as_ref().err().map(|failure| failure.kind));
        outcome
    }

    async fn open_file(&self, who: &Principal, request: OpenRequest) -> Result<DoorFile> {
        let counter = Arc::clone(&self.counters.root);
        let OpenRequest { path, opaque, .. } = &request;
        if let Some(signed) = opaque.get(cap::PARAMETER) {
            return Ok(match self.files.open_cap(signed, path, counter).await? {
                CapFile::Read(reader, counter) => DoorFile::Object(reader, counter),
                CapFile::Write(file) => DoorFile::Write(file),
            });
        }
        let disposition = match (request.disposition, request.access) {
            (Disposition::Existing, Access::Read) => {
                return self.files.open_read(who, path, counter).await.map(DoorFile::Read);
            }
            (Disposition::Existing, Access::Update) => control::Disposition::Update,
            (Disposition::CreateNew, _) => control::Disposition::CreateNew,
            (Disposition::Replace, _) => control::Disposition::Replace,
        };
        // `oss.asize` is what clients of the field say about the size to come.
        let expected_bytes = opaque.get("oss.asize").and_then(|size| size.parse().ok()).unwrap_or(0);
        let open = control::OpenWrite {
            path: path.clone(),
            mode: request.mode,
            disposition,
            parents: request.make_path,
            expected_bytes,
        };
        self.files.open_write(who, open, counter).await.map(DoorFile::Write)
    }
}

/// The name of the user as our own clients send it.
fn whole_name(peer: &Peer) -> Option<&str> {
    let is_name =
        |name: &&str| !name.is_empty() && name.len() <= NAME_BYTES_MAX && !name.contains(char::is_control);
    peer.opaque.get(LOGIN_USER).filter(is_name)
}

impl Service for RootDoor {
    type Session = Principal;
    type File = DoorFile;

    fn config(&self) -> &ServerConfig {
        &self.config
    }

    async fn login(&self, peer: Peer) -> Result<Principal> {
        // Loopback is trusted: whoever can reach it could also read the facility's files. Tokens replace this.
        let name = match whole_name(&peer) {
            Some(name) => name.to_owned(),
            // Other people's clients send eight bytes: enough to know the owner by.
            None if peer.username.len() == LOGIN_NAME_BYTES && self.owner.starts_with(&peer.username) => {
                self.owner.clone()
            }
            None => peer.username,
        };
        Ok(Principal { is_operator: name == self.owner, name })
    }

    async fn open(&self, session: &Principal, request: OpenRequest) -> Result<Opened<DoorFile>> {
        let file = self.open_file(session, request).await;
        self.counted(file).map(|file| Opened::Here(Arc::new(file)))
    }

    async fn stat(&self, session: &Principal, path: &FilePath, opaque: &Opaque) -> Result<StatInfo> {
        let _ = opaque;
        self.counted(self.stat_path(session, path).await)
    }

    async fn list(
        &self,
        session: &Principal,
        path: &FilePath,
        from: Option<String>,
        with_stat: bool,
    ) -> Result<ListPage> {
        self.counted(self.list_page(session, path, from, with_stat).await)
    }

    async fn mkdir(&self, session: &Principal, path: &FilePath, mode: u32, make_path: bool) -> Result<()> {
        self.counted(
            self.call(session, control::Mkdir { path: path.clone(), mode, parents: make_path }).await,
        )
    }

    async fn remove(&self, session: &Principal, path: &FilePath) -> Result<()> {
        self.counted(self.call(session, control::Remove { path: path.clone() }).await)
    }

    async fn rmdir(&self, session: &Principal, path: &FilePath) -> Result<()> {
        self.counted(self.call(session, control::RemoveDirectory { path: path.clone() }).await)
    }

    async fn rename(&self, session: &Principal, from: &FilePath, to: &FilePath) -> Result<()> {
        self.counted(self.call(session, control::Rename { from: from.clone(), to: to.clone() }).await)
    }

    async fn truncate(&self, session: &Principal, path: &FilePath, size: u64) -> Result<()> {
        self.counted(self.truncate_path(session, path, size).await)
    }

    async fn chmod(&self, session: &Principal, path: &FilePath, mode: u32) -> Result<()> {
        self.counted(self.call(session, control::SetMode { path: path.clone(), mode }).await)
    }

    async fn checksum(&self, session: &Principal, path: &FilePath, kind: &str) -> Result<String> {
        self.counted(self.checksum_of(session, path, kind).await)
    }

    async fn locate(&self, session: &Principal, path: &FilePath, local: &str) -> Result<Vec<Location>> {
        let location = |stat: StatInfo| Location {
            is_server: true,
            is_online: stat.is_online(),
            is_writable: true,
            address: local.to_owned(),
        };
        self.counted(self.stat_path(session, path).await).map(|stat| vec![location(stat)])
    }

    async fn prepare(&self, session: &Principal, request: PrepareRequest) -> Result<String> {
        self.counted(self.prepare_files(session, request).await)
    }

    async fn prepare_status(&self, session: &Principal, id: &str, paths: &[FilePath]) -> Result<String> {
        self.counted(self.staged(session, id, paths).await)
    }

    async fn space(&self, session: &Principal, path: &FilePath) -> Result<SpaceInfo> {
        let _ = path;
        self.counted(self.space_of_pools(session).await)
    }

    async fn attributes(&self, session: &Principal, path: &FilePath) -> Result<Vec<(String, Vec<u8>)>> {
        self.counted(self.attributes_of(session, path).await)
    }

    async fn set_attribute(
        &self,
        session: &Principal,
        path: &FilePath,
        name: &str,
        value: Option<&[u8]>,
        is_new: bool,
    ) -> Result<()> {
        self.counted(self.change_attribute(session, path, name, value, is_new).await)
    }
}
