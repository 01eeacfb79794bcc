//! Handing work to an idle drive: what a session is to write or read.

use super::end::close;
use super::library::require_drive;
use super::{BACK_OFF, request_and_node, say_failed, volume_of};
use crate::tape::{
    adding,
    archiving::never_fit,
    classes, end_needless_recall,
    operator::ask_for_missing,
    plan::{Plan, PlannedWork, is_to_unload, look_again_in, next_session, space_again},
    repack, verify, view,
};
use crate::{
    Apply, Context, Core, Topic, batch,
    executor::core::{CAP_LIFETIME, CapFor},
    namespace::path_of,
    pool::{Reserve, out_of_reach, reserve, source},
    store::{CopyRow, Node, Purpose, Replica, ReplicaState, RequestRow, SessionRow},
};
use base::{Failure, Millis, RequestId, Result, SessionId, limits::TAPE_SURVEY_BYTES};
use std::collections::BTreeSet;
use tracing::{info, warn};
use wire::{
    auth::capability::Access,
    control::{
        ArchiveFile, FileState, NextTapeSession, RecallFile, RequestState, TapeOrders, TapeSession, TapeWork,
    },
};

impl Apply for NextTapeSession {
    const TOPIC: Topic = Topic::Tape;

    fn apply(self, core: &mut Core, context: &Context) -> Result<TapeOrders> {
        require_drive(core, context, &self.drive)?;
        let live = core.live.drives.get_mut(&self.drive).ok_or_else(|| {
            Failure::unavailable(format!("drive {} is not registered", self.drive))
                .hint("register its library")
        })?;
        live.heard = context.now;
        let look = std::mem::take(&mut live.look);
        if live.loaded != self.loaded || live.leaving.is_some() {
            live.holds(self.loaded.clone());
            core.touch(Topic::Tape);
        }
        // A drive that asks has nothing to do: a session that it does not know never reached it.
        for session in core.store.sessions()? {
            if session.drive == self.drive {
                close(core, context, &session, "the drive lost its session", Millis(0))?;
            }
        }
        repack::go_on(core, context)?;
        classes::go_on(core, context.now)?;
        let view = view(core, context.now)?;
        ask_for_missing(core, &view, context.now)?;
        for (request, failure) in never_fit(&view) {
            give_up(core, context, request, &failure)?;
        }
        let plan = next_session(&view, &self.drive, context.now);
        // A plan of which nothing is left: the files cannot be reached now.
        let is_hindered = plan.is_some().then(|| space_again(&view));
        let session = plan.map(|plan| open(core, context, &self.drive, plan)).transpose()?.flatten();
        let surveys = core.live.surveys_due.values().map(|due| *due - context.now).filter(|span| span.0 > 0);
        let next = surveys.chain(is_hindered).chain(look_again_in(&view, context.now)).min();
        if let Some(span) = next {
            core.look_again_in(span);
        }
        let insert = adding::expected(core, &self.drive)?;
        let unload = session.is_none() && is_to_unload(&view, &self.drive);
        Ok(TapeOrders { session, insert, unload, look })
    }
}

/// Puts a request that can never be done among the failed: whoever waits is told, and the next one goes on.
fn give_up(core: &mut Core, context: &Context, request: RequestId, failure: &Failure) -> Result<()> {
    let Some(mut row) = core.store.request(request)? else { return Ok(()) };
    warn!(request = %row.id, file = %row.file, cause = %failure, "tape request cannot succeed; marked as failed");
    row.state = RequestState::Failed;
    row.reason = Some(failure.what.clone());
    core.store.set_request_waiting(&row)?;
    say_failed(core, &row, context.now);
    core.touch(Topic::Files);
    core.touch(Topic::Jobs);
    batch::file_not_archived(core, context, row.file, failure)
}

