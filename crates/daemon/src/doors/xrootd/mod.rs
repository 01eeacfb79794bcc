//! The XRootD door: what the session loop asks, answered by the head and the disk server.

mod audited;
mod data;
mod file;
mod names;
mod prepare;
mod session;
mod stats;
#[cfg(test)]
mod tests;
pub(crate) mod tpc;

pub use audited::AuditedDoor;
pub use data::DataDoor;
pub use file::DoorFile;
pub use session::DoorSession;

use self::{stats::Stats, tpc::ThirdParty};
use crate::{
    access::identity::{Gate, Identity},
    doors::files::{self, Files},
    metrics::DoorCounters,
};
use base::{ErrorKind, Failure, FilePath, ReachRule, Result};
use disk::serve::local_objects::{CapFile, CapOpen};
use head::Principal;
use net::xrd::{
    Access, Disposition, ListPage, Location, Opaque, OpenRequest, Opened, Peer, PrepareRequest, ReadMethod,
    ServerConfig, Service, SpaceInfo, StatInfo, TlsOffer,
};
use std::{borrow::Cow, net::SocketAddr, path::PathBuf, sync::Arc};
use wire::{
    auth::{capability, token::Right},
    control, xrd,
};

/// The door.
pub struct RootDoor {
    config: ServerConfig,
    files: Arc<Files>,
    gate: Gate,
    third_party: ThirdParty<Identity>,
    counters: Arc<DoorCounters>,
    stats: Stats,
}

impl RootDoor {
    /// A door to `files`; `gate` decides who somebody is.
    pub fn new(files: Arc<Files>, facility: &str, gate: Gate, counters: Arc<DoorCounters>) -> Self {
        let config = server_config(facility);
        Self { config, files, gate, third_party: ThirdParty::new(), counters, stats: Stats::new() }
    }

    /// Chooses how the bytes of files leave.
    #[must_use]
    pub fn with_reads(mut self, method: ReadMethod) -> Self {
        self.config.read_method = method;
        self
    }

    /// Offers TLS.
    #[must_use]
    pub fn with_tls(mut self, offer: TlsOffer) -> Self {
        self.config.tls = Some(offer);
        self
    }

    /// Says which authorities vouch for the servers that files are copied from.
    #[must_use]
    pub fn with_trust(mut self, authorities: Option<PathBuf>) -> Self {
        self.third_party.believe(authorities);
        self
    }

    /// Says where files may be copied from, and where this door listens; without it from other hosts only.
    #[must_use]
    pub fn with_reach(mut self, rule: ReachRule, own: SocketAddr) -> Self {
        self.third_party.limit(rule, own);
        self
    }

    /// Counts the outcome of a request.
    fn counted<T>(&self, outcome: Result<T>) -> Result<T> {
        self.counters.root.answer(outcome.as_ref().err().map(|failure| failure.kind));
        outcome
    }

    /// Whatever comes of it is counted by the caller.
    async fn open_file(&self, session: &DoorSession, request: OpenRequest) -> Result<Opened<DoorFile>> {
        let counter = Arc::clone(&self.counters.root.traffic);
        let OpenRequest { path, opaque, .. } = &request;
        // One that is not for this disk server was shown to another before: then the name counts.
        let signed =
            opaque.get(capability::PARAMETER).filter(|signed| self.files.objects().is_for_us(signed));
        if let Some(signed) = signed {
            let is_update = request.disposition == Disposition::Existing;
            let open = CapOpen { signed, path, is_update };
            session.note_proof();
            return Ok(here(match Box::pin(self.files.objects().open_cap(open, counter)).await? {
                CapFile::Read(file) => DoorFile::Read(file),
                CapFile::Write(file) => DoorFile::Write(file),
            }));
        }
        let who = self.named(session, opaque).await?;
        if (request.disposition, request.access) == (Disposition::Existing, Access::Read) {
            return self.open_for_reading(session, who, &request).await;
        }
        Box::pin(self.open_for_writing(session, &who, &request)).await
    }

