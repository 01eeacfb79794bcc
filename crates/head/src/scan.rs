//! Scans: orders to disk servers to compare a partition with the catalogue, and their findings.

mod server;

use crate::{
    Apply, Context, Core, Topic,
    executor::core::unknown_partition,
    namespace::path_of,
    store::{FindingRow, ScanRow, ScrubRow},
};
use base::{Failure, Millis, Result, Timestamp};
use server::put;
use wire::control::{
    Done, FindingInfo, Findings, GetFindings, GetScans, RepairScan, ResumeScan, SCAN_OBJECTS_MAX, ScanCursor,
    ScanInfo, ScanPace, ScanState, ScanWork, Scans, ScrubInfo, StartScan, StopScan,
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
