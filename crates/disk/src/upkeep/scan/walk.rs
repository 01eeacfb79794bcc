//! Carries out one scan: walks a partition and the catalogue side by side.

use super::{Scanner, listed::Listed, pace::Pace};
use crate::{
    Partition,
    object::scanner::{Begun, ObjectScanner, Seen},
    port::{Ask, Head, HeadPort},
};
use base::{Failure, ObjectId, Result, units::counted};
use net::shutdown::Token;
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::runtime::Handle;
use tracing::info;
use wire::control::{
    AskObjects, Call, CatalogueWindow, Finding, Known, KnownObject, ReportScan, SCAN_OBJECTS_MAX, ScanCursor,
    ScanOrder, ScanWork,
};

/// Objects that are looked at and asked about at a time: the descriptions of those that have to be read are asked for before one is
/// read, and each holds a file open meanwhile.
const CHUNK: usize = 64;
/// The same where every byte of them is read.
const CHUNK_READ: usize = 8;
/// The head is told at least this often: an interruption costs no more.
pub(super) const REPORT_EVERY: Duration = Duration::from_secs(3);
/// Replicas on other partitions that cost the head as much as it costs to look at one object here.
const OTHERS_PER_LOOK: usize = 16;
/// Objects that are looked at without a pause: a processor is taken from nobody for long.
const BURST: usize = 16;

/// The reasons for which a walk stops early.
pub(super) enum StopReason {
    /// Somebody stopped it, or the daemon stops.
    Stopped,
    Failed(Failure),
}

impl From<Failure> for StopReason {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// The result of a step of a walk.
pub(super) type Step<T> = Result<T, StopReason>;

/// An order that is carried out, on one thread, which waits for the disk, for the pace and for the head in turn.
pub(super) struct Walk {
    pub(super) head: Head,
    pub(super) partition: Arc<Partition>,
    token: Token,
    pub(super) runtime: Handle,
    pub(super) order: ScanOrder,
    pub(super) pace: Pace,
    pub(super) cursor: ScanCursor,
    /// Findings that were not reported yet.
    pub(super) looks: u64,
    pub(super) bytes: u64,
    pub(super) findings: Vec<Finding>,
    told: Instant,
    /// Whether it has logged that replicas were written by a newer release.
    pub(super) has_told_newer: bool,
    /// What lies there, if it is known: it was listed for this order, or before somebody stopped it.
    listed: Option<Arc<Listed>>,
}

impl Walk {
    pub(super) fn new(
        scanner: &Scanner,
        runtime: Handle,
        order: ScanOrder,
        listed: Option<Arc<Listed>>,
    ) -> Self {
        let Scanner { head, partition, token } = scanner.clone();
        let (pace, cursor) = (Pace::new(order.pace), order.cursor);
        let (looks, bytes, findings, told) = (0, 0, Vec::new(), Instant::now());
        let has_told_newer = false;
        Self {
            head,
            partition,
            token,
            runtime,
            order,
            pace,
            cursor,
            looks,
            bytes,
            findings,
            told,
            has_told_newer,
            listed,
        }
    }

    pub(super) fn name(&self) -> String {
        self.partition.identity().partition.clone()
    }

    /// Does it. What was listed, if somebody has stopped it and may have it go on.
    pub(super) fn carry_out(mut self) -> Result<Option<Arc<Listed>>> {
        let ScanOrder { scan, work, cursor, .. } = self.order;
        info!(partition = self.name(), scan, ?work, through = %cursor.through, "scan started");
        let end = match work {
            ScanWork::Look | ScanWork::Scrub => self.look(),
            ScanWork::Repair => self.repair(),
        };
        match end {
            Ok(()) => self.tell(true, None).map(|_| None),
            Err(StopReason::Stopped) => Ok(self.listed),
            Err(StopReason::Failed(failure)) => {
                // What was done is told, if the head can hear it; the failure is what matters.
                let _ = self.tell(false, Some(failure.to_string()));
                Err(failure)
            }
        }
    }

    /// Asks the head.
    pub(super) fn call<C: Call>(&self, call: C) -> Result<C::Reply>
    where
        dyn HeadPort: Ask<C>,
    {
        self.runtime.block_on(self.head.call(call))
    }

    /// What there is to tell, but for what was done.
    pub(super) fn report(&self) -> ReportScan {
        ReportScan {
            partition: self.name(),
            scan: self.order.scan,
            cursor: self.cursor,
            looks: 0,
            bytes: 0,
            findings: Vec::new(),
            is_done: false,
            trouble: None,
        }
    }

    /// Tells the head. Whether to go on.
    pub(super) fn tell(&mut self, is_done: bool, trouble: Option<String>) -> Result<bool> {
        let Self { looks, bytes, findings, .. } = &*self;
        let (looks, bytes, findings) = (*looks, *bytes, findings.clone());
        let reply = self.call(ReportScan { looks, bytes, findings, is_done, trouble, ..self.report() })?;
        (self.looks, self.bytes, self.told) = (0, 0, Instant::now());
        self.findings.clear();
        Ok(reply.goes_on)
    }

    /// Tells the head if that is due.
    pub(super) fn tell_now_and_then(&mut self) -> Step<()> {
        let is_due = self.told.elapsed() >= REPORT_EVERY || self.findings.len() >= CHUNK;
        let goes_on = !self.token.is_stopped() && (!is_due || self.tell(false, None)?);
        goes_on.then_some(()).ok_or(StopReason::Stopped)
    }

