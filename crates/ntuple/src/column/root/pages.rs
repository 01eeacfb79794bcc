//! From the pages of a column to values.

use super::{
    super::Source,
    super::cursor::{Parsed, corrupt, unsupported},
    block::{checksum, decompress},
    envelope::{ColumnRecord, Page, Pages},
    keys::read,
};
use crate::column::{Array, Kind};

/// Most elements that a column has in a cluster.
pub(super) const ELEMENTS_MAX: u64 = 1 << 28;
/// Pages that are at most so far apart are read at once.
const GAP_BYTES_MAX: u64 = 32 << 10;
/// Most bytes that are read at once.
const READ_BYTES_MAX: u64 = 64 << 20;
/// A page is followed by its checksum, if it has one.
const CHECKSUM_BYTES: u64 = 8;

/// Number of elements in the pages.
pub(super) fn elements(pages: &Pages) -> u64 {
    pages.pages.iter().map(|page| u64::from(page.elements)).sum()
}

/// Calls `each` with number, content and element count of every page, verified and decompressed.
fn each_page(
    source: &dyn Source,
    record: &ColumnRecord,
    pages: &[Page],
    mut each: impl FnMut(&[u8], usize) -> Parsed<()>,
) -> Parsed<()> {
    let mut next = 0;
    while let Some(first) = pages.get(next) {
        let mut end = end_of(first);
        let mut last = next + 1;
        while let Some(page) = pages.get(last)
            && page.start >= end
            && page.start - end <= GAP_BYTES_MAX
            && end_of(page).saturating_sub(first.start) <= READ_BYTES_MAX
        {
            end = end_of(page);
            last += 1;
        }
        let bytes = read(source, first.start, end.saturating_sub(first.start))?;
        for (number, page) in pages.iter().enumerate().take(last).skip(next) {
            let at = (page.start - first.start) as usize;
            let stored = &bytes[at..at + page.stored as usize];
            if page.has_checksum {
                let expected = bytes[at + page.stored as usize..].first_chunk().copied().unwrap_or_default();
                if checksum(stored) != u64::from_le_bytes(expected) {
                    return corrupt(format!("page {number}: checksum does not match"));
                }
            }
            let count = page.elements as usize;
            let length = (u64::from(page.elements) * u64::from(record.bits)).div_ceil(8);
            each(&decompress(stored, length as usize)?, count)?;
        }
        next = last;
    }
    Ok(())
}

fn end_of(page: &Page) -> u64 {
    let more = if page.has_checksum { CHECKSUM_BYTES } else { 0 };
    page.start.saturating_add(page.stored).saturating_add(more)
}

/// Bits that an element of a column may have.
fn check_bits(record: &ColumnRecord) -> Parsed<()> {
    let (kind, bits) = (record.kind, record.bits);
    let is_right = match kind {
        0x00 => bits == 1,
        0x01..=0x04 => bits == 8,
        0x05 | 0x06 | 0x0b | 0x11 | 0x12 | 0x17 => bits == 16,
        0x07 | 0x08 | 0x0c | 0x0e | 0x13 | 0x14 | 0x18 | 0x1a => bits == 32,
        0x09 | 0x0a | 0x0d | 0x0f | 0x15 | 0x16 | 0x19 | 0x1b => bits == 64,
        0x1c => (10..=31).contains(&bits),
        0x1d => (1..=32).contains(&bits),
        _ => return unsupported(format!("column type {kind:#04x}")),
    };
    if is_right { Ok(()) } else { corrupt(format!("column type {kind:#04x} of {bits} bits")) }
}

/// The elements of a column of numbers, of which `zeros` stand in front.
pub(super) fn numbers(
    source: &dyn Source,
    record: &ColumnRecord,
    pages: &Pages,
    zeros: usize,
    kind: Kind,
) -> Parsed<Array> {
    check_bits(record)?;
    let mut all = Array::zeros(kind, zeros);
    all.reserve(elements(pages) as usize);
    each_page(source, record, &pages.pages, |page, count| {
        all.append(decoded(record, page, count)?);
        Ok(())
    })?;
    Ok(all)
}

