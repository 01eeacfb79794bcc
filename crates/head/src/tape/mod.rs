//! The tape queue: requests, sessions, and what drives and volumes are doing.

mod calls;
mod plan;
#[cfg(test)]
mod plan_tests;
mod room;
mod survey;

pub(crate) use plan::{Explainer, View};
pub(crate) use room::host_removed;
pub(crate) use survey::is_doubtful;

use crate::{
    Context, Core, Topic, batch, pool,
    store::{DriveRow, Node, RequestRow},
};
use base::{Failure, FileId, FilePath, Millis, Result, Timestamp};
use plan::{DriveView, Target, VolumeView, Work};
use std::{collections::HashMap, sync::Arc};
use wire::control::{RequestKind, RequestState};

/// How long the tape server of a drive may be silent before no more is expected of it: far longer than it waits for orders,
/// or than putting a volume away takes.
const SILENT_AFTER: Millis = Millis::from_seconds(180);

/// Longest queue that one planning pass looks at; the rest waits its turn, oldest first.
const QUEUE_VIEW_MAX: usize = 20_000;

/// Asks for a disk replica of a nearline file; joins the request that is there already.
pub(crate) fn request_recall(core: &mut Core, context: &Context, node: &Node) -> Result<RequestRow> {
    request(core, RequestKind::Recall, context, node)
}

/// Asks for a tape copy; joins the request that is there already.
pub(crate) fn request_archive(core: &mut Core, context: &Context, node: &Node) -> Result<RequestRow> {
    request(core, RequestKind::Archive, context, node)
}

fn request(core: &mut Core, kind: RequestKind, context: &Context, node: &Node) -> Result<RequestRow> {
    if let Some(row) = core.store.request_of(kind, node.id)? {
        return Ok(row);
    }
    core.store.put_request(kind, node.id, &context.who.name, context.now)?;
    core.touch(Topic::Tape);
    core.touch(Topic::Jobs);
    let row = core.store.request_of(kind, node.id)?;
    row.ok_or_else(|| Failure::internal(format!("request for file {} vanished while it was made", node.id)))
}

/// A disk server is back: what was to be recalled because of it can be read from disk again.
pub(crate) fn end_recalls_beside(core: &mut Core, partition: &str, now: Timestamp) -> Result<()> {
    for row in core.store.recalls_beside(partition, QUEUE_VIEW_MAX)? {
        if let Some(node) = core.store.node(row.file)? {
            end_needless_recall(core, &row, &node, now)?;
        }
    }
    Ok(())
}

/// Ends a recall that no drive works at, if its file can be read from disk. Yields whether it did.
fn end_needless_recall(core: &mut Core, row: &RequestRow, node: &Node, now: Timestamp) -> Result<bool> {
    if row.state == RequestState::Active || pool::source(core, node, row.id.0, now)?.is_none() {
        return Ok(false);
    }
    core.store.delete_request(row.id)?;
    core.touch(Topic::Tape);
    core.touch(Topic::Files);
    batch::file_online(core, node.id)?;
    Ok(true)
}

/// What a file waits for in the tape queue, if it is there.
pub(crate) fn waits(core: &Core, file: FileId, now: Timestamp) -> Result<Option<String>> {
    let Some(row) = core.store.requests_of_file(file)?.into_iter().next() else {
        return Ok(None);
    };
    reason(core, &row, now).map(Some)
}

/// The queue, read once for each call: explaining a thousand files must not read it a thousand times.
fn explainer(core: &Core, now: Timestamp) -> Result<Arc<Explainer>> {
    let changes = core.store.changes();
    if let Some((_, known)) = core.explainer.borrow().as_ref().filter(|(then, _)| *then == changes) {
        return Ok(Arc::clone(known));
    }
    let new = Arc::new(Explainer::new(view(core, now)?));
    core.explainer.replace(Some((changes, Arc::clone(&new))));
    Ok(new)
}

