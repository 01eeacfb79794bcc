//! The calls of the tape server.

use super::{
    adding, end_needless_recall,
    plan::{Plan, PlannedWork, look_again_in, never_fit, next_session, space_again},
    view,
};
use crate::{
    Apply, Context, Core, Topic, batch,
    executor::core::{CAP_LIFETIME, CapFor, DriveLive},
    hosts::{require_name, require_owner},
    namespace::path_of,
    pool::{Reserve, came_online, mend, out_of_reach, reserve, retire, source},
    store::{Charge, CopyRow, Node, Payer, Replica, ReplicaState, RequestRow, SessionRow, VolumeRow},
};
use base::{
    ErrorKind, Failure, Millis, RequestId, Result, SessionId, Timestamp, Vid,
    limits::{TAPE_ATTEMPTS_MAX, TAPE_SURVEY_BYTES},
};
use std::sync::Arc;
use tracing::{info, warn};
use wire::{
    auth::capability::Access,
    control::{
        ArchiveFile, Blame, Done, DriveContent, EndTapeSession, EventType, FileRecalled, FileState,
        FilesArchived, NextTapeSession, RecallFile, RegisterLibrary, RequestFailed, RequestKind,
        RequestState, TapeOrders, TapePhase, TapeProgress, TapeSession, TapeWork, VolumeState,
    },
};

/// First wait after a failure; doubled with each further one.
const BACK_OFF: Millis = Millis::from_seconds(5);

impl Apply for RegisterLibrary {
    fn apply(self, core: &mut Core, context: &Context) -> Result<Done> {
        check_library(core, context, &self)?;
        let host = context.who.as_host().unwrap_or_default();
        for DriveContent { drive, loaded } in &self.drives {
            core.store.put_drive(host, &self.library, drive)?;
            // Told at once for all: a volume in one drive must not be ordered into another.
            let live = DriveLive { loaded: loaded.clone(), heard: context.now, ..DriveLive::default() };
            core.live.drives.insert(drive.clone(), live);
        }
        for cartridge in &self.cartridges {
            let is_new = core.store.volume(&cartridge.vid)?.is_none();
            adding::note_arrived(core, &cartridge.vid)?;
            core.store.put_volume(&self.library, &cartridge.vid, cartridge.capacity_bytes)?;
            if is_new && core.unsettled()?.is_some() {
                let reason = "not in the restored catalogue: may hold files";
                core.store.set_volume_state(&cartridge.vid, VolumeState::Suspect, Some(reason))?;
            }
        }
        // What was taken out may be put into another library.
        for gone in core.store.volumes()?.into_iter().filter(|row| row.library == self.library) {
            if !self.cartridges.iter().any(|cartridge| cartridge.vid == gone.vid) {
                core.store.set_library(&gone.vid, "")?;
            }
        }
        for session in core.store.sessions()? {
            if self.drives.iter().any(|content| content.drive == session.drive) {
                close(core, context, &session, "the tape server was restarted", Millis(0))?;
            }
        }
        core.touch(Topic::Tape);
        Ok(Done {})
    }
}

/// Refuses drives, libraries and cartridges that another host has.
fn check_library(core: &Core, context: &Context, call: &RegisterLibrary) -> Result<()> {
    require_name(core, context, "a tape library", &call.library)?;
    for DriveContent { drive, .. } in &call.drives {
        require_name(core, context, "a drive", drive)?;
    }
    let drives = core.store.drives()?;
    let is_named = |name: &str| call.drives.iter().any(|content| content.drive == name);
    for known in drives.iter().filter(|row| row.library == call.library || is_named(&row.name)) {
        require_owner(context, &format!("drive {} of library {}", known.name, known.library), &known.host)?;
    }
    for cartridge in &call.cartridges {
        let vid = &cartridge.vid;
        let Some(volume) = core.store.volume(vid)?.filter(|row| row.library != call.library) else {
            continue;
        };
        let other = drives.iter().find(|row| row.library == volume.library);
        if let Some(other) = other.filter(|row| row.host != context.who.as_host().unwrap_or_default()) {
            let (there, here) = (&other.library, &call.library);
            return Err(Failure::exists(format!("volume {vid} of library {here} is in library {there}")).hint(
                "labels must be unique in the facility; remove a moved cartridge from its old library first",
            ));
        }
    }
    Ok(())
}

/// A drive of the host that asks.
pub(super) fn require_drive(core: &Core, context: &Context, name: &str) -> Result<()> {
    match core.store.drives()?.iter().find(|row| row.name == name) {
        Some(row) => require_owner(context, &format!("drive {name}"), &row.host),
        None => Ok(()),
    }
}

