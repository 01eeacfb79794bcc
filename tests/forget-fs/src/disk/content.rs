//! The bytes of one file: those that programs see, and those that a power cut leaves.

use super::losses::Losses;
use base::rng::Rng;
use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    sync::Arc,
};

/// Bytes that a disk is given at a time.
pub(crate) const PAGE_BYTES: u64 = 4096;
/// Bytes that a disk writes whole or not at all.
const SECTOR_BYTES: usize = 512;

type Page = [u8; PAGE_BYTES as usize];

/// Content at one moment. A page that is not there holds zeros.
#[derive(Debug, Default, Clone)]
struct Image {
    pages: BTreeMap<u64, Arc<Page>>,
    size: u64,
}

/// A file, as programs see it and as the disk has it.
#[derive(Debug, Default)]
pub(crate) struct Content {
    live: Image,
    durable: Image,
    /// All pages in which the two may differ.
    dirty: BTreeSet<u64>,
    /// The smallest size since the last sync: a truncation may reach the disk, and what was written after it not.
    size_least: u64,
}

impl Content {
    /// Bytes that programs see.
    pub(crate) fn size(&self) -> u64 {
        self.live.size
    }

    /// Pages that are kept, of both images.
    pub(crate) fn pages(&self) -> u64 {
        (self.live.pages.len() + self.durable.pages.len()) as u64
    }

    /// Reads up to `length` bytes.
    pub(crate) fn read(&self, offset: u64, length: u64) -> Vec<u8> {
        let end = offset.saturating_add(length).min(self.live.size);
        let mut bytes = vec![0; end.saturating_sub(offset) as usize];
        for (number, page) in self.live.pages.range(offset / PAGE_BYTES..end.div_ceil(PAGE_BYTES)) {
            let start = number * PAGE_BYTES;
            let (from, to) = (start.max(offset), (start + PAGE_BYTES).min(end));
            if from < to {
                bytes[(from - offset) as usize..(to - offset) as usize]
                    .copy_from_slice(&page[(from - start) as usize..(to - start) as usize]);
            }
        }
        bytes
    }

    /// Writes. The kernel of the disk may write back what was there before, at any time.
    pub(crate) fn write(&mut self, offset: u64, mut data: &[u8], rng: &mut Rng) {
        let mut at = offset;
        while !data.is_empty() {
            let start = (at % PAGE_BYTES) as usize;
            let (piece, rest) = data.split_at(data.len().min(PAGE_BYTES as usize - start));
            let number = at / PAGE_BYTES;
            if self.dirty.contains(&number) && rng.chance(1, 8) {
                self.write_back(number);
            }
            self.page(number)[start..start + piece.len()].copy_from_slice(piece);
            at += piece.len() as u64;
            data = rest;
        }
        self.live.size = self.live.size.max(at);
    }

    /// Cuts the file or makes it longer.
    pub(crate) fn truncate(&mut self, size: u64) {
        if size < self.live.size {
            self.zero(size..self.live.size.next_multiple_of(PAGE_BYTES));
        }
        self.live.size = size;
        self.size_least = self.size_least.min(size);
    }

    /// Replaces bytes by zeros; the size stays.
    pub(crate) fn zero(&mut self, range: Range<u64>) {
        let touched = self.live.pages.range(range.start / PAGE_BYTES..range.end.div_ceil(PAGE_BYTES));
        let touched: Vec<u64> = touched.map(|(number, _)| *number).collect();
        for number in touched {
            let start = number * PAGE_BYTES;
            let from = range.start.saturating_sub(start).min(PAGE_BYTES) as usize;
            let to = range.end.saturating_sub(start).min(PAGE_BYTES) as usize;
            if from == 0 && to == PAGE_BYTES as usize {
                self.dirty.insert(number);
                self.live.pages.remove(&number);
            } else {
                self.page(number)[from..to].fill(0);
            }
        }
    }

    /// The next byte at or behind `offset` that is data, or that is none.
    pub(crate) fn seek(&self, offset: u64, is_data: bool) -> Option<u64> {
        let mut at = offset;
        while at < self.live.size {
            if self.live.pages.contains_key(&(at / PAGE_BYTES)) == is_data {
                return Some(at);
            }
            at = (at / PAGE_BYTES + 1) * PAGE_BYTES;
        }
        (offset < self.live.size && !is_data).then_some(self.live.size)
    }

    /// Makes durable what programs see.
    pub(crate) fn sync(&mut self) {
        while let Some(number) = self.dirty.pop_first() {
            self.write_back(number);
        }
        self.durable.size = self.live.size;
        self.size_least = self.live.size;
    }

    /// Loses any part of what was not synced.
    pub(crate) fn cut(&mut self, rng: &mut Rng, losses: &mut Losses) {
        // Of some files almost all is lost, of others almost nothing.
        let kept_of_8 = rng.below(9);
        while let Some(number) = self.dirty.pop_first() {
            if rng.chance(kept_of_8, 8) {
                self.write_back(number);
                losses.pages_kept += 1;
            } else if rng.chance(1, 4) {
                self.tear(number, rng);
                losses.pages_torn += 1;
            } else {
                losses.pages_lost += 1;
            }
        }
        let size = self.size_after_cut(rng);
        losses.sizes_lost += u64::from(size != self.live.size);
        // What lies behind the end is gone.
        self.live = std::mem::take(&mut self.durable);
        self.live.size = self.live.size.max(size).next_multiple_of(PAGE_BYTES);
        self.live.pages.retain(|number, _| *number < size.div_ceil(PAGE_BYTES));
        self.truncate(size);
        self.dirty.clear();
        self.size_least = size;
        self.durable = self.live.clone();
    }

