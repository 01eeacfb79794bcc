//! What the blocking and the async face of a file have in common.

use super::{ahead::ReadAhead, lane::FileConnection};
use crate::xrd::{
    Options, XrdUrl, connections,
    mux::Wait,
    process::{PerProcess, lock},
    retry::Retry,
    trouble::RequestError,
};
use base::{ByteRange, Crc32c, Failure, Result};
use std::sync::{Arc, Mutex};
use wire::xrd::{
    Expectation, FEATURE_EXPECT, OpenFlags, RangeKind, RangeQuery, Request, StatInfo, Subject, Truncate,
    parse_found,
};

/// An open file.
#[derive(Debug)]
pub(in crate::xrd) struct Core {
    pub(super) url: XrdUrl,
    pub(super) options: Options,
    pub(super) flags: OpenFlags,
    /// As it was when it was opened; opened again it must be the same.
    stat: StatInfo,
    server: String,
    state: PerProcess<State>,
}

/// What changes, for each process.
#[derive(Debug, Default)]
pub(super) struct State {
    /// `None`: to be opened again.
    lane: Mutex<Option<Arc<FileConnection>>>,
    /// Why what was written must not be committed.
    spoiled: Mutex<Option<Failure>>,
    /// The sum of what was written, as long as that went from the start to the end.
    pub(super) sent: Mutex<Sent>,
    pub(super) ahead: Mutex<ReadAhead>,
}

/// The sum of what was written from the start of the file on; `None` once something was written elsewhere.
#[derive(Debug)]
pub(super) struct Sent(pub(super) Option<(u64, Crc32c)>);

impl Default for Sent {
    fn default() -> Self {
        Self(Some((0, Crc32c::EMPTY)))
    }
}

impl Core {
    pub(in crate::xrd) async fn open(
        url: &XrdUrl,
        options: &Options,
        flags: OpenFlags,
        mode: u16,
        wait: Wait,
    ) -> Result<Arc<Self>> {
        let lane = FileConnection::open(url, options, flags, mode, wait).await;
        let lane = Arc::new(lane.map_err(|trouble| trouble.during(format!("open {url}")))?);
        let (stat, server) = (lane.stat.clone(), lane.peer().to_owned());
        let state = State { lane: Mutex::new(Some(lane)), ..State::default() };
        let (url, options, state) = (url.clone(), options.clone(), PerProcess::new(state));
        Ok(Arc::new(Self { url, options, flags, stat, server, state }))
    }

    #[cfg(test)]
    pub(super) fn disown(&mut self) {
        self.state.disown();
    }

    pub(super) fn state(&self) -> &State {
        self.state.get(State::default)
    }

    pub(in crate::xrd) fn size(&self) -> u64 {
        self.stat.size
    }

    pub(in crate::xrd) fn opened(&self) -> &StatInfo {
        &self.stat
    }

    pub(in crate::xrd) async fn is_checked_on_close(&self, wait: Wait) -> bool {
        self.is_new() && self.lane(wait).await.is_ok_and(|lane| lane.has_feature(FEATURE_EXPECT))
    }

    /// Whether it began empty.
    fn is_new(&self) -> bool {
        self.flags.intersects(OpenFlags::NEW.with(OpenFlags::DELETE))
    }

    /// Bytes of one request.
    pub(in crate::xrd) fn chunk(&self) -> usize {
        self.options.chunk()
    }

    pub(in crate::xrd) fn server(&self) -> &str {
        &self.server
    }

    pub(super) fn is_writable(&self) -> bool {
        !self.flags.contains(OpenFlags::READ)
    }

    /// Puts operation and file in front of a failure.
    pub(super) fn failed(&self, operation: &str, trouble: impl Into<Failure>) -> Failure {
        trouble.into().during(format!("{operation} {}", self.url))
    }