    async fn open_for_reading(
        &self,
        session: &DoorSession,
        who: Cow<'_, Identity>,
        request: &OpenRequest,
    ) -> Result<Opened<DoorFile>> {
        let OpenRequest { path, opaque, .. } = request;
        let fetched = Box::pin(self.third_party.fetch(session, path, opaque)).await?;
        let is_offer = fetched.is_none() && ThirdParty::<Identity>::is_offer(opaque)?;
        let identity = fetched.unwrap_or_else(|| who.into_owned());
        let who = self.allows(&identity, Right::Read, path)?;
        if is_offer {
            // Nobody offers what they cannot read. The destination may wait for a recall, too: it is told now.
            Box::pin(self.files.head()?.call(who, control::OpenRead { path: path.clone() })).await?;
            let right = (who.name.as_str(), identity.clone());
            Box::pin(self.third_party.offer(session, right, path, opaque)).await?;
        }
        self.avoid_tried(who, request, false).await;
        match self.files.open_read(who, path, Arc::clone(&self.counters.root.traffic)).await? {
            files::Opened::Here(file) => Ok(here(DoorFile::Read(file))),
            files::Opened::Elsewhere(elsewhere) => elsewhere.redirect().map(Opened::Elsewhere),
        }
    }

    async fn open_for_writing(
        &self,
        session: &DoorSession,
        who: &Identity,
        request: &OpenRequest,
    ) -> Result<Opened<DoorFile>> {
        let OpenRequest { path, opaque, .. } = request;
        let (right, disposition) = self.disposition(who, request);
        let who = self.allows(who, right, path)?;
        self.avoid_tried(who, request, true).await;
        let pull = xrd::tpc::pull(opaque, path)?;
        // `oss.asize` is what clients of the field say about the size to come.
        let expected_bytes = opaque.get("oss.asize").and_then(|size| size.parse().ok()).unwrap_or(0);
        let open = control::OpenWrite {
            path: path.clone(),
            mode: request.mode,
            disposition,
            // What changes a file that is there needs no new directory.
            parents: request.disposition != Disposition::Existing,
            expected_bytes,
            source_modified: None,
        };
        let is_restricted = (request.disposition, disposition) == (Disposition::Replace, CREATE_NEW);
        let opened = self.files.open_write(who, open, Arc::clone(&self.counters.root.traffic)).await;
        match (opened.map_err(|failure| refused(failure, is_restricted))?, pull) {
            (files::Opened::Elsewhere(elsewhere), _) => elsewhere.redirect().map(Opened::Elsewhere),
            (files::Opened::Here(file), Some(pull)) => {
                let tasks = self.files.objects().tasks();
                let (files, gate) = (Arc::clone(&self.files), self.gate.clone());
                let counter = Arc::clone(&self.counters.root.traffic);
                let open = async move |who: Identity, path: FilePath| {
                    who.may(Right::Read, &path, gate.now())?;
                    files.read_through(&who.who, &path, counter).await
                };
                let copy = self.third_party.destination(session, path, (pull, file), open, tasks);
                copy.map(DoorFile::ThirdParty).map(here)
            }
            (files::Opened::Here(file), None) => Ok(here(DoorFile::Write(file))),
        }
    }

    /// Has servers avoided to which the client says that it was sent in vain.
    async fn avoid_tried(&self, who: &Principal, request: &OpenRequest, is_write: bool) {
        if let Some(tried) = request.opaque.get(control::TRIED) {
            Box::pin(self.files.avoid(who, &request.path, tried, is_write)).await;
        }
    }

    /// Which right an open for writing needs, and what it may find there.
    fn disposition(&self, who: &Identity, request: &OpenRequest) -> (Right, control::Disposition) {
        let may = |right| who.may(right, &request.path, self.gate.now()).is_ok();
        match request.disposition {
            Disposition::Existing => (Right::Modify, control::Disposition::Update),
            Disposition::CreateNew => (Right::Create, control::Disposition::CreateNew),
            // Who may create but not modify may replace nothing: that holds only where nothing is.
            Disposition::Replace if !may(Right::Modify) && may(Right::Create) => {
                (Right::Create, control::Disposition::CreateNew)
            }
            Disposition::Replace => (Right::Modify, control::Disposition::Replace),
        }
    }
}

const CREATE_NEW: control::Disposition = control::Disposition::CreateNew;

