//! The calls of people on the tape queue.

use super::{hopeless, reason, request_archive, request_recall};
use crate::{
    Apply, Context, Core, Topic,
    namespace::{Right, require, resolve_file},
    store::RequestRow,
    waiters::Awaited,
};
use base::{Failure, FilePath, Millis, Result, Timestamp};
use wire::control::{
    Archive, Await, Done, EnableDrive, FileState, PathOutcome, PathOutcomes, RequestKind, RequestState,
    RetryRequest, SetVolumeState, Stage, VolumeState, Want,
};

/// Longest pin that a user can ask for.
const PIN_MAX: Millis = Millis::from_seconds(90 * 24 * 3600);

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
                PathOutcome { path, state: Some(state), waits, failure: None }
            }
            Err(failure) => PathOutcome { path, state: None, waits: None, failure: Some(failure) },
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
    match node.state() {
        state if state.is_archived() => Ok((state, None)),
        FileState::Lost => Err(Failure::corrupt(format!("{path} has neither replica nor copy"))),
        FileState::Writing => Err(Failure::busy(format!("{path} is being written for the first time"))
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

fn stage(core: &mut Core, context: &Context, path: &FilePath, pin: Option<Timestamp>) -> Outcome {
    let node = resolve_file(core, &context.who, path)?;
    require(core, &context.who, &node, Right::Read, path)?;
    if node.state() == FileState::Lost {
        return Err(Failure::corrupt(format!("{path} has neither replica nor copy")));
    }
    if let Some(until) = pin {
        core.store.put_pin(node.id, &format!("user {}", context.who.name), Some(until))?;
    }
    let is_nearline = node.state() == FileState::Nearline;
    let row = is_nearline.then(|| request_recall(core, context, &node)).transpose()?;
    Ok((node.state(), row))
}

impl Apply for Await {
    fn apply(self, core: &mut Core, context: &Context) -> Result<PathOutcomes> {
        each(core, context, self.paths, |core, path| outcome(core, context, path, self.want))
    }
}

fn outcome(core: &Core, context: &Context, path: &FilePath, want: Want) -> Outcome {
    let node = resolve_file(core, &context.who, path)?;
    let (is_there, kind, verb) = match want {
        Want::Online => (node.is_online(), RequestKind::Recall, "stage"),
        Want::Archived => (node.is_archived, RequestKind::Archive, "archive"),
    };
    if is_there {
        return Ok((node.state(), None));
    }
    match core.store.request_of(kind, node.id)? {
        Some(row) if row.state == RequestState::Failed => Err(hopeless(&row, path)),
        Some(row) => {
            core.awaits(Awaited::File(node.id));
            Ok((node.state(), Some(row)))
        }
        None => Err(Failure::invalid(format!("nobody asked to {verb} {path}"))
            .hint(format!("`bp {verb} {path}` asks for it"))),
    }
}

impl Apply for SetVolumeState {
    const TOPIC: Topic = Topic::Tape;

    fn apply(self, core: &mut Core, context: &Context) -> Result<Done> {
        context.who.require_operator("change volumes")?;
        let volume = core.store.volume(&self.vid)?;
        let volume = volume.ok_or_else(|| Failure::not_found(format!("volume {} is not known", self.vid)))?;
        if self.state == VolumeState::Unread {
            let what = format!("volume {} cannot be said to be unread", self.vid);
            return Err(Failure::invalid(what).hint("`bp admin volume survey` has volumes read"));
        }
        if self.state == VolumeState::Blank && volume.files > 0 {
            return Err(Failure::busy(format!("volume {} holds {} files", self.vid, volume.files)).hint(
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
        let reason = (self.state == VolumeState::Suspect).then(|| format!("set by {}", context.who.name));
        core.store.set_volume_state(&self.vid, self.state, reason.as_deref())?;
        core.touch(Topic::Tape);
        Ok(Done {})
    }
}

impl Apply for EnableDrive {
    fn apply(self, core: &mut Core, context: &Context) -> Result<Done> {
        context.who.require_operator("change drives")?;
        if !core.store.set_drive_trouble(&self.drive, None)? {
            return Err(Failure::not_found(format!("drive {} is not known", self.drive))
                .hint("`bp drives` lists them"));
        }
        core.touch(Topic::Tape);
        Ok(Done {})
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
            return Err(Failure::busy(format!("tape request {} is being done", self.request)));
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
