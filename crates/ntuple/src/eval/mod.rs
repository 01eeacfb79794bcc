//! The vectorised interpreter: a plan becomes two small programs that run on chunks of rows.
//!
//! The first computes the cut. If few rows of the chunk pass, the second runs on those alone, packed together;
//! otherwise it runs on all, and rows that were cut are counted in a bin that is thrown away.

mod kernels;
#[cfg(test)]
mod naive;
mod program;
mod registers;
mod sort;
#[cfg(test)]
mod tests;

use crate::column::{Array, with_values};
use crate::expr::{Id, Op, Scalar, Type};
use crate::fill::{Axis, Bins, Histogram, add};
use crate::plan::{Fill, Plan};
use crate::simd::{Kernel, dispatch};
use kernels::{COPIES, PICK_SLACK, Rows, ToFloat, cut, load, load_float, map, pick, scatter};
use program::{Arg, Program, Value, compile};
pub(crate) use registers::Arrays;
use registers::{Registers, array};
use sort::sort;
use std::sync::atomic::{AtomicBool, Ordering};

/// Rows of a chunk: a dozen registers of 8 KiB stay in the first and second level caches.
pub(crate) const CHUNK_ROWS: usize = 512;
/// Histograms up to this many bins are counted in several copies, which then still fit the first-level cache.
const COPIED_BINS_MAX: usize = 1024;

/// A plan ready to run; shared by all threads.
#[derive(Debug)]
pub(crate) struct Compiled {
    filter: Option<(Program, Value)>,
    body: Program,
    fills: Vec<CompiledFill>,
    arrays: Vec<(Value, Type)>,
}

#[derive(Debug)]
struct CompiledFill {
    values: Vec<Value>,
    cut: Option<Value>,
    weight: Option<Value>,
    axes: Vec<Axis>,
    size: usize,
}

/// A cut that all results share moves in front of everything.
fn shared_cut(plan: &Plan) -> Option<Id> {
    let first = plan.fills.first()?.cut?;
    (plan.arrays.is_empty() && plan.fills.iter().all(|fill| fill.cut == Some(first))).then_some(first)
}

impl Compiled {
    /// Compiles `plan`.
    pub(crate) fn new(plan: &mut Plan) -> Self {
        let shared = shared_cut(plan);
        let filter = match (plan.filter, shared) {
            (Some(a), Some(b)) => Some(plan.graph.binary(crate::expr::Binary::And, a, b)),
            (a, b) => a.or(b),
        };
        let own_cut = |fill: &Fill| if shared.is_some() { None } else { fill.cut };
        let mut roots = Vec::new();
        for fill in &plan.fills {
            roots.extend(fill.values.iter().copied().chain(own_cut(fill)).chain(fill.weight));
        }
        roots.extend(&plan.arrays);
        let (body, values) = compile(&plan.graph, &roots);
        let mut values = values.into_iter();
        let mut next = || values.next().expect("compile gives one value for each root");
        let mut fills = Vec::new();
        for fill in &plan.fills {
            fills.push(CompiledFill {
                values: fill.values.iter().map(|_| next()).collect(),
                cut: own_cut(fill).map(|_| next()),
                weight: fill.weight.map(|_| next()),
                axes: fill.empty.axes.clone(),
                size: fill.empty.size(),
            });
        }
        let arrays = plan.arrays.iter().map(|id| (next(), plan.graph.ty(*id))).collect();
        let filter =
            filter.filter(|id| !matches!(plan.graph.node(*id).op, Op::Const(Scalar::Bool(true)))).map(|id| {
                let (program, values) = compile(&plan.graph, &[id]);
                (program, values[0])
            });
        Self { filter, body, fills, arrays }
    }

    /// `arrays`, or empty ones of the right type if there was no row group at all.
    pub(crate) fn whole_arrays(&self, arrays: Vec<Array>) -> Vec<Array> {
        if !arrays.is_empty() {
            return arrays;
        }
        let empty = |(_, ty): &(Value, Type)| match ty {
            Type::Float => Array::F64(Vec::new()),
            Type::Int => Array::I64(Vec::new()),
            Type::Bool => Array::Bool(Vec::new()),
        };
        self.arrays.iter().map(empty).collect()
    }
}

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
    arrays: Vec<Array>,
}

