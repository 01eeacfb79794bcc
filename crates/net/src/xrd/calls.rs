//! Requests on names and opens: they run beside each other and may take their time (spec/xrootd.md §7).

use super::{
    Access, Attributes, Disposition, ListPage, NameReply, NameRequest, OpenFile, OpenRequest, Opened,
    PrepareAction, PrepareRequest, Service, SpaceInfo, StatInfo,
    accounts::Account,
    handles::{Handle, Handles},
    limits::{ANSWER_LATER, LATE_LISTING_BYTES_MAX},
    outbox::{Outbox, SessionClosed},
    query,
    slash::file_path,
    streams::Streams,
};
use crate::shutdown::Shutdown;
use base::{ErrorKind, Failure, FilePath, Result};
use std::{
    future::Future,
    pin::pin,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{sync::Semaphore, time::timeout};
use wire::xrd::{
    Answer, Dirlist, DirlistOptions, ErrorCode, Fattr, FattrAction, ListingWriter, Location, Mkdir, Opaque,
    Open, OpenAnswer, OpenFlags, OpenFlags2, Prepare, PrepareOptions, QueryCode, Request, StreamId, Subject,
    Target, Truncate, encode_fattr_list, encode_fattr_results,
};

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
    // The session ended meanwhile: nobody is left to tell.
    if let Err(SessionClosed) = outcome {
        tracing::debug!("a call was not answered because its session ended");
    }
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

/// Whether a request asks for a name of the namespace, not for an open file or for this server.
fn is_about_names(request: &Request) -> bool {
    match request {
        Request::Dirlist(_)
        | Request::Statx(_)
        | Request::Mkdir(_)
        | Request::Rm(_)
        | Request::Rmdir(_)
        | Request::Mv(_)
        | Request::Chmod(_)
        | Request::Locate(_)
        | Request::Prepare(_) => true,
        Request::Stat(stat) => matches!(stat.subject, Subject::Path(_)),
        Request::Truncate(truncate) => matches!(truncate.subject, Subject::Path(_)),
        Request::Fattr(fattr) => matches!(fattr.subject, Subject::Path(_)),
        Request::Query(query) => {
            matches!(
                query.code,
                QueryCode::Checksum | QueryCode::Space | QueryCode::Xattr | QueryCode::Prepare
            )
        }
        _ => false,
    }
}

/// What came behind the path of a request; of several paths, behind the first one that has something.
fn opaque_of(request: &Request) -> Option<Opaque> {
    let first = |lines: &mut dyn Iterator<Item = &str>| {
        lines.map(|line| Target::from_text(line).opaque).find(|opaque| !opaque.is_empty())
    };
    match request {
        Request::Truncate(Truncate { subject: Subject::Path(target), .. })
        | Request::Fattr(Fattr { subject: Subject::Path(target), .. })
        | Request::Rm(target)
        | Request::Rmdir(target) => Some(target.opaque.clone()),
        Request::Mkdir(mkdir) => Some(mkdir.target.opaque.clone()),
        Request::Chmod(chmod) => Some(chmod.target.opaque.clone()),
        Request::Locate(locate) => Some(locate.target.opaque.clone()),
        Request::Mv(mv) => [&mv.from.opaque, &mv.to.opaque].into_iter().find(|it| !it.is_empty()).cloned(),
        Request::Prepare(prepare) => first(&mut prepare.lines.iter().map(String::as_str)),
        Request::Query(query) if is_about_names(request) => first(&mut query.text().ok()?.lines()),
        _ => None,
    }
}

/// The checked path of a request.
fn path(target: &Target) -> Result<FilePath> {
    target.path.parse()
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
            Request::Open(request) => return Box::pin(self.open(request)).await,
            Request::Query(request) => Box::pin(query::answer(self, session, request)).await,
            request => Box::pin(self.change(session, request)).await,
        };
        outcome.map_or_else(|failure| Answer::failure(&failure), Answer::Ok)
    }

    /// Calls whose answers are plain bytes.
    async fn change(&self, session: &S::Session, request: Request) -> Result<Vec<u8>> {
        let done = |()| Vec::new();
        match request {
            Request::Stat(request) => {
                let Subject::Path(target) = request.subject else {
                    return Err(no_path("stat"));
                };
                let text = if request.is_filesystem {
                    let request = NameRequest::Space { path: path(&target)? };
                    self.ask::<SpaceInfo>(session, request).await?.to_filesystem_text()
                } else {
                    let path = self.path_of(session, &target).await?;
                    self.stat(session, path, &target).await?.to_string()
                };
                Ok(format!("{text}\0").into_bytes())
            }
            Request::Statx(targets) => {
                let (mut flags, is_one) = (Vec::with_capacity(targets.len()), targets.len() == 1);
                for target in targets {
                    let stat = async {
                        let path = self.path_of(session, &target).await?;
                        self.stat(session, path, &target).await
                    };
                    let stat = stat.await;
                    // The others are here, perhaps.
                    flags.push(stat.map_err(|failure| failure.only_here(!is_one))?.flags_byte());
                }
                Ok(flags)
            }
            Request::Truncate(request) => {
                let Subject::Path(target) = request.subject else {
                    return Err(no_path("truncate"));
                };
                let (path, size) = (file_path(&target)?, request.size);
                self.ask(session, NameRequest::Truncate { path, size }).await.map(done)
            }
            Request::Mkdir(Mkdir { mode, make_path, target }) => {
                let (path, mode) = (path(&target)?, u32::from(mode) & 0o777 | MKDIR_MODE);
                self.ask(session, NameRequest::Mkdir { path, mode, make_path }).await.map(done)
            }
            Request::Rm(target) => {
                let path = self.path_of(session, &target).await?;
                self.ask(session, NameRequest::Remove { path }).await.map(done)
            }
            Request::Rmdir(target) => {
                self.ask(session, NameRequest::Rmdir { path: path(&target)? }).await.map(done)
            }
            Request::Mv(request) => {
                let from = self.path_of(session, &request.from).await?;
                let to = self.new_path(session, &request.to, &from).await?;
                self.ask(session, NameRequest::Rename { from, to }).await.map(done)
            }
            Request::Chmod(request) => {
                let path = self.path_of(session, &request.target).await?;
                let mode = u32::from(request.mode) & 0o777;
                self.ask(session, NameRequest::Chmod { path, mode }).await.map(done)
            }
            Request::Locate(request) => self.locate(session, &request.target).await,
            Request::Sync(handle) => {
                let handle = self.handles.get(handle).map_err(|refusal| {
                    refusal.to_failure().unwrap_or_else(|| Failure::invalid("no such open file"))
                })?;
                Arc::clone(&handle.file).sync_slowly().await.map(done)
            }
            Request::Prepare(request) => self.prepare(session, request).await,
            Request::Fattr(request) => self.fattr(session, request).await,
            other => Err(Failure::internal(format!("{:?} is not a call", other.code()))),
        }
    }

    async fn open(&self, open: Open) -> Answer {
        let request = match open_request(&open) {
            Ok(request) => request,
            Err(failure) => return Answer::failure(&failure),
        };
        let place = match self.handles.reserve() {
            Ok(place) => place,
            Err(failure) => return Answer::failure(&failure),
        };
        let opened = self.service.open(&self.session, request.clone()).await;
        drop(place);
        self.admit(opened, request, wants_stat(&open))
    }

    /// Gives an opened file its handle.
    pub(super) fn admit(
        &self,
        opened: Result<Opened<S::File>>,
        request: OpenRequest,
        wants_stat: bool,
    ) -> Answer {
        let file = match opened {
            Ok(Opened::Here(file)) => file,
            Ok(Opened::Redirect(redirect)) => return Answer::Redirect(redirect),
            Err(failure) => return Answer::failure(&failure),
        };
        let stat = if wants_stat { file.stat().map(Some) } else { Ok(None) };
        let handle = Handle::new(file, request.path, request.access == Access::Update);
        match stat.and_then(|stat| Ok((self.handles.insert(handle)?, stat))) {
            Ok((handle, stat)) => Answer::Ok(OpenAnswer { handle, stat }.encode()),
            Err(failure) => Answer::failure(&failure),
        }
    }

    async fn locate(&self, session: &S::Session, target: &Target) -> Result<Vec<u8>> {
        // `*path` asks for every server that has it, `*` for every server.
        let text = target.path.strip_prefix('*').unwrap_or(&target.path);
        let path = match text {
            "" => FilePath::root(),
            text => self.path_of(session, &Target::new(text)).await?,
        };
        let request = NameRequest::Locate { path: path.clone(), local: self.local.clone() };
        let locations: Vec<Location> = self.ask(session, request).await?;
        if locations.is_empty() {
            return Err(Failure::not_found(format!("{path} is not on any server")));
        }
        let words: Vec<_> = locations.iter().map(Location::to_string).collect();
        Ok(format!("{}\0", words.join(" ")).into_bytes())
    }

    async fn prepare(&self, session: &S::Session, request: Prepare) -> Result<Vec<u8>> {
        let mut lines = request.lines.iter();
        let action = if request.options.contains(PrepareOptions::CANCEL) {
            PrepareAction::Cancel(lines.next().cloned().unwrap_or_default())
        } else if request.is_evict {
            PrepareAction::Evict
        } else if request.options.contains(PrepareOptions::STAGE) {
            PrepareAction::Stage { priority: request.priority.min(3) }
        } else {
            PrepareAction::Touch
        };
        let mut paths = Vec::with_capacity(lines.len());
        for line in lines {
            paths.push(self.path_of(session, &Target::from_text(line)).await?);
        }
        let request = NameRequest::Prepare(PrepareRequest { action, paths });
        self.ask(session, request).await.map(String::into_bytes)
    }

    async fn fattr(&self, session: &S::Session, request: Fattr) -> Result<Vec<u8>> {
        let path = match &request.subject {
            Subject::Path(target) => self.path_of(session, target).await?,
            Subject::Handle(handle) => match self.handles.get(*handle) {
                Ok(handle) => handle.path.clone(),
                Err(_) => return Err(no_path("fattr")),
            },
        };
        let all =
            async || self.ask::<Attributes>(session, NameRequest::Attributes { path: path.clone() }).await;
        match request.action {
            FattrAction::List { with_values } => Ok(encode_fattr_list(&all().await?, with_values)),
            FattrAction::Get(names) => {
                let all = all().await?;
                let find = |name: &String| all.iter().find(|pair| pair.0 == *name).map(|pair| pair.1.clone());
                let results: Vec<_> = names
                    .into_iter()
                    .map(|name| (name.clone(), find(&name).ok_or(ErrorCode::AttrNotFound)))
                    .collect();
                Ok(encode_fattr_results(&results, true))
            }
            FattrAction::Set { is_new, pairs } => {
                let changes = pairs.into_iter().map(|(name, value)| (name, Some(value))).collect();
                self.set_attributes(session, &path, changes, is_new).await
            }
            FattrAction::Remove(names) => {
                // A path that is not there is another matter than an attribute that is not.
                all().await?;
                let changes = names.into_iter().map(|name| (name, None)).collect();
                self.set_attributes(session, &path, changes, false).await
            }
        }
    }

    async fn set_attributes(
        &self,
        session: &S::Session,
        path: &FilePath,
        changes: Vec<(String, Option<Vec<u8>>)>,
        is_new: bool,
    ) -> Result<Vec<u8>> {
        let mut results = Vec::with_capacity(changes.len());
        for (name, value) in changes {
            let is_removal = value.is_none();
            let (path, change) = (path.clone(), name.clone());
            let request = NameRequest::SetAttribute { path, name: change, value, is_new };
            let result = match self.ask(session, request).await {
                Ok(()) => Ok(Vec::new()),
                Err(failure) if failure.kind == ErrorKind::Unsupported => return Err(failure),
                Err(failure) if failure.kind == ErrorKind::NotFound && is_removal => {
                    Err(ErrorCode::AttrNotFound)
                }
                Err(failure) => Err(ErrorCode::of(failure.kind)),
            };
            results.push((name, result));
        }
        Ok(encode_fattr_results(&results, false))
    }

    /// Lists: part by part, or all at once if the first part took so long that it was announced.
    async fn list(&self, stream: StreamId, request: Dirlist) -> Result<(), SessionClosed> {
        let with_stat = request.options.intersects(DirlistOptions::STAT | DirlistOptions::CHECKSUM);
        let path = match path(&request.target) {
            Ok(path) => path,
            Err(failure) => return self.outbox.send(stream, Answer::failure(&failure)).await,
        };
        let own = match self.own_session(Some(&request.target.opaque)).await {
            Ok(own) => own,
            Err(failure) => return self.outbox.send(stream, Answer::failure(&failure)).await,
        };
        let session = own.as_ref().unwrap_or(&self.session);
        let page =
            |from| self.ask::<ListPage>(session, NameRequest::List { path: path.clone(), from, with_stat });
        let soon = self.service.config().announce_listings_after;
        // The first part waits its turn among those of the user, and the client is told so.
        let first = async {
            let turn = self.account.begin_listing().await;
            (page(None).await, turn)
        };
        let ((first, _turn), is_late) = self.soon_or_later(stream, soon, first).await?;
        let places =
            is_late.then(|| (self.account.late_listings.try_acquire(), self.late_listings.try_acquire()));
        if places.as_ref().is_some_and(|(own, all)| own.is_err() || all.is_err()) {
            let failure = Failure::busy("too many long listings are under way").hint("try again later");
            return self.outbox.send(stream, finished(stream, Answer::failure(&failure), true)).await;
        }
        let mut writer = ListingWriter::new(with_stat);
        let (mut found, mut late_body) = (first, Vec::new());
        loop {
            let ListPage { entries, next } = match found {
                Ok(page) => page,
                Err(failure) => {
                    let answer = finished(stream, Answer::failure(&failure), is_late);
                    return self.outbox.send(stream, answer).await;
                }
            };
            let is_last = next.is_none();
            let ahead = async {
                match next {
                    Some(next) => Some(page(Some(next)).await),
                    None => None,
                }
            };
            let write = async {
                let part = writer.part(&entries, is_last);
                // While it waits it is kept once.
                drop(entries);
                let answer = if is_late {
                    late_body.extend(part);
                    is_last.then(|| finished(stream, Answer::Ok(std::mem::take(&mut late_body)), true))
                } else {
                    Some(if is_last { Answer::Ok(part) } else { Answer::OkSoFar(part) })
                };
                match answer {
                    Some(answer) => self.outbox.send(stream, answer).await,
                    None => Ok(()),
                }
            };
            // The next part is asked for first, and looked up while this one is written.
            let (coming, written) = tokio::join!(biased; ahead, write);
            written?;
            let Some(coming) = coming else { return Ok(()) };
            found = if late_body.len() > LATE_LISTING_BYTES_MAX {
                Err(Failure::busy(format!("{path} is too long to be listed now")).hint("try again later"))
            } else {
                coming
            };
        }
    }
}