    /// The file as it is open now; opened again if that is necessary.
    pub(super) async fn lane(&self, wait: Wait) -> Result<Arc<FileConnection>, RequestError> {
        if let Some(lane) = self.usable()? {
            return Ok(lane);
        }
        let lane = FileConnection::open(&self.url, &self.options, self.flags, 0, wait).await?;
        self.check_same(&lane)?;
        let lane = Arc::new(lane);
        let mut current = lock(&self.state().lane);
        // Another thread may have been as quick; then there is one too many, which is closed by being dropped.
        if let Some(other) = current.as_ref().filter(|other| other.is_usable()) {
            return Ok(Arc::clone(other));
        }
        let before = current.replace(Arc::clone(&lane));
        drop(current);
        // It may say goodbye to its server, for which those who need the new one do not wait.
        drop(before);
        Ok(lane)
    }

    /// The file as it is open now, if it can be used. What was opened for writing cannot be opened again.
    fn usable(&self) -> Result<Option<Arc<FileConnection>>, RequestError> {
        if self.is_writable() && self.state.is_inherited() {
            return Err(connections::inherited("the file").into());
        }
        let lane = lock(&self.state().lane).clone();
        match lane {
            Some(lane) if lane.is_usable() || self.is_writable() => Ok(Some(lane)),
            None if self.is_writable() => Err(Failure::invalid("the file is closed").into()),
            _ => Ok(None),
        }
    }

    /// After a trouble: waits. What cannot be used any more is opened again by who needs it next.
    pub(super) async fn recover(
        &self,
        trouble: RequestError,
        retry: &mut Retry,
        wait: Wait,
    ) -> Result<(), RequestError> {
        if self.is_writable() && trouble.is_broken() {
            let failure = Failure::from(trouble);
            return Err(Failure { hint: None, ..failure }
                .hint("the server gives up what was written but not closed; write the file again")
                .into());
        }
        retry.again(trouble, wait).await
    }

    /// Fails if the file that was opened again is another one.
    pub(super) fn check_same(&self, lane: &FileConnection) -> Result<(), RequestError> {
        let (before, now) = (&self.stat, &lane.stat);
        // Servers number their files each in its own way.
        let is_other = lane.peer() == self.server && before.id != now.id;
        if is_other || before.size != now.size || before.modified_s != now.modified_s {
            return Err(Failure::corrupt(format!("{} was changed while it was open", self.url))
                .hint("open it again and read it from the start")
                .into());
        }
        Ok(())
    }

    pub(in crate::xrd) async fn stat(&self, wait: Wait) -> Result<StatInfo> {
        let mut retry = Retry::new(&self.options);
        loop {
            let outcome = match self.lane(wait).await {
                Ok(lane) => lane.stat_now(&self.options, wait).await,
                Err(trouble) => Err(trouble),
            };
            match outcome {
                Ok(stat) => return Ok(stat),
                Err(trouble) => {
                    let again = self.recover(trouble, &mut retry, wait).await;
                    again.map_err(|trouble| self.failed("stat", trouble))?;
                }
            }
        }
    }

    pub(in crate::xrd) async fn truncate(&self, size: u64, wait: Wait) -> Result<()> {
        // The sum of what was sent is not that of the file any more.
        lock(&self.state().sent).0 = None;
        self.change("truncate", wait, |lane| {
            Request::Truncate(Truncate { subject: Subject::Handle(lane.handle), size })
        })
        .await
    }

    pub(in crate::xrd) async fn sync(&self, wait: Wait) -> Result<()> {
        self.change("sync", wait, |lane| Request::Sync(lane.handle)).await
    }

    /// Asks for a range to be changed, or copied within this file.
    pub(in crate::xrd) async fn change_range(&self, query: &RangeQuery, wait: Wait) -> Result<()> {
        // The sum of what was sent is not that of the file any more.
        lock(&self.state().sent).0 = None;
        self.change("change a range of", wait, |lane| lane.query_range(query)).await
    }

