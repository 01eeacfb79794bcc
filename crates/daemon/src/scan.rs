//! Scans of a partition: compares it with the catalogue, slowly, and mends what was found.
//!
//! Nothing is believed that was looked at once. What seems wrong is asked and looked at again: a file that is written, evicted or
//! removed meanwhile is known to the head before its object appears, and forgotten only after the object has gone.

mod scrub;

use crate::{files::blocking, link::Link};
use base::{ErrorKind, Failure, Millis, ObjectId, Result};
use disk::{
    Partition,
    scan::{PLACES, Seen, is_damage},
};
use net::shutdown::Token;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};
use tracing::{info, warn};
use wire::control::{
    AskObjects, CatalogueWindow, Finding, FindingKind, Known, KnownObject, MendFinding, Mending,
    NextFindings, NextScan, ReportScan, ScanCursor, ScanOrder, ScanPace, ScanWork,
};

/// How long a question for work is held back: the end of the daemon may have to wait for its answer.
const WAIT: Millis = Millis::from_seconds(2);
/// Pause after something did not work.
const PAUSE: Duration = Duration::from_secs(5);
/// Objects that are looked at before the head is asked about them: a fraction of a millisecond of its time.
const CHUNK: usize = 64;
/// The same where every byte of them is read.
const CHUNK_READ: usize = 8;
/// The head is told at least this often: an interruption costs no more.
const REPORT_EVERY: Duration = Duration::from_secs(3);
/// Longest pause at once: who stops the daemon does not wait.
const NAP: Duration = Duration::from_millis(200);

/// Scans one partition when the head says so.
pub(crate) struct Scanner {
    link: Link,
    partition: Arc<Partition>,
    token: Token,
}

/// Keeps to a pace, and leaves the disk to others for at least as long as it was busy with it.
pub(crate) struct Pace {
    bounds: ScanPace,
    /// When the next thing may be done.
    next: Instant,
    began: Instant,
}

impl Pace {
    pub(crate) fn new(bounds: ScanPace) -> Self {
        Self { bounds, next: Instant::now(), began: Instant::now() }
    }

    pub(crate) fn begin(&mut self) {
        self.began = Instant::now();
    }

    /// Waits after so much was done. False if it is time to stop.
    fn rest(&mut self, objects: u64, bytes: u64, token: &Token) -> bool {
        self.rest_unless(objects, bytes, || token.is_stopped())
    }

    /// The same, where others say when it is time to stop.
    pub(crate) fn rest_unless(&mut self, objects: u64, bytes: u64, is_stopped: impl Fn() -> bool) -> bool {
        let spent =
            objects as f64 / self.bounds.objects_per_s as f64 + bytes as f64 / self.bounds.bytes_per_s as f64;
        let now = Instant::now();
        let busy = now - self.began;
        self.next = self.next.max(self.began) + Duration::from_secs_f64(spent.min(3600.0));
        let until = self.next.max(now + busy);
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if is_stopped() {
                return false;
            }
            if left.is_zero() {
                self.begin();
                return true;
            }
            std::thread::sleep(left.min(NAP));
        }
    }
}

/// What is done and not told yet.
struct Progress {
    cursor: ScanCursor,
    looks: u64,
    bytes: u64,
    findings: Vec<Finding>,
    told: Instant,
}

/// How a scan came to its end.
#[derive(PartialEq, Eq)]
enum End {
    Done,
    /// Somebody stopped it, or the daemon stops.
    Stopped,
}

