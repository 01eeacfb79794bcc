//! Third-party copies of the XRootD door: this facility as source and as destination (spec/xrootd.md §9).

//!
//! A source in this very facility is read by us: nobody connects from here to here. All other sources obey the reach rule.

mod meeting;
mod pull;

pub(crate) use pull::Destination;

use super::session::DoorSession;
use base::{FilePath, ReachRule, Result};
use client::xrd::{Options, TlsOptions, Token};
use disk::serve::open_file::{ReadFile, WriteFile};
use meeting::{Offer, OfferSource, Rendezvous};
use net::{shutdown::Shutdown, xrd::Opaque};
use pull::Setting;
use std::{
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};
use tokio::sync::Semaphore;
use wire::xrd::tpc::{self, Pull, SourceOpen};

/// Copies at the same time; more wait for their turn.
const PULLS_MAX: usize = 32;
/// Sources on other servers that are being opened or copied: each has a thread, half of those that may block.
const OPENS_MAX: usize = 256;
/// A source that sends nothing for this long has failed the copy.
const PROGRESS_TIMEOUT: Duration = Duration::from_secs(60);

/// The user name of this server at a source.
///
/// The name that the client wrote before the source's host proves nothing, so it is never used: a facility that trusts
/// the names of peers over loopback, or of our address, would take us for that user. Without any name it would take us
/// for the user who runs this daemon, who may be its owner. Hence nobody, and hence loopback is refused unless the
/// operator allows it. The file is opened by its key, or by the token that the client passed on.
const USERNAME: &str = "nobody";

/// What the third-party copies of a door share; `T` opens a file for its destination.
pub(super) struct ThirdParty<T> {
    meetings: Arc<Rendezvous<T>>,
    pulls: Arc<Semaphore>,
    opens: Arc<Semaphore>,
    options: Options,
    /// Where this door listens.
    own: Option<SocketAddr>,
}

impl<T: Clone + Send + 'static> ThirdParty<T> {
    /// Copies from servers that `authorities` vouch for, without them those that the system trusts. `reach` says which
    /// may be connected to, and where this door listens itself; without it only other hosts.
    pub(super) fn new(authorities: Option<PathBuf>, reach: Option<(ReachRule, SocketAddr)>) -> Self {
        let (reach, own) = match reach {
            Some((rule, own)) => (rule, Some(own)),
            None => (ReachRule::guarded(&[]), None),
        };
        let options = Options {
            username: USERNAME.to_owned(),
            tls: TlsOptions { ca_file: authorities, ..TlsOptions::default() },
            reach,
            progress_timeout: PROGRESS_TIMEOUT,
            // A key is good for one open of one file.
            streams: 1,
            connections_max: 1,
            // Whoever asks for a copy must not make us show a token of our own to a server that they choose.
            token: Some(Token::nothing()),
            ..Options::default()
        };
        let [pulls, opens] = [PULLS_MAX, OPENS_MAX].map(|places| Arc::new(Semaphore::new(places)));
        Self { meetings: Arc::default(), pulls, opens, options, own }
    }

    /// Returns the right to open the file, for a destination that comes to fetch it; `None` if no destination makes
    /// this open.
    ///
    /// The only proof of a destination is the key of the copy, which leads to the client that has offered the file.
    /// Until there is an offer, the destination waits within narrow bounds.
    pub(super) async fn fetch(
        &self,
        session: &DoorSession,
        path: &FilePath,
        opaque: &Opaque,
    ) -> Result<Option<T>> {
        match tpc::source_open(opaque)? {
            Some(SourceOpen::Fetch { key, origin }) => {
                let right = self.meetings.fetch(key, path, &origin, session.address).await?;
                session.note_proof();
                Ok(Some(right))
            }
            _ => Ok(None),
        }
    }

    /// Whether an open for reading names a destination that will fetch the file.
    pub(super) fn is_offer(opaque: &Opaque) -> Result<bool> {
        Ok(matches!(tpc::source_open(opaque)?, Some(SourceOpen::Offer { .. })))
    }

    /// Announces the destination that an open for reading names, if it names one. `right` opens the file, and `user`
    /// is whose it is: the caller has checked that they may read it.
    pub(super) async fn offer(
        &self,
        session: &DoorSession,
        (user, right): (&str, T),
        path: &FilePath,
        opaque: &Opaque,
    ) -> Result<()> {
        let Some(SourceOpen::Offer { key, destination, ttl_s }) = tpc::source_open(opaque)? else {
            return Ok(());
        };
        let by =
            OfferSource { user: user.to_owned(), origin: session.origin.clone(), client: session.address };
        let offer = Offer::new(right, by, destination, ttl_s).await?;
        self.meetings.offer(key, path, offer)
    }

    /// Makes an open file the destination of a copy, which begins with the first sync. `open` opens a source in this facility with
    /// what the client has offered.
    pub(super) fn destination<F>(
        &self,
        session: &DoorSession,
        path: &FilePath,
        (pull, file): (Pull, WriteFile),
        open: impl FnOnce(T, FilePath) -> F + Send + 'static,
        tasks: &Shutdown,
    ) -> Result<Destination>
    where
        F: Future<Output = Result<ReadFile>> + Send + 'static,
    {
        let (meetings, key, source) = (Arc::clone(&self.meetings), pull.key.clone(), pull.path.clone());
        let origin = session.origin.clone();
        let here = async move {
            let right = meetings.fetch(key, &source, &origin, Ipv4Addr::LOCALHOST.into()).await?;
            open(right, source).await
        };
        let setting = Setting {
            pulls: Arc::clone(&self.pulls),
            opens: Arc::clone(&self.opens),
            options: self.options.clone(),
            own: self.own,
            here: Box::pin(here),
        };
        Destination::new(session, path, (pull, file), setting, tasks)
    }
}
