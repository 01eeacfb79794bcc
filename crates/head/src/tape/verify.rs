//! Verification: the files of volumes that nobody reads are read and compared with the catalogue, and what is damaged is repaired
//! from what is left of it elsewhere.

use super::{classes, repack::volume_named, room::session_of};
use crate::{
    Apply, Context, Core, Topic,
    namespace::path_of,
    pool,
    store::{CopyRow, Purpose, VolumeRow},
};
use base::{Failure, Millis, Result, Timestamp, Vid, limits::TAPE_SURVEY_BYTES, units::counted};
use tracing::{info, warn};
use wire::{
    control::{
        DAMAGED_COPIES_MAX, DamagedCopies, DamagedCopy, DamagedFile, Done, EventType, FilesVerified,
        GetDamagedCopies, RequestKind, VerifyFile, VerifyVolume, VolumeState,
    },
    media::bundle::MEMBERS_MAX,
};

/// Copies of one session: those of a bundle are never divided.
const COPIES_MAX: usize = 500;

impl Core {
    /// Says how long a volume may be unread before it is verified; without this word none is.
    #[must_use]
    pub fn with_tape_verification(mut self, interval: Millis) -> Self {
        self.tape_verify_interval = interval;
        self
    }
}

impl Apply for VerifyVolume {
    fn apply(self, core: &mut Core, context: &Context) -> Result<Done> {
        context.who.require_operator("verify volumes")?;
        let volume = volume_named(core, &self.vid)?;
        if volume.files == 0 || !is_verifiable(&volume) {
            let files = counted(volume.files, "file", "files");
            let what = format!("volume {} is {}, with {files}", self.vid, volume.state.as_str());
            return Err(Failure::invalid(what).hint("only files that can be read are verified"));
        }
        if volume.verify_next == 0 {
            core.store.set_verify_next(&self.vid, 1)?;
        }
        core.touch(Topic::Tape);
        Ok(Done {})
    }
}

fn is_verifiable(volume: &VolumeRow) -> bool {
    volume.state.is_readable() && !matches!(volume.state, VolumeState::Blank | VolumeState::Unread)
}

/// Volumes that are to be verified now: those that were begun, then those that were unread for longest.
pub(super) fn due(core: &Core, volumes: &[VolumeRow], now: Timestamp) -> Vec<Vid> {
    let interval = core.tape_verify_interval;
    let is_old = |row: &VolumeRow| interval.0 > 0 && now - row.verified > interval;
    let is_due =
        |row: &&VolumeRow| row.files > 0 && is_verifiable(row) && (row.verify_next > 0 || is_old(row));
    let mut due: Vec<&VolumeRow> = volumes.iter().filter(is_due).collect();
    due.sort_by_key(|row| (row.verify_next == 0, row.verified));
    let is_put_off = |row: &&VolumeRow| core.live.surveys_due.get(&row.vid).is_some_and(|due| *due > now);
    due.into_iter().filter(|row| !is_put_off(row)).map(|row| row.vid.clone()).collect()
}

/// The files of a session: as many as are read in some minutes. None are left: the volume is verified.
pub(super) fn files(core: &mut Core, context: &Context, vid: &Vid) -> Result<Vec<VerifyFile>> {
    let volume = volume_named(core, vid)?;
    let copies = core.store.copies_from(vid, volume.verify_next, COPIES_MAX + MEMBERS_MAX)?;
    let (mut files, mut bytes, mut last) = (Vec::new(), 0u64, 0);
    for copy in copies {
        let is_full = files.len() >= COPIES_MAX || bytes >= TAPE_SURVEY_BYTES;
        if is_full && copy.fseq != last {
            break;
        }
        last = copy.fseq;
        let Some(node) = core.store.node(copy.file)? else { continue };
        let Some(checksums) = node.checksums else { continue };
        bytes = bytes.saturating_add(copy.size);
        let CopyRow { fseq, block, size, member, .. } = copy;
        files.push(VerifyFile { file: node.label(), fseq, block, size, checksums, member });
    }
    if files.is_empty() {
        end(core, vid, context.now)?;
    }
    Ok(files)
}

fn end(core: &mut Core, vid: &Vid, now: Timestamp) -> Result<()> {
    core.store.set_verified(vid, now)?;
    core.say(now, EventType::VolumeVerified, vid, format!("volume {vid} was verified"));
    info!(%vid, "volume verified");
    Ok(())
}

impl Apply for FilesVerified {
    fn apply(self, core: &mut Core, context: &Context) -> Result<Done> {
        let session = session_of(core, context, self.session)?;
        let volume = volume_named(core, &session.vid)?;
        if session.kind != "verify" || self.next_fseq < volume.verify_next {
            return Err(Failure::invalid(format!("session {} does not verify that", session.id)));
        }
        for file in &self.damaged {
            note_damage(core, context, &session.vid, file)?;
        }
        core.store.set_verify_next(&session.vid, self.next_fseq.max(1))?;
        if core.store.copies_from(&session.vid, self.next_fseq, 1)?.is_empty() {
            end(core, &session.vid, context.now)?;
        }
        core.touch(Topic::Tape);
        Ok(Done {})
    }
}

/// Notes a damaged copy, and has it replaced if the file can be read elsewhere.
fn note_damage(core: &mut Core, context: &Context, vid: &Vid, file: &DamagedFile) -> Result<()> {
    let Some(copy) = core.store.copy_at(vid, file.fseq, file.offset)? else {
        // Removed while it was read.
        return Ok(());
    };
    let Some(node) = core.store.node(copy.file)? else { return Ok(()) };
    core.store.put_damage(&copy, &file.failure.what, context.now)?;
    warn!(%vid, fseq = file.fseq, file = %copy.file, cause = %file.failure, "tape copy is damaged");
    let path = path_of(core, copy.file)?;
    let what = format!("the copy of {path} on volume {vid} is damaged: {}", file.failure.what);
    core.say(context.now, EventType::CopyDamaged, vid, what);
    let is_on_disk = pool::source(core, &node, 0, context.now)?.is_some();
    if !is_on_disk && !core.store.has_other_copy(copy.file, vid)? {
        return Ok(());
    }
    core.store.delete_copy(&copy)?;
    classes::note(core, copy.file)?;
    let kind = if is_on_disk { RequestKind::Archive } else { RequestKind::Recall };
    if core.store.request_of(kind, copy.file)?.is_none() {
        let owner = core.facility().owner.clone();
        let id = core.store.put_request(kind, copy.file, &owner, context.now)?;
        core.store.set_request_purpose(id, Purpose::Repack)?;
    }
    core.touch(Topic::Files);
    Ok(())
}

impl Apply for GetDamagedCopies {
    fn apply(self, core: &mut Core, context: &Context) -> Result<DamagedCopies> {
        context.who.require_operator("list damaged copies")?;
        let mut copies = Vec::new();
        for row in core.store.damaged_copies(DAMAGED_COPIES_MAX)? {
            let Some(node) = core.store.node(row.file)? else { continue };
            let left = core.store.copies(row.file)?;
            copies.push(DamagedCopy {
                path: path_of(core, row.file)?,
                state: pool::state_of(core, &node),
                is_last: left.iter().all(|copy| (&copy.vid, copy.fseq) == (&row.vid, row.fseq))
                    && !left.is_empty(),
                vid: row.vid,
                fseq: row.fseq,
                size: row.size,
                found: row.found,
                reason: row.reason,
            });
        }
        Ok(DamagedCopies { copies })
    }
}
