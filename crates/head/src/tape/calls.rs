//! The calls of people on the tape queue.

use super::{
    classes, hopeless, reason, request_archive, request_recall,
    room::{free_object, require_reason, say_volume},
    stages::hand_over,
};
use crate::{
    Apply, Context, Core, Topic, batch,
    namespace::{Right, path_of, require, resolve_file},
    pool,
    store::RequestRow,
    waiters::Awaited,
};
use base::{Cause, Failure, FilePath, Millis, Result, Timestamp, units::counted};
use wire::control::{
    Archive, Await, AwaitAny, CancelRequests, Done, ExplainStage, FileState, PathOutcome, PathOutcomes,
    Release, RequestKind, RequestState, RetryRequest, SetVolumeState, Stage, VolumeState, Want,
};

/// Longest pin that a user can ask for.
pub(super) const PIN_MAX: Millis = Millis::from_seconds(90 * 24 * 3600);

/// What became of one path: its state, and the row of the queue that it waits for.
type Outcome = Result<(FileState, Option<RequestRow>)>;

/// Does one thing to many paths; a path that is refused does not stop the others.
fn each(
    core: &mut Core,
    context: &Context,
    paths: Vec<FilePath>,
    mut one: impl FnMut(&mut Core, &FilePath) -> Outcome,
) -> Result<PathOutcomes> {
    let outcomes: Vec<_> = paths.iter().map(|path| one(core, path)).collect();
    // Explained when all is asked for: the queue is read once, and every reason counts the others.
    let mut files = Vec::with_capacity(paths.len());
    for (path, outcome) in paths.into_iter().zip(outcomes) {
        files.push(match outcome {
            Ok((state, row)) => {
                let waits = row.map(|row| reason(core, &row, context.now)).transpose()?;
                PathOutcome::accepted(path, state, waits)
            }
            Err(failure) => PathOutcome::refused(path, failure),
        });
    }
    Ok(PathOutcomes { files })
}

impl Apply for Archive {
    fn apply(self, core: &mut Core, context: &Context) -> Result<PathOutcomes> {
        each(core, context, self.paths, |core, path| archive(core, context, path))
    }
}

fn archive(core: &mut Core, context: &Context, path: &FilePath) -> Outcome {
    let node = resolve_file(core, &context.who, path)?;
    require(core, &context.who, &node, Right::Write, path)?;
    if node.is_archived && node.is_online() {
        // Its class may want more copies than it has.
        classes::note(core, node.id)?;
    }
    let node = core.store.node(node.id)?.unwrap_or(node);
    match pool::state_of(core, &node) {
        state if state.is_archived() => Ok((state, None)),
        FileState::Lost => Err(Failure::corrupt(format!("{path} has no disk replica and no tape copy"))),
        FileState::Writing => Err(Failure::locked(format!("{path} is being written for the first time"))
            .hint("archive it when its writer has closed it")),
        state => Ok((state, Some(request_archive(core, context, &node)?))),
    }
}

impl Apply for Stage {
    fn apply(self, core: &mut Core, context: &Context) -> Result<PathOutcomes> {
        let pin = self.pin.map(|pin| context.now + pin.clamp(Millis(0), PIN_MAX));
        each(core, context, self.paths, |core, path| stage(core, context, path, pin))
    }
}

impl Apply for ExplainStage {
    fn apply(self, core: &mut Core, context: &Context) -> Result<PathOutcomes> {
        let last = core.store.last_request()?;
        let outcomes = each(core, context, self.paths, |core, path| stage(core, context, path, None))?;
        // They were in the queue for as long as it took to say what they wait for.
        core.store.delete_requests_after(last)?;
        Ok(outcomes)
    }
}

fn stage(core: &mut Core, context: &Context, path: &FilePath, pin: Option<Timestamp>) -> Outcome {
    let node = resolve_file(core, &context.who, path)?;
    require(core, &context.who, &node, Right::Read, path)?;
    if node.state() == FileState::Lost {
        return Err(Failure::corrupt(format!("{path} has no disk replica and no tape copy")));
    }
    let state = pool::state_of(core, &node);
    if state == FileState::OutOfReach {
        return Err(pool::out_of_reach(core, &node, path, context.now));
    }
    if let Some(until) = pin {
        core.store.put_pin(node.id, &pin_of(&context.who.name), Some(until))?;
    }
    let is_nearline = state == FileState::Nearline;
    let row = is_nearline.then(|| request_recall(core, context, &node)).transpose()?;
    Ok((state, row))
}

/// The name under which a user pins files.
pub(crate) fn pin_of(user: &str) -> String {
    format!("user {user}")
}