/// The reason shown for one row of the queue.
pub(crate) fn reason(core: &Core, row: &RequestRow, now: Timestamp) -> Result<String> {
    let verb = match row.kind {
        RequestKind::Archive => "written to",
        RequestKind::Recall => "read from",
    };
    Ok(match (row.state, row.session) {
        (RequestState::Failed, _) => {
            let why = row.reason.as_deref().unwrap_or("for a reason that is lost");
            format!("{} failed {} times: {why}", row.kind.as_str(), row.attempts)
        }
        (RequestState::Active, Some(session)) => match core.store.session(session)? {
            Some(session) => {
                let drive = core.live.drives.get(&session.drive);
                let is_now = drive.is_some_and(|drive| drive.request == Some(row.id));
                let when = if is_now { "is being" } else { "is about to be" };
                format!("{when} {verb} volume {} in drive {}", session.vid, session.drive)
            }
            None => format!("is about to be {verb} tape"),
        },
        _ => {
            let why = explainer(core, now)?.explain(row.id, now);
            why.unwrap_or_else(|| format!("behind {QUEUE_VIEW_MAX} older requests"))
        }
    })
}

/// Refuses to wait for a recall that needs a person first.
pub(crate) fn refuse_hopeless(core: &Core, node: &Node, path: &FilePath) -> Result<()> {
    match core.store.request_of(RequestKind::Recall, node.id)? {
        Some(row) if row.state == RequestState::Failed => Err(hopeless(&row, path)),
        _ => Ok(()),
    }
}

fn hopeless(row: &RequestRow, path: &FilePath) -> Failure {
    let why = row.reason.as_deref().unwrap_or("for a reason that is lost");
    Failure::unavailable(format!("{} of {path} failed {} times: {why}", row.kind.as_str(), row.attempts))
        .hint(format!("when the cause is mended: `bp admin request retry {}`", row.id))
}

/// Why a drive cannot be given work.
pub(crate) fn trouble(core: &Core, row: &DriveRow, now: Timestamp) -> Option<String> {
    let known = || match core.live.drives.get(&row.name) {
        // Not registered since the head started.
        None => Some("its tape server is not running"),
        Some(live) if now - live.heard > SILENT_AFTER => Some("its tape server is silent"),
        Some(_) => None,
    };
    row.trouble.clone().or_else(|| known().map(str::to_owned))
}

/// What the planner looks at.
fn view(core: &Core, now: Timestamp) -> Result<View> {
    let sessions = core.store.sessions()?;
    let session_of = |drive: &str| sessions.iter().find(|session| session.drive == drive);
    let drives = core.store.drives()?.into_iter().map(|row| DriveView {
        loaded: core.live.drives.get(&row.name).and_then(|live| live.loaded.clone()),
        leaving: core.live.drives.get(&row.name).and_then(|live| live.leaving.clone()),
        busy_with: session_of(&row.name).map(|session| session.vid.clone()),
        is_writing: session_of(&row.name)
            .is_some_and(|session| matches!(&*session.kind, "archive" | "label")),
        trouble: trouble(core, &row, now),
        name: row.name,
        library: row.library,
    });
    let rows = core.store.volumes()?;
    let surveys = survey::due(core, &rows, now);
    let volumes = rows.into_iter().map(|row| {
        let view = VolumeView {
            vid: row.vid.clone(),
            library: row.library,
            state: row.state,
            used_bytes: row.used,
            free_bytes: row.capacity.saturating_sub(row.used),
        };
        (row.vid, view)
    });
    let queue = queue(core)?;
    let recalls = queue.iter().filter(|work| work.kind == RequestKind::Recall);
    let free_disk_bytes = pool::obtainable_bytes(core, recalls.map(|work| work.size).sum(), now)?;
    Ok(View { drives: drives.collect(), volumes: volumes.collect(), surveys, queue, free_disk_bytes })
}

fn queue(core: &Core) -> Result<Vec<Work>> {
    let targets = core.store.recall_targets()?;
    let mut targets: HashMap<_, _> = targets
        .into_iter()
        .map(|(request, vid, fseq, block)| (request, Target { vid, fseq, block }))
        .collect();
    let rows = core.store.requests(QUEUE_VIEW_MAX)?;
    let queued = rows.into_iter().filter(|row| row.state == RequestState::Queued);
    Ok(queued
        .map(|row| Work {
            target: targets.remove(&row.id),
            id: row.id,
            kind: row.kind,
            size: row.size,
            created: row.created,
            not_before: row.not_before,
            attempts: row.attempts,
            reason: row.reason,
        })
        .collect())
}
