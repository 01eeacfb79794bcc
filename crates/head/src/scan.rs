//! Scans: orders to disk servers to compare a partition with the catalogue, and their findings.

use crate::{
    Apply, Context, Core, Topic,
    executor::core::unknown_partition,
    namespace::path_of,
    pool,
    store::{FindingRow, Replica, ScanRow, ScannedReplica, ScrubRow},
};
use base::{Failure, Millis, ObjectId, Result, Timestamp, units::counted};
use tracing::{info, warn};
use wire::control::{
    AskObjects, CatalogueWindow, Done, EventType, FINDINGS_MAX, FindingInfo, FindingKind, Findings,
    GetFindings, GetScans, Known, KnownObject, KnownObjects, MendFinding, Mending, NextFindings, NextScan,
    OpenFindings, RepairScan, ReportScan, ResumeScan, SCAN_OBJECTS_MAX, ScanCursor, ScanGoesOn, ScanInfo,
    ScanOrder, ScanOrders, ScanPace, ScanState, ScanWork, Scans, ScrubInfo, StartScan, StopScan, Window,
};

/// Refuses hosts that speak for partitions of others, and partitions that nobody has registered.
fn check_host(core: &Core, context: &Context, partition: &str) -> Result<()> {
    let known = core.store.partition(partition)?.ok_or_else(|| unknown_partition(partition))?;
    context.who.require_host(&known.server.name)
}

/// The partitions that an operator means.
fn meant(core: &Core, partition: Option<String>) -> Result<Vec<String>> {
    match partition {
        Some(name) if core.store.partition(&name)?.is_some() => Ok(vec![name]),
        Some(name) => Err(unknown_partition(&name)),
        None => Ok(core.store.partition_space()?.into_keys().collect()),
    }
}

/// The number of the next scan of a partition: no other has it, whoever wanted it.
pub(crate) fn next_number(core: &Core, partition: &str) -> Result<u64> {
    let scrub = core.store.scrub(partition)?.and_then(|row| row.scan);
    let scans = core.store.scan(partition)?.into_iter().chain(scrub);
    Ok(scans.map(|scan| scan.scan + 1).max().unwrap_or(1))
}

pub(crate) fn new_scan(scan: u64, work: ScanWork, pace: ScanPace, now: Timestamp) -> ScanRow {
    ScanRow {
        scan,
        work,
        state: ScanState::Running,
        pace,
        cursor: ScanCursor::START,
        older_than: now,
        started: now,
        updated: now,
        looks: 0,
        progress: 0.0,
        bytes: 0,
        resumed: now,
        looks_before: 0,
        progress_before: 0.0,
        found: [0; 5],
        mended: 0,
        trouble: None,
    }
}

fn refuse_running(partition: &str, scan: Option<&ScanRow>) -> Result<()> {
    if scan.is_some_and(|scan| scan.state == ScanState::Running) {
        return Err(Failure::busy(format!("partition {partition} is being scanned"))
            .hint(format!("wait for it, or `bp scan stop {partition}`")));
    }
    Ok(())
}

impl Apply for StartScan {
    fn apply(self, core: &mut Core, context: &Context) -> Result<Done> {
        context.who.require_operator("scan partitions")?;
        if self.pace.objects_per_s == 0 || self.pace.bytes_per_s == 0 {
            return Err(Failure::invalid("the speed of a scan must be above zero"));
        }
        for partition in meant(core, self.partition)? {
            let before = core.store.scan(&partition)?;
            refuse_running(&partition, before.as_ref())?;
            core.store.forget_findings(&partition)?;
            let scan = new_scan(next_number(core, &partition)?, ScanWork::Look, self.pace, context.now);
            core.store.put_scan(&partition, &scan)?;
        }
        core.touch(Topic::Removals);
        Ok(Done {})
    }
}

impl Apply for StopScan {
    fn apply(self, core: &mut Core, context: &Context) -> Result<Done> {
        context.who.require_operator("stop scans")?;
        for partition in meant(core, self.partition)? {
            let scrub = core.store.scrub(&partition)?.and_then(|row| row.scan);
            for mut scan in core.store.scan(&partition)?.into_iter().chain(scrub) {
                if scan.state == ScanState::Running {
                    scan.state = ScanState::Stopped;
                    put(core, &partition, &scan)?;
                }
            }
        }
        Ok(Done {})
    }
}

