//! CRC-32C of three pages at once.
//!
//! The instruction that adds eight bytes to a sum takes three cycles, but the processor can begin one in each cycle. So
//! three independent sums take the time of one.

use crate::Crc32c;

/// Bytes of a page.
pub const PAGE_BYTES: usize = 4096;

/// The sum of each of three pages.
#[must_use]
pub fn sums_of_pages(pages: [&[u8; PAGE_BYTES]; 3]) -> [Crc32c; 3] {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("sse4.2") {
        #[expect(unsafe_code, reason = "the processor has the instruction: that was just asked")]
        // SAFETY: SSE 4.2 is there.
        return unsafe { three_lanes(pages) }.map(Crc32c);
    }
    pages.map(|page| Crc32c::of(page))
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse4.2")]
fn three_lanes(pages: [&[u8; PAGE_BYTES]; 3]) -> [u32; 3] {
    use std::arch::x86_64::_mm_crc32_u64;
    let [a, b, c] = pages.map(|page| page.as_chunks::<8>().0);
    let mut sums = [u64::from(u32::MAX); 3];
    for ((a, b), c) in a.iter().zip(b).zip(c) {
        sums[0] = _mm_crc32_u64(sums[0], u64::from_le_bytes(*a));
        sums[1] = _mm_crc32_u64(sums[1], u64::from_le_bytes(*b));
        sums[2] = _mm_crc32_u64(sums[2], u64::from_le_bytes(*c));
    }
    sums.map(|sum| !(sum as u32))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    #[test]
    fn three_at_once_are_as_one_by_one() {
        let mut rng = Rng::new(7);
        let mut page = || {
            let mut page = [0; PAGE_BYTES];
            page.fill_with(|| rng.below(256) as u8);
            page
        };
        for _ in 0..20 {
            let (a, b, c) = (page(), page(), page());
            assert_eq!(sums_of_pages([&a, &b, &c]), [Crc32c::of(&a), Crc32c::of(&b), Crc32c::of(&c)]);
        }
    }
}
