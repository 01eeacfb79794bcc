//! Stage requests: the outcome of each file is decided where its recall ends, and written in the same transaction.
//!
//! A request pins each of its files under its own name, so a user's cancellation never takes a file from another user.
//! The pin has no end until the file is on disk; then it lasts for the file's lifetime.

use super::{calls::PIN_MAX, hopeless, request_recall, room::free_object};
use crate::{
    Apply, Context, Core, Topic,
    namespace::{Right, require, resolve_file},
    pool,
    store::{Node, RequestRow, StageFileRow, StageRequestRow},
    waiters::Awaited,
};
use base::{Failure, FileId, FilePath, Millis, Result, Timestamp, units::counted};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap, btree_map::Entry},
    sync::Arc,
};
use wire::control::{
    CancelStageFiles, DeleteStageRequest, Done, EventType, FileState, GetStageRequest, ReleaseStageFiles,
    RequestKind, RequestState, STAGE_FILES_KEPT_MAX, STAGE_FILES_MAX, STAGE_LIFETIME_DEFAULT,
    STAGE_METADATA_BYTES_MAX, STAGE_REQUEST_KEPT, STAGE_REQUESTS_MAX, StageFile, StageOutcome,
    StageRequestId, StageRequestInfo, StageRequestSubmitted, StageState, StagedFile, SubmitStageRequest,
};

/// Old requests that one new one takes away: each new one makes room for more than itself.
const FORGOTTEN_MAX: usize = 100;

/// The name under which a request pins its files.
fn holder(id: StageRequestId) -> String {
    format!("stage request {id}")
}

/// The user behind the name of a pin; none: a job, which ends its pins itself.
pub(super) fn user_behind(core: &Core, holder: &str) -> Result<Option<String>> {
    if let Some(user) = holder.strip_prefix("user ") {
        return Ok(Some(user.to_owned()));
    }
    let request = request_behind(holder).map(|id| core.store.stage_request(id)).transpose()?.flatten();
    Ok(request.map(|request| request.owner))
}

/// The stage request behind the name of a pin, if it is one.
fn request_behind(holder: &str) -> Option<StageRequestId> {
    holder.strip_prefix("stage request ")?.parse().ok().map(StageRequestId)
}

/// How the recall of a file ended, for the stage requests that have it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum StageEnd<'a> {
    /// It can be read from disk.
    Online,
    /// It cannot be had.
    Failed(&'a str),
}

/// A recall has ended: stage requests that wait for the file are told, and keep it on disk or let go of it.
pub(crate) fn stage_ended(core: &mut Core, file: FileId, end: StageEnd<'_>, now: Timestamp) -> Result<()> {
    for row in core.store.open_stages_of(file)? {
        let (state, error, until) = match end {
            StageEnd::Online => (StageState::Completed, None, Some(now + row.staged.lifetime)),
            StageEnd::Failed(why) => (StageState::Failed, Some(why), None),
        };
        core.store.shorten_pin(file, &holder(row.request), until, now)?;
        core.store.end_stage_file(&row, state, error, now)?;
        complete(core, row.request, now)?;
    }
    Ok(())
}

/// Notes that a request is over, if it is.
fn complete(core: &mut Core, id: StageRequestId, now: Timestamp) -> Result<()> {
    if core.store.complete_stage_request(id, now)? {
        core.say(now, EventType::StageDone, id, format!("stage request {id} is over"));
    }
    Ok(())
}

impl Apply for SubmitStageRequest {
    fn apply(self, core: &mut Core, context: &Context) -> Result<StageRequestSubmitted> {
        if self.files.is_empty() || self.files.len() > STAGE_FILES_MAX {
            let files = counted(self.files.len() as u64, "file", "files");
            return Err(Failure::invalid(format!(
                "a stage request names 1 to {STAGE_FILES_MAX} files, not {files}"
            ))
            .hint("send several requests"));
        }
        make_room(core, self.files.len() as u64, context.now)?;
        let id = core.store.insert_stage_request(&context.who.name, self.files.len(), context.now)?;
        let (mut known, mut files) = (BTreeSet::new(), Vec::with_capacity(self.files.len()));
        for (number, file) in self.files.into_iter().enumerate() {
            let parsed = file.path.parse::<FilePath>();
            if parsed.as_ref().is_ok_and(|path| !known.insert(path.clone())) {
                files.push(StageOutcome { failure: None });
                continue;
            }
            let (row, failure) = submit(core, context, (id, number), file, parsed);
            core.store.insert_stage_file(&row)?;
            files.push(StageOutcome { failure });
        }
        complete(core, id, context.now)?;
        Ok(StageRequestSubmitted { id, files })
    }
}

