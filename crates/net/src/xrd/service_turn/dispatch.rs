//! Carries requests out: at once, or as calls.

use super::{Phase, Session};
use crate::xrd::{
    OpenFile, Service,
    calls::{self, Context},
    session::End,
    setting,
};
use base::FilePath;
use std::{sync::Arc, time::Instant};
use wire::xrd::{Answer, FileHandle, QueryCode, Request, Stat, StreamId, Subject};

impl<S: Service> Session<S> {
    pub(super) fn dispatch(&mut self, stream: StreamId, request: Request) -> Result<(), End> {
        tracing::trace!(stream = stream.number(), request = ?request.code(), "request");
        if let Request::Sigver(signature) = request {
            // It has no answer: that of the request which it signs is enough.
            self.signing.keep(signature);
            return Ok(());
        }
        match &self.phase {
            Phase::Open(_) if !self.is_proven && has_data(&request) => Err(self.refuse_early_data(stream)),
            Phase::Open(context) => {
                let context = Arc::clone(context);
                self.carry_out(&context, stream, request);
                Ok(())
            }
            Phase::Bound(_) => Err(End::Stranger),
            Phase::Handshake | Phase::Greeting => self.greet(stream, request),
        }
    }

    fn carry_out(&mut self, context: &Arc<Context<S>>, stream: StreamId, request: Request) {
        match request {
            Request::Read(request) => self.read(context, stream, &request),
            Request::Pgread(request) => self.read_pages(context, stream, &request),
            Request::Readv(request) => self.read_vector(context, stream, request),
            Request::Write(request) => self.write(context, stream, &request),
            Request::Pgwrite(request) => self.write_pages(context, stream, &request),
            Request::Writev(request) => self.write_vector(context, stream, &request),
            Request::Close(handle) => self.close_file(context, stream, handle),
            Request::Sync(handle)
                if context.handles.get(handle).is_ok_and(|handle| handle.file.syncs_slowly()) =>
            {
                self.call(context, stream, request);
            }
            Request::Sync(handle) => {
                let done = context.on_file(handle, false, |handle| handle.sync().map(|()| Vec::new()));
                self.answer(stream, &done);
            }
            Request::Truncate(ref inner) if let Subject::Handle(handle) = inner.subject => {
                let size = inner.size;
                let truncate = |handle: &crate::xrd::handles::Handle<S::File>| {
                    handle.file.truncate(size).map(|()| Vec::new())
                };
                let done = context.on_file(handle, true, truncate);
                self.answer(stream, &done);
            }
            Request::Stat(ref inner) => match self.stat_now(context, inner) {
                Some(answer) => self.answer(stream, &answer),
                None => self.call(context, stream, request),
            },
            Request::Query(ref inner) if inner.code == QueryCode::OpaqueFile => {
                let done = context.query_file(inner);
                self.answer(stream, &done);
            }
            Request::Open(open) => self.open(context, stream, open),
            Request::Ping => self.answer(stream, &Answer::Ok(Vec::new())),
            Request::Set(setting) => self.answer(stream, &setting::answer(&setting)),
            Request::Endsess(id) => {
                let is_ours = self.entry.as_ref().is_some_and(|entry| *entry.id() == id);
                // One that has already ended, or was never here, is what is asked for: clients end sessions of connections that
                // broke, perhaps after a restart. Servers of the field answer so, too.
                if !is_ours {
                    self.registry.end(&id);
                }
                self.answer(stream, &Answer::Ok(Vec::new()));
            }
            Request::Protocol(_) | Request::Bind(_) | Request::Login(_) | Request::Auth(_) => {
                let answer = self.after_login(&request);
                self.answer(stream, &answer);
            }
            request => self.call(context, stream, request),
        }
    }

    /// Attributes of an open file, or of a path if the service knows them at once.
    fn stat_now(&mut self, context: &Context<S>, stat: &Stat) -> Option<Answer> {
        match &stat.subject {
            _ if stat.is_filesystem => None,
            Subject::Handle(handle) => Some(
                context
                    .on_file(*handle, false, |handle| Ok(format!("{}\0", handle.file.stat()?).into_bytes())),
            ),
            Subject::Path(target) => {
                // Whether a directory is there, as the path says, takes longer.
                let path: FilePath = target.path.parse().ok().filter(|_| !target.names_directory())?;
                let started = Instant::now();
                let stat = self.service.stat_now(&context.session, &path, &target.opaque)?;
                self.counters.request_times.note(started.elapsed());
                Some(calls::stat_answer(stat))
            }
        }
    }

    /// Closes after everything that was asked before; the commit runs beside what follows.
    fn close_file(&mut self, context: &Arc<Context<S>>, stream: StreamId, handle: FileHandle) {
        let refused = context.handles.get(handle).map(|handle| handle.refuse_close());
        let taken = match refused {
            Ok(Some(answer)) => Err(answer),
            Ok(None) => context.handles.remove(handle),
            Err(answer) => Err(answer),
        };
        match taken {
            Ok(handle) if !handle.is_writable => self.answer(stream, &Answer::Ok(Vec::new())),
            Ok(handle) => {
                let work = calls::close(Arc::clone(context), stream, handle);
                // Counted as a call, so that this session waits for the answer and not only for the peer.
                let task = context.tasks.spawn("xrootd close", work);
                self.calls.spawn(async move {
                    // A close that ended badly was logged where it happened.
                    let _ = task.await;
                });
                self.transport.set_hurry(true);
            }
            Err(answer) => self.answer(stream, &answer),
        }
    }
}

/// Whether file data follow a request.
fn has_data(request: &Request) -> bool {
    matches!(request, Request::Write(_) | Request::Pgwrite(_) | Request::Writev(_))
}
