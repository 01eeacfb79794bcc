//! Mending what a scan has found, if it still is as it was found.

use super::{End, Pace, Progress, Scanner, compare::UNHEARD};
use crate::files::blocking;
use base::{ErrorKind, ObjectId, Result};
use std::{sync::Arc, time::Instant};
use wire::control::{
    Finding, FindingKind, MendFinding, Mending, NextFindings, ScanCursor, ScanOrder, ScanPace,
};

impl Scanner {
    pub(super) async fn repair(&self, order: &ScanOrder, progress: &mut Progress) -> Result<End> {
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

    pub(super) async fn mending(&self, order: &ScanOrder, object: ObjectId, mending: Mending) -> Result<()> {
        let call = MendFinding { partition: self.name(), scan: order.scan, object, mending };
        self.link.call(call).await.map(drop)
    }

    /// Mends what still is as it was found.
    pub(super) async fn mend(
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