/// Forgets requests that were over long ago, and younger ones if there are too many.
fn make_room(core: &mut Core, files: u64, now: Timestamp) -> Result<()> {
    let long_ago = Timestamp(now.0 - STAGE_REQUEST_KEPT.0);
    for id in core.store.stage_requests_over(long_ago, FORGOTTEN_MAX)? {
        core.store.delete_stage_request(id)?;
    }
    let has_room = |core: &Core| -> Result<bool> {
        let (requests, kept) = core.store.stage_counts()?;
        Ok(requests < STAGE_REQUESTS_MAX && kept + files <= STAGE_FILES_KEPT_MAX)
    };
    if has_room(core)? {
        return Ok(());
    }
    for id in core.store.stage_requests_over(now, FORGOTTEN_MAX)? {
        core.store.delete_stage_request(id)?;
    }
    if has_room(core)? {
        return Ok(());
    }
    Err(Failure::unavailable(format!(
        "{STAGE_REQUESTS_MAX} stage requests, or {STAGE_FILES_KEPT_MAX} files of them, are kept and not over"
    ))
    .hint("try again later, or delete requests that are not needed"))
}

/// Asks for one file; what is refused fails alone.
fn submit(
    core: &mut Core,
    context: &Context,
    (request, number): (StageRequestId, usize),
    file: StageFile,
    path: Result<FilePath>,
) -> (StageFileRow, Option<Failure>) {
    let lifetime = file.lifetime.unwrap_or(STAGE_LIFETIME_DEFAULT).clamp(Millis(0), PIN_MAX);
    let asked = match (&file.refused, path) {
        (Some(why), _) => Err(Failure::permission(why.clone())),
        (None, Err(failure)) => Err(failure),
        (None, Ok(path)) => ask(core, context, &path, (request, lifetime)),
    };
    let metadata = file.metadata.filter(|text| text.len() <= STAGE_METADATA_BYTES_MAX);
    let (file_id, state, failure) = match asked {
        Ok((node, state)) => (Some(node), state, None),
        Err(failure) => (None, StageState::Failed, Some(failure)),
    };
    let error = failure.as_ref().map(|failure| failure.what.clone());
    let now = context.now;
    let started = (state != StageState::Submitted).then_some(now);
    let finished = state.is_over().then_some(now);
    let staged = StagedFile { path: file.path, state, error, metadata, lifetime, started, finished };
    (StageFileRow { request, number, file: file_id, staged }, failure)
}

/// Pins a file, and asks for its recall if it is on tape only.
fn ask(
    core: &mut Core,
    context: &Context,
    path: &FilePath,
    (request, lifetime): (StageRequestId, Millis),
) -> Result<(FileId, StageState)> {
    let node = resolve_file(core, &context.who, path)?;
    require(core, &context.who, &node, Right::Read, path)?;
    let pin = |core: &Core, until| core.store.put_pin(node.id, &holder(request), until);
    match pool::state_of(core, &node) {
        FileState::Lost => Err(Failure::corrupt(format!("{path} has no disk replica and no tape copy"))),
        FileState::Writing => Err(Failure::locked(format!("{path} is being written for the first time"))),
        FileState::OutOfReach => Err(pool::out_of_reach(core, &node, path, context.now)),
        FileState::Live | FileState::Online | FileState::Both => {
            pin(core, Some(context.now + lifetime))?;
            Ok((node.id, StageState::Completed))
        }
        FileState::Nearline => {
            let row = request_recall(core, context, &node)?;
            if row.state == RequestState::Failed {
                return Err(hopeless(&row, path));
            }
            pin(core, None)?;
            let is_active = row.state == RequestState::Active;
            Ok((node.id, if is_active { StageState::Started } else { StageState::Submitted }))
        }
    }
}

/// A request of the caller; operators see those of all.
fn own(core: &Core, context: &Context, id: StageRequestId) -> Result<StageRequestRow> {
    let row = core.store.stage_request(id)?.ok_or_else(|| {
        Failure::not_found(format!("there is no stage request {id}"))
            .hint("it was deleted, or its last file was over a week ago")
    })?;
    if row.owner != context.who.name && !context.who.is_operator {
        return Err(Failure::permission(format!(
            "stage request {id} belongs to {}, not to {}",
            row.owner, context.who.name
        )));
    }
    Ok(row)
}

impl Apply for GetStageRequest {
    fn apply(self, core: &mut Core, context: &Context) -> Result<StageRequestInfo> {
        let StageRequestRow { id, owner, created, completed } = own(core, context, self.id)?;
        let files = core.store.stage_files(id)?.into_iter().map(|row| row.staged).collect();
        core.awaits(Awaited::Stage(id));
        Ok(StageRequestInfo { id, owner, created, completed, files })
    }
}

/// Refuses more paths than a request can have.
fn require_few(paths: &[String]) -> Result<()> {
    if paths.len() <= STAGE_FILES_MAX {
        return Ok(());
    }
    Err(Failure::invalid(format!("{} paths are more than {STAGE_FILES_MAX}", paths.len()))
        .hint("nothing was changed; send several requests"))
}

/// A path as files of a request are compared: one that is not valid is only itself.
fn plain(path: &str) -> String {
    path.parse::<FilePath>().map_or_else(|_| path.to_owned(), |path| path.to_string())
}

