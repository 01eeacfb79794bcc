//! What takes up the values of a block.

use super::{ArraySink, Kept, PickSink, ReductionSink, Step};
use crate::{
    column::{Array, Values},
    eval::{
        chunk::{append, extend, write_float, write_mask},
        inputs::{Buffers, Inputs, Lists},
        kernels::{Rows, map},
        program::{Slot, Value},
        registers::Registers,
    },
    expr::{Choice, Reduction},
};

/// The best row so far of each row of the parent.
#[derive(Debug, Default)]
pub(super) struct Picked {
    keys: Vec<f64>,
    seen: Vec<u32>,
}

/// What a block is, for sinks.
pub(super) struct Taken<'a> {
    pub(super) registers: &'a Registers,
    pub(super) inputs: Inputs<'a>,
    pub(super) rows: Rows<'a>,
    /// The row of the parent to which each row belongs.
    pub(super) parents: &'a [u32],
}

/// Prepares the slots of `step` for `rows` rows of its own and `parents` rows of its parent.
pub(super) fn prepare(
    step: &Step,
    fresh: &mut Buffers,
    picked: &mut Vec<Picked>,
    rows: usize,
    parents: usize,
) {
    for (_, kept) in &step.keeps {
        reserve(fresh, *kept, rows);
    }
    for sink in &step.reductions {
        let (how, n) = (sink.how, parents);
        match sink.kept {
            Kept::Float(Slot(slot)) => {
                refill(
                    &mut fresh.floats[slot as usize],
                    n,
                    if how == Reduction::Sum { 0.0 } else { f64::NAN },
                );
            }
            Kept::Int(Slot(slot)) => {
                let nothing = match how {
                    Reduction::Min => i64::MAX,
                    Reduction::Max => i64::MIN,
                    _ => 0,
                };
                refill(&mut fresh.ints[slot as usize], n, nothing);
            }
            Kept::Mask(Slot(slot)) => {
                refill(&mut fresh.masks[slot as usize], n, u8::from(how == Reduction::All));
            }
        }
    }
    picked.resize_with(step.picks.len().max(picked.len()), Picked::default);
    for (sink, state) in step.picks.iter().zip(picked) {
        refill(&mut state.keys, parents, f64::NAN);
        refill(&mut state.seen, parents, 0);
        for Slot(slot) in sink.places.iter().flatten() {
            refill(&mut fresh.ints[*slot as usize], parents, -1);
        }
    }
}

#[inline(always)]
fn refill<T: Copy>(values: &mut Vec<T>, count: usize, value: T) {
    values.clear();
    values.resize(count, value);
}

fn reserve(fresh: &mut Buffers, kept: Kept, rows: usize) {
    match kept {
        Kept::Float(Slot(slot)) => refill(&mut fresh.floats[slot as usize], rows, 0.0),
        Kept::Int(Slot(slot)) => refill(&mut fresh.ints[slot as usize], rows, 0),
        Kept::Mask(Slot(slot)) => refill(&mut fresh.masks[slot as usize], rows, 0),
    }
}

/// Keeps a value of every row of the block.
#[inline(always)]
pub(super) fn keep(fresh: &mut Buffers, value: Value, kept: Kept, taken: &Taken<'_>) {
    let (start, n) = (taken.inputs.start, taken.rows.count);
    let (registers, columns, rows) = (taken.registers, taken.inputs.columns, taken.rows);
    match kept {
        Kept::Float(Slot(slot)) => {
            write_float(&mut fresh.floats[slot as usize][start..start + n], value, registers, columns, rows);
        }
        Kept::Int(Slot(slot)) => {
            let out = &mut fresh.ints[slot as usize][start..start + n];
            write_int(out, value, taken);
        }
        Kept::Mask(Slot(slot)) => {
            write_mask(&mut fresh.masks[slot as usize][start..start + n], value, registers, columns, rows);
        }
    }
}

#[inline(always)]
fn write_int(out: &mut [i64], value: Value, taken: &Taken<'_>) {
    match value {
        Value::Int(arg) => map(out, taken.registers.int(arg, out.len()), |x| x),
        Value::Column(column) => Registers::load_column(out, taken.inputs.columns, column, taken.rows),
        Value::Float(_) | Value::Mask(_) => unreachable!("an integer is kept as one"),
    }
}

/// Space for values that sinks read.
#[derive(Debug, Default)]
pub(super) struct Space {
    floats: Vec<f64>,
    ints: Vec<i64>,
    masks: Vec<u8>,
}

/// Adds the rows of the block to the results of their parents.
#[inline(always)]
pub(super) fn reduce(fresh: &mut Buffers, sink: &ReductionSink, taken: &Taken<'_>, space: &mut Space) {
    let n = taken.rows.count;
    let (registers, columns) = (taken.registers, taken.inputs.columns);
    match sink.kept {
        Kept::Float(Slot(slot)) => {
            refill(&mut space.floats, n, 0.0);
            write_float(&mut space.floats, sink.value, registers, columns, taken.rows);
            let results = &mut fresh.floats[slot as usize];
            reduce_floats(results, &space.floats, taken.parents, sink.how);
        }
        Kept::Int(Slot(slot)) => {
            refill(&mut space.ints, n, 0);
            write_int(&mut space.ints, sink.value, taken);
            let results = &mut fresh.ints[slot as usize];
            for (value, parent) in space.ints.iter().zip(taken.parents) {
                let result = &mut results[*parent as usize];
                *result = match sink.how {
                    Reduction::Min => *value.min(result),
                    Reduction::Max => *value.max(result),
                    _ => result.wrapping_add(*value),
                };
            }
        }
        Kept::Mask(Slot(slot)) => {
            refill(&mut space.masks, n, 0);
            write_mask(&mut space.masks, sink.value, registers, columns, taken.rows);
            let results = &mut fresh.masks[slot as usize];
            if sink.how == Reduction::All {
                space.masks.iter().zip(taken.parents).for_each(|(holds, at)| results[*at as usize] &= holds);
            } else {
                space.masks.iter().zip(taken.parents).for_each(|(holds, at)| results[*at as usize] |= holds);
            }
        }
    }
}

