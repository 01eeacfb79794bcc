//! The XRootD door with its audit log: what changes something, what is refused, and opens.

use super::{DoorFile, DoorSession, RootDoor, prepare::Prepared, session::TOKEN_PARAMETER};
use crate::access::audit::{Audit, Visitor};
use base::{ErrorKind, Failure, FilePath, Result};
use net::xrd::{
    Access, Disposition, ListPage, Location, Opaque, OpenRequest, Opened, Peer, PrepareAction,
    PrepareRequest, ServerConfig, Service, SpaceInfo, StatInfo,
};

/// The door, and where it notes what was done.
pub struct AuditedDoor {
    door: RootDoor,
    audit: Audit,
}

/// Whether a deed is noted when it was done, or only when it was refused.
#[derive(Clone, Copy)]
enum Weight {
    Change,
    Look,
}

impl AuditedDoor {
    /// Notes in `audit` what is done at `door`.
    pub fn new(door: RootDoor, audit: Audit) -> Self {
        Self { door, audit }
    }

    fn note<T>(&self, session: &DoorSession, deed: (&'static str, Weight), what: &str, outcome: &Result<T>) {
        self.note_as(session, &session.identity.who.name, deed, (what, None), outcome);
    }

    fn note_as<T>(
        &self,
        session: &DoorSession,
        user: &str,
        (deed, weight): (&'static str, Weight),
        (what, to): (&str, Option<&FilePath>),
        outcome: &Result<T>,
    ) {
        let failure = outcome.as_ref().err();
        // Clients ask whether something is there before they make it.
        let is_dull = failure.is_none_or(|failure| failure.kind == ErrorKind::NotFound);
        if is_dull && matches!(weight, Weight::Look) {
            return;
        }
        self.audit.note(|| {
            let visitor = Visitor { door: "root", address: Some(session.address), user };
            let mut record = visitor.record(self.door.gate.now(), deed, what);
            record.to = to.map(|to| to.as_str().to_owned());
            record.with_outcome(failure)
        });
    }

    /// Whose permissions count for a request: a token that came with it names another one than the session's.
    async fn user(&self, session: &DoorSession, opaque: &Opaque) -> String {
        if opaque.get(TOKEN_PARAMETER).is_none() {
            return session.identity.who.name.clone();
        }
        let who = self.door.named(session, opaque).await;
        who.map_or_else(|_| "nobody".to_owned(), |who| who.who.name.clone())
    }
}

fn open_deed(request: &OpenRequest) -> (&'static str, Weight) {
    let is_read = (request.disposition, request.access) == (Disposition::Existing, Access::Read);
    (if is_read { "read" } else { "write" }, Weight::Change)
}

impl Service for AuditedDoor {
    type Session = DoorSession;
    type File = DoorFile;

    fn config(&self) -> &ServerConfig {
        self.door.config()
    }

    fn security(&self, peer: &Peer) -> String {
        self.door.security(peer)
    }

    async fn authenticate(&self, peer: Peer, kind: [u8; 4], credentials: &[u8]) -> Result<DoorSession> {
        let address = peer.address.ip();
        let session = self.door.authenticate(peer, kind, credentials).await;
        self.note_login(address, &session);
        session
    }

    fn account<'a>(&self, session: &'a DoorSession) -> Option<&'a str> {
        self.door.account(session)
    }

    fn is_proven(&self, session: &DoorSession) -> bool {
        self.door.is_proven(session)
    }

    async fn login(&self, peer: Peer) -> Result<DoorSession> {
        let address = peer.address.ip();
        let session = self.door.login(peer).await;
        self.note_login(address, &session);
        session
    }

    async fn session_for(&self, session: &DoorSession, opaque: &Opaque) -> Result<Option<DoorSession>> {
        let own = self.door.session_for(session, opaque).await;
        if let Err(failure) = &own {
            self.note_refused(session.address, failure);
        }
        own
    }

    fn open_now(&self, session: &DoorSession, request: &OpenRequest) -> Option<Result<Opened<DoorFile>>> {
        let opened = self.door.open_now(session, request)?;
        self.note(session, open_deed(request), request.path.as_str(), &opened);
        Some(opened)
    }

    fn stat_now(&self, session: &DoorSession, path: &FilePath, opaque: &Opaque) -> Option<Result<StatInfo>> {
        self.door.stat_now(session, path, opaque)
    }

    async fn open(&self, session: &DoorSession, request: OpenRequest) -> Result<Opened<DoorFile>> {
        let user = self.user(session, &request.opaque).await;
        let (deed, path) = (open_deed(&request), request.path.clone());
        let opened = self.door.open(session, request).await;
        self.note_as(session, &user, deed, (path.as_str(), None), &opened);
        opened
    }

    async fn stat(&self, session: &DoorSession, path: &FilePath, opaque: &Opaque) -> Result<StatInfo> {
        let stat = self.door.stat(session, path, opaque).await;
        if stat.is_err() {
            let user = self.user(session, opaque).await;
            self.note_as(session, &user, ("stat", Weight::Look), (path.as_str(), None), &stat);
        }
        stat
    }

    async fn list(
        &self,
        session: &DoorSession,
        path: &FilePath,
        from: Option<String>,
        with_stat: bool,
    ) -> Result<ListPage> {
        let page = self.door.list(session, path, from, with_stat).await;
        self.note(session, ("list", Weight::Look), path.as_str(), &page);
        page
    }