impl Apply for ResumeScan {
    fn apply(self, core: &mut Core, context: &Context) -> Result<Done> {
        context.who.require_operator("go on with scans")?;
        let mut is_any = false;
        for partition in meant(core, self.partition.clone())? {
            let stopped = core.store.scan(&partition)?.filter(|scan| scan.state == ScanState::Stopped);
            if let Some(mut scan) = stopped {
                (scan.state, is_any) = (ScanState::Running, true);
                put(core, &partition, &scan)?;
            }
        }
        if !is_any {
            let whose = self.partition.map_or_else(String::new, |partition| format!(" of {partition}"));
            return Err(Failure::not_found(format!("no scan{whose} was stopped"))
                .hint("`bp scan status` shows all scans; `bp scan start` starts one"));
        }
        core.touch(Topic::Removals);
        Ok(Done {})
    }
}

impl Apply for RepairScan {
    fn apply(self, core: &mut Core, context: &Context) -> Result<Done> {
        context.who.require_operator("repair partitions")?;
        let partition = self.partition;
        let before = core.store.scan(&partition)?.ok_or_else(|| {
            Failure::not_found(format!("partition {partition} was never scanned"))
                .hint(format!("`bp scan start {partition}` checks it"))
        })?;
        refuse_running(&partition, Some(&before))?;
        let number = next_number(core, &partition)?;
        let mut repair = new_scan(number, ScanWork::Repair, before.pace, context.now);
        repair.older_than = Timestamp(context.now.0.saturating_sub(self.older_than.0.max(0)));
        (repair.found, repair.mended) = (before.found, before.mended);
        core.store.put_scan(&partition, &repair)?;
        core.touch(Topic::Removals);
        Ok(Done {})
    }
}

impl Apply for GetScans {
    fn apply(self, core: &mut Core, _: &Context) -> Result<Scans> {
        let scans = core.store.scans()?.into_iter().map(|(partition, scan)| scan_info(partition, scan));
        let scrubs = core.store.scrubs()?.into_iter().map(|(partition, row)| {
            let ScrubRow { begun, finished, scan } = row;
            ScrubInfo {
                scan: scan.map(|scan| scan_info(partition.clone(), scan)),
                partition,
                begun,
                finished,
            }
        });
        Ok(Scans { scans: scans.collect(), scrubs: scrubs.collect() })
    }
}

fn scan_info(partition: String, scan: ScanRow) -> ScanInfo {
    let seconds = (scan.updated - scan.resumed).as_seconds_f64();
    let looks = scan.looks.saturating_sub(scan.looks_before);
    let looks_per_s = if seconds > 0.0 { looks as f64 / seconds } else { 0.0 };
    let progress = scan.progress - scan.progress_before;
    let left = (scan.state == ScanState::Running && progress > 0.0)
        .then(|| Millis::from_seconds((seconds * (1.0 - scan.progress) / progress).min(1e9) as i64));
    ScanInfo {
        partition,
        work: scan.work,
        state: scan.state,
        pace: scan.pace,
        started: scan.started,
        updated: scan.updated,
        looks: scan.looks,
        progress: scan.progress,
        bytes: scan.bytes,
        looks_per_s,
        left,
        found: scan.found,
        mended: scan.mended,
        trouble: scan.trouble,
    }
}

impl Apply for GetFindings {
    fn apply(self, core: &mut Core, context: &Context) -> Result<Findings> {
        context.who.require_operator("see the findings of scans")?;
        let rows = core.store.findings(&self.partition, (self.after, false), SCAN_OBJECTS_MAX)?;
        let is_partial = rows.len() == SCAN_OBJECTS_MAX;
        let findings = rows.into_iter().map(|FindingRow { finding, outcome }| {
            // What has no path is gone, which is no reason not to show the rest.
            let path = finding.file.and_then(|file| path_of(core, file).ok());
            FindingInfo { finding, path, outcome }
        });
        Ok(Findings { findings: findings.collect(), is_partial })
    }
}

/// What is to be done with a partition: first what a person wants.
fn next(core: &Core, partition: &str) -> Result<Option<ScanRow>> {
    let is_running = |scan: &ScanRow| scan.state == ScanState::Running;
    if let Some(scan) = core.store.scan(partition)?.filter(is_running) {
        return Ok(Some(scan));
    }
    let scrub = core.store.scrub(partition)?.and_then(|row| row.scan).filter(is_running);
    // Nobody knows yet what the catalogue has forgotten.
    Ok(if scrub.is_some() && core.unsettled()?.is_some() { None } else { scrub })
}