/// Registers and counters of one thread.
#[derive(Debug)]
pub(crate) struct Worker<'a> {
    compiled: &'a Compiled,
    filter: Registers,
    body: Registers,
    counters: Vec<Counters>,
    scratch: Scratch,
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
        let counters = compiled.fills.iter().map(|fill| {
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
            filter: compiled.filter.as_ref().map(|(program, _)| Registers::new(program)).unwrap_or_default(),
            body: Registers::new(&compiled.body),
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
        let mut out =
            self.compiled.arrays.iter().map(|(value, ty)| empty_array(*value, *ty, arrays)).collect();
        dispatch(RowGroup { worker: self, arrays, rows, out: &mut out, is_cancelled });
        let mut weights = Vec::new();
        for (counters, fill) in self.counters.iter_mut().zip(&self.compiled.fills) {
            match counters {
                // Counters of 32 bits cannot overflow within a row group, whose rows are bound.
                Counters::Counts { counters, stride, total } => flush(counters, *stride, total),
                Counters::Weights(sums) => {
                    let mut sums = std::mem::replace(sums, vec![[0.0; 2]; fill.size + 1]);
                    sums.truncate(fill.size);
                    weights.push(sums);
                }
            }
        }
        Partial { weights, arrays: out }
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
    /// Adds what one row group gave; called in the order of the row groups, so that sums never depend on threads.
    pub(crate) fn add_to(self, histograms: &mut [Histogram], arrays: &mut Vec<Array>) {
        let weighted = histograms.iter_mut().filter_map(|histogram| match &mut histogram.bins {
            Bins::Weights(bins) => Some(bins),
            Bins::Counts(_) => None,
        });
        for (bins, sums) in weighted.zip(self.weights) {
            bins.iter_mut().zip(sums).for_each(|(bin, more)| add(bin, more));
        }
        if arrays.is_empty() {
            *arrays = self.arrays;
        } else {
            arrays.iter_mut().zip(self.arrays).for_each(|(all, more)| all.append(more));
        }
    }
}

fn flush(counters: &mut [u32], stride: usize, total: &mut [u64]) {
    for copy in counters.chunks_exact_mut(stride) {
        copy.iter().zip(&mut *total).for_each(|(count, total)| *total += u64::from(*count));
        copy.fill(0);
    }
}

/// An array of the kind that `value` gives.
fn empty_array(value: Value, ty: Type, arrays: &Arrays) -> Array {
    match (value, ty) {
        (Value::Column(column), _) => match array(arrays, column) {
            Array::F32(_) => Array::F32(Vec::new()),
            Array::F64(_) => Array::F64(Vec::new()),
            Array::I32(_) => Array::I32(Vec::new()),
            Array::I64(_) => Array::I64(Vec::new()),
            Array::Bool(_) => Array::Bool(Vec::new()),
        },
        (_, Type::Float) => Array::F64(Vec::new()),
        (_, Type::Int) => Array::I64(Vec::new()),
        (_, Type::Bool) => Array::Bool(Vec::new()),
    }
}

struct RowGroup<'w, 'a> {
    worker: &'w mut Worker<'a>,
    arrays: &'w Arrays,
    rows: usize,
    out: &'w mut Vec<Array>,
    is_cancelled: &'w AtomicBool,
}

impl Kernel for RowGroup<'_, '_> {
    #[inline(always)]
    fn run(self) {
        let mut start = 0;
        while start < self.rows && !self.is_cancelled.load(Ordering::Relaxed) {
            let count = (self.rows - start).min(CHUNK_ROWS);
            chunk(self.worker, self.arrays, start, count, self.out);
            start += count;
        }
    }
}

#[inline(always)]
fn chunk(worker: &mut Worker<'_>, arrays: &Arrays, start: usize, count: usize, out: &mut [Array]) {
    let compiled = worker.compiled;
    let all = Rows { start, count, picked: None };
    let mut mask = std::mem::take(&mut worker.scratch.mask);
    let mut picked = std::mem::take(&mut worker.scratch.picked);
    let mut passed = count;
    if let Some((program, value)) = &compiled.filter {
        worker.filter.run(program, arrays, all);
        write_mask(&mut mask[..count], *value, &worker.filter, arrays, all);
        passed = kernels::count(&mask[..count]);
    }
    // Packing costs a pass over every column that is used; below half it is cheaper than computing what is not wanted.
    let is_packed = passed < count && (passed * 2 < count || !out.is_empty());
    let rows = if is_packed {
        pick(&mut picked, &mask[..count]);
        Rows { start, count: passed, picked: Some(&picked[..passed]) }
    } else {
        all
    };
    if passed > 0 {
        worker.body.run(&compiled.body, arrays, rows);
        let keep = (!is_packed && passed < count).then_some(&mask[..count]);
        fill_all(worker, arrays, rows, keep);
        for (array, (value, _)) in out.iter_mut().zip(&compiled.arrays) {
            append(array, *value, &worker.body, arrays, rows);
        }
    }
    worker.scratch.mask = mask;
    worker.scratch.picked = picked;
}

#[inline(always)]
fn write_mask(out: &mut [u8], value: Value, registers: &Registers, arrays: &Arrays, rows: Rows<'_>) {
    match value {
        Value::Mask(arg) => map(out, registers.mask(arg, rows.count), |keep| keep),
        Value::Column(column) => match array(arrays, column) {
            Array::Bool(values) => load(out, values, rows, |keep| keep),
            array => {
                with_values!(array, values => load(out, values, rows, |x| u8::from(x.to_float() != 0.0)));
            }
        },
        Value::Float(_) | Value::Int(_) => unreachable!("cuts are truth values"),
    }
}

#[inline(always)]
fn fill_all(worker: &mut Worker<'_>, arrays: &Arrays, rows: Rows<'_>, keep: Option<&[u8]>) {
    let compiled = worker.compiled;
    let Scratch { cut: own, indices, bins, floats, .. } = &mut worker.scratch;
    let n = rows.count;
    for (fill, counters) in compiled.fills.iter().zip(&mut worker.counters) {
        let indices = &mut indices[..n];
        for (number, (axis, value)) in fill.axes.iter().zip(&fill.values).enumerate() {
            if number == 0 {
                sort_value(indices, axis, *value, &worker.body, arrays, rows, &mut floats[..n]);
                continue;
            }
            let bins = &mut bins[..n];
            sort_value(bins, axis, *value, &worker.body, arrays, rows, &mut floats[..n]);
            let extent = axis.extent() as u32;
            indices.iter_mut().zip(bins).for_each(|(index, bin)| *index = *index * extent + *bin);
        }
        let trash = fill.size as u32;
        if let Some(keep) = keep {
            cut(indices, keep, trash);
        }
        if let Some(value) = fill.cut {
            write_mask(&mut own[..n], value, &worker.body, arrays, rows);
            cut(indices, &own[..n], trash);
        }
        match (counters, fill.weight) {
            (Counters::Counts { counters, stride, .. }, _) if counters.len() > *stride => {
                scatter(counters, *stride, indices);
            }
            (Counters::Counts { counters, .. }, _) => {
                for index in indices.iter() {
                    counters[*index as usize] += 1;
                }
            }
            (Counters::Weights(sums), Some(weight)) => {
                let floats = &mut floats[..n];
                write_float(floats, weight, &worker.body, arrays, rows);
                indices
                    .iter()
                    .zip(floats)
                    .for_each(|(index, w)| add(&mut sums[*index as usize], [*w, *w * *w]));
            }
            (Counters::Weights(_), None) => unreachable!("sums of weights are made for weights only"),
        }
    }
}

#[inline(always)]
fn write_float(out: &mut [f64], value: Value, registers: &Registers, arrays: &Arrays, rows: Rows<'_>) {
    match value {
        Value::Float(arg) => map(out, registers.float(arg, rows.count), |x| x),
        Value::Int(arg) => map(out, registers.int(arg, rows.count), |x| x as f64),
        Value::Mask(arg) => map(out, registers.mask(arg, rows.count), f64::from),
        Value::Column(column) => load_float(out, array(arrays, column), rows),
    }
}

/// Sorts values into the bins of `axis`. Columns are read where they are.
#[inline(always)]
fn sort_value(
    out: &mut [u32],
    axis: &Axis,
    value: Value,
    registers: &Registers,
    arrays: &Arrays,
    rows: Rows<'_>,
    scratch: &mut [f64],
) {
    match (value, rows.picked) {
        (Value::Float(Arg::Register(register)), _) => {
            sort(out, axis, registers.register(register, rows.count));
        }
        (Value::Column(column), None) => match array(arrays, column) {
            Array::F32(values) => sort(out, axis, &values[rows.start..rows.start + rows.count]),
            Array::F64(values) => sort(out, axis, &values[rows.start..rows.start + rows.count]),
            array => {
                load_float(scratch, array, rows);
                sort(out, axis, scratch);
            }
        },
        _ => {
            write_float(scratch, value, registers, arrays, rows);
            sort(out, axis, scratch);
        }
    }
}

/// Appends the rows of `value` to an array of its kind.
#[inline(always)]
fn append(out: &mut Array, value: Value, registers: &Registers, arrays: &Arrays, rows: Rows<'_>) {
    let n = rows.count;
    match (out, value) {
        (Array::F64(out), Value::Float(arg)) => {
            extend(out, n, 0.0, |out| map(out, registers.float(arg, n), |x| x));
        }
        (Array::I64(out), Value::Int(arg)) => extend(out, n, 0, |out| map(out, registers.int(arg, n), |x| x)),
        (Array::Bool(out), Value::Mask(arg)) => {
            extend(out, n, 0, |out| map(out, registers.mask(arg, n), |x| x));
        }
        (out, Value::Column(column)) => match (out, array(arrays, column)) {
            (Array::F32(out), Array::F32(values)) => {
                extend(out, n, 0.0, |out| load(out, values, rows, |x| x));
            }
            (Array::F64(out), Array::F64(values)) => {
                extend(out, n, 0.0, |out| load(out, values, rows, |x| x));
            }
            (Array::I32(out), Array::I32(values)) => extend(out, n, 0, |out| load(out, values, rows, |x| x)),
            (Array::I64(out), Array::I64(values)) => extend(out, n, 0, |out| load(out, values, rows, |x| x)),
            (Array::Bool(out), Array::Bool(values)) => {
                extend(out, n, 0, |out| load(out, values, rows, |x| x));
            }
            _ => unreachable!("the array was made of the kind of its column"),
        },
        _ => unreachable!("the array was made of the type of its value"),
    }
}

#[inline(always)]
fn extend<T: Copy>(out: &mut Vec<T>, more: usize, zero: T, write: impl FnOnce(&mut [T])) {
    let before = out.len();
    out.resize(before + more, zero);
    write(&mut out[before..]);
}
