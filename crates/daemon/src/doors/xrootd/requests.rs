//! Requests on names at the XRootD door: a row for each, with its verb in the audit log, the rights that a token needs for
//! it, and what carries it out. Adding a request adds a row.

use super::{
    DoorSession, RootDoor,
    audit::{AuditLevel, AuditedAction},
};
use crate::access::identity::Identity;
use base::{Failure, FilePath, Result};
use head::Principal;
use net::xrd::{NameReply, NameRequest, Opaque, PrepareAction, PrepareRequest};
use std::{borrow::Cow, pin::Pin};
use wire::{auth::token::Right, control};

/// What came of a request on names.
pub(super) struct Outcome {
    /// What the client is told.
    pub(super) reply: Result<NameReply>,
    /// Paths that were refused, of a request on several: clients are not told of all, the audit log is.
    pub(super) refusals: Vec<(FilePath, Failure)>,
}

impl Outcome {
    /// Why a path of the request was refused, if it was.
    fn failure_of(&self, path: &FilePath) -> Option<&Failure> {
        let own = self.refusals.iter().find(|(refused, _)| refused == path).map(|(_, failure)| failure);
        // Without refusals of single paths all of the request was refused, or nothing.
        own.or_else(|| self.reply.as_ref().err().filter(|_| self.refusals.is_empty()))
    }
}

impl<T: Into<NameReply>> From<Result<T>> for Outcome {
    fn from(reply: Result<T>) -> Self {
        Self { reply: reply.map(Into::into), refusals: Vec::new() }
    }
}

/// What a record of the audit log names.
enum Subject<'a> {
    One {
        what: Cow<'a, str>,
        to: Option<&'a FilePath>,
    },
    /// Each path has a record of its own: one may be refused where another is not.
    Each(&'a [FilePath]),
}

/// A row of the table.
struct Row<'a> {
    /// What the audit log calls the request.
    verb: &'static str,
    /// When the audit log notes it.
    weight: AuditLevel,
    /// What a token must allow. A request without a path needs a good token.
    rights: Vec<(Right, &'a FilePath)>,
    subject: Subject<'a>,
    /// What carries the request out. It does nothing before it is awaited.
    handler: Pin<Box<dyn Future<Output = Outcome> + Send + 'a>>,
}

impl<'a> Row<'a> {
    /// A request that changes something: it is noted.
    fn change<O: Into<Outcome>>(
        verb: &'static str,
        right: Right,
        path: &'a FilePath,
        handler: impl Future<Output = O> + Send + 'a,
    ) -> Self {
        Self {
            verb,
            weight: AuditLevel::Change,
            rights: vec![(right, path)],
            subject: Subject::One { what: path.as_str().into(), to: None },
            handler: Box::pin(async { handler.await.into() }),
        }
    }

    /// A request that only looks: it is noted if it is refused.
    fn look<O: Into<Outcome>>(
        verb: &'static str,
        right: Right,
        path: &'a FilePath,
        handler: impl Future<Output = O> + Send + 'a,
    ) -> Self {
        Self { weight: AuditLevel::Look, ..Self::change(verb, right, path, handler) }
    }

