//! Surveys: adds the files of a volume to a catalogue that lost them, from their labels.
//!
//! Labels know numbers of files, their content and the day of writing; no names, no owners, and not which of two contents is
//! the later one. So a file that nothing else tells of is found in `/lost+found`, and of two contents the one counts that was
//! written to tape on a later day than the other was made.

use crate::{
    Apply, Context, Core, Topic, batch,
    pool::mend,
    recovery::rebuild::{NUMBER_MAX, add_nameless, give_up_content},
    store::{CopyRow, NewContent, Node, ReplicaState, SessionRow, VolumeRow},
    tape::room::{session_of, volume_of},
};
use base::{Failure, Result, Timestamp, Vid, limits::OBJECT_BYTES_MAX};
use std::collections::BTreeSet;
use tracing::{info, warn};
use wire::control::{
    Done, FILES_FOUND_LEN_MAX, FilesFound, FoundFile, RequestKind, RequestState, SurveyOrdered,
    SurveyVolumes, VolumeState, VolumeSurveyed,
};

/// The relation of a file on tape to the catalogue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TapeFileStatus {
    /// A copy of the content of the file.
    Copy,
    /// Newer than the content of the file.
    Newer,
    /// The only trace of a file.
    NewFile,
    /// Of a removed file, or an older content.
    Obsolete,
}

/// Decides what a file means that was found on `vid`. `copies` are those of the node; `is_recovering`: the catalogue has lost files.
fn meaning(
    node: Option<&Node>,
    copies: &[CopyRow],
    (vid, found): (&Vid, &FoundFile),
    is_recovering: bool,
) -> TapeFileStatus {
    let Some(node) = node else {
        return if is_recovering { TapeFileStatus::NewFile } else { TapeFileStatus::Obsolete };
    };
    if !node.is_file() {
        return TapeFileStatus::Obsolete;
    }
    if (node.size, node.checksums) == (found.size, Some(found.checksums)) {
        return TapeFileStatus::Copy;
    }
    let is_written = |state| matches!(state, ReplicaState::Writing | ReplicaState::Mirroring);
    if !is_recovering || node.replicas.iter().any(|replica| is_written(replica.state)) {
        return TapeFileStatus::Obsolete;
    }
    // Of two contents that only tapes know and that were written on the same day the one counts that lies behind the other, so
    // that it is the same in whatever order volumes are read.
    let last = copies.iter().map(|copy| (&copy.vid, copy.fseq)).max();
    let is_behind = node.is_of_tape() && found.created == node.modified && last < Some((vid, found.fseq));
    if node.is_unwritten() || found.created > node.modified || is_behind {
        TapeFileStatus::Newer
    } else {
        TapeFileStatus::Obsolete
    }
}

/// Whether what is not known is taken in. Refused as long as nobody has said whether it is to be.
fn is_recovering(core: &Core) -> Result<bool> {
    match core.unsettled()? {
        None => Ok(false),
        Some(restore) if restore.is_recovering => Ok(true),
        Some(_) => {
            let what = "the restored catalogue does not add unknown files";
            Err(Failure::busy(what)
                .hint("run `bp admin recover` first; otherwise the survey's findings are ignored"))
        }
    }
}

/// Volumes that may be surveyed now.
pub(crate) fn due(core: &Core, volumes: &[VolumeRow], now: Timestamp) -> Vec<Vid> {
    let is_due = |vid| core.live.surveys_due.get(vid).is_none_or(|due| *due <= now);
    let unread = volumes.iter().filter(|row| row.state == VolumeState::Unread && is_due(&row.vid));
    unread.map(|row| row.vid.clone()).collect()
}

/// Whether a restore, or what a drive has found, leaves in doubt what lies on a volume.
pub(crate) fn is_doubtful(volume: &VolumeRow) -> bool {
    match volume.state {
        VolumeState::Suspect | VolumeState::Unread => true,
        // Nobody gives a reason for a volume that has no room.
        VolumeState::Full => volume.reason.is_some(),
        // An operator has said what they are.
        VolumeState::Blank
        | VolumeState::Appendable
        | VolumeState::ReadOnly
        | VolumeState::Broken
        | VolumeState::Disabled
        | VolumeState::Exported => false,
    }
}

