//! The lists of a chunk, for all of its entries or for those that passed.

use super::{ListOf, Phase, PhaseList};
use crate::{
    column::{Array, Values},
    eval::{
        inputs::{Lists, SECOND},
        kernels::Rows,
        registers::Arrays,
    },
};
use std::sync::Arc;

/// Makes the lists of all domains that `phase` uses.
pub(super) fn fill_lists(lists: &mut Vec<Lists>, phase: &Phase, arrays: &Arrays, rows: Rows<'_>) {
    let most = phase.lists.iter().map(|list| list.domain.index() + 1).max().unwrap_or(0);
    if lists.len() < most {
        lists.resize_with(most, Lists::default);
    }
    for PhaseList { domain, of, has_entries } in &phase.lists {
        let mut list = std::mem::take(&mut lists[domain.index()]);
        match *of {
            ListOf::Column(column) => from_column(&mut list, offsets(arrays, column), rows),
            ListOf::Joined(a, b) => join(&mut list, &lists[a.index()], &lists[b.index()]),
        }
        list.entries.clear();
        if *has_entries {
            number_entries(&mut list);
        }
        lists[domain.index()] = list;
    }
}

/// Offsets of a column of lists, which the plan reads.
pub(super) fn offsets(arrays: &Arrays, column: usize) -> &[u32] {
    let values = arrays[column].as_ref().expect("every column that the plan reads was decoded");
    values.offsets.as_ref().expect("a column of lists has offsets")
}

fn from_column(list: &mut Lists, offsets: &[u32], rows: Rows<'_>) {
    list.offsets.clear();
    match rows.picked {
        None => {
            let offsets = &offsets[rows.start..=rows.start + rows.count];
            let first = offsets[0];
            list.offsets.extend(offsets.iter().map(|offset| offset - first));
            list.base = first as usize;
        }
        Some(picked) => {
            let offsets = &offsets[rows.start..];
            let mut end = 0;
            list.offsets.push(0);
            list.offsets.extend(picked.iter().map(|entry| {
                end += offsets[*entry as usize + 1] - offsets[*entry as usize];
                end
            }));
            // Columns are copied, for the entries that passed, one behind the other.
            list.base = 0;
        }
    }
}

fn number_entries(list: &mut Lists) {
    list.entries.resize(list.len(), 0);
    for (entry, ends) in list.offsets.windows(2).enumerate() {
        for row in &mut list.entries[ends[0] as usize..ends[1] as usize] {
            *row = entry as u32;
        }
    }
}

fn join(list: &mut Lists, first: &Lists, second: &Lists) {
    list.offsets.clear();
    list.offsets.extend(first.offsets.iter().zip(&second.offsets).map(|(a, b)| a + b));
    list.joined.clear();
    for (a, b) in first.offsets.windows(2).zip(second.offsets.windows(2)) {
        list.joined.extend(a[0]..a[1]);
        list.joined.extend((b[0]..b[1]).map(|row| row | SECOND));
    }
}

/// Copies the elements of the entries that passed, for each column of lists that `phase` reads.
pub(super) fn copy_columns(
    local: &mut Vec<Option<Arc<Values>>>,
    phase: &Phase,
    arrays: &Arrays,
    start: usize,
    picked: &[u32],
) {
    local.resize(arrays.len(), None);
    for (column, array) in arrays.iter().enumerate() {
        let Some(values) = array else { continue };
        if values.offsets.is_none() {
            // Values of entries are picked where they are.
            if !local[column].as_ref().is_some_and(|known| Arc::ptr_eq(known, values)) {
                local[column] = Some(Arc::clone(values));
            }
        }
    }
    for (column, _) in &phase.columns {
        let Some(values) = &arrays[*column] else { continue };
        let Some(offsets) = &values.offsets else { continue };
        let ranges = picked.iter().map(|entry| {
            let entry = start + *entry as usize;
            offsets[entry] as usize..offsets[entry + 1] as usize
        });
        let copy = fresh(&mut local[*column], &values.array);
        copy_ranges(&mut copy.array, &values.array, ranges.clone());
        copy.present = values.present.as_ref().map(|present| {
            let mut copied = copy.present.take().unwrap_or_default();
            copied.clear();
            ranges.for_each(|range| copied.extend_from_slice(&present[range]));
            copied
        });
    }
}

/// Values of the kind of `like` that nobody else has.
fn fresh<'a>(place: &'a mut Option<Arc<Values>>, like: &Array) -> &'a mut Values {
    let is_ours = place
        .as_mut()
        .and_then(Arc::get_mut)
        .is_some_and(|values| values.array.kind() == like.kind() && values.offsets.is_none());
    if !is_ours {
        *place = Some(Arc::new(Array::empty(like.kind()).into()));
    }
    place.as_mut().and_then(Arc::get_mut).expect("it was made here")
}

fn copy_ranges(out: &mut Array, from: &Array, ranges: impl Iterator<Item = std::ops::Range<usize>>) {
    macro_rules! copy {
        ($out:expr, $from:expr) => {{
            $out.clear();
            ranges.for_each(|range| $out.extend_from_slice(&$from[range]));
        }};
    }
    match (out, from) {
        (Array::F32(out), Array::F32(from)) => copy!(out, from),
        (Array::F64(out), Array::F64(from)) => copy!(out, from),
        (Array::I32(out), Array::I32(from)) => copy!(out, from),
        (Array::I64(out), Array::I64(from)) => copy!(out, from),
        (Array::Bool(out), Array::Bool(from)) => copy!(out, from),
        (out, from) => unreachable!("{:?} was made for {:?}", out.kind(), from.kind()),
    }
}
