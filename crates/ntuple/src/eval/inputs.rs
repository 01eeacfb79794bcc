//! What programs read besides columns: values of other domains, computed before for all rows of the chunk.

use super::{
    kernels::In,
    program::{Arg, Input, Slot},
    registers::Arrays,
};
use crate::expr::From;

/// Values by their slots, a bank for each type.
#[derive(Debug, Default)]
pub(super) struct Buffers {
    pub(super) floats: Vec<Vec<f64>>,
    pub(super) ints: Vec<Vec<i64>>,
    pub(super) masks: Vec<Vec<u8>>,
}

static NO_BUFFERS: Buffers = Buffers { floats: Vec::new(), ints: Vec::new(), masks: Vec::new() };

/// The lists of one domain in a chunk.
#[derive(Debug, Default)]
pub(super) struct Lists {
    /// Row at which the list of each entry begins, and the end of the last.
    pub(super) offsets: Vec<u32>,
    /// The entry of each row.
    pub(super) entries: Vec<u32>,
    /// Of joined lists: the row of each in the list it comes from, with [`SECOND`] if that is the second.
    pub(super) joined: Vec<u32>,
    /// Where the rows begin in the columns.
    pub(super) base: usize,
}

/// Marks a row of the second of two joined lists: no list is so long.
pub(super) const SECOND: u32 = 1 << 31;

impl Lists {
    /// Number of rows.
    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        self.offsets.last().map_or(0, |end| *end as usize)
    }
}

/// What a program reads for the rows of one block.
#[derive(Clone, Copy)]
pub(super) struct Inputs<'a> {
    pub(super) columns: &'a Arrays,
    pub(super) buffers: &'a Buffers,
    /// Where the block begins among the rows of its domain.
    pub(super) start: usize,
    /// The entry of each row of the block.
    pub(super) entries: &'a [u32],
    /// The rows, in their lists, that each row combines.
    pub(super) parts: [&'a [u32]; 3],
    /// The lists of each domain.
    pub(super) lists: &'a [Lists],
    /// The domain of the block, as the number of its lists.
    pub(super) own: usize,
}

impl<'a> Inputs<'a> {
    /// For programs that read columns only.
    pub(super) fn flat(columns: &'a Arrays) -> Self {
        Self { columns, buffers: &NO_BUFFERS, start: 0, entries: &[], parts: [&[]; 3], lists: &[], own: 0 }
    }

    /// The rows from which a value is lifted.
    #[inline(always)]
    fn rows_of(&self, from: From) -> &'a [u32] {
        match from {
            From::Entry => self.entries,
            From::Part(part) => self.parts[part as usize],
        }
    }

    /// The sum of lifted values, added from the first to the last.
    #[inline(always)]
    pub(super) fn sum_of_parts(&self, out: &mut [f64], parts: [Option<(Slot, From)>; 3]) {
        let read =
            |(Slot(slot), from): (Slot, From)| (&self.buffers.floats[slot as usize][..], self.rows_of(from));
        let [Some(first), Some(second), third] = parts else { return };
        let ((a, rows_a), (b, rows_b)) = (read(first), read(second));
        let rows = rows_a.iter().zip(rows_b);
        match third.map(read) {
            None => {
                out.iter_mut().zip(rows).for_each(|(out, (i, j))| *out = a[*i as usize] + b[*j as usize]);
            }
            Some((c, rows_c)) => {
                for ((out, (i, j)), k) in out.iter_mut().zip(rows).zip(rows_c) {
                    *out = a[*i as usize] + b[*j as usize] + c[*k as usize];
                }
            }
        }
    }

    /// The number of each row in its entry.
    #[inline(always)]
    pub(super) fn positions(&self, out: &mut [i64]) {
        let offsets = &self.lists[self.own].offsets;
        for (row, (out, entry)) in out.iter_mut().zip(self.entries).enumerate() {
            *out = (self.start + row) as i64 - i64::from(offsets[*entry as usize]);
        }
    }
}

/// A type of register.
pub(super) trait Element: Copy {
    /// What stands for a value that is not there.
    const MISSING: Self;
    /// The values of a slot.
    fn slot(buffers: &Buffers, slot: Slot) -> &[Self];
}

macro_rules! element {
    ($ty:ty, $bank:ident, $missing:expr) => {
        impl Element for $ty {
            const MISSING: Self = $missing;
            #[inline(always)]
            fn slot(buffers: &Buffers, Slot(slot): Slot) -> &[Self] {
                &buffers.$bank[slot as usize]
            }
        }
    };
}
element!(f64, floats, f64::NAN);
element!(i64, ints, 0);
element!(u8, masks, 0);

/// Reads an input for the rows of a block. `places` gives the values of an argument.
#[inline(always)]
pub(super) fn read<'r, T: Element>(
    out: &mut [T],
    from: Input<T>,
    inputs: &Inputs<'_>,
    places: impl Fn(Arg<i64>) -> In<'r, i64>,
) {
    match from {
        Input::Own(slot) => {
            let values = T::slot(inputs.buffers, slot);
            out.copy_from_slice(&values[inputs.start..inputs.start + out.len()]);
        }
        Input::Lift(slot, from) => {
            let values = T::slot(inputs.buffers, slot);
            let rows = inputs.rows_of(from);
            out.iter_mut().zip(rows).for_each(|(out, row)| *out = values[*row as usize]);
        }
        Input::Join(first, second) => {
            let rows = &inputs.lists[inputs.own].joined[inputs.start..inputs.start + out.len()];
            let (first, second) = (side(first, inputs), side(second, inputs));
            for (out, row) in out.iter_mut().zip(rows) {
                let at = (row & !SECOND) as usize;
                *out = if row & SECOND == 0 { first.at(at) } else { second.at(at) };
            }
        }
        Input::At(slot, list, place) => {
            let values = T::slot(inputs.buffers, slot);
            let offsets = &inputs.lists[list.index()].offsets;
            let places = places(place);
            for (row, (out, entry)) in out.iter_mut().zip(inputs.entries).enumerate() {
                let (start, end) = (offsets[*entry as usize], offsets[*entry as usize + 1]);
                let place = places.at(row);
                let is_there = place >= 0 && place < i64::from(end - start);
                *out = if is_there { values[start as usize + place as usize] } else { T::MISSING };
            }
        }
    }
}

#[inline(always)]
fn side<'a, T: Element>(side: Arg<T>, inputs: &Inputs<'a>) -> In<'a, T> {
    match side {
        Arg::Register(slot) => In::Slice(T::slot(inputs.buffers, Slot(slot))),
        Arg::Const(value) => In::Const(value),
    }
}