/// What is wrong with an object as it was seen, given what the catalogue knows.
fn compare(seen: &Seen, known: &Known) -> Option<(FindingKind, String)> {
    match (seen, known) {
        (Seen::Writing, _) | (_, Known::Moving) | (Seen::Missing, Known::Unknown | Known::Unheard) => None,
        (Seen::Missing | Seen::Rest, Known::Online(_)) => {
            Some((FindingKind::Lost, "nothing of it is there".to_owned()))
        }
        (Seen::Whole(info), Known::Online(known)) if info.size != known.size => {
            Some((FindingKind::WrongSize, format!("{} bytes, the catalogue says {}", info.size, known.size)))
        }
        (Seen::Whole(info), Known::Online(known)) if info.checksums != known.checksums => {
            let (here, there) = (info.checksums.adler32, known.checksums.adler32);
            Some((FindingKind::WrongChecksum, format!("adler32 {here}, the catalogue says {there}")))
        }
        (Seen::Whole(_), Known::Online(_)) => None,
        (Seen::Damaged { size: Some(size), .. }, Known::Online(known)) if *size != known.size => {
            Some((FindingKind::WrongSize, format!("{size} bytes, the catalogue says {}", known.size)))
        }
        (Seen::Damaged { failure, .. }, Known::Online(_)) => {
            Some((FindingKind::Damaged, failure.to_string()))
        }
        (seen, Known::Unheard) => Some((FindingKind::Orphan, format!("{UNHEARD}; {}", describe(seen)))),
        (seen, Known::Unknown) => Some((FindingKind::Orphan, describe(seen))),
    }
}

/// Begins the detail of what may be newer than the catalogue.
const UNHEARD: &str = "its number was never given: is the catalogue an old one?";

fn describe(seen: &Seen) -> String {
    match seen {
        Seen::Whole(info) => format!("{} bytes of {}", info.size, info.path),
        Seen::Damaged { failure, .. } => failure.to_string(),
        _ => "the rest of an interrupted step".to_owned(),
    }
}

fn file_of(seen: &Seen, known: &Known) -> Option<base::FileId> {
    match (known, seen) {
        (Known::Online(KnownObject { file, .. }), _) => Some(*file),
        (_, Seen::Whole(info)) => Some(info.file),
        _ => None,
    }
}

/// A way to look at an object, and how many times cheaper it is than to look at all of it.
type Look<T> = (fn(&Partition, ObjectId) -> T, u64);

/// What is seen of an object.
const LOOK: Look<Seen> = (Partition::look, 1);
/// Whether anything is there: one call of the file system, not four.
const GLANCE: Look<bool> = (Partition::glance, 4);

/// Looks at objects, at the pace. `None`: it is time to stop.
fn look_at<T>(
    partition: &Partition,
    objects: &[ObjectId],
    (look, times_cheaper): Look<T>,
    pace: &mut Pace,
    token: &Token,
) -> Result<Option<Vec<T>>> {
    let mut all = Vec::with_capacity(objects.len());
    partition.check_in_place()?;
    pace.begin();
    for objects in objects.chunks(16) {
        all.extend(objects.iter().map(|object| look(partition, *object)));
        if !pace.rest(objects.len() as u64 / times_cheaper, 0, token) {
            return Ok(None);
        }
    }
    // What was not there before this is not lost if nothing is.
    partition.check_in_place()?;
    Ok(Some(all))
}

/// Reads every byte of an object; what is wrong with it, and how much was read. `None`: it is time to stop.
fn scrub(
    partition: &Partition,
    object: ObjectId,
    pace: &mut Pace,
    is_stopped: impl Fn() -> bool,
) -> Result<Option<(Option<Failure>, u64)>> {
    let mut bytes = 0;
    pace.begin();
    let outcome = partition.scrub(object, |count| {
        bytes += count;
        pace.rest_unless(0, count, &is_stopped)
    });
    match outcome {
        Ok(None) => Ok(None),
        Ok(Some(_)) => Ok(Some((None, bytes))),
        Err(failure) if is_damage(&failure) => Ok(Some((Some(failure), bytes))),
        // Removed, or replaced, meanwhile.
        Err(_) => Ok(Some((None, bytes))),
    }
}

impl Scanner {
    pub(crate) fn new(link: Link, partition: Arc<Partition>, token: Token) -> Self {
        Self { link, partition, token }
    }

