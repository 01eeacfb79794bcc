//! Scans of a partition: compares it with the catalogue, slowly, and mends what was found.
//!
//! Nothing is believed that was looked at once. What seems wrong is asked and looked at again: a file that is written, evicted or
//! removed meanwhile is known to the head before its object appears, and forgotten only after the object has gone.

mod compare;
mod listed;
mod pace;
mod repair;
mod scrub;

pub(crate) use pace::Pace;

use self::{
    compare::{compare, file_of},
    listed::Listed,
};
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
    AskObjects, CatalogueWindow, Finding, FindingKind, Known, NextScan, ReportScan, ScanCursor, ScanOrder,
    ScanPace, ScanWork,
};

/// How long a question for work is held back: the end of the daemon may have to wait for its answer.
const WAIT: Millis = Millis::from_seconds(2);
/// Pause after something did not work.
const PAUSE: Duration = Duration::from_secs(5);
/// Objects whose descriptions the disk is asked for before one is read, and about which the head is asked at once: a quarter of a
/// millisecond of its time. Each holds a file open meanwhile.
const CHUNK: usize = 64;
/// The same where every byte of them is read.
const CHUNK_READ: usize = 8;
/// The head is told at least this often: an interruption costs no more.
const REPORT_EVERY: Duration = Duration::from_secs(3);
/// A window of the catalogue costs the head about as much as it costs to look at so many objects.
const WINDOW_LOOKS: u64 = 64;
/// Objects that are looked at without a pause: a processor is taken from nobody for long.
const BURST: usize = 16;

/// Scans one partition when the head says so.
pub(crate) struct Scanner {
    link: Link,
    partition: Arc<Partition>,
    token: Token,
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

/// Looks at objects, at the pace, one burst after the other: first the disk is asked for all of them, and nobody waits for it.
/// `None`: it is time to stop.
fn look_at(
    partition: &Partition,
    objects: &[ObjectId],
    pace: &mut Pace,
    token: &Token,
) -> Result<Option<Vec<Seen>>> {
    partition.check_in_place()?;
    let mut begun = Vec::with_capacity(objects.len());
    for burst in objects.chunks(BURST) {
        pace.begin();
        begun.extend(partition.begin_look(burst));
        // The other half of the time is for what comes then.
        if !pace.rest(burst.len() as u64 / 2, 0, token) {
            return Ok(None);
        }
    }
    let mut all = Vec::with_capacity(objects.len());
    let mut begun = begun.into_iter();
    while all.len() < objects.len() {
        pace.begin();
        let burst = begun.by_ref().take(BURST).map(|begun| partition.finish_look(begun));
        let before = all.len();
        all.extend(burst);
        if !pace.rest((all.len() - before).div_ceil(2) as u64, 0, token) {
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
        let Some((mut pace, seen)) = self.seen(chunk.to_vec(), pace).await? else { return Ok(None) };
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

    /// Looks at objects. `None`: it is time to stop.
    async fn seen(&self, objects: Vec<ObjectId>, mut pace: Pace) -> Result<Option<(Pace, Vec<Seen>)>> {
        let (partition, token) = (Arc::clone(&self.partition), self.token.clone());
        blocking(move || Ok(look_at(&partition, &objects, &mut pace, &token)?.map(|seen| (pace, seen)))).await
    }

    /// Waits after so much was done. `None`: it is time to stop.
    async fn rest(&self, mut pace: Pace, looks: u64) -> Result<Option<Pace>> {
        let token = self.token.clone();
        blocking(move || Ok(pace.rest(looks, 0, &token).then_some(pace))).await
    }

    /// Lists what is there, a home at a time. `None`: it is time to stop.
    async fn list(&self, after: ObjectId, mut pace: Pace) -> Result<Option<(Pace, Listed)>> {
        let (partition, token) = (Arc::clone(&self.partition), self.token.clone());
        blocking(move || Ok(Listed::new(&partition, after, &mut pace, &token)?.map(|listed| (pace, listed))))
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
        let Some((pace, before)) = self.seen(vec![object], pace).await? else { return Ok(None) };
        let known = self.ask(vec![object]).await?;
        let Some((pace, seen)) = self.seen(vec![object], pace).await? else { return Ok(None) };
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
        let mut listed = Listed::default();
        loop {
            let after = progress.cursor.after;
            pace.begin();
            let window = self.link.call(CatalogueWindow { partition: self.name(), after }).await?;
            let last = window.next.or_else(|| window.objects.last().copied()).unwrap_or(after);
            if !listed.reaches(last) {
                let Some(anew) = self.list(after, pace).await? else { return Ok(End::Stopped) };
                (pace, listed) = anew;
            }
            for object in &window.objects {
                progress.looks += 1;
                if !listed.has(*object) {
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
            pace = match self.rest(pace, WINDOW_LOOKS).await? {
                Some(pace) => pace,
                None => return Ok(End::Stopped),
            };
            progress.cursor.after = next;
            if !self.tell_now_and_then(order, progress).await? {
                return Ok(End::Stopped);
            }
        }
    }
}