/// The session, or why a report about it is refused.
pub(crate) fn session_of(core: &mut Core, context: &Context, id: SessionId) -> Result<SessionRow> {
    let session = core.store.session(id)?.ok_or_else(|| {
        Failure::not_found(format!("tape session {id} has ended")).hint("ask for the next session")
    })?;
    require_drive(core, context, &session.drive)?;
    if let Some(live) = core.live.drives.get_mut(&session.drive) {
        live.heard = context.now;
    }
    Ok(session)
}

/// A host was removed: what it was doing is to be done by others.
pub(crate) fn host_removed(core: &mut Core, context: &Context, host: &str) -> Result<()> {
    for drive in core.store.drives()?.into_iter().filter(|drive| drive.host == host) {
        for session in core.store.sessions()?.into_iter().filter(|session| session.drive == drive.name) {
            close(core, context, &session, &format!("host {host} was removed"), Millis(0))?;
        }
        core.store.delete_drive(&drive.name)?;
        core.live.drives.remove(&drive.name);
    }
    core.touch(Topic::Tape);
    Ok(())
}

impl Apply for NextTapeSession {
    const TOPIC: Topic = Topic::Tape;

    fn apply(self, core: &mut Core, context: &Context) -> Result<TapeOrders> {
        require_drive(core, context, &self.drive)?;
        let live = core.live.drives.get_mut(&self.drive).ok_or_else(|| {
            Failure::unavailable(format!("drive {} is not registered", self.drive))
                .hint("register its library")
        })?;
        live.heard = context.now;
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
        let view = view(core, context.now)?;
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
        Ok(TapeOrders { session, insert })
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
        PlannedWork::Archive(requests) => ("archive", requests.clone()),
        PlannedWork::Recall(requests) => ("recall", requests.clone()),
        PlannedWork::Survey => ("survey", Vec::new()),
    };
    // A survey is for everybody, and nobody pays for it.
    let owners = if plan.work == PlannedWork::Survey { Vec::new() } else { owners(core, &requests)? };
    let mut row = SessionRow {
        id: SessionId(0),
        drive: drive.to_owned(),
        vid: plan.vid.clone(),
        kind: kind.to_owned(),
        owners,
        started: context.now,
    };
    row.id = core.store.insert_session(&row)?;
    core.live.drives.entry(row.drive.clone()).or_default().order(&row.vid);
    let work = match plan.work {
        PlannedWork::Label => TapeWork::Label,
        PlannedWork::Archive(_) => {
            let append = volume_of(core, &plan.vid)?.append;
            let files = archive_files(core, context, row.id, &requests)?;
            // From here on blocks may lie behind the end that the catalogue knows.
            core.store.set_leftover(&plan.vid, true)?;
            TapeWork::Archive { append, files }
        }
        PlannedWork::Recall(_) => TapeWork::Recall { files: recall_files(core, context, &row, &requests)? },
        PlannedWork::Survey => {
            let from = volume_of(core, &plan.vid)?.append;
            TapeWork::Survey { from, bytes_max: TAPE_SURVEY_BYTES }
        }
    };
    let is_empty = match &work {
        TapeWork::Label | TapeWork::Survey { .. } => false,
        TapeWork::Archive { files, .. } => files.is_empty(),
        TapeWork::Recall { files } => files.is_empty(),
    };
    if is_empty {
        core.store.delete_session(row.id)?;
        return Ok(None);
    }
    info!(session = %row.id, %drive, vid = %plan.vid, kind, files = requests.len(), "tape session begins");
    core.touch(Topic::Tape);
    Ok(Some(TapeSession { id: row.id, vid: plan.vid, work }))
}

/// Says that a volume is full or suspect.
pub(super) fn say_volume(core: &mut Core, vid: &Vid, state: VolumeState, why: Option<&str>, now: Timestamp) {
    let kind = match state {
        VolumeState::Full => EventType::VolumeFull,
        VolumeState::Suspect => EventType::VolumeSuspect,
        VolumeState::Blank | VolumeState::Appendable | VolumeState::Unread => return,
    };
    let why = why.map(|why| format!(": {why}")).unwrap_or_default();
    core.say(now, kind, vid, format!("volume {vid} is {}{why}", state.as_str()));
}

/// Says that a volume was loaded into a drive for a session of some kind.
fn say_loaded(core: &mut Core, (vid, drive, kind): (&Vid, &str, &str), now: Timestamp) {
    core.say(now, EventType::VolumeLoaded, vid, format!("volume {vid} is in drive {drive} ({kind})"));
}

/// Says that a request failed for good.
fn say_failed(core: &mut Core, row: &RequestRow, now: Timestamp) {
    let why = row.reason.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
    let what = format!("tape request r{} ({}) of {} failed{why}", row.id, row.kind.as_str(), row.owner);
    core.say(now, EventType::RequestFailed, format!("r{}", row.id), what);
}