/// Of who may create but not modify, what exists is a matter of rights: they did not ask for a new name.
fn refused(failure: Failure, is_restricted: bool) -> Failure {
    if !is_restricted || failure.kind != ErrorKind::Exists {
        return failure;
    }
    Failure::permission(format!("the token may create, but not replace: {}", failure.what))
        .hint("use another name, or a token with storage.modify")
}

/// What the doors say about themselves.
fn server_config(facility: &str) -> ServerConfig {
    let checksums = names::CHECKSUMS.map(str::to_owned).into();
    let answers = [("tpc", "1"), (xrd::FEATURES_KEY, xrd::FEATURE_EXPECT)];
    let answers = answers.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    ServerConfig { sitename: facility.to_owned(), checksums, answers, ..ServerConfig::default() }
}

fn here(file: DoorFile) -> Opened<DoorFile> {
    Opened::Here(Arc::new(file))
}

impl Service for RootDoor {
    type Session = DoorSession;
    type File = DoorFile;

    fn config(&self) -> &ServerConfig {
        &self.config
    }

    fn security(&self, peer: &Peer) -> String {
        self.proofs(peer)
    }

    async fn authenticate(&self, peer: Peer, kind: [u8; 4], credentials: &[u8]) -> Result<DoorSession> {
        self.proven(&peer, kind, credentials).await
    }

