//! Fetches the cells of consecutive stripes from the servers that have them.

use super::threads;
use crate::object::erasure::Decoder;
use base::{Failure, Result};
use std::{collections::BTreeMap, ops::Range};
use wire::media::coded::{Shape, TAIL_BYTES};

/// Gives the bytes of one piece for stripes in a row, from somebody who has it.
pub(super) trait Cells: Sync {
    /// Those of piece `index`; `None`: nobody gives them. Blocks.
    fn cells(&self, index: u8, stripes: &Range<u64>) -> Option<Vec<u8>>;

    /// A cell of piece `index` is not what it should be.
    fn note_damage(&self, index: u8);

    /// All pieces but those of `known`, in the order in which they are to be tried.
    fn others(&self, known: &[u8]) -> Vec<u8>;
}

/// Cells of one piece for stripes in a row.
struct Run {
    first: u64,
    bytes: Vec<u8>,
    is_good: Vec<bool>,
}

/// The content of some stripes, as far as it was wanted.
pub(super) struct Window {
    shape: Shape,
    runs: BTreeMap<u8, Vec<Run>>,
    /// Content of stripes of which cells are missing or damaged.
    made: BTreeMap<u64, Vec<u8>>,
}

impl Window {
    /// Gets the data cells `wanted` of `stripes`; what is missing or damaged is made from others.
    pub(super) fn read(from: &impl Cells, shape: Shape, stripes: &Range<u64>, wanted: &[u8]) -> Result<Self> {
        let mut window = Self { shape, runs: BTreeMap::new(), made: BTreeMap::new() };
        window.get(from, wanted, stripes);
        let is_short = |stripe: &u64| wanted.iter().any(|index| window.cell(*index, *stripe).is_none());
        let short: Vec<u64> = stripes.clone().filter(is_short).collect();
        let (Some(first), Some(last)) = (short.first(), short.last()) else { return Ok(window) };
        window.complete(from, &(*first..*last + 1), &short)?;
        let mut decoder = Decoder::new(shape);
        for stripe in short {
            let mut content = Vec::new();
            decoder.read(stripe, &window.cells(stripe), &mut content)?;
            window.made.insert(stripe, content);
        }
        Ok(window)
    }

    /// Gets enough cells of `stripes` to make any other.
    pub(super) fn enough(from: &impl Cells, shape: Shape, stripes: &Range<u64>) -> Result<Self> {
        let mut window = Self { shape, runs: BTreeMap::new(), made: BTreeMap::new() };
        window.complete(from, stripes, &stripes.clone().collect::<Vec<_>>())?;
        Ok(window)
    }

    /// Gets more pieces until each of the stripes `short` has cells enough.
    fn complete(&mut self, from: &impl Cells, stripes: &Range<u64>, short: &[u64]) -> Result<()> {
        let mut known: Vec<u8> = self.runs.keys().copied().collect();
        loop {
            let good = |stripe: &u64| (self.cells(*stripe).iter().flatten().count(), *stripe);
            let Some((good, stripe)) = short.iter().map(good).min() else { return Ok(()) };
            let missing = usize::from(self.shape.data()).saturating_sub(good);
            if missing == 0 {
                return Ok(());
            }
            let others = from.others(&known);
            if others.is_empty() {
                return Err(self.too_few(stripe, good));
            }
            let next: Vec<_> = others.into_iter().take(missing).collect();
            self.get(from, &next, stripes);
            known.extend(next);
        }
    }

    fn too_few(&self, stripe: u64, good: usize) -> Failure {
        let (file, needed) = (self.shape.coded().file, self.shape.data());
        Failure::unavailable(format!(
            "file {file}: {good} of its pieces can be read at stripe {stripe}, {needed} are needed"
        ))
        .hint("bring back a disk server that has a piece, or recall the file from tape")
    }

    /// Gets cells of several pieces, all at once.
    fn get(&mut self, from: &impl Cells, indices: &[u8], stripes: &Range<u64>) {
        let got: Vec<_> = match indices {
            // Nobody to wait for beside.
            [index] => vec![(*index, from.cells(*index, stripes))],
            _ => {
                let got = threads::each(indices.to_vec(), |index| from.cells(index, stripes));
                indices.iter().copied().zip(got.into_iter().map(Option::flatten)).collect()
            }
        };
        for (index, bytes) in got {
            let mut run = bytes.map(|bytes| self.check(index, stripes, bytes));
            let is_damaged = |run: &Option<Run>| run.as_ref().is_some_and(|run| run.is_good.contains(&false));
            if is_damaged(&run) {
                // It may have been damaged on the way only.
                run = from.cells(index, stripes).map(|bytes| self.check(index, stripes, bytes));
            }
            if is_damaged(&run) {
                from.note_damage(index);
            }
            self.runs.entry(index).or_default().extend(run);
        }
    }

    fn check(&self, index: u8, stripes: &Range<u64>, bytes: Vec<u8>) -> Run {
        let is_good = |stripe: u64| {
            let cell = self.place(stripes.start, stripe).and_then(|place| bytes.get(place));
            cell.is_some_and(|cell| self.shape.is_good(cell, index, stripe))
        };
        let is_good = stripes.clone().map(is_good).collect();
        Run { first: stripes.start, bytes, is_good }
    }

    /// Where the cell of a stripe is in a run that begins with stripe `first`.
    fn place(&self, first: u64, stripe: u64) -> Option<Range<usize>> {
        let at = self.shape.cell_offset(stripe.checked_sub(first)?) as usize;
        Some(at..at + self.shape.cell_bytes(stripe))
    }

    /// A good cell, if there is one.
    fn cell(&self, index: u8, stripe: u64) -> Option<&[u8]> {
        self.runs.get(&index)?.iter().find_map(|run| {
            let at = usize::try_from(stripe.checked_sub(run.first)?).ok()?;
            if !*run.is_good.get(at)? {
                return None;
            }
            run.bytes.get(self.place(run.first, stripe)?)
        })
    }

    /// The good cells of a stripe, each at its index.
    pub(super) fn cells(&self, stripe: u64) -> Vec<Option<&[u8]>> {
        (0..self.shape.pieces()).map(|index| self.cell(index, stripe)).collect()
    }

    /// The content that data cell `index` of a stripe has, with zeros behind the end of the file.
    pub(super) fn payload(&self, stripe: u64, index: u8) -> Result<&[u8]> {
        let shard = self.shape.cell_bytes(stripe) - TAIL_BYTES;
        if let Some(cell) = self.cell(index, stripe) {
            return Ok(&cell[..shard]);
        }
        let begin = shard * usize::from(index);
        let made =
            self.made.get(&stripe).and_then(|content| content.get(begin..(begin + shard).min(content.len())));
        made.ok_or_else(|| Failure::internal(format!("cell {index} of stripe {stripe} was not asked for")))
    }
}
