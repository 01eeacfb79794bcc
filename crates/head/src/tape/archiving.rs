//! Which files a drive writes next, and to which volume: pure.

use super::{
    bundles,
    plan::{Candidate, DriveView, Plan, PlannedWork, STARVING, View, VolumeView, Work, is_reachable},
};
use base::{
    ErrorKind, Failure, RequestId, Result, Timestamp, Vid,
    limits::{TAPE_FLUSH_BYTES, TAPE_SESSION_FILES_MAX, TAPE_SESSION_REQUESTS_MAX},
    units::human_bytes,
};
use wire::control::{CopyRoute, RequestKind, VolumeState};

/// Files, or bytes, that must wait before a further drive is put to writing: a load costs minutes and wears the volume.
const FILES_PER_WRITER: usize = 500;
const BYTES_PER_WRITER: u64 = 100 << 30;

/// What a file takes on tape: its data, six labels, four marks and the chunk headers of virtual cartridges.
pub(crate) fn tape_bytes(size: u64) -> u64 {
    size + size / 1024 + 4096
}

/// What a drive would write next: the files of a session, and the volume that takes them.
pub(super) fn archive(view: &View, drive: &DriveView, work: &[&Work], now: Timestamp) -> Option<Candidate> {
    let mut work: Vec<&Work> =
        work.iter().copied().filter(|work| work.kind == RequestKind::Archive).collect();
    view.bundling.keep_ready(&mut work, now);
    let (first, volume) = first_placed(view, drive, &work)?;
    // What may go anywhere waits for the drive that writes already; a copy for one library does not wait for another one's.
    let is_beside =
        |other: &&DriveView| other.is_writing && (is_plain(first) || other.library == drive.library);
    let writers = view.drives.iter().filter(is_beside).count();
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
        if bytes > room || !may_have(volume, work) {
            // Another volume may take it; what is behind it need not wait for that.
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

/// Whether a volume may have a copy of a file: it has none, and is where one of them is to go.
pub(super) fn may_have(volume: &VolumeView, work: &Work) -> bool {
    let is_route = |route: &CopyRoute| route.accepts(&volume.library, &volume.pool);
    let is_place = if is_plain(work) { volume.pool.is_empty() } else { work.routes.iter().any(is_route) };
    is_place && !work.not_on.contains(&volume.vid)
}

/// Whether a copy may go to any volume that is in no tape pool.
fn is_plain(work: &Work) -> bool {
    work.routes.iter().all(|route| *route == CopyRoute::default())
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
            None if work.not_on.is_empty() && is_plain(work) => too_large = work.size,
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
        let volume = view.volumes.get(vid).filter(|volume| volume.state == VolumeState::Appendable);
        volume.is_some_and(|volume| volume.free_bytes >= tape_bytes(first.size) && may_have(volume, first))
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
        has_room && may_have(volume, work) && is_reachable(view, drive, volume)
    };
    view.volumes.values().filter(usable).min_by_key(|volume| {
        let is_loaded = drive.loaded.as_ref() == Some(&volume.vid);
        (volume.state == VolumeState::Blank, !is_loaded, u64::MAX - volume.used_bytes, volume.vid.clone())
    })
}
