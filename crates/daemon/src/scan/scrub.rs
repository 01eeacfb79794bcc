//! Scrubs: scans that nobody asked for. They mend what they find, and make way for others.

use super::{Pace, Progress, REPORT_EVERY, Scanner};
use base::{ErrorKind, Result};
use std::{
    pin::pin,
    sync::atomic::{AtomicBool, Ordering},
};
use wire::control::{FindingKind, ReportScan, ScanCursor, ScanOrder, ScanWork};

impl Scanner {
    /// Mends what a scrub has found damaged. What nobody knows is only told. False if it is time to stop.
    pub(super) async fn mend_found(&self, order: &ScanOrder, progress: &mut Progress) -> Result<bool> {
        if order.work != ScanWork::Scrub || progress.findings.is_empty() {
            return Ok(true);
        }
        let found = progress.findings.clone();
        // The head mends nothing of which it was not told.
        if !self.tell(order, progress, false, None).await? {
            return Ok(false);
        }
        for finding in found.iter().filter(|finding| finding.kind != FindingKind::Orphan) {
            let mended = self.mend(order, (finding, progress.cursor), Pace::new(order.pace)).await;
            let told = match mended {
                Ok(None) => return Ok(false),
                Ok(Some((_, mending))) => self.mending(order, finding.object, mending).await,
                Err(failure) => Err(failure),
            };
            match told {
                // Its file was removed meanwhile, or a person has begun a scan, which forgets what was found.
                Err(failure) if failure.kind == ErrorKind::NotFound => {}
                told => told?,
            }
        }
        Ok(true)
    }

    /// Waits for `reading`, and ends it when the head does not want the scan any more: a long object read slowly takes hours.
    pub(super) async fn while_wanted<T>(
        &self,
        order: &ScanOrder,
        cursor: ScanCursor,
        is_unwanted: &AtomicBool,
        reading: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let mut reading = pin!(reading);
        loop {
            tokio::select! {
                read = &mut reading => return read,
                () = tokio::time::sleep(REPORT_EVERY) => {
                    // A head that cannot be asked says nothing about it.
                    if self.is_wanted(order, cursor).await.is_ok_and(|is_wanted| !is_wanted) {
                        is_unwanted.store(true, Ordering::Relaxed);
                    }
                }
            }
        }
    }

    async fn is_wanted(&self, order: &ScanOrder, cursor: ScanCursor) -> Result<bool> {
        let report = ReportScan {
            partition: self.name(),
            scan: order.scan,
            cursor,
            looks: 0,
            bytes: 0,
            findings: Vec::new(),
            is_done: false,
            trouble: None,
        };
        Ok(self.link.call(report).await?.goes_on)
    }
}