/// Why a volume cannot be surveyed.
fn refusal(volume: &VolumeRow, sessions: &[SessionRow]) -> Option<Failure> {
    let vid = &volume.vid;
    if volume.state == VolumeState::Blank {
        let failure = Failure::invalid(format!("volume {vid} is blank: nothing was written to it"));
        return Some(failure.hint(format!("if in doubt, run `bp admin volume set {vid} suspect`")));
    }
    let is_writing =
        |session: &SessionRow| session.vid == *vid && matches!(&*session.kind, "archive" | "label");
    let session = sessions.iter().find(|session| is_writing(session))?;
    let what = format!("volume {vid} is being written in drive {}", session.drive);
    Some(Failure::busy(what).hint("try again later"))
}

impl Apply for SurveyVolumes {
    fn apply(self, core: &mut Core, context: &Context) -> Result<SurveyOrdered> {
        context.who.require_operator("survey volumes")?;
        is_recovering(core)?;
        let (volumes, sessions) = (core.store.volumes()?, core.store.sessions()?);
        let mut named: BTreeSet<_> = self.vids.into_iter().collect();
        let mut vids = Vec::new();
        for volume in volumes {
            let is_named = named.remove(&volume.vid);
            if !(is_named || self.all && is_doubtful(&volume)) {
                continue;
            }
            match refusal(&volume, &sessions) {
                Some(failure) if is_named => return Err(failure),
                Some(_) => continue,
                None => {}
            }
            if volume.state != VolumeState::Unread {
                let was_full = volume.state == VolumeState::Full && volume.reason.is_none();
                let reason = format!("to be surveyed, says {}", context.who.name);
                core.store.set_unread(&volume.vid, was_full, &reason)?;
            }
            core.live.surveys_due.remove(&volume.vid);
            vids.push(volume.vid);
        }
        if let Some(vid) = named.first() {
            return Err(Failure::not_found(format!("there is no volume {vid}")));
        }
        core.touch(Topic::Tape);
        Ok(SurveyOrdered { vids })
    }
}

/// The volume of a session that surveys it. An operator may have thought better of it.
fn surveyed(core: &Core, session: &SessionRow) -> Result<VolumeRow> {
    let volume = volume_of(core, &session.vid)?;
    if session.kind == "survey" && volume.state == VolumeState::Unread {
        return Ok(volume);
    }
    let what = format!("volume {} is not queued for a survey; it is {}", session.vid, volume.state.as_str());
    Err(Failure::invalid(what))
}

impl Apply for FilesFound {
    fn apply(self, core: &mut Core, context: &Context) -> Result<Done> {
        let session = session_of(core, context, self.session)?;
        let (mut append, is_recovering) = (surveyed(core, &session)?.append, is_recovering(core)?);
        if self.files.len() > FILES_FOUND_LEN_MAX {
            return Err(Failure::invalid(format!("a list of {} files is too long", self.files.len())));
        }
        let mut counts = [0u32; 4];
        for files in self.files.chunk_by(|one, next| one.fseq == next.fseq) {
            let [found, others @ ..] = files else { continue };
            if others.iter().any(|other| (other.block, other.end_block) != (found.block, found.end_block)) {
                let what = format!("volume {}: files of tape file {} lie apart", session.vid, found.fseq);
                return Err(Failure::corrupt(what));
            }
            if found.fseq < append.fseq {
                // Reported before; the answer was lost.
                continue;
            }
            if found.fseq != append.fseq || found.block != append.block || found.end_block <= found.block {
                return Err(Failure::corrupt(format!(
                    "volume {}: file {} found at block {} does not follow the last known file {} at block {}",
                    session.vid, found.fseq, found.block, append.fseq, append.block
                )));
            }
            append.fseq += 1;
            append.block = found.end_block;
            for found in files {
                counts[take_in(core, context, (&session.vid, found), is_recovering)? as usize] += 1;
            }
        }
        core.store.set_append_point(&session.vid, append.fseq, append.block, self.used_bytes)?;
        let [copies, newer, new, obsolete] = counts;
        info!(session = %session.id, vid = %session.vid, copies, newer, new, obsolete, "files found on tape");
        core.touch(Topic::Tape);
        core.touch(Topic::Files);
        core.touch(Topic::Jobs);
        Ok(Done {})
    }
}