/// The answer itself, or the announced answer.
fn finished(stream: StreamId, answer: Answer, is_late: bool) -> Answer {
    if is_late { Answer::Later { stream, answer: Box::new(answer) } } else { answer }
}

fn no_path(what: &str) -> Failure {
    Failure::invalid(format!("{what} names neither a path nor an open file"))
}

/// What the owner of a new file may do with it, whatever the request says: clients of the field send mode 0 if their user names
/// none.
const OPEN_MODE: u32 = 0o600;
/// The same for a new directory.
const MKDIR_MODE: u32 = 0o700;

/// What the flags of an open mean (spec/xrootd.md §4.3).
pub(super) fn open_request(request: &Open) -> Result<OpenRequest> {
    let flags = request.flags;
    let for_writing =
        OpenFlags::UPDATE | OpenFlags::APPEND | OpenFlags::WRITE_ONLY | OpenFlags::NEW | OpenFlags::DELETE;
    let disposition = if flags.contains(OpenFlags::DELETE) {
        Disposition::Replace
    } else if flags.contains(OpenFlags::NEW) {
        Disposition::CreateNew
    } else {
        Disposition::Existing
    };
    if OpenFlags2(request.flags2).intersects(OpenFlags2::DUP | OpenFlags2::SAME_FILE_SYSTEM) {
        let what = format!("{}: opening a file by the handle of another is not offered", request.target.path);
        return Err(Failure::unsupported(what));
    }
    let opaque: Opaque = request.target.opaque.clone();
    Ok(OpenRequest {
        path: file_path(&request.target)?,
        opaque,
        access: if flags.intersects(for_writing) { Access::Update } else { Access::Read },
        disposition,
        make_path: flags.contains(OpenFlags::MAKE_PATH),
        is_persist_on_close: flags.contains(OpenFlags::PERSIST_ON_CLOSE),
        mode: u32::from(request.mode) & 0o777 | OPEN_MODE,
    })
}

/// Whether the answer to an open is to say what the file is.
pub(super) fn wants_stat(request: &Open) -> bool {
    request.flags.contains(OpenFlags::RETURN_STAT)
}

/// The answer to a stat.
pub(super) fn stat_answer(stat: Result<StatInfo>) -> Answer {
    match stat {
        Ok(stat) => Answer::Ok(format!("{stat}\0").into_bytes()),
        Err(failure) => Answer::failure(&failure),
    }
}
