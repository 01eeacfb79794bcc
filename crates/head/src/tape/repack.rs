//! Repack: the files of a volume are copied to others, so that it becomes empty.
//!
//! **Problem.** Removed files leave holes, and volumes age. What is still wanted must get onto other volumes, without a moment in
//! which it has fewer copies than before, and without anybody waiting longer for it.
//!
//! **Idea.** A repack makes requests as users do, a few at a time and only when a drive is idle: files are recalled if they are not
//! on disk, and archived again, with their checksums compared both times. When the new copy is durable the old one is
//! forgotten. All of it lies in the catalogue, so a repack goes on after any restart.

use super::plan;
use crate::{
    Apply, Context, Core, Topic,
    namespace::path_of,
    pool,
    store::{CopyRow, Node, Purpose, RepackRow, RequestRow, VolumeRow},
};
use base::{ErrorKind, Failure, Result, Timestamp, Vid, limits::TAPE_FLUSH_BYTES, units::counted};
use tracing::info;
use wire::control::{
    Done, EventType, GetRepacks, REPACK_FAILURES_MAX, ReclaimVolume, RepackFailure, RepackInfo, RepackVolume,
    Repacks, RequestKind, RequestState, StopRepack, VolumeState,
};

/// Files that repacks move at the same time: enough for a session, few enough that their space on disk is not missed.
const FILES_MAX: usize = 500;
/// Bytes of these, unless it is one file.
const BYTES_MAX: u64 = TAPE_FLUSH_BYTES;

/// Why a volume cannot be repacked.
fn refusal(volume: &VolumeRow, repacks: &[RepackRow]) -> Option<Failure> {
    let vid = &volume.vid;
    let is_under_way = |repack: &RepackRow| repack.vid == *vid && repack.finished.is_none();
    if repacks.iter().any(is_under_way) {
        let failure = Failure::exists(format!("volume {vid} is being repacked already"));
        return Some(failure.hint("`bp repack` shows how far it is"));
    }
    let hint = match volume.state {
        VolumeState::Blank => "it holds nothing",
        VolumeState::Unread => "wait until it was surveyed",
        VolumeState::Exported => "bring it back first",
        VolumeState::Appendable
        | VolumeState::ReadOnly
        | VolumeState::Full
        | VolumeState::Suspect
        | VolumeState::Broken
        | VolumeState::Disabled => return None,
    };
    Some(Failure::invalid(format!("volume {vid} is {}", volume.state.as_str())).hint(hint))
}

pub(super) fn volume_named(core: &Core, vid: &Vid) -> Result<VolumeRow> {
    core.store.volume(vid)?.ok_or_else(|| {
        Failure::not_found(format!("there is no volume {vid}")).hint("`bp volumes` lists them")
    })
}

impl Apply for RepackVolume {
    fn apply(self, core: &mut Core, context: &Context) -> Result<Done> {
        context.who.require_operator("repack volumes")?;
        let (volume, who) = (volume_named(core, &self.vid)?, &context.who.name);
        if let Some(failure) = refusal(&volume, &core.store.repacks()?) {
            return Err(failure);
        }
        if matches!(volume.state, VolumeState::Appendable | VolumeState::Full) {
            // Nothing new may get onto it.
            let reason = format!("being repacked for {who}");
            core.store.set_volume_state(&self.vid, VolumeState::ReadOnly, Some(&reason))?;
        }
        core.store.put_repack(&self.vid, who, self.reclaims, context.now)?;
        info!(vid = %self.vid, %who, files = volume.files, "repack started");
        core.touch(Topic::Tape);
        Ok(Done {})
    }
}

impl Apply for StopRepack {
    fn apply(self, core: &mut Core, context: &Context) -> Result<Done> {
        context.who.require_operator("repack volumes")?;
        let repacks = core.store.repacks()?;
        let Some(repack) = repacks.iter().find(|repack| repack.vid == self.vid) else {
            let failure = Failure::not_found(format!("volume {} is not being repacked", self.vid));
            return Err(failure.hint("`bp repack` shows what is"));
        };
        if repack.finished.is_none() {
            for row in core.store.requests_of_repack(&self.vid)? {
                // A drive works at the others; they end by themselves.
                if row.state != RequestState::Active {
                    core.store.delete_request(row.id)?;
                }
            }
        }
        core.store.delete_repack(&self.vid)?;
        core.touch(Topic::Tape);
        Ok(Done {})
    }
}

