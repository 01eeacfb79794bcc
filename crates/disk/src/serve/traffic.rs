//! Bytes of files that pass through a door.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Counts the bytes of the files that a door's clients read and write. All operations are relaxed: the figures need not agree
/// with each other to the last one.
#[derive(Debug, Default)]
pub struct Traffic {
    /// Bytes that clients have written.
    in_bytes: AtomicU64,
    /// Bytes that clients have read.
    out_bytes: AtomicU64,
}

impl Traffic {
    /// Counts bytes that a client has written.
    pub fn add_in(&self, bytes: u64) {
        self.in_bytes.fetch_add(bytes, Relaxed);
    }

    /// Counts bytes that a client has read.
    pub fn add_out(&self, bytes: u64) {
        self.out_bytes.fetch_add(bytes, Relaxed);
    }

    /// Bytes written so far.
    pub fn in_bytes(&self) -> u64 {
        self.in_bytes.load(Relaxed)
    }

    /// Bytes read so far.
    pub fn out_bytes(&self) -> u64 {
        self.out_bytes.load(Relaxed)
    }
}
