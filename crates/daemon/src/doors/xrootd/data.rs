//! The XRootD door of a disk server on another host than the head's: it opens objects by capability, and sends whoever
//! asks for a name to the head.

use super::{DoorFile, DoorSession, Settings, here, tpc::ThirdParty};
use crate::{access::identity::Identity, metrics::DoorCounters};
use base::{Failure, FilePath, Result};
use disk::serve::local_objects::{CapFile, CapOpen, Objects, is_live, is_outdated};
use net::xrd::{
    Access, Disposition, NameReply, NameRequest, OpenRequest, Opened, Peer, Redirect, ServerConfig, Service,
};
use std::sync::Arc;
use wire::{auth::capability, control::TRIED, xrd};

/// The door.
pub struct DataDoor {
    config: ServerConfig,
    objects: Arc<Objects>,
    head: Redirect,
    /// The same for who comes to write: the head is to know that nothing was begun here.
    head_again: Redirect,
    /// A destination opens with the capability that the client was given.
    third_party: ThirdParty<String>,
    counters: Arc<DoorCounters>,
}

impl DataDoor {
    /// A door to `objects` that clients find at `host`; `head` knows the names.
    pub fn new(
        objects: Arc<Objects>,
        host: &str,
        settings: Settings,
        head: Redirect,
        counters: Arc<DoorCounters>,
    ) -> Self {
        let (config, third_party) = settings.parts();
        let head_again = Redirect { opaque: format!("{TRIED}={host}"), ..head.clone() };
        Self { config, objects, head, head_again, third_party, counters }
    }

    async fn open_file(&self, session: &DoorSession, request: &OpenRequest) -> Result<Opened<DoorFile>> {
        let OpenRequest { path, opaque, .. } = request;
        let fetched = self.third_party.fetch(session, path, opaque).await?;
        let is_offer = fetched.is_none();
        let given = fetched.or_else(|| opaque.get(capability::PARAMETER).map(str::to_owned));
        let Some(signed) = given else {
            return Ok(Opened::Redirect(self.head.clone()));
        };
        if let Some(user) = self.objects.user_of(&signed) {
            session.note_proof();
            if is_offer {
                self.third_party.offer(session, (&user, signed.clone()), path, opaque).await?;
            }
        }
        let is_update = request.disposition == Disposition::Existing;
        let open = CapOpen { signed: &signed, path, is_update };
        match self.objects.open_cap(open, Arc::clone(&self.counters.root.traffic)).await {
            Ok(CapFile::Read(file)) => Ok(here(DoorFile::Read(file))),
            Ok(CapFile::Live(file)) => Ok(here(DoorFile::Live(file))),
            Ok(CapFile::Write(file)) => match xrd::tpc::pull(opaque, path)? {
                Some(pull) => {
                    let tasks = self.objects.tasks();
                    let (objects, counter) =
                        (Arc::clone(&self.objects), Arc::clone(&self.counters.root.traffic));
                    let open = async move |signed: String, path: FilePath| {
                        let open = CapOpen { signed: &signed, path: &path, is_update: false };
                        match objects.open_cap(open, counter).await? {
                            CapFile::Read(file) => Ok(file),
                            CapFile::Write(_) | CapFile::Live(_) => {
                                Err(Failure::permission("the capability is not one to read"))
                            }
                        }
                    };
                    let copy = self.third_party.destination(session, path, (pull, file), open, tasks)?;
                    Ok(here(DoorFile::ThirdParty(copy)))
                }
                None => Ok(here(DoorFile::Write(file))),
            },
            // The object has moved since, or the capability was kept for too long: the head knows better.
            Err(failure)
                if is_outdated(&failure) && opaque.get(capability::DIRECT).is_none() && !is_live(&signed) =>
            {
                let is_write = request.access == Access::Update;
                Ok(Opened::Redirect(if is_write { self.head_again.clone() } else { self.head.clone() }))
            }
            Err(failure) => Err(failure),
        }
    }
}

impl Service for DataDoor {
    type Session = DoorSession;
    type File = DoorFile;

    fn config(&self) -> &ServerConfig {
        &self.config
    }

    fn names_elsewhere(&self) -> Option<Redirect> {
        Some(self.head.clone())
    }

    /// Everybody is let in: without a capability there is nothing to be had.
    async fn login(&self, peer: Peer) -> Result<DoorSession> {
        let nobody = Failure::permission("a disk server requires a capability");
        Ok(super::session::session(Identity::refused(nobody), &peer))
    }

    fn account<'a>(&self, session: &'a DoorSession) -> Option<&'a str> {
        Some(&session.account)
    }

    /// A capability is all the proof that there is here.
    fn is_proven(&self, session: &DoorSession) -> bool {
        session.is_proven()
    }

    async fn open(&self, session: &DoorSession, request: &OpenRequest) -> Result<Opened<DoorFile>> {
        let opened = self.open_file(session, request).await;
        self.counters.root.answer(opened.as_ref().err().map(|failure| failure.kind));
        opened
    }

    /// Names are asked for at the head, where the session loop sends clients ([`Service::names_elsewhere`]).
    async fn names(&self, _: &DoorSession, request: NameRequest) -> Result<NameReply> {
        let what = request.path().map_or("a request on names", FilePath::as_str);
        Err(Failure::unsupported(format!("{what} is asked for at the head, not at a disk server")))
    }
}
