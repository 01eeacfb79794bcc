//! Third-party copies of the XRootD door: this facility as source and as destination (spec/xrootd.md §9).

mod meeting;
mod pull;

pub(crate) use pull::Destination;

use super::session::DoorSession;
use crate::open::WriteFile;
use base::{FilePath, Result};
use client::xrd::{Options, TlsOptions, Token};
use meeting::{Meetings, Offer};
use net::{shutdown::Shutdown, xrd::Opaque};
use std::{path::PathBuf, sync::Arc, time::Duration};
use tokio::sync::Semaphore;
use wire::xrd::tpc::{self, Pull, SourceOpen};

/// Copies at the same time; more wait for their turn.
const PULLS_MAX: usize = 32;
/// A source that sends nothing for this long has failed the copy.
const PROGRESS_TIMEOUT: Duration = Duration::from_secs(60);

/// What the third-party copies of a door share; `T` opens a file for its destination.
pub(super) struct ThirdParty<T> {
    meetings: Meetings<T>,
    pulls: Arc<Semaphore>,
    options: Options,
}

impl<T: Clone> ThirdParty<T> {
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

    /// What an open for reading has to do with a third-party copy: announces the destination, or yields what opens the
    /// file for a destination that was announced. Anybody else has `right`.
    pub(super) async fn meet(
        &self,
        session: &DoorSession,
        right: Option<T>,
        path: &FilePath,
        opaque: &Opaque,
    ) -> Result<Option<T>> {
        match tpc::source_open(opaque)? {
            None => Ok(right),
            Some(SourceOpen::Offer { key, destination, ttl_s }) => {
                if let Some(right) = &right {
                    let (origin, client) = (session.origin.clone(), session.address);
                    let offer = Offer::new(right.clone(), origin, client, destination, ttl_s).await?;
                    self.meetings.offer(key, path, offer)?;
                }
                Ok(right)
            }
            Some(SourceOpen::Fetch { key, origin }) => {
                self.meetings.fetch(key, path, &origin, session.address).await.map(Some)
            }
        }
    }

    /// Makes an open file the destination of a copy, which begins with the first sync.
    pub(super) fn destination(
        &self,
        session: &DoorSession,
        path: &FilePath,
        (pull, file): (Pull, WriteFile),
        tasks: &Shutdown,
    ) -> Result<Destination> {
        let shared = (Arc::clone(&self.pulls), self.options.clone());
        Destination::new(session, path, pull, file, shared, tasks)
    }
}
