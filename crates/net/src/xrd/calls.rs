//! Requests on names and opens: they run beside each other and may take their time (spec/xrootd.md §7).

mod attributes;
mod change;
mod list;
mod open;
mod subject;

use super::{
    NameReply, NameRequest, OpenFile, Service, StatInfo,
    accounts::Account,
    handles::{Handle, Handles},
    limits::ANSWER_LATER,
    outbox::{Outbox, SessionClosed},
    query,
    streams::Streams,
};
use crate::shutdown::Shutdown;
use base::{ErrorKind, Failure, FilePath, Result};
use change::no_path;
use std::{
    future::Future,
    pin::{Pin, pin},
    sync::Arc,
    time::{Duration, Instant},
};
use subject::{is_about_names, opaque_of, path};
use tokio::{sync::Semaphore, time::timeout};
use wire::xrd::{Answer, Opaque, Request, StreamId, Target};

/// The state that the requests of a session share.
#[derive(Debug)]
pub(super) struct Context<S: Service> {
    pub(super) service: Arc<S>,
    pub(super) session: S::Session,
    pub(super) handles: Handles<S::File>,
    pub(super) outbox: Outbox,
    /// The budget of the user.
    pub(super) account: Arc<Account>,
    /// Further connections.
    pub(super) streams: Arc<Streams<S::File>>,
    /// The address that the client reached, as locations show it.
    pub(super) local: String,
    /// The client understands answers that come later.
    pub(super) takes_later: bool,
    /// Where closes run, which outlive the session.
    pub(super) tasks: Shutdown,
    pub(super) counters: Arc<super::Counters>,
    /// Places for listings that are kept whole, of all sessions.
    pub(super) late_listings: Arc<Semaphore>,
}

/// Runs a call and answers it, later if it takes long.
pub(super) async fn call<S: Service>(context: Arc<Context<S>>, stream: StreamId, request: Request) {
    if let Some(redirect) = context.service.names_elsewhere().filter(|_| is_about_names(&request)) {
        // Who is gone is not sent anywhere.
        let _ = context.outbox.send(stream, Answer::Redirect(redirect)).await;
        return;
    }
    let started = Instant::now();
    let outcome = match request {
        // Boxed, so that a call takes the memory that it needs and not that of the largest: thousands may wait.
        Request::Dirlist(request) => Box::pin(context.list(stream, request)).await,
        request => context.answer(stream, Box::pin(context.perform(request))).await,
    };
    context.counters.request_times.note(started.elapsed());
    note_gone(outcome);
}

/// Notes that nobody was left to answer.
fn note_gone(outcome: Result<(), SessionClosed>) {
    if let Err(SessionClosed) = outcome {
        tracing::debug!("a call was not answered because its session ended");
    }
}

/// An open that has begun.
pub(super) type Opening = Pin<Box<dyn Future<Output = Answer> + Send>>;

/// Waits for an open that could not end at once, and answers it, later if it takes long.
pub(super) async fn finish_open<S: Service>(context: Arc<Context<S>>, stream: StreamId, opening: Opening) {
    let started = Instant::now();
    let outcome = context.answer(stream, opening).await;
    context.counters.request_times.note(started.elapsed());
    note_gone(outcome);
}

/// Closes a file that was taken out of the table.
pub(super) async fn close<S: Service>(
    context: Arc<Context<S>>,
    stream: StreamId,
    handle: Arc<Handle<S::File>>,
) {
    let work = async {
        if handle.has_failed() {
            return Answer::failure(&Failure::new(ErrorKind::Io, format!("{}: a write failed", handle.path)));
        }
        match Arc::clone(&handle.file).close().await {
            Ok(()) => Answer::Ok(Vec::new()),
            Err(failure) => Answer::failure(&failure),
        }
    };
    if let Err(SessionClosed) = context.answer(stream, work).await {
        tracing::debug!(path = %handle.path, "closed a file after its session ended");
    }
}

impl<S: Service> Context<S> {
    /// Answers with what `work` yields; announces the answer first if it does not come soon.
    async fn answer(
        &self,
        stream: StreamId,
        work: impl Future<Output = Answer>,
    ) -> Result<(), SessionClosed> {
        let soon = self.service.config().announce_after;
        let (answer, is_late) = self.soon_or_later(stream, soon, work).await?;
        self.outbox.send(stream, finished(stream, answer, is_late)).await
    }

    /// Waits for `work`; if that takes longer than `soon` the client is told, again and again. Yields whether it was told.
    async fn soon_or_later<T>(
        &self,
        stream: StreamId,
        soon: Duration,
        work: impl Future<Output = T>,
    ) -> Result<(T, bool), SessionClosed> {
        let mut work = pin!(work);
        if !self.takes_later {
            return Ok((work.await, false));
        }
        if let Ok(done) = timeout(soon, &mut work).await {
            return Ok((done, false));
        }
        loop {
            let seconds = ANSWER_LATER.as_secs() as u32;
            self.outbox.send(stream, Answer::WaitResp { seconds }).await?;
            if let Ok(done) = timeout(ANSWER_LATER / 2, &mut work).await {
                return Ok((done, true));
            }
        }
    }

    /// The session of a request that brought a proof of its own.
    async fn own_session(&self, opaque: Option<&Opaque>) -> Result<Option<S::Session>> {
        match opaque.filter(|opaque| !opaque.is_empty()) {
            Some(opaque) => Box::pin(self.service.session_for(&self.session, opaque)).await,
            None => Ok(None),
        }
    }

    /// Makes a request on names, which is answered with a `T`.
    pub(super) async fn ask<T>(&self, session: &S::Session, request: NameRequest) -> Result<T>
    where
        T: TryFrom<NameReply, Error = Failure>,
    {
        self.service.names(session, request).await?.try_into()
    }

    /// Attributes of the path of `target`.
    pub(super) async fn stat(
        &self,
        session: &S::Session,
        path: FilePath,
        target: &Target,
    ) -> Result<StatInfo> {
        self.ask(session, NameRequest::Stat { path, opaque: target.opaque.clone() }).await
    }

    async fn perform(&self, request: Request) -> Answer {
        let own = match self.own_session(opaque_of(&request).as_ref()).await {
            Ok(own) => own,
            Err(failure) => return Answer::failure(&failure),
        };
        let session = own.as_ref().unwrap_or(&self.session);
        let outcome = match request {
            Request::Query(request) => Box::pin(query::answer(self, session, request)).await,
            request => Box::pin(self.change(session, request)).await,
        };
        outcome.map_or_else(|failure| Answer::failure(&failure), Answer::Ok)
    }
}

/// The answer itself, or the announced answer.
fn finished(stream: StreamId, answer: Answer, is_late: bool) -> Answer {
    if is_late { Answer::Later { stream, answer: Box::new(answer) } } else { answer }
}

/// The answer to a stat.
pub(super) fn stat_answer(stat: Result<StatInfo>) -> Answer {
    match stat {
        Ok(stat) => Answer::Ok(format!("{stat}\0").into_bytes()),
        Err(failure) => Answer::failure(&failure),
    }
}
