//! Why a request of the tape queue is not being done at this moment, in words.

use super::{
    archiving::{may_have, tape_bytes},
    plan::{View, VolumeView, Work, holder},
    quotas,
};
use base::{
    Millis, RequestId, Timestamp, Vid,
    units::{human_bytes, human_span},
};
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap, HashMap, VecDeque},
};
use wire::control::{CopyRoute, RequestKind, VolumeState};

/// Sessions that are remembered: enough to know a usual one, few enough to follow a change.
const SESSIONS_MAX: usize = 15;

/// How long the last sessions of recalls took.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    spans: VecDeque<Millis>,
}

impl Pace {
    /// Notes a session that ended well.
    pub(crate) fn note(&mut self, span: Millis) {
        if self.spans.len() == SESSIONS_MAX {
            self.spans.pop_front();
        }
        self.spans.push_back(Millis(span.0.max(0)));
    }

    /// The median.
    pub(crate) fn usual(&self) -> Option<Millis> {
        let mut spans: Vec<Millis> = self.spans.iter().copied().collect();
        spans.sort_unstable();
        spans.get(spans.len() / 2).copied()
    }
}

/// A view, and the tables that make it quick to explain every request of a long queue.
#[derive(Debug)]
pub(crate) struct Explainer {
    view: View,
    positions: HashMap<RequestId, usize>,
    /// What waits for each volume.
    waiting: HashMap<Vid, Waiting>,
}

/// Recalls that wait for one volume.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    files: usize,
    /// None if a drive has the volume.
    line: Option<QueuePosition>,
}

/// A position among the volumes of a library that wait for a drive.
#[derive(Debug, Clone, Copy)]
struct QueuePosition {
    /// Volumes before it.
    before: usize,
    /// All that wait.
    len: usize,
    /// When it is probably read.
    begins: Option<Timestamp>,
}

impl Explainer {
    pub(crate) fn new(view: View, now: Timestamp) -> Self {
        let positions = view.queue.iter().enumerate().map(|(position, work)| (work.id, position)).collect();
        let waiting = waiting(&view, now);
        Self { view, positions, waiting }
    }

    /// Requests that it knows.
    pub(crate) fn len(&self) -> usize {
        self.view.queue.len()
    }

    /// Why a queued request is not being done at this moment; `None` if the view does not reach that far.
    pub(crate) fn explain(&self, request: RequestId, now: Timestamp) -> Option<String> {
        let work = &self.view.queue[*self.positions.get(&request)?];
        let waiting = work.target.as_ref().and_then(|target| self.waiting.get(&target.vid));
        Some(explain(&self.view, work, waiting, now))
    }
}

/// What waits for each volume. Drives take volumes in the order of their oldest requests, but for those that they hold.
fn waiting(view: &View, now: Timestamp) -> HashMap<Vid, Waiting> {
    let mut oldest: BTreeMap<&Vid, (Timestamp, usize)> = BTreeMap::new();
    for work in &view.queue {
        let Some(target) = &work.target else { continue };
        let (created, files) = oldest.entry(&target.vid).or_insert((work.created, 0));
        *created = work.created.min(*created);
        *files += 1;
    }
    let mut lines: BTreeMap<&str, Vec<(Timestamp, &Vid)>> = BTreeMap::new();
    for (vid, (created, _)) in &oldest {
        let volume =
            view.volumes.get(*vid).filter(|volume| volume.state.is_readable() && !volume.library.is_empty());
        if let Some(volume) = volume.filter(|_| holder(view, vid).is_none()) {
            lines.entry(&volume.library).or_default().push((*created, vid));
        }
    }
    let mut waiting: HashMap<Vid, Waiting> = oldest
        .iter()
        .map(|(vid, (_, files))| ((*vid).clone(), Waiting { files: *files, line: None }))
        .collect();
    for (library, mut line) in lines {
        line.sort_unstable();
        let (len, mut begins) = (line.len(), begins(view, library, now));
        for (before, (_, vid)) in line.into_iter().enumerate() {
            let position = QueuePosition { before, len, begins: begins.next() };
            waiting.entry(vid.clone()).and_modify(|waiting| waiting.line = Some(position));
        }
    }
    waiting
}

fn explain(view: &View, work: &Work, waiting: Option<&Waiting>, now: Timestamp) -> String {
    if work.not_before > now {
        let wait = human_span(work.not_before - now);
        let reason = work.reason.as_deref().unwrap_or("failed");
        return format!("try {} in {wait}: {reason}", work.attempts + 1);
    }
    if !view.drives.iter().any(|drive| drive.trouble.is_none()) {
        let troubles = view
            .drives
            .iter()
            .filter_map(|drive| drive.trouble.as_ref().map(|trouble| format!("{}: {trouble}", drive.name)));
        return match troubles.collect::<Vec<_>>().join("; ") {
            none if none.is_empty() => "no tape server has registered a drive".to_owned(),
            troubles => format!("no drive is enabled: {troubles}"),
        };
    }
    if let Some(quota) = quotas::hindering(&quotas::exhausted(view), work) {
        return quotas::explain(quota);
    }
    match work.kind {
        RequestKind::Recall => explain_recall(view, work, waiting, now),
        RequestKind::Archive => explain_archive(view, work, now),
    }
}