/// Notes how far a scan has come.
fn put(core: &Core, partition: &str, scan: &ScanRow) -> Result<()> {
    if scan.work != ScanWork::Scrub {
        return Ok(core.store.put_scan(partition, scan)?);
    }
    let Some(row) = core.store.scrub(partition)? else { return Ok(()) };
    let is_done = scan.state == ScanState::Done;
    let finished = if is_done { Some(scan.updated) } else { row.finished };
    Ok(core.store.put_scrub(partition, &ScrubRow { finished, scan: Some(scan.clone()), ..row })?)
}

impl Apply for NextScan {
    const TOPIC: Topic = Topic::Removals;

    fn apply(self, core: &mut Core, context: &Context) -> Result<ScanOrders> {
        check_host(core, context, &self.partition)?;
        let Some(mut scan) = next(core, &self.partition)? else { return Ok(ScanOrders::default()) };
        (scan.resumed, scan.updated) = (context.now, context.now);
        (scan.looks_before, scan.progress_before) = (scan.looks, scan.progress);
        put(core, &self.partition, &scan)?;
        let ScanRow { scan, work, pace, cursor, older_than, .. } = scan;
        Ok(ScanOrders { order: Some(ScanOrder { scan, work, pace, cursor, older_than }) })
    }
}

/// A replica, if it can be read or should be.
fn online(replica: &ScannedReplica) -> Option<KnownObject> {
    let ScannedReplica { object, file, size, .. } = *replica;
    let checksums = replica.checksums.filter(|_| replica.state.is_settled())?;
    Some(KnownObject { object, file, size, checksums })
}

fn known(core: &Core, partition: &str, object: ObjectId, replica: Option<&ScannedReplica>) -> Result<Known> {
    if let Some(replica) = replica.filter(|replica| replica.partition == partition) {
        return Ok(online(replica).map_or(Known::Moving, Known::Online));
    }
    if core.store.is_to_be_removed(partition, object)? {
        return Ok(Known::Moving);
    }
    Ok(if object.0 < core.store.objects_end()? { Known::Unknown } else { Known::Unheard })
}

impl Apply for AskObjects {
    fn apply(self, core: &mut Core, context: &Context) -> Result<KnownObjects> {
        check_host(core, context, &self.partition)?;
        if self.objects.len() > SCAN_OBJECTS_MAX {
            let what = format!("{} objects are more than {SCAN_OBJECTS_MAX}", self.objects.len());
            return Err(Failure::invalid(what).hint("ask for some at a time"));
        }
        let replicas = core.store.scanned_replicas(&self.objects)?;
        let known = self
            .objects
            .into_iter()
            .map(|object| known(core, &self.partition, object, replicas.get(&object)));
        Ok(KnownObjects { known: known.collect::<Result<_>>()? })
    }
}

impl Apply for CatalogueWindow {
    fn apply(self, core: &mut Core, context: &Context) -> Result<Window> {
        check_host(core, context, &self.partition)?;
        if !(1..=SCAN_OBJECTS_MAX).contains(&self.span) {
            let what = format!("a window of {} objects is not one of 1 to {SCAN_OBJECTS_MAX}", self.span);
            return Err(Failure::invalid(what).hint("ask for some at a time"));
        }
        let (replicas, next) = core.store.scanned_after(&self.partition, self.after, self.span)?;
        Ok(Window { objects: replicas.iter().filter_map(online).collect(), next })
    }
}

/// The scan that a disk server speaks of, if it was not done or begun anew since.
fn spoken_of(core: &Core, partition: &str, scan: u64) -> Result<Option<ScanRow>> {
    let scrub = core.store.scrub(partition)?.and_then(|row| row.scan);
    let mut rows = core.store.scan(partition)?.into_iter().chain(scrub);
    Ok(rows.find(|row| row.scan == scan && row.state != ScanState::Done))
}

/// The same, if it is to go on.
fn running(core: &Core, partition: &str, scan: u64) -> Result<Option<ScanRow>> {
    let row = spoken_of(core, partition, scan)?;
    Ok(row.filter(|row| row.state == ScanState::Running))
}

/// How much of a scan is done: objects are looked at in the order of their numbers.
fn progress(core: &Core, scan: &ScanRow) -> Result<f64> {
    Ok(match scan.work {
        ScanWork::Look | ScanWork::Scrub => {
            let (first, last) = core.store.objects_known()?;
            let (done, all) = (scan.cursor.through.0.saturating_sub(first), last.saturating_sub(first));
            (done as f64 / all.max(1) as f64).min(1.0)
        }
        ScanWork::Repair => (scan.looks as f64 / scan.found.iter().sum::<u64>().max(1) as f64).min(1.0),
    })
}

