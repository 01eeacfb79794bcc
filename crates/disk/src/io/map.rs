//! Objects mapped into memory, for the kernel to send from.

use base::limits::SESSION_OPEN_FILES_MAX;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::{
    fs::File,
    io,
    ptr::{self, NonNull},
    slice,
    sync::atomic::{AtomicUsize, Ordering},
};

/// Mappings of this process at a time: the kernel allows some 65,000 for everything.
const MAPS_MAX: usize = 4 * SESSION_OPEN_FILES_MAX;

/// Bytes that are mapped at a time, touched or not. What the kernel notes of each touched page stays until it is
/// unmapped, 8 bytes for 4 KiB: 128 MiB then.
const MAPPED_BYTES_MAX: usize = 64 << 30;

static MAPS_NOW: AtomicUsize = AtomicUsize::new(0);
static BYTES_NOW: AtomicUsize = AtomicUsize::new(0);

/// Whether so much is mapped that nobody should keep what he does not use.
pub(crate) fn is_crowded() -> bool {
    MAPS_NOW.load(Ordering::Relaxed) > MAPS_MAX / 2
        || BYTES_NOW.load(Ordering::Relaxed) > MAPPED_BYTES_MAX / 2
}

/// A share of what may be mapped.
#[derive(Debug)]
struct Share(usize);

impl Share {
    fn take(bytes: usize) -> Option<Self> {
        let maps = MAPS_NOW.fetch_add(1, Ordering::Relaxed);
        let before = BYTES_NOW.fetch_add(bytes, Ordering::Relaxed);
        let share = Self(bytes);
        (maps < MAPS_MAX && before.saturating_add(bytes) <= MAPPED_BYTES_MAX).then_some(share)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        MAPS_NOW.fetch_sub(1, Ordering::Relaxed);
        BYTES_NOW.fetch_sub(self.0, Ordering::Relaxed);
    }
}

/// A whole file in memory, read only.
#[derive(Debug)]
pub(crate) struct Map {
    start: NonNull<u8>,
    length: usize,
    _share: Share,
}

#[expect(
    unsafe_code,
    reason = "a mapping that is only read can be shared; it is unmapped once, by its owner"
)]
// SAFETY: the pages are never written, and `start` is freed by `drop` alone.
unsafe impl Send for Map {}
#[expect(unsafe_code, reason = "as above")]
// SAFETY: as above.
unsafe impl Sync for Map {}

impl Map {
    /// Maps all `size` bytes of `file`, which must be a committed object: its bytes never change and it is never cut.
    pub(crate) fn new(file: &File, size: u64) -> io::Result<Self> {
        let length = usize::try_from(size).map_err(io::Error::other)?;
        let share = Share::take(length).ok_or(io::ErrorKind::QuotaExceeded)?;
        #[expect(unsafe_code, reason = "mapping is a request to the kernel about raw memory")]
        // SAFETY: the kernel chooses where; nothing that exists is replaced.
        let start = unsafe { mmap(ptr::null_mut(), length, ProtFlags::READ, MapFlags::SHARED, file, 0) };
        match start.map(|start| NonNull::new(start.cast())) {
            Ok(Some(start)) => Ok(Self { start, length, _share: share }),
            outcome => Err(outcome.err().map_or(io::ErrorKind::OutOfMemory.into(), io::Error::from)),
        }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        #[expect(unsafe_code, reason = "the mapping is a slice that the compiler cannot know of")]
        // SAFETY: `start` is mapped for `length` bytes as long as `self` lives, and the file never changes.
        unsafe {
            slice::from_raw_parts(self.start.as_ptr(), self.length)
        }
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        #[expect(unsafe_code, reason = "the counterpart of the mapping")]
        // SAFETY: it was mapped by `new` with this length, and nobody borrows it any more.
        let unmapped = unsafe { munmap(self.start.as_ptr().cast(), self.length) };
        if let Err(cause) = unmapped {
            tracing::error!(%cause, "cannot unmap an object");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_mapped_is_bounded() {
        let half = MAPPED_BYTES_MAX / 2;
        let first = Share::take(half + 1).unwrap();
        assert!(is_crowded());
        assert!(Share::take(half).is_none());
        // Other tests map a little meanwhile.
        let second = Share::take(half - (1 << 30));
        drop(first);
        assert!(second.is_some() && Share::take(half - (1 << 30)).is_some());
    }
}
