//! Third-party copy (WLCG HTTP-TPC): this server fetches from another one, or sends to it, while the client watches.
//!
//! The answer begins before the copy does: status 201, then a performance marker every few seconds, then one line with
//! the outcome. A client that leaves ends the copy, and a copy that was not committed leaves nothing behind.

mod onward;
mod pull;
mod push;
mod remote;
mod trust;

pub(super) use onward::{pull_by_cap, push_by_cap};
pub(super) use remote::Remote;
pub use trust::RemoteTrust;

use onward::Delegation;

use super::{
    answer::{Answer, Problem},
    dav::{copy::refuse_slashed, tree},
    file::claims::{check_path, claims},
    paths::{PathRequest, is_directory},
};
use axum::{
    body::{Body, Bytes},
    http::{HeaderMap, HeaderName, StatusCode, header},
    response::{IntoResponse, Response},
};
use base::{ErrorKind, Failure, FilePath, Result, Timestamp};
use disk::serve::open_file::{ReadFile, WriteFile};
use futures_util::{Stream, stream};
use net::shutdown::Token;
use std::{
    convert::Infallible,
    net::SocketAddr,
    pin::Pin,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime},
};
use tokio::time::{Interval, MissedTickBehavior, interval};
use tracing::info;
use wire::{
    control::{Disposition, Entry},
    digest::Digests,
    http::{
        dav::{Place, parse_overwrite, parse_place},
        tpc::{MARKER_TYPE, Marker, SUCCESS, failure_line, passed_on},
    },
};

/// Pause between two markers; clients give up after half a minute of silence.
const MARKER_PAUSE: Duration = Duration::from_secs(5);

/// How far a copy is; the copier writes, the markers read.
#[derive(Debug, Default)]
struct Progress {
    moved_bytes: AtomicU64,
    remote: OnceLock<SocketAddr>,
}

impl Progress {
    fn add(&self, bytes: usize) {
        self.moved_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    fn moved_bytes(&self) -> u64 {
        self.moved_bytes.load(Ordering::Relaxed)
    }

    fn marker(&self) -> Marker {
        Marker {
            now_s: Timestamp::from_system(SystemTime::now()).seconds(),
            moved_bytes: self.moved_bytes(),
            remote: self.remote.get().copied(),
        }
    }
}

/// Whether the sums of both ends are compared after the bytes have moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verification {
    /// A copy without comparison fails.
    Required,
    /// Compared if the other server tells a sum.
    Tried,
    /// Compared only if the sum came by itself.
    Skipped,
}

/// A copy between a path of ours and a place of another server.
struct Transfer {
    request: PathRequest,
    place: Place,
    /// Fields for the other server.
    fields: HeaderMap,
    verification: Verification,
    /// What the client says about the content.
    claimed: Digests,
    is_overwriting: bool,
    progress: Arc<Progress>,
}

impl Transfer {
    fn new(request: PathRequest, place: Place) -> Result<Self, Problem> {
        let credential = request.field("credential").unwrap_or("none").trim();
        if !credential.eq_ignore_ascii_case("none") {
            return Err(Failure::invalid(format!("credential {credential:?} is not offered"))
                .hint("send `Credential: none` and a token in TransferHeaderAuthorization")
                .into());
        }
        let verification = match request.field("requirechecksumverification").map(str::trim) {
            None => Verification::Tried,
            Some(text) if text.eq_ignore_ascii_case("true") => Verification::Required,
            Some(text) if text.eq_ignore_ascii_case("false") => Verification::Skipped,
            Some(text) => {
                let what = format!("RequireChecksumVerification {text:?} is neither true nor false");
                return Err(Failure::invalid(what).into());
            }
        };
        Ok(Self {
            claimed: claims(&request.headers)?,
            is_overwriting: parse_overwrite(request.field("overwrite"))?,
            fields: fields_for_remote(&request.headers),
            place,
            verification,
            progress: Arc::default(),
            request,
        })
    }

    fn remote(&self) -> &Remote {
        &self.request.door.remote
    }

