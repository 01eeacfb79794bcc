//! The inner loops. Each is a plain loop over slices, drawn into both versions of [`crate::simd::dispatch`].

use super::CHUNK_ROWS;
use crate::column::{Array, with_values};

/// Values of a chunk or one constant.
#[derive(Clone, Copy)]
pub(super) enum In<'a, T> {
    Slice(&'a [T]),
    Const(T),
}

impl<T: Copy> In<'_, T> {
    #[inline(always)]
    pub(super) fn at(&self, index: usize) -> T {
        match self {
            In::Slice(values) => values[index],
            In::Const(value) => *value,
        }
    }
}

/// Rows of a chunk within its row group.
#[derive(Clone, Copy)]
pub(super) struct Rows<'a> {
    pub(super) start: usize,
    /// Rows to compute: all of the chunk, or only those picked.
    pub(super) count: usize,
    /// Offsets within the chunk of the rows that passed the cut.
    pub(super) picked: Option<&'a [u32]>,
}

#[inline(always)]
pub(super) fn map<T: Copy, U: Copy>(out: &mut [U], a: In<'_, T>, f: impl Fn(T) -> U) {
    match a {
        In::Slice(a) => out.iter_mut().zip(a).for_each(|(out, a)| *out = f(*a)),
        In::Const(a) => out.fill(f(a)),
    }
}

#[inline(always)]
pub(super) fn zip<T: Copy, U: Copy>(out: &mut [U], a: In<'_, T>, b: In<'_, T>, f: impl Fn(T, T) -> U) {
    match (a, b) {
        (In::Slice(a), In::Slice(b)) => {
            out.iter_mut().zip(a).zip(b).for_each(|((out, a), b)| *out = f(*a, *b));
        }
        (In::Slice(a), In::Const(b)) => out.iter_mut().zip(a).for_each(|(out, a)| *out = f(*a, b)),
        (In::Const(a), In::Slice(b)) => out.iter_mut().zip(b).for_each(|(out, b)| *out = f(a, *b)),
        (In::Const(a), In::Const(b)) => out.fill(f(a, b)),
    }
}

#[inline(always)]
pub(super) fn select<T: Copy>(out: &mut [T], condition: &[u8], yes: In<'_, T>, no: In<'_, T>) {
    let pick = |condition: u8, yes: T, no: T| if condition != 0 { yes } else { no };
    match (yes, no) {
        (In::Slice(a), In::Slice(b)) => {
            for (((out, c), a), b) in out.iter_mut().zip(condition).zip(a).zip(b) {
                *out = pick(*c, *a, *b);
            }
        }
        (In::Slice(a), In::Const(b)) => {
            out.iter_mut().zip(condition).zip(a).for_each(|((out, c), a)| *out = pick(*c, *a, b));
        }
        (In::Const(a), In::Slice(b)) => {
            out.iter_mut().zip(condition).zip(b).for_each(|((out, c), b)| *out = pick(*c, a, *b));
        }
        (In::Const(a), In::Const(b)) => {
            out.iter_mut().zip(condition).for_each(|(out, c)| *out = pick(*c, a, b));
        }
    }
}

/// Copies the rows of a column.
#[inline(always)]
pub(super) fn load<T: Copy, U: Copy>(out: &mut [U], values: &[T], rows: Rows<'_>, f: impl Fn(T) -> U) {
    match rows.picked {
        None => out.iter_mut().zip(&values[rows.start..]).for_each(|(out, value)| *out = f(*value)),
        Some(picked) => {
            let values = &values[rows.start..];
            if let Some(whole) = values.first_chunk::<CHUNK_ROWS>() {
                // Offsets lie within the chunk; the remainder tells the compiler, which then checks no bound.
                out.iter_mut().zip(picked).for_each(|(out, row)| *out = f(whole[*row as usize % CHUNK_ROWS]));
            } else {
                out.iter_mut().zip(picked).for_each(|(out, row)| *out = f(values[*row as usize]));
            }
        }
    }
}

/// Conversion of a stored value to the float that expressions see.
pub(super) trait ToFloat: Copy {
    fn to_float(self) -> f64;
}

macro_rules! to_float {
    ($($ty:ty),*) => {$(
        impl ToFloat for $ty {
            #[inline(always)]
            #[allow(clippy::cast_lossless, reason = "one conversion for types that fit and types that do not")]
            fn to_float(self) -> f64 { self as f64 }
        }
    )*};
}
to_float!(f32, f64, i32, i64, u8);

#[inline(always)]
pub(super) fn load_float(out: &mut [f64], array: &Array, rows: Rows<'_>) {
    with_values!(array, values => load(out, values, rows, ToFloat::to_float));
}