pub(crate) fn volume_of(core: &Core, vid: &Vid) -> Result<VolumeRow> {
    core.store.volume(vid)?.ok_or_else(|| Failure::internal(format!("volume {vid} is not in the catalogue")))
}

/// Who shares the load. A blank volume is labelled for whoever waits longest to be archived.
fn owners(core: &Core, requests: &[RequestId]) -> Result<Vec<String>> {
    let mut owners = Vec::new();
    for request in requests {
        let owner = core.store.request(*request)?.map(|row| row.owner);
        owners.extend(owner.filter(|owner| !owners.contains(owner)));
    }
    if requests.is_empty() {
        let first = core.store.requests(1)?;
        owners.extend(first.into_iter().map(|row| row.owner));
    }
    Ok(owners)
}

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
        let (file, size) = (node.label(), node.size);
        files.push(ArchiveFile { request: *id, file, path, size, checksums, source });
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
    })
}

/// Puts a request back that cannot be done now: a recall without a place on disk, a file whose disk server does not answer. It does
/// not count as tried.
fn put_back(core: &Core, context: &Context, mut row: RequestRow, failure: &Failure) -> Result<()> {
    row.not_before = context.now + BACK_OFF;
    row.reason = Some(failure.to_string());
    Ok(core.store.set_request_waiting(&row)?)
}

fn request_and_node(core: &Core, id: RequestId) -> Result<Option<(RequestRow, Arc<Node>)>> {
    let Some(request) = core.store.request(id)? else {
        return Ok(None);
    };
    Ok(core.store.node(request.file)?.map(|node| (request, node)))
}

fn sums(node: &Node) -> Result<base::Checksums> {
    node.checksums.ok_or_else(|| Failure::internal(format!("file {} has no checksums", node.id)))
}

impl Apply for TapeProgress {
    fn apply(self, core: &mut Core, context: &Context) -> Result<Done> {
        let session = session_of(core, context, self.session)?;
        let drive = session.drive;
        let live = core.live.drives.entry(drive.clone()).or_default();
        live.heard = context.now;
        let is_loaded = self.phase != TapePhase::Loading;
        if is_loaded {
            live.holds(Some(session.vid.clone()));
        }
        let was_loading = matches!(live.phase.replace(self.phase), None | Some(TapePhase::Loading));
        live.request = self.request;
        live.bytes_done = self.bytes_done;
        if is_loaded && was_loading {
            say_loaded(core, (&session.vid, &drive, &session.kind), context.now);
        }
        core.touch(Topic::Jobs);
        Ok(Done {})
    }
}

impl Apply for FilesArchived {
    fn apply(self, core: &mut Core, context: &Context) -> Result<Done> {
        let session = session_of(core, context, self.session)?;
        let mut append = volume_of(core, &session.vid)?.append;
        for copy in self.copies {
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
            if let Some((request, node)) = request_and_node(core, copy.request)?
                && request.session == Some(session.id)
            {
                let row = CopyRow {
                    file: node.id,
                    vid: session.vid.clone(),
                    fseq: copy.fseq,
                    block: copy.block,
                    size: node.size,
                };
                archived(core, context, &request, &row)?;
            }
        }
        core.store.set_append_point(&session.vid, append.fseq, append.block, self.used_bytes)?;
        core.touch(Topic::Tape);
        Ok(Done {})
    }
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
    core.store.delete_request(request.id)?;
    core.live.waits.archived(context.now - request.created);
    let charge = Charge { tape_written: copy.size, ..Charge::default() };
    core.store.charge(
        node.as_ref()
            .map_or_else(|| Payer::user(&request.owner), |node| Payer::of_file(&request.owner, node)),
        &charge,
    )?;
    core.touch(Topic::Files);
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
        core.live.waits.recalled(context.now - request.created);
        let charge = Charge { tape_read: node.size, ..Charge::default() };
        core.store.charge(Payer::of_file(&request.owner, &node), &charge)?;
        core.touch(Topic::Files);
        mend(core, node.id, context.now)?;
        batch::file_online(core, node.id)?;
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
fn failed(
    core: &mut Core,
    context: &Context,
    mut row: RequestRow,
    blame: Blame,
    failure: &Failure,
) -> Result<()> {
    free_object(core, &row)?;
    // A full volume is nobody's fault: the next one is taken.
    let counts = failure.kind != ErrorKind::NoSpace || blame != Blame::Volume;
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
    }
    core.touch(Topic::Files);
    core.touch(Topic::Jobs);
    Ok(())
}