    fn name(&self) -> String {
        self.partition.identity().partition.clone()
    }

    /// Does what the head wants until it is time to stop.
    pub(crate) async fn keep(self) {
        while !self.token.is_stopped() {
            let orders = tokio::select! {
                () = self.token.stopped() => return,
                orders = self.link.call_waiting(NextScan { partition: self.name() }, WAIT) => orders,
            };
            let outcome = match orders {
                Ok(orders) => match orders.order {
                    Some(order) => self.follow(&order).await,
                    None => continue,
                },
                Err(failure) => Err(failure),
            };
            if let Err(failure) = outcome {
                warn!(partition = self.name(), %failure, "scan interrupted; it goes on later");
                // Stopping ends the pause; running out of time is the usual way.
                let _ = tokio::time::timeout(PAUSE, self.token.stopped()).await;
            }
        }
    }

    async fn follow(&self, order: &ScanOrder) -> Result<()> {
        info!(partition = self.name(), scan = order.scan, work = ?order.work, place = order.cursor.place, "scan");
        let cursor = order.cursor;
        let mut progress =
            Progress { cursor, looks: 0, bytes: 0, findings: Vec::new(), told: Instant::now() };
        let end = match order.work {
            ScanWork::Look | ScanWork::Scrub => self.look(order, &mut progress).await,
            ScanWork::Repair => self.repair(order, &mut progress).await,
        };
        match end {
            Ok(End::Done) => self.tell(order, &mut progress, true, None).await.map(drop),
            Ok(End::Stopped) => Ok(()),
            Err(failure) => {
                // What was done is told, if the head can hear it; the failure is what matters.
                let _ = self.tell(order, &mut progress, false, Some(failure.to_string())).await;
                Err(failure)
            }
        }
    }

    /// Tells the head. Whether to go on.
    async fn tell(
        &self,
        order: &ScanOrder,
        progress: &mut Progress,
        is_done: bool,
        trouble: Option<String>,
    ) -> Result<bool> {
        let report = ReportScan {
            partition: self.name(),
            scan: order.scan,
            cursor: progress.cursor,
            looks: progress.looks,
            bytes: progress.bytes,
            findings: progress.findings.clone(),
            is_done,
            trouble,
        };
        let reply = self.link.call(report).await?;
        (progress.looks, progress.bytes, progress.told) = (0, 0, Instant::now());
        progress.findings.clear();
        Ok(reply.goes_on)
    }

    /// Tells the head if that is due. Whether to go on.
    async fn tell_now_and_then(&self, order: &ScanOrder, progress: &mut Progress) -> Result<bool> {
        let is_due = progress.told.elapsed() >= REPORT_EVERY || progress.findings.len() >= CHUNK;
        Ok(!self.token.is_stopped() && (!is_due || self.tell(order, progress, false, None).await?))
    }

    async fn look(&self, order: &ScanOrder, progress: &mut Progress) -> Result<End> {
        let mut pace = Pace::new(order.pace);
        while progress.cursor.place < PLACES {
            let ScanCursor { place, after } = progress.cursor;
            let partition = Arc::clone(&self.partition);
            let objects = blocking(move || partition.objects_in(place, after)).await?;
            for chunk in objects.chunks(if order.pace.is_checksummed { CHUNK_READ } else { CHUNK }) {
                let Some(last) = chunk.last() else { break };
                pace = match self.look_through((order, order.pace), chunk, pace, progress).await? {
                    Some(pace) => pace,
                    None => return Ok(End::Stopped),
                };
                // Before it counts as done: what is interrupted is found again.
                if !self.mend_found(order, progress).await? {
                    return Ok(End::Stopped);
                }
                progress.cursor.after = *last;
                if !self.tell_now_and_then(order, progress).await? {
                    return Ok(End::Stopped);
                }
            }
            progress.cursor = ScanCursor { place: place + 1, after: ObjectId(0) };
        }
        self.look_for_lost(order, pace, progress).await
    }

