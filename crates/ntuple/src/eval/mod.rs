//! The vectorised interpreter: a plan becomes two small programs that run on chunks of rows.
//!
//! The first computes the cut. If few rows of the chunk pass, the second runs on those alone, packed together;
//! otherwise it runs on all, and rows that were cut are counted in a bin that is thrown away.

mod chunk;
mod compiled;
mod compiler;
mod inputs;
mod jagged;
mod kernels;
#[cfg(test)]
mod naive;
mod program;
mod registers;
mod sort;
#[cfg(test)]
mod tests;

use crate::{
    column::{Array, Values},
    fill::{Bins, Histogram},
    simd::dispatch,
};
use chunk::RowGroup;
pub(crate) use compiled::Compiled;
use compiled::{CompiledArray, Variant, computed};
use jagged::{JaggedGroup, Results, State};
use kernels::{COPIES, PICK_SLACK};
use program::Value;
pub(crate) use registers::Arrays;
use registers::{Registers, array};
use std::sync::atomic::AtomicBool;

/// Rows of a chunk: a dozen registers of 8 KiB stay in the first and second level caches.
pub(crate) const CHUNK_ROWS: usize = 512;
/// Histograms up to this many bins are counted in several copies, which then still fit the first-level cache.
const COPIED_BINS_MAX: usize = 1024;

/// Bins of one histogram while it is filled; the last one takes the entries that were cut.
#[derive(Debug)]
enum Counters {
    Counts { counters: Vec<u32>, stride: usize, total: Vec<u64> },
    Weights(Vec<[f64; 2]>),
}

/// What one row group gave that depends on the order of addition.
#[derive(Debug, Default)]
pub(crate) struct Partial {
    /// Sums of the weighted histograms, in their order.
    weights: Vec<Vec<[f64; 2]>>,
    arrays: Vec<Values>,
    /// Lengths of the lists in arrays of lists.
    counts: Vec<Option<Vec<u32>>>,
}

/// Registers and counters of one thread.
#[derive(Debug)]
pub(crate) struct Worker<'a> {
    compiled: &'a Compiled,
    plain: Bank,
    with_missing: Bank,
    counters: Vec<Counters>,
    scratch: Scratch,
}

/// Registers of the two programs of a variant.
#[derive(Debug, Default)]
struct Bank {
    filter: Registers,
    body: Registers,
    jagged: State,
}

impl Bank {
    fn new(variant: &Variant) -> Self {
        Self {
            filter: variant.filter.as_ref().map(|(program, _)| Registers::new(program)).unwrap_or_default(),
            body: Registers::new(&variant.body),
            jagged: State::new(variant.phases.as_deref().unwrap_or_default()),
        }
    }
}

#[derive(Debug)]
struct Scratch {
    mask: Vec<u8>,
    cut: Vec<u8>,
    picked: Vec<u32>,
    indices: Vec<u32>,
    bins: Vec<u32>,
    floats: Vec<f64>,
}

impl<'a> Worker<'a> {
    pub(crate) fn new(compiled: &'a Compiled) -> Self {
        let counters = compiled.plain.fills.iter().map(|fill| {
            let stride = fill.size + 1;
            let copies = if fill.size <= COPIED_BINS_MAX { COPIES } else { 1 };
            match fill.weight {
                Some(_) => Counters::Weights(vec![[0.0; 2]; stride]),
                None => {
                    Counters::Counts { counters: vec![0; stride * copies], stride, total: vec![0; fill.size] }
                }
            }
        });
        Self {
            plain: Bank::new(&compiled.plain),
            with_missing: compiled.with_missing.as_ref().map(Bank::new).unwrap_or_default(),
            counters: counters.collect(),
            scratch: Scratch {
                mask: vec![0; CHUNK_ROWS],
                cut: vec![0; CHUNK_ROWS],
                picked: vec![0; CHUNK_ROWS + PICK_SLACK],
                indices: vec![0; CHUNK_ROWS],
                bins: vec![0; CHUNK_ROWS],
                floats: vec![0.0; CHUNK_ROWS],
            },
            compiled,
        }
    }

    /// Computes one row group of `rows` rows. `is_cancelled` is looked at between chunks; then the result is useless.
    pub(crate) fn row_group(&mut self, arrays: &Arrays, rows: usize, is_cancelled: &AtomicBool) -> Partial {
        let (variant, has_missing) = self.compiled.variant(arrays);
        let mut out: Vec<Values> = variant.arrays.iter().map(|array| empty_array(*array, arrays)).collect();
        let Self { plain, with_missing, counters, scratch, .. } = self;
        let bank = if has_missing { with_missing } else { plain };
        let mut counts: Vec<_> = variant.arrays.iter().map(|array| array.is_list.then(Vec::new)).collect();
        match &variant.phases {
            None => {
                dispatch(RowGroup {
                    variant,
                    bank,
                    counters,
                    scratch,
                    arrays,
                    rows,
                    out: &mut out,
                    is_cancelled,
                });
            }
            Some(phases) => {
                let (out, counts) = (&mut out, &mut counts);
                let results = Results { counters, scratch, arrays: out, counts, filled: 0, is_cancelled };
                let state = &mut bank.jagged;
                JaggedGroup { phases, state, results, arrays, rows }.run();
            }
        }
        let mut weights = Vec::new();
        for (counters, fill) in self.counters.iter_mut().zip(&self.compiled.plain.fills) {
            match counters {
                // Counters of 32 bits cannot overflow within a row group: its rows are bound, and combinations are
                // flushed before, see `Results::filled`.
                Counters::Counts { counters, stride, total } => flush(counters, *stride, total),
                Counters::Weights(sums) => {
                    let mut sums = std::mem::replace(sums, vec![[0.0; 2]; fill.size + 1]);
                    sums.truncate(fill.size);
                    weights.push(sums);
                }
            }
        }
        Partial { weights, arrays: out, counts }
    }

    /// Adds the counts of this thread to `histograms`.
    pub(crate) fn finish(self, histograms: &mut [Histogram]) {
        for (counters, histogram) in self.counters.into_iter().zip(histograms) {
            if let (Counters::Counts { total, .. }, Bins::Counts(bins)) = (counters, &mut histogram.bins) {
                bins.iter_mut().zip(total).for_each(|(bin, more)| *bin += more);
            }
        }
    }
}

impl Partial {
    /// Appends the arrays of one row group, called in the order of the row groups, and gives its sums.
    pub(crate) fn into_sums(
        self,
        arrays: &mut [Values],
        counts: &mut [Option<Vec<u32>>],
    ) -> Vec<Vec<[f64; 2]>> {
        arrays.iter_mut().zip(self.arrays).for_each(|(all, more)| all.append(more));
        for (all, more) in counts.iter_mut().zip(self.counts) {
            if let (Some(all), Some(more)) = (all, more) {
                all.extend(more);
            }
        }
        self.weights
    }
}

/// Adds what was counted to the totals, and begins at 0 again.
fn flush(counters: &mut [u32], stride: usize, total: &mut [u64]) {
    for copy in counters.chunks_exact_mut(stride) {
        copy.iter().zip(&mut *total).for_each(|(count, total)| *total += u64::from(*count));
        copy.fill(0);
    }
}

/// An array of the kind that `value` gives in a row group.
fn empty_array(CompiledArray { value, ty, present, .. }: CompiledArray, arrays: &Arrays) -> Values {
    let kind = match value {
        Value::Column(column) => array(arrays, column).kind(),
        _ => computed(ty),
    };
    Values { array: Array::empty(kind), present: present.map(|_| Vec::new()), offsets: None }
}
