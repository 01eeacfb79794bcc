//! Which bytes of a striped file lie where, as pure arithmetic.

use base::ByteRange;

/// How a file is striped: its units go round the columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stripes {
    /// Bytes of a unit.
    pub(super) unit: u64,
    /// Columns.
    pub(super) width: u64,
}

/// Bytes that lie in one piece in one column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) column: usize,
    /// Where in the column.
    pub(super) offset: u64,
    pub(super) length: usize,
}

impl Stripes {
    /// `length` bytes from `offset` of the file on, in order.
    pub(super) fn parts(self, offset: u64, length: usize) -> impl Iterator<Item = Part> {
        let mut done = 0;
        std::iter::from_fn(move || {
            if done == length {
                return None;
            }
            let mut part = self.part(offset + done as u64);
            part.length = part.length.min(length - done);
            done += part.length;
            Some(part)
        })
    }

    /// Where the byte at `offset` lies, and how many bytes of its unit follow with it.
    fn part(self, offset: u64) -> Part {
        if self.width == 1 {
            return Part { column: 0, offset, length: usize::MAX };
        }
        let (number, within) = (offset / self.unit, offset % self.unit);
        let length = usize::try_from(self.unit - within).unwrap_or(usize::MAX);
        let offset = number / self.width * self.unit + within;
        Part { column: (number % self.width) as usize, offset, length }
    }

    /// Bytes of a column of a file of `size` bytes.
    pub(super) fn column_bytes(self, size: u64, column: usize) -> u64 {
        if self.width == 1 {
            return size;
        }
        let (units, rest) = (size / self.unit, size % self.unit);
        let (rounds, last) = (units / self.width, units % self.width);
        let more = match last.cmp(&(column as u64)) {
            std::cmp::Ordering::Less => 0,
            std::cmp::Ordering::Equal => rest,
            std::cmp::Ordering::Greater => self.unit,
        };
        rounds * self.unit + more
    }
}

impl Stripes {
    /// What of a range of the file lies in a column.
    pub(super) fn column_range(self, range: ByteRange, column: usize) -> ByteRange {
        let [offset, end] = [range.offset, range.end].map(|offset| self.column_bytes(offset, column));
        ByteRange { offset, end }
    }

    /// Where in the file the byte at `offset` of a column lies; at most the largest offset.
    pub(super) fn file_offset(self, offset: u64, column: usize) -> u64 {
        if self.width == 1 {
            return offset;
        }
        let number = (offset / self.unit).saturating_mul(self.width).saturating_add(column as u64);
        number.saturating_mul(self.unit).saturating_add(offset % self.unit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// The ranges of the columns have the bytes of a range of the file, and lie where the file has them.
        #[test]
        fn ranges_of_columns_are_those_of_the_file(unit in 1_u64..9, width in 1_u64..5, offset in 0_u64..99, length in 0_u64..99) {
            let (stripes, range) = (Stripes { unit, width }, ByteRange { offset, end: offset + length });
            let mut all = Vec::new();
            for column in 0..width as usize {
                let part = stripes.column_range(range, column);
                all.extend((part.offset..part.end).map(|at| stripes.file_offset(at, column)));
            }
            all.sort_unstable();
            prop_assert_eq!(all, (offset..offset + length).collect::<Vec<_>>());
        }

        /// Written by its parts, a file has each byte once, columns have no holes, and their sizes are those that are foretold.
        #[test]
        fn parts_fill_the_columns(unit in 1_u64..9, width in 1_u64..5, size in 0_usize..100, cut in 0_usize..100) {
            let stripes = Stripes { unit, width };
            let mut columns = vec![Vec::new(); width as usize];
            let cut = cut.min(size);
            for (start, end) in [(0, cut), (cut, size)] {
                let mut at = start;
                for part in stripes.parts(start as u64, end - start) {
                    let column = &mut columns[part.column];
                    prop_assert_eq!(column.len() as u64, part.offset);
                    column.extend(at..at + part.length);
                    at += part.length;
                }
                prop_assert_eq!(at, end);
            }
            for (index, column) in columns.iter().enumerate() {
                prop_assert_eq!(column.len() as u64, stripes.column_bytes(size as u64, index));
            }
            let mut all: Vec<_> = columns.concat();
            all.sort_unstable();
            prop_assert_eq!(all, (0..size).collect::<Vec<_>>());
        }
    }
}