    /// What may be there already.
    fn disposition(&self) -> Disposition {
        if self.is_overwriting { Disposition::Replace } else { Disposition::CreateNew }
    }
}

/// What the client says that the other server is to hear.
fn fields_for_remote(headers: &HeaderMap) -> HeaderMap {
    let mut fields = HeaderMap::new();
    for (name, value) in headers {
        let Some(name) = passed_on(name.as_str()) else { continue };
        if let Ok(name) = HeaderName::try_from(name) {
            let mut value = value.clone();
            value.set_sensitive(true);
            fields.append(name, value);
        }
    }
    fields
}

/// `COPY` with a `Source`: the file is fetched.
pub(super) async fn pull(request: PathRequest) -> Answer {
    let place = parse_place(request.field("source").unwrap_or_default())?;
    refuse_slashed(&place)?;
    if request.is_slashed {
        return Err(Failure::new(ErrorKind::IsDirectory, format!("{}/ names a directory", request.path))
            .hint("the path of a file has no slash at its end")
            .into());
    }
    if request.is_here(&place) {
        let (from, mut request) = (place.path()?, request);
        let to = std::mem::replace(&mut request.path, from);
        return local(request, place, to).await;
    }
    let transfer = Transfer::new(request, place)?;
    require_host(&transfer.place)?;
    check_target(&transfer, &transfer.request.path).await?;
    match onward::target(&transfer).await? {
        Delegation::Redirect(answer) => Ok(answer),
        Delegation::Here(file) => Ok(pulling(transfer, file)),
    }
}

/// Fetches into `file`, or into what is opened when the source has answered.
fn pulling(transfer: Transfer, file: Option<WriteFile>) -> Response {
    answer("pull", transfer, |transfer| Box::pin(async move { pull::run(&transfer, file).await }))
}

/// `COPY` with a `Destination` on another server: the file is sent.
pub(super) async fn push(request: PathRequest, place: Place) -> Answer {
    refuse_slashed(&place)?;
    let transfer = Transfer::new(request, place)?;
    require_host(&transfer.place)?;
    let entry = check_source(&transfer).await?;
    match onward::source(&transfer, &entry).await? {
        Delegation::Redirect(answer) => Ok(answer),
        Delegation::Here(file) => Ok(pushing(transfer, file)),
    }
}

/// Sends `file`, or what is opened first, which may mean a recall from tape.
fn pushing(transfer: Transfer, file: Option<ReadFile>) -> Response {
    answer("push", transfer, |transfer| Box::pin(async move { push::run(&transfer, file).await }))
}

/// Whether a client speaks of a third-party copy, and so waits for markers, though both ends are here.
pub(super) fn is_third_party(request: &PathRequest) -> bool {
    ["credential", "requirechecksumverification", "x-number-of-streams"]
        .iter()
        .any(|name| request.headers.contains_key(*name))
}

/// A third-party copy of `request.path` to another path of this door: nothing leaves the house.
pub(super) async fn local(request: PathRequest, place: Place, to: FilePath) -> Answer {
    let transfer = Transfer::new(request, place)?;
    check_source(&transfer).await?;
    if to == transfer.request.path {
        return Err(Failure::permission(format!("{to} cannot be copied to itself")).into());
    }
    check_target(&transfer, &to).await?;
    let disposition = transfer.disposition();
    Ok(answer("copy", transfer, move |transfer| {
        Box::pin(async move {
            let (request, progress) = (&transfer.request, &transfer.progress);
            check_path(request, &request.path).await?;
            tree::copy_file(request, &request.path, &to, disposition, |bytes| progress.add(bytes)).await
        })
    }))
}

fn require_host(place: &Place) -> Result<()> {
    if place.host.is_none() {
        return Err(Failure::invalid("the other end of a third-party copy is named by a URL"));
    }
    Ok(())
}