impl Apply for Release {
    fn apply(self, core: &mut Core, context: &Context) -> Result<PathOutcomes> {
        let user = match self.user {
            Some(user) if user != context.who.name => {
                context.who.require_operator("release pins of others")?;
                user
            }
            _ => context.who.name.clone(),
        };
        let until = self.after.map(|after| context.now + after.clamp(Millis(0), PIN_MAX));
        each(core, context, self.paths, |core, path| release(core, context, path, (&user, until)))
    }
}

fn release(
    core: &mut Core,
    context: &Context,
    path: &FilePath,
    (user, until): (&str, Option<Timestamp>),
) -> Outcome {
    let node = resolve_file(core, &context.who, path)?;
    if core.store.shorten_pin(node.id, &pin_of(user), until, context.now)? {
        return Ok((node.state(), None));
    }
    let others = core.store.pins(node.id, context.now)?;
    let hint = match others.first() {
        Some(holder) => format!("it is pinned by {holder}"),
        None => "nothing pins it".to_owned(),
    };
    Err(Failure::not_found(format!("user {user} does not pin {path}")).hint(hint))
}

impl Apply for CancelRequests {
    fn apply(self, core: &mut Core, context: &Context) -> Result<PathOutcomes> {
        let mut files = Vec::with_capacity(self.requests.len() + self.paths.len());
        for id in self.requests {
            let row = core.store.request(id)?.ok_or_else(|| {
                Failure::not_found(format!("tape request {id} is not in the queue"))
                    .hint("`bp queue` shows it")
            })?;
            let path = path_of(core, row.file)?;
            let outcome = cancel(core, context, &row, &path);
            files.push(outcome_of(path, outcome));
        }
        for path in self.paths {
            let outcome = cancel_path(core, context, &path);
            files.push(outcome_of(path, outcome));
        }
        Ok(PathOutcomes { files })
    }
}

fn outcome_of(path: FilePath, outcome: Result<FileState>) -> PathOutcome {
    match outcome {
        Ok(state) => PathOutcome::accepted(path, state, None),
        Err(failure) => PathOutcome::refused(path, failure),
    }
}

/// Takes back what the caller wanted of a file.
fn cancel_path(core: &mut Core, context: &Context, path: &FilePath) -> Result<FileState> {
    let node = resolve_file(core, &context.who, path)?;
    let pin = pin_of(&context.who.name);
    let was_pinned = core.store.shorten_pin(node.id, &pin, None, context.now)?;
    let rows = core.store.requests_of_file(node.id)?;
    if rows.is_empty() && !was_pinned {
        return Err(Failure::not_found(format!("{path} has no tape request and no pin of yours")));
    }
    for row in rows {
        match cancel(core, context, &row, path) {
            // The caller's own wish was the pin.
            Err(failure) if !was_pinned => return Err(failure),
            _ => {}
        }
    }
    Ok(node.state())
}

/// Takes a request out of the queue, if nobody else needs it.
fn cancel(core: &mut Core, context: &Context, row: &RequestRow, path: &FilePath) -> Result<FileState> {
    let node = core.store.node(row.file)?;
    let state = node.map_or(FileState::Lost, |node| node.state());
    if !context.who.is_operator && context.who.name != row.owner {
        let (who, id, owner) = (&context.who.name, row.id, &row.owner);
        return Err(Failure::permission(format!(
            "user {who} may not cancel tape request {id} of {owner} for {path}"
        ))
        .because(Cause::RequestOfAnother));
    }
    let own = pin_of(&row.owner);
    if row.kind == RequestKind::Recall {
        core.store.shorten_pin(row.file, &own, None, context.now)?;
    }
    let holder = match row.kind {
        RequestKind::Recall => core.store.pins(row.file, context.now)?.into_iter().next(),
        RequestKind::Archive => batch::job_archiving(core, row.file)?.map(|job| format!("job {job}")),
    };
    if let Some(holder) = holder {
        if row.kind == RequestKind::Recall && context.who.name == row.owner {
            hand_over(core, row, context.now)?;
        }
        return Err(Failure::busy(format!(
            "tape request {} for {path} continues: {holder} waits for it",
            row.id
        ))
        .because(Cause::RequestNeeded)
        .hint("it ends when no user needs it"));
    }
    free_object(core, row)?;
    core.store.delete_request(row.id)?;
    core.touch(Topic::Tape);
    core.touch(Topic::Files);
    core.touch(Topic::Jobs);
    Ok(state)
}

impl Apply for AwaitAny {
    fn apply(self, core: &mut Core, context: &Context) -> Result<PathOutcomes> {
        each(core, context, self.paths, |core, path| outcome(core, context, path, self.want))
    }
}

