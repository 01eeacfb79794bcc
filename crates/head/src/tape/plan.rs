//! What an idle drive does next, and why everything else waits: pure functions of the queue, drives and volumes.

use super::{
    archiving::archive,
    bundles::Bundling,
    quotas::{self, Serving},
    reading,
};
use crate::store::DriveQuotaRow;
use base::{FileId, Millis, RequestId, Timestamp, Vid, limits::TAPE_SESSION_FILES_MAX};
use std::collections::BTreeMap;
use wire::control::{CopyRoute, RequestKind, VolumeState};

/// The object of a labelled volume at which its first file begins.
pub(crate) const FIRST_FILE_BLOCK: u64 = 1;

/// A request that has waited this long goes before any preference for what is loaded.
pub(super) const STARVING: Millis = Millis::from_seconds(600);

/// How often space on disk is looked for, with a short queue and with a long one: it is freed by deletions, by the end of writes and
/// pins, and by others that share the file system.
const SPACE_AGAIN: (Millis, Millis) = (Millis(1000), Millis::from_seconds(10));
const LONG_QUEUE_LEN: usize = 1000;

/// A queued request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Work {
    pub(crate) id: RequestId,
    pub(crate) kind: RequestKind,
    pub(crate) size: u64,
    /// The directory of the file.
    pub(crate) directory: FileId,
    /// The group of the file.
    pub(crate) group: String,
    pub(crate) created: Timestamp,
    pub(crate) not_before: Timestamp,
    pub(crate) attempts: u32,
    pub(crate) reason: Option<String>,
    /// Recalls: where the copy is.
    pub(crate) target: Option<Target>,
    /// Archives: volumes that have a copy already.
    pub(crate) not_on: Vec<Vid>,
    /// Archives: where copies are to go, one each; none: a further copy is wanted, in no tape pool.
    pub(crate) routes: Vec<CopyRoute>,
    /// Nobody waits for it: it is done when there is nothing else to do.
    pub(crate) can_wait: bool,
}

/// Where a copy is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) vid: Vid,
    pub(crate) fseq: u32,
    pub(crate) block: u64,
    /// Where it begins in its bundle; 0: it lies alone.
    pub(crate) offset: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DriveView {
    pub(crate) name: String,
    pub(crate) library: String,
    pub(crate) loaded: Option<Vid>,
    /// The volume that is being taken out of it.
    pub(crate) leaving: Option<Vid>,
    /// The volume of its session.
    pub(crate) busy_with: Option<Vid>,
    /// When that session began.
    pub(crate) busy_since: Option<Timestamp>,
    /// Its session writes files or a label.
    pub(crate) is_writing: bool,
    pub(crate) trouble: Option<String>,
    /// An operator has taken it out of use.
    pub(crate) is_down: bool,
    /// What its session does for groups.
    pub(crate) serving: Option<Serving>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct VolumeView {
    pub(crate) vid: Vid,
    pub(crate) library: String,
    /// Its tape pool; empty: none.
    pub(crate) pool: String,
    pub(crate) state: VolumeState,
    /// Why it is in that state.
    pub(crate) reason: Option<String>,
    pub(crate) used_bytes: u64,
    pub(crate) free_bytes: u64,
    /// The object behind its last file.
    pub(crate) end_block: u64,
}

/// Everything the planner knows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct View {
    pub(crate) drives: Vec<DriveView>,
    pub(crate) volumes: BTreeMap<Vid, VolumeView>,
    /// Volumes that are to be surveyed, and may be now.
    pub(crate) surveys: Vec<Vid>,
    /// Volumes that are to be verified, the most urgent first.
    pub(crate) verifications: Vec<Vid>,
    /// Queued requests, oldest first.
    pub(crate) queue: Vec<Work>,
    /// Room for recalled files, free or to be had by evicting others.
    pub(crate) free_disk_bytes: u64,
    /// How long a session of recalls takes, as far as it is known.
    pub(crate) recall_session: Option<Millis>,
    /// Which files share a tape file.
    pub(crate) bundling: Bundling,
    /// How many drives the files of a group may have.
    pub(crate) quotas: Vec<DriveQuotaRow>,
}

/// A session to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) vid: Vid,
    pub(crate) work: PlannedWork,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PlannedWork {
    Label,
    /// Each list is one tape file.
    Archive(Vec<Vec<RequestId>>),
    Recall(Vec<RequestId>),
    Survey,
    Verify,
}

/// A plan and how much it is wanted.
pub(super) struct Candidate {
    pub(super) plan: Plan,
    pub(super) oldest: Timestamp,
}

/// Chooses the next session of an idle drive.
///
/// Users wait for recalls, so recalls go before archives. A loaded volume goes before one that must be fetched. Work
/// that has starved goes before all that, oldest first. Repacks, then surveys, then
/// verifications are for drives that have nothing else to do.
pub(crate) fn next_session(view: &View, drive: &str, now: Timestamp) -> Option<Plan> {
    let drive = view.drives.iter().find(|row| row.name == drive)?;
    if drive.busy_with.is_some() || drive.trouble.is_some() {
        return None;
    }
    let best = most_urgent(view, drive, now, false).or_else(|| most_urgent(view, drive, now, true));
    best.or_else(|| survey(view, drive)).or_else(|| verify(view, drive))
}