impl Apply for ReportScan {
    fn apply(self, core: &mut Core, context: &Context) -> Result<ScanGoesOn> {
        check_host(core, context, &self.partition)?;
        // What was done before somebody stopped it counts: it is not done again if it goes on.
        let Some(mut scan) = spoken_of(core, &self.partition, self.scan)? else {
            return Ok(ScanGoesOn { goes_on: false });
        };
        if self.findings.len() > SCAN_OBJECTS_MAX {
            return Err(Failure::invalid(format!("{} findings are too many at once", self.findings.len())));
        }
        for finding in &self.findings {
            let kept: u64 = scan.found.iter().sum();
            let is_new = kept >= FINDINGS_MAX || core.store.put_finding(&self.partition, finding)?;
            scan.found[finding.kind as usize] += u64::from(is_new);
            if is_new {
                let (partition, object, kind) = (&self.partition, finding.object, finding.kind.as_str());
                warn!(partition, %object, kind, detail = finding.detail, "scan found a difference");
            }
        }
        scan.looks = scan.looks.saturating_add(self.looks);
        scan.bytes = scan.bytes.saturating_add(self.bytes);
        (scan.cursor, scan.updated, scan.trouble) = (self.cursor, context.now, self.trouble);
        scan.progress = progress(core, &scan)?;
        if self.is_done {
            (scan.state, scan.progress) = (ScanState::Done, 1.0);
            core.touch(Topic::Removals);
            info!(partition = self.partition, found = ?scan.found, "scan completed");
            let (subject, found) = (core.partition_subject(&self.partition), scan.found.iter().sum::<u64>());
            let found = counted(found, "thing", "things");
            let what = format!("the scan of partition {subject} has ended: it found {found}");
            core.say(context.now, EventType::ScanEnded, subject, what);
            if scan.work == ScanWork::Look && scan.pace.is_checksummed {
                pool::note_verified(core, &self.partition, &scan, context.now)?;
            }
        }
        put(core, &self.partition, &scan)?;
        // One that nobody asked for makes way.
        let is_next = next(core, &self.partition)?.is_some_and(|next| next.scan == scan.scan);
        Ok(ScanGoesOn { goes_on: !self.is_done && is_next })
    }
}

impl Apply for NextFindings {
    fn apply(self, core: &mut Core, context: &Context) -> Result<OpenFindings> {
        check_host(core, context, &self.partition)?;
        let rows = core.store.findings(&self.partition, (self.after, true), SCAN_OBJECTS_MAX)?;
        Ok(OpenFindings { findings: rows.into_iter().map(|row| row.finding).collect() })
    }
}

impl Apply for MendFinding {
    fn apply(self, core: &mut Core, context: &Context) -> Result<Done> {
        check_host(core, context, &self.partition)?;
        let Some(mut scan) = running(core, &self.partition, self.scan)? else {
            return Err(Failure::not_found(format!("the repair of {} was stopped", self.partition)));
        };
        let found = core.store.finding(&self.partition, self.object)?;
        let found = found
            .ok_or_else(|| Failure::not_found(format!("object {} is not among the findings", self.object)))?;
        match self.mending {
            Mending::Drop => {
                if found.finding.kind == FindingKind::Orphan {
                    return Err(Failure::invalid(format!("object {} is not a replica", self.object)));
                }
                let replica = core.store.replica(self.object)?;
                if let Some(replica) = replica.filter(|replica| is_served(replica, &self.partition)) {
                    drop_found(core, context, &replica, scan.work)?;
                }
                return Ok(Done {});
            }
            Mending::Mended(outcome) => {
                core.store.set_outcome(&self.partition, self.object, &outcome)?;
                scan.mended += 1;
            }
            Mending::Left(why) => {
                core.store.set_outcome(&self.partition, self.object, &format!("left: {why}"))?;
            }
        }
        put(core, &self.partition, &scan)?;
        Ok(Done {})
    }
}

/// A replica that was found damaged is served no more. A person may give up the last one; the head by itself does not. Nobody
/// gives up a piece without which the others are of no use: one cell of it is damaged, and all of the file would be gone.
fn drop_found(core: &mut Core, context: &Context, replica: &Replica, work: ScanWork) -> Result<()> {
    if work == ScanWork::Scrub || replica.piece.is_some() {
        return pool::drop_damaged(core, replica, context);
    }
    core.store.drop_replica(replica)?;
    let Replica { partition, object, file, .. } = replica;
    warn!(partition, %object, %file, "a replica is no longer served");
    core.touch(Topic::Files);
    pool::mend(core, *file, context.now)
}

fn is_served(replica: &Replica, partition: &str) -> bool {
    replica.partition == partition && replica.state.is_settled()
}
