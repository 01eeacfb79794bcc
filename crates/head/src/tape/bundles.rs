//! Which files follow each other on tape, and which small ones become one tape file: pure.

use super::plan::Work;
use crate::Core;
use base::{Millis, RequestId, Timestamp, limits::TAPE_BUNDLED_FILE_BYTES_MAX};
use std::collections::HashMap;
use wire::{control::RequestKind, media::bundle::MEMBERS_MAX};

/// Which files are written as bundles: a tape file costs six labels and four marks, and a drive that stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Bundling {
    /// Smaller files share a tape file; 0: none does.
    pub below: u64,
    /// Bytes after which a bundle is closed.
    pub bytes: u64,
    /// How long a small file waits for others; less, if a bundle is full before.
    pub wait: Millis,
}

impl Core {
    /// Says which small files share a tape file; without this word none does.
    #[must_use]
    pub fn with_bundling(mut self, bundling: Bundling) -> Self {
        self.bundling = bundling;
        self
    }
}

/// Requests with those of a directory after each other, because people want its files together. The directory of the oldest request
/// comes first, so that none waits for ever; `work` is oldest first.
pub(super) fn by_directory<'a>(work: &[&'a Work]) -> Vec<&'a Work> {
    let mut places = HashMap::new();
    for (place, work) in work.iter().enumerate() {
        places.entry(work.directory).or_insert(place);
    }
    let mut sorted = work.to_vec();
    sorted.sort_by_key(|work| places[&work.directory]);
    sorted
}

impl Bundling {
    /// Whether a file shares a tape file with others.
    pub(super) fn is_small(&self, work: &Work) -> bool {
        work.kind == RequestKind::Archive && work.size < self.below.min(TAPE_BUNDLED_FILE_BYTES_MAX)
    }

    /// Leaves small files out that wait for others, oldest first. They wait until the first of them has waited long enough, or all
    /// fill a bundle.
    pub(super) fn keep_ready(&self, work: &mut Vec<&Work>, now: Timestamp) {
        if self.wait.0 <= 0 {
            return;
        }
        let small = || work.iter().filter(|work| self.is_small(work));
        let is_due = small().any(|work| work.created + self.wait <= now);
        let bytes: u64 = small().map(|work| work.size).fold(0, u64::saturating_add);
        if !is_due && bytes < self.bytes && small().count() < MEMBERS_MAX {
            work.retain(|work| !self.is_small(work));
        }
    }

    /// Until when a file waits for others, if that is why it is not written now.
    pub(super) fn waits_until(&self, work: &Work, now: Timestamp) -> Option<Timestamp> {
        let until = work.created + self.wait;
        (self.is_small(work) && until > now).then_some(until)
    }

    /// The requests of a session, by tape file: large files in their order, then bundles of small ones, by directory.
    pub(super) fn tape_files(&self, work: Vec<&Work>) -> Vec<Vec<RequestId>> {
        let (mut small, large): (Vec<&Work>, Vec<&Work>) =
            work.into_iter().partition(|work| self.is_small(work));
        small.sort_by_key(|work| work.directory);
        let mut files: Vec<Vec<RequestId>> = large.into_iter().map(|work| vec![work.id]).collect();
        let (mut bundle, mut bytes) = (Vec::new(), 0u64);
        for work in small {
            let is_full = bytes.saturating_add(work.size) > self.bytes || bundle.len() == MEMBERS_MAX;
            if is_full && !bundle.is_empty() {
                files.push(std::mem::take(&mut bundle));
                bytes = 0;
            }
            bytes += work.size;
            bundle.push(work.id);
        }
        if !bundle.is_empty() {
            files.push(bundle);
        }
        files
    }
}
