//! Repairs a finding of a scan if it is still true.

use super::{
    compare::{NEWER, UNHEARD},
    walk::{Step, Walk},
};
use base::{ErrorKind, ObjectId, Result};
use wire::control::{Finding, FindingKind, MendFinding, Mending, NextFindings};

impl Walk {
    pub(super) fn repair(&mut self) -> Step<()> {
        loop {
            let after = self.cursor.through;
            let findings = self.call(NextFindings { partition: self.name(), after })?.findings;
            if findings.is_empty() {
                return Ok(());
            }
            for finding in findings {
                let mending = self.mend(&finding)?;
                self.mending(finding.object, mending)?;
                self.looks += 1;
                self.cursor.through = finding.object;
                self.tell_now_and_then()?;
            }
        }
    }

    pub(super) fn mending(&self, object: ObjectId, mending: Mending) -> Result<()> {
        let call = MendFinding { partition: self.name(), scan: self.order.scan, object, mending };
        self.call(call).map(drop)
    }

    /// What was found of an object, as it is now.
    fn found_now(&mut self, finding: &Finding) -> Step<Option<Finding>> {
        let object = finding.object;
        let seen = self.look_at_one(object)?;
        let known = self.ask(vec![object])?;
        let Some(known) = known.first() else { return Ok(None) };
        self.judge(object, (&seen, known), finding.kind == FindingKind::WrongChecksum)
    }

    /// Mends what still is as it was found.
    pub(super) fn mend(&mut self, finding: &Finding) -> Step<Mending> {
        let object = finding.object;
        let left = |why: &str| Mending::Left(why.to_owned());
        let Some(found) = self.found_now(finding)? else {
            return Ok(Mending::Mended("the problem no longer exists".to_owned()));
        };
        if found.kind == FindingKind::Orphan {
            let changed = self.partition.changed(object);
            return Ok(if found.detail.starts_with(UNHEARD) {
                left("it may be newer than the catalogue")
            } else if found.detail.starts_with(NEWER) {
                left("this release cannot read it")
            } else if changed.is_none_or(|changed| changed > self.order.older_than) {
                left("it was changed recently")
            } else {
                self.set_aside(object)
            });
        }
        // Before anything is moved: nobody is sent to it any more.
        match self.mending(object, Mending::Drop) {
            // The only copy: the head does not give it up by itself.
            Err(failure) if failure.kind == ErrorKind::Corrupt => return Ok(left(&failure.what)),
            dropped => dropped?,
        }
        Ok(match (found.kind, self.set_aside(object)) {
            // Its description may be left.
            (FindingKind::Lost, Mending::Mended(_)) => Mending::Mended(
                "the replica was removed from the \
                catalogue"
                    .to_owned(),
            ),
            (_, mending) => mending,
        })
    }

    fn set_aside(&self, object: ObjectId) -> Mending {
        match self.partition.set_aside(object) {
            Ok(()) => Mending::Mended("moved to quarantine".to_owned()),
            Err(failure) => Mending::Left(failure.to_string()),
        }
    }
}