    /// Compares some objects that lie there. `None`: it is time to stop.
    async fn look_through(
        &self,
        (order, how): (&ScanOrder, ScanPace),
        chunk: &[ObjectId],
        pace: Pace,
        progress: &mut Progress,
    ) -> Result<Option<Pace>> {
        let Some((mut pace, seen)) = self.seen(chunk.to_vec(), LOOK, pace).await? else { return Ok(None) };
        let known = self.ask(chunk.to_vec()).await?;
        for ((object, seen), known) in chunk.iter().zip(&seen).zip(&known) {
            progress.looks += 1;
            if compare(seen, known).is_some() {
                pace = match self.look_again(*object, pace, progress).await? {
                    Some(pace) => pace,
                    None => return Ok(None),
                };
            } else if how.is_checksummed && matches!((seen, known), (Seen::Whole(_), Known::Online(_))) {
                pace = match self.read(order, (*object, known), pace, progress).await? {
                    Some(pace) => pace,
                    None => return Ok(None),
                };
            }
        }
        Ok(Some(pace))
    }

    async fn seen<T: Send + 'static>(
        &self,
        objects: Vec<ObjectId>,
        look: Look<T>,
        mut pace: Pace,
    ) -> Result<Option<(Pace, Vec<T>)>> {
        let (partition, token) = (Arc::clone(&self.partition), self.token.clone());
        blocking(move || Ok(look_at(&partition, &objects, look, &mut pace, &token)?.map(|seen| (pace, seen))))
            .await
    }

    async fn ask(&self, objects: Vec<ObjectId>) -> Result<Vec<Known>> {
        let asked = objects.len();
        let known = self.link.call(AskObjects { partition: self.name(), objects }).await?.known;
        if known.len() != asked {
            return Err(Failure::internal(format!("the head knows {} of {asked} objects", known.len())));
        }
        Ok(known)
    }

    /// Looks at an object that seems wrong, asks, and looks once more: it was wrong all the time, or it is not.
    async fn look_again(
        &self,
        object: ObjectId,
        pace: Pace,
        progress: &mut Progress,
    ) -> Result<Option<Pace>> {
        let Some((pace, before)) = self.seen(vec![object], LOOK, pace).await? else { return Ok(None) };
        let known = self.ask(vec![object]).await?;
        let Some((pace, seen)) = self.seen(vec![object], LOOK, pace).await? else { return Ok(None) };
        for known in &known {
            if seen == before.as_slice()
                && let [seen] = seen.as_slice()
                && let Some((kind, detail)) = compare(seen, known)
            {
                progress.findings.push(Finding { object, kind, file: file_of(seen, known), detail });
            }
        }
        Ok(Some(pace))
    }

    /// Reads every byte of an object.
    async fn read(
        &self,
        order: &ScanOrder,
        (object, known): (ObjectId, &Known),
        mut pace: Pace,
        progress: &mut Progress,
    ) -> Result<Option<Pace>> {
        let (partition, token) = (Arc::clone(&self.partition), self.token.clone());
        let is_unwanted = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&is_unwanted);
        let reading = blocking(move || {
            let is_stopped = || token.is_stopped() || told.load(Ordering::Relaxed);
            Ok(scrub(&partition, object, &mut pace, is_stopped)?.map(|read| (pace, read)))
        });
        let read = self.while_wanted(order, progress.cursor, &is_unwanted, reading).await?;
        let Some((pace, (damage, bytes))) = read else { return Ok(None) };
        progress.bytes += bytes;
        if let Some(failure) = damage {
            // One that was dropped meanwhile is nobody's concern.
            let now = self.ask(vec![object]).await?;
            if now.first() == Some(known) {
                let kind = match failure.kind {
                    ErrorKind::Corrupt => FindingKind::WrongChecksum,
                    _ => FindingKind::Damaged,
                };
                let file = file_of(&Seen::Missing, known);
                progress.findings.push(Finding { object, kind, file, detail: failure.to_string() });
            }
        }
        Ok(Some(pace))
    }

    /// Goes through the catalogue: what of it is not there?
    async fn look_for_lost(&self, order: &ScanOrder, mut pace: Pace, progress: &mut Progress) -> Result<End> {
        loop {
            let after = progress.cursor.after;
            let window = self.link.call(CatalogueWindow { partition: self.name(), after }).await?;
            let Some((next_pace, seen)) = self.seen(window.objects.clone(), GLANCE, pace).await? else {
                return Ok(End::Stopped);
            };
            pace = next_pace;
            for (object, is_there) in window.objects.iter().zip(&seen) {
                progress.looks += 1;
                if !is_there {
                    pace = match self.look_again(*object, pace, progress).await? {
                        Some(pace) => pace,
                        None => return Ok(End::Stopped),
                    };
                }
            }
            if !self.mend_found(order, progress).await? {
                return Ok(End::Stopped);
            }
            let Some(next) = window.next else { return Ok(End::Done) };
            progress.cursor.after = next;
            if !self.tell_now_and_then(order, progress).await? {
                return Ok(End::Stopped);
            }
        }
    }

    async fn repair(&self, order: &ScanOrder, progress: &mut Progress) -> Result<End> {
        let mut pace = Pace::new(order.pace);
        loop {
            let after = progress.cursor.after;
            let findings = self.link.call(NextFindings { partition: self.name(), after }).await?.findings;
            if findings.is_empty() {
                return Ok(End::Done);
            }
            for finding in findings {
                let found = (&finding, progress.cursor);
                let Some((next_pace, mending)) = self.mend(order, found, pace).await? else {
                    return Ok(End::Stopped);
                };
                pace = next_pace;
                self.mending(order, finding.object, mending).await?;
                progress.looks += 1;
                progress.cursor.after = finding.object;
                if !self.tell_now_and_then(order, progress).await? {
                    return Ok(End::Stopped);
                }
            }
        }
    }

    async fn mending(&self, order: &ScanOrder, object: ObjectId, mending: Mending) -> Result<()> {
        let call = MendFinding { partition: self.name(), scan: order.scan, object, mending };
        self.link.call(call).await.map(drop)
    }

    /// Mends what still is as it was found.
    async fn mend(
        &self,
        order: &ScanOrder,
        (finding, cursor): (&Finding, ScanCursor),
        pace: Pace,
    ) -> Result<Option<(Pace, Mending)>> {
        let object = finding.object;
        let how = ScanPace { is_checksummed: finding.kind == FindingKind::WrongChecksum, ..order.pace };
        let mut now = Progress { cursor, looks: 0, bytes: 0, findings: Vec::new(), told: Instant::now() };
        let Some(pace) = self.look_through((order, how), &[object], pace, &mut now).await? else {
            return Ok(None);
        };
        let left = |why: &str| Mending::Left(why.to_owned());
        let Some(found) = now.findings.pop() else {
            return Ok(Some((pace, Mending::Mended("nothing is wrong any more".to_owned()))));
        };
        if found.kind == FindingKind::Orphan {
            let changed = self.partition.changed(object);
            let mending = if found.detail.starts_with(UNHEARD) {
                left("it may be newer than the catalogue")
            } else if changed.is_none_or(|changed| changed > order.older_than) {
                left("it was changed a short while ago")
            } else {
                self.set_aside(object).await?
            };
            return Ok(Some((pace, mending)));
        }
        // Before anything is moved: nobody is sent to it any more.
        match self.mending(order, object, Mending::Drop).await {
            // The only copy: the head does not give it up by itself.
            Err(failure) if failure.kind == ErrorKind::Corrupt => {
                return Ok(Some((pace, left(&failure.what))));
            }
            dropped => dropped?,
        }
        let mending = match found.kind {
            // Its description may be left.
            FindingKind::Lost => match self.set_aside(object).await? {
                Mending::Mended(_) => Mending::Mended("the replica is forgotten".to_owned()),
                left => left,
            },
            _ => self.set_aside(object).await?,
        };
        Ok(Some((pace, mending)))
    }

    async fn set_aside(&self, object: ObjectId) -> Result<Mending> {
        let partition = Arc::clone(&self.partition);
        match blocking(move || partition.set_aside(object)).await {
            Ok(()) => Ok(Mending::Mended("moved to quarantine".to_owned())),
            Err(failure) => Ok(Mending::Left(failure.to_string())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{Checksums, FileId, Timestamp};
    use wire::object::{Holder, Label, ObjectInfo};

    fn info(content: &[u8]) -> ObjectInfo {
        let (path, holder) = ("/a".parse().expect("a legal path"), Holder::default());
        let label = Label { file: FileId(2), path, generation: 1, holder, piece: None };
        let content = (content.len() as u64, Checksums::of(content));
        ObjectInfo::new("f", ObjectId(1), &label, content, Timestamp(1))
    }

    fn online(content: &[u8]) -> Known {
        let ObjectInfo { object, file, size, checksums, .. } = info(content);
        Known::Online(KnownObject { object, file, size, checksums })
    }

    fn kind(seen: &Seen, known: &Known) -> Option<FindingKind> {
        compare(seen, known).map(|(kind, _)| kind)
    }

    #[test]
    fn what_is_written_or_removed_is_never_wrong() {
        let all = [Seen::Missing, Seen::Writing, Seen::Rest, Seen::Whole(info(b"a"))];
        for seen in &all {
            assert_eq!(kind(seen, &Known::Moving), None, "{seen:?}");
        }
        for known in [online(b"a"), Known::Unknown, Known::Unheard] {
            assert_eq!(kind(&Seen::Writing, &known), None, "{known:?}");
        }
        assert_eq!(kind(&Seen::Missing, &Known::Unknown), None);
    }

    #[test]
    fn what_disk_and_catalogue_do_not_agree_on_is_told_apart() {
        let whole = Seen::Whole(info(b"abc"));
        let damaged = |size| Seen::Damaged { size: Some(size), failure: Failure::corrupt("damaged") };
        for (seen, known, expected) in [
            (&whole, online(b"abc"), None),
            (&whole, online(b"abcd"), Some(FindingKind::WrongSize)),
            (&whole, online(b"abd"), Some(FindingKind::WrongChecksum)),
            (&whole, Known::Unknown, Some(FindingKind::Orphan)),
            (&whole, Known::Unheard, Some(FindingKind::Orphan)),
            (&Seen::Missing, online(b"abc"), Some(FindingKind::Lost)),
            (&Seen::Rest, online(b"abc"), Some(FindingKind::Lost)),
            (&Seen::Rest, Known::Unknown, Some(FindingKind::Orphan)),
            (&damaged(3), online(b"abc"), Some(FindingKind::Damaged)),
            (&damaged(2), online(b"abc"), Some(FindingKind::WrongSize)),
        ] {
            assert_eq!(kind(seen, &known), expected, "{seen:?} {known:?}");
        }
    }

    #[test]
    fn a_pace_is_kept_and_given_up_when_the_daemon_stops() {
        let shutdown = net::shutdown::Shutdown::new();
        let mut pace =
            Pace::new(ScanPace { is_checksummed: true, objects_per_s: 1000, bytes_per_s: 1_000_000 });
        let began = Instant::now();
        pace.begin();
        for _ in 0..10 {
            assert!(pace.rest(5, 10_000, &shutdown.token()));
        }
        assert!(began.elapsed() >= Duration::from_millis(150), "{:?}", began.elapsed());
        shutdown.tell();
        assert!(!pace.rest(1_000_000, 0, &shutdown.token()), "it does not wait for a quarter of an hour");
    }
}
