//! `prepare`: staging, evicting, cancelling, and the state of requests.

use super::{RootDoor, requests::Outcome};
use base::{Cause, ErrorKind, Failure, FilePath, Millis, Result};
use head::{Apply, Principal};
use net::xrd::PrepareAction;
use wire::control::{self, FileState, PathOutcomes, Want};

/// How long a stage by `prepare` keeps its files on disk.
const PREPARE_PIN: Millis = Millis::from_seconds(24 * 3600);

impl Outcome {
    /// The answer is `id`, unless `is_told` of a refusal.
    fn of_paths(outcomes: PathOutcomes, id: String, is_told: impl Fn(&Failure) -> bool) -> Self {
        let is_one = outcomes.files.len() == 1;
        let refused = outcomes.files.into_iter().filter_map(|file| Some((file.path, file.failure?)));
        let refusals: Vec<_> = refused.collect();
        let told = refusals.iter().map(|(_, failure)| failure).find(|failure| is_told(failure)).cloned();
        // Other paths are here, perhaps.
        let reply = told.map_or(Ok(id.into()), |failure| Err(failure.only_here(!is_one)));
        Self { reply, refusals }
    }
}

impl RootDoor {
    /// Carries out a prepare.
    pub(super) async fn prepare_files(
        &self,
        who: &Principal,
        action: &PrepareAction,
        paths: &[FilePath],
    ) -> Outcome {
        let outcome = match action {
            PrepareAction::Stage { .. } => self.stage(who, paths.to_vec()).await,
            PrepareAction::Cancel(id) => self.cancel_prepare(who, id, paths.to_vec()).await,
            PrepareAction::Evict => self.evict(who, paths.to_vec()).await,
            PrepareAction::Touch => Ok(Ok(String::new()).into()),
        };
        outcome.unwrap_or_else(|failure| Err::<(), _>(failure).into())
    }

    async fn each<C: Apply<Reply = PathOutcomes>>(&self, who: &Principal, call: C) -> Result<PathOutcomes> {
        self.files.head()?.call(who, call).await
    }

    async fn stage(&self, who: &Principal, paths: Vec<FilePath>) -> Result<Outcome> {
        let stage = control::Stage { paths, pin: Some(PREPARE_PIN) };
        Ok(Outcome::of_paths(self.each(who, stage).await?, self.prepare_id(), |_| true))
    }

    /// Lets go of the caller's pins and drops what is on tape. Clients evict whatever they have read: that some files stay, because
    /// others pin them or because they have no tape copy, is a failure only if no file has left the disk.
    async fn evict(&self, who: &Principal, paths: Vec<FilePath>) -> Result<Outcome> {
        let outcomes = self.each(who, control::Evict { paths, releases: true }).await?;
        let has_left = outcomes.files.iter().any(|file| file.failure.is_none());
        Ok(Outcome::of_paths(outcomes, String::new(), |failure| match failure.cause {
            Some(Cause::NoTapeCopy | Cause::PinnedByOthers | Cause::PinnedByCaller) => !has_left,
            _ => true,
        }))
    }

    /// Takes back what the caller has staged. What is not wanted any more, or never was, is no failure: that is what is asked for.
    async fn cancel_prepare(&self, who: &Principal, id: &str, paths: Vec<FilePath>) -> Result<Outcome> {
        self.require_own(id)?;
        let cancel = control::CancelRequests { requests: Vec::new(), paths };
        Ok(Outcome::of_paths(self.each(who, cancel).await?, String::new(), |failure| {
            !matches!(failure.kind, ErrorKind::NotFound | ErrorKind::Busy | ErrorKind::Locked)
                && failure.cause != Some(Cause::RequestOfAnother)
        }))
    }

    /// Names a request to stage: by this facility and the time.
    fn prepare_id(&self) -> String {
        format!("{}:{:x}", self.config.sitename, self.authenticator.now().0)
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

    /// State of staged files, in the JSON that clients of tape systems read.
    pub(super) async fn staged(&self, who: &Principal, id: &str, paths: &[FilePath]) -> Outcome {
        let (mut responses, mut refusals) = (Vec::new(), Vec::new());
        // Pins are kept by user, not by request: that the id is one of ours is all that can be said of it.
        let asked_s = self.require_own(id).ok().and_then(|()| asked_s(id));
        for path in paths {
            let info = self.info(who, path).await;
            let state = info.as_ref().ok().and_then(|info| info.entry.state);
            let (is_requested, why) = match &info {
                Ok(info) if info.waits.is_some() => self.recall_of(who, path).await,
                Ok(_) => (false, String::new()),
                Err(failure) => (false, failure.what.clone()),
            };
            responses.push(serde_json::json!({
                "path": path.as_str(),
                "path_exists": info.is_ok(),
                "on_tape": state.is_some_and(FileState::is_archived),
                "online": state.is_some_and(FileState::is_online),
                "requested": is_requested,
                "has_reqid": is_requested && asked_s.is_some(),
                "req_time": asked_s.filter(|_| is_requested).map_or_else(String::new, |at| at.to_string()),
                "error_text": why,
            }));
            refusals.extend(info.err().map(|failure| (path.clone(), failure)));
        }
        let answer = serde_json::json!({ "request_id": id, "responses": responses }).to_string();
        Outcome { reply: Ok(answer.into()), refusals }
    }

    /// Whether the recall of a file is in the queue, and why it has failed, if it has.
    async fn recall_of(&self, who: &Principal, path: &FilePath) -> (bool, String) {
        let call = control::Await { paths: vec![path.clone()], want: Want::Online };
        let outcome = self.each(who, call).await;
        match outcome.map(|outcomes| outcomes.files.into_iter().next()) {
            Ok(Some(file)) => match file.failure {
                // It is archived, and was not asked for.
                Some(failure) if failure.kind == ErrorKind::Invalid => (false, String::new()),
                Some(failure) => (true, failure.what),
                None => (file.waits.is_some(), String::new()),
            },
            Ok(None) => (false, String::new()),
            Err(failure) => (false, failure.what),
        }
    }
}

/// The time in an id of ours, in seconds.
fn asked_s(id: &str) -> Option<i64> {
    let (_, number) = id.rsplit_once(':')?;
    i64::from_str_radix(number, 16).ok().map(|ms| ms / 1000)
}