    async fn mkdir(&self, session: &DoorSession, path: &FilePath, mode: u32, make_path: bool) -> Result<()> {
        let done = self.door.mkdir(session, path, mode, make_path).await;
        self.note(session, ("mkdir", Weight::Change), path.as_str(), &done);
        done
    }

    async fn remove(&self, session: &DoorSession, path: &FilePath) -> Result<()> {
        let done = self.door.remove(session, path).await;
        self.note(session, ("remove", Weight::Change), path.as_str(), &done);
        done
    }

    async fn rmdir(&self, session: &DoorSession, path: &FilePath) -> Result<()> {
        let done = self.door.rmdir(session, path).await;
        self.note(session, ("rmdir", Weight::Change), path.as_str(), &done);
        done
    }

    async fn rename(&self, session: &DoorSession, from: &FilePath, to: &FilePath) -> Result<()> {
        let done = self.door.rename(session, from, to).await;
        let user = &session.identity.who.name;
        self.note_as(session, user, ("rename", Weight::Change), (from.as_str(), Some(to)), &done);
        done
    }

    async fn truncate(&self, session: &DoorSession, path: &FilePath, size: u64) -> Result<()> {
        let done = self.door.truncate(session, path, size).await;
        self.note(session, ("truncate", Weight::Change), path.as_str(), &done);
        done
    }

    async fn chmod(&self, session: &DoorSession, path: &FilePath, mode: u32) -> Result<()> {
        let done = self.door.chmod(session, path, mode).await;
        self.note(session, ("chmod", Weight::Change), &format!("{path} {mode:o}"), &done);
        done
    }

    async fn checksum(&self, session: &DoorSession, path: &FilePath, kind: &str) -> Result<String> {
        let sum = self.door.checksum(session, path, kind).await;
        self.note(session, ("checksum", Weight::Look), path.as_str(), &sum);
        sum
    }

    async fn locate(&self, session: &DoorSession, path: &FilePath, local: &str) -> Result<Vec<Location>> {
        let found = self.door.locate(session, path, local).await;
        self.note(session, ("locate", Weight::Look), path.as_str(), &found);
        found
    }

    async fn prepare(&self, session: &DoorSession, request: PrepareRequest) -> Result<String> {
        let deed = match request.action {
            PrepareAction::Stage { .. } => ("stage", Weight::Change),
            PrepareAction::Evict => ("evict", Weight::Change),
            PrepareAction::Cancel(_) => ("cancel", Weight::Change),
            PrepareAction::Touch => ("prepare", Weight::Look),
        };
        let paths = request.paths.clone();
        let done = self.door.prepare_each(session, request).await;
        self.note_each(session, deed, &paths, &done);
        self.door.counted(done.answer)
    }

    async fn prepare_status(&self, session: &DoorSession, id: &str, paths: &[FilePath]) -> Result<String> {
        let status = self.door.staged_each(session, id, paths).await;
        self.note_each(session, ("prepare status", Weight::Look), paths, &status);
        self.door.counted(status.answer)
    }

    async fn space(&self, session: &DoorSession, path: &FilePath) -> Result<SpaceInfo> {
        let space = self.door.space(session, path).await;
        self.note(session, ("space", Weight::Look), path.as_str(), &space);
        space
    }

    async fn attributes(&self, session: &DoorSession, path: &FilePath) -> Result<Vec<(String, Vec<u8>)>> {
        let found = self.door.attributes(session, path).await;
        self.note(session, ("attributes", Weight::Look), path.as_str(), &found);
        found
    }

    async fn set_attribute(
        &self,
        session: &DoorSession,
        path: &FilePath,
        name: &str,
        value: Option<&[u8]>,
        is_new: bool,
    ) -> Result<()> {
        let done = self.door.set_attribute(session, path, name, value, is_new).await;
        self.note(session, ("set attribute", Weight::Change), &format!("{path} {name}"), &done);
        done
    }
}

impl AuditedDoor {
    /// Notes each path of a prepare: one may be refused where another is not.
    fn note_each(
        &self,
        session: &DoorSession,
        deed: (&'static str, Weight),
        paths: &[FilePath],
        done: &Prepared,
    ) {
        for path in paths {
            let outcome = done.failure_of(path).map_or(Ok(()), |failure| Err(failure.clone()));
            self.note(session, deed, path.as_str(), &outcome);
        }
        if let (true, Err(failure)) = (paths.is_empty(), &done.answer) {
            self.note(session, deed, "", &Err::<(), _>(failure.clone()));
        }
    }

    /// Notes a login that proved nothing: also one that is told so at its first request only.
    fn note_login(&self, address: std::net::IpAddr, session: &Result<DoorSession>) {
        let now = self.door.gate.now();
        let failure = match session {
            Ok(session) => session.identity.is_good(now).err(),
            Err(failure) => Some(failure.clone()),
        };
        if let Some(failure) = failure {
            self.note_refused(address, &failure);
        }
    }

    fn note_refused(&self, address: std::net::IpAddr, failure: &Failure) {
        let visitor = Visitor { door: "root", address: Some(address), user: "nobody" };
        self.audit.note(|| visitor.record(self.door.gate.now(), "login", "").with_outcome(Some(failure)));
    }
}
