//! How a file is read, and what will probably be read next. Pure: no clock, no connection.

use base::ByteRange;

/// How a file will be read. A hint, which changes speed and never results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ReadMode {
    /// Found out from what is read.
    #[default]
    Automatic,
    /// From the start to the end: much is read ahead.
    Sequential,
    /// Here and there: nothing is read ahead.
    Random,
}

/// Bytes read ahead at first; they double with every hit.
const WINDOW_BYTES_MIN: u64 = 128 << 10;
/// Reads in a row that make a sequence.
const HITS_MIN: u32 = 2;
/// Equal strides with equal lengths that make a pattern.
const REPEATS_MIN: u32 = 3;
/// Strided reads that are asked for ahead.
const STRIDES_MAX: u64 = 64;

/// A forecast of the next reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Forecast {
    /// No forecast.
    Nothing,
    /// The bytes that follow, so many.
    Onward(u64),
    /// Ranges of the same length at equal distances, so many.
    Strided {
        /// From the start of one to the start of the next.
        stride: i64,
        /// How many.
        count: u64,
    },
}

/// The history of reads that the forecast uses.
#[derive(Debug, Default)]
pub(super) struct Pattern {
    mode: ReadMode,
    last: Option<ByteRange>,
    /// Reads in a row that began where the one before ended.
    hits: u32,
    stride: i64,
    repeats: u32,
    window: u64,
    count: u64,
}

impl Pattern {
    pub(super) fn advise(&mut self, mode: ReadMode) {
        *self = Self { mode, ..Self::default() };
    }

    /// Takes note of a read, and says what will probably follow. At most `window_max` bytes are read ahead.
    pub(super) fn note(&mut self, range: ByteRange, window_max: u64) -> Forecast {
        let last = self.last.replace(range);
        if self.mode == ReadMode::Random {
            return Forecast::Nothing;
        }
        let is_onward = last.is_some_and(|last| last.end == range.offset);
        let stride = last.map_or(0, |last| range.offset.wrapping_sub(last.offset) as i64);
        let is_repeated = stride == self.stride && last.is_some_and(|last| last.length() == range.length());
        self.repeats = if is_repeated { self.repeats + 1 } else { 0 };
        self.stride = stride;
        if is_onward || (self.mode == ReadMode::Sequential && last.is_none()) {
            self.hits += 1;
            if self.mode != ReadMode::Sequential && self.hits < HITS_MIN {
                return Forecast::Nothing;
            }
            let floor = WINDOW_BYTES_MIN.max(range.length() * 2).min(window_max);
            self.window = (self.window * 2).clamp(floor, window_max);
            return Forecast::Onward(self.window);
        }
        (self.hits, self.window) = (0, 0);
        if self.mode == ReadMode::Sequential {
            // It goes on from here; how far is to be seen.
            return Forecast::Onward(WINDOW_BYTES_MIN.min(window_max));
        }
        let count_max = (window_max / range.length().max(1)).min(STRIDES_MAX);
        // The first of equal strides has nothing to be equal to; what is longer than the window is not read ahead.
        if self.repeats + 1 < REPEATS_MIN || stride == 0 || count_max == 0 {
            self.count = 0;
            return Forecast::Nothing;
        }
        self.count = (self.count * 2).clamp(1, count_max);
        Forecast::Strided { stride, count: self.count }
    }

    /// The ranges read ahead were not used.
    pub(super) fn collapse(&mut self) {
        (self.window, self.count) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MAX: u64 = 1 << 20;

    fn note(pattern: &mut Pattern, offset: u64, length: u64) -> Forecast {
        pattern.note(ByteRange { offset, end: offset + length }, MAX)
    }

    #[test]
    fn a_sequence_is_noticed_and_its_window_doubles_up_to_the_bound() {
        let mut pattern = Pattern::default();
        let found: Vec<_> = (0..7).map(|index| note(&mut pattern, index * 100, 100)).collect();
        let ahead = |kib: u64| Forecast::Onward(kib << 10);
        assert_eq!(found[..2], [Forecast::Nothing, Forecast::Nothing]);
        assert_eq!(found[2..], [ahead(128), ahead(256), ahead(512), ahead(1024), ahead(1024)]);
        assert_eq!(note(&mut pattern, 5, 100), Forecast::Nothing);
        assert_eq!(note(&mut pattern, 105, 100), Forecast::Nothing);
        assert_eq!(note(&mut pattern, 205, 100), ahead(128));
    }

    #[test]
    fn equal_strides_are_noticed_at_the_third() {
        let mut pattern = Pattern::default();
        let found: Vec<_> = (0..6).map(|index| note(&mut pattern, index * 5000, 100)).collect();
        assert_eq!(found[..3], [Forecast::Nothing; 3]);
        let counts = [1, 2, 4].map(|count| Forecast::Strided { stride: 5000, count });
        assert_eq!(found[3..], counts);
        assert_eq!(note(&mut pattern, 5000 * 6, 99), Forecast::Nothing);
        let backwards: Vec<_> = (0..6).map(|index| note(&mut pattern, 90_000 - index * 700, 10)).collect();
        assert_eq!(backwards[5], Forecast::Strided { stride: -700, count: 4 });
    }

    #[test]
    fn advice_is_followed() {
        let mut pattern = Pattern::default();
        pattern.advise(ReadMode::Random);
        assert!((0..9).all(|index| note(&mut pattern, index * 100, 100) == Forecast::Nothing));
        pattern.advise(ReadMode::Sequential);
        assert_eq!(note(&mut pattern, 0, 100), Forecast::Onward(128 << 10));
        assert_eq!(note(&mut pattern, 7000, 100), Forecast::Onward(128 << 10));
    }

    proptest! {
        #[test]
        fn any_reads_give_bounded_forecasts(
            mode in 0u8..3, reads in prop::collection::vec((any::<u64>(), 0u64..1 << 40), 0..50), max in 1u64..1 << 30,
        ) {
            let mut pattern = Pattern::default();
            pattern.advise([ReadMode::Automatic, ReadMode::Sequential, ReadMode::Random][usize::from(mode)]);
            for (offset, length) in reads {
                let offset = offset >> 1;
                match pattern.note(ByteRange { offset, end: offset + length }, max) {
                    Forecast::Nothing => {}
                    Forecast::Onward(bytes) => prop_assert!(bytes <= max),
                    Forecast::Strided { count, .. } => prop_assert!(count <= STRIDES_MAX && count * length <= max),
                }
            }
        }
    }
}