#[inline(always)]
fn reduce_floats(results: &mut [f64], values: &[f64], parents: &[u32], how: Reduction) {
    match how {
        Reduction::Min => {
            for (value, parent) in values.iter().zip(parents) {
                let result = &mut results[*parent as usize];
                *result = result.min(*value);
            }
        }
        Reduction::Max => {
            for (value, parent) in values.iter().zip(parents) {
                let result = &mut results[*parent as usize];
                *result = result.max(*value);
            }
        }
        _ => values.iter().zip(parents).for_each(|(value, parent)| results[*parent as usize] += value),
    }
}

/// Takes a row of the block where it is better than those before it.
#[inline(always)]
pub(super) fn pick(
    fresh: &mut Buffers,
    sink: &PickSink,
    state: &mut Picked,
    taken: &Taken<'_>,
    space: &mut Space,
    lists: &[usize; 3],
) {
    let n = taken.rows.count;
    let (registers, columns) = (taken.registers, taken.inputs.columns);
    if let Some(key) = sink.key {
        refill(&mut space.floats, n, 0.0);
        write_float(&mut space.floats, key, registers, columns, taken.rows);
    }
    if let Some(mask) = sink.mask {
        refill(&mut space.masks, n, 1);
        write_mask(&mut space.masks, mask, registers, columns, taken.rows);
    }
    for row in 0..n {
        let parent = taken.parents[row] as usize;
        if sink.mask.is_some() && space.masks[row] == 0 {
            continue;
        }
        let is_better = match sink.choice {
            Choice::Least | Choice::Greatest => {
                let (best, key) = (&mut state.keys[parent], space.floats[row]);
                let is_beyond = if sink.choice == Choice::Least { key < *best } else { key > *best };
                let is_better = is_beyond || (best.is_nan() && !key.is_nan());
                if is_better {
                    *best = key;
                }
                is_better
            }
            Choice::Last => true,
            Choice::Nth(number) => {
                let seen = &mut state.seen[parent];
                *seen = seen.saturating_add(1);
                *seen - 1 == number
            }
        };
        if is_better {
            take_places(fresh, sink, taken, row, lists);
        }
    }
}

#[inline(always)]
fn take_places(fresh: &mut Buffers, sink: &PickSink, taken: &Taken<'_>, row: usize, lists: &[usize; 3]) {
    let entry = taken.inputs.entries[row] as usize;
    for (part, slot) in sink.places.iter().enumerate() {
        let Some(Slot(slot)) = slot else { continue };
        let list: &Lists = &taken.inputs.lists[lists[part]];
        let element = match taken.inputs.parts[part] {
            [] => (taken.inputs.start + row) as u32,
            elements => elements[row],
        };
        let place = i64::from(element - list.offsets[entry]);
        fresh.ints[*slot as usize][taken.parents[row] as usize] = place;
    }
}

/// Appends the rows of the block, or those that are selected.
#[inline(always)]
pub(super) fn collect(
    out: &mut Values,
    counts: Option<&mut [u32]>,
    sink: &ArraySink,
    taken: &Taken<'_>,
    space: &mut Space,
) {
    let n = taken.rows.count;
    let (registers, columns, rows) = (taken.registers, taken.inputs.columns, taken.rows);
    let before = out.array.len();
    append(&mut out.array, sink.value, registers, columns, rows);
    if let (Some(present), Some(value)) = (&mut out.present, sink.present) {
        extend(present, n, 0, |out| write_mask(out, value, registers, columns, rows));
    }
    refill(&mut space.masks, n, 1);
    if let Some(selection) = sink.selection {
        write_mask(&mut space.masks, selection, registers, columns, rows);
        retain(&mut out.array, before, &space.masks);
        if let Some(present) = &mut out.present {
            retain_in(present, before, &space.masks);
        }
    }
    if let Some(counts) = counts {
        for (keep, entry) in space.masks.iter().zip(taken.inputs.entries) {
            counts[*entry as usize] += u32::from(*keep);
        }
    }
}

#[inline(always)]
fn retain(array: &mut Array, before: usize, mask: &[u8]) {
    match array {
        Array::F32(values) => retain_in(values, before, mask),
        Array::F64(values) => retain_in(values, before, mask),
        Array::I32(values) => retain_in(values, before, mask),
        Array::I64(values) => retain_in(values, before, mask),
        Array::Bool(values) => retain_in(values, before, mask),
    }
}

#[inline(always)]
fn retain_in<T: Copy>(values: &mut Vec<T>, before: usize, mask: &[u8]) {
    let mut end = before;
    for (row, keep) in mask.iter().enumerate() {
        values[end] = values[before + row];
        end += usize::from(*keep != 0);
    }
    values.truncate(end);
}
