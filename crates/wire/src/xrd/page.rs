//! Pages with checksums, as page reads and writes carry them (spec/xrootd.md §6).
//!
//! A page is 4096 aligned bytes of the file. A range that starts or ends inside a page has a short first or last page.
//! On the wire each page follows its CRC-32C, which has four bytes, big endian.

use super::frame::{Malformed, u32_at};
use base::Crc32c;

/// Bytes of a page.
pub const PAGE_BYTES: usize = base::crc_lanes::PAGE_BYTES;
/// Bytes of a checksum on the wire.
pub const PAGE_CRC_BYTES: usize = 4;
/// Bad pages that one write may report.
pub const BAD_PAGES_PER_WRITE_MAX: usize = 128;
/// Bad pages of one file that may wait for correction.
pub const BAD_PAGES_PER_FILE_MAX: usize = 256;

/// One page, or the part of it that a range covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Page {
    /// Where it starts in the file.
    pub offset: u64,
    /// How many bytes of it there are: 1 to 4096.
    pub length: usize,
}

/// The pages of `offset..offset + length`.
///
/// ```
/// use wire::xrd::pages;
/// let lengths: Vec<_> = pages(4000, 5000).map(|page| page.length).collect();
/// assert_eq!(lengths, [96, 4096, 808]);
/// ```
pub fn pages(offset: u64, length: usize) -> impl Iterator<Item = Page> {
    let mut at = 0;
    std::iter::from_fn(move || {
        (at < length).then(|| {
            let offset = offset.saturating_add(at as u64);
            let page = Page { offset, length: page_room(offset).min(length - at) };
            at += page.length;
            page
        })
    })
}

/// Bytes from `offset` to the end of its page.
fn page_room(offset: u64) -> usize {
    PAGE_BYTES - (offset % PAGE_BYTES as u64) as usize
}

/// How many pages `offset..offset + length` touches.
#[must_use]
pub fn page_count(offset: u64, length: usize) -> usize {
    if length == 0 { 0 } else { ((offset % PAGE_BYTES as u64) as usize + length).div_ceil(PAGE_BYTES) }
}

/// Bytes on the wire of `length` bytes from `offset`.
#[must_use]
pub fn encoded_bytes(offset: u64, length: usize) -> usize {
    length + page_count(offset, length) * PAGE_CRC_BYTES
}

/// Bytes of data in `encoded` bytes on the wire that start at `offset`.
pub fn decoded_bytes(offset: u64, encoded: usize) -> Result<usize, Malformed> {
    let bad = Malformed::Length { what: "last page", bytes: encoded as u64 };
    let first = page_room(offset) + PAGE_CRC_BYTES;
    if encoded <= first {
        return if encoded > PAGE_CRC_BYTES { Ok(encoded - PAGE_CRC_BYTES) } else { Err(bad) };
    }
    let unit = PAGE_BYTES + PAGE_CRC_BYTES;
    let rest = encoded - first;
    let last = rest % unit;
    if last != 0 && last <= PAGE_CRC_BYTES {
        return Err(bad);
    }
    Ok(encoded - (1 + rest.div_ceil(unit)) * PAGE_CRC_BYTES)
}

/// Fills in the checksums of pages that lie at their places on the wire.
///
/// `buffer` has room for a checksum in front of each page of `offset..offset + length`.
pub fn sum_pages(offset: u64, length: usize, buffer: &mut [u8]) {
    assert_eq!(buffer.len(), encoded_bytes(offset, length), "buffer must fit data and checksums");
    for_each_group(offset, length, |pages| {
        let sums = group_sums(pages, buffer);
        for ((at, _), sum) in pages.iter().zip(sums) {
            buffer[*at..at + PAGE_CRC_BYTES].copy_from_slice(&sum.0.to_be_bytes());
        }
    });
}

/// Pages that are summed together: where each begins on the wire, with its checksum.
type Group<'a> = &'a [(usize, Page)];

