//! What the head is told of a pass: how far it is, what was left alone and why.

use super::{AdoptionPass, REPORT_EVERY};
use crate::object::walk::Found;
use base::{Failure, Result};
use std::{os::unix::fs::MetadataExt, path::Path, sync::atomic::Ordering, time::Instant};
use wire::control::{Amount, LEFT_ALONE_PAGE, LeftAlone, ReportAdoption};

impl AdoptionPass<'_> {
    pub(super) fn leave(&mut self, path: &Path, failure: Failure) {
        // People read it on their terminals.
        let shown = |c: char| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c };
        let name: String = path.to_string_lossy().chars().map(shown).collect();
        let name = if name.is_empty() { ".".to_owned() } else { name };
        self.left.push(LeftAlone { name, failure });
    }

    /// Counts a file that is left alone.
    pub(super) fn pass_by(&mut self, found: &Found, failure: Failure) {
        self.seen.files += 1;
        self.seen.bytes += found.metadata.size();
        self.leave(&found.path, failure);
    }

    pub(super) fn count(&mut self, found: &Found) {
        self.seen.files += 1;
        self.seen.bytes += found.metadata.size();
    }

    /// Tells the head if that is due. Whether to go on.
    pub(super) async fn tell_now_and_then(&mut self) -> Result<bool> {
        let is_due = self.told.elapsed() >= REPORT_EVERY || self.left.len() >= LEFT_ALONE_PAGE / 2;
        Ok(!self.adopter.token.is_stopped() && (!is_due || self.tell(false, None).await?))
    }

    /// Tells the head how far it is; trouble may be final. Whether to go on.
    pub(super) async fn tell(&mut self, is_done: bool, trouble: Option<(Failure, bool)>) -> Result<bool> {
        let is_refused = trouble.as_ref().is_some_and(|(_, is_final)| *is_final);
        let mut trouble = trouble.map(|(failure, _)| failure);
        loop {
            let page: Vec<_> = self.left.iter().take(LEFT_ALONE_PAGE).cloned().collect();
            let (len, is_last) = (page.len(), page.len() == self.left.len());
            let reading = self.reading.load(Ordering::Relaxed);
            let report = ReportAdoption {
                partition: self.adopter.name(),
                adoption: self.order.adoption,
                total: self.total,
                seen: Amount { files: self.seen.files, bytes: self.seen.bytes + reading },
                unowned: self.unowned,
                left: page,
                is_done: is_done && is_last,
                trouble: trouble.take(),
                is_refused: is_refused && is_last,
            };
            let goes_on = self.adopter.head.call(report).await?.goes_on;
            self.left.drain(..len);
            self.told = Instant::now();
            if is_last || !goes_on {
                return Ok(goes_on);
            }
        }
    }
}
