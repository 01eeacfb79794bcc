//! A file as it is open on one connection.

use crate::xrd::{
    Options, XrdUrl,
    connections::{Lease, Purpose},
    mux::{Mux, Outcome, Sink, Wait},
    route::{Reply, RetryRule, ServerReply, call, route},
    trouble::RequestError,
    url::check_path,
};
use base::Failure;
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};
use wire::xrd::{
    FEATURES_KEY, FileHandle, Open, OpenAnswer, OpenFlags, Query, QueryCode, RangeQuery, Request,
    ServerFlags, Stat, StatInfo, Subject, Target,
};

/// Longest answer to a question about the configuration.
const CONFIG_BYTES_MAX: usize = 64 << 10;

/// A file as it is open on one connection.
#[derive(Debug)]
pub(super) struct FileConnection {
    lease: Lease,
    pub(super) handle: FileHandle,
    pub(super) stat: StatInfo,
    is_writable: bool,
    is_closed: AtomicBool,
    /// The server sent us elsewhere: the file is open here no more.
    is_gone: AtomicBool,
    /// Data travel with a checksum for each page.
    pub(super) has_pages: bool,
}

impl FileConnection {
    /// Opens `url`, wherever servers send us.
    pub(super) async fn open(
        url: &XrdUrl,
        options: &Options,
        flags: OpenFlags,
        mode: u16,
        wait: Wait,
    ) -> Result<Self, RequestError> {
        check_path(&url.path)?;
        let is_writable = !flags.contains(OpenFlags::READ);
        let purpose = if is_writable { Purpose::Write } else { Purpose::Read };
        let make = |opaque: &wire::xrd::Opaque| {
            let target = Target { path: url.path.as_str().to_owned(), opaque: opaque.clone() };
            let flags = flags.with(OpenFlags::RETURN_STAT);
            Request::Open(Open { mode, flags, flags2: 0, template: FileHandle::default(), target })
        };
        let ServerReply { lease, body } =
            route(url, options, purpose, RetryRule::Harmless, &make, wait).await?;
        let answer = OpenAnswer::parse(&body)?;
        let (handle, stat) = (answer.handle, StatInfo::default());
        let (is_closed, is_gone) = (AtomicBool::new(false), AtomicBool::new(false));
        let has_pages = options.page_checksums && lease.mux().greeting.flags.contains(ServerFlags::PAGE_IO);
        let mut lane = Self { lease, handle, stat, is_writable, is_closed, is_gone, has_pages };
        lane.stat = match answer.stat {
            Some(stat) => stat,
            None => lane.stat_now(options, wait).await?,
        };
        if is_writable {
            lane.ask_features(options, wait).await?;
        }
        Ok(lane)
    }

    pub(super) fn mux(&self) -> &Arc<Mux> {
        self.lease.mux()
    }

    pub(super) fn peer(&self) -> &str {
        &self.mux().greeting.peer
    }

    /// Whether the file can be read here.
    pub(super) fn is_usable(&self) -> bool {
        !self.is_gone.load(Ordering::Acquire) && !self.mux().is_broken()
    }

    /// Whether the server offers `feature` beyond the protocol.
    pub(super) fn has_feature(&self, feature: &str) -> bool {
        let features = self.mux().features.get();
        features.is_some_and(|features| features.split_ascii_whitespace().any(|word| word == feature))
    }

    /// Asks what the server offers beyond the protocol, once for each connection.
    async fn ask_features(&self, options: &Options, wait: Wait) -> Result<(), RequestError> {
        if self.mux().features.get().is_some() {
            return Ok(());
        }
        let args = FEATURES_KEY.as_bytes().to_vec();
        let query = Request::Query(Query { code: QueryCode::Config, handle: FileHandle::default(), args });
        let features = match call(self.mux(), &query, options, wait).await {
            Ok(Reply::Done(body)) if body.len() <= CONFIG_BYTES_MAX => {
                String::from_utf8_lossy(&body).into_owned()
            }
            // Servers of others need not know what that is.
            Ok(_) | Err(RequestError::Refused(_)) => String::new(),
            Err(trouble) => return Err(trouble),
        };
        let features = features.trim_end_matches('\0').replace([',', ';'], " ");
        // Somebody else may have asked at the same time, with the same answer.
        let _ = self.mux().features.set(features);
        Ok(())
    }

    /// Attributes now.
    pub(super) async fn stat_now(&self, options: &Options, wait: Wait) -> Result<StatInfo, RequestError> {
        let stat = Stat { subject: Subject::Handle(self.handle), is_filesystem: false };
        let body = self.call(&Request::Stat(stat), options, wait).await?;
        let text = String::from_utf8_lossy(&body);
        Ok(StatInfo::parse(text.trim_end_matches('\0'))?)
    }

    /// Asks something about the open file.
    pub(super) async fn call(
        &self,
        request: &Request,
        options: &Options,
        wait: Wait,
    ) -> Result<Vec<u8>, RequestError> {
        match call(self.mux(), request, options, wait).await? {
            Reply::Done(body) => Ok(body),
            Reply::Redirect(_) => Err(self.moved()),
        }
    }

    /// A query about a range of the open file.
    pub(super) fn query_range(&self, query: &RangeQuery) -> Request {
        let args = query.to_text().into_bytes();
        Request::Query(Query { code: QueryCode::OpaqueFile, handle: self.handle, args })
    }

    /// Takes note that the open file is somewhere else now; this is its trouble. It must be opened again.
    pub(super) fn moved(&self) -> RequestError {
        self.is_gone.store(true, Ordering::Release);
        RequestError::Broken(Failure::unavailable(format!(
            "server {}: the open file was redirected",
            self.peer()
        )))
    }

    /// Closes, and waits for the answer. With `expected` the server is told first what it should have got.
    pub(super) async fn close(
        &self,
        expected: Option<String>,
        options: &Options,
        wait: Wait,
    ) -> Result<(), RequestError> {
        if let Some(text) = expected {
            let args = text.into_bytes();
            let query = Request::Query(Query { code: QueryCode::OpaqueFile, handle: self.handle, args });
            self.call(&query, options, wait).await?;
        }
        // Closing twice is a failure of its own; whatever comes, this is not asked again.
        self.call(&Request::Close(self.handle), options, wait).await?;
        self.is_closed.store(true, Ordering::Release);
        Ok(())
    }

    /// Gives up what was written: the server drops the file because the connection ends.
    fn abandon(&self) {
        self.mux().break_off(Failure::unavailable(format!(
            "the file being written at {} was given up",
            self.peer()
        )));
    }
}

impl Drop for FileConnection {
    fn drop(&mut self) {
        let mux = self.lease.mux();
        if self.is_closed.load(Ordering::Acquire) || !mux.is_ours() || mux.is_broken() {
            return;
        }
        if self.is_writable {
            self.abandon();
        } else if let Ok(ticket) =
            mux.submit(&Request::Close(self.handle), Sink::Gather { max: CONFIG_BYTES_MAX })
        {
            // Nobody waits for the answer; whoever receives next throws it away.
            drop(ticket);
        }
    }
}

/// The failure in an outcome that is no data.
pub(super) fn refused(lane: &FileConnection, outcome: Outcome) -> RequestError {
    match outcome {
        Outcome::Failed(failure) => failure.during(format!("server {}", lane.peer())).into(),
        Outcome::Redirect(_) => lane.moved(),
        _ => lane.mux().break_off(lane.mux().nonsense("an answer of an unexpected kind")),
    }
}
