//! Carries out a compiled query for one chunk of a row group: mask, fills and arrays.

use super::{
    Bank, CHUNK_ROWS, Counters, Scratch,
    compiled::{CompiledFill, Variant},
    inputs::Inputs,
    kernels::{Rows, ToFloat, cut, load, load_float, map, pick, scatter},
    program::{Arg, Value},
    registers::Arrays,
    registers::{Registers, array},
    sort::sort,
};
use crate::{
    column::{Array, Values, with_values},
    fill::{Axis, add},
    simd::{Kernel, dispatch},
};
use std::sync::atomic::{AtomicBool, Ordering};

pub(super) struct RowGroup<'w> {
    pub(super) variant: &'w Variant,
    pub(super) bank: &'w mut Bank,
    pub(super) counters: &'w mut [Counters],
    pub(super) scratch: &'w mut Scratch,
    pub(super) arrays: &'w Arrays,
    pub(super) rows: usize,
    pub(super) out: &'w mut Vec<Values>,
    pub(super) is_cancelled: &'w AtomicBool,
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
            self.bank.filter.run(program, &Inputs::flat(arrays), all);
            write_mask(&mut mask[..count], *value, &self.bank.filter, arrays, all);
            passed = super::kernels::count(&mask[..count]);
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
            self.bank.body.run(&variant.body, &Inputs::flat(arrays), rows);
            let keep = (!is_packed && passed < count).then_some(&mask[..count]);
            dispatch(FillAll {
                fills: &variant.fills,
                counters: self.counters,
                scratch: self.scratch,
                body: &self.bank.body,
                arrays,
                rows,
                keep,
            });
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
pub(super) fn write_mask(
    out: &mut [u8],
    value: Value,
    registers: &Registers,
    arrays: &Arrays,
    rows: Rows<'_>,
) {
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

/// Fills histograms with the rows of a chunk for which `keep` holds. A kernel of its own, as programs are.
pub(super) struct FillAll<'a> {
    pub(super) fills: &'a [CompiledFill],
    pub(super) counters: &'a mut [Counters],
    pub(super) scratch: &'a mut Scratch,
    pub(super) body: &'a Registers,
    pub(super) arrays: &'a Arrays,
    pub(super) rows: Rows<'a>,
    pub(super) keep: Option<&'a [u8]>,
}

impl Kernel for FillAll<'_> {
    #[inline(always)]
    fn run(self) {
        fill_all(self);
    }
}

#[inline(always)]
fn fill_all(FillAll { fills, counters, scratch, body, arrays, rows, keep }: FillAll<'_>) {
    let Scratch { cut: own, indices, bins, floats, .. } = scratch;
    let n = rows.count;
    for fill in fills {
        let counters = &mut counters[fill.number];
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
pub(super) fn write_float(
    out: &mut [f64],
    value: Value,
    registers: &Registers,
    arrays: &Arrays,
    rows: Rows<'_>,
) {
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
pub(super) fn append(out: &mut Array, value: Value, registers: &Registers, arrays: &Arrays, rows: Rows<'_>) {
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
pub(super) fn extend<T: Copy>(out: &mut Vec<T>, more: usize, zero: T, write: impl FnOnce(&mut [T])) {
    let before = out.len();
    out.resize(before + more, zero);
    write(&mut out[before..]);
}
