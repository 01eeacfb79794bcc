//! What a session reports: its progress, files that are done, and files that failed.

use super::{BACK_OFF, request_and_node, say_failed, say_loaded, say_volume, session_of, volume_of};
use crate::{
    Apply, Context, Core, Topic, batch,
    pool::{came_online, mend, retire, source},
    store::{Charge, CopyRow, Payer, Purpose, Replica, ReplicaState, RequestRow},
    tape::{StageEnd, classes, repack, stage_ended},
};
use base::{Cause, ErrorKind, Failure, Millis, Result, Vid, limits::TAPE_ATTEMPTS_MAX};
use tracing::warn;
use wire::control::{
    ArchivedCopy, Blame, Done, FILES_ARCHIVED_LEN_MAX, FileRecalled, FilesArchived, RequestFailed,
    RequestKind, RequestState, TapePhase, TapeProgress, VolumeState,
};

impl Apply for TapeProgress {
    fn apply(self, core: &mut Core, context: &Context) -> Result<Done> {
        let session = session_of(core, context, self.session)?;
        let live = core.live.drives.entry(session.drive.clone()).or_default();
        live.heard = context.now;
        let is_loaded = self.phase != TapePhase::Loading;
        if is_loaded {
            live.holds(Some(session.vid.clone()));
        }
        let was_loading = matches!(live.phase.replace(self.phase), None | Some(TapePhase::Loading));
        live.request = self.request;
        live.bytes_done = self.bytes_done;
        if is_loaded && was_loading {
            say_loaded(core, &session, context.now);
        }
        core.touch(Topic::Jobs);
        Ok(Done {})
    }
}

impl Apply for FilesArchived {
    fn apply(self, core: &mut Core, context: &Context) -> Result<Done> {
        let session = session_of(core, context, self.session)?;
        let mut append = volume_of(core, &session.vid)?.append;
        if self.copies.len() > FILES_ARCHIVED_LEN_MAX {
            return Err(Failure::invalid(format!("a list of {} copies is too long", self.copies.len())));
        }
        for copies in self.copies.chunk_by(|one, next| one.fseq == next.fseq) {
            let copy = one_tape_file(&session.vid, copies)?;
            if copy.fseq < append.fseq {
                // Reported before; the answer was lost.
                continue;
            }
            if copy.fseq != append.fseq || copy.block != append.block || copy.end_block <= copy.block {
                return Err(Failure::corrupt(format!(
                    "volume {}: copy {} at block {} does not follow the catalogue's end, copy {} at block {}",
                    session.vid, copy.fseq, copy.block, append.fseq, append.block
                )));
            }
            append.fseq += 1;
            append.block = copy.end_block;
            for copy in copies {
                let known = request_and_node(core, copy.request)?;
                let Some((request, node)) = known.filter(|(row, _)| row.session == Some(session.id)) else {
                    continue;
                };
                let ArchivedCopy { fseq, block, member, .. } = *copy;
                let (file, vid, size) = (node.id, session.vid.clone(), node.size);
                let row = CopyRow { file, vid, fseq, block, size, member };
                archived(core, context, &request, &row)?;
            }
        }
        core.store.set_append_point(&session.vid, append.fseq, append.block, self.used_bytes)?;
        core.touch(Topic::Tape);
        Ok(Done {})
    }
}

/// What is said of all copies that share a tape file: one, or the files of a bundle.
fn one_tape_file<'a>(vid: &Vid, copies: &'a [ArchivedCopy]) -> Result<&'a ArchivedCopy> {
    let mixed =
        || Failure::corrupt(format!("volume {vid}: copies that share a tape file are told of differently"));
    let first = copies.first().ok_or_else(mixed)?;
    let place = |copy: &ArchivedCopy| (copy.block, copy.end_block, copy.member.map(|member| member.bundle));
    let is_shared = copies.len() == 1 || first.member.is_some();
    if is_shared && copies.iter().all(|copy| place(copy) == place(first)) { Ok(first) } else { Err(mixed()) }
}

/// A copy is on tape. If the file was changed meanwhile it is a copy of old content, and the request stays.
fn archived(core: &mut Core, context: &Context, request: &RequestRow, copy: &CopyRow) -> Result<()> {
    let node = core.store.node(copy.file)?;
    let is_current =
        node.iter().flat_map(|node| node.online()).any(|replica| Some(replica.object) == request.object);
    if !is_current {
        let mut row = request.clone();
        row.state = RequestState::Queued;
        row.not_before = context.now;
        return Ok(core.store.set_request_waiting(&row)?);
    }
    core.store.insert_copy(copy, context.now)?;
    let is_done = classes::is_done(core, copy.file)?;
    if is_done {
        core.store.delete_request(request.id)?;
    } else {
        // The next copy goes to another volume.
        let (state, attempts, not_before, reason) = (RequestState::Queued, 0, context.now, None);
        let row = RequestRow { state, attempts, not_before, reason, ..request.clone() };
        core.store.set_request_waiting(&row)?;
    }
    if request.purpose == Purpose::User {
        if is_done {
            core.live.waits.archived(context.now - request.created);
        }
        let charge = Charge { tape_written: copy.size, ..Charge::default() };
        core.store.charge(
            node.as_ref()
                .map_or_else(|| Payer::user(&request.owner), |node| Payer::of_file(&request.owner, node)),
            &charge,
        )?;
    }
    core.touch(Topic::Files);
    if !is_done {
        return Ok(());
    }
    repack::copied(core, request, copy, context.now)?;
    mend(core, copy.file, context.now)?;
    batch::file_archived(core, context, copy.file)
}

