//! Opens at the XRootD door: by capability, to read, to write, and for third-party copies.

use super::{
    DoorFile, DoorSession, RootDoor,
    audit::{AuditLevel, AuditedAction},
    here,
    tpc::ThirdParty,
};
use crate::{access::identity::Identity, doors::files};
use base::{ErrorKind, Failure, FilePath, Result};
use disk::serve::{
    local_objects::{CapFile, CapOpen, is_live},
    open_file::ReadFile,
};
use head::Principal;
use net::xrd::{Access, Disposition, OpenRequest, Opened};
use std::sync::Arc;
use wire::{
    auth::{capability, token::Right},
    control, xrd,
};

impl RootDoor {
    /// Opens a file; see [`Self::note_open`].
    pub(super) async fn open_file(
        &self,
        session: &DoorSession,
        who: Result<&Identity, &Failure>,
        request: &OpenRequest,
    ) -> Result<Opened<DoorFile>> {
        let OpenRequest { path, opaque, .. } = request;
        // One that is not for this disk server was shown to another before: then the name counts, but for what changes in place.
        let is_for_us = |signed: &&str| self.files.objects().is_for_us(signed);
        let shown = opaque.get(capability::PARAMETER);
        if let Some(signed) = shown.filter(|signed| is_live(signed) || is_for_us(signed)) {
            let is_update = request.disposition == Disposition::Existing;
            let open = CapOpen { signed, path, is_update };
            if is_for_us(&signed) {
                session.note_proof();
            }
            let counter = Arc::clone(&self.counters.root.traffic);
            return Ok(here(match Box::pin(self.files.objects().open_cap(open, counter)).await? {
                CapFile::Read(file) => DoorFile::Read(file),
                CapFile::Write(file) => DoorFile::Write(file),
                CapFile::Live(file) => DoorFile::Live(file),
            }));
        }
        let who = who.map_err(Clone::clone)?;
        if !is_read(request) {
            return Box::pin(self.open_for_writing(session, who, request)).await;
        }
        if request.opaque.is_empty() {
            // Nothing was waited for, so the session's thread runs this: it may wait for a disk.
            let reader = self.allowed(who, Right::Read, path)?;
            if let Some(opened) = self.files.open_read_now(reader, path, &self.counters.root.traffic) {
                return opened.and_then(door_file);
            }
        }
        Box::pin(self.open_for_reading(session, who, request)).await
    }

    /// Counts an open and notes it in the audit log.
    pub(super) fn note_open(
        &self,
        session: &DoorSession,
        user: &str,
        request: &OpenRequest,
        opened: &Result<Opened<DoorFile>>,
    ) {
        let verb = if is_read(request) { "read" } else { "write" };
        let action = AuditedAction { session, user, verb, weight: AuditLevel::Change };
        self.note(&action, (request.path.as_str(), None), opened.as_ref().err());
        self.counters.root.answer(opened.as_ref().err().map(|failure| failure.kind));
    }

    async fn open_for_reading(
        &self,
        session: &DoorSession,
        who: &Identity,
        request: &OpenRequest,
    ) -> Result<Opened<DoorFile>> {
        let OpenRequest { path, opaque, .. } = request;
        let fetched = Box::pin(self.third_party.fetch(session, path, opaque)).await?;
        let is_offer = fetched.is_none() && ThirdParty::<Identity>::is_offer(opaque)?;
        let identity = fetched.as_ref().unwrap_or(who);
        let who = self.allowed(identity, Right::Read, path)?;
        if is_offer {
            // Nobody offers what they cannot read. The destination may wait for a recall, too: it is told now.
            Box::pin(self.files.head()?.call(who, control::OpenRead { path: path.clone() })).await?;
            let right = (who.name.as_str(), identity.clone());
            Box::pin(self.third_party.offer(session, right, path, opaque)).await?;
        }
        self.avoid_tried(who, request, false).await;
        let opened = self.files.open_read(who, path, Arc::clone(&self.counters.root.traffic)).await;
        opened.and_then(door_file)
    }

    async fn open_for_writing(
        &self,
        session: &DoorSession,
        who: &Identity,
        request: &OpenRequest,
    ) -> Result<Opened<DoorFile>> {
        let OpenRequest { path, opaque, .. } = request;
        let (right, disposition) = self.disposition(who, request);
        let who = self.allowed(who, right, path)?;
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
            (files::Opened::Redirect(elsewhere), _) => elsewhere.redirect().map(Opened::Redirect),
            (files::Opened::Here(file), Some(pull)) => {
                let tasks = self.files.objects().tasks();
                let (files, authenticator) = (Arc::clone(&self.files), self.authenticator.clone());
                let counter = Arc::clone(&self.counters.root.traffic);
                let open = async move |who: Identity, path: FilePath| {
                    who.may(Right::Read, &path, authenticator.now())?;
                    files.read_through(&who.who, &path, counter).await
                };
                let copy = self.third_party.destination(session, path, (pull, file), open, tasks);
                copy.map(DoorFile::ThirdParty).map(here)
            }
            (files::Opened::Here(file), None) => Ok(here(DoorFile::Write(file))),
        }
    }

    /// Whom the head shall ask for permission, if the token does not forbid it already.
    fn allowed<'a>(&self, who: &'a Identity, right: Right, path: &FilePath) -> Result<&'a Principal> {
        who.may(right, path, self.authenticator.now()).map(|()| &who.who)
    }

    /// Has servers avoided to which the client says that it was sent in vain.
    async fn avoid_tried(&self, who: &Principal, request: &OpenRequest, is_write: bool) {
        if let Some(tried) = request.opaque.get(control::TRIED) {
            Box::pin(self.files.avoid(who, &request.path, tried, is_write)).await;
        }
    }

    /// Which right an open for writing needs, and what it may find there.
    fn disposition(&self, who: &Identity, request: &OpenRequest) -> (Right, control::Disposition) {
        let may = |right| who.may(right, &request.path, self.authenticator.now()).is_ok();
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

/// Whether an open only reads a file that is there.
pub(super) fn is_read(request: &OpenRequest) -> bool {
    (request.disposition, request.access) == (Disposition::Existing, Access::Read)
}

/// A file that was opened to be read, as the session loop takes it.
pub(super) fn door_file(opened: files::Opened<ReadFile>) -> Result<Opened<DoorFile>> {
    match opened {
        files::Opened::Here(file) => Ok(here(DoorFile::Read(file))),
        files::Opened::Redirect(elsewhere) => elsewhere.redirect().map(Opened::Redirect),
    }
}

const CREATE_NEW: control::Disposition = control::Disposition::CreateNew;

/// Of who may create but not modify, what exists is a matter of rights: they did not ask for a new name.
pub(super) fn refused(failure: Failure, is_restricted: bool) -> Failure {
    if !is_restricted || failure.kind != ErrorKind::Exists {
        return failure;
    }
    Failure::permission(format!("the token may create, but not replace: {}", failure.what))
        .hint("use another name, or a token with storage.modify")
}
