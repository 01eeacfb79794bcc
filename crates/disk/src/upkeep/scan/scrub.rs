//! Scrubs: scheduled scans. They repair their findings and give way to other scans.

use super::walk::{Step, StopReason, Walk};
use base::ErrorKind;
use wire::control::{FindingKind, ScanWork};

impl Walk {
    /// Mends what a scrub has found damaged. What nobody knows is only told.
    pub(super) fn mend_found(&mut self) -> Step<()> {
        if self.order.work != ScanWork::Scrub || self.findings.is_empty() {
            return Ok(());
        }
        let found = self.findings.clone();
        // The head mends nothing of which it was not told.
        if !self.tell(false, None)? {
            return Err(StopReason::Stopped);
        }
        for finding in found.iter().filter(|finding| finding.kind != FindingKind::Orphan) {
            let mended = self.mend(finding);
            let told = mended.and_then(|mending| Ok(self.mending(finding.object, mending)?));
            match told {
                // Its file was removed meanwhile, or a person has begun a scan, which forgets what was found.
                Err(StopReason::Failed(failure)) if failure.kind == ErrorKind::NotFound => {}
                told => told?,
            }
        }
        Ok(())
    }
}