/// Takes in what a file on tape tells.
fn take_in(
    core: &mut Core,
    context: &Context,
    on_tape: (&Vid, &FoundFile),
    is_recovering: bool,
) -> Result<TapeFileStatus> {
    let (vid, found) = on_tape;
    if found.file.0 == 0 || found.file.0 > NUMBER_MAX {
        warn!(%vid, fseq = found.fseq, file = %found.file, "file number on tape is not valid; the tape file is \
            skipped");
        return Ok(TapeFileStatus::Obsolete);
    }
    if found.size > OBJECT_BYTES_MAX {
        warn!(%vid, fseq = found.fseq, file = %found.file, "file size on tape is not valid; the tape file is skipped");
        return Ok(TapeFileStatus::Obsolete);
    }
    let (node, copies) = (core.store.node(found.file)?, core.store.copies(found.file)?);
    let meaning = meaning(node.as_deref(), &copies, on_tape, is_recovering);
    let content = NewContent { size: found.size, checksums: found.checksums, generation: 0 };
    match (meaning, node) {
        (TapeFileStatus::Obsolete, _) => return Ok(meaning),
        (TapeFileStatus::Copy, Some(node)) => {
            if copies.iter().any(|copy| copy.vid == *vid) {
                return Ok(meaning);
            }
            if node.is_of_tape() && found.created > node.modified {
                core.store.set_content(found.file, content, found.created)?;
            }
        }
        (TapeFileStatus::Newer, Some(node)) => {
            give_up_content(core, &node)?;
            core.store.set_content(found.file, content, found.created)?;
        }
        (TapeFileStatus::NewFile | TapeFileStatus::Copy | TapeFileStatus::Newer, _) => {
            add_nameless(core, found, context.now)?;
        }
    }
    let FoundFile { file, fseq, block, size, member, .. } = *found;
    core.store.insert_copy(&CopyRow { file, vid: vid.clone(), fseq, block, size, member }, found.created)?;
    crate::tape::note_missing_copies(core, file)?;
    archived(core, context, found)?;
    Ok(meaning)
}

/// Nobody need wait any longer for the file to be on tape.
fn archived(core: &mut Core, context: &Context, found: &FoundFile) -> Result<()> {
    if let Some(request) = core.store.request_of(RequestKind::Archive, found.file)?
        && request.state != RequestState::Active
    {
        core.store.delete_request(request.id)?;
    }
    if core.unsettled()?.is_none() {
        mend(core, found.file, context.now)?;
    }
    batch::file_archived(core, context, found.file)
}

impl Apply for VolumeSurveyed {
    fn apply(self, core: &mut Core, context: &Context) -> Result<Done> {
        let session = session_of(core, context, self.session)?;
        let volume = surveyed(core, &session)?;
        let (vid, append) = (&session.vid, volume.append);
        let is_known = match self.end {
            None => append.fseq == 1,
            Some(end) => (end.fseq, end.block) == (append.fseq, append.block),
        };
        if !is_known {
            let what = format!("volume {vid}: the survey ends elsewhere than at file {}", append.fseq);
            return Err(Failure::corrupt(what));
        }
        let has_room =
            volume.capacity > self.used_bytes.saturating_add(crate::tape::archiving::tape_bytes(0));
        let state = match self.end {
            None => VolumeState::Blank,
            Some(_) if has_room && !volume.was_full => VolumeState::Appendable,
            Some(_) => VolumeState::Full,
        };
        core.store.set_append_point(vid, append.fseq, append.block, self.used_bytes)?;
        core.store.set_leftover(vid, self.end.is_some_and(|end| end.may_have_leftover))?;
        core.store.set_volume_state(vid, state, None)?;
        core.live.surveys_due.remove(vid);
        info!(session = %session.id, %vid, files = append.fseq - 1, state = state.as_str(), "volume surveyed");
        core.touch(Topic::Tape);
        Ok(Done {})
    }
}
