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

use crate::{
    column::{Array, Kind, Schema, Values, with_values},
    expr::{Graph, Id, Op, Scalar, Type},
    fill::{Axis, Bins, Histogram, add},
    plan::{Fill, Plan},
    simd::{Kernel, dispatch},
};
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
    /// For row groups in which no value is missing.
    plain: Variant,
    /// For all others; `None` if no integer or truth value that is read can be missing.
    with_missing: Option<Variant>,
}

/// The programs of a plan, for row groups with or without missing values.
#[derive(Debug)]
struct Variant {
    filter: Option<(Program, Value)>,
    body: Program,
    fills: Vec<CompiledFill>,
    arrays: Vec<CompiledArray>,
}

#[derive(Debug)]
struct CompiledFill {
    values: Vec<Value>,
    cut: Option<Value>,
    weight: Option<Value>,
    axes: Vec<Axis>,
    size: usize,
}

#[derive(Debug, Clone, Copy)]
struct CompiledArray {
    value: Value,
    ty: Type,
    /// Where it is present; `None` if everywhere.
    present: Option<Value>,
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
            (Some(a), Some(b)) => Some(plan.graph.both_true(a, b)),
            (a, b) => a.or(b),
        };
        let (graph, ids) = plan.graph.all_present();
        let can_be_missing = plan
            .column_indices()
            .iter()
            .map(|column| &plan.schema.columns[*column])
            .any(|column| column.is_optional && column.ty != Type::Float);
        let own = |id: Id| id;
        Self {
            plain: Variant::new(plan, &graph, &|id: Id| ids[id.index()], filter, shared.is_some()),
            with_missing: can_be_missing
                .then(|| Variant::new(plan, &plan.graph, &own, filter, shared.is_some())),
        }
    }

    /// Arrays of the kinds that the plan gives for an n-tuple of `schema`.
    pub(crate) fn empty_arrays(&self, schema: &Schema) -> Vec<Values> {
        let kind = |array: &CompiledArray| match array.value {
            Value::Column(column) => schema.columns[column].kind,
            _ => computed(array.ty),
        };
        self.plain.arrays.iter().map(|array| Array::empty(kind(array)).into()).collect()
    }

    /// Which variant computes a row group of these columns.
    fn variant(&self, arrays: &Arrays) -> (&Variant, bool) {
        let is_missing = || arrays.iter().flatten().any(|values| values.present.is_some());
        match &self.with_missing {
            Some(variant) if is_missing() => (variant, true),
            _ => (&self.plain, false),
        }
    }
}

/// The kind in which values of a type are computed.
fn computed(ty: Type) -> Kind {
    match ty {
        Type::Float => Kind::F64,
        Type::Int => Kind::I64,
        Type::Bool => Kind::Bool,
    }
}