/// Hands out the pages in order, three whole ones at a time where there are three.
fn for_each_group(offset: u64, length: usize, mut each: impl FnMut(Group<'_>)) {
    let mut group = [(0, Page { offset, length: 0 }); 3];
    let (mut count, mut at) = (0, 0);
    for page in pages(offset, length) {
        if page.length < PAGE_BYTES && count > 0 {
            each(&group[..count]);
            count = 0;
        }
        group[count] = (at, page);
        count += 1;
        at += PAGE_CRC_BYTES + page.length;
        if count == group.len() || page.length < PAGE_BYTES {
            each(&group[..count]);
            count = 0;
        }
    }
    if count > 0 {
        each(&group[..count]);
    }
}

/// The checksums that the pages of a group have.
fn group_sums(group: Group<'_>, buffer: &[u8]) -> [Crc32c; 3] {
    let data = |(at, page): &(usize, Page)| &buffer[at + PAGE_CRC_BYTES..at + PAGE_CRC_BYTES + page.length];
    if let [a, b, c] = group
        && let (Some(a), Some(b), Some(c)) =
            (data(a).first_chunk(), data(b).first_chunk(), data(c).first_chunk())
    {
        return base::crc_lanes::sums_of_pages([a, b, c]);
    }
    let mut sums = [Crc32c::EMPTY; 3];
    for (sum, page) in sums.iter_mut().zip(group) {
        *sum = Crc32c::of(data(page));
    }
    sums
}

/// The bytes on the wire of `data` that starts at `offset`.
#[must_use]
pub fn encode_pages(offset: u64, data: &[u8]) -> Vec<u8> {
    let mut buffer = Vec::with_capacity(encoded_bytes(offset, data.len()));
    let mut rest = data;
    for page in pages(offset, data.len()) {
        let (of_page, after) = rest.split_at(page.length);
        buffer.extend([0; PAGE_CRC_BYTES]);
        buffer.extend_from_slice(of_page);
        rest = after;
    }
    sum_pages(offset, data.len(), &mut buffer);
    buffer
}

/// Takes the checksums out in place and checks them.
///
/// Afterwards the data is at the front of `buffer`. Returns its length and the pages that do not match.
pub fn decode_in_place(offset: u64, buffer: &mut [u8]) -> Result<(usize, Vec<Page>), Malformed> {
    let length = decoded_bytes(offset, buffer.len())?;
    let (mut to, mut bad) = (0, Vec::new());
    for_each_group(offset, length, |group| {
        let sums = group_sums(group, buffer);
        for ((at, page), sum) in group.iter().zip(sums) {
            if sum.0 != u32_at(buffer, *at) {
                bad.push(*page);
            }
            let from = at + PAGE_CRC_BYTES;
            buffer.copy_within(from..from + page.length, to);
            to += page.length;
        }
    });
    Ok((length, bad))
}

/// The list of bad pages that answers a page write (spec/xrootd.md §6.3); `None` if there is none.
#[must_use]
pub fn encode_bad_pages(bad: &[Page]) -> Option<Vec<u8>> {
    let (first, last) = (bad.first()?, bad.last()?);
    let mut list = vec![0; PAGE_CRC_BYTES];
    list.extend((first.length as u16).to_be_bytes());
    list.extend((last.length as u16).to_be_bytes());
    list.extend(bad.iter().flat_map(|page| page.offset.to_be_bytes()));
    let crc = Crc32c::of(&list[PAGE_CRC_BYTES..]);
    list[..PAGE_CRC_BYTES].copy_from_slice(&crc.0.to_be_bytes());
    Some(list)
}

/// Parses the list of bad pages that answers a page write.
pub fn parse_bad_pages(list: &[u8]) -> Result<Vec<Page>, Malformed> {
    if list.is_empty() {
        return Ok(Vec::new());
    }
    if list.len() < 16 || !list.len().is_multiple_of(8) {
        return Err(Malformed::Length { what: "list of bad pages", bytes: list.len() as u64 });
    }
    if Crc32c::of(&list[PAGE_CRC_BYTES..]).0 != u32_at(list, 0) {
        return Err(Malformed::Checksum("list of bad pages"));
    }
    let ends = [super::frame::u16_at(list, 4), super::frame::u16_at(list, 6)];
    let count = list.len() / 8 - 1;
    let page = |index: usize| {
        let length = match index {
            0 => usize::from(ends[0]),
            _ if index + 1 == count => usize::from(ends[1]),
            _ => PAGE_BYTES,
        };
        Page { offset: super::frame::u64_at(list, 8 + 8 * index), length }
    };
    Ok((0..count).map(page).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn pages_round_trip(offset in 0u64..20_000, data in prop::collection::vec(any::<u8>(), 1..20_000)) {
            let mut encoded = encode_pages(offset, &data);
            prop_assert_eq!(decoded_bytes(offset, encoded.len()).unwrap(), data.len());
            let (length, bad) = decode_in_place(offset, &mut encoded).unwrap();
            prop_assert!(bad.is_empty());
            prop_assert_eq!(&encoded[..length], &data[..]);
        }

        #[test]
        fn a_flipped_bit_is_found_and_named(offset in 0u64..9000, length in 1usize..20_000, at: prop::sample::Index, bit in 0u8..8) {
            let data = vec![0x5a; length];
            let mut encoded = encode_pages(offset, &data);
            let at = at.index(encoded.len());
            encoded[at] ^= 1 << bit;
            let (_, bad) = decode_in_place(offset, &mut encoded).unwrap();
            prop_assert_eq!(bad.len(), 1);
            prop_assert!(pages(offset, length).any(|page| page == bad[0]));
            let list = encode_bad_pages(&bad).unwrap();
            prop_assert_eq!(parse_bad_pages(&list).unwrap(), bad);
        }

        #[test]
        fn lengths_agree(offset in 0u64..9000, encoded in 0usize..30_000) {
            if let Ok(length) = decoded_bytes(offset, encoded) {
                prop_assert_eq!(encoded_bytes(offset, length), encoded);
                prop_assert_eq!(pages(offset, length).count(), page_count(offset, length));
            }
        }
    }
}
