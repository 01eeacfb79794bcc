//! Half-open byte ranges.

use serde::{Deserialize, Serialize};

/// Bytes `offset..end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ByteRange {
    /// First byte.
    pub offset: u64,
    /// One past the last byte.
    pub end: u64,
}

impl ByteRange {
    /// `offset..offset + length`; `None` if that overflows.
    #[must_use]
    pub fn at(offset: u64, length: u64) -> Option<Self> {
        Some(Self { offset, end: offset.checked_add(length)? })
    }

    /// Length in bytes.
    #[must_use]
    pub fn length(self) -> u64 {
        self.end.saturating_sub(self.offset)
    }

    /// Whether there is no byte in it.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.end <= self.offset
    }

    /// The part that lies before `size`.
    #[must_use]
    pub fn clip(self, size: u64) -> Self {
        Self { offset: self.offset.min(size), end: self.end.min(size) }
    }
}