/// `holds` for a column, or its absolute value, and a constant.
///
/// A column of 32-bit floats is compared in 32 bits, with twice as many values in a vector: `nearest` is the constant
/// rounded such that the answer stays exact.
#[inline(always)]
pub(super) fn compare_column(
    out: &mut [u8],
    array: &Array,
    rows: Rows<'_>,
    is_abs: bool,
    (constant, nearest): (f64, f32),
    holds: impl Fn(f64, f64) -> bool,
    holds_narrow: impl Fn(f32, f32) -> bool,
) {
    match (array, is_abs) {
        (Array::F32(values), false) => load(out, values, rows, |x| u8::from(holds_narrow(x, nearest))),
        (Array::F32(values), true) => load(out, values, rows, |x| u8::from(holds_narrow(x.abs(), nearest))),
        (array, false) => {
            with_values!(array, values => load(out, values, rows, |x| u8::from(holds(x.to_float(), constant))));
        }
        (array, true) => {
            with_values!(array, values => load(out, values, rows, |x| u8::from(holds(x.to_float().abs(), constant))));
        }
    }
}

/// Sends the entries that `mask` cuts to the bin `trash`.
#[inline(always)]
pub(super) fn cut(indices: &mut [u32], mask: &[u8], trash: u32) {
    // Arithmetic, because a conditional store would become a branch that every second entry mispredicts.
    for (index, keep) in indices.iter_mut().zip(mask) {
        *index = trash ^ ((*index ^ trash) & u32::from(*keep).wrapping_neg());
    }
}

/// Number of rows that `mask` keeps.
#[inline(always)]
pub(super) fn count(mask: &[u8]) -> usize {
    // Blocks whose count fits a byte are added in bytes, 32 at a time.
    mask.chunks(128)
        .map(|block| usize::from(block.iter().fold(0u8, |sum, keep| sum.wrapping_add(*keep))))
        .sum()
}

/// For each pattern of eight truth values, the places of those that hold, first to last.
static PLACES: [[u8; 8]; 256] = places();

const fn places() -> [[u8; 8]; 256] {
    let mut table = [[0; 8]; 256];
    let mut pattern = 0;
    while pattern < 256 {
        let (mut place, mut count) = (0, 0);
        while place < 8 {
            // The product in `pick` puts the first truth value into the lowest bit.
            if pattern >> place & 1 == 1 {
                table[pattern][count] = place;
                count += 1;
            }
            place += 1;
        }
        pattern += 1;
    }
    table
}

/// Entries that [`pick`] may write beyond the last one it keeps.
pub(super) const PICK_SLACK: usize = 8;

/// Collects the offsets of the rows that `mask` keeps, and returns how many there are. No branch depends on the mask.
#[inline(always)]
pub(super) fn pick(out: &mut [u32], mask: &[u8]) -> usize {
    let mut count = 0;
    let mut base = 0;
    let mut eights = mask.chunks_exact(8);
    for eight in &mut eights {
        let eight = u64::from_le_bytes([
            eight[0], eight[1], eight[2], eight[3], eight[4], eight[5], eight[6], eight[7],
        ]);
        let pattern = (eight.wrapping_mul(0x0102_0408_1020_4080) >> 56) as u8;
        let places = &PLACES[usize::from(pattern)];
        // All eight are written, the surplus is overwritten by the next ones.
        let rows: [u32; 8] = std::array::from_fn(|place| base + u32::from(places[place]));
        out[count..count + 8].copy_from_slice(&rows);
        count += (eight.wrapping_mul(0x0101_0101_0101_0101) >> 56) as usize;
        base += 8;
    }
    for keep in eights.remainder() {
        out[count] = base;
        count += usize::from(*keep);
        base += 1;
    }
    count
}

/// Copies of each counter. Entries of neighbouring rows often hit the same bin, and an increment has to wait for the
/// one before it unless they go to different copies.
pub(super) const COPIES: usize = 4;

/// Counts `indices` into `COPIES` arrays of `stride` counters that follow each other.
#[inline(always)]
pub(super) fn scatter(counters: &mut [u32], stride: usize, indices: &[u32]) {
    let (first, rest) = counters.split_at_mut(stride);
    let (second, rest) = rest.split_at_mut(stride);
    let (third, fourth) = rest.split_at_mut(stride);
    let mut groups = indices.chunks_exact(COPIES);
    for group in &mut groups {
        first[group[0] as usize] += 1;
        second[group[1] as usize] += 1;
        third[group[2] as usize] += 1;
        fourth[group[3] as usize] += 1;
    }
    for index in groups.remainder() {
        first[*index as usize] += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn picked_rows_are_those_kept(mask in prop::collection::vec(0u8..2, 0..CHUNK_ROWS)) {
            let mut out = vec![0; mask.len() + PICK_SLACK];
            let picked = pick(&mut out, &mask);
            let expected: Vec<u32> = (0..mask.len() as u32).filter(|row| mask[*row as usize] == 1).collect();
            prop_assert_eq!(&out[..picked], &expected);
            prop_assert_eq!(count(&mask), picked);
        }
    }
}
