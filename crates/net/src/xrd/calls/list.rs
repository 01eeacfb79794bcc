//! Listings: part by part, or whole if the first part took long.

use super::{Context, finished, path};
use crate::xrd::{ListPage, NameRequest, Service, limits::LATE_LISTING_BYTES_MAX, outbox::SessionClosed};
use base::{Failure, FilePath, Result};
use wire::xrd::{Answer, Dirlist, DirlistOptions, ListingWriter, StreamId};

impl<S: Service> Context<S> {
    /// Lists: part by part, or all at once if the first part took so long that it was announced.
    pub(super) async fn list(&self, stream: StreamId, request: Dirlist) -> Result<(), SessionClosed> {
        let with_stat = request.options.intersects(DirlistOptions::STAT | DirlistOptions::CHECKSUM);
        let asked = async {
            let path = path(&request.target)?;
            Ok((path, self.own_session(Some(&request.target.opaque)).await?))
        };
        let (path, own) = match asked.await {
            Ok(asked) => asked,
            Err(failure) => return self.outbox.send(stream, Answer::failure(&failure)).await,
        };
        let session = own.as_ref().unwrap_or(&self.session);
        Listing { context: self, session, stream, path, with_stat }.begin().await
    }
}

/// A listing that is being sent.
struct Listing<'a, S: Service> {
    context: &'a Context<S>,
    session: &'a S::Session,
    stream: StreamId,
    path: FilePath,
    with_stat: bool,
}

impl<S: Service> Listing<'_, S> {
    async fn page(&self, from: Option<String>) -> Result<ListPage> {
        let request = NameRequest::List { path: self.path.clone(), from, with_stat: self.with_stat };
        self.context.ask(self.session, request).await
    }

    async fn refuse(&self, failure: &Failure, is_late: bool) -> Result<(), SessionClosed> {
        let answer = finished(self.stream, Answer::failure(failure), is_late);
        self.context.outbox.send(self.stream, answer).await
    }

    async fn begin(&self) -> Result<(), SessionClosed> {
        let context = self.context;
        let soon = context.service.config().announce_listings_after;
        // The first part waits its turn among those of the user, and the client is told so.
        let first = async {
            let turn = context.account.begin_listing().await;
            (self.page(None).await, turn)
        };
        let ((first, _turn), is_late) = context.soon_or_later(self.stream, soon, first).await?;
        let places = is_late
            .then(|| (context.account.late_listings.try_acquire(), context.late_listings.try_acquire()));
        if places.as_ref().is_some_and(|(own, all)| own.is_err() || all.is_err()) {
            let failure = Failure::busy("too many long listings are under way").hint("try again later");
            return self.refuse(&failure, true).await;
        }
        self.send(first, is_late).await
    }

    /// Sends all parts; those of a late listing together.
    async fn send(&self, first: Result<ListPage>, is_late: bool) -> Result<(), SessionClosed> {
        let mut writer = ListingWriter::new(self.with_stat);
        let (mut found, mut late_body) = (first, Vec::new());
        loop {
            let ListPage { entries, next } = match found {
                Ok(page) => page,
                Err(failure) => return self.refuse(&failure, is_late).await,
            };
            let is_last = next.is_none();
            let ahead = async {
                match next {
                    Some(next) => Some(self.page(Some(next)).await),
                    None => None,
                }
            };
            let write = async {
                let part = writer.part(&entries, is_last);
                // While it waits it is kept once.
                drop(entries);
                let answer = if is_late {
                    late_body.extend(part);
                    is_last.then(|| finished(self.stream, Answer::Ok(std::mem::take(&mut late_body)), true))
                } else {
                    Some(if is_last { Answer::Ok(part) } else { Answer::OkSoFar(part) })
                };
                match answer {
                    Some(answer) => self.context.outbox.send(self.stream, answer).await,
                    None => Ok(()),
                }
            };
            // The next part is asked for first, and looked up while this one is written.
            let (coming, written) = tokio::join!(biased; ahead, write);
            written?;
            let Some(coming) = coming else { return Ok(()) };
            found = if late_body.len() > LATE_LISTING_BYTES_MAX {
                let what = format!("{} is too long to be listed now", self.path);
                Err(Failure::busy(what).hint("try again later"))
            } else {
                coming
            };
        }
    }
}
