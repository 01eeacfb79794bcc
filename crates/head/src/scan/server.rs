//! Calls that disk servers make about their scans.

use super::check_host;
use crate::{
    Apply, Context, Core, Topic, pool,
    store::{Replica, ScanRow, ScannedReplica, ScrubRow},
};
use base::{Failure, ObjectId, Result, units::counted};
use tracing::{info, warn};
use wire::control::{
    AskObjects, CatalogueWindow, Done, EventType, FINDINGS_MAX, FindingKind, Known, KnownObject,
    KnownObjects, MendFinding, Mending, NextFindings, NextScan, OpenFindings, ReportScan, SCAN_OBJECTS_MAX,
    ScanGoesOn, ScanOrder, ScanOrders, ScanState, ScanWork, Window,
};

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
pub(super) fn put(core: &Core, partition: &str, scan: &ScanRow) -> Result<()> {
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

pub(super) fn known(
    core: &Core,
    partition: &str,
    object: ObjectId,
    replica: Option<&ScannedReplica>,
) -> Result<Known> {
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
pub(super) fn progress(core: &Core, scan: &ScanRow) -> Result<f64> {
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