impl Apply for Await {
    fn apply(self, core: &mut Core, context: &Context) -> Result<PathOutcomes> {
        each(core, context, self.paths, |core, path| outcome(core, context, path, self.want))
    }
}

fn outcome(core: &Core, context: &Context, path: &FilePath, want: Want) -> Outcome {
    let node = resolve_file(core, &context.who, path)?;
    let state = pool::state_of(core, &node);
    let (is_there, kind, verb) = match want {
        Want::Online if state == FileState::OutOfReach => {
            return Err(pool::out_of_reach(core, &node, path, context.now));
        }
        Want::Online => (state.is_online(), RequestKind::Recall, "stage"),
        Want::Archived => (node.is_safe_on_tape(), RequestKind::Archive, "archive"),
    };
    if is_there {
        return Ok((state, None));
    }
    match core.store.request_of(kind, node.id)? {
        Some(row) if row.state == RequestState::Failed => Err(hopeless(&row, path)),
        Some(row) => {
            core.awaits(Awaited::File(node.id));
            core.awaits(Awaited::Hosts);
            Ok((state, Some(row)))
        }
        None => Err(Failure::invalid(format!("there is no request to {verb} {path}"))
            .hint(format!("`bp {verb} {path}` asks for it"))),
    }
}

impl Apply for SetVolumeState {
    const TOPIC: Topic = Topic::Tape;

    fn apply(self, core: &mut Core, context: &Context) -> Result<Done> {
        context.who.require_operator("change volumes")?;
        let volume = core.store.volume(&self.vid)?;
        let volume = volume.ok_or_else(|| Failure::not_found(format!("there is no volume {}", self.vid)))?;
        if self.state == VolumeState::Unread {
            let what = format!("the state of volume {} cannot be set to unread", self.vid);
            return Err(Failure::invalid(what).hint("`bp admin volume survey` reads volumes"));
        }
        if self.state == VolumeState::Blank && volume.files > 0 {
            let files = counted(volume.files, "file", "files");
            return Err(Failure::busy(format!("volume {} holds {files}", self.vid)).hint(
                "remove or copy them first: a blank volume is labelled and written from its beginning",
            ));
        }
        if self.state == VolumeState::Blank {
            if core.store.sessions()?.iter().any(|session| session.vid == self.vid) {
                return Err(Failure::busy(format!("volume {} is in use", self.vid)).hint("try again later"));
            }
            // Nothing is behind the label that will be written.
            core.store.set_append_point(&self.vid, 1, 1, 0)?;
            core.store.set_leftover(&self.vid, false)?;
        }
        require_reason(&self.reason)?;
        let reason = reason_of(&context.who.name, self.state, self.reason.trim());
        core.store.set_volume_state(&self.vid, self.state, reason.as_deref())?;
        core.store.set_expected_in(&self.vid, "")?;
        let is_lost = |state| state == VolumeState::Broken;
        if is_lost(self.state) != is_lost(volume.state) && !core.store.storage_classes()?.is_empty() {
            classes::check_all(core)?;
        }
        say_volume(core, &self.vid, self.state, reason.as_deref(), context.now);
        core.touch(Topic::Tape);
        Ok(Done {})
    }
}

/// What is shown as the reason for a state. A plain one needs none: an appendable or a full volume is as it should be.
fn reason_of(who: &str, state: VolumeState, reason: &str) -> Option<String> {
    match (state, reason) {
        (VolumeState::Blank | VolumeState::Appendable | VolumeState::Full, "") => None,
        (_, "") => Some(format!("set by {who}")),
        // A full volume with a reason is one whose content is in doubt.
        (VolumeState::Full, _) => None,
        (_, reason) => Some(format!("set by {who}: {reason}")),
    }
}

impl Apply for RetryRequest {
    fn apply(self, core: &mut Core, context: &Context) -> Result<Done> {
        let row = core.store.request(self.request)?;
        let mut row = row.ok_or_else(|| {
            Failure::not_found(format!("tape request {} is not in the queue", self.request))
        })?;
        if !context.who.is_operator && context.who.name != row.owner {
            let (who, request, owner) = (&context.who.name, self.request, &row.owner);
            return Err(Failure::permission(format!(
                "user {who} may not retry tape request {request} of {owner}"
            )));
        }
        if row.state == RequestState::Active {
            return Err(Failure::busy(format!("tape request {} is being carried out", self.request)));
        }
        row.state = RequestState::Queued;
        row.attempts = 0;
        row.not_before = context.now;
        core.store.set_request_waiting(&row)?;
        core.touch(Topic::Tape);
        core.touch(Topic::Jobs);
        Ok(Done {})
    }
}