impl Apply for GetRepacks {
    fn apply(self, core: &mut Core, _: &Context) -> Result<Repacks> {
        let rows = core.store.repacks()?;
        let repacks = rows.into_iter().map(|row| describe(core, row)).collect::<Result<_>>()?;
        Ok(Repacks { repacks })
    }
}

fn describe(core: &Core, row: RepackRow) -> Result<RepackInfo> {
    let volume = core.store.volume(&row.vid)?;
    let mut failures = Vec::new();
    let (mut failed, mut under_way) = (0, 0);
    if row.finished.is_none() {
        for request in core.store.requests_of_repack(&row.vid)? {
            if request.state != RequestState::Failed {
                under_way += 1;
                continue;
            }
            failed += 1;
            if failures.len() < REPACK_FAILURES_MAX {
                let path = path_of(core, request.file)?;
                failures.push(RepackFailure { path, reason: request.reason.unwrap_or_default() });
            }
        }
    }
    Ok(RepackInfo {
        files_left: volume.as_ref().map_or(0, |volume| volume.files),
        bytes_left: volume.as_ref().map_or(0, |volume| volume.live_bytes),
        vid: row.vid,
        owner: row.owner,
        reclaims: row.reclaims,
        started: row.started,
        finished: row.finished,
        files_moved: row.moved_files,
        bytes_moved: row.moved_bytes,
        files_under_way: under_way,
        files_failed: failed,
        failures,
    })
}

/// Volumes that are to become empty.
pub(super) fn leaving(core: &Core) -> Result<Vec<Vid>> {
    let repacks = core.store.repacks()?.into_iter();
    Ok(repacks.filter(|repack| repack.finished.is_none()).map(|repack| repack.vid).collect())
}

/// How many requests repacks may make now.
fn requests_possible(core: &Core) -> Result<usize> {
    let under_way = core.store.repacks_under_way()? as usize;
    Ok(if under_way > FILES_MAX / 2 { 0 } else { FILES_MAX - under_way })
}

/// Goes on with repacks; called when a drive asks for work, so that they get what nobody else wants.
pub(super) fn go_on(core: &mut Core, context: &Context) -> Result<()> {
    for repack in core.store.repacks()? {
        if repack.finished.is_none() {
            feed(core, context, &repack)?;
        }
    }
    Ok(())
}

fn feed(core: &mut Core, context: &Context, repack: &RepackRow) -> Result<()> {
    let Some(volume) = core.store.volume(&repack.vid)? else {
        return Ok(core.store.delete_repack(&repack.vid)?);
    };
    if volume.files == 0 {
        return finish(core, repack, &volume, context.now);
    }
    let room = requests_possible(core)?;
    if room == 0 {
        return Ok(());
    }
    let mut bytes = 0u64;
    for file in core.store.files_to_move(&repack.vid, room)? {
        let Some(node) = core.store.node(file)? else { continue };
        bytes = bytes.saturating_add(node.size);
        if bytes > BYTES_MAX && bytes != node.size {
            break;
        }
        let is_on_disk = pool::source(core, &node, 0, context.now)?.is_some();
        let kind = if is_on_disk { RequestKind::Archive } else { RequestKind::Recall };
        let id = core.store.put_request(kind, file, &repack.owner, context.now)?;
        core.store.set_request_purpose(id, Purpose::Repack)?;
    }
    Ok(())
}