    /// Where the next bytes of a kind begin.
    pub(in crate::xrd) async fn find(&self, kind: RangeKind, offset: u64, wait: Wait) -> Result<Option<u64>> {
        let query = RangeQuery::Find(kind, offset);
        let mut retry = Retry::new(&self.options);
        loop {
            let outcome = match self.lane(wait).await {
                Ok(lane) => lane.call(&lane.query_range(&query), &self.options, wait).await,
                Err(trouble) => Err(trouble),
            };
            match outcome {
                Ok(body) => return Ok(parse_found(&body)?),
                Err(trouble) => {
                    let again = self.recover(trouble, &mut retry, wait).await;
                    again.map_err(|trouble| self.failed("find data or holes in", trouble))?;
                }
            }
        }
    }

    /// Has the server refuse the grant under which the file is open. Yields the start of the object that does.
    pub(in crate::xrd) async fn fence(&self, wait: Wait) -> Result<u64> {
        let failed = |trouble| self.failed("end the grant on", trouble);
        let lane = self.lane(wait).await.map_err(failed)?;
        let body =
            lane.call(&lane.query_range(&RangeQuery::Fence), &self.options, wait).await.map_err(failed)?;
        let nothing = || Failure::unavailable("the disk server does not say that it has ended the grant");
        parse_found(&body)?.ok_or_else(nothing)
    }

    /// Has the server copy a range of `source`, which it has open in the same session.
    pub(in crate::xrd) async fn copy_from(
        &self,
        source: &Self,
        (from, to): (ByteRange, u64),
        wait: Wait,
    ) -> Result<()> {
        let failed = |trouble| self.failed("copy into", trouble);
        let (lane, other) =
            (self.lane(wait).await.map_err(failed)?, source.lane(wait).await.map_err(failed)?);
        if !Arc::ptr_eq(lane.mux(), other.mux()) {
            return Err(self.failed("copy into", Failure::unsupported("the files are not in one session")));
        }
        let query = RangeQuery::Copy { source: other.handle, from, to };
        self.change_range(&query, wait).await
    }

    async fn change(
        &self,
        operation: &str,
        wait: Wait,
        make: impl Fn(&FileConnection) -> Request,
    ) -> Result<()> {
        let lane = self.lane(wait).await.map_err(|trouble| self.failed(operation, trouble))?;
        let request = make(&lane);
        let outcome = lane.call(&request, &self.options, wait).await;
        outcome.map(|_| ()).map_err(|trouble| self.failed(operation, trouble))
    }

    /// What was written must not be committed.
    pub(in crate::xrd) fn spoil(&self, failure: &Failure) {
        lock(&self.state().spoiled).get_or_insert_with(|| failure.clone());
    }

    /// Closes; a second time is a failure.
    pub(in crate::xrd) async fn close(&self, wait: Wait) -> Result<()> {
        let usable = self.usable();
        let lane = lock(&self.state().lane).take();
        if !self.is_writable() {
            // Whether the server liked our goodbye changes nothing; it is sent when the lane is dropped.
            return Ok(());
        }
        usable.map_err(|trouble| self.failed("close", trouble))?;
        let Some(lane) = lane else {
            return Err(self.failed("close", Failure::invalid("the file is closed")));
        };
        if let Some(failure) = lock(&self.state().spoiled).clone() {
            return Err(self.failed("close", failure));
        }
        let sum = lock(&self.state().sent).0;
        let expected = sum.filter(|_| lane.has_feature(FEATURE_EXPECT) && self.is_new());
        let expected = expected.map(|(size, crc32c)| Expectation { size, crc32c }.to_text());
        let closed = lane.close(expected, &self.options, wait).await;
        closed.map_err(|trouble| self.failed("close", trouble))
    }
}

/// The failure of a file that ends at `end`, though it had bytes up to `wanted_end` when it was opened.
pub(super) fn ends_early(end: u64, wanted_end: u64) -> Failure {
    let missing = wanted_end.saturating_sub(end);
    Failure::corrupt(format!("the file ends at {end}, {missing} bytes early"))
        .hint("it was changed while it was read; read it again")
}
