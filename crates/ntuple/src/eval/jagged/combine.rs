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
    entries: Vec<u32>,
    parts: [Vec<u32>; 3],
    /// Rows that are filled.
    count: usize,
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
        self.entries.resize(CHUNK_ROWS, 0);
        self.parts.iter_mut().for_each(|part| part.resize(CHUNK_ROWS, 0));
    }

    /// The entry of each row.
    pub(super) fn entries(&self) -> &[u32] {
        &self.entries[..self.count]
    }

    /// The elements that each row combines.
    pub(super) fn parts(&self) -> [&[u32]; 3] {
        [0, 1, 2].map(|part| &self.parts[part][..self.count])
    }

    /// Fills the block with the combinations that come next, of `count` entries; false if there are no more.
    pub(super) fn fill(&mut self, rows: &StepRows, lists: &[Lists], buffers: &Buffers, count: usize) -> bool {
        let StepRows::Combination(kind, parts) = rows else { return false };
        let mask = |slot: Option<Slot>| slot.map(|Slot(slot)| &buffers.masks[slot as usize][..]);
        self.count = 0;
        let (first, second) = (parts[0], parts[parts.len() - 1]);
        let is_one_list = matches!(kind, Combination::Pairs | Combination::Triples);
        while self.next.entry < count && self.count < CHUNK_ROWS {
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
        self.count > 0
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
        let count = last.len().min(CHUNK_ROWS - self.count);
        let rows = self.count..self.count + count;
        let entry = self.next.entry as u32;
        let [first, second, third] = &mut self.parts;
        let a = self.elements[0][self.next.heads[0]];
        let first = first[rows.clone()].iter_mut().zip(&mut self.entries[rows.clone()]);
        // Most lists are short: one loop over all columns, no calls to fill and copy them.
        if heads == 1 {
            let rest = second[rows].iter_mut().zip(last);
            for ((first, entry_of), (second, element)) in first.zip(rest) {
                (*first, *entry_of, *second) = (a, entry, *element);
            }
        } else {
            let b = self.elements[0][self.next.heads[1]];
            let rest = second[rows.clone()].iter_mut().zip(third[rows].iter_mut().zip(last));
            for ((first, entry_of), (second, (third, element))) in first.zip(rest) {
                (*first, *entry_of, *second, *third) = (a, entry, b, *element);
            }
        }
        self.count += count;
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
