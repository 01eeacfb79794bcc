//! Cached page checksums of a file that never changes.
//!
//! A page that is asked for again then costs no pass over its bytes, so that the kernel can send it from where it lies.

use crate::{Crc32c, crc_lanes::PAGE_BYTES};
use std::{
    collections::HashMap,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

/// Bytes of a file whose sums are kept together.
pub const BLOCK_BYTES: usize = 256 << 10;
/// Blocks whose sums this process keeps: of 32 GiB of data, in some 40 MiB of memory. More are computed each time.
const BLOCKS_MAX: usize = (32 << 30) / BLOCK_BYTES;

static BLOCKS_NOW: AtomicUsize = AtomicUsize::new(0);

/// Sums of one file, by block. Sparse: a file of any size costs what was read of it.
#[derive(Debug, Default)]
pub struct PageSums(Mutex<HashMap<u64, Box<[Crc32c]>>>);

impl PageSums {
    /// The sums of the pages of the block that begins at `offset`, if they are known.
    #[must_use]
    pub fn get(&self, offset: u64) -> Option<Vec<Crc32c>> {
        self.blocks().get(&offset).map(|sums| sums.to_vec())
    }

    /// Keeps the sums of the pages of the block that begins at `offset`, if there is room.
    pub fn keep(&self, offset: u64, sums: &[Crc32c]) {
        debug_assert!(offset.is_multiple_of(BLOCK_BYTES as u64) && sums.len() <= BLOCK_BYTES / PAGE_BYTES);
        if BLOCKS_NOW.fetch_add(1, Ordering::Relaxed) >= BLOCKS_MAX
            || self.blocks().insert(offset, sums.into()).is_some()
        {
            BLOCKS_NOW.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn blocks(&self) -> MutexGuard<'_, HashMap<u64, Box<[Crc32c]>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for PageSums {
    fn drop(&mut self) {
        BLOCKS_NOW.fetch_sub(self.blocks().len(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_found_and_counted_until_it_is_dropped() {
        let sums = PageSums::default();
        let block = BLOCK_BYTES as u64;
        assert_eq!(sums.get(0), None);
        sums.keep(block, &[Crc32c(1), Crc32c(2)]);
        sums.keep(block, &[Crc32c(1), Crc32c(2)]);
        assert_eq!((sums.get(block), sums.get(0)), (Some(vec![Crc32c(1), Crc32c(2)]), None));
        assert_eq!(BLOCKS_NOW.load(Ordering::Relaxed), 1);
        for number in 0..2 * BLOCKS_MAX as u64 {
            sums.keep(number * block, &[]);
        }
        assert_eq!(sums.blocks().len(), BLOCKS_MAX);
        drop(sums);
        assert_eq!(BLOCKS_NOW.load(Ordering::Relaxed), 0);
    }
}
