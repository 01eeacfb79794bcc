//! The tape queue: requests, sessions, and what drives and volumes are doing.

mod adding;
pub(crate) mod archiving;
mod bundles;
#[cfg(test)]
mod bundles_tests;
mod calls;
mod classes;
mod drives;
mod explain;
mod locality;
mod operator;
pub(crate) mod plan;
#[cfg(test)]
mod plan_tests;
mod queue;
mod quotas;
mod reading;
mod repack;
pub(crate) mod room;
mod routes;
mod serpentine;
#[cfg(test)]
mod serpentine_tests;
mod stages;
mod verify;

pub(crate) use crate::recovery::tape_survey::is_doubtful;
pub use bundles::Bundling;
pub(crate) use calls::pin_of;
pub(crate) use classes::{missing_copies, moved, note as note_missing_copies};
pub(crate) use explain::{Explainer, Pace};
pub(crate) use operator::OPERATOR_REQUESTS_MAX;
pub(crate) use plan::View;
pub(crate) use room::host_removed;
pub(crate) use stages::{StageEnd, stage_ended};

use crate::{
    Context, Core, Topic, batch,
    hosts::presence,
    namespace::path_of,
    pool,
    store::{DriveRow, Node, Purpose, RequestRow, SessionRow},
};
use base::{Failure, FileId, FilePath, Millis, Result, Timestamp, Vid};
use plan::{DriveView, VolumeView};
use quotas::Serving;
use std::{collections::BTreeMap, sync::Arc};
use wire::control::{Presence, RequestKind, RequestState};

/// How long the tape server of a drive may be silent before no more is expected of it: far longer than it waits for orders,
/// or than putting a volume away takes.
const SILENT_AFTER: Millis = Millis::from_seconds(180);

/// Longest queue that one planning pass looks at; the rest waits its turn, oldest first.
const QUEUE_VIEW_MAX: usize = 20_000;

/// From this length on the queue is not read for every question.
const LONG_QUEUE: usize = 1000;

/// Rows that are read in a fiftieth of a millisecond, so that explaining takes at most a fiftieth of the head's time.
const ROWS_PER_MS: i64 = 10;

/// How long an explanation holds while nothing is announced: disks fill, pins end, and drives fall silent meanwhile.
const UNCHANGED_FOR: Millis = Millis::from_seconds(5);

/// Asks for a disk replica of a nearline file; joins the request that is there already. Refuses what no partition can hold.
pub(crate) fn request_recall(core: &mut Core, context: &Context, node: &Node) -> Result<RequestRow> {
    request(core, RequestKind::Recall, context, node)
}

/// Asks for a tape copy; joins the request that is there already. Refuses what no volume can hold.
pub(crate) fn request_archive(core: &mut Core, context: &Context, node: &Node) -> Result<RequestRow> {
    request(core, RequestKind::Archive, context, node)
}

fn request(core: &mut Core, kind: RequestKind, context: &Context, node: &Node) -> Result<RequestRow> {
    if let Some(mut row) = core.store.request_of(kind, node.id)? {
        if row.purpose != Purpose::User {
            // A user waits for it from now on.
            core.store.set_request_purpose(row.id, Purpose::User)?;
            core.touch(Topic::Tape);
            row.purpose = Purpose::User;
        }
        return Ok(row);
    }
    match kind {
        RequestKind::Recall => pool::refuse_oversize(core, node, context.now)?,
        RequestKind::Archive => refuse_oversize(core, node)?,
    }
    core.store.put_request(kind, node.id, &context.who.name, context.now)?;
    core.touch(Topic::Tape);
    core.touch(Topic::Jobs);
    let row = core.store.request_of(kind, node.id)?;
    row.ok_or_else(|| Failure::internal(format!("request for file {} vanished while it was made", node.id)))
}

/// Refuses a file that is larger than every volume. While no volume is known, nobody can say what the first one will hold.
fn refuse_oversize(core: &Core, node: &Node) -> Result<()> {
    let largest = core.store.volumes()?.iter().map(|volume| volume.capacity).max();
    match largest.map(|largest| archiving::refuse_oversize(node.size, largest)) {
        Some(Err(failure)) => {
            Err(failure.during(format_args!("{} cannot be archived", path_of(core, node.id)?)))
        }
        _ => Ok(()),
    }
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
    stage_ended(core, node.id, StageEnd::Online, now)?;
    core.touch(Topic::Tape);
    core.touch(Topic::Files);
    batch::file_online(core, node.id, now)?;
    Ok(true)
}

/// What a file waits for in the tape queue, if it is there.
pub(crate) fn waits(core: &Core, file: FileId, now: Timestamp) -> Result<Option<String>> {
    let Some(row) = core.store.requests_of_file(file)?.into_iter().next() else {
        return Ok(None);
    };
    reason(core, &row, now).map(Some)
}

/// The queue as it was read to explain it, and when: explaining a thousand files must not read it a thousand times.
#[derive(Debug)]
pub(crate) struct Explained {
    changes: u64,
    announcements: u64,
    at: Timestamp,
    explainer: Arc<Explainer>,
}