/// The files of a request that are named; refused if one of them is not part of it.
fn named(core: &Core, id: StageRequestId, paths: &[String]) -> Result<Vec<StageFileRow>> {
    require_few(paths)?;
    let files = core.store.stage_files(id)?.into_iter();
    let files: HashMap<_, _> = files.map(|row| (plain(&row.staged.path), row)).collect();
    let find = |path: &String| {
        files.get(&plain(path)).cloned().ok_or_else(|| {
            Failure::invalid(format!("{path} does not belong to stage request {id}"))
                .hint("nothing was changed; name only files of the request")
        })
    };
    paths.iter().map(find).collect()
}

impl Apply for CancelStageFiles {
    fn apply(self, core: &mut Core, context: &Context) -> Result<Done> {
        let request = own(core, context, self.id)?;
        let files = named(core, self.id, &self.paths)?;
        let_go_of(core, &request, &files, context.now)?;
        Ok(Done {})
    }
}

impl Apply for DeleteStageRequest {
    fn apply(self, core: &mut Core, context: &Context) -> Result<Done> {
        let request = own(core, context, self.id)?;
        let files = core.store.stage_files(self.id)?;
        let_go_of(core, &request, &files, context.now)?;
        core.store.delete_stage_request(self.id)?;
        Ok(Done {})
    }
}

impl Apply for ReleaseStageFiles {
    fn apply(self, core: &mut Core, context: &Context) -> Result<Done> {
        let Some(id) = self.id else {
            release_any(core, context, &self.paths)?;
            return Ok(Done {});
        };
        let request = own(core, context, id)?;
        let files = named(core, id, &self.paths)?;
        let_go_of(core, &request, &files, context.now)?;
        Ok(Done {})
    }
}

/// Lets go of files for all requests of the caller. That no request has one is no failure: it is what was asked for.
fn release_any(core: &mut Core, context: &Context, paths: &[String]) -> Result<()> {
    require_few(paths)?;
    let (owner, now) = (&context.who.name, context.now);
    // Each request is read once, however many of its files are released.
    let mut requests: BTreeMap<StageRequestId, HashMap<FileId, StageFileRow>> = BTreeMap::new();
    for path in paths {
        let node = resolve_file(core, &context.who, &path.parse()?)?;
        for id in core.store.pins(node.id, now)?.iter().filter_map(|holder| request_behind(holder)) {
            let files = match requests.entry(id) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(new) => new.insert(files_of(core, id, owner)?),
            };
            if let Some(row) = files.get(&node.id) {
                let_go(core, row, owner, now)?;
            }
        }
    }
    requests.into_keys().try_for_each(|id| complete(core, id, now))
}

/// The files of a request of a user; of another's none.
fn files_of(core: &Core, id: StageRequestId, owner: &str) -> Result<HashMap<FileId, StageFileRow>> {
    let is_own = core.store.stage_request(id)?.is_some_and(|request| request.owner == owner);
    let files = if is_own { core.store.stage_files(id)? } else { Vec::new() };
    Ok(files.into_iter().filter_map(|row| Some((row.file?, row))).collect())
}

/// A request does not need some of its files any more.
fn let_go_of(
    core: &mut Core,
    request: &StageRequestRow,
    files: &[StageFileRow],
    now: Timestamp,
) -> Result<()> {
    for row in files {
        let_go(core, row, &request.owner, now)?;
    }
    complete(core, request.id, now)
}

/// A request does not need a file any more: what is under way for it alone ends. Whether the request is over is seen once, after
/// all of its files.
fn let_go(core: &mut Core, row: &StageFileRow, owner: &str, now: Timestamp) -> Result<()> {
    let Some(file) = row.file else { return Ok(()) };
    core.store.shorten_pin(file, &holder(row.request), None, now)?;
    if row.staged.state.is_over() {
        return Ok(());
    }
    core.store.end_stage_file(row, StageState::Cancelled, None, now)?;
    let recall = core.store.request_of(RequestKind::Recall, file)?;
    if let Some(recall) =
        recall.filter(|recall| recall.owner == owner && recall.state != RequestState::Failed)
    {
        end_unneeded(core, &recall, now)?;
    }
    Ok(())
}

/// Ends a recall that nobody waits for, or gives it to somebody who does.
fn end_unneeded(core: &mut Core, recall: &RequestRow, now: Timestamp) -> Result<()> {
    if hand_over(core, recall, now)?.is_some() {
        return Ok(());
    }
    free_object(core, recall)?;
    core.store.delete_request(recall.id)?;
    core.touch(Topic::Tape);
    core.touch(Topic::Files);
    Ok(())
}

/// Who pins the file of a recall that its owner does not want any more; the recall is theirs from now on, so that they can
/// cancel it, too.
pub(super) fn hand_over(core: &mut Core, recall: &RequestRow, now: Timestamp) -> Result<Option<String>> {
    let holders = core.store.pins(recall.file, now)?;
    for holder in &holders {
        if let Some(user) = user_behind(core, holder)? {
            core.store.set_request_owner(recall.id, &user)?;
            break;
        }
    }
    Ok(holders.into_iter().next())
}

/// The node of a path, for those who may see it.
pub(super) fn visible(core: &Core, context: &Context, path: &str) -> Result<(FilePath, Arc<Node>)> {
    let path: FilePath = path.parse()?;
    let node = resolve_file(core, &context.who, &path)?;
    Ok((path, node))
}
