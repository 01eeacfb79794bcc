//! `prepare`: staging, evicting, taking wishes back, and what has become of them.

use super::{DoorSession, RootDoor};
use base::{ErrorKind, Failure, FilePath, Millis, Result};
use head::{Apply, Principal};
use net::xrd::{PrepareAction, PrepareRequest};
use wire::{
    auth::token::Right,
    control::{self, FileState, PathOutcomes},
};

/// How long a stage by `prepare` keeps its files on disk.
const PREPARE_PIN: Millis = Millis::from_seconds(24 * 3600);

/// What came of a prepare. The answer may be good though some paths were refused: clients are not told of all, the audit log is.
pub(super) struct Prepared {
    /// What the client is told.
    pub(super) answer: Result<String>,
    refusals: Vec<(FilePath, Failure)>,
}

impl From<Result<String>> for Prepared {
    fn from(answer: Result<String>) -> Self {
        Self { answer, refusals: Vec::new() }
    }
}

impl Prepared {
    /// Why a path of the request was refused, if it was.
    pub(super) fn failure_of(&self, path: &FilePath) -> Option<&Failure> {
        let own = self.refusals.iter().find(|(refused, _)| refused == path).map(|(_, failure)| failure);
        // Without refusals of single paths all of the request was refused, or nothing.
        own.or_else(|| self.answer.as_ref().err().filter(|_| self.refusals.is_empty()))
    }

    /// The answer is `id`, unless `is_told` of a refusal.
    fn of(outcomes: PathOutcomes, id: String, is_told: impl Fn(&Failure) -> bool) -> Self {
        let is_one = outcomes.files.len() == 1;
        let refused = outcomes.files.into_iter().filter_map(|file| Some((file.path, file.failure?)));
        let refusals: Vec<_> = refused.collect();
        let told = refusals.iter().map(|(_, failure)| failure).find(|failure| is_told(failure)).cloned();
        // Other paths are here, perhaps.
        Self { answer: told.map_or(Ok(id), |failure| Err(failure.only_here(!is_one))), refusals }
    }
}

impl RootDoor {
    /// Carries out a prepare, if all of its paths may be.
    pub(super) async fn prepare_each(&self, session: &DoorSession, request: PrepareRequest) -> Prepared {
        match self.may_prepare(session, &request) {
            Ok(who) => self.prepare_files(who, request).await.unwrap_or_else(|failure| Err(failure).into()),
            Err(failure) => Err(failure).into(),
        }
    }

    /// Whose session it is, if they have proven it; what comes of it is counted by the caller.
    fn good<'a>(&self, session: &'a DoorSession) -> Result<&'a Principal> {
        session.identity.is_good(self.gate.now()).map(|()| &session.identity.who)
    }

    fn may_prepare<'a>(&self, session: &'a DoorSession, request: &PrepareRequest) -> Result<&'a Principal> {
        if matches!(request.action, PrepareAction::Stage { .. } | PrepareAction::Evict) {
            for path in &request.paths {
                self.allows(&session.identity, Right::Stage, path)?;
            }
        }
        self.good(session)
    }

    async fn prepare_files(&self, who: &Principal, request: PrepareRequest) -> Result<Prepared> {
        let paths = request.paths;
        match request.action {
            PrepareAction::Stage { .. } => {
                let stage = control::Stage { paths, pin: Some(PREPARE_PIN) };
                Ok(Prepared::of(self.each(who, stage).await?, self.prepare_id(), |_| true))
            }
            PrepareAction::Cancel(id) => {
                self.require_own(&id)?;
                self.cancel_prepare(who, paths).await
            }
            PrepareAction::Evict => self.evict(who, paths).await,
            PrepareAction::Touch => Ok(Ok(String::new()).into()),
        }
    }

    async fn each<C: Apply<Reply = PathOutcomes>>(&self, who: &Principal, call: C) -> Result<PathOutcomes> {
        self.files.head()?.call(who, call).await
    }

    /// Lets go of the caller's pins and drops what is on tape. That a file stays which has no other copy is no failure, as clients
    /// evict whatever they have read; that others keep it on disk is said if nothing has left.
    async fn evict(&self, who: &Principal, paths: Vec<FilePath>) -> Result<Prepared> {
        let outcomes = self.each(who, control::Evict { paths, releases: true }).await?;
        let has_left = outcomes.files.iter().any(|file| file.failure.is_none());
        Ok(Prepared::of(outcomes, String::new(), |failure| match failure.kind {
            ErrorKind::Busy => !has_left && failure.what.contains(" is pinned by "),
            _ => true,
        }))
    }

    /// Takes back what the caller has staged. What is not wanted any more, or never was, is no failure: that is what is asked for.
    async fn cancel_prepare(&self, who: &Principal, paths: Vec<FilePath>) -> Result<Prepared> {
        let cancel = control::CancelRequests { requests: Vec::new(), paths };
        Ok(Prepared::of(self.each(who, cancel).await?, String::new(), |failure| {
            !matches!(failure.kind, ErrorKind::NotFound | ErrorKind::Busy | ErrorKind::Locked)
                && !failure.what.contains("may not cancel")
        }))
    }

    /// Names a request to stage: by this facility and the time.
    fn prepare_id(&self) -> String {
        format!("{}:{:x}", self.config.sitename, self.gate.now().0)
    }

    /// Refuses the ids of other servers as the servers of the field do.
    fn require_own(&self, id: &str) -> Result<()> {
        let is_number = |text: &str| i64::from_str_radix(text, 16).is_ok();
        match id.rsplit_once(':') {
            Some((site, number)) if site == self.config.sitename && is_number(number) => Ok(()),
            _ if id.is_empty() => Err(Failure::invalid("prepare request id is not specified")),
            _ => Err(Failure::invalid(format!("prepare request {id:?} is owned by an unknown server"))
                .hint("use the id that `prepare -s` has printed")),
        }
    }

    /// Tells the state of staged files, if all of them may be looked at.
    pub(super) async fn staged_each(&self, session: &DoorSession, id: &str, paths: &[FilePath]) -> Prepared {
        let may_look = || {
            paths.iter().try_for_each(|path| self.allows(&session.identity, Right::Look, path).map(drop))?;
            self.good(session)
        };
        match may_look() {
            Ok(who) => self.staged(who, id, paths).await,
            Err(failure) => Err(failure).into(),
        }
    }

    /// State of staged files, in the JSON that clients of tape systems read.
    async fn staged(&self, who: &Principal, id: &str, paths: &[FilePath]) -> Prepared {
        let (mut responses, mut refusals) = (Vec::new(), Vec::new());
        for path in paths {
            let info = self.info(who, path).await;
            let state = info.as_ref().ok().and_then(|info| info.entry.state);
            responses.push(serde_json::json!({
                "path": path.as_str(),
                "path_exists": info.is_ok(),
                "on_tape": state.is_some_and(FileState::is_archived),
                "online": state.is_some_and(FileState::is_online),
                "requested": info.as_ref().is_ok_and(|info| info.waits.is_some()),
                "error_text": info.as_ref().err().map(|failure| failure.what.clone()).unwrap_or_default(),
            }));
            refusals.extend(info.err().map(|failure| (path.clone(), failure)));
        }
        let answer = serde_json::json!({ "request_id": id, "responses": responses }).to_string();
        Prepared { answer: Ok(answer), refusals }
    }
}