impl Explained {
    fn is_good(&self, core: &Core, now: Timestamp) -> bool {
        let age = now - self.at;
        if (self.changes, self.announcements) == (core.store.changes(), core.announcements) {
            return (Millis(0)..UNCHANGED_FOR).contains(&age);
        }
        // Whoever reads a long queue is told how it was a moment ago.
        let len = self.explainer.len();
        let bearable = if len < LONG_QUEUE { 0 } else { len as i64 / ROWS_PER_MS };
        (0..bearable).contains(&age.0)
    }
}

fn explainer(core: &Core, now: Timestamp) -> Result<Arc<Explainer>> {
    if let Some(known) = core.explained.borrow().as_ref().filter(|known| known.is_good(core, now)) {
        return Ok(Arc::clone(&known.explainer));
    }
    let explainer = Arc::new(Explainer::new(view(core, now)?, now));
    let (changes, announcements) = (core.store.changes(), core.announcements);
    core.explained.replace(Some(Explained { changes, announcements, at: now, explainer: explainer.clone() }));
    Ok(explainer)
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
            format!("{} {}: {why}", row.kind.as_str(), tries(row))
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
            let why = why.unwrap_or_else(|| "waits behind many older requests".to_owned());
            format!("{why}{}", instead_of(core, row, now)?)
        }
    })
}

/// Which host has the file of a recall on disk and does not answer, if that is why it is read from tape.
fn instead_of(core: &Core, row: &RequestRow, now: Timestamp) -> Result<String> {
    if row.kind != RequestKind::Recall || core.live.away.is_empty() {
        return Ok(String::new());
    }
    let words = core.store.node(row.file)?.map(|node| pool::away_words(core, &node, now));
    let words = words.filter(|words| !words.is_empty());
    Ok(words.map_or_else(String::new, |words| format!("; its disk replica is out of reach, on {words}")))
}

/// Refuses to wait for a recall that needs a person first.
pub(crate) fn refuse_hopeless(row: &RequestRow, path: &FilePath) -> Result<()> {
    if row.state == RequestState::Failed { Err(hopeless(row, path)) } else { Ok(()) }
}

/// How often a failed request was tried: never, if it could not be done at all.
fn tries(row: &RequestRow) -> String {
    match row.attempts {
        0 => "cannot be done".to_owned(),
        1 => "failed".to_owned(),
        attempts => format!("failed {attempts} times"),
    }
}

fn hopeless(row: &RequestRow, path: &FilePath) -> Failure {
    let why = row.reason.as_deref().unwrap_or("for a reason that is lost");
    Failure::unavailable(format!("{} of {path} {}: {why}", row.kind.as_str(), tries(row)))
        .hint(format!("when the cause is mended: `bp admin request retry {}`", row.id))
}

/// Why a drive cannot be given work.
pub(crate) fn trouble(core: &Core, row: &DriveRow, now: Timestamp) -> Option<String> {
    let known = || match core.live.drives.get(&row.name) {
        // Not registered since the head started.
        None => Some("its tape server is not running"),
        Some(live) if now - live.heard > SILENT_AFTER => Some("its tape server is silent"),
        Some(_) => match presence::presence(core, &row.host, now) {
            Some(Presence::Stopped) => Some("its tape server has stopped"),
            Some(Presence::Silent) => Some("its tape server is silent"),
            Some(Presence::Here) | None => None,
        },
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
        busy_since: session_of(&row.name).map(|session| session.started),
        is_writing: session_of(&row.name)
            .is_some_and(|session| matches!(&*session.kind, "archive" | "label")),
        trouble: trouble(core, &row, now),
        is_down: row.is_down,
        serving: session_of(&row.name).and_then(serving),
        name: row.name,
        library: row.library,
    });
    let rows = core.store.volumes()?;
    let surveys = crate::recovery::tape_survey::due(core, &rows, now);
    let verifications = verify::due(core, &rows, now);
    let volumes = rows.into_iter().map(|row| {
        let view = VolumeView {
            vid: row.vid.clone(),
            library: row.library,
            pool: row.pool,
            state: row.state,
            reason: row.reason,
            used_bytes: row.used,
            free_bytes: row.capacity.saturating_sub(row.used),
            end_block: row.append.block,
        };
        (row.vid, view)
    });
    let (drives, volumes): (Vec<DriveView>, BTreeMap<Vid, VolumeView>) =
        (drives.collect(), volumes.collect());
    let queue = queue::read(core, &drives)?;
    let recalls = queue.iter().filter(|work| work.kind == RequestKind::Recall);
    let free_disk_bytes = pool::obtainable_bytes(core, recalls.map(|work| work.size).sum(), now)?;
    let recall_session = core.live.recall_pace.usual();
    let (bundling, quotas) = (core.bundling, core.store.drive_quotas()?);
    Ok(View {
        drives,
        volumes,
        surveys,
        verifications,
        queue,
        free_disk_bytes,
        recall_session,
        bundling,
        quotas,
    })
}

/// What a session does for groups.
fn serving(session: &SessionRow) -> Option<Serving> {
    let kind = match session.kind.as_str() {
        "archive" => RequestKind::Archive,
        "recall" => RequestKind::Recall,
        _ => return None,
    };
    Some(Serving { kind, groups: session.groups.clone() })
}