    fn account<'a>(&self, session: &'a DoorSession) -> Option<&'a str> {
        Some(&session.account)
    }

    fn is_proven(&self, session: &DoorSession) -> bool {
        session.is_proven()
    }

    async fn login(&self, peer: Peer) -> Result<DoorSession> {
        self.claimed(&peer).await
    }

    async fn session_for(&self, session: &DoorSession, opaque: &Opaque) -> Result<Option<DoorSession>> {
        if opaque.get(session::TOKEN_PARAMETER).is_none() {
            return Ok(None);
        }
        let identity = self.who(session, opaque).await?.into_owned();
        Ok(Some(DoorSession { identity, ..session.clone() }))
    }

    fn open_now(&self, session: &DoorSession, request: &OpenRequest) -> Option<Result<Opened<DoorFile>>> {
        let is_plain = (request.disposition, request.access) == (Disposition::Existing, Access::Read)
            && request.opaque.is_empty();
        if !is_plain {
            return None;
        }
        // A refusal is left to the other way, which counts it.
        let now = self.gate.now();
        session.identity.may(Right::Read, &request.path, now).ok()?;
        let who = &session.identity.who;
        let opened = self.files.open_read_now(who, &request.path, &self.counters.root.traffic)?;
        Some(self.counted(opened.and_then(|opened| match opened {
            files::Opened::Here(file) => Ok(here(DoorFile::Read(file))),
            files::Opened::Elsewhere(elsewhere) => elsewhere.redirect().map(Opened::Elsewhere),
        })))
    }

    fn stat_now(&self, session: &DoorSession, path: &FilePath, opaque: &Opaque) -> Option<Result<StatInfo>> {
        if opaque.get(session::TOKEN_PARAMETER).is_some() {
            return None;
        }
        session.identity.may(Right::Look, path, self.gate.now()).ok()?;
        let (head, who) = (self.files.head().ok()?, &session.identity.who);
        let stat = self.stats.get(head, who, path).or_else(|| self.stat_here(head, who, path))?;
        Some(self.counted(Ok(stat)))
    }

    async fn open(&self, session: &DoorSession, request: OpenRequest) -> Result<Opened<DoorFile>> {
        let opened = self.open_file(session, request).await;
        self.counted(opened)
    }

    async fn stat(&self, session: &DoorSession, path: &FilePath, opaque: &Opaque) -> Result<StatInfo> {
        let who = self.who(session, opaque).await?;
        let who = self.may(&who, Right::Look, path)?;
        let version = self.files.head()?.namespace_version();
        let stat = self.stat_path(who, path).await;
        if let Ok(stat) = &stat {
            self.stats.keep(version, who, path, stat);
        }
        self.counted(stat)
    }

    async fn list(
        &self,
        session: &DoorSession,
        path: &FilePath,
        from: Option<String>,
        with_stat: bool,
    ) -> Result<ListPage> {
        let who = self.may(&session.identity, Right::List, path)?;
        self.counted(self.list_page(who, path, from, with_stat).await)
    }

    async fn mkdir(&self, session: &DoorSession, path: &FilePath, mode: u32, make_path: bool) -> Result<()> {
        let who = self.may(&session.identity, Right::MakeDirectory, path)?;
        self.counted(self.call(who, control::Mkdir { path: path.clone(), mode, parents: make_path }).await)
    }

    async fn remove(&self, session: &DoorSession, path: &FilePath) -> Result<()> {
        let who = self.may(&session.identity, Right::Modify, path)?;
        // Clients of the field take trees away with one request for each name.
        self.counted(self.call(who, control::RemoveEntry { path: path.clone() }).await)
    }

    async fn rmdir(&self, session: &DoorSession, path: &FilePath) -> Result<()> {
        let who = self.may(&session.identity, Right::Modify, path)?;
        self.counted(self.call(who, control::RemoveDirectory { path: path.clone() }).await)
    }

    async fn rename(&self, session: &DoorSession, from: &FilePath, to: &FilePath) -> Result<()> {
        let who = &session.identity;
        // Who may create but not modify may move what is there to where nothing is.
        let may = |right, path| who.may(right, path, self.gate.now()).is_ok();
        let is_new = !(may(Right::Modify, from) && may(Right::Modify, to))
            && may(Right::Create, from)
            && may(Right::Create, to);
        let right = if is_new { Right::Create } else { Right::Modify };
        self.may(who, right, to)?;
        let who = self.may(who, right, from)?;
        let call = control::Rename { from: from.clone(), to: to.clone(), is_new, parents: true };
        self.counted(self.call(who, call).await.map_err(|failure| refused(failure, is_new)))
    }

    async fn truncate(&self, session: &DoorSession, path: &FilePath, size: u64) -> Result<()> {
        let who = self.may(&session.identity, Right::Modify, path)?;
        self.counted(self.truncate_path(who, path, size).await)
    }

    async fn chmod(&self, session: &DoorSession, path: &FilePath, mode: u32) -> Result<()> {
        let who = self.may(&session.identity, Right::Modify, path)?;
        self.counted(self.call(who, control::SetMode { path: path.clone(), mode }).await)
    }

    async fn checksum(&self, session: &DoorSession, path: &FilePath, kind: &str) -> Result<String> {
        let who = self.may(&session.identity, Right::Look, path)?;
        self.counted(self.checksum_of(who, path, kind).await)
    }

    async fn locate(&self, session: &DoorSession, path: &FilePath, local: &str) -> Result<Vec<Location>> {
        let who = self.may(&session.identity, Right::Look, path)?;
        let location = |stat: StatInfo| Location {
            is_server: true,
            is_online: stat.is_online(),
            is_writable: true,
            address: local.to_owned(),
        };
        self.counted(self.stat_path(who, path).await).map(|stat| vec![location(stat)])
    }

    async fn prepare(&self, session: &DoorSession, request: PrepareRequest) -> Result<String> {
        self.counted(self.prepare_each(session, request).await.answer)
    }

    async fn prepare_status(&self, session: &DoorSession, id: &str, paths: &[FilePath]) -> Result<String> {
        self.counted(self.staged_each(session, id, paths).await.answer)
    }

    async fn space(&self, session: &DoorSession, path: &FilePath) -> Result<SpaceInfo> {
        let _ = path;
        let who = self.known(&session.identity)?;
        self.counted(self.space_of_pools(who).await)
    }

    async fn attributes(&self, session: &DoorSession, path: &FilePath) -> Result<Vec<(String, Vec<u8>)>> {
        let who = self.may(&session.identity, Right::Look, path)?;
        self.counted(self.attributes_of(who, path).await)
    }

    async fn set_attribute(
        &self,
        session: &DoorSession,
        path: &FilePath,
        name: &str,
        value: Option<&[u8]>,
        is_new: bool,
    ) -> Result<()> {
        let who = self.may(&session.identity, Right::Modify, path)?;
        self.counted(self.change_attribute(who, path, name, value, is_new).await)
    }
}
