//! What an idle drive does next, and why everything else waits: pure functions of the queue, drives and volumes.

use super::{
    bundles::{self, Bundling},
    reading,
};
use base::{
    ErrorKind, Failure, FileId, Millis, RequestId, Result, Timestamp, Vid,
    limits::{TAPE_FLUSH_BYTES, TAPE_SESSION_FILES_MAX, TAPE_SESSION_REQUESTS_MAX},
    units::human_bytes,
};
use std::collections::BTreeMap;
use wire::control::{RequestKind, VolumeState};

/// Files, or bytes, that must wait before a further drive is put to writing: a load costs minutes and wears the volume.
const FILES_PER_WRITER: usize = 500;
const BYTES_PER_WRITER: u64 = 100 << 30;

/// The object of a labelled volume at which its first file begins.
pub(crate) const FIRST_FILE_BLOCK: u64 = 1;

/// A request that has waited this long goes before any preference for what is loaded.
const STARVING: Millis = Millis::from_seconds(600);

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
    pub(crate) created: Timestamp,
    pub(crate) not_before: Timestamp,
    pub(crate) attempts: u32,
    pub(crate) reason: Option<String>,
    /// Recalls: where the copy is.
    pub(crate) target: Option<Target>,
    /// Archives: volumes that have a copy already.
    pub(crate) not_on: Vec<Vid>,
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
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct VolumeView {
    pub(crate) vid: Vid,
    pub(crate) library: String,
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
struct Candidate {
    plan: Plan,
    oldest: Timestamp,
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
    let ready = |work: &&Work| work.not_before <= now && work.can_wait == can_wait;
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
fn is_reachable(view: &View, drive: &DriveView, volume: &VolumeView) -> bool {
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

/// What a file takes on tape: its data, six labels, four marks and the chunk headers of virtual cartridges.
pub(crate) fn tape_bytes(size: u64) -> u64 {
    size + size / 1024 + 4096
}

fn archive(view: &View, drive: &DriveView, work: &[&Work], now: Timestamp) -> Option<Candidate> {
    let mut work: Vec<&Work> =
        work.iter().copied().filter(|work| work.kind == RequestKind::Archive).collect();
    view.bundling.keep_ready(&mut work, now);
    let (first, volume) = first_placed(view, drive, &work)?;
    let writers = view.drives.iter().filter(|drive| drive.is_writing).count();
    let bytes: u64 = work.iter().map(|work| work.size).sum();
    let is_starving = now - first.created > STARVING;
    if !is_starving && work.len() < writers * FILES_PER_WRITER && bytes < writers as u64 * BYTES_PER_WRITER {
        return None;
    }
    let is_ready = volume.state != VolumeState::Blank && drive.loaded.as_ref() == Some(&volume.vid);
    if !is_starving && !is_ready && is_better_elsewhere(view, drive, first) {
        return None;
    }
    if volume.state == VolumeState::Blank {
        let plan = Plan { vid: volume.vid.clone(), work: PlannedWork::Label };
        return Some(Candidate { plan, oldest: first.created });
    }
    let (mut room, mut flush) = (volume.free_bytes, TAPE_FLUSH_BYTES);
    let (mut files, mut large) = (Vec::new(), 0);
    for work in &bundles::by_directory(&work) {
        let bytes = tape_bytes(work.size);
        if bytes > room || work.not_on.contains(&volume.vid) {
            // Another volume may have room for it; what is behind it need not wait for that.
            continue;
        }
        let is_long = large == TAPE_SESSION_FILES_MAX || files.len() == TAPE_SESSION_REQUESTS_MAX;
        if is_long || (bytes > flush && !files.is_empty()) {
            break;
        }
        room -= bytes;
        flush = flush.saturating_sub(bytes);
        large += usize::from(!view.bundling.is_small(work));
        files.push(*work);
    }
    let files = view.bundling.tape_files(files);
    let plan = Plan { vid: volume.vid.clone(), work: PlannedWork::Archive(files) };
    Some(Candidate { plan, oldest: first.created })
}

/// The oldest file for which this drive can have a volume now, with that volume: one that fits nowhere keeps nobody back.
fn first_placed<'a>(
    view: &'a View,
    drive: &DriveView,
    work: &[&'a Work],
) -> Option<(&'a Work, &'a VolumeView)> {
    // What is not smaller than a file without a place has none either, so volumes are not searched again for each.
    let mut too_large = u64::MAX;
    for work in work {
        if work.size >= too_large {
            continue;
        }
        match target_volume(view, drive, work) {
            Some(volume) => return Some((work, volume)),
            None if work.not_on.is_empty() => too_large = work.size,
            None => {}
        }
    }
    None
}

/// Bytes of the largest volume, full or not, on a shelf or not; `None` while no volume is known.
fn largest_volume_bytes(view: &View) -> Option<u64> {
    view.volumes.values().map(|volume| volume.used_bytes.saturating_add(volume.free_bytes)).max()
}

/// Queued archives of files that no volume can hold, and why.
pub(crate) fn never_fit(view: &View) -> Vec<(RequestId, Failure)> {
    let Some(largest) = largest_volume_bytes(view) else { return Vec::new() };
    let is_archive = |work: &&Work| work.kind == RequestKind::Archive;
    let failures = view.queue.iter().filter(is_archive).filter_map(|work| {
        let failure = refuse_oversize(work.size, largest).err()?;
        Some((work.id, failure))
    });
    failures.collect()
}

/// Refuses a file that is larger than the largest volume.
pub(crate) fn refuse_oversize(size: u64, largest: u64) -> Result<()> {
    let bytes = tape_bytes(size);
    if bytes <= largest {
        return Ok(());
    }
    let (bytes, largest) = (human_bytes(bytes), human_bytes(largest));
    Err(Failure::new(
        ErrorKind::NoSpace,
        format!("it needs {bytes} on tape, but the largest volume holds {largest}"),
    )
    .hint("a file must fit on one volume: add larger cartridges, or store it in parts"))
}

/// Whether another idle drive has a volume in it that can take the file without a load or a label.
fn is_better_elsewhere(view: &View, drive: &DriveView, first: &Work) -> bool {
    let has_room = |vid: &Vid| {
        if first.not_on.contains(vid) {
            return false;
        }
        let volume = view.volumes.get(vid).filter(|volume| volume.state == VolumeState::Appendable);
        volume.is_some_and(|volume| volume.free_bytes >= tape_bytes(first.size))
    };
    view.drives.iter().any(|other| {
        let is_idle = other.name != drive.name && other.busy_with.is_none() && other.trouble.is_none();
        is_idle && other.library == drive.library && other.loaded.as_ref().is_some_and(has_room)
    })
}

/// The volume to append to: the loaded one, else the fullest with room, else a blank one.
fn target_volume<'a>(view: &'a View, drive: &DriveView, work: &Work) -> Option<&'a VolumeView> {
    let bytes = tape_bytes(work.size);
    let usable = |volume: &&VolumeView| {
        let has_room = volume.state.is_writable() && volume.free_bytes >= bytes;
        has_room && !work.not_on.contains(&volume.vid) && is_reachable(view, drive, volume)
    };
    view.volumes.values().filter(usable).min_by_key(|volume| {
        let is_loaded = drive.loaded.as_ref() == Some(&volume.vid);
        (volume.state == VolumeState::Blank, !is_loaded, u64::MAX - volume.used_bytes, volume.vid.clone())
    })
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
