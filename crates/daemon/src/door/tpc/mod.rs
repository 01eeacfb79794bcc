//! Third-party copies of the XRootD door: this facility as source and as destination (spec/xrootd.md §9).

mod meeting;
mod pull;

pub(crate) use pull::Destination;

use super::{RootDoor, session::DoorSession};
use crate::identity::Identity;
use base::{FilePath, Result};
use client::xrd::{Options, TlsOptions, Token};
use meeting::{Meetings, Offer};
use std::{path::PathBuf, sync::Arc, time::Duration};
use tokio::sync::Semaphore;
use wire::xrd::tpc::{Pull, SourceOpen};

/// Copies at the same time; more wait for their turn.
const PULLS_MAX: usize = 32;
/// A source that sends nothing for this long has failed the copy.
const PROGRESS_TIMEOUT: Duration = Duration::from_secs(60);

/// What the third-party copies of a door share.
pub(super) struct ThirdParty {
    meetings: Meetings,
    pulls: Arc<Semaphore>,
    options: Options,
}

impl ThirdParty {
    /// Copies from servers whose certificates `trust` vouches for; without it those that the system trusts.
    pub(super) fn new(trust: Option<PathBuf>) -> Self {
        let options = Options {
            progress_timeout: PROGRESS_TIMEOUT,
            // A key is good for one open of one file.
            streams: 1,
            connections_max: 1,
            tls: TlsOptions { ca_file: trust, ..TlsOptions::default() },
            // Whoever asks for a copy must not make us show a token of our own to a server that they choose.
            token: Some(Token::nothing()),
            ..Options::default()
        };
        Self { meetings: Meetings::default(), pulls: Arc::new(Semaphore::new(PULLS_MAX)), options }
    }
}

impl RootDoor {
    /// What an open for reading has to do with a third-party copy: announces the destination, or yields whose
    /// permissions count for a destination that was announced.
    pub(super) async fn meet(
        &self,
        session: &DoorSession,
        who: Identity,
        path: &FilePath,
        open: Option<SourceOpen>,
    ) -> Result<Identity> {
        match open {
            None => Ok(who),
            Some(SourceOpen::Offer { key, destination, ttl_s }) => {
                let (origin, client) = (session.origin.clone(), session.address);
                let offer = Offer::new(who.clone(), origin, client, destination, ttl_s).await?;
                self.third_party.meetings.offer(key, path, offer)?;
                Ok(who)
            }
            Some(SourceOpen::Fetch { key, origin }) => {
                self.third_party.meetings.fetch(key, path, &origin, session.address).await
            }
        }
    }

    /// Makes an open file the destination of a copy, which begins with the first sync.
    pub(super) fn destination(
        &self,
        session: &DoorSession,
        path: &FilePath,
        pull: Pull,
        file: crate::files::WriteFile,
    ) -> Result<Destination> {
        let shared = (Arc::clone(&self.third_party.pulls), self.third_party.options.clone());
        Destination::new(session, path, pull, file, shared, self.files.tasks())
    }
}