fn explain_recall(view: &View, work: &Work, waiting: Option<&Waiting>, now: Timestamp) -> String {
    let Some(target) = &work.target else {
        return "has no tape copy".to_owned();
    };
    let vid = &target.vid;
    match view.volumes.get(vid) {
        None => format!("volume {vid} is not in any library"),
        Some(volume) if !volume.state.is_readable() && volume.state != VolumeState::Exported => {
            let why = volume.reason.as_ref().or(work.reason.as_ref()).map(|reason| format!(": {reason}"));
            format!("volume {vid} is {}{}", volume.state.as_str(), why.unwrap_or_default())
        }
        Some(volume) if volume.library.is_empty() || volume.state == VolumeState::Exported => {
            let state = if volume.state == VolumeState::Exported { "exported" } else { "not in any library" };
            format!("volume {vid} is {state}; an operator is asked to load it")
        }
        Some(_) if work.size > view.free_disk_bytes => {
            format!("no space on disk for {}; evict files", human_bytes(work.size))
        }
        Some(_) => match holder(view, vid) {
            Some(drive) if drive.busy_with.is_some() => {
                format!("volume {vid} is in use in drive {}; read next", drive.name)
            }
            Some(drive) => format!("volume {vid} is loaded in drive {}", drive.name),
            None => {
                let others = match waiting.map_or(0, |waiting| waiting.files.saturating_sub(1)) {
                    0 => String::new(),
                    1 => ", with 1 other file".to_owned(),
                    others => format!(", with {others} other files"),
                };
                let line = waiting.and_then(|waiting| waiting.line);
                let line = line.map_or_else(String::new, |position| in_line(position, now));
                format!("waits for volume {vid}{others}{line}; {}", drives_word(view))
            }
        },
    }
}

/// Where a volume stands among those that wait for a drive, and when it is probably read.
fn in_line(position: QueuePosition, now: Timestamp) -> String {
    let span = position.begins.map(|begins| begins - now).filter(|span| span.0 > 0);
    let when = span.map_or_else(String::new, |span| format!(", begins in about {}", human_span(span)));
    match (position.before, position.len) {
        (0, 1) => when,
        (0, len) => format!("; next of {len} volumes in line{when}"),
        (before, len) => format!("; number {} of {len} volumes in line{when}", before + 1),
    }
}

/// When the drives of a library begin with one volume after the other, if recalls take as long as they did lately: a guess that counts
/// neither what is still to come nor what is written. Nothing if no drive can be used, or no session has ended yet.
fn begins<'a>(view: &'a View, library: &'a str, now: Timestamp) -> impl Iterator<Item = Timestamp> + use<'a> {
    let session = view.recall_session;
    let usable = view.drives.iter().filter(|drive| drive.trouble.is_none() && drive.library == library);
    // When each drive is free.
    let mut free: BinaryHeap<Reverse<Timestamp>> = usable
        .filter_map(|drive| match drive.busy_since {
            Some(since) => Some(Reverse(now.max(since + session?))),
            None => Some(Reverse(now)),
        })
        .collect();
    std::iter::from_fn(move || {
        let Reverse(begins) = free.pop()?;
        free.push(Reverse(begins + session?));
        Some(begins)
    })
}

fn explain_archive(view: &View, work: &Work, now: Timestamp) -> String {
    let why = explain_copy(view, work, now);
    let (has, all) = (work.not_on.len(), work.not_on.len() + work.routes.len());
    if has == 0 || work.can_wait || work.routes.is_empty() {
        why
    } else {
        format!("copy {} of {all}: {why}", has + 1)
    }
}

/// Where the next copies of a file are to go, if not to any volume.
fn places(work: &Work) -> String {
    let routes = work.routes.iter().filter(|route| **route != CopyRoute::default());
    let routes = routes.map(ToString::to_string).collect::<Vec<_>>().join(" or ");
    if routes.is_empty() { routes } else { format!(" in {routes}") }
}

fn explain_copy(view: &View, work: &Work, now: Timestamp) -> String {
    let bytes = tape_bytes(work.size);
    let has_room = |volume: &VolumeView| {
        volume.state.is_writable() && volume.free_bytes >= bytes && may_have(volume, work)
    };
    if !view.volumes.values().any(has_room) {
        let unread = view.volumes.values().filter(|volume| volume.state == VolumeState::Unread).count();
        let hint = match unread {
            0 => "add a blank cartridge: `bp volume add`".to_owned(),
            unread => format!("volumes that wait for a survey: {unread}"),
        };
        let in_places = places(work);
        return format!("no volume{in_places} has free space for {}; {hint}", human_bytes(bytes));
    }
    if let Some(until) = view.bundling.waits_until(work, now) {
        let wait = human_span(until - now);
        return format!("waits up to {wait} for other small files, to be written as one with them");
    }
    match view.drives.iter().find(|drive| drive.is_writing) {
        Some(drive) => format!("drive {} is writing; this is next", drive.name),
        None => format!("waits to be written; {}", drives_word(view)),
    }
}

fn drives_word(view: &View) -> String {
    let usable = view.drives.iter().filter(|drive| drive.trouble.is_none());
    let (busy, free): (Vec<_>, Vec<_>) = usable.partition(|drive| drive.busy_with.is_some());
    match (busy.len(), free.len()) {
        (1, 0) => "the drive is busy".to_owned(),
        (busy, 0) => format!("all {busy} drives are busy"),
        (0, 1) => "the drive is free".to_owned(),
        (_, free) => format!("{free} of {} drives free", free + busy.len()),
    }
}