    /// Waits after so much was done.
    pub(super) fn rest(&mut self, objects: usize) -> Step<()> {
        self.pace.rest(objects as u64, 0, &self.token).then_some(()).ok_or(StopReason::Stopped)
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.token.is_stopped()
    }

    /// Goes through disk and catalogue.
    fn look(&mut self) -> Step<()> {
        let chunk = if self.order.pace.is_checksummed { CHUNK_READ } else { CHUNK };
        let mut span = chunk;
        let mut listed = self.listed()?;
        let mut scanner = self.scanner(&listed);
        loop {
            let after = self.cursor.through;
            if !listed.reaches_beyond(after) {
                listed = self.listed()?;
                scanner = self.scanner(&listed);
            }
            let window = self.call(CatalogueWindow { partition: self.name(), after, span })?;
            // Of many only the first ones, as of what lies here.
            let end = window.objects.get(chunk - 1).map_or(window.next, |known| Some(known.object));
            let (here, through) = listed.stretch(after, end, chunk);
            let there = window.objects.partition_point(|known| known.object <= through);
            self.compare_all(&mut scanner, here, &window.objects[..there])?;
            // Before it counts as done: what is interrupted is found again.
            self.mend_found()?;
            self.cursor.through = through;
            self.tell_now_and_then()?;
            if through == ObjectId(u64::MAX) {
                return Ok(());
            }
            // Of a window much lies on other partitions, which costs the head something, too.
            self.rest(span.saturating_sub(window.objects.len()) / OTHERS_PER_LOOK)?;
            span = (span * chunk / window.objects.len().max(1)).clamp(chunk, SCAN_OBJECTS_MAX);
        }
    }

    fn scanner(&self, listed: &Listed) -> ObjectScanner {
        let reads_all = self.order.pace.is_checksummed;
        ObjectScanner::new(&self.partition, listed.objects(), reads_all)
    }

    /// What lies there of what is not done yet.
    fn listed(&mut self) -> Step<Arc<Listed>> {
        let after = self.cursor.through;
        if let Some(listed) = self.listed.as_ref().filter(|listed| listed.reaches_beyond(after)) {
            return Ok(Arc::clone(listed));
        }
        let partition = Arc::clone(&self.partition);
        self.pace.begin();
        let listed = Listed::new(|place| partition.objects_in(place, after), || self.rest(0))?;
        if after == ObjectId(0) && listed.is_all() {
            partition.tidy_index(&listed.objects());
        }
        Ok(Arc::clone(self.listed.insert(Arc::new(listed))))
    }

    /// Compares objects that lie `here` with those that the catalogue has `there`; both in order.
    fn compare_all(
        &mut self,
        scanner: &mut ObjectScanner,
        here: &[ObjectId],
        there: &[KnownObject],
    ) -> Step<()> {
        let mut objects: Vec<_> =
            there.iter().map(|known| known.object).chain(here.iter().copied()).collect();
        objects.sort_unstable();
        objects.dedup();
        let mut strays = Vec::new();
        for (object, seen) in objects.iter().zip(self.look_at(scanner, &objects)?) {
            match there.binary_search_by_key(object, |known| known.object) {
                Ok(at) => self.consider(*object, &seen, &Known::Online(there[at]))?,
                Err(_) => strays.push((*object, seen)),
            }
        }
        let known = self.ask(strays.iter().map(|(object, _)| *object).collect())?;
        for ((object, seen), known) in strays.iter().zip(known) {
            self.consider(*object, seen, &known)?;
        }
        Ok(())
    }

    fn consider(&mut self, object: ObjectId, seen: &Seen, known: &Known) -> Step<()> {
        self.looks += 1;
        let finding = self.judge(object, (seen, known), self.order.pace.is_checksummed)?;
        self.findings.extend(finding);
        Ok(())
    }

    /// Looks at objects, at the pace: first the disk is asked for all that has to be read, and nobody waits for it.
    fn look_at(&mut self, scanner: &mut ObjectScanner, objects: &[ObjectId]) -> Step<Vec<Seen>> {
        let partition = Arc::clone(&self.partition);
        partition.check_in_place()?;
        let mut begun = Vec::with_capacity(objects.len());
        for burst in objects.chunks(BURST) {
            self.pace.begin();
            begun.extend(scanner.begin(burst));
            self.rest(burst.len())?;
        }
        let mut read = 0;
        let mut seen = Vec::with_capacity(objects.len());
        for begun in begun {
            read += usize::from(matches!(begun, Begun::Asked(_)));
            seen.push(partition.finish_look(begun));
            if read == BURST {
                self.rest(0)?;
                read = 0;
            }
        }
        // What was not there before this is not lost if nothing is.
        partition.check_in_place()?;
        Ok(seen)
    }

    /// Asks what the catalogue knows of objects.
    pub(super) fn ask(&self, objects: Vec<ObjectId>) -> Result<Vec<Known>> {
        let asked = objects.len();
        if asked == 0 {
            return Ok(Vec::new());
        }
        let known = self.call(AskObjects { partition: self.name(), objects })?.known;
        if known.len() != asked {
            let asked = counted(asked as u64, "object", "objects");
            return Err(Failure::internal(format!("the head knows {} of {asked}", known.len())));
        }
        Ok(known)
    }
}