/// The ends of lists, from the beginning of the cluster; `zeros` stand in front.
pub(super) fn ends(
    source: &dyn Source,
    record: &ColumnRecord,
    pages: &Pages,
    zeros: usize,
) -> Parsed<Vec<u32>> {
    check_bits(record)?;
    let mut all = vec![0u32; zeros + 1];
    all.reserve(elements(pages) as usize);
    each_page(source, record, &pages.pages, |page, count| {
        let words: Vec<u64> = match record.kind {
            0x0e => u32s(page, count, false).map(u64::from).collect(),
            0x1a => u32s(page, count, true).map(u64::from).collect(),
            0x0f => u64s(page, count, false).collect(),
            0x1b => u64s(page, count, true).collect(),
            kind => return corrupt(format!("column type {kind:#04x} for the ends of lists")),
        };
        let is_delta = matches!(record.kind, 0x1a | 0x1b);
        let mut sum = 0u64;
        let mut last = all.last().copied().unwrap_or(0);
        for word in words {
            sum = if is_delta { sum.wrapping_add(word) } else { word };
            match u32::try_from(sum) {
                Ok(end) if end >= last && sum <= ELEMENTS_MAX => last = end,
                _ => return corrupt(format!("list ends at {sum} after {last}")),
            }
            all.push(last);
        }
        Ok(())
    })?;
    Ok(all)
}

macro_rules! words {
    ($name:ident $word:ty, $bytes:literal) => {
        /// Little-endian words; of a split page all first bytes stand in front, then all second ones, and so on.
        fn $name(page: &[u8], count: usize, is_split: bool) -> impl Iterator<Item = $word> {
            let (step, stride) = if is_split { (1, count) } else { ($bytes, 1) };
            (0..count).map(move |index| {
                <$word>::from_le_bytes(std::array::from_fn::<u8, $bytes, _>(|byte| {
                    page[index * step + byte * stride]
                }))
            })
        }
    };
}
words!(u16s u16, 2);
words!(u32s u32, 4);
words!(u64s u64, 8);

macro_rules! zigzag {
    ($word:ident) => {
        ($word >> 1).cast_signed() ^ -($word & 1).cast_signed()
    };
}

/// The elements of one page. `page` is as long as `count` elements are.
fn decoded(record: &ColumnRecord, page: &[u8], count: usize) -> Parsed<Array> {
    let is_split = record.kind >= 0x11;
    Ok(match record.kind {
        0x00 => Array::Bool((0..count).map(|index| page[index / 8] >> (index % 8) & 1).collect()),
        0x01 | 0x04 => Array::I32(page.iter().map(|byte| i32::from(*byte)).collect()),
        0x02 | 0x03 => Array::I32(page.iter().map(|byte| i32::from(byte.cast_signed())).collect()),
        0x05 => Array::I32(u16s(page, count, false).map(|word| i32::from(word.cast_signed())).collect()),
        0x11 => Array::I32(u16s(page, count, true).map(|word| i32::from(zigzag!(word))).collect()),
        0x06 | 0x12 => Array::I32(u16s(page, count, is_split).map(i32::from).collect()),
        0x07 => Array::I32(u32s(page, count, false).map(u32::cast_signed).collect()),
        0x13 => Array::I32(u32s(page, count, true).map(|word| zigzag!(word)).collect()),
        0x08 | 0x14 => Array::I64(u32s(page, count, is_split).map(i64::from).collect()),
        0x09 => Array::I64(u64s(page, count, false).map(u64::cast_signed).collect()),
        0x15 => Array::I64(u64s(page, count, true).map(|word| zigzag!(word)).collect()),
        0x0a | 0x16 => Array::I64(u64s(page, count, is_split).map(small).collect::<Parsed<_>>()?),
        0x0b | 0x17 => Array::F32(u16s(page, count, is_split).map(super::super::number::half_bits).collect()),
        0x0c | 0x18 => Array::F32(u32s(page, count, is_split).map(f32::from_bits).collect()),
        0x0d | 0x19 => Array::F64(u64s(page, count, is_split).map(f64::from_bits).collect()),
        0x1c => {
            let shift = 32 - u32::from(record.bits);
            Array::F32(packed(page, count, record.bits).map(|word| f32::from_bits(word << shift)).collect())
        }
        0x1d => {
            let (low, high) = record.range;
            let step = (high - low) / ((1u64 << record.bits) - 1) as f64;
            let value = |word: u32| (low + f64::from(word) * step) as f32;
            Array::F32(packed(page, count, record.bits).map(value).collect())
        }
        kind => return unsupported(format!("column type {kind:#04x}")),
    })
}

fn small(word: u64) -> Parsed<i64> {
    match i64::try_from(word) {
        Ok(value) => Ok(value),
        Err(_) => {
            unsupported(format!("{word} is too large: unsigned values up to {} are possible", i64::MAX))
        }
    }
}

/// Words of up to 32 bits without gaps, the least significant bit first.
fn packed(page: &[u8], count: usize, bits: u16) -> impl Iterator<Item = u32> {
    let bits = usize::from(bits);
    (0..count).map(move |index| {
        let at = index * bits;
        let bytes = &page[at / 8..];
        let mut window = [0; 8];
        let length = bytes.len().min(8);
        window[..length].copy_from_slice(&bytes[..length]);
        (u64::from_le_bytes(window) >> (at % 8) & ((1 << bits) - 1)) as u32
    })
}