    fn size_after_cut(&self, rng: &mut Rng) -> u64 {
        let (old, new) = (self.durable.size, self.live.size);
        let (least, most) = (self.size_least.min(old).min(new), old.max(new));
        match rng.below(4) {
            0 => old,
            1 => new,
            2 => least,
            _ => least + rng.below(most - least + 1),
        }
    }

    /// Puts some sectors of a page on the disk.
    fn tear(&mut self, number: u64, rng: &mut Rng) {
        let new = self.live.pages.get(&number).map_or([0; PAGE_BYTES as usize], |page| **page);
        let old = self.durable.pages.entry(number).or_insert_with(|| Arc::new([0; PAGE_BYTES as usize]));
        let sectors = Arc::make_mut(old).chunks_mut(SECTOR_BYTES).zip(new.chunks(SECTOR_BYTES));
        for (old, new) in sectors {
            if rng.chance(1, 2) {
                old.copy_from_slice(new);
            }
        }
    }

    /// Puts a page on the disk.
    fn write_back(&mut self, number: u64) {
        match self.live.pages.get(&number) {
            Some(page) => self.durable.pages.insert(number, Arc::clone(page)),
            None => self.durable.pages.remove(&number),
        };
    }

    /// A page to be changed.
    fn page(&mut self, number: u64) -> &mut Page {
        self.dirty.insert(number);
        let page = self.live.pages.entry(number).or_insert_with(|| Arc::new([0; PAGE_BYTES as usize]));
        Arc::make_mut(page)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{Just, Strategy, any, prop_assert_eq, prop_oneof, proptest};

    fn cut(content: &mut Content, seed: u64) -> Vec<u8> {
        content.cut(&mut Rng::new(seed), &mut Losses::default());
        content.read(0, u64::MAX)
    }

    #[test]
    fn what_was_synced_is_kept_and_what_was_not_is_lost_at_times() {
        let mut is_lost = false;
        for seed in 0..50 {
            let mut content = Content::default();
            content.write(10, b"synced", &mut Rng::new(seed));
            content.sync();
            content.write(5000, b"not synced", &mut Rng::new(seed));
            let after = cut(&mut content, seed);
            assert_eq!(&after[10..16], b"synced");
            is_lost |= after.len() < 5010 || &after[5000..5010] != b"not synced";
            assert_eq!(cut(&mut content, seed), after, "nothing more is lost");
        }
        assert!(is_lost);
    }

    #[test]
    fn a_truncation_may_be_seen_without_what_was_written_after_it() {
        let left = |seed| {
            let mut content = Content::default();
            content.write(0, &[1; 100], &mut Rng::new(0));
            content.sync();
            content.truncate(0);
            content.write(0, &[2; 300], &mut Rng::new(0));
            cut(&mut content, seed).len()
        };
        let sizes: BTreeSet<_> = (0..100).map(left).collect();
        assert!([0, 100, 300].iter().all(|size| sizes.contains(size)), "{sizes:?}");
    }

    #[derive(Debug, Clone)]
    enum Step {
        Write(u64, Vec<u8>),
        Truncate(u64),
        Zero(u64, u64),
        Sync,
    }

    fn step() -> impl Strategy<Value = Step> {
        let data = (0..20_000_u64, 1..6000_usize, any::<u8>());
        prop_oneof![
            data.prop_map(|(offset, length, byte)| Step::Write(offset, vec![byte; length])),
            (0..20_000_u64).prop_map(Step::Truncate),
            (0..20_000_u64, 1..9000_u64).prop_map(|(start, length)| Step::Zero(start, length)),
            Just(Step::Sync),
        ]
    }

    proptest! {
        #[test]
        fn programs_see_what_they_wrote_and_a_cut_keeps_what_was_synced(
            steps in proptest::collection::vec(step(), 0..30), seed: u64
        ) {
            let (mut content, mut plain, mut rng) = (Content::default(), Vec::new(), Rng::new(seed));
            let mut is_synced = true;
            for step in steps {
                is_synced = matches!(step, Step::Sync);
                match step {
                    Step::Write(offset, data) => {
                        let end = offset as usize + data.len();
                        plain.resize(plain.len().max(end), 0);
                        plain[offset as usize..end].copy_from_slice(&data);
                        content.write(offset, &data, &mut rng);
                    }
                    Step::Truncate(size) => {
                        plain.resize(size as usize, 0);
                        content.truncate(size);
                    }
                    Step::Zero(start, length) => {
                        let end = plain.len().min((start + length) as usize);
                        if (start as usize) < end {
                            plain[start as usize..end].fill(0);
                            content.zero(start..end as u64);
                        }
                    }
                    Step::Sync => content.sync(),
                }
                prop_assert_eq!(&content.read(0, u64::MAX), &plain);
            }
            if is_synced {
                prop_assert_eq!(cut(&mut content, seed), plain);
            }
        }
    }
}
