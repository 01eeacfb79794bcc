//! Combinations of elements, a block at a time.

use super::StepRows;
use crate::{
    eval::{
        CHUNK_ROWS,
        inputs::{Buffers, Lists},
        program::Slot,
    },
    expr::Combination,
};

/// The rows of one block: the entry of each, and the elements that it combines, as rows of their lists. It is filled again
/// and again until all combinations had their turn.
#[derive(Debug, Default)]
pub(super) struct Block {
    pub(super) entries: Vec<u32>,
    pub(super) parts: [Vec<u32>; 3],
    /// Elements of the parts of the entry at hand.
    elements: [Vec<u32>; 2],
    next: Next,
}

/// The combination that comes next: the entry, and which of its elements, by their number.
#[derive(Debug, Default, Clone, Copy)]
struct Next {
    entry: usize,
    is_begun: bool,
    heads: [usize; 2],
    last: usize,
}

impl Block {
    /// Begins with the first combination.
    pub(super) fn begin(&mut self) {
        self.next = Next::default();
    }

    /// Fills the block with the combinations that come next, of `count` entries; false if there are no more.
    pub(super) fn fill(&mut self, rows: &StepRows, lists: &[Lists], buffers: &Buffers, count: usize) -> bool {
        let StepRows::Combination(kind, parts) = rows else { return false };
        let mask = |slot: Option<Slot>| slot.map(|Slot(slot)| &buffers.masks[slot as usize][..]);
        self.entries.clear();
        self.parts.iter_mut().for_each(Vec::clear);
        let (first, second) = (parts[0], parts[parts.len() - 1]);
        let is_one_list = matches!(kind, Combination::Pairs | Combination::Triples);
        while self.next.entry < count && self.entries.len() < CHUNK_ROWS {
            if !self.next.is_begun {
                let entry = self.next.entry;
                let [ours, others] = &mut self.elements;
                elements(ours, &lists[first.0.index()], mask(first.1), entry);
                if !is_one_list {
                    elements(others, &lists[second.0.index()], mask(second.1), entry);
                }
                let last = usize::from(is_one_list) + usize::from(*kind == Combination::Triples);
                self.next = Next { entry, is_begun: true, heads: [0, 1], last };
            }
            match kind {
                Combination::Pairs => self.pairs(),
                Combination::Triples => self.triples(),
                Combination::Product | Combination::Cross => self.product(),
            }
        }
        !self.entries.is_empty()
    }

    fn pairs(&mut self) {
        let count = self.elements[0].len();
        while self.next.heads[0] + 1 < count {
            if !self.take(1, 0) {
                return;
            }
            self.next.heads[0] += 1;
            self.next.last = self.next.heads[0] + 1;
        }
        self.next_entry();
    }

    fn triples(&mut self) {
        let count = self.elements[0].len();
        while self.next.heads[0] + 2 < count {
            while self.next.heads[1] + 1 < count {
                if !self.take(2, 0) {
                    return;
                }
                self.next.heads[1] += 1;
                self.next.last = self.next.heads[1] + 1;
            }
            self.next.heads[0] += 1;
            self.next.heads[1] = self.next.heads[0] + 1;
            self.next.last = self.next.heads[1] + 1;
        }
        self.next_entry();
    }

    fn product(&mut self) {
        while self.next.heads[0] < self.elements[0].len() {
            if !self.take(1, 1) {
                return;
            }
            self.next.heads[0] += 1;
            self.next.last = 0;
        }
        self.next_entry();
    }

    fn next_entry(&mut self) {
        self.next = Next { entry: self.next.entry + 1, ..Next::default() };
    }

    /// Adds the rows that combine the first `heads` elements with each of those that come last, as far as there is room;
    /// whether that was all of them.
    fn take(&mut self, heads: usize, list: usize) -> bool {
        let last = &self.elements[list][self.next.last..];
        let count = last.len().min(CHUNK_ROWS - self.entries.len());
        let end = self.entries.len() + count;
        self.entries.resize(end, self.next.entry as u32);
        for (part, head) in self.parts.iter_mut().zip(&self.next.heads[..heads]) {
            part.resize(end, self.elements[0][*head]);
        }
        self.parts[heads].extend_from_slice(&last[..count]);
        self.next.last += count;
        count == last.len()
    }
}

/// The elements of the list of `entry` for which the truth value in `mask` holds.
fn elements(out: &mut Vec<u32>, list: &Lists, mask: Option<&[u8]>, entry: usize) {
    out.clear();
    let (start, end) = (list.offsets[entry], list.offsets[entry + 1]);
    match mask {
        None => out.extend(start..end),
        Some(mask) => out.extend((start..end).filter(|row| mask[*row as usize] != 0)),
    }
}

/// Adds to `counts`, one for each row of the parent, the combinations that belong to it.
pub(super) fn count_combinations(
    counts: &mut [i64],
    block: &mut Block,
    rows: &StepRows,
    lists: &[Lists],
    buffers: &Buffers,
    count: usize,
) {
    let StepRows::Combination(kind, parts) = rows else { return };
    let mask = |slot: Option<Slot>| slot.map(|Slot(slot)| &buffers.masks[slot as usize][..]);
    let [ours, others] = &mut block.elements;
    for entry in 0..count {
        let (first, last) = (parts[0], parts[parts.len() - 1]);
        elements(ours, &lists[first.0.index()], mask(first.1), entry);
        elements(others, &lists[last.0.index()], mask(last.1), entry);
        let (a, b) = (ours.len() as i64, others.len() as i64);
        match kind {
            Combination::Pairs => counts[entry] = a * (a - 1) / 2,
            // Of more than two million elements there are more triples than an integer counts.
            Combination::Triples => counts[entry] = (a * (a - 1) / 2).saturating_mul(a - 2) / 3,
            Combination::Product => counts[entry] = a * b,
            Combination::Cross => ours.iter().for_each(|element| counts[*element as usize] = b),
        }
    }
}