/// Gives the reserved object of a recall back.
pub(super) fn free_object(core: &mut Core, row: &RequestRow) -> Result<()> {
    if row.kind == RequestKind::Recall
        && let Some(object) = row.object
        && let Some(replica) = core.store.replica(object)?
        && replica.state == ReplicaState::Recalling
    {
        retire(core, &replica)?;
    }
    Ok(())
}

impl Apply for EndTapeSession {
    fn apply(self, core: &mut Core, context: &Context) -> Result<Done> {
        let session = match session_of(core, context, self.session) {
            Ok(session) => session,
            Err(failure) if failure.kind == ErrorKind::NotFound => return Ok(Done {}),
            Err(failure) => return Err(failure),
        };
        core.store.count_loads(&session.vid, self.loads)?;
        let part = f64::from(self.loads) / session.owners.len().max(1) as f64;
        for owner in &session.owners {
            core.store.charge(Payer::user(owner), &Charge { tape_loads: part, ..Charge::default() })?;
        }
        // A short session is over before its tape server has told how far it is.
        let phase = core.live.drives.get(&session.drive).and_then(|live| live.phase);
        if self.loads > 0 && matches!(phase, None | Some(TapePhase::Loading)) {
            say_loaded(core, (&session.vid, &session.drive, &session.kind), context.now);
        }
        // Known before the drive asks again: meanwhile another drive would be sent for the volume in vain.
        if (self.trouble.is_none() || self.loads > 0)
            && let Some(live) = core.live.drives.get_mut(&session.drive)
        {
            live.loaded = Some(session.vid.clone());
        }
        match &self.trouble {
            None => end_well(core, &session, context.now)?,
            Some((blame, failure)) => {
                warn!(session = %session.id, vid = %session.vid, drive = %session.drive, ?blame, cause = %failure, "tape session ended early");
                take_out_of_use(core, &session, *blame, failure, context.now)?;
                if session.kind == "survey" {
                    core.live.surveys_due.insert(session.vid.clone(), context.now + BACK_OFF);
                }
            }
        }
        // After trouble the same orders would meet it again at once.
        let (why, delay) = match self.trouble {
            None => ("the session ended before it".to_owned(), Millis(0)),
            Some((_, failure)) => (failure.what, BACK_OFF),
        };
        close(core, context, &session, &why, delay)?;
        Ok(Done {})
    }
}

fn end_well(core: &mut Core, session: &SessionRow, now: base::Timestamp) -> Result<()> {
    match session.kind.as_str() {
        "label" => {
            core.store.set_volume_state(&session.vid, VolumeState::Appendable, None)?;
        }
        "archive" => core.store.set_leftover(&session.vid, false)?,
        "recall" => core.live.recall_pace.note(now - session.started),
        _ => {}
    }
    Ok(())
}

/// A volume or a drive that ended a session is not used again until a person has looked.
fn take_out_of_use(
    core: &mut Core,
    session: &SessionRow,
    blame: Blame,
    failure: &Failure,
    now: Timestamp,
) -> Result<()> {
    match blame {
        Blame::Volume if failure.kind == ErrorKind::NoSpace => {
            core.store.set_volume_state(&session.vid, VolumeState::Full, None)?;
            say_volume(core, &session.vid, VolumeState::Full, None, now);
        }
        Blame::Volume => {
            core.store.set_volume_state(&session.vid, VolumeState::Suspect, Some(&failure.what))?;
            say_volume(core, &session.vid, VolumeState::Suspect, Some(&failure.what), now);
        }
        Blame::Drive => {
            core.store.set_drive_trouble(&session.drive, Some(&failure.what))?;
            let what = format!("drive {} was disabled: {}", session.drive, failure.what);
            core.say(now, EventType::DriveFailed, &session.drive, what);
        }
        Blame::File | Blame::System => {}
    }
    Ok(())
}

/// Ends a session; requests that it did not report go back to the queue, to be tried after `delay`.
fn close(core: &mut Core, context: &Context, session: &SessionRow, why: &str, delay: Millis) -> Result<()> {
    for mut row in core.store.requests_of_session(session.id)? {
        free_object(core, &row)?;
        row.state = RequestState::Queued;
        row.not_before = context.now + delay;
        row.reason = Some(why.to_owned());
        core.store.set_request_waiting(&row)?;
    }
    core.store.delete_session(session.id)?;
    if let Some(live) = core.live.drives.get_mut(&session.drive) {
        live.phase = None;
        live.request = None;
        live.bytes_done = 0;
    }
    info!(session = %session.id, drive = %session.drive, vid = %session.vid, "tape session ends");
    core.touch(Topic::Tape);
    core.touch(Topic::Jobs);
    Ok(())
}