/// Writes a planned session into the catalogue and makes its orders. Nothing left to do gives `None`.
fn open(core: &mut Core, context: &Context, drive: &str, plan: Plan) -> Result<Option<TapeSession>> {
    let (kind, requests) = match &plan.work {
        PlannedWork::Label => ("label", Vec::new()),
        PlannedWork::Archive(files) => ("archive", files.concat()),
        PlannedWork::Recall(requests) => ("recall", requests.clone()),
        PlannedWork::Survey => ("survey", Vec::new()),
        PlannedWork::Verify => ("verify", Vec::new()),
    };
    // They are for everybody, and nobody pays for them.
    let is_for_all = matches!(plan.work, PlannedWork::Survey | PlannedWork::Verify);
    let owners = if is_for_all { Vec::new() } else { owners(core, &requests)? };
    let groups = groups(core, &requests)?;
    let mut row = SessionRow {
        id: SessionId(0),
        drive: drive.to_owned(),
        vid: plan.vid.clone(),
        kind: kind.to_owned(),
        owners,
        started: context.now,
        groups,
    };
    row.id = core.store.insert_session(&row)?;
    core.live.drives.entry(row.drive.clone()).or_default().order(&row.vid);
    let work = match plan.work {
        PlannedWork::Label => TapeWork::Label,
        PlannedWork::Archive(tape_files) => {
            let append = volume_of(core, &plan.vid)?.append;
            let mut files = Vec::with_capacity(requests.len());
            for requests in &tape_files {
                files.extend(archive_files(core, context, row.id, requests)?);
            }
            // From here on blocks may lie behind the end that the catalogue knows.
            core.store.set_leftover(&plan.vid, true)?;
            TapeWork::Archive { append, files }
        }
        PlannedWork::Recall(_) => TapeWork::Recall { files: recall_files(core, context, &row, &requests)? },
        PlannedWork::Survey => {
            let from = volume_of(core, &plan.vid)?.append;
            TapeWork::Survey { from, bytes_max: TAPE_SURVEY_BYTES }
        }
        PlannedWork::Verify => TapeWork::Verify { files: verify::files(core, context, &plan.vid)? },
    };
    let is_empty = match &work {
        TapeWork::Label | TapeWork::Survey { .. } => false,
        TapeWork::Archive { files, .. } => files.is_empty(),
        TapeWork::Recall { files } => files.is_empty(),
        TapeWork::Verify { files } => files.is_empty(),
    };
    if is_empty {
        core.store.delete_session(row.id)?;
        return Ok(None);
    }
    info!(session = %row.id, %drive, vid = %plan.vid, kind, files = requests.len(), "tape session started");
    core.touch(Topic::Tape);
    let used_bytes = core.store.volume(&plan.vid)?.map_or(0, |volume| volume.used);
    Ok(Some(TapeSession { id: row.id, vid: plan.vid, used_bytes, work }))
}

/// Who shares the load. A blank volume is labelled for whoever waits longest to be archived; repacks are for everybody.
pub(super) fn owners(core: &Core, requests: &[RequestId]) -> Result<Vec<String>> {
    let mut owners = Vec::new();
    for request in requests {
        let row = core.store.request(*request)?.filter(|row| row.purpose == Purpose::User);
        let owner = row.map(|row| row.owner);
        owners.extend(owner.filter(|owner| !owners.contains(owner)));
    }
    if requests.is_empty() {
        let first = core.store.requests(1)?;
        owners.extend(first.into_iter().map(|row| row.owner));
    }
    Ok(owners)
}

/// Groups of the files for which somebody waits.
fn groups(core: &Core, requests: &[RequestId]) -> Result<Vec<String>> {
    let mut groups = BTreeSet::new();
    if !core.store.drive_quotas()?.is_empty() {
        for request in requests {
            let row = core.store.request(*request)?.filter(|row| row.purpose == Purpose::User);
            groups.extend(row.map(|row| row.group));
        }
    }
    Ok(groups.into_iter().collect())
}