    /// A request on several paths.
    fn each(
        (verb, weight): (&'static str, AuditLevel),
        right: Option<Right>,
        paths: &'a [FilePath],
        handler: impl Future<Output = Outcome> + Send + 'a,
    ) -> Self {
        let rights = right.map(|right| paths.iter().map(|path| (right, path)).collect());
        let rights = rights.unwrap_or_default();
        Self { verb, weight, rights, subject: Subject::Each(paths), handler: Box::pin(handler) }
    }

    /// Says in the audit log what is changed besides the path.
    fn with(mut self, detail: impl std::fmt::Display) -> Self {
        if let Subject::One { what, .. } = &mut self.subject {
            *what = format!("{what} {detail}").into();
        }
        self
    }
}

impl RootDoor {
    /// The table.
    fn row<'a>(&'a self, who: &'a Identity, request: &'a NameRequest) -> Row<'a> {
        use NameRequest as Ask;
        let user = &who.who;
        match request {
            Ask::Stat { path, .. } => Row::look("stat", Right::Look, path, self.stat_path(user, path)),
            Ask::List { path, from, with_stat } => {
                Row::look("list", Right::List, path, self.list_page(user, path, from.clone(), *with_stat))
            }
            &Ask::Mkdir { ref path, mode, make_path: parents } => {
                let call = control::Mkdir { path: path.clone(), mode, parents };
                Row::change("mkdir", Right::MakeDirectory, path, self.call(user, call))
            }
            Ask::Remove { path } => {
                // Clients of the field take trees away with one request for each name.
                let call = control::RemoveEntry { path: path.clone() };
                Row::change("remove", Right::Modify, path, self.call(user, call))
            }
            Ask::Rmdir { path } => {
                let call = control::RemoveDirectory { path: path.clone() };
                Row::change("rmdir", Right::Modify, path, self.call(user, call))
            }
            Ask::Rename { from, to } => {
                let (right, is_new) = self.right_to_rename(who, from, to);
                let row = Row::change("rename", right, from, self.rename_path(user, from, to, is_new));
                let subject = Subject::One { what: from.as_str().into(), to: Some(to) };
                Row { rights: vec![(right, to), (right, from)], subject, ..row }
            }
            &Ask::Truncate { ref path, size } => {
                Row::change("truncate", Right::Modify, path, self.truncate_path(user, path, size))
            }
            &Ask::Chmod { ref path, mode } => {
                let call = control::SetMode { path: path.clone(), mode };
                let row = Row::change("chmod", Right::Modify, path, self.call(user, call));
                row.with(format_args!("{mode:o}"))
            }
            Ask::Checksum { path, kind } => {
                Row::look("checksum", Right::Look, path, self.checksum_of(user, path, kind))
            }
            Ask::Locate { path, local } => {
                Row::look("locate", Right::Look, path, self.locations(user, path, local))
            }
            Ask::Prepare(request) => self.prepare_row(user, request),
            Ask::PrepareStatus { id, paths } => {
                let status = self.staged(user, id, paths);
                Row::each(("prepare status", AuditLevel::Look), Some(Right::Look), paths, status)
            }
            Ask::Space { path } => {
                let row = Row::look("space", Right::Look, path, self.space_of_pools(user));
                Row { rights: Vec::new(), ..row }
            }
            Ask::Attributes { path } => {
                Row::look("attributes", Right::Look, path, self.attributes_of(user, path))
            }
            Ask::SetAttribute { path, name, value, is_new } => {
                let change = self.change_attribute(user, path, (name, value.as_deref()), *is_new);
                Row::change("set attribute", Right::Modify, path, change).with(name)
            }
        }
    }

    /// The row of a prepare, by what it asks for.
    fn prepare_row<'a>(&'a self, user: &'a Principal, request: &'a PrepareRequest) -> Row<'a> {
        let PrepareRequest { action, paths } = request;
        let (verb, weight, right) = match action {
            PrepareAction::Stage { .. } => ("stage", AuditLevel::Change, Some(Right::Stage)),
            PrepareAction::Evict => ("evict", AuditLevel::Change, Some(Right::Stage)),
            PrepareAction::Cancel(_) => ("cancel", AuditLevel::Change, None),
            PrepareAction::Touch => ("prepare", AuditLevel::Look, None),
        };
        Row::each((verb, weight), right, paths, self.prepare_files(user, action, paths))
    }

    /// Carries out a request, if the caller's token allows it; counts it, and notes it in the audit log.
    pub(super) async fn carry_out(&self, session: &DoorSession, request: &NameRequest) -> Result<NameReply> {
        let nothing = Opaque::default();
        let opaque = if let NameRequest::Stat { opaque, .. } = request { opaque } else { &nothing };
        let who = self.named(session, opaque).await;
        let who = who.unwrap_or_else(|failure| Cow::Owned(Identity::refused(failure)));
        let Row { verb, weight, rights, subject, handler } = self.row(&who, request);
        let outcome = match self.permit(&who, &rights) {
            Ok(()) => handler.await,
            Err(failure) => Err::<(), _>(failure).into(),
        };
        let action = AuditedAction { session, user: &who.who.name, verb, weight };
        self.note_outcome(&action, &subject, &outcome);
        self.counted(outcome.reply)
    }

    fn permit(&self, who: &Identity, rights: &[(Right, &FilePath)]) -> Result<()> {
        let now = self.authenticator.now();
        rights.iter().try_for_each(|(right, path)| who.may(*right, path, now))?;
        who.is_good(now)
    }

    fn note_outcome(&self, action: &AuditedAction<'_>, subject: &Subject<'_>, outcome: &Outcome) {
        match subject {
            Subject::One { what, to } => self.note(action, (what, *to), outcome.reply.as_ref().err()),
            Subject::Each([]) => {
                if let Err(failure) = &outcome.reply {
                    self.note(action, ("", None), Some(failure));
                }
            }
            Subject::Each(paths) => {
                for path in *paths {
                    self.note(action, (path.as_str(), None), outcome.failure_of(path));
                }
            }
        }
    }

    /// Which right a rename needs, and whether it may only go where nothing is: whoever may create but not modify may move
    /// what is there to such a place.
    fn right_to_rename(&self, who: &Identity, from: &FilePath, to: &FilePath) -> (Right, bool) {
        let now = self.authenticator.now();
        let may = |right| [from, to].into_iter().all(|path| who.may(right, path, now).is_ok());
        let is_new = !may(Right::Modify) && may(Right::Create);
        (if is_new { Right::Create } else { Right::Modify }, is_new)
    }
}