/// Refuses at once what cannot be sent later.
async fn check_source(transfer: &Transfer) -> Result<Entry, Problem> {
    let (request, path) = (&transfer.request, &transfer.request.path);
    let entry = request.entry(path).await?;
    request.require_conditions(Some(&entry))?;
    if is_directory(&entry) {
        let failure = Failure::new(ErrorKind::IsDirectory, format!("{path} is a directory"));
        return Err(failure.hint("third-party copy moves single files").into());
    }
    if entry.checksums.is_none() {
        return Err(Failure::locked(format!("{path} is being written")).into());
    }
    Ok(entry)
}

/// Refuses at once what cannot be stored later.
async fn check_target(transfer: &Transfer, path: &FilePath) -> Result<(), Problem> {
    let request = &transfer.request;
    let target = request.find(path).await;
    let target = target.map_err(|failure| Problem::with_status(failure, StatusCode::CONFLICT))?;
    if *path == request.path {
        request.require_conditions(target.as_ref())?;
    }
    if target.as_ref().is_some_and(is_directory) || transfer.request.is_slashed {
        return Err(Failure::new(ErrorKind::IsDirectory, format!("{path} is a directory")).into());
    }
    if target.is_some() && !transfer.is_overwriting {
        return Err(Problem::precondition(format!("{path} exists, and the request says Overwrite: F")));
    }
    let parent = path.parent().unwrap_or_else(FilePath::root);
    let above = request.find(&parent).await?;
    let is_made = above.is_none() && request.makes_parents;
    if !is_made && !above.as_ref().is_some_and(is_directory) {
        let failure = Failure::not_found(format!("directory {parent} does not exist"));
        return Err(Problem::with_status(failure.hint("make it with MKCOL"), StatusCode::CONFLICT));
    }
    Ok(())
}

type Copying = Pin<Box<dyn Future<Output = Result<()>> + Send>>;

fn answer(word: &'static str, transfer: Transfer, start: impl FnOnce(Transfer) -> Copying) -> Response {
    let report = Report {
        word,
        path: transfer.request.path.clone(),
        remote: transfer.place.authority(),
        progress: Arc::clone(&transfer.progress),
        token: transfer.request.door.token.clone(),
        is_over: false,
    };
    let mut ticks = interval(MARKER_PAUSE);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let lines = Body::from_stream(lines(report, start(transfer), ticks));
    (StatusCode::CREATED, [(header::CONTENT_TYPE, MARKER_TYPE)], lines).into_response()
}

/// What the client reads while it waits.
struct Report {
    word: &'static str,
    path: FilePath,
    remote: String,
    progress: Arc<Progress>,
    token: Token,
    is_over: bool,
}

impl Report {
    fn last_line(&mut self, outcome: Result<()>) -> String {
        self.is_over = true;
        let (path, remote, bytes) = (&self.path, &self.remote, self.progress.moved_bytes());
        match outcome {
            Ok(()) => {
                info!(%path, remote, bytes, "{} done", self.word);
                // Clients add up what the markers say.
                self.progress.marker().text() + SUCCESS
            }
            Err(failure) => {
                info!(%path, remote, bytes, %failure, "{} failed", self.word);
                failure_line(&match &failure.hint {
                    Some(hint) => format!("{failure} ({hint})"),
                    None => failure.to_string(),
                })
            }
        }
    }
}

impl Drop for Report {
    fn drop(&mut self) {
        if !self.is_over {
            let bytes = self.progress.moved_bytes();
            info!(path = %self.path, remote = self.remote, bytes, "{} cancelled: its client disconnected", self.word);
        }
    }
}

fn lines(
    report: Report,
    copying: Copying,
    ticks: Interval,
) -> impl Stream<Item = Result<Bytes, Infallible>> + Send {
    stream::unfold((report, copying, ticks), |(mut report, mut copying, mut ticks)| async move {
        if report.is_over {
            return None;
        }
        let token = report.token.clone();
        let line = tokio::select! {
            biased;
            outcome = &mut copying => report.last_line(outcome),
            () = token.stopped() => report.last_line(Err(Failure::unavailable("this server is stopping"))),
            _ = ticks.tick() => report.progress.marker().text(),
        };
        Some((Ok(Bytes::from(line)), (report, copying, ticks)))
    })
}