/// The files of one tape file: a bundle, if there are several.
fn archive_files(
    core: &mut Core,
    context: &Context,
    session: SessionId,
    requests: &[RequestId],
) -> Result<Vec<ArchiveFile>> {
    let mut files = Vec::new();
    for id in requests {
        let Some((request, node)) = request_and_node(core, *id)? else {
            continue;
        };
        let Some(replica) = source(core, &node, id.0, context.now)? else {
            if node.state() == FileState::Online {
                let failure = out_of_reach(core, &node, &path_of(core, node.id)?, context.now);
                put_back(core, context, request, &failure)?;
                continue;
            }
            // Nothing on disk to archive: nearline already, or lost. Either way the request is moot.
            core.store.delete_request(request.id)?;
            continue;
        };
        core.store.set_request_active(*id, session, Some(replica.object))?;
        let path = path_of(core, node.id)?;
        let source = core.file_url((&node, &replica), &path, context.now)?;
        let checksums = sums(&node)?;
        let (file, size, modified) = (node.label(), node.size, node.modified);
        files.push(ArchiveFile { request: *id, file, path, size, checksums, source, modified, bundle: None });
    }
    if files.len() > 1 {
        let bundle = core.store.new_bundle()?;
        for file in &mut files {
            file.bundle = Some(bundle);
        }
    }
    Ok(files)
}

fn recall_files(
    core: &mut Core,
    context: &Context,
    session: &SessionRow,
    requests: &[RequestId],
) -> Result<Vec<RecallFile>> {
    let mut files = Vec::new();
    // No room for one file is none for a larger one; smaller ones need not wait behind it.
    let mut too_large = u64::MAX;
    for id in requests {
        let Some((request, node)) = request_and_node(core, *id)? else {
            continue;
        };
        if node.size >= too_large {
            continue;
        }
        let copies = core.store.copies(node.id)?;
        let Some(copy) = copies.into_iter().find(|copy| copy.vid == session.vid) else {
            continue;
        };
        if end_needless_recall(core, &request, &node, context.now)? {
            continue;
        }
        let wish = Reserve {
            file: node.id,
            owner: &request.owner,
            bytes: node.size,
            state: ReplicaState::Recalling,
            on: None,
            pool: None,
        };
        let replica = match reserve(core, &wish, context.now) {
            Ok(replica) => replica,
            Err(failure) => {
                too_large = node.size;
                put_back(core, context, request, &failure)?;
                continue;
            }
        };
        core.store.set_request_active(*id, session.id, Some(replica.object))?;
        core.store.stage_started(node.id, context.now)?;
        files.push(recall_file(core, context, (*id, &node), (&copy, &replica))?);
    }
    Ok(files)
}

/// The order to read one file into a reserved object.
fn recall_file(
    core: &Core,
    context: &Context,
    (request, node): (RequestId, &Node),
    (copy, replica): (&CopyRow, &Replica),
) -> Result<RecallFile> {
    let path = path_of(core, node.id)?;
    let cap = CapFor { access: Access::Fill, replica, file: node, path: &path, lifetime: CAP_LIFETIME };
    let sink = core.object_url(&cap, context.now)?;
    let (fseq, block) = (copy.fseq, copy.block);
    Ok(RecallFile {
        request,
        file: node.label(),
        path,
        fseq,
        block,
        size: node.size,
        checksums: sums(node)?,
        sink,
        member: copy.member,
    })
}

/// Puts a request back that cannot be done now: a recall without a place on disk, a file whose disk server does not answer. It does
/// not count as tried.
fn put_back(core: &Core, context: &Context, mut row: RequestRow, failure: &Failure) -> Result<()> {
    row.not_before = context.now + BACK_OFF;
    row.reason = Some(failure.to_string());
    Ok(core.store.set_request_waiting(&row)?)
}

fn sums(node: &Node) -> Result<base::Checksums> {
    node.checksums.ok_or_else(|| Failure::internal(format!("file {} has no checksums", node.id)))
}