fn finish(core: &mut Core, repack: &RepackRow, volume: &VolumeRow, now: Timestamp) -> Result<()> {
    let vid = &repack.vid;
    let refusal = if repack.reclaims { reclaim_refusal(core, volume)? } else { None };
    if refusal.as_ref().is_some_and(|failure| failure.kind == ErrorKind::Busy) {
        // A drive still has it.
        return Ok(());
    }
    core.store.finish_repack(vid, now)?;
    let what = format!("volume {vid} was repacked: it holds no file any more");
    core.say(now, EventType::VolumeRepacked, vid, what);
    info!(%vid, files = repack.moved_files, "repack finished");
    if repack.reclaims && refusal.is_none() {
        return reclaim(core, vid, now);
    }
    core.touch(Topic::Tape);
    Ok(())
}

/// A recall for a repack has brought a file to disk: it is written to another volume now.
pub(super) fn recalled(core: &mut Core, request: &RequestRow, node: &Node, now: Timestamp) -> Result<()> {
    if request.purpose == Purpose::User || core.store.request_of(RequestKind::Archive, node.id)?.is_some() {
        return Ok(());
    }
    let id = core.store.put_request(RequestKind::Archive, node.id, &request.owner, now)?;
    core.store.set_request_purpose(id, Purpose::Staged)?;
    core.touch(Topic::Tape);
    Ok(())
}

/// A file has a new copy, which is durable: those on volumes that are repacked are forgotten.
pub(super) fn copied(core: &mut Core, request: &RequestRow, new: &CopyRow, now: Timestamp) -> Result<()> {
    core.store.forget_damage(new.file)?;
    if request.purpose == Purpose::User {
        return Ok(());
    }
    let leaving = leaving(core)?;
    for old in core.store.copies(new.file)? {
        if old.vid != new.vid && leaving.contains(&old.vid) {
            core.store.moved_from(&old.vid, new.file, new.size)?;
        }
    }
    if request.purpose == Purpose::Staged && core.store.pins(new.file, now)?.is_empty() {
        pool::evict(core, new.file)?;
    }
    Ok(())
}

/// Why a volume cannot be written from its beginning.
fn reclaim_refusal(core: &Core, volume: &VolumeRow) -> Result<Option<Failure>> {
    let vid = &volume.vid;
    if volume.files > 0 {
        let what = format!("volume {vid} holds {}", counted(volume.files, "file", "files"));
        return Ok(Some(Failure::busy(what).hint(format!("`bp repack {vid}` copies them to other volumes"))));
    }
    if core.store.sessions()?.iter().any(|session| session.vid == *vid) {
        return Ok(Some(Failure::busy(format!("volume {vid} is in use")).hint("try again later")));
    }
    let is_known =
        matches!(volume.state, VolumeState::Appendable | VolumeState::ReadOnly | VolumeState::Full);
    let is_doubtful = volume.state == VolumeState::Full && volume.reason.is_some();
    if is_known && !is_doubtful && core.unsettled()?.is_none() {
        return Ok(None);
    }
    let what = format!("volume {vid} is {}: nobody knows what lies on it", volume.state.as_str());
    Ok(Some(Failure::invalid(what).hint("`bp admin volume survey` reads volumes")))
}

/// Has a volume written from its beginning: its label stays, and the next file goes behind it.
fn reclaim(core: &mut Core, vid: &Vid, now: Timestamp) -> Result<()> {
    core.store.set_append_point(vid, 1, plan::FIRST_FILE_BLOCK, 0)?;
    // What nobody refers to lies there, and is written over.
    core.store.set_leftover(vid, true)?;
    core.store.forget_damage_on(vid)?;
    core.store.set_verify_next(vid, 0)?;
    core.store.set_volume_state(vid, VolumeState::Appendable, None)?;
    core.say(now, EventType::VolumeReclaimed, vid, format!("volume {vid} is written from its beginning"));
    core.touch(Topic::Tape);
    Ok(())
}

impl Apply for ReclaimVolume {
    fn apply(self, core: &mut Core, context: &Context) -> Result<Done> {
        context.who.require_operator("reclaim volumes")?;
        let volume = volume_named(core, &self.vid)?;
        if let Some(failure) = reclaim_refusal(core, &volume)? {
            return Err(failure);
        }
        reclaim(core, &self.vid, context.now)?;
        Ok(Done {})
    }
}
