//! What was written of an object so far, and the sums of it.

use crate::object::{partition::WriteClaim, reader::ObjectReader};
use base::checksum::StreamSums;
use std::sync::Arc;

#[derive(Debug)]
pub(super) struct Content {
    pub(super) sums: Sums,
    /// One past the last byte written.
    pub(super) end: u64,
    /// Bytes of the partition's room that this object holds.
    pub(super) claimed: u64,
    /// Keeps others from writing or removing the object until the commit.
    pub(super) claim: Option<WriteClaim>,
}

/// The checksums of the content, as far as they are known.
#[derive(Debug)]
pub(super) enum Sums {
    /// Everything came through `write_at`.
    Stream(StreamSums),
    /// Still the content of another object.
    Base(Arc<ObjectReader>),
    /// Must be read again, and so must the object it began with: otherwise a rotten block of the old
    /// object would be blessed with a new sum.
    Unknown { base: Option<Arc<ObjectReader>> },
}

impl Content {
    /// Gives up on knowing the sums without reading.
    pub(super) fn forget(&mut self) {
        let base = match std::mem::replace(&mut self.sums, Sums::Unknown { base: None }) {
            Sums::Stream(_) => None,
            Sums::Base(base) => Some(base),
            Sums::Unknown { base } => base,
        };
        self.sums = Sums::Unknown { base };
    }

    pub(super) fn wrote(&mut self, offset: u64, bytes: &[u8]) {
        self.end = self.end.max(offset + bytes.len() as u64);
        self.took(self.end);
        match &mut self.sums {
            Sums::Stream(sums) => sums.update(offset, bytes),
            Sums::Base(_) => self.forget(),
            Sums::Unknown { .. } => {}
        }
    }

    /// So many bytes lie on the file system now, or are kept there for it.
    pub(super) fn took(&self, bytes: u64) {
        if let Some(claim) = &self.claim {
            claim.takes(bytes);
        }
    }

    pub(super) fn truncated(&mut self, size: u64) {
        if size == 0 {
            self.sums = Sums::Stream(StreamSums::default());
        } else if size < self.end || matches!(self.sums, Sums::Base(_)) && size != self.end {
            // Bytes that were summed are gone. A file that only grew has a hole, which the stream's sums never cover.
            self.forget();
        }
        self.end = size;
    }
}