impl Apply for FileRecalled {
    fn apply(self, core: &mut Core, context: &Context) -> Result<Done> {
        let session = session_of(core, context, self.session)?;
        let Some((request, node)) = request_and_node(core, self.request)? else {
            // The file was removed or rewritten meanwhile; its reserved object went with it.
            return Ok(Done {});
        };
        let object = request.object.filter(|_| request.session == Some(session.id));
        let object = object.ok_or_else(|| {
            Failure::invalid(format!("tape request {} does not belong to session {}", request.id, session.id))
        })?;
        let source = source(core, &node, object.0, context.now)?;
        came_online(core, object, node.size, context.now)?;
        // Too few of them were left: it has a whole replica now. If enough are back, that goes when they are all there.
        let is_back = source.is_some_and(|source| source.piece.is_some());
        let is_over = |replica: &&Replica| !is_back && replica.piece.is_some() && replica.state.is_content();
        for piece in node.replicas.iter().filter(is_over) {
            retire(core, piece)?;
        }
        core.store.delete_request(request.id)?;
        stage_ended(core, node.id, StageEnd::Online, context.now)?;
        if request.purpose == Purpose::User {
            core.live.waits.recalled(context.now - request.created);
            let charge = Charge { tape_read: node.size, ..Charge::default() };
            core.store.charge(Payer::of_file(&request.owner, &node), &charge)?;
            batch::recalled(core, &session, &node)?;
        }
        repack::recalled(core, &request, &node, context.now)?;
        core.touch(Topic::Files);
        mend(core, node.id, context.now)?;
        batch::file_online(core, node.id, context.now)?;
        Ok(Done {})
    }
}

impl Apply for RequestFailed {
    fn apply(self, core: &mut Core, context: &Context) -> Result<Done> {
        let session = session_of(core, context, self.session)?;
        let row = core.store.request(self.request)?.filter(|row| row.session == Some(session.id));
        if let Some(row) = row {
            warn!(request = %row.id, vid = %session.vid, drive = %session.drive, cause = %self.failure, "tape \
                request failed");
            failed(core, context, row, self.blame, &self.failure)?;
        }
        if self.blame == Blame::Volume && self.failure.kind == ErrorKind::NoSpace {
            core.store.set_volume_state(&session.vid, VolumeState::Full, None)?;
            say_volume(core, &session.vid, VolumeState::Full, None, context.now);
        }
        core.touch(Topic::Tape);
        Ok(Done {})
    }
}

/// Puts a request that did not work back, later each time, or among the failed.
pub(super) fn failed(
    core: &mut Core,
    context: &Context,
    mut row: RequestRow,
    blame: Blame,
    failure: &Failure,
) -> Result<()> {
    free_object(core, &row)?;
    // A full or a write-protected volume is nobody's fault: the next one is taken.
    let is_closed = failure.kind == ErrorKind::NoSpace || failure.cause == Some(Cause::WriteProtected);
    let counts = !is_closed || blame != Blame::Volume;
    if counts {
        row.attempts += 1;
    }
    row.state = if row.attempts >= TAPE_ATTEMPTS_MAX { RequestState::Failed } else { RequestState::Queued };
    let doublings = row.attempts.saturating_sub(1).min(10);
    row.not_before = if counts { context.now + Millis(BACK_OFF.0 << doublings) } else { context.now };
    row.reason = Some(failure.to_string());
    core.store.set_request_waiting(&row)?;
    if row.state == RequestState::Failed {
        say_failed(core, &row, context.now);
        stages_failed(core, &row, context)?;
    }
    core.touch(Topic::Files);
    core.touch(Topic::Jobs);
    Ok(())
}

/// Stage requests are told that a recall has failed.
fn stages_failed(core: &mut Core, row: &RequestRow, context: &Context) -> Result<()> {
    match (row.kind, row.reason.as_deref()) {
        (RequestKind::Recall, Some(why)) => stage_ended(core, row.file, StageEnd::Failed(why), context.now),
        _ => Ok(()),
    }
}

/// A recall fails for good though no drive has tried it: whoever waits is told why.
pub(in crate::tape) fn fail_recall(
    core: &mut Core,
    context: &Context,
    mut row: RequestRow,
    why: &str,
) -> Result<()> {
    row.state = RequestState::Failed;
    row.reason = Some(why.to_owned());
    core.store.set_request_waiting(&row)?;
    say_failed(core, &row, context.now);
    stages_failed(core, &row, context)?;
    core.touch(Topic::Files);
    core.touch(Topic::Jobs);
    Ok(())
}

/// Gives the reserved object of a recall back.
pub(in crate::tape) fn free_object(core: &mut Core, row: &RequestRow) -> Result<()> {
    if row.kind == RequestKind::Recall
        && let Some(object) = row.object
        && let Some(replica) = core.store.replica(object)?
        && replica.state == ReplicaState::Recalling
    {
        retire(core, &replica)?;
    }
    Ok(())
}