/// The most urgent session for requests that can wait, or for those that cannot.
fn most_urgent(view: &View, drive: &DriveView, now: Timestamp, can_wait: bool) -> Option<Plan> {
    let exhausted = quotas::exhausted(view);
    let ready = |work: &&Work| {
        let is_due = work.not_before <= now && work.can_wait == can_wait;
        is_due && quotas::hindering(&exhausted, work).is_none()
    };
    let work: Vec<&Work> = view.queue.iter().filter(ready).collect();
    let mut candidates = recalls(view, drive, &work);
    candidates.extend(archive(view, drive, &work, now));
    let urgency = |candidate: &Candidate| {
        let is_starving = now - candidate.oldest > STARVING;
        let is_loaded = drive.loaded.as_ref() == Some(&candidate.plan.vid);
        let is_recall = matches!(candidate.plan.work, PlannedWork::Recall(_));
        (!is_starving, !is_starving && !is_loaded, !is_starving && !is_recall, candidate.oldest)
    };
    let best = candidates.into_iter().min_by_key(urgency)?.plan;
    Some(match best.work {
        // Only for the one that is taken: it costs some milliseconds.
        PlannedWork::Recall(files) => {
            let files = reading::order(&view.volumes[&best.vid], &work, &files);
            Plan { vid: best.vid, work: PlannedWork::Recall(files) }
        }
        _ => best,
    })
}

/// Whether a drive without a session gives its volume back now: an operator has taken it out of use, and others may want the
/// volume. A drive that has failed keeps it: moving it may do harm.
pub(crate) fn is_to_unload(view: &View, drive: &str) -> bool {
    let drive = view.drives.iter().find(|row| row.name == drive);
    drive.is_some_and(|drive| drive.is_down && drive.loaded.is_some())
}

/// The volume to be surveyed: the loaded one, else the first that can be had.
fn survey(view: &View, drive: &DriveView) -> Option<Plan> {
    let can_have = |vid: &&Vid| view.volumes.get(vid).is_some_and(|volume| is_reachable(view, drive, volume));
    let vids = view.surveys.iter().filter(can_have);
    let vid = vids.min_by_key(|vid| (drive.loaded.as_ref() != Some(vid), *vid))?;
    Some(Plan { vid: vid.clone(), work: PlannedWork::Survey })
}

/// The volume to be verified.
fn verify(view: &View, drive: &DriveView) -> Option<Plan> {
    let can_have = |vid: &&Vid| view.volumes.get(vid).is_some_and(|volume| is_reachable(view, drive, volume));
    let vid = view.verifications.iter().find(can_have)?;
    Some(Plan { vid: vid.clone(), work: PlannedWork::Verify })
}

/// Whether a drive can have a volume now.
pub(super) fn is_reachable(view: &View, drive: &DriveView, volume: &VolumeView) -> bool {
    volume.library == drive.library && holder(view, &volume.vid).is_none_or(|other| other.name == drive.name)
}

/// The drive that has a volume, loaded or in its session.
pub(super) fn holder<'a>(view: &'a View, vid: &Vid) -> Option<&'a DriveView> {
    let has =
        |drive: &&DriveView| drive.loaded.as_ref() == Some(vid) || drive.busy_with.as_ref() == Some(vid);
    view.drives.iter().find(has)
}

/// One candidate for each volume that has something to recall.
fn recalls<'a>(view: &'a View, drive: &DriveView, work: &[&'a Work]) -> Vec<Candidate> {
    let mut by_volume: BTreeMap<&Vid, Vec<&Work>> = BTreeMap::new();
    for work in work.iter().filter(|work| work.kind == RequestKind::Recall) {
        let Some(target) = &work.target else { continue };
        let volume = view.volumes.get(&target.vid).filter(|volume| volume.state.is_readable());
        if volume.is_some_and(|volume| is_reachable(view, drive, volume)) {
            by_volume.entry(&target.vid).or_default().push(work);
        }
    }
    by_volume.into_iter().filter_map(|(vid, work)| recall_of(view, vid, work)).collect()
}

fn recall_of(view: &View, vid: &Vid, mut work: Vec<&Work>) -> Option<Candidate> {
    // Oldest first until the disk is full or the session is long enough; their order is found later.
    let mut room = view.free_disk_bytes;
    work.retain(|work| {
        let fits = work.size <= room;
        room -= if fits { work.size } else { 0 };
        fits
    });
    work.truncate(TAPE_SESSION_FILES_MAX);
    let oldest = work.iter().map(|work| work.created).min()?;
    let files = work.iter().map(|work| work.id).collect();
    Some(Candidate { plan: Plan { vid: vid.clone(), work: PlannedWork::Recall(files) }, oldest })
}

/// When a drive that was given nothing should look again though nothing was announced; `None` if time changes nothing.
///
/// A request may be tried again later, one that has starved needs no further reason, and space on disk comes without a word.
pub(crate) fn look_again_in(view: &View, now: Timestamp) -> Option<Millis> {
    let moments = view.queue.iter().flat_map(|work| {
        [work.not_before, work.created + STARVING + Millis(1), work.created + view.bundling.wait]
    });
    let due = moments.map(|at| at - now).filter(|span| span.0 > 0);
    due.chain(lacks_space(view, now).then(|| space_again(view))).min()
}

/// How often a drive looks whether there is space on disk. A long queue is not read every second.
pub(crate) fn space_again(view: &View) -> Millis {
    if view.queue.len() < LONG_QUEUE_LEN { SPACE_AGAIN.0 } else { SPACE_AGAIN.1 }
}

/// Whether files that could be recalled now do not all find space on disk.
fn lacks_space(view: &View, now: Timestamp) -> bool {
    let is_readable = |work: &&Work| {
        let volume = work.target.as_ref().and_then(|target| view.volumes.get(&target.vid));
        volume.is_some_and(|volume| volume.state.is_readable())
    };
    let is_ready = |work: &&Work| work.kind == RequestKind::Recall && work.not_before <= now;
    let wanted = view.queue.iter().filter(is_ready).filter(is_readable).map(|work| work.size);
    wanted.fold(0, u64::saturating_add) > view.free_disk_bytes
}