impl Variant {
    /// Compiles the values of `plan` as they stand in `graph`, where `of` says which number each has there.
    fn new(
        plan: &Plan,
        graph: &Graph,
        of: &dyn Fn(Id) -> Id,
        filter: Option<Id>,
        is_cut_shared: bool,
    ) -> Self {
        let own_cut = |fill: &Fill| if is_cut_shared { None } else { fill.cut };
        let mut roots = Vec::new();
        for fill in &plan.fills {
            roots.extend(fill.values.iter().copied().chain(own_cut(fill)).chain(fill.weight).map(of));
        }
        let is_always = |id: Id| matches!(graph.node(id).op, Op::Const(Scalar::Bool(true)));
        let present = |id: Id| plan.graph.present(id).map(of).filter(|present| !is_always(*present));
        for id in &plan.arrays {
            roots.extend([of(*id)].into_iter().chain(present(*id)));
        }
        let (body, values) = compile(graph, &roots);
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
        let array = |id: &Id| CompiledArray {
            value: next(),
            ty: plan.graph.ty(*id),
            present: present(*id).map(|_| next()),
        };
        let arrays = plan.arrays.iter().map(array).collect();
        let filter = filter.map(of).filter(|id| !is_always(*id)).map(|id| {
            let (program, values) = compile(graph, &[id]);
            (program, values[0])
        });
        Self { filter, body, fills, arrays }
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
    arrays: Vec<Values>,
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
}

impl Bank {
    fn new(variant: &Variant) -> Self {
        Self {
            filter: variant.filter.as_ref().map(|(program, _)| Registers::new(program)).unwrap_or_default(),
            body: Registers::new(&variant.body),
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
        let mut out = variant.arrays.iter().map(|array| empty_array(*array, arrays)).collect();
        let Self { plain, with_missing, counters, scratch, .. } = self;
        let bank = if has_missing { with_missing } else { plain };
        dispatch(RowGroup { variant, bank, counters, scratch, arrays, rows, out: &mut out, is_cancelled });
        let mut weights = Vec::new();
        for (counters, fill) in self.counters.iter_mut().zip(&self.compiled.plain.fills) {
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
    pub(crate) fn add_to(self, histograms: &mut [Histogram], arrays: &mut [Values]) {
        let weighted = histograms.iter_mut().filter_map(|histogram| match &mut histogram.bins {
            Bins::Weights(bins) => Some(bins),
            Bins::Counts(_) => None,
        });
        for (bins, sums) in weighted.zip(self.weights) {
            bins.iter_mut().zip(sums).for_each(|(bin, more)| add(bin, more));
        }
        arrays.iter_mut().zip(self.arrays).for_each(|(all, more)| all.append(more));
    }
}

fn flush(counters: &mut [u32], stride: usize, total: &mut [u64]) {
    for copy in counters.chunks_exact_mut(stride) {
        copy.iter().zip(&mut *total).for_each(|(count, total)| *total += u64::from(*count));
        copy.fill(0);
    }
}

/// An array of the kind that `value` gives in a row group.
fn empty_array(CompiledArray { value, ty, present }: CompiledArray, arrays: &Arrays) -> Values {
    let kind = match value {
        Value::Column(column) => array(arrays, column).kind(),
        _ => computed(ty),
    };
    Values { array: Array::empty(kind), present: present.map(|_| Vec::new()) }
}

struct RowGroup<'w> {
    variant: &'w Variant,
    bank: &'w mut Bank,
    counters: &'w mut [Counters],
    scratch: &'w mut Scratch,
    arrays: &'w Arrays,
    rows: usize,
    out: &'w mut Vec<Values>,
    is_cancelled: &'w AtomicBool,
}

impl Kernel for RowGroup<'_> {
    #[inline(always)]
    fn run(mut self) {
        let mut start = 0;
        while start < self.rows && !self.is_cancelled.load(Ordering::Relaxed) {
            let count = (self.rows - start).min(CHUNK_ROWS);
            self.chunk(start, count);
            start += count;
        }
    }
}

impl RowGroup<'_> {
    #[inline(always)]
    fn chunk(&mut self, start: usize, count: usize) {
        let (variant, arrays) = (self.variant, self.arrays);
        let all = Rows { start, count, picked: None };
        let mut mask = std::mem::take(&mut self.scratch.mask);
        let mut picked = std::mem::take(&mut self.scratch.picked);
        let mut passed = count;
        if let Some((program, value)) = &variant.filter {
            self.bank.filter.run(program, arrays, all);
            write_mask(&mut mask[..count], *value, &self.bank.filter, arrays, all);
            passed = kernels::count(&mask[..count]);
        }
        // Packing costs a pass over every column that is used; below half it is cheaper than computing what is not wanted.
        let is_packed = passed < count && (passed * 2 < count || !self.out.is_empty());
        let rows = if is_packed {
            pick(&mut picked, &mask[..count]);
            Rows { start, count: passed, picked: Some(&picked[..passed]) }
        } else {
            all
        };
        if passed > 0 {
            self.bank.body.run(&variant.body, arrays, rows);
            let keep = (!is_packed && passed < count).then_some(&mask[..count]);
            fill_all(self, rows, keep);
            for (values, array) in self.out.iter_mut().zip(&variant.arrays) {
                append(&mut values.array, array.value, &self.bank.body, arrays, rows);
                if let (Some(present), Some(value)) = (&mut values.present, array.present) {
                    extend(present, rows.count, 0, |out| {
                        write_mask(out, value, &self.bank.body, arrays, rows);
                    });
                }
            }
        }
        self.scratch.mask = mask;
        self.scratch.picked = picked;
    }
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
fn fill_all(group: &mut RowGroup<'_>, rows: Rows<'_>, keep: Option<&[u8]>) {
    let (arrays, body) = (group.arrays, &group.bank.body);
    let Scratch { cut: own, indices, bins, floats, .. } = &mut *group.scratch;
    let n = rows.count;
    for (fill, counters) in group.variant.fills.iter().zip(&mut *group.counters) {
        let indices = &mut indices[..n];
        for (number, (axis, value)) in fill.axes.iter().zip(&fill.values).enumerate() {
            if number == 0 {
                sort_value(indices, axis, *value, body, arrays, rows, &mut floats[..n]);
                continue;
            }
            let bins = &mut bins[..n];
            sort_value(bins, axis, *value, body, arrays, rows, &mut floats[..n]);
            let extent = axis.extent() as u32;
            indices.iter_mut().zip(bins).for_each(|(index, bin)| *index = *index * extent + *bin);
        }
        let trash = fill.size as u32;
        if let Some(keep) = keep {
            cut(indices, keep, trash);
        }
        if let Some(value) = fill.cut {
            write_mask(&mut own[..n], value, body, arrays, rows);
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
                write_float(floats, weight, body, arrays, rows);
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
